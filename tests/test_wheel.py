"""The built package, installed into an empty directory, has all that it needs."""

from __future__ import annotations

import ast
import itertools
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

pytest.importorskip("hatchling")

ROOT = Path(__file__).parent.parent
WHERE_IT_RUNS = {"IPython", "pytorch_lightning"}  # imported only by who has it
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


def test_every_package_that_is_imported_is_asked_for():
    """What is imported anywhere in the package is a dependency, of itself or of an extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = itertools.chain(*project["optional-dependencies"].values())
    wanted = [*project["dependencies"], *extras]
    asked = {re.split(r"[^\w.-]", name)[0].lower().replace("_", "-") for name in wanted}
    imported = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add((node.module or "").partition(".")[0])
    homes = packages_distributions()
    missing = [
        name
        for name in imported - set(sys.stdlib_module_names) - {"grokscope", *WHERE_IT_RUNS}
        if not asked & {home.lower().replace("_", "-") for home in homes.get(name, [name])}
    ]
    assert not missing
