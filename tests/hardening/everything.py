"""Every file operation of a small and of a real training run, with every fault: minutes, by hand.

python -m hardening.everything      (in the directory tests)
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import grokscope as gs
from grokscope.engine import training
from hardening.faults import FAULTS
from hardening.test_faults import real_run, try_operations, try_real_run

TINY = gs.RunSpec().replace(
    **{
        "task.modulus": 11,
        "model.width": 8,
        "model.hidden": 16,
        "training.epochs": 100,
        "training.log_every": 10,
    }
)

if __name__ == "__main__":
    training.CHUNK_SECONDS = 0.0
    with tempfile.TemporaryDirectory() as folder:
        spec, whole, count = real_run(TINY, Path(folder) / "whole")
        for fault in FAULTS:
            try_operations(Path(folder) / "small" / fault, fault)
            for at in range(count):
                try_real_run(spec, Path(folder) / f"{fault}{at}", at, fault, whole)
            print(f"{fault}: {count} operations, nothing lost.", flush=True)
