"""What training is given more or less of: the learning rate at a fixed product with weight decay
(Figure 4), weight decay (Figures 4 and 9), and a factor α on the outputs, at a fixed learning rate
(Figure 5c and d) and with the rate divided by α² (Figure 5a and b)."""

from __future__ import annotations

from functools import partial
from typing import Any

from grokscope.claims.evidence import ArmRuns, Event, Evidence
from grokscope.claims.judgements import Trend, field_of
from grokscope.claims.studies import Claim, ScaleName, Setting
from grokscope.claims.verdicts import median, median_time, state_time
from grokscope.draw.words import count_reached
from grokscope.papers.inductive_bias import figures, quantities, settings, side_by_side
from grokscope.papers.inductive_bias.judgements import GENERALISED, Slope, faster
from grokscope.papers.inductive_bias.settings import PROSE, changed, plain, regimes, study, tell
from grokscope.spec import RunSpec

RATES = (1e-3, 3e-3, 5e-3, 1e-2)
DECAYS = (0.1, 0.2, 0.5, 0.75, 1.0, 1.5)
SCALES = (0.5, 0.75, 1.0, 1.25, 1.5)
kaiming = regimes({"Kaiming, ε 0": {"model.init": "kaiming", "optimiser.epsilon": 0.0}})
SUBTRACTED = "initial outputs subtracted"
RANK = Event("rank_end", "have a rank", "effective rank at the end")
EXPONENT = Event("exponent_end", "have an exponent", "power-law exponent at the end")


rate_of = field_of("optimiser.lr")
decay_of = field_of("optimiser.weight_decay")
scale_of = field_of("model.readout_scale")


def alpha_of(arm: ArmRuns) -> float | None:
    return None if SUBTRACTED in arm.name else scale_of(arm)


def alpha_subtracted(arm: ArmRuns) -> float | None:
    return scale_of(arm) if SUBTRACTED in arm.name else None


RATE, DECAY, ALPHA = "the learning rate", "weight decay", "α"
with_rate = partial(Trend, rate_of, RATE)
with_decay = partial(Trend, decay_of, DECAY)
with_alpha = partial(Trend, alpha_of, ALPHA, GENERALISED)
early_update = partial(Slope, "early_update", "the mean early update norm")
first_gradient = partial(Slope, "first_gradient", "the norm of the first gradient")
UPDATES = {"early_update": "mean update norm"}
COMPRESSED = {event.column: event.name for event in (RANK, EXPONENT)}
FASTER_AT_HIGHER = with_rate(GENERALISED, high=-0.2)


def rate_arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    usual = setting.base.optimiser
    product = usual.lr * usual.weight_decay

    def balanced(rate: float) -> dict[str, float]:
        decay = float(f"{product / rate:.6g}")
        return {} if rate == usual.lr else {"optimiser.lr": rate, "optimiser.weight_decay": decay}

    chosen = RATES[1:3] if setting.scale == "smoke" else RATES
    return {f"rate {rate:g}": changed(setting, seed, balanced(rate)) for rate in chosen}


def decay_arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    chosen = DECAYS[2:5:2] if setting.scale == "smoke" else DECAYS
    one = setting.baseline(seed)
    return {f"decay {d:g}": one.replace(**{"optimiser.weight_decay": d}) for d in chosen}


def both_settings(scale: ScaleName) -> list[Setting]:
    """With Adam's epsilon 0 and Kaiming's initialisation on a laptop only."""
    return [*plain(scale), *kaiming(scale)]


def alpha_arm(alpha: float, subtracted: bool = False) -> str:
    return f"α {alpha:g}" + f", {SUBTRACTED}" * subtracted


def scaled(alpha: float) -> dict[str, Any]:
    return {"model.readout_scale": alpha} if alpha != 1 else {}


def rescaled(rate: float, alpha: float) -> dict[str, Any]:
    """With the rate of the lazy limit of gradient descent, lr / α²."""
    slower = {"optimiser.lr": float(f"{rate / alpha**2:.6g}")}
    return scaled(alpha) | (slower if alpha != 1 else {})


def alphas_at(setting: Setting) -> tuple[float, ...]:
    return SCALES[::4] if setting.scale == "smoke" else SCALES


def alpha_arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    found = {alpha_arm(a): changed(setting, seed, scaled(a)) for a in alphas_at(setting)}
    subtracted = settings.FIELDS["subtracted"]
    for a in SCALES[::2] if setting.scale == "laptop" else ():
        found[alpha_arm(a, True)] = changed(setting, seed, subtracted | scaled(a))
    return found


