"""Section 3: is the factor on the outputs a control of laziness? The control with SGD."""

from __future__ import annotations

from grokscope.claims.judgements import field_of
from grokscope.claims.studies import Setting
from grokscope.papers.inductive_bias import doses, figures, quantities
from grokscope.papers.inductive_bias.judgements import Slope
from grokscope.papers.inductive_bias.settings import FIELDS, PLAIN, regimes, study
from grokscope.spec import RunSpec

SCALES = (0.5, 1.0, 2.0, 4.0)


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    one = setting.baseline(seed).replace(**FIELDS["subtracted"])
    return {
        f"{name}, α {alpha:g}": start.replace(**doses.rescaled(start.optimiser.lr, alpha))
        for name, start in (("SGD", one.replace(**FIELDS["descent"])), ("AdamW", one))
        for alpha in SCALES
    }


ALPHA = "model.readout_scale"
by_descent, by_adam = (field_of(ALPHA, {"optimiser.kind": kind}) for kind in ("sgd", "adamw"))
TIME = "the step at which 3 % of the training loss is gone"
KERNEL = "the kernel's drift by then"

STUDY = study(
    "laziness",
    {
        "SGD: the same speed": Slope("begun", TIME, by_descent, "α", -0.3, 0.3),
        "SGD: lazier": Slope("kernel_begun", KERNEL, by_descent, "α", high=-0.5),
        "AdamW: another speed": Slope("begun", TIME, by_adam, "α", low=0.5),
        "AdamW: lazier": Slope("kernel_begun", KERNEL, by_adam, "α", high=-0.5),
    },
    settings=regimes({PLAIN: FIELDS["short"]}),
    arms=arms,
    draw=figures.draw_laziness,
    summarise=quantities.summarise_start,
)
