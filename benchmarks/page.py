"""docs/performance.md and the README's table: pure functions of the measurements in
results/performance, so that both can be made again without measuring."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.comparison import CONTENDERS, EPOCHS, WHAT
from benchmarks.figures import draw
from benchmarks.goals import (
    FLOOR,
    LOOPS,
    OURS,
    SHORT_CUTS,
    list_goals,
    percent,
    ratio,
    seconds_of,
)
from benchmarks.growth import fit_exponent, middles
from benchmarks.teams import median_ratio
from grokscope.errors import StoreError
from grokscope.report.files import save_chart, write_between, write_file

PARTS = ("about", "comparison", "general", "growth", "storage", "breakdown", "fixed")
BEGIN, END = "<!-- speed: made by make bench -->", "<!-- end of speed -->"


def write(results: Path, docs: Path, readme: Path | None = None) -> list[Path]:
    """The page, its figures and, on request, a README's table."""
    measured = read(results)
    figures = [
        save_chart(chart, docs / "figures" / f"performance-{name}.svg")
        for name, chart in draw(measured).items()
    ]
    page = write_file(docs / "performance.md", render(measured).encode())
    others = [] if readme is None else [write_between(readme, BEGIN, END, speed_table(measured))]
    return [page, *figures, *others]


def save(results: Path, part: str, data: Mapping[str, Any]) -> None:
    write_file(results / f"{part}.json", (json.dumps(_rounded(data), indent=1) + "\n").encode())


def _rounded(value: Any) -> Any:
    """Four digits are more than a clock is worth."""
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
    sections = (
        _head(measured["about"]),
        _goals(measured),
        _side_by_side(measured["comparison"]),
        _losses(measured["comparison"]),
        _general(measured["general"]),
        _growth(measured["growth"], measured["comparison"]),
        _store(measured["storage"]),
        _breakdown(measured["breakdown"]),
        _fixed(measured["fixed"]),
        _method(measured),
    )
    return "\n".join(line for section in sections for line in section).rstrip() + "\n"


def _head(about: Mapping[str, Any]) -> list[str]:
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    memory = f"{about['memory'] / 2**30:.0f} GB"
    return [
        "# Performance",
        "",
        f"*Made by `make {about['command']}` from the measurements in `results/performance`; not "
        "edited by hand.*",
        "",
        f"- Machine: {about['processor']}, {about['cores']} cores, {memory} of memory, "
        f"{about['system']}, JAX on {about['backend']}.",
        f"- Versions: {versions}.",
        f"- {about['date']}, commit {about['commit']}, {about['minutes']:.0f} minutes.",
        "",
    ]


def _goals(measured: Mapping[str, Any]) -> list[str]:
    lines = [
        "## Goals",
        "",
        "The bounds were set before anything was measured. The loop over every position, as "
        "transformers are usually written, and the faster forms of the short cut were added after "
        "first measurements, the one because it is the textbook's, the others because a user may "
        "find them; all are held against the same bounds. Speed is at paper scale, one member, "
        "every default measure on.",
        "",
        "| goal | measured | |",
        "|---|---|---|",
    ]
    lines += [f"| {g.says} | {g.measured} | {g.verdict} |" for g in list_goals(measured)]
    return [*lines, "", *_reach(measured["comparison"])]


def _reach(comparison: Mapping[str, Any]) -> list[str]:
    """How fast anything could be: what the six products alone leave room for."""
    found = {name: ratio(comparison, 1, name, FLOOR) for name in (*LOOPS.values(), OURS)}
    bare = ratio(comparison, 1, "grokscope, without measures", FLOOR)
    if None in found.values() or bare is None:
        return []
    loops = " and ".join(f"{found[name]:.1f} times ({form})" for form, name in LOOPS.items())
    return [
        f"The floor itself is {loops} as fast as the eager loop: an epoch of nothing but the MLP's "
        f"six products could gain no more. grokscope takes {found[OURS]:.2f} times the floor with "
        f"every measure, {bare:.2f} times without.",
        "",
    ]


