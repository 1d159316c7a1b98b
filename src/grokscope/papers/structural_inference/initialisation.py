"""Beyond the paper: the main figures again, from other initial weights."""

from __future__ import annotations

from dataclasses import replace

from grokscope.claims.studies import ScaleName, Setting, Study
from grokscope.papers.structural_inference import acceleration, four_phases, norm_structure, tickets
from grokscope.papers.structural_inference.settings import settings


def initialised(scale: ScaleName) -> list[Setting]:
    """The same regimes at laptop scale, from the weights that PyTorch's layers draw."""
    return settings(scale, changes={"model.init": "pytorch"}) if scale == "laptop" else []


def again(study: Study) -> Study:
    return replace(
        study,
        name=f"{study.name}-pytorch",
        source="Beyond the paper",
        title=f"{study.source} from PyTorch's initial weights",
        how=f"The arms and tests of {study.source.lower()} from what PyTorch's layers draw: unit "
        "normal embeddings and positions, all else uniform up to one over the root of its fan-in, "
        "biases included. (The paper does not name its initial weights.)",
        settings=initialised,
        claims=tuple(replace(claim, ours=True) for claim in study.claims),
        appendix=True,
    )


REPEATED = (four_phases, norm_structure, acceleration, tickets)
STUDIES = tuple(again(module.STUDY) for module in REPEATED)
