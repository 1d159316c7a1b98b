"""Named starting points: one line to a run that is known to work. Every field can be overridden."""

from __future__ import annotations

from grokscope.errors import SpecError, suggest
from grokscope.spec.run import RunSpec

_PAPER = RunSpec().replace(
    task={"modulus": 113, "train_fraction": 0.3}, training={"epochs": 10_000}
)
_SMOKE = RunSpec().replace(
    task={"modulus": 29, "train_fraction": 0.7},
    model={"hidden": 128},
    optimiser={"lr": 3e-3},
    training={"epochs": 1500},
)

# name: (what it is, the spec)
RECIPES: dict[str, tuple[str, RunSpec]] = {
    "laptop": ("addition modulo 59, constant distractors; groks within a minute", RunSpec()),
    "laptop-noise": (
        "the same with noise for distractors: memorises through the wrong tokens, never groks",
        RunSpec().replace(**{"task.alphabet": 59}),
    ),
    "laptop-prior": (
        "noise, with the oracle's structural prior: groks",
        RunSpec().replace(**{"task.alphabet": 59, "prior.kind": "oracle"}),
    ),
    "smoke": ("trains in seconds, for trying things out", _SMOKE),
    "smoke-noise": ("noise at smoke scale", _SMOKE.replace(**{"task.alphabet": 29})),
    "paper": ("the paper's set-up: addition modulo 113, 10,000 epochs", _PAPER),
    "paper-noise": ("noise at paper scale", _PAPER.replace(**{"task.alphabet": 113})),
    "paper-dial": (
        "distractors from 16 tokens: the four phases in full, at paper scale",
        _PAPER.replace(**{"task.alphabet": 16}),
    ),
}


def find_recipe(name: str) -> RunSpec:
    if name not in RECIPES:
        hint = suggest(name, RECIPES)
        if set(name) <= set("0123456789abcdef"):
            hint += " If it is a run, add --more EPOCHS."
        raise SpecError(f"There is no recipe {name!r}.{hint}")
    return RECIPES[name][1]
