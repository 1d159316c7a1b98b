"""The package keeps to the size that was set for it, so that a person can read all of it."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

import grokscope

HOUSE, PAPER = 16_000, 2_500  # lines of code; the house has the first paper inside
QUIET = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    tokenize.ENDMARKER,
}
ROOT = Path(grokscope.__file__).parent


def lines_of_code(text: str) -> int:
    """Without blank lines, comments and docstrings, those under fields included."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    code = {n for t in tokens if t.type not in QUIET for n in range(t.start[0], t.end[0] + 1)}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            code -= set(range(node.lineno, node.end_lineno + 1))
    return len(code)


def count(folder: Path) -> int:
    return sum(lines_of_code(path.read_text()) for path in folder.rglob("*.py"))


def test_what_counts_as_a_line_of_code() -> None:
    field = '"""Doc."""\n\n# why\nx = 1\n"""Of x,\nin words."""\n'
    text = field + 'def f():\n    """Doc."""\n    return (\n        x\n    )\n'
    assert lines_of_code(text) == 5


def test_the_package_keeps_its_budget() -> None:
    further = [p for p in (ROOT / "papers").iterdir() if p.is_dir() and (p / "paper.py").exists()]
    sizes = {paper.name: count(paper) for paper in further}
    del sizes["structural_inference"]
    assert max(sizes.values()) <= PAPER, sizes
    assert count(ROOT) <= HOUSE + PAPER * len(sizes)
