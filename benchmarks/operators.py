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
from grokscope.spec.equations import FieldSpec

FLOW_STEPS = (4, 16, 64)


def measure_law(rounds: int) -> dict[str, list[float]]:
    """Seconds for samples of the law of one initial condition. A pass is made once for all of them,
    a flow once for each. How close either comes is for the paper's study to say, not for these
    weights, which are hardly trained."""
    prepare()
    spec = FieldSpec().replace(**{"equation.kind": "phi4", "training.epochs": 50})
    changes = ({"objective.kind": "joint"}, {"operator.kind": "flow"})
    with tempfile.TemporaryDirectory() as folder:
        runs = gs.train([spec.replace(**each) for each in changes], folder, processes=1)
        one, flow = map(laws.open_run, runs)
    given, count = laws.find_truth(spec.equation).given[:1], evaluation.SPEED_SAMPLES
    work = {"grokscope": laws.pass_sampler(one, count)}
    work |= {f"flow of {n} steps": laws.flow_sampler(flow, count, n) for n in FLOW_STEPS}
    timed = {name: clocked(partial(sample, given)) for name, sample in work.items()}
    take_turns(timed, 1)
    return take_turns(timed, rounds)


def measure_step(rounds: int, repeats: int = 20) -> dict[str, list[float]]:
    """Seconds of one AdamW step of one trunk on squared errors, the same batch for both."""
    prepare()
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
    return {name: [t / repeats for t in found] for name, found in times.items()}


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
