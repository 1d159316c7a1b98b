import inspect
import re
import subprocess
import sys

import pytest

from grokscope.papers.structural_inference import theory


def test_all_fifteen_are_there():
    assert [statement.number for statement in theory.STATEMENTS] == list(range(1, 16))
    keys = [statement.key for statement in theory.STATEMENTS]
    assert len(set(keys)) == 15
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", key) for key in keys)


@pytest.mark.parametrize("statement", theory.STATEMENTS, ids=lambda statement: statement.key)
def test_statement_is_complete(statement):
    assert statement.functions
    for name in statement.functions:
        function = getattr(theory, name)
        assert callable(function)
        assert name in theory.__all__
    for text in (statement.title, statement.sentence, statement.formula, statement.reference):
        assert text.strip()
    assert statement.sentence.endswith(".")
    assert statement.formula.count("{") == statement.formula.count("}")


def test_every_function_belongs_to_a_statement():
    named = {name for statement in theory.STATEMENTS for name in statement.functions}
    functions = {name for name in theory.__all__ if inspect.isfunction(getattr(theory, name))}
    assert functions - named == {"softmax_attention", "relu_attention"}
    assert all(f"`{name}`" in theory.__doc__ for name in functions)


def test_functions_say_where_they_come_from_and_in_what_units():
    for statement in theory.STATEMENTS:
        for name in statement.functions:
            text = inspect.getdoc(getattr(theory, name))
            assert "Units:" in text, name


@pytest.mark.parametrize("statement", theory.STATEMENTS, ids=lambda statement: statement.key)
def test_corrections_are_told_in_both_places(statement):
    documents = [inspect.getdoc(getattr(theory, name)) for name in statement.functions]
    told = any("Differs from the paper" in document for document in documents)
    assert told == bool(statement.correction)


def test_nothing_else_of_the_project_is_imported():
    script = (
        "import sys, grokscope.papers.structural_inference as home; before = set(sys.modules); "
        "import grokscope.papers.structural_inference.theory as theory; "
        "new = {m for m in set(sys.modules) - before if m.startswith('grokscope')}; "
        "assert all(m.startswith(theory.__name__) for m in new), new; "
        "assert 'jax' not in sys.modules or 'jax' in before"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
