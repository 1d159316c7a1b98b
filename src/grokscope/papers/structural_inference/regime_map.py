"""A study the paper lacks: where does its story hold?"""

from __future__ import annotations

from collections.abc import Sequence

from grokscope.claims.evidence import ArmRuns, Evidence
from grokscope.claims.judgements import Trend
from grokscope.claims.studies import Claim, ScaleName, Setting, Study
from grokscope.claims.verdicts import median_time
from grokscope.papers.structural_inference import figures
from grokscope.papers.structural_inference.settings import base
from grokscope.spec import RunSpec

ALPHABETS: dict[ScaleName, tuple[int, ...]] = {
    "smoke": (1, 29),
    "laptop": (1, 4, 6, 8, 12, 43),
    "paper": (),
}
STRENGTHS = {"smoke": (1.0,), "laptop": (0.03, 0.1, 0.3, 1.0)}
DECAYS = {"smoke": (), "laptop": (0.3, 3.0)}
REGIME = "map"


def where(scale: ScaleName) -> Sequence[Setting]:
    return [Setting(scale, REGIME, base(scale))] if ALPHABETS[scale] else []


def arm(alphabet: int, strength: float = 0.0, decay: float = 1.0) -> str:
    return f"alphabet {alphabet}, strength {strength:g}, decay {decay:g}"


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    result = {}
    for alphabet in ALPHABETS[setting.scale]:
        here = Setting(setting.scale, REGIME, setting.base.replace(**{"task.alphabet": alphabet}))
        result[arm(alphabet)] = here.baseline(seed)
        for strength in STRENGTHS[setting.scale]:
            result[arm(alphabet, strength)] = here.variant(
                seed, prior__kind="oracle", prior__strength=strength
            )
        for decay in DECAYS[setting.scale]:
            result[arm(alphabet, decay=decay)] = here.variant(seed, optimiser__weight_decay=decay)
    return result


def alone(one: ArmRuns) -> float | None:
    """Alphabet of an arm without prior and with decay 1."""
    spec = one.spec
    if spec.prior.kind != "none" or spec.optimiser.weight_decay != 1:
        return None
    return float(spec.task.alphabet)


def helped(one: ArmRuns) -> float | None:
    """Alphabet of an arm with the prior at strength 1."""
    spec = one.spec
    if spec.prior.kind != "oracle" or spec.prior.strength != 1:
        return None
    return float(spec.task.alphabet)


def read(evidence: Evidence) -> str:
    """Where the prior pays, in one sentence an alphabet."""
    sample = next(iter(evidence.samples.values()))
    parts = []
    for alphabet in ALPHABETS[evidence.scale]:
        without, given = sample.arms[arm(alphabet)], sample.arms[arm(alphabet, 1.0)]
        if not (without.sound and given.sound):
            continue
        slow, fast = median_time(without.times()), median_time(given.times())
        if slow == float("inf"):
            parts.append(f"r = {alphabet}: never without the prior, {_epoch(fast)} with it")
        else:
            gain = f" ({slow / fast:.1f} times)" if fast < float("inf") else ""
            parts.append(f"r = {alphabet}: {_epoch(slow)} without, {_epoch(fast)} with{gain}")
    return "Median grok epochs, strength 1: " + "; ".join(parts) + "." if parts else ""


def _epoch(time: float) -> str:
    return "never" if time == float("inf") else f"{time:,.0f}"


STUDY = Study(
    name="map",
    source="Our addition",
    title="A map of where the story holds",
    paper_says="The paper does not say what its distractors are.",
    how="Distractors are drawn from r operand tokens. r = 1 is a constant token, r = p is noise. "
    "Over r we vary the strength of the prior and, without a prior, the weight decay, and record "
    "when runs grok and how long attention is starved: wrong, and hardly taught.",
    settings=where,
    arms=arms,
    claims=(
        Claim(
            "delay grows with noise",
            "Without a prior, the more distractor tokens, the later a run groks.",
            Trend(alone, "the number of distractor tokens", low=0.3),
            ours=True,
        ),
        Claim(
            "starvation grows with noise",
            "… and the longer its attention is starved.",
            Trend(
                alone,
                "the number of distractor tokens",
                event="starved",
                event_name="epochs of starvation",
                low=0.3,
                censored=False,
            ),
            ours=True,
        ),
        Claim(
            "prior removes the dependence",
            "With the prior (λ = 1) the grok epoch hardly depends on their number.",
            Trend(helped, "the number of distractor tokens", low=-0.3, high=0.3),
            ours=True,
        ),
    ),
    draw=figures.draw_map,
    caption="Colour: median grok epoch over seeds (left, middle) and median epochs of starvation "
    "(right). “Never” marks fields where most runs had not grokked when their budget ended. Three "
    "seeds each; figure 3 has five, so its medians differ. Starvation ends with the budget at the "
    "latest, so that from r = 8 on, where attention never comes right, it is a lower bound.",
    read=read,
    seeds={"smoke": 1, "laptop": 3, "paper": 3},
)
