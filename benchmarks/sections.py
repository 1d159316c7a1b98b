"""The sections of docs/performance.md, each made of one part of the measurements."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.comparison import BLOCK_CONTENDERS, CONTENDERS, EPOCHS, SCALES, TESTED, WHAT
from benchmarks.figures import measures_series, members_series
from benchmarks.goals import OURS, percent, ratio, seconds_of
from benchmarks.growth import fit_exponent, middles
from benchmarks.teams import median_ratio

STALE_FLOOR = (
    " These figures are older than that count: their floor is the MLPs' products alone, and the "
    "lab did not look up its first layer yet."
)


def side_by_side(comparison: Mapping[str, Any]) -> list[str]:
    recipes = " and ".join(f"`{recipe}`" for recipe in SCALES.values())
    lines = [
        "## Side by side",
        "",
        "Same data, same initial weights, same optimiser (AdamW, clipping, warm-up), full batch, "
        f"float32. Laptop and paper scale are those of the recipes {recipes}; studies of papers "
        "have a smaller laptop scale of their own (p 43). The short cut is exact: every example "
        "ends with the same query token, so that the score and the value of a position depend on "
        "its token and its place alone. They are computed once a token, and looked up.",
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
        "programs kept from earlier processes were not used. Whoever comes first of a library pays "
        "for its start; the field is empty where the same process had compiled the same program.",
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
    for name in dict.fromkeys(c.name for c in (*CONTENDERS, *BLOCK_CONTENDERS)):
        if name not in present:
            continue
        cells = [_cell(comparison, scale, count, name) for count in counts]
        first = next(row["first"] for row in rows if row["contender"] == name)
        last = "" if first is None else f"{first:.1f} s"
        lines.append(f"| {name} | {' | '.join(cells)} | {last} |")
    return [*lines, ""]


def general(general: Mapping[str, Any], agreement: Mapping[str, Any]) -> list[str]:
    """The same for the general transformer."""
    lines = [
        "## The general transformer",
        "",
        "Two layers of four heads, causal, learned positions, LayerNorm before attention, MLP and "
        "unembedding. Queries, keys and values of the first layer are looked up, as in the minimal "
        "model; those of the second differ from example to example. The lab computes the last "
        "layer only where it is read; the loop over all positions, as such models are usually "
        "written, everywhere, the other PyTorch loops as the lab does. `modelbatch` has no batched "
        "form of PyTorch's fused attention and goes through the members one by one there. The "
        "floor is all products with weights that are left: the second layer's queries, keys and "
        "values, what attention puts out, both MLPs and the unembedding."
        + STALE_FLOOR
        * (general["made"]["date"] < "2026-11-17"),
        "",
        *(f"- **{name}** is missing here: {why}." for name, why in general["missing"].items()),
        *_times(general, general["sizes"][0]),
    ]
    for row in agreement["curves"]:
        if row["scale"] == "general":
            lines.append(
                f"- Training loss of {row['contender']}: within {row['difference']:.1e} of the "
                f"loop in double precision over {row['epochs']} epochs."
            )
    return [*lines, ""]


def block(block: Mapping[str, Any]) -> list[str]:
    """The same for one block."""
    return [
        "## One block",
        "",
        "One block of the general transformer: four heads, causal, learned positions, LayerNorm "
        "before attention and MLP, residuals, exact GELU. Norms do not stand in the way of the "
        "short cut: what enters the block still depends on token and position alone, so that "
        "scores and values are looked up. The floor is the products that are left: what attention "
        f"puts out, the MLP and the unembedding. **{TESTED}** also computes the accuracy on the "
        "test set after each epoch, as users log it.",
        "",
        *(f"- **{name}** is missing here: {why}." for name, why in block["missing"].items()),
        *_times(block, block["sizes"][0]),
    ]


def _members(count: int) -> str:
    return f"{count} member{'s' * (count > 1)}"


def _cell(comparison: Mapping[str, Any], scale: str, members: int, name: str) -> str:
    seconds = seconds_of(comparison, scale, members, name)
    if not seconds:
        return ""
    times = ratio(comparison, members, name, OURS, scale)
    return f"{short(1e3 * statistics.median(seconds))} ({times:.2f}×)"


def short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def agreement(agreement: Mapping[str, Any]) -> list[str]:
    curves = [row for row in agreement["curves"] if row["scale"] != "general"]
    if not curves:
        return []
    epochs, every = curves[0]["epochs"], curves[0]["every"]
    last = every * (len(curves[0]["losses"]) - 1)
    lines = [
        "## The same training",
        "",
        f"The training loss of each contender over its first {epochs} epochs, held against the "
        "PyTorch loop in double precision: the largest relative difference at any epoch. Only "
        f"rounding differs, which must make less than {percent(agreement['tolerance'], 0)}. How "
        "much it does make, the loop's own row shows: the same code in single and in double "
        "precision. "
        "(Adam divides a gradient by its own size, so that the last digits of small ones count.) "
        "In the first figure all curves lie upon each other, each drawn in dashes where the others "
        "leave gaps; the second shows what is between them, and the tolerance.",
        "",
        "![Training loss of every contender](figures/performance-losses.svg)",
        "![How far it is from double precision](figures/performance-differences.svg)",
        "",
        f"| contender | scale | loss at epoch 0 | at epoch {last} | largest difference up to epoch "
        f"{EPOCHS} | up to epoch {epochs} |",
        "|---|---|---|---|---|---|",
    ]
    for row in curves:
        lines.append(
            f"| {row['contender']} | {row['scale']} | {row['losses'][0]:.4g} "
            f"| {row['losses'][-1]:.4g} | {row['early']:.1e} | {row['difference']:.1e} |"
        )
    return [*lines, ""]


def networks(networks: Mapping[str, Any]) -> list[str]:
    lines = [
        "## The networks of the other papers",
        "",
        "Milliseconds, and how many times as long as grokscope.",
        "",
        "- **LayerNorm placement**: a step of the network without norms at paper scale, with every "
        "measure every 25 steps and the probes every 200. The loop is the authors' kind: every "
        "position, and a test pass at each step.",
        "- **in context**: a step, batches made on the fly; seconds of the processor, one thread. "
        "IVON trains a posterior in the place of AdamW's point.",
        "- **operator, a step**: one trunk by squared errors, the same size and batch for both.",
        "- **operator, a law**: 256 samples for one initial condition. How close they come is "
        "claim 11 of [the paper's page](martingale-operators.md).",
        "",
        "| network | contender | ms |",
        "|---|---|---|",
    ]
    for row in networks["times"]:
        cell = _cell(networks, row["scale"], 1, row["contender"])
        lines.append(f"| {row['scale']} | {row['contender']} | {cell} |")
    return [*lines, ""]


def growth(growth: Mapping[str, Any], comparison: Mapping[str, Any]) -> list[str]:
    processes = [p["bytes"]["process"] / 1e6 for axis in growth["axes"] for p in axis["points"]]
    lines = [
        "## How cost grows",
        "",
        "One size changed, measures on. The exponent is the slope of a straight line through the "
        "logarithms, with its 95 % interval; where a curve bends, as from fixed costs to products "
        "that fill the machine, it is a mean over the range. Memory is that of the compiled "
        "program: data, weights, and what is there in between. Whole processes took "
        f"{min(processes):.0f} to {max(processes):.0f} MB, most of it JAX and its compiler.",
        "",
        "| what grows | from | to | exponent of time | of the time to the first row | of memory |",
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
                [point["bytes"]["program"] for point in points],
            )
        ]
        ends = [
            f"{p['value']}: {short(1e3 * statistics.median(p['seconds']))} ms, "
            f"{p['first']:.1f} s, {p['bytes']['program'] / 1e6:.3g} MB"
            for p in (points[0], points[-1])
        ]
        lines.append(f"| {axis['title']}: an epoch | {' | '.join(ends)} | {' | '.join(cells)} |")
    counted = {
        "members, paper scale: an epoch of all": members_series(comparison)[OURS],
        **{
            f"measures, {scale} scale: a row": pairs
            for scale, pairs in measures_series(growth["measures"]).items()
        },
    }
    for title, pairs in counted.items():
        ends = [f"{size:.0f}: {short(cost)} ms" for size, cost in (pairs[0], pairs[-1])]
        cell = _exponent(*zip(*pairs, strict=True)) if len(pairs) > 2 else ""
        lines.append(f"| {title} | {' | '.join(ends)} | {cell} | | |")
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
        "![Memory of the program](figures/performance-memory.svg)",
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


def store(storage: Mapping[str, Any]) -> list[str]:
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


def breakdown(breakdown: Mapping[str, Any]) -> list[str]:
    total = sum(breakdown["seconds"].values())
    lines = [
        "## Where the time of a reproduction goes",
        "",
        f"`{breakdown['command']}`, {breakdown['runs']} runs in an empty store, "
        f"{breakdown['cores']} worker processes with nothing compiled before: "
        f"{breakdown['wall']:.0f} s. The workers are the lab's own, with timers around what they "
        "call. All core-seconds are accounted "
        "for. The first call of a program counts as compiling. What a row and an epoch take was "
        "timed afterwards on one thread, for the programs that had nine tenths of the time, which "
        "divides the rest into training and measuring. Idle is what remains: waiting for runs that "
        "others hold, and a core without work while another finishes, starts the next workers, or "
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


def fixed(fixed: Mapping[str, Any]) -> list[str]:
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
