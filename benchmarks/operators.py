"""Operators of fields: the law of one initial condition in one pass against a flow of many steps,
and a training step against neuraloperator's FNO of the same size.

neuraloperator is no dependency of ours, not even for development: it brings some thirty packages.
Without it the second part has our side alone.
"""

from __future__ import annotations

import tempfile
from functools import partial
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp

import grokscope as gs
from benchmarks.teams import clocked, take_turns
from grokscope.engine.compilation import default_options, prepare
from grokscope.engine.program import make_member, make_program, train_step
from grokscope.papers.martingale_operators import evaluation, laws
from grokscope.problems.fields import pass_operations
from grokscope.spec.equations import FieldSpec

FLOW_STEPS = (4, 16, 64)
COUNTS = (1, evaluation.SPEED_SAMPLES)
COMPARED = ("w2", "sliced", "bures")


def measure_operators(rounds: int, epochs: int) -> dict[str, Any]:
    prepare()
    return {"law": measure_law(rounds, epochs), "step": measure_step(rounds)}


def measure_law(rounds: int, epochs: int) -> dict[str, Any]:
    """Seconds for samples of the law of one initial condition of phi^4, for one and for many, and
    how close each law is. A pass is made once for all samples, a flow once for each."""
    spec = FieldSpec().replace(**{"equation.kind": "phi4", "training.epochs": epochs})
    specs = [
        spec.replace(**{"objective.kind": "joint"}),
        spec.replace(**{"operator.kind": "flow"}),
    ]
    with tempfile.TemporaryDirectory() as folder:
        trained = [laws.open_run(run) for run in gs.train(specs, folder, processes=1)]
    truth = laws.find_truth(spec.equation)
    given = truth.given[:1]
    one, flow = trained
    work = {
        f"one pass, {count} samples": clocked(partial(laws.pass_sampler(one, count), given))
        for count in COUNTS
    }
    accuracy = {"one pass": evaluation.compare(laws.operator_law(one, truth), truth)}
    for steps in FLOW_STEPS:
        name = f"flow, {steps} steps"
        for count in COUNTS:
            sample = laws.flow_sampler(flow, count, steps)
            work[f"{name}, {count} samples"] = clocked(partial(sample, given))
        drawn = laws.flow_sampler(flow, laws.SAMPLES, steps)(truth.given)
        accuracy[name] = evaluation.compare(laws.from_samples(drawn), truth)
    take_turns(work, 1)
    times = take_turns(work, rounds)
    print("law: " + "  ".join(f"{n} {1e3 * min(t):.2f} ms" for n, t in times.items()), flush=True)
    kept = {name: {c: row[c] for c in COMPARED} for name, row in accuracy.items()}
    floor = evaluation.shared_rows(spec.equation, pass_operations(spec))
    return {
        "seconds": times,
        "distances": kept,
        "floor": {c: floor[f"floor_{c}"] for c in COMPARED},
    }


def measure_step(rounds: int, repeats: int = 20) -> dict[str, Any]:
    """Seconds of one AdamW step of one trunk on squared errors, the same batch for both."""
    spec = FieldSpec().replace(**{"objective.kind": "mean", "operator.rank": 0})
    form, member = make_member(spec, gs.Store(tempfile.gettempdir()))
    state = make_program(form, options=tuple(default_options().items())).init(member)
    step = jax.jit(
        lambda state: jax.lax.fori_loop(
            0, repeats, lambda _, s: train_step(form, s, member), state
        ),
        compiler_options=default_options(),
    )
    work = {"grokscope": clocked(lambda: jax.block_until_ready(step(state)))}
    if find_spec("neuralop") is not None:
        work["neuraloperator"] = clocked(partial(_their_steps, spec, member, repeats))
    take_turns(work, 1)
    times = take_turns(work, rounds)
    each = {name: [t / repeats for t in found] for name, found in times.items()}
    print("step: " + "  ".join(f"{n} {1e3 * min(t):.2f} ms" for n, t in each.items()), flush=True)
    return {"seconds": each, "batch": spec.optimiser.batch, "points": spec.equation.points}


def _their_steps(spec: FieldSpec, member: Any, repeats: int) -> None:
    import numpy as np
    import torch
    from neuralop.models import FNO

    shape, batch = spec.operator, spec.optimiser.batch
    model = FNO(
        n_modes=(2 * shape.modes - 2,),
        in_channels=1,
        out_channels=1,
        hidden_channels=shape.width,
        n_layers=shape.layers,
        lifting_channel_ratio=0,
        projection_channel_ratio=2,
        use_channel_mlp=False,
        positional_embedding="grid",
    )
    optimiser = torch.optim.AdamW(model.parameters(), lr=spec.optimiser.lr)
    given = torch.from_numpy(np.array(jnp.swapaxes(member.data.train.given[:batch], 1, 2)))
    fields = torch.from_numpy(np.array(member.data.train.fields[:batch]))
    for _ in range(repeats):
        optimiser.zero_grad()
        loss = ((fields - model(given)) ** 2).mean()  # (u, m, N) against (u, 1, N)
        loss.backward()
        optimiser.step()
