"""Probes on an executor: taken by its workers, each once, and kept in the runs."""

from __future__ import annotations

import os

import grokscope as gs
from grokscope.probes import is_taken, take_all


def test_workers_share_probes(tiny, store, tmp_path):
    file = tmp_path / "probing.py"
    file.write_text(
        "import os\n"
        "def who(run, epoch):\n"
        "    with open(os.path.join(os.path.dirname(__file__), 'taken'), 'a') as log:\n"
        "        print(run.id, file=log)\n"
        "    return {'process': os.getpid() % 10_000}\n"
    )
    runs = gs.train(gs.sweep(tiny, {"seed": range(3)}), store, processes=1)
    table = take_all(runs, f"{file}:who", store, gs.LocalProcesses(2, 1))
    assert sorted((tmp_path / "taken").read_text().split()) == sorted(run.id for run in runs)
    assert os.getpid() % 10_000 not in table["process"].to_list()
    assert all(is_taken(run, f"{file}:who") for run in runs)
    assert not list((store.root / ".locks").iterdir())
