"""The built package, installed into an empty directory, has all that it needs."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("hatchling")

ROOT = Path(__file__).parent.parent
CODE = """
import json, sys
from importlib import resources
import grokscope as gs
from grokscope import cli
from grokscope.draw.glossary import columns
from grokscope.pages.files import template
from grokscope.papers import PAPERS, find_paper
assert gs.__file__.startswith(sys.argv[1]), gs.__file__
for name in ("page.html", "chart.html"):
    template(name)
assert columns() and all(find_paper(name).studies for name in PAPERS)  # glossary, prose.toml
assert (resources.files("grokscope.lab") / "static" / "lab.html").is_file()
assert cli.run(["recipes", "smoke"]) == 0 and cli.run(["train", "smoke", "--dry-run"]) == 0
"""


def test_the_wheel_is_whole(tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    source = ROOT / "src"
    ours = {
        path.relative_to(source).as_posix()
        for path in (source / "grokscope").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("grokscope/")}
    assert packed == ours
    place = tmp_path / "clean"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", place, wheel], check=True, capture_output=True)
    environment = {**os.environ, "PYTHONPATH": str(place)}
    done = subprocess.run(
        [sys.executable, "-c", CODE, place],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "to train" in done.stdout
    assert (place / "bin" / "grokscope").exists()
