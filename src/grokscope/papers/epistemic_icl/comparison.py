"""IVON, Laplace, ensembles and plain noise on the same questions (falsifier v: is the rise of EU an
artefact of one posterior?), and how much EU owes to the number of draws and of examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from grokscope.claims.studies import Annex, Planned
from grokscope.papers.epistemic_icl import posteriors
from grokscope.papers.epistemic_icl.quantities import sequences
from grokscope.papers.epistemic_icl.settings import ADAMW, IVON, main_arms, settings
from grokscope.spec.incontext import CELLS
from grokscope.store import Run

SHOWN = ("accuracy", "log_likelihood", "ece", "tu", "au", "eu", "eu_corrected")


def tabulate(runs: Sequence[tuple[Planned, Run]], store: Any) -> Mapping[str, pl.DataFrame]:
    by_arm = {arm: [run for item, run in runs if item.arm == arm] for arm in (ADAMW, IVON)}
    every = sequences(runs[0][1].about.task)  # type: ignore[attr-defined]
    rows = [
        {"posterior": name, "cell": cell, **posteriors.measure(logs, every[cell][:, -1])}
        for cell in CELLS
        for name, logs in _final(by_arm, every, cell)
    ]
    final = pl.DataFrame(rows).group_by("posterior", "cell", maintain_order=True).mean()
    members = by_arm[ADAMW]
    shared = sorted(set.intersection(*(set(run.snapshots) for run in members)))
    trace = [
        {"epoch": epoch, "cell": cell}
        | posteriors.measure(
            posteriors.ensemble(members, every[cell], epoch)[:, :, -1], every[cell][:, -1]
        )
        for epoch in shared
        for cell in CELLS
    ]
    return {"final": final, "ensemble": pl.DataFrame(trace)}


def _final(
    by_arm: Mapping[str, Sequence[Run]], every: Mapping[str, np.ndarray], cell: str
) -> Iterator[tuple[str, np.ndarray]]:
    """Log-probabilities (S, n, C) of the last question, by name; a mean over runs is taken of what
    is measured on them."""
    tokens, fitted_on = every[cell], every["id_train"]
    for run in by_arm[ADAMW]:
        size = run.about.task.sample_size  # type: ignore[attr-defined]
        for name, options in {
            "Laplace, 64 draws": {},
            "Laplace, 16 draws": {"draws": 16},
            "Laplace, ten times the examples": {"size": 10.0 * size},
            "noise of Laplace's size": {"control": True},
        }.items():
            yield name, posteriors.laplace(run, tokens, fitted_on, **options)[:, :, -1]
    for run in by_arm[IVON]:
        yield "IVON, 64 draws", posteriors.ivon(run, tokens)[:, :, -1]
        yield "IVON, 16 draws", posteriors.ivon(run, tokens, draws=16)[:, :, -1]
        yield "noise of IVON's size", posteriors.ivon(run, tokens, control=True)[:, :, -1]
    if len(by_arm[ADAMW]) > 1:
        yield "ensemble of AdamW's seeds", posteriors.ensemble(by_arm[ADAMW], tokens)[:, :, -1]


def render(tables: Mapping[str, pl.DataFrame], about: Mapping[str, Any]) -> tuple[str, dict]:
    final, trace = tables["final"].to_dicts(), tables["ensemble"].filter(cell="ood_val").to_dicts()
    lines = [
        "# Posteriors compared",
        "",
        "*Made by `grokscope reproduce epistemic-icl posteriors`; not edited by hand.* The same "
        "questions (the last of each sequence) to every posterior; means over seeds. EU from few "
        "draws is too small; the last column has the first term of that error removed.",
        "",
        f"| posterior | cell | {' | '.join(name.replace('_', ' ') for name in SHOWN)} |",
        "|---|---|" + "---|" * len(SHOWN),
        *(
            f"| {row['posterior']} | {row['cell']} | "
            + " | ".join(f"{row[name]:.3f}" for name in SHOWN)
            + " |"
            for row in final
        ),
        "",
        "## The ensemble over training, unseen tasks and pairs",
        "",
        "| step | accuracy | AU | EU |",
        "|---|---|---|---|",
        *(
            f"| {r['epoch']:,} | {r['accuracy']:.3f} | {r['au']:.3f} | {r['eu_corrected']:.3f} |"
            for r in trace
        ),
        "",
        f"{about['runs']} runs, {about['minutes']} minutes of training.",
        "",
    ]
    return "\n".join(lines), {}


ANNEX = Annex(
    name="epistemic-icl-posteriors",
    source="Beyond the paper",
    title="Posteriors compared",
    paper_says="IVON and Laplace agree on where uncertainty is high. (No ensemble, no control.)",
    how="Both, deep ensembles over seeds, and noise of the same size, on the same questions.",
    settings=settings("smoke", "laptop"),
    arms=lambda setting, seed: {arm: main_arms(setting, seed)[arm] for arm in (ADAMW, IVON)},
    tabulate=tabulate,
    render=render,
    appendix=True,
    seeds={"smoke": 2, "laptop": 5, "paper": 4},
)
