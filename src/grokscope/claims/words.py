"""The words for verdicts and effects, for terminal and pages alike."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from grokscope.claims.judgements import Faster, OfShares
from grokscope.claims.studies import Claim
from grokscope.claims.verdicts import CONTRADICTED, Estimate, Finding, Ruling

MEANINGS: Mapping[Ruling, str] = {
    "supported": "the whole interval of the effect is at or beyond what the claim asks for",
    "smaller than claimed": "the whole interval falls short of it",
    "larger than claimed": "the whole interval lies above what the claim allows",
    "opposite": "the whole interval lies on the other side of no effect",
    "inconclusive": "the interval holds what is asked for: more seeds are needed",
    "untestable": "more seeds would not help: the control failed, there is nothing to compare, or "
    "no room for the effect",
    "not run": "a run is missing",
}
RULINGS = tuple(MEANINGS)
COLOURS = {"supported": "green", **dict.fromkeys(CONTRADICTED, "red")}  # the others are plain


def kind_of(ruling: str) -> str:
    """The same with one word for the three ways to be contradicted."""
    return "contradicted" if ruling in CONTRADICTED else ruling


def state_tally(rulings: Counter[Ruling]) -> str:
    """ "16 supported, 10 contradicted (6 smaller than claimed, 4 opposite) of 47 verdicts" """
    kinds: dict[str, int] = {}
    for ruling in RULINGS:
        kinds[kind_of(ruling)] = kinds.get(kind_of(ruling), 0) + rulings[ruling]
    parts = []
    for kind, number in kinds.items():
        how = [f"{rulings[ruling]} {ruling}" for ruling in CONTRADICTED if rulings[ruling]]
        detail = f" ({', '.join(how)})" if kind == "contradicted" else ""
        parts += [f"{number} {kind}{detail}"] if number else []
    return f"{', '.join(parts)} of {rulings.total()} verdicts"


def state_interest(claim: Claim) -> str:
    """The smallest effect that supports the claim: "≥ 1.25"."""
    low, high = claim.test.interest
    unit = " %" if isinstance(claim.test, OfShares) else ""
    scale = 100 if unit else 1
    if math.isinf(high):
        return f"≥ {scale * low:g}{unit}"
    if math.isinf(low):
        return f"≤ {scale * high:g}{unit}"
    return f"{low:g} to {high:g}"


def state_effect(claim: Claim, estimate: Estimate | None) -> str:
    """An effect with its interval; empty if there is none."""
    if estimate is None:
        return ""
    value, low, high = estimate.value, estimate.low, estimate.high
    if isinstance(claim.test, OfShares):
        return f"{100 * value:.0f} % ({100 * low:.3g} to {100 * high:.3g} %)"
    if isinstance(claim.test, Faster):
        if math.isnan(value):
            return "unknown: in most seeds neither arm gets there"
        if math.isinf(value):
            least = f"at least {low:.2g}: " if 0 < low < math.inf else ""
            return f"{least}in most seeds the slower arm never gets there"
        if value == 0:
            most = f"at most {high:.2g}: " if 0 < high < math.inf else ""
            return f"{most}in most seeds the arm that ought to be faster never gets there"
        if low == 0:  # a ratio: this end is open
            return str(Estimate(value, -math.inf, high, estimate.n))
    return str(estimate)


def state_finding(claim: Claim, finding: Finding) -> str:
    """Effect, what was asked for, and the seeds: "2.1 (1.6 to 3), asked ≥ 1.25, n 5"; without an
    effect the reason."""
    effect = state_effect(claim, finding.estimate)
    if not effect:
        return finding.remark.partition(";")[0]
    n = finding.estimate.n if finding.estimate else finding.seeds
    return f"{effect}; asked: {state_interest(claim)}, n\u00a0{n}"
