"""Parts of the user's own: the guide runs, edits make new runs, mistakes are named."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest

import grokscope as gs
from grokscope import parts, probes
from grokscope.engine.planning import pin_spec
from grokscope.engine.program import make_member

GUIDE = Path(__file__).parent.parent / "docs" / "own-parts.md"


def test_the_guide(tmp_path):
    script = tmp_path / "mine.py"
    script.write_text("\n".join(re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)))
    done = subprocess.run(
        [sys.executable, script.name], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == [
        "larger finished",
        "['divergence', 'test_accuracy']",
        "True",
        "True",
        "[0, 100, 200]",
        "finished ['embedding', 'score', 'unembedding']",
    ], done.stderr


def half(attention, oracle):
    return attention.sum(axis=-1) / 2


def wrong_penalty(attention, oracle):
    return attention


def size(params, data):
    return jnp.linalg.norm(params["embedding"])


def wrong_measure(params, data):
    return params["embedding"]


def broken(params, data):
    return params["no such weight"]


def test_what_a_part_computes_is_its_identity(tiny, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def size(params, data):\n    return params['embedding'].sum()\n")
    spec = pin_spec(tiny.replace(training={"measures": [f"{file}:size"]}))
    assert spec.id != tiny.id
    moved = file.rename(tmp_path / "yours.py")
    assert pin_spec(tiny.replace(training={"measures": [f"{moved}:size"]})).id == spec.id
    moved.write_text("def size(params, data):\n    return params['embedding'].mean()\n")
    assert pin_spec(tiny.replace(training={"measures": [f"{moved}:size"]})).id != spec.id
    old = spec.training.measures[0].replace("mine.py", "yours.py")
    with pytest.raises(gs.SpecError, match="has changed since this run was named"):
        pin_spec(tiny.replace(training={"measures": [old]}))
    assert tiny.replace(training={"measures": [size]}).training.measures == (parts.refer(size),)


def test_wrong_shapes_are_refused(tiny, store):
    for changes, sentence in (
        ({"prior": {"kind": "custom", "rule": wrong_penalty}}, r"gives shape \(2, 1, 5\)"),
        ({"training": {"measures": [wrong_measure]}}, r"gives shape \(13, 8\); it must give a num"),
        ({"training": {"measures": [broken]}}, "failed: KeyError"),
        ({"training": {"measures": [lambda p, d: 0]}}, "has no name to refer to"),
        ({"training": {"measures": ["nowhere.py:f"]}}, "Cannot load the measure nowhere.py:f"),
        ({"prior": {"kind": "custom"}}, "a custom prior names its"),
        ({"prior": {"rule": half}}, "only used by custom"),
    ):
        with pytest.raises(gs.SpecError, match=sentence):
            make_member(pin_spec(tiny.replace(**changes)), store)


def test_a_constant_penalty_changes_nothing(tiny, store):
    """It reaches the loss, and its gradient is zero: the same weights as without."""
    spec = tiny.replace(prior={"kind": "custom", "rule": half}, training={"measures": [size]})
    plain, penalised = gs.train([tiny, spec], store, processes=1)
    for name, array in penalised.weights().items():
        np.testing.assert_allclose(array, plain.weights()[name], atol=1e-5)
    last = np.linalg.norm(penalised.weights()["embedding"])
    assert penalised.curve["size"][-1] == pytest.approx(last, rel=1e-5)


def test_data_files(tmp_path, store, tiny):
    rng = np.random.default_rng(0)
    digits = rng.integers(0, 5, size=(60, 2))
    frame = pl.DataFrame(
        {"t0": digits[:, 0], "t1": digits[:, 1], "t2": 5, "label": digits.sum(axis=1) % 5}
    )
    path = tmp_path / "mine.csv"
    frame.write_csv(path)
    task = gs.data_task(path, train_fraction=0.5)
    data = gs.build_task(task, seed=1)
    assert (len(data.train), len(data.test), data.vocabulary, data.classes) == (30, 30, 6, 5)
    assert not data.structured
    spec = tiny.replace(task=task)
    (run,) = gs.train(spec, store, processes=1)
    assert "divergence" not in run.curve.columns
    assert "attention_entropy" in run.curve.columns
    with pytest.raises(gs.SpecError, match="does not name"):
        gs.train(spec.replace(**{"prior.kind": "oracle"}), store, processes=1)
    frame.with_columns(t2=pl.lit(0)).write_csv(path)
    with pytest.raises(gs.SpecError, match="has changed since"):
        gs.build_task(task)
    with pytest.raises(gs.SpecError, match="must be the same in every example and the largest"):
        gs.train(tiny.replace(task=gs.data_task(path)), store, processes=1)
    for columns, sentence in (
        (frame.drop("label"), "column `label`"),
        (frame.drop("t0", "t1", "t2"), "no examples"),
        (frame.with_columns(split=pl.lit("train")), "each at least once"),
        (frame.with_columns(informative=pl.lit("7")), "positions from 0 to 2"),
        (frame.with_columns(label=pl.lit(-1)), "count from 0"),
    ):
        columns.write_csv(path)
        with pytest.raises(gs.SpecError, match=sentence):
            gs.build_task(gs.data_task(path))
    with pytest.raises(gs.SpecError, match=r"\.parquet or \.csv"):
        gs.TaskSpec(kind="data", source="mine.txt") and gs.RunSpec(
            task=gs.TaskSpec(kind="data", source="mine.txt")
        )
    with pytest.raises(gs.SpecError, match="no effect on data of your own"):
        gs.RunSpec(task=gs.TaskSpec(kind="data", source="mine.csv", alphabet=3))


def count_weights(run, epoch):
    count_weights.calls = getattr(count_weights, "calls", 0) + 1
    return {"count": sum(array.size for array in run.weights(epoch).values())}


def test_probes_are_taken_once(tiny, store):
    (run,) = gs.train(tiny.replace(**{"training.snapshots": 2}), store, processes=1)
    table = probes.take(run, count_weights)
    assert table["epoch"].to_list() == [0, 50, 100]
    assert table["count"].unique().to_list() == [sum(a.size for a in run.weights().values())]
    before = count_weights.calls
    assert probes.take(run, count_weights).equals(table)
    assert count_weights.calls == before
    both = probes.take_all([run], count_weights, store, executor=gs.InProcess())
    assert both["run"].unique().to_list() == [run.id]
    assert store.verify() == []
    for probe, sentence in (
        (lambda run, epoch: {}, "must give numbers by name|has no name"),
        (fails, "failed on run"),
    ):
        with pytest.raises(gs.SpecError, match=sentence):
            probes.take(run, probe)


def test_a_probe_is_taken_again_if_its_helper_changes(tiny, store, tmp_path):
    (run,) = gs.train(tiny, store, processes=1)
    for file, step in ((tmp_path / "one.py", 1), (tmp_path / "two.py", 2)):
        file.write_text(
            f"def helper(run):\n    return {step}\n\n\n"
            "def probe(run, epoch):\n    return {'step': helper(run)}\n"
        )
    first = probes.take(run, f"{tmp_path / 'one.py'}:probe")
    (tmp_path / "two.py").replace(tmp_path / "one.py")
    second = probes.take(run, f"{tmp_path / 'one.py'}:probe")
    assert (first["step"][-1], second["step"][-1]) == (1.0, 2.0)


def fails(run, epoch):
    raise RuntimeError("no")
