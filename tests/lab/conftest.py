"""A store with two arms of tiny runs, and a lab before it. Nothing here listens on a port."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the lab needs the extra `lab`")

from starlette.testclient import TestClient

import grokscope as gs
from grokscope.lab.guard import Guard
from grokscope.lab.server import Lab, make_app

PORT = 8321
HOME = f"http://127.0.0.1:{PORT}"


@pytest.fixture(scope="session")
def small() -> gs.RunSpec:
    """Seeds 0 and 2 grok at epochs 220 and 280, in half a second. One shape for all tests of the
    lab: compiling takes longer than training."""
    return gs.RunSpec().replace(
        **{
            "task.modulus": 13,
            "task.train_fraction": 0.8,
            "model.width": 32,
            "model.hidden": 64,
            "optimiser.lr": 1e-2,
            "optimiser.weight_decay": 3.0,
            "training.epochs": 450,
            "training.log_every": 10,
            "training.snapshots": 5,
            "training.test_threshold": 0.8,
        }
    )


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory, small: gs.RunSpec) -> list[gs.Run]:
    """Two seeds without a prior, two with one. Read them; do not change them."""
    store = gs.Store(tmp_path_factory.mktemp("lab") / "runs")
    specs = gs.sweep(small, {"prior.kind": ["none", "oracle"], "seed": [0, 1]})
    return gs.train(specs, store, processes=1)


@pytest.fixture
def lab(trained: list[gs.Run]) -> Lab:
    return Lab(gs.Store(trained[0].path.parent), Path("no-results"))


@pytest.fixture
def guard(lab: Lab) -> Guard:
    return Guard(make_app(lab), PORT)


@pytest.fixture
def stranger(guard: Guard) -> Iterator[TestClient]:
    """Somebody on this machine who has no cookie."""
    with TestClient(guard, base_url=HOME) as client:
        yield client


@pytest.fixture
def client(stranger: TestClient, guard: Guard) -> TestClient:
    """The lab's own page."""
    stranger.get(f"/?token={guard.token}")
    stranger.headers["Origin"] = HOME
    return stranger