def _side_by_side(comparison: Mapping[str, Any]) -> list[str]:
    lines = [
        "## Side by side",
        "",
        "Same data, same initial weights, same optimiser (AdamW, clipping, warm-up), full batch, "
        "float32.",
        "",
        *(f"- **{c.name}**: {WHAT[c.name]}." for c in CONTENDERS),
        *(f"- **{name}** is missing here: {why}." for name, why in comparison["missing"].items()),
        "",
        "![Milliseconds a member and epoch](figures/performance-comparison.svg)",
        "",
    ]
    for sizes in comparison["sizes"]:
        lines += [f"### {sizes['scale'].capitalize()} scale", "", *_times(comparison, sizes)]
    return [
        *lines,
        "The first call builds data and model and compiles where there is something to compile; "
        "programs kept from earlier processes were not used.",
        "",
    ]


def _times(comparison: Mapping[str, Any], sizes: Mapping[str, Any]) -> list[str]:
    """Every contender at one scale."""
    scale = sizes["scale"]
    rows = [row for row in comparison["times"] if row["scale"] == scale]
    counts = sorted({row["members"] for row in rows})
    lines = [
        f"p {sizes['modulus']}, {sizes['examples']:,} training and {sizes['test_examples']:,} "
        f"test examples of {sizes['length']} tokens, d {sizes['width']}, "
        f"MLP {sizes['hidden']}, {sizes['parameters']:,} parameters. Milliseconds of one "
        "epoch of all members, and how many times as long as grokscope.",
        "",
        "| contender | " + " | ".join(_members(count) for count in counts) + " | first call |",
        "|---" * (len(counts) + 2) + "|",
    ]
    present = {row["contender"] for row in rows}
    for name in (c.name for c in CONTENDERS if c.name in present):
        cells = [_cell(comparison, scale, count, name) for count in counts]
        first = next(row["first"] for row in rows if row["contender"] == name)
        lines.append(f"| {name} | {' | '.join(cells)} | {first:.1f} s |")
    return [*lines, ""]


def _general(general: Mapping[str, Any]) -> list[str]:
    """The same for the general transformer."""
    lines = [
        "## The general transformer",
        "",
        "Two layers of four heads, causal, learned positions, LayerNorm before attention, MLP and "
        "unembedding. No table replaces its products: keys and values of the second layer differ "
        "from example to example. The lab computes the last layer only where it is read; the loop, "
        "as such models are usually written, everywhere.",
        "",
        *(f"- **{name}** is missing here: {why}." for name, why in general["missing"].items()),
        *_times(general, general["sizes"][0]),
    ]
    for row in general["losses"]:
        lines.append(
            f"- Training loss of {row['contender']}: within {row['difference']:.1e} of the loop in "
            f"double precision over {row['epochs']} epochs."
        )
    return [*lines, ""]


def _members(count: int) -> str:
    return f"{count} member{'s' * (count > 1)}"


def _cell(comparison: Mapping[str, Any], scale: str, members: int, name: str) -> str:
    seconds = seconds_of(comparison, scale, members, name)
    if not seconds:
        return ""
    times = ratio(comparison, members, name, OURS, scale)
    return f"{_short(1e3 * statistics.median(seconds))} ({times:.2f}×)"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _losses(comparison: Mapping[str, Any]) -> list[str]:
    if not comparison["losses"]:
        return []
    epochs = comparison["losses"][0]["epochs"]
    lines = [
        "## The same training",
        "",
        f"The training loss of each contender over its first {epochs} epochs, held against the "
        "PyTorch loop in double precision: the largest relative difference at any epoch. Only "
        f"rounding differs, which must make less than {percent(comparison['tolerance'], 0)}. How "
        "much it does make, the loop's own row shows: the same code in single and in double "
        "precision. "
        "(Adam divides a gradient by its own size, so that the last digits of small ones count.)",
        "",
        f"| contender | scale | loss at first | loss at last | up to epoch {EPOCHS} "
        f"| up to epoch {epochs} |",
        "|---|---|---|---|---|---|",
    ]
    for row in comparison["losses"]:
        lines.append(
            f"| {row['contender']} | {row['scale']} | {row['first']:.4f} | {row['last']:.4f} "
            f"| {row['early']:.1e} | {row['difference']:.1e} |"
        )
    return [*lines, ""]


