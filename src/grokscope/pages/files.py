"""Writing charts and pages: PNG, SVG, HTML or Vega-Lite JSON, without a browser or a network."""

from __future__ import annotations

import json
import re
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import Any

import altair as alt
import jinja2
import vl_convert

from grokscope.draw.theme import theme
from grokscope.errors import SpecError
from grokscope.store.files import write_file

SUFFIXES = (".png", ".svg", ".pdf", ".html", ".json")


def save_chart(chart: alt.TopLevelMixin, path: str | Path) -> Path:
    """Write a chart in the format of the path's suffix: .png (twice the size, for sharp print),
    .svg, .pdf, .html (self-contained, interactive) or .json (Vega-Lite)."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise SpecError(
            f"A figure cannot be written as {path.name!r}; end the name in {', '.join(SUFFIXES)}."
        )
    spec = chart.to_dict(validate=False)  # vl-convert refuses what is not Vega-Lite
    if suffix == ".png":
        data = vl_convert.vegalite_to_png(spec, vl_version=grammar_version(), scale=2)
    elif suffix == ".svg":
        data = vl_convert.vegalite_to_svg(spec, vl_version=grammar_version()).encode()
    elif suffix == ".pdf":
        data = vl_convert.vegalite_to_pdf(spec, vl_version=grammar_version())
    elif suffix == ".html":
        themes = script_json({"light": theme(), "dark": theme(dark=True)})
        page = template("chart.html").render(
            bundle=vega_bundle(), spec=script_json(spec), themes=themes
        )
        data = page.encode()
    else:
        data = (json.dumps(spec, indent=1) + "\n").encode()
    return write_file(path, data)


def render_svg(chart: alt.TopLevelMixin) -> str:
    """A chart in the theme, as SVG. The names of its parts are counted from zero, so that the same
    chart always gives the same text."""
    spec = chart.to_dict(validate=False)
    spec["config"] = {**theme(), "aria": False}
    text = vl_convert.vegalite_to_svg(spec, vl_version=grammar_version())
    for number, name in enumerate(dict.fromkeys(re.findall(r'id="([^"]+)"', text))):
        text = re.sub(rf'(id="|#){re.escape(name)}(?=["\)])', rf"\g<1>part{number}", text)
    return text


def write_between(path: Path, begin: str, end: str, text: str) -> Path:
    """Replace what stands between two marks of a text file."""
    old = path.read_text()
    if old.count(begin) != 1 or old.count(end) != 1:
        raise SpecError(f"{path} needs the two lines {begin} and {end}, each once.")
    before, rest = old.split(begin)
    return write_file(path, f"{before}{begin}\n{text}{end}{rest.split(end)[1]}".encode())


def grammar_version() -> str:
    """The Vega-Lite version that Altair writes, as vl-convert names it."""
    return ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])


@cache
def vega_bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, which puts `vegaEmbed` on the window."""
    snippet = "window.vegaEmbed = vegaEmbed;"
    return vl_convert.javascript_bundle(snippet, vl_version=grammar_version())


def script_json(value: Any) -> str:
    """JSON that is safe inside a script element: no text can close it or open a comment."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@cache
def template(name: str, package: str = "grokscope.pages.assets", **filters: Any) -> jinja2.Template:
    """A template of a package. Whatever is put into an HTML page is escaped unless marked safe;
    one of Markdown has a filter for that."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(partial(read_resource, package=package)),
        autoescape=name.endswith(".html"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= filters
    return environment.get_template(name)


def read_resource(name: str, package: str = "grokscope.pages.assets") -> str:
    return (resources.files(package) / name).read_text(encoding="utf-8")
