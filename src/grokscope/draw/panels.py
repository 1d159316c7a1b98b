"""The plots of every figure, one per arm, before they are put together.

All arms of a figure share their axes. One run is drawn as it is; several seeds as their median and
the band from the lowest to the highest. Data are inlined and thinned (see `tables.thin`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import altair as alt
import polars as pl

from grokscope.draw import layers, theme
from grokscope.draw.arms import Arm
from grokscope.draw.heatmap import describe_mean, draw_heat_map, name_cells
from grokscope.draw.layers import Panel, Series
from grokscope.draw.reading import Reading, read_run
from grokscope.draw.tables import ROWS, attention_cells, gather, thin

Panels = list[list[Panel]]  # a list per row of the figure, in it a panel per arm
Under = Callable[[list[Reading], alt.X, int], list[alt.Chart]]

HEIGHT = 220
POWERS = (  # 0.01 and 1,000 as they are, 1e-7 beyond
    "datum.value >= 1e-4 && datum.value < 1e6 ? format(datum.value, ',~r') "
    ": replace(format(datum.value, '~e'), '+', '')"
)
CELLS = 4500  # of a heat map, at most

ACCURACY = (
    Series("train_accuracy", "training examples", theme.TRAIN, ".1%"),
    Series("test_accuracy", "unseen test examples", theme.TEST, ".1%"),
)
LOSS = (
    Series("train_loss", "training examples", theme.TRAIN),
    Series("test_loss", "unseen test examples", theme.TEST),
)
DIVERGENCE = (Series("divergence", "structural divergence", theme.DIVERGENCE),)
MASSES = (
    Series("mass_mean", "all together, mean over inputs", theme.MASSES[0], ".3f"),
    Series("weakest_q10", "weakest, 10 % quantile of inputs", theme.MASSES[1], ".3f", band=False),
    Series("weakest_q01", "weakest, 1 % quantile of inputs", theme.MASSES[2], ".3f", band=False),
    Series("weakest_min", "weakest, worst input", theme.MASSES[3], ".3f"),
)
GRADIENTS = (
    Series("interaction_gradient", "on the query-key matrix (norm)", theme.GRADIENTS[0], ".2e"),
    Series("logit_gradient_mean", "on one attention score (mean)", theme.GRADIENTS[1], ".2e"),
)
MLP_NORM = (Series("mlp_norm", "norm of the MLP's weights", theme.NORMS[0]),)
LIPSCHITZ = (Series("lipschitz_bound", "Lipschitz bound of the MLP", theme.NORMS[1]),)


def accuracy_panels(arms: Sequence[Arm], rows: int = ROWS) -> Panels:
    """Accuracy on both sides of the split; the phases of a single run, the events of several."""

    def under(readings: list[Reading], x: alt.X, last: int) -> list[alt.Chart]:
        training = readings[0].spec.training
        rules = [
            layers.draw_threshold(training.train_threshold, theme.TRAIN),
            layers.draw_threshold(training.test_threshold, theme.TEST),
        ]
        draw = layers.draw_events if len(readings) > 1 else layers.draw_phases
        return [*draw(readings, x, last), *rules]

    def note(readings: list[Reading]) -> str:
        training = readings[0].spec.training
        return (
            f"dashed: thresholds {training.train_threshold:.4g} (training) and "
            f"{training.test_threshold:.4g} (test)"
        )

    title = "Accuracy on training and on unseen examples"
    # Numbers of phases need less room above the plot than names of events.
    headroom = 20 if max(len(arm.runs) for arm in arms) == 1 else layers.HEADROOM
    y = _accuracy_axis()
    return [_Group.read(arms).panels(title, ACCURACY, y, rows, under, note, headroom)]


def loss_panels(arms: Sequence[Arm], rows: int = ROWS) -> Panels:
    """Cross-entropy on both sides of the split."""
    group = _Group.read(arms)
    y = group.axis(LOSS, "Cross-entropy loss (nats, log scale)", "log")
    title = "Loss on training and on unseen examples"
    return [group.panels(title, LOSS, y, rows, positive=True)]


def structure_panels(arms: Sequence[Arm], rows: int = ROWS) -> Panels:
    """Divergence above; below, the mean of the informative mass beside the weakest inputs."""
    group = _Group.read(arms)
    far = group.axis(DIVERGENCE, "Structural divergence D (nats)", "zero")
    share = alt.Y(title="Attention weight (share of 1)", scale=alt.Scale(domain=[0, 1]))

    def under(readings: list[Reading], x: alt.X, last: int) -> list[alt.Chart]:
        tau = readings[0].structure_threshold
        rules = [layers.draw_threshold(tau)] if tau else []
        return [*rules, *layers.draw_events(readings, x, last)]

    def note(readings: list[Reading]) -> str:
        tau = readings[0].structure_threshold
        return f"dashed: τ = {tau:.3g}, wanted for each and every input" if tau else ""

    title = "Attention on the informative positions"
    return [
        group.panels("Distance of attention from the true structure", DIVERGENCE, far, rows),
        group.panels(title, MASSES, share, rows, under, note),
    ]


def starvation_panels(arms: Sequence[Arm], rows: int = ROWS) -> Panels:
    """How large the task's gradient on attention still is."""
    group = _Group.read(arms)
    y = group.axis(GRADIENTS, "Size of the task's gradient (log scale)", "log")
    title = "What the task still teaches attention"
    return [group.panels(title, GRADIENTS, y, rows, positive=True)]


