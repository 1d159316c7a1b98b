"""Attacks on the engine: full disks, killed workers, other threads, interrupts."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import pytest

import grokscope as gs
from grokscope import cli, interrupts
from grokscope.engine import orders, program, training
from grokscope.spec import to_dict

# Two threads split its products otherwise than one does, which shows in the last bits.
LARGE = gs.RunSpec().replace(
    **{
        "task.modulus": 59,
        "model.width": 64,
        "model.hidden": 256,
        "training.epochs": 40,
        "training.log_every": 10,
    }
)
TRAIN = """
import contextlib, json, sys
import grokscope as gs
from grokscope.engine import training
from grokscope.spec import from_dict
training.CHUNK_SECONDS = 0.0
spec, *places = json.loads(sys.argv[1])
for store, until in places:
    def stop(event):
        if event.kind == "advanced" and event.epoch >= until:
            raise KeyboardInterrupt
    with contextlib.suppress(KeyboardInterrupt):
        gs.train(from_dict(spec), store, processes=1, sinks=stop)
"""


def train_elsewhere(threads, *places):
    """In a process of its own, with this many threads, in each store up to an epoch."""
    order = [to_dict(LARGE), *((str(store.root), until) for store, until in places)]
    environment = {**os.environ, "NPROC": str(threads)}
    command = [sys.executable, "-c", TRAIN, json.dumps(order)]
    subprocess.run(command, env=environment, check=True)


def bits(run):
    return {name: array.tobytes() for name, array in run.weights().items()}


@pytest.mark.usefixtures("optimised")
def test_a_run_resumes_with_its_threads(tmp_path):
    """Interrupted with one thread and resumed by a process that has two: bit for bit the run that
    was never interrupted. With two threads from the start it is another one, so this could fail."""
    one, two, half = (gs.Store(tmp_path / name) for name in ("one", "two", "half"))
    whole = LARGE.training.epochs + 1
    train_elsewhere(1, (one, whole), (half, 20))
    assert half.find(LARGE).status == "partial"
    train_elsewhere(2, (two, whole), (half, whole))
    assert bits(one.find(LARGE)) != bits(two.find(LARGE))
    run = half.find(LARGE)
    assert [segment["threads"] for segment in run.provenance["segments"]] == [1, 1]
    assert bits(run) == bits(one.find(LARGE))
    assert run.curve.equals(one.find(LARGE).curve)


def test_other_threads_are_refused_where_no_process_can_have_them(store, monkeypatch, tiny):
    partial_run(tiny, store)
    here = training.describe_machine()
    monkeypatch.setattr(training, "describe_machine", lambda: {**here, "threads": 77})
    with pytest.raises(gs.TrainingError, match="which would change its last bits"):
        training.begun_terms(tiny, store)


def partial_run(spec, store, until=20):
    """A run that was interrupted in this process."""

    def stop(event):
        if event.kind == "advanced" and event.epoch >= until:
            raise KeyboardInterrupt

    before, training.CHUNK_SECONDS = training.CHUNK_SECONDS, 0.0
    try:
        with contextlib.suppress(KeyboardInterrupt):
            gs.train(spec, store, processes=1, execution="vmap", sinks=stop)
    finally:
        training.CHUNK_SECONDS = before
    return store.find(spec[0] if isinstance(spec, list) else spec)


@pytest.mark.usefixtures("optimised")
def test_a_run_of_a_batch_resumes_to_the_same_bits(tiny, tmp_path):
    """Three runs as one batch, interrupted; one ends by itself, the others together. A batch that
    lost a run is filled up, so that each comes to the bits of the uninterrupted batch."""
    base = tiny.replace(**{"model.width": 32, "model.hidden": 64})
    specs = gs.sweep(base, {"seed": [0, 1, 2]})
    whole, half = gs.Store(tmp_path / "whole"), gs.Store(tmp_path / "half")
    gs.train(specs, whole, processes=1, execution="vmap")
    partial_run(specs, half, until=30)
    gs.train(specs[1], half, processes=1)
    gs.train(specs[::-1], half, processes=1, execution="vmap")
    for spec in specs:
        run = half.find(spec)
        assert [s["execution"] for s in run.provenance["segments"]] == ["vmap of 3"] * 2
        assert bits(run) == bits(whole.find(spec))


@pytest.fixture
def full_disk():
    """No file may grow beyond 3,000 bytes, in worker processes neither."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_heard_of_from_workers(tiny, store, full_disk):
    specs = gs.sweep(tiny, {"seed": [0, 1, 2]})
    with pytest.raises(gs.StoreError, match="The disk is full") as refusal:
        gs.train(specs, store, executor=gs.LocalProcesses(1, 1))
    assert all(spec.id in str(refusal.value) for spec in specs)
    assert not any(store.find(spec).ended for spec in specs)


