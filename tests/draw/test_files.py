from __future__ import annotations

import json
import re

import pytest

from grokscope.draw.charts import CHARTS
from grokscope.errors import SpecError, StoreError
from grokscope.pages.files import save_chart, script_json
from grokscope.pages.reading import group_runs


def fetched(html: str) -> list[str]:
    """Everything a browser would go and get."""
    outside = re.sub(r"(<script\b[^>]*>).*?</script>", r"\1", html, flags=re.DOTALL)
    tags = re.findall(r"<[a-z]+\b[^>]*\s(?:src|href)\s*=[^>]*>", outside)
    return tags + re.findall(r"@import|url\([^)]*\)", outside)


@pytest.fixture
def chart(make_run):
    return CHARTS["accuracy"](group_runs([make_run()]))


def test_html_is_self_contained(chart, tmp_path):
    html = save_chart(chart, tmp_path / "f.html").read_text()
    assert fetched(html) == []
    assert not re.search(r"cdn|unpkg|jsdelivr", html, re.IGNORECASE)
    assert html.count("window.vegaEmbed") == 1
    spec = re.search(r'<script id="chart" type="application/json">(.*?)</script>', html).group(1)
    assert json.loads(spec) == chart.to_dict()
    assert len(html) < 1_500_000


def test_fetched_finds_what_would_be_fetched():
    assert fetched('<script defer src="https://x.org/v.js"></script>')
    assert fetched("a { background: url('https://x.org/a.png') }")
    assert not fetched('<script>"https://vega.github.io/schema"</script>')


def test_json_is_vega_lite(chart, tmp_path):
    spec = json.loads(save_chart(chart, tmp_path / "f.json").read_text())
    assert "vega-lite" in spec["$schema"]
    assert len(spec["datasets"]["train_accuracy_0"]) == 21


def test_suffix_is_not_case_sensitive(chart, tmp_path):
    assert save_chart(chart, str(tmp_path / "f.SVG")).read_text().startswith("<svg")


@pytest.mark.parametrize("name", ["figure.gif", "figure", "figure.png.txt"])
def test_other_suffixes_are_refused(chart, tmp_path, name):
    with pytest.raises(SpecError, match=r"\.png, \.svg, \.pdf, \.html, \.json"):
        save_chart(chart, tmp_path / name)
    assert list(tmp_path.glob("figure*")) == []


def test_unwritable_places_are_a_sentence(chart, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="Cannot write"):
        save_chart(chart, tmp_path / "file" / "f.svg")
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(StoreError, match="Cannot write"):
        save_chart(chart, tmp_path / "folder.svg")
    assert not list(tmp_path.glob(".*"))  # nothing half-written is left


def test_json_in_a_script_cannot_close_it():
    text = script_json({"a": "</script><!-- \u2028"})
    assert "<" not in text
    assert json.loads(text) == {"a": "</script><!-- \u2028"}