def _growth(growth: Mapping[str, Any], comparison: Mapping[str, Any]) -> list[str]:
    lines = [
        "## How cost grows",
        "",
        "Laptop scale with one size changed, measures on. The exponent is the slope of a straight "
        "line through the logarithms, with its 95 % interval; where a curve bends, as from fixed "
        "costs to products that fill the machine, it is a mean over the range.",
        "",
        "| what grows | from | to | exponent of an epoch | of the time to the first row "
        "| of peak memory |",
        "|---|---|---|---|---|---|",
    ]
    for axis in growth["axes"]:
        points = axis["points"]
        values = [point["value"] for point in points]
        cells = [
            _exponent(values, costs)
            for costs in (
                middles(points),
                [point["first"] for point in points],
                [point["bytes"] for point in points],
            )
        ]
        ends = [
            f"{p['value']}: {_short(1e3 * statistics.median(p['seconds']))} ms, "
            f"{p['first']:.1f} s, {p['bytes'] / 1e6:.0f} MB"
            for p in (points[0], points[-1])
        ]
        lines.append(f"| {axis['title']} | {' | '.join(ends)} | {' | '.join(cells)} |")
    lines += [
        "",
        *(
            f"![An epoch against {axis['title']}](figures/performance-{axis['axis']}.svg)"
            for axis in growth["axes"]
        ),
        "",
        "![An epoch against the number of members](figures/performance-members.svg)",
        "",
        "![Time to the first row](figures/performance-compile.svg)",
        "![Peak memory](figures/performance-memory.svg)",
        "",
        *_measures(growth["measures"]),
    ]
    return lines


def _exponent(values: Sequence[float], costs: Sequence[float]) -> str:
    slope, low, high = (round(number, 2) + 0.0 for number in fit_exponent(values, costs))
    return f"{slope:.2f} ({low:.2f} to {high:.2f})"


