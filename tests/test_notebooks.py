"""The notebooks in examples/ run, and are committed as they ran."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

PATHS = sorted((Path(__file__).parent.parent / "examples").glob("*.ipynb"))


@pytest.mark.filterwarnings("ignore")  # of the client's own libraries
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_it_runs(path, tmp_path, monkeypatch):
    if "pytorch" in path.stem:
        pytest.importorskip("torch")
    monkeypatch.setenv("GROKSCOPE_STORE", str(tmp_path / "runs"))
    book = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(book, timeout=180, resources={"metadata": {"path": tmp_path}}).execute()
    outputs = [out for cell in book.cells for out in cell.get("outputs", ())]
    assert not [out for out in outputs if out.output_type == "error"]
    assert any("image/svg+xml" in out.get("data", {}) for out in outputs)


def test_three_are_committed_with_their_outputs():
    assert len(PATHS) == 3
    for path in PATHS:
        text = path.read_text()
        assert len(text) < 300_000
        assert not re.search(r"https?://|cdn|/tmp/|/home/|/root/|Traceback", _without_svg(text))
        book = nbformat.reads(text, as_version=4)
        code = [cell for cell in book.cells if cell.cell_type == "code"]
        assert all(cell.execution_count for cell in code)


def _without_svg(text: str) -> str:
    """Pictures name the SVG standard by its address."""
    return re.sub(r"http://www\.w3\.org[^\"\\]*", "", text)
