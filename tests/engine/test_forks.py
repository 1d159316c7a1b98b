"""Forks: the same bits where nothing is changed, another future where something is."""

from __future__ import annotations

import numpy as np
import pytest

import grokscope as gs
from engine.test_execution import assert_same_bits
from grokscope.engine import fork_spec, forking, training
from grokscope.models.roles import MLP, role
from programs import optimised


@pytest.fixture(scope="module", autouse=True)
def as_users_have_them():
    with optimised():
        yield


@pytest.fixture(scope="module")
def parent(tmp_path_factory, tiny) -> gs.Run:
    spec = tiny.replace(**{"training.snapshots": 5, "optimiser.batch": 16})
    return gs.train(spec, tmp_path_factory.mktemp("fork") / "runs", processes=1)[0]


def test_names_of_runs_that_are_no_forks_stay(tiny):
    assert "fork" not in tiny.canonical_json()
    assert tiny.replace(fork={}).id == tiny.id


@pytest.mark.parametrize("epoch", [0, 50, 100])
def test_a_fork_without_changes_is_its_parent(parent, epoch):
    """Batches are drawn, so the random numbers after the fork must be the parent's, too."""
    child = gs.fork(parent, epoch)
    assert child.id != parent.id
    assert_same_bits(parent, child)
    assert child.snapshots == parent.snapshots
    for kept in parent.snapshots:
        for name, array in parent.weights(kept).items():
            np.testing.assert_array_equal(array, child.weights(kept)[name])


def test_a_change_acts_from_the_fork_on(parent):
    child = gs.fork(parent, 50, **{"prior.kind": "oracle", "prior.strength": 3.0})
    same = child.curve["epoch"] <= 50
    for name in parent.curve.columns:
        pair = [np.array(run.curve.filter(same)[name].to_list()) for run in (child, parent)]
        assert np.array_equal(*pair, equal_nan=True), name
    assert child.curve["divergence"][-1] < parent.curve["divergence"][-1]
    assert child.spec.fork == gs.ForkSpec(parent=parent.id, epoch=50)


def test_a_fork_can_train_longer_than_its_parent_and_be_forked_again(parent):
    longer = gs.fork(parent, 100, training={"epochs": 140, "snapshots": 0})
    assert longer.outcome["epochs"] == 140
    whole = parent.spec.replace(training={"epochs": 140, "snapshots": 0})
    straight = gs.train(whole, parent.path.parent, processes=1)[0]
    assert_same_bits(longer, straight)
    again = gs.fork(longer, 120)
    assert_same_bits(longer, again)


def test_an_interrupted_fork_resumes_to_the_same_bits(parent, tmp_path, monkeypatch):
    spec = fork_spec(parent, 30, **{"optimiser.lr": 3e-3})
    straight = gs.fork(parent, 30, **{"optimiser.lr": 3e-3})
    other = gs.Store(tmp_path / "runs")
    gs.train(parent.spec, other, processes=1)
    monkeypatch.setattr(training, "CHUNK_SECONDS", 0.0)  # a resume point after each row

    def die(event: gs.Event) -> None:
        if event.epoch >= 60:
            raise RuntimeError("the power went")

    with pytest.raises(gs.TrainingError, match="died"):
        gs.train(spec, other, processes=1, sinks=die)
    assert other.find(spec).status == "partial"
    kinds: list[str] = []
    resumed = gs.train(spec, other, processes=1, sinks=lambda event: kinds.append(event.kind))[0]
    assert kinds[0] == "resumed"
    assert_same_bits(straight, resumed)


ORGANS = {"mlp": MLP, "attention": ("query", "key", "value", "output", "embedding", "position")}


@pytest.mark.parametrize("organ", ORGANS)
def test_a_transplant_brings_the_donors_weights(parent, organ):
    donor = gs.train(parent.spec.replace(seed=0, fork={}), parent.path.parent, processes=1)[0]
    twin = gs.train(
        parent.spec.replace(seed=7, **{"task.seed": 0}), parent.path.parent, processes=1
    )[0]
    assert donor.id == parent.id
    child = gs.fork(
        parent,
        50,
        training={"epochs": 50, "snapshots": 0},
        fork={"transplant": organ, "donor": twin.id},
    )
    ours, theirs = (
        gs.fork(parent, 50, training={"epochs": 50}),
        gs.fork(twin, 50, training={"epochs": 50}),
    )
    for name, array in child.weights().items():
        source = theirs if role(name) in ORGANS[organ] else ours
        np.testing.assert_array_equal(array, source.weights()[name], err_msg=name)


@pytest.mark.parametrize(
    ("epoch", "changes", "words"),
    [
        (33, {}, "no row at epoch 33; the nearest is at 30"),
        (50, {"model.width": 16}, "model must stay"),
        (50, {"task.alphabet": 3}, "task must stay"),
        (50, {"seed": 4}, "seed must stay"),
        (50, {"optimiser.kind": "lion"}, "lion cannot use it"),
        (50, {"training.epochs": 40}, "after the end of training"),
        (50, {"fork": {"transplant": "mlp"}}, "names its donor"),
    ],
)
def test_impossible_forks_are_refused(parent, epoch, changes, words):
    with pytest.raises(gs.SpecError, match=words):
        fork_spec(parent, epoch, **changes)


def test_no_fork_continues_from_numbers_that_are_not_finite(tiny, store):
    broken = tiny.replace(optimiser={"kind": "sgd", "lr": 1e30, "weight_decay": 0.0})
    (run,) = gs.train(broken, store)
    failed = run.outcome["failed_at"]
    with pytest.raises(gs.SpecError, match=f"failed at epoch {failed}: its numbers are not finite"):
        fork_spec(run, failed, **{"optimiser.lr": 1e-3})
    assert fork_spec(run, 0, **{"optimiser.lr": 1e-3}).fork.epoch == 0


def test_a_parent_that_comes_to_other_bits_is_not_forked(parent):
    """As if it had been trained where numbers round differently."""
    row = parent.curve.filter(parent.curve["epoch"] == 50)
    rows = {name: row[name].to_numpy() for name in ("epoch", "train_loss", "test_loss")}
    forking.check_rows(parent, [rows], 50)
    rows["train_loss"] = np.nextafter(rows["train_loss"], np.float32(9))
    with pytest.raises(gs.TrainingError, match="same bits"):
        forking.check_rows(parent, [rows], 50)


def test_forks_on_the_command_line(parent, capsys):
    from grokscope.cli import run

    where = f"--store={parent.path.parent}"
    line = ["fork", parent.id[:8], where, "--at", "50", "--optimiser.lr", "0.002", "--quiet"]
    assert run(line) == 0
    child = fork_spec(parent, 50, **{"optimiser.lr": 0.002})
    assert gs.Store(parent.path.parent).find(child).status == "finished"
    assert run(["fork", parent.id[:8], where, "--at", "51"]) == 2
    assert "the nearest is at 50" in capsys.readouterr().err