class Idle:
    """An executor that does nothing, and is content."""

    def execute(self, order, sink):
        pass


def test_success_is_judged_by_the_store(tiny, store):
    with pytest.raises(gs.TrainingError, match="has not ended"):
        gs.train(tiny, store, executor=Idle())
    path = gs.train(tiny, store, processes=1)[0].path / "outcome.json"
    path.write_bytes(b"")  # as a disk may leave it that was not asked to keep it
    other = tiny.replace(seed=1)
    with pytest.raises(gs.StoreError, match=r"outcome\.json cannot be read"):
        gs.train([tiny, other], store, processes=1)
    assert store.find(other).status == "finished"


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (MemoryError(), "needs more memory than there is"),
        (RuntimeError("RESOURCE_EXHAUSTED: no room"), "needs more memory than there is"),
        (ZeroDivisionError("a bug"), "died of ZeroDivisionError: a bug"),
    ],
)
def test_a_run_dies_alone(tiny, store, monkeypatch, error, sentence):
    bad, *good = gs.sweep(tiny, {"seed": range(3)})
    make = program.make_member

    def make_or_die(spec, store):
        if spec == bad:
            raise error
        return make(spec, store)

    monkeypatch.setattr(program, "make_member", make_or_die)
    with pytest.raises(gs.TrainingError, match=f"Run {bad.id} {sentence}"):
        gs.train([bad, *good], store, processes=1)
    assert [store.find(spec).status for spec in good] == ["finished"] * 2


def test_a_killed_worker_is_reported(tiny, store, tmp_path):
    """A rule that takes its worker down, as a run without enough memory does."""
    file = tmp_path / "deadly.py"
    file.write_text(
        "import os, signal\n"
        "def rule(operands, modulus):\n"
        "    if 'GROKSCOPE_WORKER' in os.environ:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return operands[:, 0]\n"
    )
    bad = tiny.replace(**{"task.kind": "custom", "task.rule": f"{file}:rule"})
    good = gs.sweep(tiny, {"seed": range(2)})
    events = []
    with pytest.raises(gs.TrainingError, match=r"killed by SIGKILL \(out of memory.* tried twice"):
        gs.train([bad, *good], store, processes=2, sinks=events.append)
    assert [store.find(spec).status for spec in good] == ["finished"] * 2
    assert sum("killed by SIGKILL" in event.message for event in events) >= 2


def test_a_worker_that_was_told_to_end_is_replaced(tiny, store):
    """By somebody else than its master: its runs are not done."""
    events = []

    def end(event):
        events.append(event)
        if [e.kind for e in events] == ["started"]:
            os.kill(store.holder(event.run).worker, signal.SIGTERM)

    spec = tiny.replace(**{"training.epochs": 2_000, "training.stop": "never"})
    (run,) = gs.train(spec, store, executor=gs.LocalProcesses(1, 1), sinks=end)
    assert run.status == "finished"
    assert [e.message for e in events if e.kind == "warned"] == [
        "A worker process was ended by SIGTERM."
    ]


def test_a_waiting_process_says_for_whom(tiny, store, monkeypatch):
    events = []
    lease = store.root / ".locks" / f"{tiny.id}.1"

    class Waited(Exception):
        pass

    def stop(seconds):
        raise Waited

    monkeypatch.setattr(orders.time, "sleep", stop)
    lease.parent.mkdir(parents=True)
    lease.write_text('{"process": 12, "host": "there", "worker": 13}')
    with pytest.raises(Waited):
        gs.train(tiny, store, processes=1, sinks=events.append)
    sentence = f"Waiting for process 12 on there, which trains run {tiny.id}."
    assert [event.message for event in events] == [sentence]


