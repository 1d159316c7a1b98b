"""Resuming, sharing, waiting: the promises that hold when processes die or meet."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import grokscope as gs
from grokscope.engine import compilation, orders, planning, training
from grokscope.engine.planning import choose_processes, estimate_seconds, in_order
from grokscope.spec import to_dict

TRAIN = """
import json, sys
import grokscope as gs
from grokscope.engine import compilation, training
from grokscope.spec import from_dict
order = json.loads(sys.argv[1])
compilation.OPTIONS["cpu"] = order["options"]
training.CHUNK_SECONDS = order["chunk"]
specs = [from_dict(spec) for spec in order["specs"]]
def listen(event):
    print(event.kind, event.run, event.epoch, flush=True)
gs.train(specs, order["store"], processes=1, sinks=listen)
"""


def start(specs, store, chunk=0.05):
    order = {
        "specs": [to_dict(s) for s in specs],
        "store": str(store.root),
        "chunk": chunk,
        "options": compilation.OPTIONS["cpu"],
    }
    return subprocess.Popen(
        [sys.executable, "-c", TRAIN, json.dumps(order)], stdout=subprocess.PIPE, text=True
    )


def assert_same_bits(one: gs.Run, two: gs.Run) -> None:
    assert one.curve.columns == two.curve.columns
    for name in one.curve.columns:
        first, second = (np.array(run.curve[name].to_list()) for run in (one, two))
        assert np.array_equal(first, second, equal_nan=True), name
    first, second = one.weights(), two.weights()
    assert set(first) == set(second)
    for name in first:
        assert first[name].tobytes() == second[name].tobytes(), name
    drop = {"files"}
    outcomes = [{k: v for k, v in run.outcome.items() if k not in drop} for run in (one, two)]
    assert outcomes[0] == outcomes[1]


@pytest.mark.usefixtures("optimised")
def test_killed_at_any_point_it_resumes_to_the_same_bits(tiny, store):
    """SIGKILL early and late; the parts add up to the uninterrupted run, with batches drawn as they
    would have been."""
    spec = tiny.replace(
        **{
            "training.epochs": 2000,
            "training.snapshots": 4,
            "prior.kind": "oracle",
            "optimiser.batch": 16,
        }
    )
    whole = gs.train(spec, gs.Store(store.root / "whole"), processes=1)[0]
    parts = gs.Store(store.root / "parts")
    stops = []
    for goal in (1, 1200):
        process = start([spec], parts)
        assert process.stdout is not None
        for line in process.stdout:
            kind, _, epoch = line.split()
            if kind == "advanced" and int(epoch) >= goal:
                process.send_signal(signal.SIGKILL)
                break
        process.wait()
        process.stdout.close()
        assert process.returncode == -signal.SIGKILL
        run = parts.find(spec)
        assert run.status == "partial"
        stops.append(int(parts.load_progress(run)[0]["step"]))
    assert stops == sorted(set(stops))  # every attempt got further
    resumed = gs.train(spec, parts, processes=1)[0]
    assert_same_bits(whole, resumed)
    assert whole.snapshots == resumed.snapshots == [0, 500, 1000, 1500]
    for epoch in whole.snapshots:
        for name, array in whole.weights(epoch).items():
            assert array.tobytes() == resumed.weights(epoch)[name].tobytes()
    assert len(resumed.provenance["segments"]) == 3
    assert not (resumed.path / "resume.safetensors").exists()


def test_two_processes_train_each_run_once(tiny, store):
    specs = gs.sweep(tiny.replace(**{"training.epochs": 600}), {"seed": range(6)})
    workers = [start(specs, store), start(specs[::-1], store)]
    outputs = [worker.communicate()[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0]
    begun = [line.split()[1] for text in outputs for line in text.splitlines() if "started" in line]
    assert sorted(begun) == sorted(spec.id for spec in specs)
    assert all(store.find(spec).status == "finished" for spec in specs)


def test_a_dead_holder_is_succeeded(tiny, store):
    """A run held by a process that dies is taken over by the one that waits for it."""
    spec = tiny.replace(**{"training.epochs": 200_000})
    holder = start([spec], store)
    assert holder.stdout is not None
    while "advanced" not in holder.stdout.readline():
        pass
    short = tiny.replace(**{"training.epochs": 200})
    waiter = start([spec, short], store)
    while not store.find(short).ended:  # it does what is free first
        time.sleep(0.05)
    holder.kill()
    holder.wait()
    holder.stdout.close()
    assert waiter.stdout is not None
    for line in waiter.stdout:
        if line.startswith(("resumed", "started")) and spec.id in line:
            break
    else:
        pytest.fail("nobody took over")
    waiter.kill()
    waiter.wait()
    waiter.stdout.close()


def test_worker_processes_do_the_work(tiny, store):
    """And tell the caller what went wrong."""
    specs = gs.sweep(tiny, {"seed": range(4)})
    bad = tiny.replace(**{"task.length": 3, "prior.kind": "adversarial"})
    events = []
    with pytest.raises(gs.SpecError, match="needs a distractor"):
        gs.train([bad, *specs], store, processes=2, sinks=events.append)
    runs = [store.find(spec) for spec in specs]
    assert [run.status for run in runs] == ["finished"] * 4
    kinds = [event.kind for event in events if event.run != bad.id]
    assert kinds.count("started") == kinds.count("finished") == 4
    segment = runs[0].provenance["segments"][0]
    assert segment["threads"] == max(1, len(os.sched_getaffinity(0)) // 2)
    events.clear()
    gs.train(specs, store, processes=2, sinks=events.append)
    assert [event.kind for event in events] == ["skipped"] * 4


def test_a_users_rule_in_a_worker(tiny, store, tmp_path):
    """What it prints is no event."""
    file = tmp_path / "mine.py"
    file.write_text(
        "print('hello')\n"
        "def closer(operands, modulus):\n    return abs(operands[:, 0] - operands[:, 1])\n"
    )
    spec = tiny.replace(**{"task.kind": "custom", "task.rule": f"{file}:closer"})
    (run,) = gs.train(spec, store, executor=gs.LocalProcesses(1, 1))
    assert run.status == "finished"
    assert run.spec.task.fingerprint
    assert gs.train(spec, store)[0].id == run.id


def test_a_script_may_train_its_own_rule(store, tmp_path):
    """No guard, two processes asked for: the rule cannot reach them, so this process does it."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, grokscope as gs\n"
        "def larger(operands, modulus):\n"
        "    return operands.max(axis=1)\n"
        "spec = gs.RunSpec(task=gs.custom_task(larger, modulus=7))\n"
        "spec = spec.replace(**{'training.epochs': 20, 'model.width': 8, 'model.hidden': 8})\n"
        "runs = gs.train(gs.sweep(spec, {'seed': [0, 1]}), sys.argv[1], processes=2)\n"
        "print(*[run.status for run in runs])\n"
    )
    command = [sys.executable, str(script), str(store.root)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.split() == ["finished", "finished"]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("execution", ["one-by-one", "vmap"])
def test_an_impossible_run_does_not_hold_up_the_others(tiny, store, execution):
    missing = tiny.replace(**{"prior.kind": "teacher", "prior.teacher": "feed" * 4})
    cramped = tiny.replace(**{"task.length": 3, "prior.kind": "adversarial"})
    good = gs.sweep(tiny, {"seed": [0, 1]})
    with pytest.raises(gs.GrokscopeError):
        gs.train([missing, cramped, *good], store, processes=1, execution=execution)
    assert [store.find(spec).status for spec in good] == ["finished"] * 2


def test_a_damaged_resume_point_is_set_aside(tiny, store, monkeypatch):
    monkeypatch.setattr(training, "CHUNK_SECONDS", 0.0)

    def train_until(kind):
        kinds = []

        def stop(event):
            kinds.append(event.kind)
            if event.kind == kind and event.epoch < 50:
                raise KeyboardInterrupt

        with contextlib.suppress(KeyboardInterrupt):
            gs.train(tiny, store, processes=1, sinks=stop)
        return kinds

    train_until("advanced")
    run = store.find(tiny)
    (run.path / "resume.safetensors").write_bytes(b"not a resume point")
    assert train_until("started") == ["warned", "started"]
    aside = list((store.root / "set-aside").iterdir())
    assert [path.read_bytes() for path in aside] == [b"not a resume point"]


def test_a_failed_teacher_keeps_only_its_pupils_waiting(tiny, store):
    def pupil(teacher, seed):
        return short.replace(**{"seed": seed, "prior.kind": "teacher", "prior.teacher": teacher.id})

    short = tiny.replace(**{"training.epochs": 20})
    overflow = {"optimiser.kind": "sgd", "optimiser.lr": 1e30, "optimiser.weight_decay": 0}
    broken = short.replace(**overflow)
    orphan, first = pupil(broken, 1), pupil(short, 2)
    second = pupil(first, 3)  # trained after the orphan was refused
    with pytest.raises(gs.GrokscopeError, match="must be a finished run"):
        gs.train([second, orphan, first, broken, short], store, processes=1)
    assert store.find(broken).status == "failed"
    assert store.find(second).status == "finished"
    assert not store.find(orphan).ended


def test_teachers_come_first(tiny, store):
    teacher = tiny.replace(**{"prior.kind": "oracle", "training.epochs": 300})
    student = tiny.replace(
        **{"seed": 1, "prior.kind": "teacher", "prior.teacher": teacher.id, "prior.strength": 3.0}
    )
    ticket = tiny.replace(
        **{"interventions.mask.kind": "magnitude", "interventions.mask.source": teacher.id}
    )
    assert in_order([student, ticket, teacher]) == [[teacher], [student, ticket]]
    runs = gs.train([student, ticket, teacher], store)
    attention = np.array(runs[2].curve["attention"].to_list()[-1])
    followed = np.array(runs[0].curve["attention"].to_list())
    gap = np.abs(followed - attention).sum(axis=1)
    assert gap[-1] < 0.5 * gap[0]
    weights, source = runs[1].weights(), runs[2].weights()
    kept = weights["hidden"] != 0
    largest = np.abs(source["hidden"])
    assert largest[kept].min() >= largest[~kept].max()
    frozen = tiny.replace(
        **{
            "interventions.frozen_attention": "teacher",
            "prior.teacher": teacher.id,
            "seed": 2,
            "training.epochs": 20,
        }
    )
    with pytest.raises(gs.StoreError, match="There is no run"):
        gs.train(frozen.replace(**{"prior.teacher": "feed" * 4}), store)
    fixed = gs.train(frozen, store)[0].curve["attention"].to_list()
    assert fixed[0] == fixed[-1]
    pupil = student.replace(**{"prior.teacher": frozen.id})  # its attention was never trained
    with pytest.raises(gs.SpecError, match=f"attention of run {frozen.id} is frozen"):
        gs.train(pupil, store)


def test_a_teacher_of_another_size(tiny, store):
    teacher = gs.train(tiny.replace(**{"task.modulus": 13, "prior.kind": "oracle"}), store)[0]
    student = tiny.replace(**{"prior.kind": "teacher", "prior.teacher": teacher.id})
    with pytest.raises(gs.SpecError, match="teacher_view to position"):
        gs.train(student, store)
    gs.train(student.replace(**{"prior.teacher_view": "position"}), store)


@pytest.mark.parametrize("execution", ["vmap", "auto"])
def test_a_batch_starts_no_workers(tiny, store, monkeypatch, execution):
    monkeypatch.setitem(orders.BY_BACKEND, "cpu", "vmap")
    monkeypatch.setattr(planning, "choose_processes", lambda specs: 2)
    monkeypatch.setattr(planning, "LocalProcesses", None)
    specs = [tiny.replace(**{"seed": seed, "training.epochs": 20}) for seed in range(2)]
    for run in gs.train(specs, store, execution=execution):
        assert run.provenance["segments"][-1]["execution"] == "vmap of 2"


def test_processes_where_they_pay():
    short, long = gs.find_recipe("smoke"), gs.find_recipe("paper")
    assert choose_processes([short]) == 1
    assert choose_processes([long]) == 1
    assert choose_processes([short, short]) == 1
    assert choose_processes([long] * 9) == len(os.sched_getaffinity(0))
    assert estimate_seconds(long) > 20 * estimate_seconds(short)
    batched = long.replace(**{"optimiser.batch": 64})
    assert estimate_seconds(batched) < 0.3 * estimate_seconds(long)
