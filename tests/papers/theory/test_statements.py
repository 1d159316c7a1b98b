import inspect
import re

import pytest

from grokscope.papers.structural_inference import theory


def test_all_fifteen_are_there():
    assert [statement.number for statement in theory.STATEMENTS] == list(range(1, 16))
    keys = [statement.key for statement in theory.STATEMENTS]
    assert len(set(keys)) == 15
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", key) for key in keys)


@pytest.mark.parametrize("statement", theory.STATEMENTS, ids=lambda statement: statement.key)
def test_statement_is_complete(statement):
    """In words and in code, with units and with what differs from the paper."""
    assert statement.functions
    for text in (statement.title, statement.sentence, statement.formula, statement.reference):
        assert text.strip()
    assert statement.sentence.endswith(".")
    assert statement.formula.count("{") == statement.formula.count("}")
    documents = [inspect.getdoc(function) for function in statement.functions.values()]
    assert all("Units:" in document for document in documents)
    told = [document for document in documents if "Differs from the paper" in document]
    assert len(statement.corrections) == len(told)
    assert all(text.endswith((".", '."')) for text in statement.corrections.values())


def test_every_function_belongs_to_a_statement():
    named = {name for statement in theory.STATEMENTS for name in statement.functions}
    modules = (theory.conditions, theory.decay, theory.divergence, theory.geometry, theory.gradient)
    functions = {
        name
        for module in modules
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and name[0] != "_"
    }
    assert functions - named == {"softmax_attention", "relu_attention"}
