"""When seeds are added, and how much error each look may spend.

The looks are fixed beforehand: 5, 10, 20 and 40 seeds. A claim stops at the first look that decides
it, so the chance of a false verdict adds up over the looks. It is spent as Lan and DeMets (1983)
do: by look k at most SPENT[k] may have been used up. Most is spent at once, so that five seeds that
all agree (chance 1 / 32) decide: that is what a paper's figure rests on, and it saves most runs.

`ERRORS` are the levels of the single looks that follow for a Brownian motion seen at times
proportional to the number of seeds. Exact tests of few seeds are discrete, so they spend less;
`grokscope.claims.simulation` counts what every rule really spends.

The error is that of one bound. A claim draws a line, the truth lies on one side of it, and only one
of the two verdicts is then false: so each bound may err in 5 % of the cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

ScaleName = Literal["smoke", "laptop", "paper"]

ERROR = 0.05
LOOKS = (5, 10, 20, 40)  # seeds
SPENT = (0.032, 0.039, 0.045, 0.05)
ERRORS = (0.032, 0.0134, 0.0104, 0.0085)
LAST: dict[ScaleName, int] = {"smoke": 1, "laptop": 40, "paper": 10}


@dataclass(frozen=True)
class Look:
    seeds: int
    error: float = ERROR  # that each bound may make here
    before: float = 0.0  # what earlier looks may have spent


def looks_up_to(seeds: int) -> Sequence[Look]:
    """The looks that end with so many seeds. A number that is no look (`--seeds 7`) was fixed by
    whoever ran it: there is one look, and it may spend everything."""
    if seeds not in LOOKS:
        return [Look(seeds)]
    before = (0.0, *SPENT)
    every = zip(LOOKS, ERRORS, before, strict=False)
    return [Look(*each) for each in every if each[0] <= seeds]


def next_look(seeds: int, most: int) -> int | None:
    """The number of seeds at which an open claim is looked at again; None after the last look, or
    if the number was fixed."""
    later = [n for n in LOOKS if seeds < n <= most]
    return later[0] if later and seeds in LOOKS else None
