"""Executors of clusters, with jobs and nodes on this machine. `tests/clusters` disturbs a real
SLURM."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import grokscope as gs
from grokscope import cli
from grokscope.engine.executors import parse_executor, slurm
from grokscope.engine.executors.ray import make_batches, pack, work
from grokscope.engine.orders import make_order
from grokscope.engine.planning import estimate_seconds


@pytest.fixture(scope="module")
def alone(tiny, tmp_path_factory):
    """Two runs trained at home, on one thread as on a node."""
    store = gs.Store(tmp_path_factory.mktemp("alone") / "runs")
    specs = gs.sweep(tiny, {"seed": range(2)})
    return gs.train(specs, store, executor=gs.LocalProcesses(1, 1))


def assert_same(runs, alone):
    for run, other in zip(runs, alone, strict=True):
        assert run.curve.equals(other.curve)
        assert {n: a.tobytes() for n, a in run.weights().items()} == {
            n: a.tobytes() for n, a in other.weights().items()
        }


@pytest.mark.skipif(not importlib.util.find_spec("submitit"), reason="needs the extra `slurm`")
@pytest.mark.filterwarnings("ignore")  # what submitit leaves open
def test_jobs_train_each_run_once(alone, store):
    events = []
    executor = gs.Slurm(workers=2, cluster="local", minutes=2, cap=1)  # two arrays of one
    runs = gs.train([run.spec for run in alone], store, executor=executor, sinks=events.append)
    assert_same(runs, alone)
    kinds = [event.kind for event in events]
    assert kinds.count("started") == kinds.count("finished") == 2
    assert store.verify() == []
    assert not [p for p in (store.root / ".locks").iterdir() if p.name != "jobs"]


@pytest.mark.skipif(not importlib.util.find_spec("submitit"), reason="needs the extra `slurm`")
def test_a_cluster_without_slurm_gets_a_sentence(tiny, store):
    with pytest.raises(gs.TrainingError, match="SLURM takes no job"):
        gs.train(tiny, store, executor=gs.Slurm(workers=1))


class Jobs(slurm.Slurm):
    """Jobs that end at once and do nothing, or what a test says."""

    def __init__(self, doing=lambda number: None):
        super().__init__(workers=2)
        self.doing, self.submitted = doing, 0

    def _submit(self, folder, count):
        self.submitted += count
        for number in range(count):
            self.doing(number)
        return []

    def _count_alive(self, jobs):
        return 0


def test_jobs_that_do_nothing_are_given_up(tiny, store, monkeypatch):
    monkeypatch.setattr(slurm, "LOOK_SECONDS", 0.0)
    jobs = Jobs()
    with pytest.raises(gs.TrainingError, match="3 times in a row jobs ended without"):
        gs.train(gs.sweep(tiny, {"seed": range(5)}), store, executor=jobs)
    assert jobs.submitted == 6


def test_what_a_dead_job_held_is_given_to_the_next(tiny, store, monkeypatch):
    """Nobody waits in the queue for a lease to expire: whoever submits has watched it."""
    monkeypatch.setattr(slurm, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr("grokscope.store.leases.EXPIRY", 0.2)
    (store.root / ".locks").mkdir(parents=True)
    (store.root / ".locks" / f"{tiny.id}.1").write_text(
        '{"process": 1, "worker": 1, "host": "lost", "place": "elsewhere", "token": "0"}'
    )
    order = make_order([tiny], store)
    jobs = Jobs(lambda number: gs.InProcess().execute(order, lambda event: None))
    (run,) = gs.train(tiny, store, executor=jobs)
    assert run.status == "finished"
    assert jobs.submitted == 1


def test_a_job_does_not_wait_for_others(tiny, store):
    """It would keep a node for nothing."""
    with gs.Store(store.root).claim(tiny.id):
        order = make_order([tiny], store)
        gs.InProcess().execute(slurm.replace(order, stay=False), lambda event: None)
    assert not store.find(tiny).path.exists()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("slum", "no executor 'slum'. Did you mean slurm"),
        ("slurm:workers", "option=value"),
        ("slurm:nodes=3", "slurm takes the options workers, processes"),
        ("slurm:workers=0", "workers is 0"),
        ("ray:minutes=many", "ray takes the options"),
    ],
)
def test_bad_executors_get_a_sentence(text, sentence, capsys, tmp_path):
    assert cli.run(["train", "smoke", "--on", text, "--store", str(tmp_path)]) == 2
    assert sentence in capsys.readouterr().err


def test_executors_are_named_with_options():
    executor = parse_executor("slurm:workers=3,partition=long,minutes=2.5")
    assert isinstance(executor, gs.Slurm)
    assert (executor.workers, executor.partition, executor.minutes) == (3, "long", 2.5)
    assert executor.with_threads(4).threads == 4
    assert executor.with_threads(4).workers == 3


def test_batches_are_of_equal_form_and_length(tiny):
    specs = [
        *gs.sweep(tiny, {"seed": range(40)}),
        *gs.sweep(tiny.replace(**{"model.width": 16}), {"seed": range(3)}),
    ]
    total = sum(map(estimate_seconds, specs))
    batches = make_batches(specs, seconds=1e9, workers=2)
    assert sorted(s.id for batch in batches for s in batch) == sorted(s.id for s in specs)
    assert all(len({s.family() for s in batch}) == 1 for batch in batches)
    lengths = [sum(map(estimate_seconds, batch)) for batch in batches]
    assert lengths == sorted(lengths, reverse=True)
    assert 10 <= len(batches) < 40
    assert lengths[0] <= total / 10
    assert len(make_batches(specs, seconds=1e-9, workers=1)) == len(specs)


class Ears:
    def __init__(self):
        self.hear, self.lines = self, []

    def remote(self, line):
        self.lines.append(line)


def test_a_node_without_the_store_ships_runs_home(alone, store, tmp_path):
    order = make_order([alone[0].spec], gs.Store(tmp_path / "unseen"))
    shipped = work(order.to_json(), 1, "no such mark", ears := Ears(), {})
    assert not (tmp_path / "unseen").exists()
    assert any('"finished"' in line for line in ears.lines)
    for name, files in shipped.items():
        store.receive(name, files)
        store.receive(name, files)  # once is enough
    assert_same([store.find(alone[0].spec)], alone[:1])
    assert store.verify() == []


def test_what_arrives_is_checked(alone, store):
    name, files = alone[0].id, pack(alone[0].path)
    for bad in (
        {**files, "curve.parquet": b"x"},
        {n: data for n, data in files.items() if n != "weights.safetensors"},
        {**files, "../../evil": b"x"},
        {**files, "snapshots/../../evil.safetensors": b"x"},
    ):
        with pytest.raises(gs.StoreError, match=r"did not arrive whole|no file of a run"):
            store.receive(name, bad)
    with pytest.raises(gs.StoreError, match="did not arrive whole"):
        store.receive(alone[1].id, files)
    assert store.ids() == []
    assert list((store.root / ".locks").iterdir()) == []
    store.begin(alone[0].spec)  # begun here, ended elsewhere
    store.receive(name, files)
    assert store.get(name).status == "finished"


def test_what_arrives_is_left_to_whoever_works_on_it(alone, store):
    name, files = alone[0].id, pack(alone[0].path)
    with store.claim(name):
        run = store.begin(alone[0].spec)
        assert not gs.Store(store.root).receive(name, files)
        curve = {"epoch": np.array([0]), "train_loss": np.array([1.0])}
        store.save_progress(run, curve, None, {"segments": []})
        assert store.find(alone[0].spec).status == "partial"
    assert gs.Store(store.root).receive(name, files)
    assert_same([store.find(alone[0].spec)], alone[:1])


def test_what_arrives_first_makes_a_store(alone, store):
    store.receive(alone[0].id, pack(alone[0].path))
    (store.find(alone[0].spec).path / "spec.json").unlink()
    assert [defect.kind for defect in store.verify()] == ["foreign"]  # not: this is no store


@pytest.mark.skipif(not importlib.util.find_spec("ray"), reason="needs the extra `ray`")
@pytest.mark.filterwarnings("ignore")  # JAX warns of Ray's forks, which only start its services
def test_tasks_train_each_run_once(alone, store):
    import ray

    events = []
    try:
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        specs = [run.spec for run in alone]
        runs = gs.train(specs, store, executor=gs.Ray(), sinks=events.append)
    finally:
        ray.shutdown()
    assert_same(runs, alone)
    kinds = [event.kind for event in events]
    assert kinds.count("started") == kinds.count("finished") == 2
    assert store.verify() == []
