"""What a page says about runs, in sentences that follow from their outcomes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from grokscope.draw.glossary import measure_of
from grokscope.draw.reading import Arm, Event, Reading
from grokscope.draw.words import count, join, share, state_event

PHASES = {
    "memorisation": "the training examples are learnt by heart",
    "plateau": "training examples are right, unseen ones are not, and nothing seems to move",
    "resurgence": "attention begins to move towards the positions that matter",
    "grokking": "accuracy on unseen examples climbs to the threshold",
}


def tell_event(reading: Reading, name: str) -> str:
    """When an event happened in a run, or up to when it had not."""
    event = reading.events.get(name)
    return state_event(event, reading.unit, reading.status, reading.failed_at)


def tell_accuracy(reading: Reading) -> tuple[str, str]:
    """Final test accuracy, and the part of it that mirrored training examples cannot explain."""
    rest = reading.final.get("test_accuracy_unmirrored", math.nan)
    mirrored = reading.final.get("test_accuracy_mirrored", math.nan)
    known = math.isfinite(rest) and math.isfinite(mirrored)
    value = reading.final.get("test_accuracy")
    if value is None:
        return ("not measured" if len(reading.curve) else "no rows yet"), ""
    return share(value), f"{share(rest)} unmirrored" if known else ""


def tell_structure(reading: Reading) -> tuple[str, str]:
    """Share of inputs that satisfy the structural condition, and the weakest weight of all."""
    if "structure_share" not in reading.final:
        return ("no oracle" if len(reading.curve) else "no rows yet"), ""
    weakest = reading.final.get("weakest_min", math.nan)
    tau = f"at τ\u00a0=\u00a0{reading.thresholds['weakest_min']:.3g}"
    least = f"weakest weight {weakest:.3g}" if math.isfinite(weakest) else "weakest weight unknown"
    return f"{share(reading.final['structure_share'])} of inputs", f"{tau}; {least}"


def judge(readings: Sequence[Reading]) -> tuple[str, str]:
    """What became of the runs of one arm: a headline, and sentences."""
    if len(readings) == 1:
        return _judge_one(readings[0])
    total, unit = len(readings), readings[0].unit
    names = list(dict.fromkeys(name for reading in readings for name in reading.events))
    if not names:
        return f"{count(total, 'run')}, no event yet", "No event has been measured so far."
    sentences = []
    for name in names:
        times = _times(readings, name)
        many = "All" if len(times) == total else f"{len(times)} of {total}" if times else "None"
        sentences.append(f"{many} {name}{', ' * bool(times)}{_range(times, unit)}.")
    goal = names[-1]
    times = _times(readings, goal)
    rest = [tell_event(r, goal) for r in readings if r.time_of(goal) is None]
    if rest:
        who = f"The other{'s' * (len(rest) > 1)}" if times else goal.capitalize()
        sentences.append(f"{who}: {_tally(rest)}.")
    lost = sum(_ends_above(reading, goal) is False for reading in readings if _has(reading, goal))
    if lost:
        sentences.append(f"{lost} of them ended below the threshold again.")
    return f"{len(times)} of {total} seeds {goal}", " ".join(sentences)


def _judge_one(reading: Reading) -> tuple[str, str]:
    unit, goal = reading.unit, reading.goal
    if not goal:
        if len(reading.curve):
            return f"{count(reading.epochs, unit)} trained", "No event was looked for."
        return "No rows yet", "The run has begun, but nothing has been measured so far."
    event = reading.events[goal]
    happened = event.epoch is not None
    sentences = []
    for name in reading.events:
        if name == goal:
            continue
        time = reading.time_of(name)
        if time is None:
            sentences.append(f"{name.capitalize()}: {tell_event(reading, name)}.")
        elif event.epoch is not None and event.epoch > time:
            later = count(event.epoch - time, unit)
            sentences.append(f"It had {name} by {unit} {time:,}, and {goal} {later} later.")
        elif happened:
            sentences.append(f"It {goal} no later than it {name} ({unit} {time:,}).")
        else:
            sentences.append(f"It {name} by {unit} {time:,}.")
    if happened:
        headline = f"{goal.capitalize()} at {unit} {event.epoch:,}"
    elif event.observed_until is None:
        headline = "Generalisation was not measured"
    else:
        headline = {
            "failed": f"Failed at {unit} {reading.failed_at or 0:,}",
            "partial": f"Not {goal} yet, at {unit} {reading.epochs:,}",
        }.get(reading.status, f"Not {goal} within {count(reading.epochs, unit)}")
    if reading.status == "failed":
        sentences.append("Numbers were no longer finite, so the run was ended.")
    sentences += _last_value(reading, event, goal)
    if reading.stopped_early:
        sentences.append(f"It was stopped once it had {goal}.")
    return headline, " ".join(sentences)


def _last_value(reading: Reading, event: Event, goal: str) -> list[str]:
    """What the last row says of an event whose measure is a share; nothing if it is no news."""
    above = _ends_above(reading, goal)
    if above is None:
        return []
    name = measure_of(event.measure).name or measure_of(event.measure).label
    value = share(reading.final[event.measure])
    if event.epoch is not None:
        return [] if above else [f"Its last {name}, {value}, is below the threshold again."]
    if above:
        rows = count(event.persistence, "row")
        return [f"Its last {name} reaches the threshold, but was not held there for {rows}."]
    return [f"Its last {name} {'is' if reading.status == 'partial' else 'was'} {value}."]


def compare(first: Arm, second: Arm) -> str:
    """Which of two arms got there sooner: only where no run speaks against it."""
    readings = (*first.readings, *second.readings)
    goal = next((reading.goal for reading in readings if reading.goal), "")
    if not goal:
        return ""
    if not _times(readings, goal):
        return f"No run of either arm has {goal} so far."
    for early, late in ((first, second), (second, first)):
        times = _times(early.readings, goal)
        bounds = [
            (event.observed_until or 0) if event.epoch is None else event.epoch
            for reading in late.readings
            if (event := reading.events.get(goal)) is not None
        ]
        n, m = len(early.readings), len(late.readings)
        if len(times) == n and len(bounds) == m and max(times) < min(bounds):
            runs = f"Every “{early.label}” run" if n > 1 else f"The “{early.label}” run"
            others = "any" if m > 1 else "the"
            return f"{runs} {goal} before {others} “{late.label}” run had. {_chance(n, m)}"
    return "Neither arm is ahead in every run: their times overlap, or too few are known."


def _chance(first: int, second: int) -> str:
    """How often this order of all runs comes about if the arms do not differ: every choice of
    `first` places among all is equally likely."""
    if first == second == 1:
        return "With one run each that is weak evidence: luck alone gives this order half the time."
    ways = math.comb(first + second, first)
    return (
        f"With {first} runs against {second}, luck alone gives this order once in {ways:,} times."
    )


def doubts(arms: Sequence[Arm]) -> list[str]:
    """How sure we are, item by item."""
    readings = [reading for arm in arms for reading in arm.readings]
    items = [_doubt_seeds(arms)]
    rules = Counter(
        (name, event.measure, event.threshold, event.persistence)
        for reading in readings
        for name, event in reading.events.items()
    )
    for (name, column, threshold, rows), number in rules.items():
        where = "" if number == len(readings) else f" (in {count(number, 'run')})"
        measure = measure_of(column).name or measure_of(column).label
        items.append(
            f"{name.capitalize()} means that the {measure} reaches {threshold:g} and stays there "
            f"for {count(rows, 'logged row')} in a row{where}. Another threshold gives other times."
        )
    units = join(sorted({f"{r.unit}s" for r in readings}))
    cadence = " or ".join(map(str, sorted({r.spec.training.log_every for r in readings})))
    items.append(f"The curves have a row every {cadence} {units}: no time is known more precisely.")
    censored = [r for r in readings if r.goal and r.time_of(r.goal) is None]
    if censored:
        goal, unit, last = censored[0].goal, censored[0].unit, max(r.epochs for r in censored)
        items.append(
            f"{len(censored)} of {count(len(readings), 'run')} had not {goal} when last seen, at "
            f"{unit} {last:,} at the latest. Such a run is censored: we know that its time is "
            "later, not that it never comes. It is neither dropped nor counted as the length of "
            "the run."
        )
    under_way = sum(r.status == "partial" for r in readings)
    if under_way:
        items.append(f"{count(under_way, 'run')} still under way: what is said of it can change.")
    failed = sum(r.status == "failed" for r in readings)
    if failed:
        items.append(
            f"{count(failed, 'run')} failed because numbers were no longer finite. It is drawn as "
            "far as it came, and left out of medians."
        )
    if any(math.isfinite(r.final.get("test_accuracy_mirrored", math.nan)) for r in readings):
        items.append(
            "Some test examples are training examples with their operands swapped. “Unmirrored” is "
            "the accuracy on the others: the stricter test."
        )
    if any(r.phases for r in readings):
        items.append("A phase that its rule does not find is reported as not found, never guessed.")
    return items


def _doubt_seeds(arms: Sequence[Arm]) -> str:
    seeds = [len(arm.readings) for arm in arms]
    parts = [f"“{arm.label}” {len(arm.readings)}" for arm in arms]
    text = f"Seeds: {', '.join(parts)}."
    if len(set(seeds)) == 1:
        text = f"{count(seeds[0], 'seed')}{' in each arm' * (len(arms) > 1)}."
    if min(seeds) == 1:
        text += " One seed shows that something can happen; it cannot show how often it does"
        text += ", nor how much of a difference between arms is luck." if len(arms) > 1 else "."
    if max(seeds) > 1:
        text += " The bands show the range of these seeds. They are no confidence intervals:"
        text += " further seeds can fall outside."
    return text


def _times(readings: Sequence[Reading], event: str) -> list[int]:
    times = [reading.time_of(event) for reading in readings]
    return sorted(time for time in times if time is not None)


def _has(reading: Reading, event: str) -> bool:
    return reading.time_of(event) is not None


def _ends_above(reading: Reading, name: str) -> bool | None:
    """Is the last value of an event's measure at its threshold? None where it is not known, or
    where it is unclear whether more is better."""
    event = reading.events.get(name)
    value = reading.final.get(event.measure, math.nan) if event else math.nan
    if event is None or measure_of(event.measure).scale != "share" or not math.isfinite(value):
        return None
    return value >= event.threshold


def _range(times: Sequence[int], unit: str) -> str:
    if not times:
        return ""
    low, high = min(times), max(times)
    return f"at {unit} {low:,}" if low == high else f"between {unit}s {low:,} and {high:,}"


def _tally(texts: Sequence[str]) -> str:
    """Equal texts once, with their number if there are several kinds."""
    counts = Counter(texts)
    if len(counts) == 1:
        return texts[0]
    return join([f"{number} {text}" for text, number in counts.items()])