@pytest.fixture
def obeyed() -> Iterator[None]:
    """Ctrl-C as in a terminal: whoever starts the suite in the background has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_swallowed_interrupt_is_noticed(obeyed):
    with interrupts.noticed():
        with contextlib.suppress(KeyboardInterrupt):  # as a callback of a library does
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()
        interrupts._asked.clear()
    interrupts.check()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_stops_when_it_is_asked_to(store, number):
    """Even if Python gets no chance to: the main thread sits in a call that swallows interrupts."""
    code = (
        "import signal, time\n"
        "from grokscope import cli\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # background jobs ignore it
        "def stubborn(options):\n"
        "    from grokscope.terminal import Watch\n"
        "    import grokscope as gs\n"
        "    with Watch(gs.sweep(gs.RunSpec(), {'seed': [0, 1]})) as watch:\n"
        "        print('ready', flush=True)\n"
        "        while True:\n"
        "            try:\n"
        "                time.sleep(60)\n"
        "            except KeyboardInterrupt:\n"
        "                pass\n"
        "cli.COMMANDS['recipes'] = (cli.COMMANDS['recipes'][0], stubborn)\n"
        "cli.main(['recipes'])\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    what = "terminated" if number == signal.SIGTERM else "interrupted"
    assert f"grokscope: {what}. Kept: 0 of 2 runs ended." in said


def test_programs_in_memory_are_bounded():
    program._used.clear()  # what other tests have left
    for number in range(20):
        program.make_program(number)
    assert program.make_program.cache_info().currsize <= program.MOST_PROGRAMS
    functions = [jax.jit(lambda x, n=n: n * x) for n in range(7)]
    for function in functions:  # seven programs of three shapes each
        for size in range(3):
            function(jnp.zeros(size))
        program.forget_surplus((function,))
    sizes = [function._cache_size() for function in functions]
    assert 0 < sum(sizes) <= 2 * program.MOST_PROGRAMS
    assert (sizes[0], sizes[-1]) == (0, 3)  # those used longest ago go first


INPUTS = [
    ("seed = " + "1" * 5000, "not valid TOML"),
    ("seed = " + "1" * 400, "must stay below 2^31"),
    ("a = " + "[" * 20_000 + "]" * 20_000, "nested too deeply"),
    ("optimiser.lr = 1" + "0" * 400, "optimiser.lr is 1000"),
    ("optimiser.lr = 1e400", "must be a finite number"),
    ('task.kind = ["addition"]', "it must be one of"),
    ("task.kind = {a = 1}", "it must be one of"),
    ("task = [1, 2]", "must be a table of fields"),
    ('[sweep]\n"task.kind" = [["addition"]]', "it must be one of"),
    ("[sweep]\nseed = [[0]]", "must be a whole number"),
    ("training.measures = [[1]]", "must be a list of texts"),
    ("model.norms = 3", "model"),
]


@pytest.mark.parametrize(("text", "sentence"), INPUTS)
def test_bad_files_get_a_sentence(tmp_path, capsys, text, sentence):
    file = tmp_path / "mine.toml"
    file.write_text(text)
    assert cli.run(["train", str(file), "--dry-run", "--store", str(tmp_path / "runs")]) == 2
    assert sentence in capsys.readouterr().err


def test_a_byte_order_mark_is_no_mistake(tmp_path, capsys):
    file = tmp_path / "mine.toml"
    file.write_bytes(b"\xef\xbb\xbfseed = 7\n")
    assert cli.run(["train", str(file), "--dry-run", "--store", str(tmp_path / "runs")]) == 0
    assert gs.RunSpec(seed=7).id in capsys.readouterr().out


@pytest.mark.parametrize(
    ("over", "sentence"),
    [
        ("seed=²..³", "seed is '²..³'"),
        ("seed=0..99999999", "100,000,000 runs"),
        (f"seed=0..{'9' * 5000}", "seed is"),
        (f"seed={'9' * 5000}", "seed is"),
        ("seed=", "--over takes"),
        ("nothing=1", "Unknown field nothing"),
        ("training=1", "must be a table"),
        ("seed.x=1", "seed"),
    ],
)
def test_bad_sweeps_get_a_sentence(tmp_path, capsys, over, sentence):
    command = ["train", "smoke", "--dry-run", "--store", str(tmp_path), "--over", over]
    assert cli.run(command) == 2
    assert sentence in capsys.readouterr().err
