"""Executors of clusters, with jobs and nodes on this machine. `tests/clusters` disturbs a real
SLURM."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import grokscope as gs
from grokscope import cli
from grokscope.engine.executors import node, parse_executor, slurm
from grokscope.engine.executors.ray import make_batches, pack, work
from grokscope.engine.orders import make_order
from grokscope.engine.planning import estimate_seconds
from hardening.loop import SPEC, train_plainly


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
@pytest.mark.filterwarnings("ignore")  # what submitit leaves open
def test_a_job_at_its_time_limit_is_queued_again_and_resumes(tiny, store, tmp_path):
    """submitit's signal comes in mid-run; jobs of less than ten minutes count as timed out."""
    psutil = pytest.importorskip("psutil", reason="finds the job's own process")
    jobs, events = [], []

    class Watched(slurm.Slurm):
        def _submit(self, folder, count):
            jobs.extend(super()._submit(folder, count))
            return jobs[-count:]

    def tell(event):
        events.append(event.kind)
        if event.kind == "advanced" and events.count("advanced") == 1:
            (task,) = psutil.Process(jobs[0]._process.pid).children()
            task.send_signal(signal.SIGUSR2)  # as submitit does before the limit

    spec = tiny.replace(**{"training.epochs": 40_000, "training.log_every": 1000})
    executor = Watched(workers=1, cluster="local", minutes=2)
    (run,) = gs.train(spec, store, executor=executor, sinks=tell)
    assert events.count("resumed") == events.count("finished") == 1
    assert len(run.provenance["segments"]) == 2
    assert "timed-out" in jobs[0].paths.stderr.read_text()
    assert len(jobs) == 1  # submitit queued the same one again
    jobs[0]._process.wait()
    assert_same([run], gs.train(spec, tmp_path / "alone", executor=gs.LocalProcesses(1, 1)))
    assert store.verify() == []


@pytest.mark.skipif(not importlib.util.find_spec("submitit"), reason="needs the extra `slurm`")
def test_a_cluster_without_slurm_gets_a_sentence(tiny, store):
    with pytest.raises(gs.TrainingError, match="SLURM did not accept the job: `srun` was"):
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
        ("ray:minutes=many", "ray's minutes is 'many'; it must be a number"),
        ("ray:minutes=nan", "ray's minutes is 'nan'"),
        ("slurm:workers=" + "9" * 5_000, "slurm's workers is '9999"),
        ("slurm:workers=2.5", "slurm's workers is '2.5'; it must be a whole number"),
        ("ray:threads=1.5", "ray's threads is '1.5'; it must be a whole number"),
        ("slurm:gigabytes=x", "slurm's gigabytes is 'x'; it must be a number"),
        ("slurm:gigabytes=0", "gigabytes is 0"),
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


@pytest.mark.skipif(not importlib.util.find_spec("submitit"), reason="needs the extra `slurm`")
def test_no_array_exceeds_the_cap(tmp_path, monkeypatch):
    import submitit

    arrays = []

    class Executor:
        def __init__(self, folder, cluster):
            self.options = {}

        def update_parameters(self, **options):
            self.options = options

        @contextlib.contextmanager
        def batch(self):
            arrays.append([])
            yield
            assert len(arrays[-1]) <= self.options["slurm_array_parallelism"]

        def submit(self, task):
            arrays[-1].append(task)
            return len(arrays), len(arrays[-1])

    monkeypatch.setattr(submitit, "AutoExecutor", Executor)
    assert len(set(gs.Slurm(cap=2)._submit(tmp_path, 5))) == 5
    assert list(map(len, arrays)) == [2, 2, 1]
    arrays.clear()
    gs.Slurm(workers=4, cap=1)._submit(tmp_path, 4)
    assert list(map(len, arrays)) == [1] * 4


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_orders_of_a_node_share_its_cores(tmp_path, monkeypatch):
    """Each has cores of its own; what is given back can be had again."""
    mine = {0, 1, 2, 3, 4}
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(mine))

    def limit(process, cores):
        mine.clear()
        mine.update(cores)

    monkeypatch.setattr(os, "sched_setaffinity", limit)
    whole = set(mine)
    with node._own_cores(tmp_path, 2):
        first = set(mine)
        limit(0, whole)  # as another process of the node sees it
        with node._own_cores(tmp_path, 2):
            second = set(mine)
            limit(0, whole)
            with node._own_cores(tmp_path, 2):
                assert mine == whole  # none are left: those of the system
        assert mine == whole
    assert len(first) == len(second) == 2
    assert not first & second
    assert mine == whole
    with node._own_cores(tmp_path, 2):
        assert mine == first


def test_a_nodes_folder_is_nobody_elses(tmp_path, monkeypatch):
    """Compiled programs in it are executed."""
    monkeypatch.setattr(node.tempfile, "tempdir", str(tmp_path))
    folder = node._own_folder()
    assert folder == node._own_folder() == tmp_path / f"grokscope-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    assert node._own_folder() != folder
    folder.chmod(0o700)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    (tmp_path / "grokscope-12345").symlink_to(folder)
    other = node._own_folder()
    assert other.parent == tmp_path
    assert other.name != "grokscope-12345"


