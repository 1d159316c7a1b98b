"""IVON, Laplace, ensembles and plain noise on the same questions (falsifier v: is the rise of EU an
artefact of one posterior?), and how much EU owes to the number of draws and of examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from grokscope.claims.studies import Annex, Planned
from grokscope.papers.epistemic_icl import posteriors
from grokscope.papers.epistemic_icl.posteriors import Posterior
from grokscope.papers.epistemic_icl.quantities import (
    LEAST_PEAK,
    find_peak,
    sequences,
    trace_ensemble,
)
from grokscope.papers.epistemic_icl.settings import (
    ADAMW,
    IVON,
    QUESTIONS,
    Question,
    main_arms,
    settings,
)
from grokscope.spec.incontext import CELLS
from grokscope.store import Run

SHOWN = ("accuracy", "log_likelihood", "ece", "tu", "au", "eu", "eu_corrected")


def tabulate(runs: Sequence[tuple[Planned, Run]], store: Any) -> Mapping[str, pl.DataFrame]:
    by_arm = {arm: [run for item, run in runs if item.arm == arm] for arm in (ADAMW, IVON)}
    every = sequences(runs[0][1].about.task)  # type: ignore[attr-defined]
    rows = [
        {"posterior": name, **row}
        for name, posterior in _final(by_arm, every["id_train"])
        for row in _measure(posterior, every)
    ]
    final = pl.DataFrame(rows).group_by("posterior", "cell", maintain_order=True).mean()
    events = [question.event.column for question in QUESTIONS]
    ends = [
        {"seed": run.about.seed, **{event: run.outcome[event]["epoch"] for event in events}}
        for run in by_arm[ADAMW]
    ]
    schema = {"seed": pl.Int64, **dict.fromkeys(events, pl.Float64)}
    return {
        "final": final,
        "ensemble": trace_ensemble(by_arm[ADAMW]),
        "members": pl.DataFrame(ends, schema=schema),
    }


def _measure(posterior: Posterior, every: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """The last question, cell by cell."""
    return [
        {"cell": cell}
        | posteriors.measure(posterior.answer(every[cell], last=True)[:, :, 0], every[cell][:, -1])
        for cell in CELLS
    ]


def _final(
    by_arm: Mapping[str, Sequence[Run]], fitted_on: np.ndarray
) -> Iterator[tuple[str, Posterior]]:
    """Posteriors of the final weights by name; a mean over runs is taken of what is measured."""
    for run in by_arm[ADAMW]:
        own = float(run.about.task.sample_size)  # type: ignore[attr-defined]
        yield "Laplace, 64 draws", posteriors.laplace(run, fitted_on)
        yield "Laplace, 16 draws", posteriors.laplace(run, fitted_on, draws=16)
        yield "Laplace, N = pairs times tasks", posteriors.laplace(run, fitted_on, size=own)
        yield "noise of Laplace's size", posteriors.laplace(run, fitted_on, control=True)
    for run in by_arm[IVON]:
        yield "IVON, 64 draws", posteriors.ivon(run)
        yield "IVON, 16 draws", posteriors.ivon(run, draws=16)
        yield "noise of IVON's size", posteriors.ivon(run, control=True)
    if len(by_arm[ADAMW]) > 1:
        yield "ensemble of AdamW's seeds", posteriors.ensemble(by_arm[ADAMW])


def _state_ensemble(trace: pl.DataFrame, members: pl.DataFrame, question: Question) -> list[str]:
    """The ensemble over training in one cell: when the seeds disagree most, beside when they
    generalise. An alarm that needs no posterior."""
    trace = trace.filter(cell=question.cell)
    peak = find_peak(trace["epoch"].to_numpy(), trace["eu_corrected"].to_numpy(), LEAST_PEAK)
    ends = members[question.event.column].drop_nulls().to_numpy()
    when = f"peaks at step {peak:,.0f}" if peak is not None else "has no peak"
    median = f", at step {np.median(ends):,.0f} in the median" if len(ends) else ""
    return [
        f"## The ensemble over training, {question.words}",
        "",
        f"Disagreement between the seeds (EU of the ensemble) {when}; {len(ends)} of "
        f"{len(members)} seeds generalise{median}.",
        "",
        "| step | accuracy | AU | EU |",
        "|---|---|---|---|",
        *(
            f"| {r['epoch']:,} | {r['accuracy']:.3f} | {r['au']:.3f} | {r['eu_corrected']:.3f} |"
            for r in trace.to_dicts()
        ),
        "",
    ]


def render(tables: Mapping[str, pl.DataFrame], about: Mapping[str, Any]) -> tuple[str, dict]:
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
            for row in tables["final"].to_dicts()
        ),
        "",
        *(
            line
            for question in QUESTIONS
            for line in _state_ensemble(tables["ensemble"], tables["members"], question)
        ),
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
    seeds={"smoke": 2, "laptop": 5, "paper": 5},
)
