"""The networks of the other papers, each beside what one would use instead."""

from __future__ import annotations

from typing import Any

from benchmarks.goals import LAW, PLACEMENT, STEP
from benchmarks.incontext import measure_steps
from benchmarks.inductive_bias import measure_placement
from benchmarks.operators import measure_law, measure_step


def measure_networks(rounds: int) -> dict[str, Any]:
    found = {
        PLACEMENT: measure_placement(rounds),
        **measure_steps(rounds),
        STEP: measure_step(rounds),
        LAW: measure_law(rounds),
    }
    return {
        "times": [
            {"scale": network, "members": 1, "contender": contender, "seconds": seconds}
            for network, times in found.items()
            for contender, seconds in times.items()
        ]
    }