def test_orders_of_a_series_share_a_worker(alone, tiny, store, tmp_path, monkeypatch):
    monkeypatch.setattr(node.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(node, "ORDERS", 3)
    told, workers = [], []

    def carry_out(spec, series):
        node.carry_out_here(make_order([spec], store), 1, 1, told.append, series)
        kept = node._kept[series, 1, 1]._kept
        workers.append(kept[0].process if kept else None)
        return store.find(spec)

    assert_same([carry_out(run.spec, "one") for run in alone], alone)
    assert workers[0] is workers[1]
    workers[0].kill()
    other, third, fourth = gs.sweep(tiny, {"seed": range(7, 10)})
    assert carry_out(other, "one").ended  # by a new one
    assert workers[2].pid != workers[1].pid
    assert any("was killed by SIGKILL" in event.message for event in told)
    for spec in gs.sweep(tiny, {"seed": range(20, 22)}):  # its third order is its last
        carry_out(spec, "one")
    assert workers[-1] is None
    carry_out(third, "one")
    carry_out(fourth, "two")
    assert workers[-2].poll() is not None  # the series is over
    assert store.verify() == []
    node._kept.popitem()[1].close()


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


def test_small_batches_are_of_short_runs(tiny):
    """They come last: nobody should wait for a long run then, nor for several short ones."""
    short = gs.sweep(tiny, {"seed": range(200)})
    epochs = 10 * tiny.training.epochs
    long = gs.sweep(
        tiny.replace(**{"model.width": 16, "training.epochs": epochs}), {"seed": range(8)}
    )
    assert sum(map(estimate_seconds, long)) < sum(map(estimate_seconds, short))
    batches = make_batches([*short, *long], seconds=1e9, workers=4)
    first, last = batches[0], batches[-1]
    assert first[0] in long
    assert len(last) == 1
    assert last[0] in short


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


class FakeRay:
    """A Ray whose tasks are done at once, and whose head goes away when a test says."""

    class exceptions:
        class RayError(Exception):
            pass

        class RayActorError(RayError):
            pass

    def __init__(self, *losses):
        self.losses, self.connected, self.actors = list(losses), 0, 0

    def remote(self, **options):
        def make(thing):
            if isinstance(thing, type):
                return SimpleNamespace(remote=self.start)
            return SimpleNamespace(remote=lambda *arguments: partial(thing, *arguments))

        return make

    def start(self):
        self.actors += 1
        return SimpleNamespace(take=SimpleNamespace(remote=list))

    def cluster_resources(self):
        return {"CPU": 1}

    def wait(self, waiting, num_returns, timeout):
        if self.losses:
            raise self.losses.pop()
        return waiting, []

    def get(self, reference, timeout=None):
        return reference() if reference else []

    def kill(self, actor):
        self.actors -= 1

    def shutdown(self):
        self.connected -= 1


class Forgetful(FakeRay):
    """Its head comes back without knowing our tasks and actors: it raises nothing by itself."""

    def wait(self, waiting, num_returns, timeout):
        return ([], waiting) if self.connected == 1 else (waiting, [])

    def get(self, reference, timeout=None):
        if self.connected == 1:
            raise self.exceptions.RayActorError("gone")
        return super().get(reference)

    def shutdown(self):
        pass


@pytest.mark.parametrize(
    "fake",
    [
        FakeRay(ConnectionError("gone")),
        FakeRay(FakeRay.exceptions.RayError("gone")),
        Forgetful(),
    ],
)
def test_a_head_that_was_restarted_is_found_again(store, monkeypatch, fake):
    monkeypatch.setattr("grokscope.engine.executors.ray.DEAF_SECONDS", 0.0)
    events = []

    def connect(executor):
        fake.connected += 1
        if fake.connected == 2 and len(events) == 1:
            raise gs.TrainingError("not yet")
        return fake

    def work(text, *rest):
        train_plainly(store, SPEC)
        return {}

    monkeypatch.setattr(gs.Ray, "_connect", connect)
    monkeypatch.setattr("grokscope.engine.executors.ray.work", work)
    monkeypatch.setattr("grokscope.engine.executors.ray.LOOK_SECONDS", 0.0)
    gs.Ray().execute(make_order([SPEC], store), events.append)
    assert [event.message for event in events] == ["Ray was lost: gone."]
    assert store.find(SPEC).status == "finished"
    assert fake.actors == 1  # that of the lost head


def test_a_ray_that_is_gone_is_given_up(store, monkeypatch):
    fake, connected = FakeRay(ConnectionError("gone")), []

    def connect(executor):
        if connected:
            raise gs.TrainingError("There is no Ray cluster to connect to: gone.")
        connected.append(1)
        return fake

    monkeypatch.setattr(gs.Ray, "_connect", connect)
    monkeypatch.setattr("grokscope.engine.executors.ray.BACK_SECONDS", 0.0)
    with pytest.raises(gs.TrainingError, match="no Ray cluster"):
        gs.Ray().execute(make_order([SPEC], store), lambda event: None)


@pytest.mark.skipif(not importlib.util.find_spec("ray"), reason="needs the extra `ray`")
@pytest.mark.parametrize("error", [ValueError("no such address"), RuntimeError("")])
def test_a_ray_that_does_not_start_gets_a_sentence(tiny, store, monkeypatch, error):
    import ray

    def fail(**options):
        raise error

    monkeypatch.setattr(ray, "init", fail)
    with pytest.raises(gs.TrainingError, match=r"connect to: no such|connect to: RuntimeError"):
        gs.train(tiny, store, executor=gs.Ray(address="nowhere:1"))


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