def norm_panels(arms: Sequence[Arm], rows: int = ROWS) -> Panels:
    """Norm of the MLP above, bound on its slope below."""
    group = _Group.read(arms)
    norm = group.axis(MLP_NORM, "Frobenius norm of the weights", "free")
    bound = group.axis(LIPSCHITZ, "Lipschitz bound (largest slope)", "free")
    return [
        group.panels("Size of the MLP's weights", MLP_NORM, norm, rows),
        group.panels("How steep the MLP can be", LIPSCHITZ, bound, rows),
    ]


def attention_panels(arms: Sequence[Arm], rows: int = ROWS) -> Panels:
    """Heat maps, position by epoch, in the same colours for all arms."""
    group = _Group.read(arms)
    cells = [attention_cells(readings, rows // 2, CELLS) for readings in group.readings]
    most = max((cell["attention"] for part in cells for cell in part), default=1.0)
    panels = []
    for place, (arm, readings) in enumerate(zip(arms, group.readings, strict=True)):
        words = [_state(readings[0])] if len(readings) == 1 else []
        head = (
            "Attention at each position",
            arm.label,
            " · ".join([*words, describe_mean(readings)]),
        )
        if not cells[place]:
            panels.append(layers.empty_panel(*head, height=HEIGHT))
            continue
        name = f"attention_{place}"
        named, names = name_cells(cells[place], readings[0].spec)
        view = draw_heat_map(readings, name, names, most, group.last)
        panels.append(Panel(*head, view, {name: named}))
    return [panels]


def comparison_panels(arms: Sequence[Arm], rows: int = ROWS) -> Panels:
    """Test accuracy of all arms in one plot, and how each run ended."""
    group = _Group.read(arms)
    x, y = layers.epoch_axis(group.last, group.unit), _accuracy_axis()
    series = [
        Series(f"arm{index}", arm.label, theme.arm_colour(index), ".1%")
        for index, arm in enumerate(arms)
    ]
    thresholds = sorted({r.spec.training.test_threshold for rs in group.readings for r in rs})
    parts = [layers.draw_threshold(value) for value in thresholds]
    tables = []
    data: dict[str, list[dict[str, Any]]] = {}
    marks: list[dict[str, Any]] = []
    for s, readings in zip(series, group.readings, strict=True):
        lines = gather(readings, {s.measure: "test_accuracy"}, rows=rows)
        parts += layers.draw_lines(lines, s.measure, [s], x, y, among=series, headroom=8)
        data |= layers.name_data(lines, s.measure, [s])
        tables.append(gather(readings, {s.measure: "test_accuracy"}, rows=10**9).table)
        endings = [_ending(reading) for reading in readings]
        marks += [{"arm": s.label, "colour": s.colour, **mark} for mark in endings if mark]
    title = "Accuracy on unseen examples"
    if not any(len(table) for table in tables):
        return [[layers.empty_panel(title, "", "", height=HEIGHT)]]
    joined = tables[0]
    for table in tables[1:]:
        joined = joined.join(table, on="epoch", how="full", coalesce=True)
    banded = max(map(len, group.readings)) > 1
    for s in series if banded else []:
        if f"{s.measure}_low" not in joined.columns:  # one run among banded arms: its own range
            ends = [pl.col(s.measure).alias(f"{s.measure}_{end}") for end in ("low", "high")]
            joined = joined.with_columns(*ends)
    data["all"] = thin(joined.sort("epoch"), [s.measure for s in series], rows).to_dicts()
    parts += layers.draw_cursor("all", series, x, banded)
    if marks:
        parts.append(layers.draw_endings(marks, x))
    note = "dashed: threshold " + ", ".join(f"{value:.4g}" for value in thresholds)
    if banded:
        note = f"lines: median over seeds, bands: lowest to highest · {note}"
    view = alt.LayerChart(layer=parts, height=HEIGHT + 60)
    return [[Panel(title, "", note, view, data)]]


PANELS: dict[str, Callable[..., Panels]] = {
    "accuracy": accuracy_panels,
    "loss": loss_panels,
    "structure": structure_panels,
    "starvation": starvation_panels,
    "norm": norm_panels,
    "attention": attention_panels,
    "comparison": comparison_panels,
}


@dataclass(frozen=True)
class _Group:
    """The arms of a figure, read once, with what their axes share."""

    arms: Sequence[Arm]
    readings: list[list[Reading]]

    @classmethod
    def read(cls, arms: Sequence[Arm]) -> _Group:
        return cls(arms, [[read_run(run) for run in arm.runs] for arm in arms])

    @property
    def last(self) -> int:
        """Last epoch of any run."""
        return max(reading.epochs for readings in self.readings for reading in readings)

    @property
    def unit(self) -> str:
        return " or ".join(sorted({r.unit for readings in self.readings for r in readings}))

    def axis(
        self, series: Sequence[Series], title: str, kind: Literal["log", "zero", "free"]
    ) -> alt.Y:
        """A vertical axis that fits every arm: logarithmic, from zero, or around the values."""
        values: list[float] = []
        for readings in self.readings:
            lines = gather(readings, _measures(series), kind == "log")
            for table in (lines.table, *lines.strays):
                ends = table.drop("epoch")
                values += [v for row in (*ends.min().rows(), *ends.max().rows()) for v in row]
        values = [value for value in values if value is not None] or [0.1, 1.0]
        low, high = min(values), max(values)
        if kind == "log":
            return alt.Y(
                title=title,
                scale=alt.Scale(type="log", domain=[low, max(high, 1.01 * low)], nice=True),
                axis=alt.Axis(labelExpr=POWERS),
            )
        low = min(low, 0.0) if kind == "zero" else low
        scale = alt.Scale(domain=[low, high if high > low else low + 1], nice=True, zero=False)
        return alt.Y(title=title, scale=scale)

    def panels(
        self,
        title: str,
        series: Sequence[Series],
        y: alt.Y,
        rows: int,
        under: Under = layers.draw_events,
        note: Callable[[list[Reading]], str] = lambda _: "",
        headroom: int = layers.HEADROOM,
        positive: bool = False,
    ) -> list[Panel]:
        """A plot per arm; `under` draws what lies beneath the lines. On a log scale only what is
        `positive` can be drawn."""
        panels = []
        x = layers.epoch_axis(self.last, self.unit)
        for place, (arm, readings) in enumerate(zip(self.arms, self.readings, strict=True)):
            lines = gather(readings, _measures(series), positive, rows)
            words = [_count(readings), note(readings)]
            if lines.strays:
                words.insert(1, "thin lines: single seeds where not all have rows")
            head = (title, arm.label, " · ".join(word for word in words if word))
            nothing = all(lines.table[s.measure].is_null().all() for s in series)
            if not len(lines.table) or (nothing and not lines.strays):
                why = "Not measured in these runs." if len(lines.table) else layers.NO_ROWS
                panels.append(layers.empty_panel(*head, height=HEIGHT, words=why))
                continue
            name = f"{series[0].measure}_{place}"
            parts = [
                *under(readings, x, self.last),
                *layers.draw_lines(lines, name, series, x, y, headroom=headroom),
                *layers.draw_cursor(name, series, x, lines.banded),
            ]
            view = alt.LayerChart(layer=parts, height=HEIGHT)
            data = layers.name_data(lines, name, series)
            panels.append(Panel(*head, view, data))
        return panels


def _measures(series: Sequence[Series]) -> dict[str, str]:
    return {s.measure: s.measure for s in series}


def _accuracy_axis() -> alt.Y:
    return alt.Y(
        title="Accuracy (share of examples)",
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(format=".0%"),
    )


def _state(reading: Reading) -> str:
    """The seed of a run, and how it stands if it has not simply finished."""
    seed = f"seed {reading.spec.seed}"
    if reading.status == "partial":
        return f"{seed} · still under way, {reading.unit} {reading.epochs:,}"
    if reading.status == "failed":
        return f"{seed} · failed at {reading.unit} {reading.failed_at:,}"
    return seed


def _count(readings: list[Reading]) -> str:
    """How many runs a plot shows, and how they stand."""
    if len(readings) == 1:
        return _state(readings[0])
    drawn = [reading for reading in readings if len(reading.curve)]
    sound = [reading for reading in drawn if reading.status != "failed"] or drawn
    words = [f"seed {reading.spec.seed}" for reading in sound]
    if len(sound) > 1:
        words = [f"median of {len(sound)} seeds, band from lowest to highest"]
    for number, state in (
        (sum(reading.status == "failed" for reading in readings), "failed"),
        (sum(reading.status == "partial" for reading in readings), "under way"),
    ):
        words += [f"{number} {state}"] * bool(number)
    return " · ".join(words)


def _ending(reading: Reading) -> dict[str, Any] | None:
    """How a run ended, and where to mark it: at its grok time, or where it was last seen."""
    event = reading.grokked
    if event is None:
        return None
    if event.epoch is not None:
        place, kind = event.threshold, "grokked"
        epoch, text = event.epoch, f"grokked at {reading.unit} {event.epoch:,}"
    else:
        if event.observed_until is None:  # nothing was tested
            return None
        rows = reading.curve.filter(pl.col("test_accuracy").is_finite())
        if not len(rows):
            return None
        epoch, place = int(rows["epoch"][-1]), float(rows["test_accuracy"][-1])
        seen = event.observed_until
        kind, text = {
            "finished": ("not grokked by its last epoch", f"not within {seen:,} {reading.unit}s"),
            "partial": ("still under way", f"not yet, at {reading.unit} {seen:,}"),
            "failed": ("failed", f"failed at {reading.unit} {seen:,}"),
        }[reading.status]
    return {
        "epoch": epoch,
        "accuracy": round(place, 4),
        "ending": kind,
        "seed": reading.spec.seed,
        "text": text,
    }
