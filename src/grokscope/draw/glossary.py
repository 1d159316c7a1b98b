"""What each measure is called, how it is written and drawn, and what it means.

Charts, pages and the terminal all look here. A column that is not listed, such as a measure of the
user's own, is called by its name and drawn on an axis that fits it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from grokscope.draw import theme

Scale = Literal["share", "log", "zero", "free"]  # 0 to 1; logarithmic; from 0; around the values


@dataclass(frozen=True)
class Measure:
    """A column of a curve."""

    label: str  # in a legend
    axis: str  # beside the axis: the quantity and its unit
    scale: Scale = "free"
    format: str = ".4~g"  # of numbers, in D3's notation
    colour: str = theme.NORMS[0]
    brief: str = ""  # in a line of the terminal; empty: not shown there
    band: bool = True  # draw the range over seeds?
    name: str = ""  # in a sentence; empty: the label
    definition: str = ""


ACCURACY, LOSS = "Accuracy (share of examples)", "Cross-entropy loss (nats, log scale)"
WEIGHT, GRADIENT = "Attention weight (share of 1)", "Size of the task's gradient (log scale)"

MEASURES: dict[str, Measure] = {
    "train_accuracy": Measure(
        "training examples",
        ACCURACY,
        "share",
        ".1%",
        theme.TRAIN,
        "train",
        name="training accuracy",
        definition="Share of the training examples that are right.",
    ),
    "test_accuracy": Measure(
        "unseen test examples",
        ACCURACY,
        "share",
        ".1%",
        theme.TEST,
        "test",
        name="test accuracy",
        definition="Share of the unseen examples that are right.",
    ),
    "train_loss": Measure(
        "training examples",
        LOSS,
        "log",
        colour=theme.TRAIN,
        brief="train loss",
        name="training loss",
        definition="Mean loss on the training examples.",
    ),
    "test_loss": Measure(
        "unseen test examples",
        LOSS,
        "log",
        colour=theme.TEST,
        brief="test loss",
        name="test loss",
        definition="Mean loss on the unseen examples.",
    ),
    "divergence": Measure(
        "structural divergence",
        "Structural divergence D (nats)",
        "zero",
        colour=theme.DIVERGENCE,
        definition="KL(oracle ‖ attention), mean over inputs: 0 where attention is right.",
    ),
    "mass_mean": Measure(
        "all together, mean over inputs",
        WEIGHT,
        "share",
        ".3f",
        theme.MASSES[0],
        definition="Attention on all informative positions together, mean over inputs.",
    ),
    "weakest_q10": Measure(
        "weakest, 10 % quantile of inputs", WEIGHT, "share", ".3f", theme.MASSES[1], band=False
    ),
    "weakest_q01": Measure(
        "weakest, 1 % quantile of inputs", WEIGHT, "share", ".3f", theme.MASSES[2], band=False
    ),
    "weakest_min": Measure(
        "weakest, worst input",
        WEIGHT,
        "share",
        ".3f",
        theme.MASSES[3],
        "weakest",
        definition="Smallest attention weight on an informative position, over all inputs.",
    ),
    "structure_share": Measure(
        "structural condition",
        "Share of inputs",
        "share",
        ".0%",
        definition="Share of inputs on which every informative position gets at least τ.",
    ),
    "interaction_gradient": Measure(
        "on the query-key matrix (norm)", GRADIENT, "log", ".2e", theme.GRADIENTS[0]
    ),
    "logit_gradient_mean": Measure(
        "on one attention score (mean)", GRADIENT, "log", ".2e", theme.GRADIENTS[1]
    ),
    "mlp_norm": Measure("norm of the MLP's weights", "Frobenius norm of the weights"),
    "lipschitz_bound": Measure(
        "Lipschitz bound of the MLP", "Lipschitz bound (largest slope)", colour=theme.NORMS[1]
    ),
    # No figure of runs shows the following.
    "test_accuracy_mirrored": Measure("test pairs whose mirror image was trained on", ACCURACY),
    "test_accuracy_unmirrored": Measure("the other test pairs", ACCURACY),
    "divergence_train": Measure("divergence on training examples", "Divergence (nats)"),
    "weakest_mean": Measure("weakest, mean over inputs", WEIGHT),
    "weakest_median": Measure("weakest, median of inputs", WEIGHT),
    "attention_entropy": Measure("entropy of attention", "Entropy (nats)"),
    "logit_variance": Measure("variance of attention scores", "Variance"),
    "logit_gradient_max": Measure("on one attention score (largest)", GRADIENT),
    "interaction_norm": Measure("norm of the query-key matrix", "Frobenius norm"),
    "parameter_norm": Measure("norm of all weights", "Frobenius norm"),
    "update_norm": Measure("size of the last update", "Frobenius norm"),
    "frequency_share": Measure("share of the key frequencies", "Share of the embedding's power"),
}


def measure_of(column: str) -> Measure:
    """The entry of a column; one made from its name where the glossary has none."""
    words = column.replace("_", " ")
    return MEASURES.get(column) or Measure(words, words.capitalize(), brief=words)
