"""Errors, crashes and power losses at every operation on files."""

from __future__ import annotations

import random
import shutil

import pytest

import grokscope as gs
from grokscope.engine import training
from hardening.faults import (
    FAULTS,
    Crash,
    FaultyDisk,
    Operation,
    RecordingDisk,
    after_loss,
    lay_out,
    under,
)
from hardening.loop import SPEC, assert_sound, content_of, train_plainly


def count_operations(work) -> int:
    with under(FaultyDisk(-1, "crash")) as disk:
        work()
    return disk.count


@pytest.mark.parametrize("fault", FAULTS)
def test_every_operation_may_fail(tmp_path, fault):
    """Every second operation here, so that each meets two or three faults; `hardening.everything`
    tries all."""
    try_operations(tmp_path, fault, slice(FAULTS.index(fault) % 2, None, 2))


def try_operations(tmp_path, fault, which=slice(None)) -> None:
    """An error is a sentence; what had ended stays as it was; nothing half-done is believed; the
    same call afterwards comes to the same run."""
    done = SPEC.replace(seed=1)
    base = gs.Store(tmp_path / "base")
    with under(FaultyDisk(-1, fault)):
        train_plainly(base, done)
    before = content_of(base.find(done).path)
    operations = count_operations(lambda: train_plainly(gs.Store(tmp_path / "counted")))
    assert operations > 40
    for at in range(operations)[which]:
        store = gs.Store(shutil.copytree(base.root, tmp_path / f"{at}"))
        with under(FaultyDisk(at, fault)):
            try:
                train_plainly(store)
                failed = False
            except (gs.StoreError, Crash) as error:
                failed = isinstance(error, Crash) or "Nothing finished is lost" in str(error)
        run = store.find(SPEC)
        assert run.ended or failed, f"operation {at} failed without a word"
        if run.ended:
            assert run.outcome["status"] == "finished"
        assert all(d.kind in ("partial", "leftover", "foreign") for d in store.verify())
        with under(FaultyDisk(-1, fault)):
            assert_sound(store)
        assert content_of(store.find(done).path) == before
        shutil.rmtree(store.root)


@pytest.mark.parametrize("eager", [False, True])
def test_the_power_may_go_at_any_moment(tmp_path, eager):
    """What was said to have ended is there, whole; everything else is trained again."""
    store = gs.Store(tmp_path / "store")
    store.root.mkdir()
    with under(RecordingDisk()) as disk:
        train_plainly(store)
    final = [o.other.name if o.kind == "rename" else "" for o in disk.done].index("outcome.json")
    for at in range(len(disk.done) + 1):
        left = after_loss(disk.done[:at], store.root, eager)
        rest = gs.Store(tmp_path / f"{at}")
        lay_out(left, store.root, rest.root)
        ended = rest.find(SPEC).ended
        assert ended == (at > final) if eager else ended <= (at > final)
        if at > final + 1:  # the directory has been synced: `finish` is about to return
            assert ended
        if ended:
            assert rest.verify() == []
        with under(FaultyDisk(-1, "crash")):
            assert_sound(rest)
        shutil.rmtree(rest.root)


@pytest.mark.parametrize("eager", [False, True])
def test_a_resume_point_survives_the_power(tmp_path, eager):
    """Once the first resume point is written, no loss takes a run back to its beginning."""
    store = gs.Store(tmp_path / "store")
    store.root.mkdir()
    with under(RecordingDisk()) as disk:
        train_plainly(store)
    renames = [i for i, o in enumerate(disk.done) if o.kind == "rename"]
    points = [i for i in renames if disk.done[i].other.name == "resume.safetensors"]
    for number, at in enumerate(points):
        until = points[number + 1] if number + 1 < len(points) else at + 8
        left = after_loss(disk.done[: max(until, at + 4)], store.root, eager)
        rest = gs.Store(tmp_path / f"{number}")
        lay_out(left, store.root, rest.root)
        state, curve, _ = rest.load_progress(rest.find(SPEC))
        assert int(state["step"]) == curve["epoch"][-1] >= (10 * number if eager else 0)


@pytest.mark.parametrize("there", [0, 1, 2])
def test_new_directories_survive_the_power(tmp_path, there):
    """Whichever of them were there before."""
    places = [tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "runs"]
    for place in places[:there]:
        place.mkdir()
    with under(RecordingDisk()) as disk:
        train_plainly(gs.Store(places[-1]))
    known = [Operation("make", place) for place in places[:there]]
    known += [Operation("sync", place.parent) for place in places[:there]]
    left = after_loss([*known, *disk.done], tmp_path, eager=False)
    assert left[places[-1] / SPEC.id / "outcome.json"]


def try_real_run(spec, folder, at, fault, whole) -> None:
    """One fault in a real training run; afterwards the same call gives the same bits."""
    store = gs.Store(folder)
    with under(FaultyDisk(at, fault)):
        try:
            gs.train(spec, store, processes=1)
            failed = False
        except (gs.StoreError, Crash):
            failed = True
    assert failed or store.find(spec).ended
    assert all(d.kind in ("partial", "leftover", "foreign") for d in _verify(store))
    with under(FaultyDisk(-1, fault)):
        (run,) = gs.train(spec, store, processes=1)
    for epoch in (None, *whole.snapshots):
        for name, array in whole.weights(epoch).items():
            assert array.tobytes() == run.weights(epoch)[name].tobytes()
    assert run.curve.equals(whole.curve)
    assert store.verify() == []


def _verify(store):
    return store.verify() if any(store.ids()) else []


def real_run(tiny, folder):
    """A run with ten resume points, and how many operations it takes."""
    spec = tiny.replace(**{"training.snapshots": 3})
    runs = []
    count = count_operations(lambda: runs.extend(gs.train(spec, folder, processes=1)))
    return spec, runs[0], count


def test_a_real_run(tiny, tmp_path, monkeypatch):
    """A sample; `python -m hardening.everything` tries all."""
    monkeypatch.setattr(training, "CHUNK_SECONDS", 0.0)
    spec, whole, count = real_run(tiny, tmp_path / "whole")
    draw = random.Random(19)
    for number in range(12):
        at, fault = draw.randrange(count), FAULTS[number % len(FAULTS)]
        try_real_run(spec, tmp_path / f"{number}", at, fault, whole)
