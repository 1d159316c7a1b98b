"""Measurements that nobody made: small round numbers whose page can be worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.comparison import (
    BLOCK_CONTENDERS,
    CONTENDERS,
    GENERAL_CONTENDERS,
    TESTED,
    Contender,
)
from benchmarks.goals import PROMISES
from benchmarks.growth import AXES, GROUPS, REST

MADE = {
    "command": "bench-full",
    "date": "2026-01-01",
    "commit": "abc1234",
    "processor": "an abacus",
    "cores": 2,
    "memory": 8 * 2**30,
    "system": "Linux",
    "backend": "cpu",
    "versions": {"python": "3.11.0"},
}
MILLISECONDS = {
    "grokscope": 10.0,
    "grokscope, a single member": 10.0,
    "PyTorch loop": 100.0,
    "PyTorch short cut": 14.0,
    "floor": 8.0,
    TESTED: 150.0,
}


def _times(
    scales: Sequence[str] = ("laptop", "paper"), contenders: Sequence[Contender] = CONTENDERS
) -> list[dict[str, Any]]:
    return [
        {
            "scale": scale,
            "members": members,
            "contender": contender.name,
            # The second round is disturbed for all alike: ratios do not feel it.
            "seconds": [
                slow
                * (1 if contender.kind == "alone" else members)
                * MILLISECONDS.get(contender.name, 20.0)
                / 1e3
                for slow in (1.0, 1.5, 1.1)
            ],
            "first": 2.0,
        }
        for scale in scales
        for members in (1, 5, 20)
        for contender in contenders
        if members in contender.members
    ]


def _sizes(scale: str) -> dict[str, Any]:
    return {
        "scale": scale,
        "modulus": 59,
        "examples": 1740,
        "test_examples": 1741,
        "length": 5,
        "width": 64,
        "hidden": 256,
        "parameters": 48_000,
    }


def make() -> dict[str, Any]:
    return {
        "comparison": {
            "made": MADE,
            "missing": {},
            "sizes": [_sizes("laptop"), _sizes("paper")],
            "times": _times(),
        },
        "agreement": {
            "made": {**MADE, "commit": "def5678"},
            "tolerance": 0.01,
            "curves": [
                {
                    "scale": "paper",
                    "contender": name,
                    "epochs": 200,
                    "early": 1e-6,
                    "difference": difference,
                    "every": 100,
                    "losses": [4.7, 0.5],
                    "differences": [0.0, difference],
                }
                for name, difference in (("grokscope", 0.004), ("PyTorch loop", 0.002))
            ],
        },
        "general": {
            "made": MADE,
            "missing": {},
            "sizes": [_sizes("general")],
            "times": _times(["general"], GENERAL_CONTENDERS),
        },
        "block": {
            "made": MADE,
            "missing": {},
            "sizes": [_sizes("block")],
            "times": _times(["block"], BLOCK_CONTENDERS),
        },
        "networks": {
            "made": MADE,
            "times": [
                {"scale": network, "members": 1, "contender": name, "seconds": [seconds] * 3}
                for network, slow, fast, *_ in PROMISES
                for name, seconds in ((fast, 0.01), (slow, 0.02))
            ],
        },
        "growth": {
            "made": MADE,
            "axes": [
                {
                    "axis": axis,
                    "title": title,
                    "points": [
                        {
                            "value": value,
                            "seconds": [value**2 / 1e6],
                            "first": 5.0,
                            "bytes": {"process": 7 * 10**8, "program": 10**6 * value},
                        }
                        for value in values
                    ],
                }
                for axis, (title, values, _) in AXES.items()
            ],
            "measures": [
                {
                    "scale": scale,
                    "log_every": 25,
                    "epoch": 0.01,
                    "groups": [
                        {"group": group, "columns": 2, "seconds": [0.001 * (index + 1)]}
                        for index, group in enumerate([*GROUPS, REST])
                    ],
                }
                for scale in ("laptop", "paper")
            ],
        },
        "storage": {
            "made": MADE,
            "bytes_a_run": 40_000,
            "rows": 201,
            "write": 0.005,
            "points": [
                {
                    "runs": runs,
                    "list": 1e-3 * runs,
                    "filter": 2e-3 * runs,
                    "load one": 0.003,
                    "verify": 1e-3 * runs,
                }
                for runs in (10, 100, 1000)
            ],
        },
        "breakdown": {
            "made": MADE,
            "command": "grokscope reproduce structural-inference 3 --scale laptop --seeds 1",
            "runs": 24,
            "cores": 2,
            "wall": 100.0,
            "seconds": {"compile": 10.0, "train": 170.0, "measure": 6.0, "idle": 14.0},
        },
        "fixed": {
            "made": MADE,
            "imports": {"grokscope": [0.1], "grokscope.engine": [0.5], "jax": [0.5]},
            "certificates": {"snapshots": 200, "seconds": 4.0, "training": 100.0},
        },
    }
