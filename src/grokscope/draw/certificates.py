"""Certificates as a figure: each check's ratio over training, one panel per certificate."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from grokscope.draw.theme import TEST, TRAIN, arm_colours, theme
from grokscope.errors import SpecError

LARGEST = 1e6  # a ratio beyond this is drawn there: it says "far off" as well
SMALLEST = 1e-6
MOST_POINTS = 45  # of one line


def _log(channel: Any, field: str, title: str, ticks: int) -> Any:
    """A logarithmic axis that fits its values."""
    return channel(
        f"{field}:Q",
        title=f"{title} (log scale)",
        scale=alt.Scale(type="log"),
        axis=alt.Axis(format="~g", tickCount=ticks),
    )


def certificate_chart(certificates: pl.DataFrame) -> alt.FacetChart:
    """measured / bound at every checkpoint, on a logarithmic scale; below the line it holds.

    With a column `arm` the points are coloured by it, and crosses mark what does not hold."""
    data = certificates.filter(pl.col("ratio").is_finite()).with_columns(
        pl.col("ratio").clip(SMALLEST, LARGEST),
        pl.when("holds").then(pl.lit("holds")).otherwise(pl.lit("does not hold")).alias("verdict"),
    )
    if not len(data):
        raise SpecError("There is nothing to draw: no certificate gave a number.")
    verdicts = ["holds", "does not hold"]
    told, names, hues = "verdict", verdicts, [TEST, TRAIN]
    if "arm" in data.columns:
        told, names = "arm", data["arm"].unique(maintain_order=True).to_list()
        hues = arm_colours(len(names))
    # Evenly thinned, what holds and what does not apart, so that no failure disappears.
    lines = ["name", "holds", told]
    step = (pl.len().over(lines) / MOST_POINTS).ceil().cast(pl.Int64)
    data = data.filter(pl.int_range(pl.len()).over(lines) % step == 0)
    scale = alt.Scale(domain=names, range=hues)
    base = alt.Chart()
    points = base.mark_point(size=24, opacity=0.75, strokeWidth=1.6).encode(
        x=alt.X("epoch:Q", title="Training time (epochs)"),
        y=_log(alt.Y, "ratio", "Measured / bound", 4),
        color=alt.Color(f"{told}:N", scale=scale, legend=alt.Legend(columns=3)),
        shape=alt.Shape("verdict:N", scale=alt.Scale(domain=verdicts, range=["circle", "cross"])),
        tooltip=["epoch", "measured", "bound", "ratio"],
    )
    limit = base.mark_rule(style="threshold").encode(y=alt.datum(1))
    return (
        alt.layer(limit, points, data=data)
        .properties(width=230 if data["name"].n_unique() > 1 else 460, height=150)
        .facet(facet=alt.Facet("name:N", title=None), columns=3)
        .resolve_scale(y="independent")
        .configure(**theme())
    )


def decoupling_chart(population: pl.DataFrame) -> alt.LayerChart:
    """Every run of a population: the mass its worst input has against the mass it would need."""
    fates = ["generalised", "did not"]
    fate = pl.when("generalised").then(pl.lit("generalised")).otherwise(pl.lit("did not"))
    settings = ["alphabet", "prior", "weight_decay"]
    data = population.filter(pl.col("tau").is_not_nan()).select(
        pl.col("tau", "weakest_min").clip(1e-6), fate.alias("fate"), *settings
    )
    points = (
        alt.Chart(data)
        .mark_point(filled=True, size=46, opacity=0.75)
        .encode(
            x=_log(alt.X, "tau", "Mass the theorem asks for, tau = m / (L_f Delta)", 5),
            y=_log(alt.Y, "weakest_min", "Weakest informative weight over all inputs", 5),
            color=alt.Color("fate:N", scale=alt.Scale(domain=fates, range=[TEST, TRAIN])),
            shape=alt.Shape("fate:N", scale=alt.Scale(domain=fates)),
            tooltip=[*settings, "tau", "weakest_min"],
        )
    )
    ends = [data["tau"].min(), data["tau"].max()]
    diagonal = (
        alt.Chart(pl.DataFrame({"tau": ends, "weakest_min": ends}))
        .mark_line(style="threshold")
        .encode(x="tau:Q", y="weakest_min:Q")
    )
    return (diagonal + points).properties(width=420, height=300).configure(**theme())
