"""How often the rules err, and how often they decide: every test on made-up seeds whose truth is
known. `grokscope statistics` writes the page.

A truth is given by the effect of the typical seed: none, exactly the smallest that the claim asks
for, and one that is clearly there. "Supported" is false where the truth is (a hair) below what is
asked for, "contradicted" where it is not; at the threshold itself one can count both. Times are
log-normal, with a spread of 17 % and a correlation of 0.3 between arms of a seed, as in the runs of
the first paper, unless they are skewed (a shifted exponential, of 40 %) or censored (at a budget
that a third of the slower runs do not meet).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from grokscope.claims import verdicts
from grokscope.claims.evidence import GROKKING, ArmRuns, Event, Sample
from grokscope.claims.judgements import (
    Faster,
    GainKept,
    InverseLaw,
    Level,
    Separation,
    Share,
    ShareAtBest,
    Trend,
)
from grokscope.claims.looks import LOOKS, Look, looks_up_to
from grokscope.claims.verdicts import Finding, PerSeed

if TYPE_CHECKING:
    from grokscope.claims.studies import Setting, Test

SEEDS = LOOKS[-1]
SPREAD, CORRELATION = 0.17, 0.3  # of log times, measured on the runs of the first paper
BUDGET = 5000.0
DOSES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
Data = Mapping[str, np.ndarray]  # by arm, (draws, seeds)
Draw = Callable[[np.random.Generator, int, float], Data]  # generator, draws, truth


@dataclass(frozen=True)
class MadeUp(Sample):
    """A sample without runs: times and values are given."""

    data: Data = field(default_factory=dict)  # by arm, (seeds,)

    @classmethod
    def of(cls, data: Data) -> MadeUp:
        setting: Setting = None  # type: ignore[assignment]  # only its budget would be asked for
        return cls(setting, {name: ArmRuns(name, (), ()) for name in data}, data=data)

    @property
    def budget(self) -> int:
        return int(BUDGET)

    def first(self, look: Look) -> MadeUp:
        cut = {name: values[: look.seeds] for name, values in self.data.items()}
        return MadeUp(self.setting, self.arms, look.error, cut)

    def values(self, arm: str, column: str) -> np.ndarray:
        return self.data.get(f"{arm} {column}", self.data[arm])

    def times(self, arm: str, event: Event = GROKKING) -> np.ndarray:
        return self.data[arm]


@dataclass(frozen=True)
class Case:
    """A test, what the seeds look like, and three truths."""

    rule: str
    numbers: str  # what the seeds' numbers look like
    test: Test
    draw: Draw
    truths: tuple[float, float, float]  # none, threshold, effect
    known: bool = True  # is the effect the truth that is drawn from, or only its threshold known?


def noise(rng: np.random.Generator, draws: int, arms: int, skewed: bool = False) -> np.ndarray:
    """Log times of the arms of a seed around their medians.  -> (arms, draws, seeds)"""
    shape = (draws, SEEDS)
    common, own = rng.standard_normal(shape), rng.standard_normal((arms, *shape))
    normal = SPREAD * (math.sqrt(CORRELATION) * common + math.sqrt(1 - CORRELATION) * own)
    if not skewed:
        return normal
    return 0.4 * (rng.exponential(size=(arms, *shape)) - math.log(2)) + 0.3 * normal


def censor(times: np.ndarray) -> np.ndarray:
    return np.where(times > BUDGET, math.inf, times)


def race(middle: float, skewed: bool = False) -> Draw:
    """Two arms, the slower with the median `middle`; the truth is the median of their ratio."""

    def draw(rng: np.random.Generator, draws: int, truth: float) -> Data:
        fast, slow = noise(rng, draws, 2, skewed)
        # The median of a difference is not the difference of the medians, unless both are alike.
        fast, slow = (slow, fast) if skewed else (fast, slow)
        return {
            "fast": censor(np.exp(math.log(middle / truth) + fast)),
            "slow": censor(np.exp(math.log(middle) + slow)),
        }

    return draw


def lopsided(rng: np.random.Generator, draws: int, truth: float) -> Data:
    """Two arms of which only the slower is skewed; the typical ratio is the truth."""
    slow, fast = noise(rng, draws, 2, skewed=True)[0], noise(rng, draws, 2)[0]
    shift = float(np.median(slow - fast))
    return {
        "fast": censor(np.exp(math.log(1500 / truth) + fast)),
        "slow": censor(np.exp(math.log(1500) + slow - shift)),
    }


RIVALS = ("first", "second", "third", "fourth")


def rivals(rng: np.random.Generator, draws: int, truth: float) -> Data:
    """An arm and four slower ones, each of them behind by the truth."""
    fast, *slow = np.exp(math.log(1500) + noise(rng, draws, 1 + len(RIVALS)))
    return {"fast": fast / truth, **dict(zip(RIVALS, slow, strict=True))}


def share(rng: np.random.Generator, draws: int, truth: float) -> Data:
    return {"arm": np.where(rng.random((draws, SEEDS)) < truth, 800.0, math.inf)}


def shares(rng: np.random.Generator, draws: int, truth: float) -> Data:
    """At every dose the same share of seeds gets there: whichever looks best does so by luck."""
    return {str(dose): share(rng, draws, truth)["arm"] for dose in DOSES}


def level(skewed: bool = False, missing: float = 0.0) -> Draw:
    def draw(rng: np.random.Generator, draws: int, truth: float) -> Data:
        values = rng.standard_normal((draws, SEEDS))
        if skewed:
            values = np.exp(values) - 1  # its median is 0, its mean 0.65
        absent = rng.random((draws, SEEDS)) < missing
        return {"arm": np.where(absent, math.nan, truth + values)}

    return draw


def paired_level(rng: np.random.Generator, draws: int, truth: float) -> Data:
    common, own, other = rng.standard_normal((3, draws, SEEDS))
    return {"arm": 2 * common + own + truth, "reference": 2 * common + other}


def gains(budgeted: bool = False) -> Draw:
    """Three arms; the truth is the share of the gain."""

    def draw(rng: np.random.Generator, draws: int, truth: float) -> Data:
        slow, best, arm = np.exp(noise(rng, draws, 3))
        late, early = (4500.0, 1000.0) if budgeted else (2500.0, 800.0)
        slow, best = late * slow, early * best
        middle = truth * best + (1 - truth) * slow
        return {"arm": censor(middle * arm**0.5), "best": best, "reference": censor(slow)}

    return draw


def by_name(arm: ArmRuns) -> float:
    return float(arm.name)


def doses(rng: np.random.Generator, draws: int, truth: float) -> Data:
    """Log times with a slope in log dose; the truth is the slope in units of the noise."""
    steps = np.arange(len(DOSES)) - len(DOSES) / 2
    times = np.exp(math.log(1500) + noise(rng, draws, len(DOSES)))
    factors = np.exp(truth * SPREAD * steps)[:, None, None]
    return dict(zip(map(str, DOSES), censor(times * factors), strict=True))


def calibrate(draw: Draw, number: Callable[[Data], np.ndarray], at: float) -> float:
    """The truth at which half of the seeds have a number below `at`: the threshold of a rank
    statistic, in units of what makes it."""
    low, high = -4.0, 4.0
    for _ in range(20):
        truth = (low + high) / 2
        below = np.mean(number(draw(np.random.default_rng(1), 1000, truth)) < at)
        low, high = (truth, high) if below > 0.5 else (low, truth)
    return (low + high) / 2


def taus(data: Data) -> np.ndarray:
    times = np.stack([data[str(dose)] for dose in DOSES])
    return verdicts.rank_correlations(np.array(DOSES)[:, None], np.moveaxis(times, 1, 0))


def separated(rng: np.random.Generator, draws: int, truth: float) -> Data:
    """Eight arms, four of which have the event; their number is larger by the truth."""
    number = rng.standard_normal((8, draws, SEEDS))
    happened = np.arange(8) < 4
    number[happened] += truth
    times = np.where(happened, 900.0, math.inf)
    data = {str(arm): np.full((draws, SEEDS), times[arm]) for arm in range(8)}
    return data | {f"{arm} number": number[arm] for arm in range(8)}


def areas(data: Data) -> np.ndarray:
    values = np.stack([data[f"{arm} number"] for arm in range(8)], axis=1)
    times = np.stack([data[str(arm)] for arm in range(8)], axis=1)
    return verdicts.roc_areas(np.isfinite(times), values)


@dataclass(frozen=True)
class FittedBefore(InverseLaw):
    """The same rule on exponents that were fitted to all draws at once."""

    def needs(self, sample: Sample) -> Sequence[str]:
        return ["lower", "upper"]

    def exponents(self, sample: Sample) -> PerSeed:
        return PerSeed(sample.values("lower", ""), sample.values("upper", ""))

    def fit(self, sample: Sample) -> tuple[verdicts.PowerLaw, str]:
        return verdicts.PowerLaw(math.nan, math.nan, math.nan), ""


def laws(rng: np.random.Generator, draws: int, truth: float) -> Data:
    """time = 700 + c / dose^truth, 4,000 at the weakest dose; a tenth of its runs is censored."""
    scale = 3300 * min(DOSES) ** truth
    law = np.array([700 + scale * dose**-truth for dose in DOSES])[:, None, None]
    times = censor(law * np.exp(noise(rng, draws, len(DOSES))))
    flat = np.moveaxis(times, 0, -1).reshape(-1, len(DOSES))
    lower, upper = verdicts.exponents(np.array(DOSES), flat, BUDGET)
    return {"lower": lower.reshape(draws, SEEDS), "upper": upper.reshape(draws, SEEDS)}


@cache
def cases() -> tuple[Case, ...]:
    falling = Trend(by_name, "the dose", high=-0.3)
    flat = Trend(by_name, "the dose", low=-0.3, high=0.3)
    apart = Separation("number", "the number", 0.8, lambda arm: " " not in arm.name)
    slope = calibrate(doses, taus, -0.3)
    distance = calibrate(separated, areas, 0.8)
    ahead, equal = Faster("fast", "slow", 1.25), Faster("fast", "slow", 0.9)
    each = Faster("fast", RIVALS, 1.25)
    best = ShareAtBest(by_name, "dose", "most")
    high = Level("arm", "x", "level", low=0.5)
    lead = Level("arm", "x", "lead", low=0.5, reference="reference")
    kept = GainKept("arm", "best", "reference", 0.5)
    area = "area under the curve (at least 0.8)"
    between = Level("arm", "x", "level", low=-0.5, high=0.5)
    return (
        Case("faster (at least 1.25 times)", "log-normal", ahead, race(1500), (1, 1.25, 2)),
        Case("faster (at least 1.25 times)", "censored", ahead, race(4700), (1, 1.25, 2)),
        Case("faster (at least 1.25 times)", "mostly censored", ahead, race(5200), (1, 1.25, 2)),
        Case("faster (at least 1.25 times)", "skewed", ahead, lopsided, (1, 1.25, 2)),
        Case("as fast (at least 0.9 times)", "log-normal", equal, race(1500), (0.75, 0.9, 1)),
        Case("as fast (at least 0.9 times)", "censored", equal, race(4700), (0.75, 0.9, 1)),
        Case("as fast (at least 0.9 times)", "skewed", equal, race(1500, True), (0.75, 0.9, 1)),
        Case("as fast (at least 0.9 times)", "one arm skewed", equal, lopsided, (0.75, 0.9, 1)),
        Case("faster than each of four (1.25 times)", "log-normal", each, rivals, (1, 1.25, 2)),
        Case("most seeds", "yes or no", Share("arm", "most"), share, (0.1, 0.5, 0.95)),
        Case("most seeds at the best of seven doses", "yes or no", best, shares, (0.1, 0.5, 0.95)),
        Case("level (at least 0.5)", "normal", high, level(), (-0.5, 0.5, 2)),
        Case("level (at least 0.5)", "skewed", high, level(True), (-0.5, 0.5, 2)),
        Case("level (at least 0.5)", "a tenth missing", high, level(missing=0.1), (-0.5, 0.5, 2)),
        Case("level (within 0.5 of 0)", "normal", between, level(), (2, 0.5, 0)),
        Case("lead of one arm (at least 0.5)", "normal", lead, paired_level, (-0.5, 0.5, 3)),
        Case("share of the gain (at least 0.5)", "log-normal", kept, gains(), (0.1, 0.5, 0.9)),
        Case("share of the gain (at least 0.5)", "censored", kept, gains(True), (0.1, 0.5, 0.9)),
        Case(
            "rank correlation (at most -0.3)", "log-normal", falling, doses, (0, slope, -1), False
        ),
        Case("rank correlation (within 0.3)", "log-normal", flat, doses, (-1, slope, 0), False),
        Case(area, "normal", apart, separated, (0, distance, 3), False),
        Case("inverse law (0.75 to 1.33)", "censored", FittedBefore(by_name), laws, (0.4, 0.75, 1)),
        Case("inverse law (0.75 to 1.33)", "upper end", FittedBefore(by_name), laws, (2, 1.33, 1)),
    )


TRUTHS = ("none", "threshold", "effect")
DESIGNS = (*map(str, LOOKS), "looks")
FIXED = [Look(n) for n in LOOKS]


def simulate(case: Case, draws: int, seed: int = 0) -> list[dict[str, object]]:
    """A row per truth and design: at a fixed number of seeds, or with all looks."""
    rows = []
    for number, (name, truth) in enumerate(zip(TRUTHS, case.truths, strict=True)):
        data = case.draw(np.random.default_rng([seed, number]), draws, truth)
        judged: dict[str, list[Finding]] = {design: [] for design in DESIGNS}
        for one in range(draws):
            sample = MadeUp.of({arm: values[one] for arm, values in data.items()})
            found = {look.seeds: case.test.judge(sample.first(look)) for look in FIXED}
            for n, finding in found.items():
                judged[str(n)].append(replace(finding, seeds=n))
            for look in looks_up_to(SEEDS):
                finding = found[look.seeds]
                if finding.ruling not in ("inconclusive", "untestable"):
                    finding = case.test.judge(sample.first(look))  # with less error to spend
                if finding.ruling != "inconclusive":
                    break
            judged["looks"].append(replace(finding, estimate=None, seeds=look.seeds))
        for design, findings in judged.items():
            rulings = [finding.ruling for finding in findings]
            intervals = [each.estimate for each in findings if each.estimate and case.known]
            covered = [each.low <= truth <= each.high for each in intervals]
            rows.append(
                {
                    "rule": case.rule,
                    "numbers": case.numbers,
                    "truth": name,
                    "design": design,
                    "supported": rulings.count("supported") / draws,
                    "contradicted": sum(finding.contradicted for finding in findings) / draws,
                    "untestable": rulings.count("untestable") / draws,
                    "covered": float(np.mean(covered)) if covered else None,
                    "seeds": float(np.mean([finding.seeds for finding in findings])),
                }
            )
    return rows


def tabulate(draws: int, chosen: Sequence[Case] | None = None) -> pl.DataFrame:
    """Every case in every design."""
    rows = [row for case in chosen or cases() for row in simulate(case, draws)]
    return pl.DataFrame(rows, infer_schema_length=None)


def false_rates(table: pl.DataFrame) -> pl.DataFrame:
    """The larger of the two ways to err in each case and design: "supported" where the effect is
    smaller than asked for or only just as large, "contradicted" where it is as large or larger."""
    short = pl.col("truth") != "effect"
    enough = pl.col("truth") != "none"
    grouped = table.group_by("rule", "numbers", "design", maintain_order=True)
    return grouped.agg(
        pl.col("supported").filter(short).max().alias("false_supported"),
        pl.col("contradicted").filter(enough).max().alias("false_contradicted"),
        pl.col("contradicted").filter(~enough).max().alias("finds_none"),
        pl.col("supported").filter(~short).max().alias("finds_effect"),
        pl.col("covered").min().alias("covered"),
        pl.col("seeds").filter(~enough).max().alias("seeds_none"),
        pl.col("seeds").filter(~short).max().alias("seeds_effect"),
    )