def _measures(measures: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [
        "### What measuring costs",
        "",
        "A row computed with ever more of its columns: what nobody asks for is not computed. The "
        "columns that come first pay for what later ones share.",
        "",
        "| added | columns | " + " | ".join(f"{found['scale']}, ms" for found in measures) + " |",
        "|---|---" + "|---" * len(measures) + "|",
    ]
    before = [0.0] * len(measures)
    for index, group in enumerate(measures[0]["groups"]):
        now = [1e3 * statistics.median(found["groups"][index]["seconds"]) for found in measures]
        cells = [f"{value - old:+.2f}" for value, old in zip(now, before, strict=True)]
        lines.append(f"| {group['group']} | {group['columns']} | {' | '.join(cells)} |")
        before = now
    total = sum(group["columns"] for group in measures[0]["groups"])
    cells = [
        f"{value:.2f} = {percent(value / (1e3 * found['log_every'] * found['epoch']))} of "
        f"{found['log_every']} epochs"
        for value, found in zip(before, measures, strict=True)
    ]
    lines.append(f"| **a whole row** | {total} | {' | '.join(cells)} |")
    return [*lines, "", "![A row against its columns](figures/performance-measures.svg)", ""]


def _store(storage: Mapping[str, Any]) -> list[str]:
    points = storage["points"]
    names = ("list", "filter", "load one", "verify")
    runs = [point["runs"] for point in points]
    lines = [
        "## The store",
        "",
        f"Finished runs of {storage['rows']} rows and {storage['bytes_a_run'] / 1e3:.0f} kB each. "
        "List is a table of all runs, filter an SQL query over it, load one the spec, curve and "
        "weights of a run found by the start of its name, verify reads every byte and compares "
        f"checksums. Finishing a run, safe on disk, takes {1e3 * storage['write']:.1f} ms.",
        "",
        "| runs | " + " | ".join(names) + " |",
        "|---" * (len(names) + 1) + "|",
    ]
    for point in points:
        cells = [_duration(point[name]) for name in names]
        lines.append(f"| {point['runs']:,} | {' | '.join(cells)} |")
    cells = [_exponent(runs, [point[name] for point in points]) for name in names]
    lines.append(f"| exponent | {' | '.join(cells)} |")
    return [*lines, "", "![The store](figures/performance-store.svg)", ""]


def _duration(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def _breakdown(breakdown: Mapping[str, Any]) -> list[str]:
    total = sum(breakdown["seconds"].values())
    lines = [
        "## Where the time of a reproduction goes",
        "",
        f"`{breakdown['command']}`, {breakdown['runs']} runs in an empty store, nothing compiled "
        f"before, {breakdown['cores']} worker processes: {breakdown['wall']:.0f} s. The workers "
        "are the lab's own, with timers around what they call. All core-seconds are accounted "
        "for. The first call of a program counts as compiling. What a row and an epoch take was "
        "timed afterwards on one thread, which divides the rest into training and measuring. Idle "
        "is waiting for runs that others hold, and a core without work while another finishes or "
        "writes tables and page. Starting, compiling, and the wait for the last run are paid once, "
        "so their share falls with more runs.",
        "",
        "| part | core-seconds | share |",
        "|---|---|---|",
    ]
    lines += [
        f"| {name} | {seconds:.1f} | {percent(seconds / total)} |"
        for name, seconds in breakdown["seconds"].items()
    ]
    return [*lines, "", "![Shares of the cores' time](figures/performance-breakdown.svg)", ""]


def _fixed(fixed: Mapping[str, Any]) -> list[str]:
    imports, certificates = fixed["imports"], fixed["certificates"]
    base = imports["jax"]
    lines = ["## Other costs", "", "| what | measured | beside |", "|---|---|---|"]
    for name in ("grokscope", "grokscope.engine"):
        middle = statistics.median(imports[name])
        share = median_ratio(imports[name], base)
        lines.append(f"| `import {name}` | {middle:.2f} s | {share:.2f} × `import jax` |")
    share = certificates["seconds"] / certificates["training"]
    lines.append(
        f"| certifying {certificates['snapshots']:.0f} snapshots at paper scale "
        f"| {certificates['seconds']:.1f} s | {percent(share)} of training 10,000 epochs |"
    )
    return [*lines, ""]


def _method(measured: Mapping[str, Any]) -> list[str]:
    about = measured["about"]
    rounds = sorted({len(row["seconds"]) for row in measured["comparison"]["times"]})
    words = " or ".join(map(str, rounds))
    return [
        "## How it was measured",
        "",
        "Each library has processes of its own, which stay and take turns, so that thread pools "
        "never meet. One process uses as many threads as there are cores "
        f"({about['cores']}: XLA's pool, `torch.set_num_threads({about['cores']})`); a process a "
        "core has one thread and is bound to its core, as the lab's workers are. The lab's default "
        "is one process for one run, a process a core for several. Whoever cannot batch members "
        "trains them one after the other.",
        "",
        f"A turn is 25 epochs (5 for several members in PyTorch). There were {words} rounds. Times "
        "are medians over rounds. Ratios are taken round by round, then their median. Compare "
        "ratios, not milliseconds, with those of another machine.",
        "",
        "`make bench` does the same in a few minutes with fewer sizes and rounds, "
        "`make bench-full` everything, `python -m benchmarks page` makes this page again from the "
        "measurements. What was tried, and did not help, is in [log.md](log.md).",
    ]


SHOWN = (FLOOR, OURS, *SHORT_CUTS.values(), "PyTorch loop, compiled", *LOOPS.values())


def speed_table(measured: Mapping[str, Any]) -> str:
    """The few numbers that the README has."""
    comparison, about = measured["comparison"], measured["about"]
    lines = [
        f"| one epoch at paper scale, {about['cores']} cores | ms | ratio |",
        "|---|---|---|",
    ]
    for name in SHOWN:
        times = ratio(comparison, 1, name, OURS)
        if times is not None:
            seconds = seconds_of(comparison, "paper", 1, name)
            middle = _short(1e3 * statistics.median(seconds))
            lines.append(f"| {name}: {WHAT[name]} | {middle} | {times:.2f} |")
    goals = [goal for goal in list_goals(measured) if goal.value is not None]
    met = sum(goal.verdict == "met" for goal in goals)
    lines += [
        "",
        f"{met} of {len(goals)} goals are met. [docs/performance.md](docs/performance.md) has "
        "them, 1 to 20 members, how cost grows, the store, and where a reproduction's time goes.",
    ]
    return "\n".join(lines) + "\n"
