"""What became of runs, in sentences that follow from their outcomes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from grokscope.draw.glossary import measure_of
from grokscope.draw.reading import Arm, Event, Reading
from grokscope.draw.words import count, join, share, state_event


def tell_event(reading: Reading, name: str) -> str:
    """When an event happened in a run, or up to when it had not."""
    event = reading.events.get(name)
    return state_event(event, reading.unit, reading.status, reading.failed_at)


def tell_accuracy(reading: Reading) -> tuple[str, str]:
    """Final test accuracy, and the part of it that mirrored training examples cannot explain."""
    if "test_accuracy" not in reading.final:
        return ("not measured" if len(reading.curve) else "no rows yet"), ""
    ends = ("", "_mirrored", "_unmirrored")
    value, mirrored, rest = (reading.final.get(f"test_accuracy{e}", math.nan) for e in ends)
    known = math.isfinite(rest) and math.isfinite(mirrored)
    return share(value), f"{share(rest)} unmirrored" if known else ""


def tell_structure(reading: Reading) -> tuple[str, str]:
    """Share of inputs that satisfy the structural condition, and the weakest weight of all."""
    if "structure_share" not in reading.final:
        return ("no oracle" if len(reading.curve) else "no rows yet"), ""
    weakest = reading.final.get("weakest_min", math.nan)
    least = f"{weakest:.3g}" if math.isfinite(weakest) else "unknown"
    more = f"at τ\u00a0=\u00a0{reading.thresholds['weakest_min']:.3g}; weakest weight {least}"
    return f"{share(reading.final['structure_share'])} of inputs", more


def judge(readings: Sequence[Reading]) -> tuple[str, str]:
    """What became of the runs of one arm: a headline, and sentences."""
    if len(readings) == 1:
        return _judge_one(readings[0])
    total, unit = len(readings), readings[0].unit
    names = list(dict.fromkeys(name for reading in readings for name in reading.events))
    if not names:
        return f"{total} runs", "No event has been seen so far."
    sentences = []
    for name in names:
        times = times_of(readings, name)
        many = "All" if len(times) == total else f"{len(times)} of {total}" if times else "None"
        span = [f"{time:,}" for time in dict.fromkeys(times[:1] + times[-1:])]
        when = f", at {unit}{'s' * (len(span) > 1)} {' to '.join(span)}" if span else ""
        sentences.append(f"{many} {name}{when}.")
    goal = names[-1]
    times = times_of(readings, goal)
    rest = [tell_event(r, goal) for r in readings if r.time_of(goal) is None]
    if rest:
        who = f"The other{'s' * (len(rest) > 1)}" if times else goal.capitalize()
        counts = Counter(rest).items()
        tally = join([f"{n} {text}" for text, n in counts]) if len(counts) > 1 else rest[0]
        sentences.append(f"{who}: {tally}.")
    if not times:
        sentences += _best(readings, goal)
    lost = sum(r.time_of(goal) is not None and _ends_above(r, goal) is False for r in readings)
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
    sentences = []
    for name in list(reading.events)[:-1]:
        time = reading.time_of(name)
        if time is None:
            sentences.append(f"{name.capitalize()}: {tell_event(reading, name)}.")
        elif event.epoch is None:
            sentences.append(f"It {name} by {unit} {time:,}.")
        elif event.epoch > time:
            later = count(event.epoch - time, unit)
            sentences.append(f"It had {name} by {unit} {time:,}, and {goal} {later} later.")
        else:
            sentences.append(f"It {goal} no later than it {name} ({unit} {time:,}).")
    headline = f"Not {goal} within {count(reading.epochs, unit)}"
    if event.epoch is not None:
        headline = f"{goal.capitalize()} at {unit} {event.epoch:,}"
    elif event.observed_until is None:
        headline = "Generalisation was not measured"
    elif reading.status == "failed":
        headline = f"Failed at {unit} {reading.failed_at or 0:,}"
    elif reading.status == "partial":
        headline = f"Not {goal} yet, at {unit} {reading.epochs:,}"
    if reading.status == "failed":
        sentences.append("Numbers were no longer finite, so the run was ended.")
    sentences += _last_value(reading, event, goal)
    best = _best([reading], goal) if event.epoch is None else []
    if best and share(reading.final.get(event.measure, math.nan)) not in best[0]:
        sentences += best
    if reading.stopped_early:
        sentences.append(f"It was stopped once it had {goal}.")
    return headline, " ".join(sentences)


def _last_value(reading: Reading, event: Event, goal: str) -> list[str]:
    """What the last row says of an event whose measure is a share; nothing if it is no news."""
    above = _ends_above(reading, goal)
    if above is None:
        return []
    name, value = measure_of(event.measure).noun, share(reading.final[event.measure])
    if event.epoch is not None:
        return [] if above else [f"Its last {name}, {value}, is below the threshold again."]
    if above:
        rows = count(event.persistence, "row")
        return [f"Its last {name} reaches the threshold, but was not held there for {rows}."]
    return [f"Its last {name} {'is' if reading.status == 'partial' else 'was'} {value}."]


def _best(readings: Sequence[Reading], goal: str) -> list[str]:
    """The best value that any of the runs has reached of what it is about, if that is a share."""
    found = [r.events[goal].measure for r in readings if goal in r.events]
    if not found or measure_of(found[0]).scale != "share":
        return []
    columns = [r.curve[found[0]].drop_nans() for r in readings if found[0] in r.curve.columns]
    values = [float(column.max()) for column in columns if len(column)]  # type: ignore[arg-type]
    if not values:
        return []
    return [f"The best {measure_of(found[0]).noun} reached was {share(max(values))}."]


def compare(first: Arm, second: Arm) -> str:
    """Which of two arms got there sooner: only where no run speaks against it."""
    readings = (*first.readings, *second.readings)
    goal = next((reading.goal for reading in readings if reading.goal), "")
    if not goal:
        return ""
    if not times_of(readings, goal):
        return f"No run of either arm has {goal} so far."
    for early, late in ((first, second), (second, first)):
        times = times_of(early.readings, goal)
        events = [r.events[goal] for r in late.readings if goal in r.events]
        bounds = [e.epoch if e.epoch is not None else e.observed_until or 0 for e in events]
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
    ways = f"once in {math.comb(first + second, first):,} times"
    return f"With {first} runs against {second}, luck alone gives this order {ways}."


def rules_of(readings: Sequence[Reading]) -> list[str]:
    """What each event means in these runs."""
    rules = Counter(
        (name, measure_of(e.measure).noun, e.threshold, e.persistence)
        for reading in readings
        for name, e in reading.events.items()
    )
    return [
        f"{name.capitalize()} means that the {measure} reaches {threshold:g} and stays there for "
        f"{count(rows, 'logged row')} in a row"
        + (f" (in {count(number, 'run')})." if number < len(readings) else ".")
        for (name, measure, threshold, rows), number in rules.items()
    ]


def times_of(readings: Sequence[Reading], event: str) -> list[int]:
    """When an event happened, in the runs in which it did, ascending."""
    return sorted(time for r in readings if (time := r.time_of(event)) is not None)


def _ends_above(reading: Reading, name: str) -> bool | None:
    """Is the last value of an event's measure at its threshold? None where it is not known, or
    where it is unclear whether more is better."""
    event = reading.events.get(name)
    value = reading.final.get(event.measure, math.nan) if event else math.nan
    if event is None or measure_of(event.measure).scale != "share" or not math.isfinite(value):
        return None
    return value >= event.threshold
