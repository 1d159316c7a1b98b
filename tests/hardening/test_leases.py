"""Leases: one holder, a successor when it dies or falls silent, no harm by one that wakes up."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import grokscope as gs
from grokscope.engine import orders
from grokscope.errors import LeaseLost
from grokscope.store import leases
from grokscope.store.files import Disk
from hardening.faults import FaultyDisk, under
from hardening.loop import SPEC, assert_sound, content_of, hidden_files, train_plainly

NAME = "0123456789abcdef"


@pytest.fixture
def clock(monkeypatch):
    """A clock that tests set: the observer's own, which no other machine's is compared with."""

    class Clock:
        now = 1000.0

    monkeypatch.setattr(leases.time, "monotonic", lambda: Clock.now)
    monkeypatch.setattr(leases, "_beating", threading.Lock())  # nobody beats meanwhile
    leases._beating.acquire()
    return Clock


@pytest.fixture
def elsewhere(store, monkeypatch):
    """The same store as another machine sees it: nothing is known of our processes there."""

    def make(root=store.root) -> gs.Store:
        other = gs.Store(root)
        take, over = other._leases.take, other._leases._is_over

        def at(function):
            def wrapped(argument):
                with monkeypatch.context() as patch:
                    patch.setattr(leases, "_place", lambda: "another machine")
                    return function(argument)

            return wrapped

        other._leases.take, other._leases._is_over = at(take), at(over)
        return other

    return make


def files_of(store):
    return sorted(path.name for path in (store.root / ".locks").iterdir())


def test_a_lease_is_given_back(store):
    with store.claim(NAME) as mine:
        assert mine
        assert files_of(store) == [f"{NAME}.1"]
        assert store.holder(NAME).worker == os.getpid()
        with gs.Store(store.root).claim(NAME) as second:
            assert not second
        assert store.is_held(NAME)
    assert files_of(store) == []
    assert not store.is_held(NAME)


def test_a_dead_process_is_succeeded_at_once(store):
    code = f"import sys, time, grokscope as gs\nwith gs.Store(sys.argv[1]).claim('{NAME}'):\n"
    code += "    print('held', flush=True)\n    time.sleep(60)"
    command = [sys.executable, "-c", code, str(store.root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        assert store.is_held(NAME)
        process.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, but not buried
        with store.claim(NAME) as mine:
            assert mine
            assert files_of(store) == [f"{NAME}.2"]


def test_another_image_of_this_process_is_dead(store, monkeypatch):
    """As after `execv`: same number, same start."""
    with store.claim(NAME):
        monkeypatch.setattr(leases, "IMAGE", "a new one")
        with gs.Store(store.root).claim(NAME) as mine:
            assert mine


def test_silence_is_measured_by_the_observers_clock(store, elsewhere, clock):
    """Whatever time the holder's machine or the server has: what counts is that nothing changes."""
    other = elsewhere()
    with store.claim(NAME):
        lease = store.root / ".locks" / f"{NAME}.1"
        for wrong in (0, 2**33, 1):  # 1970, 2242, back again
            os.utime(lease, (wrong, wrong))
            with other.claim(NAME) as mine:
                assert not mine
            clock.now += leases.EXPIRY - 1
            with other.claim(NAME) as mine:
                assert not mine
        clock.now += 2
        with other.claim(NAME) as mine:
            assert mine
        with pytest.raises(LeaseLost, match=f"Run {NAME} was taken over"):
            store._leases.fence(NAME)()


def test_a_beating_holder_keeps_its_lease(store, elsewhere, clock):
    other = elsewhere()
    with store.claim(NAME):
        for _ in range(20):
            store._leases.mine[NAME].beat()
            with other.claim(NAME) as mine:
                assert not mine
            clock.now += leases.EXPIRY - 1
            time.sleep(0.005)  # a tick of the file system
        assert store._leases.fence(NAME)() is None


def test_the_heart_beats(store, monkeypatch):
    monkeypatch.setattr(leases, "BEAT", 0.01)
    monkeypatch.setattr(leases, "_beating", leases.threading.Lock())  # a thread of its own
    with store.claim(NAME):
        path = store.root / ".locks" / f"{NAME}.1"
        os.utime(path, (1, 1))
        while path.stat().st_mtime < 1000:
            time.sleep(0.01)
    monkeypatch.setattr(leases, "BEAT", 1e6)  # it sleeps


class PausingDisk(FaultyDisk):
    """Before its n-th operation something else happens."""

    def __init__(self, step, meanwhile):
        super().__init__(-1, "crash")
        self.step, self.meanwhile = step, meanwhile

    def _due(self) -> bool:
        self.count += 1
        if self.count - 1 == self.step and not self.dead:
            self.dead = True
            self.meanwhile()
        return False


@pytest.mark.parametrize("step", range(70))
def test_a_stale_holder_harms_nothing(store, elsewhere, clock, step):
    """The holder is paused before its n-th operation on files. Another machine takes over and
    trains to the end; then the first one wakes and goes on."""

    whole: dict[str, bytes] = {}

    def finish_elsewhere():
        other = elsewhere()
        with other.claim(SPEC.id):
            pass
        clock.now += leases.EXPIRY + 1
        with under(FaultyDisk(-1, "crash")):
            train_plainly(other)
        whole.update(content_of(other.find(SPEC).path))

    with under(PausingDisk(step, finish_elsewhere)) as disk:
        try:
            train_plainly(store)
            lost = False
        except (LeaseLost, gs.StoreError, AssertionError):
            lost = True
    if not disk.dead:
        assert step > 55  # it had ended before
        return
    after = content_of(store.find(SPEC).path)
    assert {n: data for n, data in after.items() if n != "resume.safetensors"} == whole
    assert lost or after == whole
    with under(FaultyDisk(-1, "crash")):
        assert_sound(store)