def rescaled_arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    rate = setting.base.optimiser.lr
    return {alpha_arm(a): changed(setting, seed, rescaled(rate, a)) for a in alphas_at(setting)}


def read_rates(evidence: Evidence) -> str:
    """The times, and to which side they lean."""

    def times(arm: ArmRuns) -> str:
        middle = state_time(median_time(arm.times(GENERALISED.column)))
        return f"{middle} ({count_reached(arm.rows, GENERALISED.column)})"

    sentences = [tell(evidence, "median steps of test accuracy 0.995, runs that generalise", times)]
    for _, sample in evidence.finished():
        found = sample.finding(Claim("", "", FASTER_AT_HIGHER)).estimate
        if found:
            lean = "against the paper" if found.value > 0 else "with the paper"
            sentences.append(PROSE.reading("rates")["lean"].format(value=found.value, lean=lean))
    return " ".join(sentences)


def read_gradients(evidence: Evidence) -> str:
    """By how much the first gradient grows over all α, and why by more than α itself."""
    found = []
    for regime, sample in evidence.finished():
        grown = []
        for how, dose in (("kept", alpha_of), ("subtracted", alpha_subtracted)):
            known = [a.values("first_gradient") for a in sample.arms.values() if dose(a)]
            if known:
                ratio = median(known[-1] / known[0])
                grown.append(f"{ratio:.1f} times with the initial outputs {how}")
        found.append(f"{regime}: {', '.join(grown)}")
    least, most = SCALES[0], SCALES[-1]
    given = {"least": least, "most": most, "once": most / least, "twice": (most / least) ** 2}
    words = PROSE.reading("readout")["why"]
    return words.format(found="; ".join(found), **given) if found else ""


dosed = partial(study, settings=plain, curves=("test_loss",))
OF_ALPHA: dict[str, Any] = {
    "settings": both_settings,
    "draw": figures.over(scale_of, "Factor α on the outputs", UPDATES),
    "curve_arms": tuple(map(alpha_arm, SCALES)),
}
STUDIES = (
    dosed(
        "rates",
        {
            "higher rate is faster": FASTER_AT_HIGHER,
            "early updates differ": early_update(rate_of, RATE, low=0.5),
        },
        arms=rate_arms,
        draw=figures.over(rate_of, "Learning rate", UPDATES),
        read=read_rates,
        table=partial(side_by_side.compare, study="rates", more=side_by_side.FIT),
        curve_arms=tuple(f"rate {rate:g}" for rate in RATES),
    ),
    dosed(
        "decay",
        {
            "higher decay is faster": with_decay(GENERALISED, high=-0.4),
            "higher decay, lower rank": with_decay(RANK, high=-0.3, censored=False),
            "higher decay, lower exponent": with_decay(EXPONENT, high=-0.2, censored=False),
        },
        arms=decay_arms,
        draw=figures.over(decay_of, "Weight decay", COMPRESSED),
        table=side_by_side.compare_decays,
        curve_arms=tuple(f"decay {decay:g}" for decay in DECAYS),
        summarise=quantities.summarise_rank,
    ),
    dosed(
        "readout-rescaled",
        {
            "larger α is slower": with_alpha(low=0.2),
            "update norms diverge": early_update(alpha_of, ALPHA, high=-1.0),
        },
        arms=rescaled_arms,
        table=partial(side_by_side.compare, study="rescaled"),
        **OF_ALPHA,
    ),
    dosed(
        "readout",
        {
            "larger α is faster": with_alpha(high=-0.2),
            "update norms are comparable": early_update(alpha_of, ALPHA, -0.25, 0.25),
            "the gradient grows like α": first_gradient(alpha_of, ALPHA, 0.8, 1.2),
            "the gradient grows like α, subtracted": first_gradient(
                alpha_subtracted, ALPHA, 0.8, 1.2
            ),
            "Adam's update does not depend on α": Slope(
                "first_update", "the norm of the first update", alpha_of, ALPHA, -0.05, 0.05
            ),
            "subtracting does not delay": faster(alpha_arm(1.0, True), alpha_arm(1.0), 0.8),
            "subtracting does not speed up": faster(alpha_arm(1.0), alpha_arm(1.0, True), 0.8),
            "larger α is faster, subtracted": Trend(
                alpha_subtracted, ALPHA, GENERALISED, high=-0.2
            ),
        },
        arms=alpha_arms,
        read=read_gradients,
        table=partial(side_by_side.compare, study="readout"),
        summarise=quantities.first_step,
        **OF_ALPHA,
    ),
)
