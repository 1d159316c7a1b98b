"""IVON, Laplace, ensembles and plain noise on the same questions (falsifier v: is the rise of EU an
artefact of one posterior?), and how much EU owes to the number of draws and of examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from grokscope.claims.studies import Planned
from grokscope.pages.files import template
from grokscope.pages.paper import tidy
from grokscope.papers.epistemic_icl import posteriors, quantities, settings
from grokscope.papers.epistemic_icl.settings import ADAMW, IVON, QUESTIONS, Question
from grokscope.spec.incontext import CELLS
from grokscope.store import Run


def tabulate(runs: Sequence[tuple[Planned, Run]], store: Any) -> Mapping[str, pl.DataFrame]:
    by_arm = {arm: [run for item, run in runs if item.arm == arm] for arm in (ADAMW, IVON)}
    every = quantities.sequences(runs[0][1].about.task)  # type: ignore[attr-defined]
    rows = [
        {"posterior": name, "cell": cell, **posterior.measure_last(every[cell])}
        for name, posterior in _final(by_arm, every["id_train"])
        for cell in CELLS
    ]
    final = pl.DataFrame(rows).group_by("posterior", "cell", maintain_order=True).mean()
    events = [question.event.column for question in QUESTIONS]
    ends = [(run.about.seed, *(run.outcome[e]["epoch"] for e in events)) for run in by_arm[ADAMW]]
    schema = {"seed": pl.Int64, **dict.fromkeys(events, pl.Float64)}
    return {
        "final": final,
        "ensemble": quantities.trace_ensemble(by_arm[ADAMW]),
        "members": pl.DataFrame(ends, schema, orient="row"),
    }


def _final(
    by_arm: Mapping[str, Sequence[Run]], fitted_on: np.ndarray
) -> Iterator[tuple[str, posteriors.Posterior]]:
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


def render(tables: Mapping[str, pl.DataFrame], about: Mapping[str, Any]) -> tuple[str, dict]:
    """The page, from the template `posteriors.md`."""
    ensembles = [_describe(tables["ensemble"], tables["members"], each) for each in QUESTIONS]
    final = tables["final"]
    text = template("posteriors.md", __package__).render(
        final=final.to_dicts(),
        ensembles=ensembles,
        about=about,
        apart=_apart(final, "IVON, 64 draws", "noise of IVON's size"),
        widened=1 / settings.kept_hessian(settings.by_ivon(settings.base("laptop"))),
    )
    return tidy(text), {}


def _apart(final: pl.DataFrame, *names: str) -> Mapping[str, float]:
    """How far two posteriors are from each other at most, over cells: their accuracy, TU and EU."""
    one, other = (final.filter(posterior=name) for name in names)
    return {
        name: float((one[name] - other[name]).abs().max())  # type: ignore[arg-type]
        for name in ("accuracy", "tu", "eu")
    }


def _describe(trace: pl.DataFrame, members: pl.DataFrame, question: Question) -> dict[str, Any]:
    """The ensemble over training in one cell: when the seeds disagree most, beside when they
    generalise. An alarm that needs no posterior."""
    trace = trace.filter(cell=question.cell)
    epochs, eu = (trace[name].to_numpy() for name in ("epoch", "eu_corrected"))
    ends = members[question.event.column].drop_nulls()
    return {
        "words": question.words,
        "peak": quantities.find_peak(epochs, eu),
        "ended": len(ends),
        "seeds": len(members),
        "median": ends.median(),
        "rows": trace.to_dicts(),
    }


ANNEX = settings.PROSE.annex(
    "epistemic-icl-posteriors",
    settings=lambda scale: settings.settings(scale) if scale != "paper" else [],
    arms=lambda setting, seed: settings.by_both(setting.baseline(seed)),
    tabulate=tabulate,
    render=render,
    seeds={"smoke": 2, "laptop": 5, "paper": 5},
)
