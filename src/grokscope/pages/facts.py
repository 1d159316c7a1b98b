"""What the page says about runs, in words. Every sentence is derived from outcomes: none is stated
that the runs at hand do not show."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from grokscope.draw.reading import Reading
from grokscope.measures.outcomes import EventTime, Phase

PHASES = {
    "memorisation": "the training examples are learnt by heart",
    "plateau": "training examples are right, unseen ones are not, and nothing seems to move",
    "resurgence": "attention begins to move towards the positions that matter",
    "grokking": "accuracy on unseen examples climbs to the threshold",
}


def share(value: float) -> str:
    """A share in per cent that never rounds to all or to nothing."""
    if not math.isfinite(value):
        return "not a number"
    if 0.9995 <= value < 1:
        return "over 99.9\u00a0%"
    if 0 < value < 0.0005:
        return "under 0.1\u00a0%"
    return f"{100 * value:.1f}".removesuffix(".0") + "\u00a0%"


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + "s" * (number != 1)


def join(parts: Sequence[str]) -> str:
    """a, b and c"""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def state_event(reading: Reading, event: EventTime | None) -> str:
    """When it happened, or up to when it had not."""
    if event is None:
        return "no rows yet"
    unit = reading.unit
    if event.epoch is not None:
        return f"{unit} {event.epoch:,}"
    if event.observed_until is None:
        return "not measured"
    if reading.status == "failed":
        return f"not before it failed at {unit} {reading.failed_at:,}"
    if reading.status == "partial":
        return f"not yet, at {unit} {event.observed_until:,}"
    return f"not within {count(event.observed_until, unit)}"


def state_plateau(reading: Reading) -> str:
    plateau = next((phase for phase in reading.phases if phase.name == "plateau"), None)
    if plateau is None or plateau.start is None:
        return "none found"
    if plateau.end is None:
        return f"at least {count(reading.epochs - plateau.start, reading.unit)}"
    return count(plateau.end - plateau.start, reading.unit)


def state_phase(reading: Reading, phase: Phase) -> str:
    if phase.start is None:
        return "not found"
    if phase.end is None:
        return f"{phase.start:,} to {reading.epochs:,}, not over"
    return f"{phase.start:,} to {phase.end:,}"


def state_accuracy(reading: Reading) -> tuple[str, str]:
    """Final test accuracy, and the part of it that mirrored training examples cannot explain."""
    if "test_accuracy" not in reading.final:
        return ("not measured" if len(reading.curve) else "no rows yet"), ""
    rest = reading.final.get("test_accuracy_unmirrored", math.nan)
    mirrored = reading.final.get("test_accuracy_mirrored", math.nan)
    known = math.isfinite(rest) and math.isfinite(mirrored)
    return share(reading.final["test_accuracy"]), f"{share(rest)} unmirrored" if known else ""


def state_structure(reading: Reading) -> tuple[str, str]:
    """Share of inputs that satisfy the structural condition, and the weakest weight of all."""
    if "structure_share" not in reading.final:
        return ("no oracle" if len(reading.curve) else "no rows yet"), ""
    weakest = reading.final.get("weakest_min", math.nan)
    tau = f"at τ\u00a0=\u00a0{reading.structure_threshold:.3g}"
    least = f"weakest weight {weakest:.3g}" if math.isfinite(weakest) else "weakest weight unknown"
    return f"{share(reading.final['structure_share'])} of inputs", f"{tau}; {least}"


@dataclass(frozen=True)
class Verdict:
    """The outcome of an arm: a headline, and sentences."""

    headline: str
    detail: str


def judge(readings: Sequence[Reading]) -> Verdict:
    """What became of the runs of one arm."""
    if len(readings) == 1:
        return _judge_one(readings[0])
    total, unit = len(readings), readings[0].unit
    times = sorted(_epochs(readings, "grokked"))
    headline = f"{len(times)} of {total} seeds grokked"
    sentences = []
    memorised = sorted(_epochs(readings, "memorised"))
    if memorised:
        many = "All" if len(memorised) == total else f"{len(memorised)} of {total}"
        sentences.append(f"{many} memorised, {_range(memorised, unit)}.")
    else:
        sentences.append("None memorised its training examples.")
    if times:
        sentences.append(f"Grokked {_range(times, unit)}.")
    rest = [state_event(r, r.grokked) for r in readings if not _happened(r.grokked)]
    if rest:
        who = f"The other{'s' * (len(rest) > 1)}" if times else "Grokked"
        sentences.append(f"{who}: {_tally(rest)}.")
    lost = sum(map(_lost, readings))
    if lost:
        sentences.append(f"{lost} of them ended below the threshold again.")
    return Verdict(headline, " ".join(sentences))


def _judge_one(reading: Reading) -> Verdict:
    memorised, grokked = reading.memorised, reading.grokked
    if memorised is None or grokked is None:
        return Verdict("No rows yet", "The run has begun, but nothing has been measured so far.")
    sentences = []
    learnt, unit = memorised.epoch, reading.unit
    if learnt is None:
        sentences.append(f"Memorised: {state_event(reading, memorised)}.")
    if grokked.epoch is not None:
        headline = f"Grokked at {unit} {grokked.epoch:,}"
        if learnt is not None and grokked.epoch > learnt:
            later = count(grokked.epoch - learnt, unit)
            sentences.append(f"It had memorised its training examples by {unit} {learnt:,}.")
            sentences.append(f"Unseen examples followed {later} later.")
        elif learnt is not None:
            sentences.append("Unseen examples were right no later than the training examples.")
    else:
        headline = {
            "failed": f"Failed at {unit} {reading.failed_at or 0:,}",
            "partial": f"Not grokked yet, at {unit} {reading.epochs:,}",
        }.get(reading.status, f"Not grokked within {count(reading.epochs, unit)}")
        if grokked.observed_until is None:
            headline = "Generalisation was not measured"
        if reading.status == "failed":
            sentences.append("Numbers were no longer finite, so the run was ended.")
        if learnt is not None:
            accuracy = reading.final.get("test_accuracy", math.nan)
            tail = f"; {share(accuracy)} of unseen examples were right in the end"
            if reading.status == "partial":
                tail = f"; {share(accuracy)} of unseen examples are right so far"
            tail = tail if math.isfinite(accuracy) else ""
            sentences.append(f"It memorised its training examples by {unit} {learnt:,}{tail}.")
        if _above(reading):
            rows = count(reading.spec.training.persistence, "row")
            sentences.append(
                f"Its last test accuracy reaches the threshold, but was not held there for {rows}."
            )
    if _lost(reading):
        final = share(reading.final["test_accuracy"])
        sentences.append(f"Its last test accuracy, {final}, is below the threshold again.")
    if reading.stopped_early:
        sentences.append("It was stopped once it had grokked.")
    return Verdict(headline, " ".join(sentences))


def compare(first: Sequence[Reading], second: Sequence[Reading], names: tuple[str, str]) -> str:
    """Which of two arms grokked sooner: only where no run speaks against it."""
    if not _epochs([*first, *second], "grokked"):
        return "No run of either arm has grokked so far as it was followed."
    for early, late, name, other in (
        (first, second, names[0], names[1]),
        (second, first, names[1], names[0]),
    ):
        times = _epochs(early, "grokked")
        bounds = [
            (r.grokked.observed_until or 0) if r.grokked.epoch is None else r.grokked.epoch
            for r in late
            if r.grokked is not None
        ]
        if len(times) == len(early) and len(bounds) == len(late) and max(times) < min(bounds):
            sure = _chance(len(early), len(late))
            runs = f"Every “{name}” run" if len(early) > 1 else f"The “{name}” run"
            others = "any" if len(late) > 1 else "the"
            return f"{runs} grokked before {others} “{other}” run had. {sure}"
    return "Neither arm is ahead in every run: their grok times overlap, or too few are known."


def _chance(first: int, second: int) -> str:
    """How often this order of all runs comes about if the arms do not differ: every choice of
    `first` places among all is equally likely."""
    if first == second == 1:
        return "With one run each that is weak evidence: luck alone gives this order half the time."
    ways = math.comb(first + second, first)
    return (
        f"With {first} runs against {second}, luck alone gives this order once in {ways:,} times."
    )


def doubts(arms: Sequence[tuple[str, Sequence[Reading]]]) -> list[str]:
    """How sure we are, item by item."""
    readings = [reading for _, group in arms for reading in group]
    seeds = [len(group) for _, group in arms]
    items = []
    if len(set(seeds)) == 1:
        items.append(f"{count(seeds[0], 'seed')}{' in each arm' * (len(arms) > 1)}.")
    else:
        parts = [f"“{name}” {len(group)}" for name, group in arms]
        items.append(f"Seeds: {', '.join(parts)}.")
    if min(seeds) == 1:
        items[0] += " One seed shows that something can happen; it cannot show how often it does"
        items[0] += ", nor how much of a difference between arms is luck." if len(arms) > 1 else "."
    if max(seeds) > 1:
        items[0] += (
            " The bands are the range of the seeds at hand, not a confidence interval: further "
            "seeds can fall outside."
        )
    for (train, test, rows), number in Counter(
        (
            r.spec.training.train_threshold,
            r.spec.training.test_threshold,
            r.spec.training.persistence,
        )
        for r in readings
    ).items():
        where = "" if number == len(readings) else f" (in {count(number, 'run')})"
        items.append(
            f"Memorised means training accuracy of at least {train:g}, grokked means test accuracy "
            f"of at least {test:g}, each held for {count(rows, 'logged row')} in a row{where}. "
            "Other thresholds give other times."
        )
    units = join(sorted({f"{r.unit}s" for r in readings}))
    cadence = sorted({r.spec.training.log_every for r in readings})
    items.append(
        f"The curves have a row every {' or '.join(map(str, cadence))} {units}; no time on this "
        "page is finer than that."
    )
    censored = [r for r in readings if r.grokked is not None and r.grokked.epoch is None]
    if censored:
        last = f"up to {censored[0].unit} {max(r.epochs for r in censored):,}"
        items.append(
            f"{len(censored)} of {count(len(readings), 'run')} had not grokked when last seen "
            f"({last}). Such a run is censored: we know that its grok time is later, not that it "
            "never comes. It is neither dropped nor counted as the length of the run."
        )
    under_way = sum(r.status == "partial" for r in readings)
    if under_way:
        items.append(f"{count(under_way, 'run')} not over yet: what is said of it can change.")
    failed = [r for r in readings if r.status == "failed"]
    if failed:
        items.append(
            f"{count(len(failed), 'run')} failed because numbers were no longer finite; drawn as "
            "far as it came, and left out of medians."
        )
    if any(math.isfinite(r.final.get("test_accuracy_mirrored", math.nan)) for r in readings):
        items.append(
            "Some test examples are training examples with their operands swapped. “Unmirrored” is "
            "the accuracy on the others: the stricter test."
        )
    items.append(
        "A phase that its rule does not find is reported as not found; no boundary is guessed."
    )
    return items


def _epochs(readings: Sequence[Reading], event: str) -> list[int]:
    events: list[EventTime | None] = [getattr(reading, event) for reading in readings]
    return [e.epoch for e in events if e is not None and e.epoch is not None]


def _happened(event: EventTime | None) -> bool:
    return event is not None and event.epoch is not None


def _above(reading: Reading) -> bool:
    accuracy = reading.final.get("test_accuracy", math.nan)
    return accuracy >= reading.spec.training.test_threshold


def _lost(reading: Reading) -> bool:
    """Did it grok and end below the threshold all the same?"""
    known = math.isfinite(reading.final.get("test_accuracy", math.nan))
    return _happened(reading.grokked) and known and not _above(reading)


def _range(epochs: Sequence[int], unit: str) -> str:
    low, high = min(epochs), max(epochs)
    return f"at {unit} {low:,}" if low == high else f"between {unit}s {low:,} and {high:,}"


def _tally(texts: Sequence[str]) -> str:
    """Equal texts once, with their number if there are several kinds."""
    counts = Counter(texts)
    if len(counts) == 1:
        return texts[0]
    return join([f"{number} {text}" for text, number in counts.items()])
