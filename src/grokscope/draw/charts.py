"""The figures: from arms to one Altair chart each, ready to be saved as PNG, SVG, HTML or JSON.

Every function takes an arm or a list of arms and draws a plot (or a column of plots) per arm, all
with the same axes; `comparison_chart` puts the arms into one plot.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence

import altair as alt

from grokscope.draw.arms import Arm
from grokscope.draw.layers import ROOM, Panel
from grokscope.draw.panels import PANELS
from grokscope.draw.theme import theme
from grokscope.errors import SpecError

Arms = Arm | Sequence[Arm]
Chart = alt.LayerChart | alt.ConcatChart

WIDTH, NARROW = 600, 420  # of a plot, in pixels; narrow where plots stand side by side


def accuracy_chart(arms: Arms) -> Chart:
    """Accuracy on training and test examples. For a single run the phases that were found are
    shaded; for several seeds memorisation and grok times are marked."""
    return _assemble("accuracy", arms)


def loss_chart(arms: Arms) -> Chart:
    """Cross-entropy on training and test examples, on a log scale."""
    return _assemble("loss", arms)


def structure_chart(arms: Arms) -> Chart:
    """Structural divergence D; below it the mean attention on the informative positions beside
    the weakest weight on any of them: its minimum, 1 % and 10 % quantiles over inputs."""
    return _assemble("structure", arms)


def starvation_chart(arms: Arms) -> Chart:
    """Size of the task's gradient on attention, on a log scale, with memorisation and grokking."""
    return _assemble("starvation", arms)


def norm_chart(arms: Arms) -> Chart:
    """Frobenius norm of the MLP's weights, and the Lipschitz bound that they give."""
    return _assemble("norm", arms)


def attention_chart(arms: Arms) -> Chart:
    """Mean attention as a heat map, position by epoch. Where the informative positions are the same
    for every input, they are framed."""
    return _assemble("attention", arms)


def comparison_chart(arms: Arms) -> Chart:
    """Test accuracy of all arms: median and range over seeds, grok times, and which runs had not
    grokked when they were last seen (censored)."""
    return _assemble("comparison", arms)


CHARTS: dict[str, Callable[[Arms], Chart]] = {
    "accuracy": accuracy_chart,
    "loss": loss_chart,
    "structure": structure_chart,
    "starvation": starvation_chart,
    "norm": norm_chart,
    "attention": attention_chart,
    "comparison": comparison_chart,
}


def as_arms(arms: Arms) -> list[Arm]:
    """One arm or several, as a list; refuses to draw nothing."""
    listed = [arms] if isinstance(arms, Arm) else list(arms)
    listed = [arm for arm in listed if arm.runs]
    if not listed:
        raise SpecError("There is no run to draw; name at least one run of the store.")
    return listed


def _assemble(kind: str, arms: Arms) -> Chart:
    rows = PANELS[kind](as_arms(arms))
    across = len(rows[0])
    width = WIDTH if across == 1 else NARROW
    if across == len(rows) == 1:
        chart: Chart = _titled(rows[0][0], width)
    else:
        views = [_titled(panel, width) for row in rows for panel in row]
        # Arms side by side, at most three; a figure of several rows keeps one column per arm.
        columns = across if len(rows) > 1 else min(across, 3)
        chart = alt.concat(*views, columns=columns)
        chart.resolve = alt.Resolve(
            scale=alt.ScaleResolveMap(stroke="independent", fill="independent", color="independent")
        )
    # Set directly: Altair's methods for these copy the whole chart each time.
    own = chart.params if isinstance(chart.params, list) else []
    chart.params = [*own, alt.VariableParameter(name=ROOM, value=width)]
    chart.datasets = {
        name: data for row in rows for panel in row for name, data in panel.datasets.items()
    }
    chart.config = alt.Config(**theme())
    return chart


def _titled(panel: Panel, width: int) -> alt.LayerChart:
    lines = [*_wrap(panel.arm, width), *_wrap(panel.note, width)]
    title = alt.Title(panel.title, subtitle=lines) if lines else alt.Title(panel.title)
    return panel.view.properties(title=title, width=width)


def _wrap(text: str, width: int) -> list[str]:
    """Break a note into lines that fit above a plot of this width."""
    return textwrap.wrap(text, int(width / 6.2))
