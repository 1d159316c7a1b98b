"""The public surface: what is promised is there, and nothing is promised twice."""

from __future__ import annotations

import subprocess
import sys

import pytest

import grokscope as gs


def test_every_public_name_resolves():
    for name in gs.__all__:
        if name == "watch":
            pytest.importorskip("torch")
        assert getattr(gs, name) is not None, name
    assert set(gs.__all__) <= set(dir(gs))
    with pytest.raises(AttributeError, match="attribute trian"):
        _ = gs.trian


def test_importing_is_cheap():
    """The package brings in none of the heavy libraries, stores and specs none of the figures."""
    code = "import sys, grokscope; print(*sys.modules)\n"
    code += "import grokscope.store, grokscope.spec; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, then = (set(line.split()) for line in done.stdout.splitlines())
    assert "grokscope" in first
    assert not first & {"jax", "numpy", "polars", "altair", "scipy", "tyro", "rich"}
    assert "grokscope.store" in then
    assert not then & {"altair", "vl_convert", "grokscope.draw.charts"}


def test_theory_stands_alone():
    """It imports no other room, so that it can be used anywhere."""
    code = "import sys, grokscope.papers.structural_inference.theory; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    loaded = set(done.stdout.split())
    assert "jax" not in loaded
    ours = {name for name in loaded if name.startswith("grokscope.")}
    home = "grokscope.papers.structural_inference"
    assert {name for name in ours if not home.startswith(name)} == {
        name for name in ours if name.startswith(f"{home}.theory")
    }


def test_the_core_needs_no_torch():
    paper = "grokscope.papers.structural_inference.paper"
    code = f"import sys, grokscope.engine, {paper}, grokscope.draw.charts; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "grokscope" in done.stdout
    assert "torch" not in done.stdout.split()


def test_the_bridge_says_what_it_needs():
    code = "import sys; sys.modules['torch'] = None; import grokscope; import grokscope.bridge"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode != 0
    assert "pip install '.[torch]'" in done.stderr
