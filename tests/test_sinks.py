"""Trackers get every row: read back from what their own back ends write on this machine."""

from __future__ import annotations

import json
import math
import os
import struct
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

import grokscope as gs
from grokscope import sinks
from grokscope.engine.events import Event
from grokscope.errors import SpecError

TELL = """
import json, pathlib, sys
from grokscope import sinks
from grokscope.engine.events import Event
tracker, store = sys.argv[1:]
tell = getattr(sinks, tracker)("grokking", store)
for line in sys.stdin:
    tell(Event.from_json(line))
if tracker == "trackio":
    from trackio.sqlite_storage import SQLiteStorage as Kept
    rows = {run: Kept.get_logs("grokking", run) for run in Kept.get_runs("grokking")}
    pathlib.Path("rows.json").write_text(json.dumps(rows))
"""


@pytest.fixture(scope="module")
def tracked(tiny, tmp_path_factory):
    """Two runs of the lab and two that were observed, told to TensorBoard, and their events for the
    trackers that need a process of their own: they start services and threads, and one that hangs
    must not hang the suite."""
    home, events = tmp_path_factory.mktemp("tracked"), []
    store = gs.Store(home / "runs")
    board = [sinks.tensorboard(home / "board", store)] if find_spec("tensorboard") else []
    told = [*board, events.append]
    runs = gs.train(gs.sweep(tiny, {"seed": [0, 1]}), store, processes=1, sinks=told)
    if find_spec("torch") and find_spec("transformers"):
        runs = [*runs, *(observe(seed, store, told) for seed in (0, 1))]
    return runs, home, events


def observe(seed, store, told):
    """A PyTorch model that is trained elsewhere and watched."""
    import torch

    from bridge.small_models import LENGTH, VOCABULARY, NanoGPT

    torch.manual_seed(seed)
    model, tokens = NanoGPT(), torch.randint(0, VOCABULARY, (6, LENGTH))
    optimiser = torch.optim.AdamW(model.parameters(), 1e-2)
    options = {"query": -1, "informative": [0, 2], "test": tokens, "settings": {"width": 16}}
    observer = gs.watch(model, seed=seed, every=2, store=store, sinks=told, **options)
    for step in range(7):
        observer.step(step, tokens)
        optimiser.zero_grad()
        model(tokens, tokens)[1].backward()
        optimiser.step()
    return observer.finish()


def tell_elsewhere(tracker, tracked):
    """Another process that tells a tracker what the runs told us, offline."""
    pytest.importorskip(tracker)
    _, home, events = tracked
    settings = {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "TRACKIO_DIR": str(home)}
    subprocess.run(
        [sys.executable, "-c", TELL, tracker, str(home / "runs")],
        input="".join(event.to_json() + "\n" for event in events),
        env={**os.environ, **settings},
        cwd=home,
        text=True,
        check=True,
        timeout=150,
    )


def check(rows, run):
    """Rows of a tracker, as (epoch, numbers), against the curve."""
    assert [epoch for epoch, _ in rows] == run.curve["epoch"].to_list()
    for name in ("train_loss", "test_accuracy", "divergence"):
        values = [numbers[name] for _, numbers in rows]
        np.testing.assert_allclose(values, run.curve[name].to_numpy(), rtol=1e-6)
    first = [numbers["attention/0"] for _, numbers in rows]
    np.testing.assert_allclose(first, run.curve["attention"].list.first(), rtol=1e-6)


def test_tensorboard(tracked):
    """By TensorBoard's own reader."""
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util import tensor_util

    for run in tracked[0]:
        reader = EventAccumulator(str(tracked[1] / "board" / run.id), {"tensors": 0})
        reader.Reload()
        found: dict = {}
        for name in reader.Tags()["tensors"]:
            for event in reader.Tensors(name):
                value = tensor_util.make_ndarray(event.tensor_proto).item()
                found.setdefault(event.step, {})[name] = value
        check(list(found.items()), run)


def test_wandb_offline(tracked):
    """From the files that `wandb sync` would send."""
    tell_elsewhere("wandb", tracked)
    from wandb.proto import wandb_internal_pb2

    for run in tracked[0]:
        (path,) = tracked[1].glob(f"wandb/offline-run-*-{run.id}/*.wandb")
        rows, about = [], {}
        for data in read_log(path.read_bytes()):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            items = record.history.item
            named = {(i.key or "/".join(i.nested_key)): json.loads(i.value_json) for i in items}
            rows += [(named["epoch"], named)] if items else []
            about |= {i.key: json.loads(i.value_json) for i in record.run.config.update}
        check(rows, run)
        assert about.items() >= run.about.changed().items() > set()


def read_log(data):
    """Records of a LevelDB log (seven bytes of W&B's own come first)."""
    place, whole = 7, b""
    while place + 7 <= len(data):
        if 32768 - place % 32768 < 7:  # the rest of a block is empty
            place += 32768 - place % 32768
            continue
        length, kind = struct.unpack_from("<HB", data, place + 4)
        whole += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # full, or last part
            yield whole
            whole = b""


def test_trackio(tracked):
    """From Trackio's own database, by its own reader."""
    tell_elsewhere("trackio", tracked)
    rows = json.loads((tracked[1] / "rows.json").read_text())
    for run in tracked[0]:
        check([(row["step"], row) for row in rows[run.id]], run)


def test_what_is_sent():
    """Numbers and short lists; nothing for runs without rows; a run that failed is closed."""
    told, closed = [], []

    def open_run(name, config):
        log = lambda epoch, row: told.append((name, epoch, row))  # noqa: E731
        return sinks.Channel(log, lambda: closed.append(name))

    sink = sinks._track(open_run, None)
    sink(Event("skipped", "a"))
    sink(Event("started", "b"))
    row = {"epoch": 3, "loss": math.nan, "by": [1.0, 2.0], "long": [0.0] * 99, "none": None}
    sink(Event("advanced", "b", rows=[row]))
    sink(Event("failed", "b"))
    assert len(told) == 1
    name, epoch, sent = told[0]
    assert (name, epoch, set(sent), sent["by/1"]) == ("b", 3, {"loss", "by/0", "by/1"}, 2.0)
    assert closed == ["b"]


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    with pytest.raises(SpecError, match="pip install wandb"):
        sinks.wandb("grokking")
