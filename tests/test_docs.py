"""The documentation site builds, has no broken link, and asks nobody for anything."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import grokscope as gs
from grokscope import cli

ROOT = Path(__file__).parent.parent


def test_the_site_builds(tmp_path):
    pytest.importorskip("zensical")
    pytest.importorskip("nbformat")
    command = [sys.executable, ROOT / "docs" / "site.py", tmp_path / "site"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    names = {page.relative_to(tmp_path / "site").as_posix() for page in pages}
    assert {"index.html", "first-hour.html", "api.html", "contributing.html"} <= names
    assert {"notebooks/1_watch_one_grok.html", "structural-inference.html"} <= names
    assert "Train what the store does not have yet" in (tmp_path / "site/api.html").read_text()
    for page in pages:
        loaded = re.findall(
            r"<(?:script|link|img)\b[^>]*?(?:src|href)=\"?(https?://[^\" >]+)", page.read_text()
        )
        assert not [url for url in loaded if "canonical" not in url], page


def test_nothing_is_missing_from_the_site():
    """Every page is in the navigation, every public name on the page about Python."""
    pages = {page.name for page in (ROOT / "docs").glob("*.md")}
    assert pages <= set(re.findall(r"[\w-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    words = set(re.findall(r"\w+", (ROOT / "docs" / "api.md").read_text()))
    assert set(gs.__all__) <= words


def test_a_broken_link_is_an_error(tmp_path, monkeypatch):
    pytest.importorskip("zensical")
    pytest.importorskip("nbformat")
    import importlib.util

    found = importlib.util.spec_from_file_location("documentation", ROOT / "docs" / "site.py")
    assert found is not None
    site = importlib.util.module_from_spec(found)
    assert found.loader is not None
    found.loader.exec_module(site)

    def gather(place):
        place.mkdir()
        (place / "index.md").write_text("[nowhere](nowhere.md)")

    monkeypatch.setattr(site, "gather", gather)
    assert site.main(tmp_path / "site") != 0


def test_the_page_of_columns_is_what_the_command_prints(capsys):
    assert cli.run(["columns", "--markdown"]) == 0
    assert (ROOT / "docs" / "columns.md").read_text() == capsys.readouterr().out


def test_a_spec_as_a_file_is_as_described(tmp_path):
    """The TOML of docs/sweeps.md is a spec with six runs."""
    from grokscope.spec import load_source, sweep

    (block,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs/sweeps.md").read_text(), re.DOTALL)
    (tmp_path / "mine.toml").write_text(block.replace("weight_decay", "weight-decay"))
    assert len(sweep(*load_source(str(tmp_path / "mine.toml")))) == 6