def damage(store):
    (store.find(SPEC).path / "curve.parquet").write_bytes(b"no curve")


def forge(store):
    (store.find(SPEC).path / "spec.json").write_text("{}")


def begin_again(store):
    with store.claim(SPEC.id):
        store.begin(SPEC)


@pytest.mark.parametrize(
    ("before", "work"),
    [
        (damage, lambda store: store.verify(set_aside=True)),
        (lambda store: None, lambda store: store.discard(store.find(SPEC))),
        (forge, begin_again),
    ],
    ids=["verify", "discard", "begin"],
)
def test_a_stale_holder_moves_nothing_away(tmp_path, elsewhere, clock, before, work):
    """It is paused before each of its operations, while another machine sets aside what it finds
    and trains anew."""
    for step in range(40):
        store, whole = gs.Store(tmp_path / f"{step}"), {}
        with under(FaultyDisk(-1, "crash")):
            train_plainly(store)
        before(store)

        def succeed(store=store, whole=whole):
            if not list((store.root / ".locks").glob(f"{SPEC.id}.*")):
                return  # not held yet, or no more
            other = elsewhere(store.root)
            with other.claim(SPEC.id):
                pass
            clock.now += leases.EXPIRY + 1
            with under(FaultyDisk(-1, "crash")):
                with other.claim(SPEC.id) as mine:
                    assert mine
                    if other.find(SPEC).path.exists():
                        other.set_aside(other.find(SPEC).path)
                train_plainly(other)
            whole.update(content_of(other.find(SPEC).path))

        with under(PausingDisk(step, succeed)) as disk, contextlib.suppress(gs.StoreError):
            work(store)
        if whole:
            assert content_of(store.find(SPEC).path) == whole, step
        if not disk.dead:
            break
    assert 5 < step < 39


class LosingDisk(Disk):
    """A server that does what it is told, and whose answers get lost: the second attempt finds a
    rename done (nothing to rename) and a link made (there is one)."""

    def sync(self, path):
        pass

    def rename(self, old, new):
        super().rename(old, new)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(old))

    def link(self, old, new):
        super().link(old, new)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(new))


def test_answers_may_get_lost(store):
    with under(LosingDisk()):
        train_plainly(store)
    assert store.verify() == []
    assert not hidden_files(store.root)


def test_a_rename_that_did_not_happen_is_told(store):
    class Losing(Disk):
        def rename(self, old, new):
            old.unlink()
            super().rename(old, new)

    with under(Losing()), pytest.raises(gs.StoreError, match="Nothing finished is lost"):
        train_plainly(store)


def test_file_systems_without_links(store):
    class Linkless(FaultyDisk):
        def link(self, old, new):
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    with under(Linkless(-1, "crash")), store.claim(NAME) as mine:
        assert mine
        with gs.Store(store.root).claim(NAME) as second:
            assert not second


def test_an_old_listing_makes_no_second_holder(store, elsewhere, monkeypatch):
    """Network file systems may show a directory as it was: empty, while there is a holder."""
    other = elsewhere()
    current = other._leases._current
    with store.claim(NAME):
        (store.root / ".locks" / f"{NAME}.1").rename(store.root / ".locks" / f"{NAME}.2")
        seen = []
        old = lambda name: None if not seen and not seen.append(1) else current(name)  # noqa: E731
        monkeypatch.setattr(other._leases, "_current", old)
        with other.claim(NAME) as mine:
            assert not mine
        assert files_of(store) == [f"{NAME}.2"]


@pytest.mark.parametrize("content", ["{", "[]", '{"process": "x"}', '{"odd": 1}', "null"])
def test_a_lease_that_cannot_be_read_expires(store, clock, content):
    (store.root / ".locks").mkdir(parents=True)
    (store.root / ".locks" / f"{NAME}.3").write_text(content)
    with store.claim(NAME) as mine:
        assert not mine
    clock.now += leases.EXPIRY + 1
    with store.claim(NAME) as mine:
        assert mine
        assert files_of(store) == [f"{NAME}.4"]


def test_an_empty_lease_is_nobodys(store):
    """Its content was lost with the power."""
    (store.root / ".locks").mkdir(parents=True)
    (store.root / ".locks" / f"{NAME}.1").touch()
    with store.claim(NAME) as mine:
        assert mine


def test_training_goes_on_when_a_lease_is_lost(tiny, store, monkeypatch):
    """The one who lost it says so, waits for the other, and then has the run like everyone."""
    events, finished = [], []

    def sink(event):
        events.append(event)
        if event.kind == "started" and not finished:
            (store.root / ".locks" / f"{tiny.id}.1").unlink()
            finished.extend(gs.train(tiny, gs.Store(store.root), processes=1))

    (run,) = gs.train(tiny, store, processes=1, sinks=sink)
    assert run.status == "finished"
    assert any("was taken over" in event.message for event in events)
    assert store.verify() == []


def test_two_lists_of_leases_do_not_mix(store):
    """`a` and `a.1` are different names, and other files in the folder are nobody's lease."""
    with store.claim("a"), store.claim("a.1") as second:
        assert second
        (store.root / ".locks" / "a.lock").touch()
        assert json.loads((store.root / ".locks" / "a.1.1").read_text())["worker"] == os.getpid()
        assert store.holder("a").worker == os.getpid()
    assert orders.POLL_SECONDS < leases.BEAT < leases.EXPIRY / 3
