"""docs/performance.md and the README's table: pure functions of the measurements in
results/performance, so that both can be made again without measuring."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import sections
from benchmarks.comparison import EPOCHS, FEW
from benchmarks.figures import draw
from benchmarks.goals import (
    FLOOR,
    LOOPS,
    OURS,
    TORCH_FLOOR,
    list_goals,
    ratio,
    seconds_of,
)
from benchmarks.sections import short
from grokscope.errors import StoreError
from grokscope.pages.files import save_chart, write_between
from grokscope.store.files import write_file

# Each says when, where, by which command and at which commit it was made, since parts can be
# measured alone.
PARTS = (
    *("comparison", "agreement", "general", "block", "networks"),
    *("growth", "storage", "breakdown", "fixed"),
)
BEGIN, END = "<!-- speed: made by make bench -->", "<!-- end of speed -->"


def write(results: Path, docs: Path, readme: Path | None = None) -> list[Path]:
    """The page, its figures and, on request, a README's table."""
    measured = read(results)
    figures = [
        save_chart(chart, docs / "figures" / f"performance-{name}.svg")
        for name, chart in draw(measured).items()
    ]
    page = write_file(docs / "performance.md", render(measured).encode())
    others = [] if readme is None else [write_between(readme, BEGIN, END, speed_sentence(measured))]
    return [page, *figures, *others]


def save(results: Path, part: str, data: Mapping[str, Any]) -> None:
    write_file(results / f"{part}.json", (json.dumps(_rounded(data), indent=1) + "\n").encode())


def _rounded(value: Any) -> Any:
    """To four digits: a clock is no better."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {key: _rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(inner) for inner in value]
    return value


def read(results: Path) -> dict[str, Any]:
    missing = [part for part in PARTS if not (results / f"{part}.json").exists()]
    if missing:
        raise StoreError(f"{results} has no {', '.join(missing)}; `make bench` measures.")
    return {part: json.loads((results / f"{part}.json").read_text()) for part in PARTS}


def render(measured: Mapping[str, Any]) -> str:
    parts = (
        _head(measured),
        _goals(measured),
        sections.side_by_side(measured["comparison"]),
        sections.agreement(measured["agreement"]),
        sections.general(measured["general"], measured["agreement"]),
        sections.block(measured["block"]),
        sections.networks(measured["networks"]),
        sections.growth(measured["growth"], measured["comparison"]),
        sections.store(measured["storage"]),
        sections.breakdown(measured["breakdown"]),
        sections.fixed(measured["fixed"]),
        _method(measured),
    )
    return "\n".join(line for part in parts for line in part).rstrip() + "\n"


def _head(measured: Mapping[str, Any]) -> list[str]:
    lines = [
        "# Performance",
        "",
        "*Made by `python -m benchmarks page` from the measurements in `results/performance`; not "
        "edited by hand.*",
        "",
    ]
    together: dict[tuple[str, ...], list[str]] = {}
    for part in PARTS:
        together.setdefault(_origin(measured[part]["made"]), []).append(part)
    before: tuple[str, ...] = ()
    for (*where, when), parts in together.items():
        if where != list(before):
            lines += [f"- {line}" for line in where]
        before = tuple(where)
        names = "everything" if len(together) == 1 else ", ".join(parts)
        lines.append(f"- {when}: {names}.")
    return [*lines, ""]


def _origin(made: Mapping[str, Any]) -> tuple[str, ...]:
    """Machine, versions and command of a part, in words."""
    versions = ", ".join(f"{name} {version}" for name, version in made["versions"].items())
    return (
        f"Machine: {made['processor']}, {made['cores']} cores, {made['memory'] / 2**30:.0f} GB of "
        f"memory, {made['system']}, JAX on {made['backend']}.",
        f"Versions: {versions}.",
        f"Measured by `make {made['command']}`, {made['date']}, commit {made['commit']}",
    )


def _goals(measured: Mapping[str, Any]) -> list[str]:
    lines = [
        "## Goals",
        "",
        "The bounds were set before anything was measured. The loop over every position, as "
        "transformers are usually written, and the faster forms of the short cut were added after "
        "first measurements, the one because it is the textbook's, the others because a user may "
        "find them; all are compared with the same bounds. Speed is at paper scale, for one member "
        "with every default measure: the median of the rounds' ratios, and their range. Where a "
        "bound lies within that range, the number of rounds that keep it is given.",
        "",
        "| goal | measured | |",
        "|---|---|---|",
    ]
    lines += [f"| {g.says} | {g.measured} | {g.verdict} |" for g in list_goals(measured)]
    return [*lines, "", *_reach(measured["comparison"])]


def _reach(comparison: Mapping[str, Any]) -> list[str]:
    """How much room the six products leave, in either framework."""
    floors = {"JAX": FLOOR, "PyTorch": TORCH_FLOOR}
    rooms = {
        (library, form): ratio(comparison, 1, loop, floor)
        for library, floor in floors.items()
        for form, loop in LOOPS.items()
    }
    ours, bare = (
        ratio(comparison, 1, name, FLOOR) for name in (OURS, "grokscope, without measures")
    )
    if None in rooms.values() or ours is None or bare is None:
        return []
    words = ", ".join(
        f"{times:.1f} ({library}, {form})" for (library, form), times in rooms.items()
    )
    return [
        "How many times as fast as the eager loop an epoch of nothing but the MLP's six products "
        f"would be: {words}. grokscope takes {ours:.2f} times the products in JAX with every "
        f"measure, {bare:.2f} times without.",
        "",
    ]


def _method(measured: Mapping[str, Any]) -> list[str]:
    cores = measured["comparison"]["made"]["cores"]
    rounds = sorted({len(row["seconds"]) for row in measured["comparison"]["times"]})
    words = " or ".join(map(str, rounds))
    return [
        "## How it was measured",
        "",
        "Each library has processes of its own, which stay alive and take turns, so that thread "
        "pools never compete. A single process uses as many threads as there are cores "
        f"({cores}: XLA's pool, `torch.set_num_threads({cores})`). With one process per core, each "
        "has one thread and is bound to its core, as the lab's workers are. The lab's default is "
        "one process for one run, and one per core for several. A contender that cannot batch "
        "members trains them one after another.",
        "",
        f"A turn is {EPOCHS} epochs, {FEW} in PyTorch of several members or one block. There were "
        f"{words} rounds. Times are medians over rounds. Ratios are taken round by round, and "
        "their median is given. Times to the first row, certificates and the store of 10,000 runs "
        "were measured once. Compare ratios, not milliseconds, with those of another machine.",
        "",
        "`make bench` does the same in a few minutes with fewer sizes and rounds, "
        "`make bench-full` everything in three to four hours, `python -m benchmarks page` makes "
        "this page again from the measurements. The contenders in PyTorch need the extra `torch`. "
        "What was tried, and did not help, is in [log.md](log.md).",
    ]


def speed_sentence(measured: Mapping[str, Any]) -> str:
    """What the README says of speed."""
    comparison = measured["comparison"]
    seconds = seconds_of(comparison, "paper", 1, OURS)
    middle = short(1e3 * statistics.median(seconds))
    times = ratio(comparison, 1, LOOPS["every position"], OURS)
    loop = ", and in a plain PyTorch loop, with nothing measured, {:.1f} times as long"
    compared = loop.format(times) if times else ""
    return (
        f"An epoch of the paper's model takes {middle} ms on {comparison['made']['cores']} cores, "
        f"every default measure included{compared}: [docs/performance.md](docs/performance.md).\n"
    )
