"""What must outlive every rebuilding: names of runs, stores of version 0.1.0, and the numbers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import load_file

import grokscope as gs
from golden.cases import make_specs
from grokscope.engine.compilation import default_options

HERE = Path(__file__).parent
RESULTS = HERE.parent.parent / "results"
FINISHED, PARTIAL, FAILED = "ed1fef75bb4599d0", "dd43e2b52172b699", "ec39a675b4dad011"

# One case per compiled program; `python -m golden.record` trains them all. They agree to 1e-5 if
# they are compiled as users have them, and only then: see `optimised`.
TRAINED = ("noise", "stream", "block-pre-norm", "two-layers", "muon", "teacher", "oracle")
# Since then the first layer of deeper models is looked up, so its sums come in another order. All
# that they measure still agrees to 1e-5 at epoch 50, except for the largest gradient on any single
# logit of two layers: 1.9 times that. So little is not determined by the spec: initial weights that
# are scaled by one unit in the last place move the same number by 1.7 (up) and 3.4 times (down).
ROUNDED = {("two-layers", "logit_gradient_max"): 1e-4}


@pytest.fixture(scope="module")
def specs():
    return make_specs()


@pytest.fixture(scope="module")
def curves() -> pl.DataFrame:
    return pl.read_parquet(HERE / "runs" / "curves.parquet")


def test_names_of_golden_runs(specs, curves):
    named = dict(curves.select("case", "run").unique().iter_rows())
    assert {case: spec.id for case, spec in specs.items()} == named


def test_names_of_committed_runs():
    tables = sorted(RESULTS.glob("*/*/runs.parquet"))
    assert len(tables) >= 2
    for table in tables:
        for run, spec in pl.read_parquet(table).select("run", "spec").iter_rows():
            changed = json.loads(spec)  # tables of other kinds of runs name the kind
            assert gs.KINDS[changed.pop("kind", "routing")]().replace(**changed).id == run


@pytest.fixture
def old_store(tmp_path: Path) -> gs.Store:
    return gs.Store(shutil.copytree(HERE / "store", tmp_path / "runs"))


def test_old_store_opens(old_store):
    assert [p.kind for p in old_store.verify()] == ["partial"]
    statuses = {run.id: run.status for run in old_store.runs()}
    assert len(statuses) == 4
    assert statuses[FAILED] == "failed"
    run = old_store.get(FINISHED)
    assert run.curve["epoch"].to_list() == list(range(0, 101, 10))
    assert run.snapshots == [0, 50]
    assert run.weights(50).keys() == run.weights().keys()


def test_old_run_certifies(old_store):
    assert len(gs.certify(old_store.get(FINISHED)))


def test_old_run_resumes(old_store):
    partial = old_store.get(PARTIAL)
    before = partial.curve
    events = []
    (run,) = gs.train(partial.spec, old_store, sinks=events.append)
    resumed = [event for event in events if event.kind == "resumed"]
    assert [event.epoch for event in resumed] == [before["epoch"][-1]]
    assert run.status == "finished"
    assert run.curve.head(len(before)).equals(before)
    assert len(run.provenance["segments"]) == 2


@pytest.mark.usefixtures("optimised")
def test_numbers(specs, curves, tmp_path):
    """Up to epoch 50, as version 0.1.0 had them. On other machines last digits may differ."""
    weights = load_file(HERE / "runs" / "weights.safetensors")
    runs = gs.train([specs[case] for case in ("oracle", *TRAINED)], tmp_path / "runs")
    for case, run in zip(("oracle", *TRAINED), runs, strict=True):
        known = curves.filter(pl.col("case") == case, pl.col("epoch") <= 50)
        curve = run.curve.filter(pl.col("epoch") <= 50)
        for name in known.columns[2:]:
            expected = known[name].to_numpy()
            size = max(np.nanmax(np.abs(expected), initial=0), 1e-3)
            tolerance = ROUNDED.get((case, name), 1e-5)
            np.testing.assert_allclose(
                curve[name].to_numpy(),
                expected,
                rtol=tolerance,
                atol=tolerance * size,
                err_msg=f"{case} {name}",
            )
        for name, array in run.weights().items():
            np.testing.assert_allclose(array, weights[f"{case}:{name}"], atol=1e-4, err_msg=case)


def test_a_half_done_run_keeps_its_compiler_options(old_store, tiny):
    """Options change last bits, so a run that was begun without them ends without them."""
    (resumed,) = gs.train(old_store.get(PARTIAL).spec, old_store, processes=1)
    assert [segment.get("compiler", {}) for segment in resumed.provenance["segments"]] == [{}, {}]
    (fresh,) = gs.train(tiny, old_store, processes=1)
    assert fresh.provenance["segments"][0]["compiler"] == default_options()
