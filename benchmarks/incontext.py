"""Speed of in-context training: the lab's step against the same model in PyTorch.

The contender is what one would write: `scaled_dot_product_attention`, fused AdamW, gradient
clipping, batches made on the fly, eager or compiled. Contenders take turns in short blocks.
Times are seconds of the processor with one thread in PyTorch, so that other work disturbs them
little.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from benchmarks.goals import IN_CONTEXT
from benchmarks.teams import clocked, take_turns
from grokscope.spec import InContextSpec
from grokscope.tasks.incontext import build_maps

CASES: dict[str, dict[str, Any]] = {
    IN_CONTEXT[0]: {},
    IN_CONTEXT[1]: {
        "task.modulus": 5,
        "task.tasks": 16,
        "task.triples": 6,
        "task.train_fraction": 0.6,
        "model.width": 32,
        "model.hidden": 128,
        "model.heads": 2,
        "optimiser.batch": 64,
    },
}
IVON = {
    "optimiser.kind": "ivon",
    "optimiser.lr": 0.1,
    "optimiser.weight_decay": 1e-6,
    "optimiser.beta2": 0.99999,
    "optimiser.sample_size": 1000.0,
    "optimiser.clip_radius": 1e-3,
    "optimiser.clip": 0.0,
}


def lab_step(spec: InContextSpec) -> Any:
    """A function that trains some steps."""
    import jax

    from grokscope.engine import program
    from grokscope.engine.compilation import default_options, prepare

    prepare()
    form, member = program.make_member(spec, None)  # type: ignore[arg-type]
    state = jax.jit(partial(program._init, form))(member)
    many = jax.jit(
        lambda state, count: jax.lax.fori_loop(
            0, count, lambda _, s: program.train_step(form, s, member), state
        ),
        compiler_options=default_options(),
    )

    def run(count: int) -> None:
        nonlocal state
        state = jax.block_until_ready(many(state, count))

    return run


def torch_step(spec: InContextSpec, compiled: bool) -> Any:
    """The same model and batch, as one would write them in PyTorch."""
    import torch
    from torch import nn
    from torch.nn import functional

    model, length = spec.model, 3 * spec.task.triples
    size = model.width // model.heads
    speed = 10_000.0 ** (-torch.arange(size // 2) / (size // 2))
    angle = torch.arange(length)[:, None] * speed
    cosine, sine = angle.cos(), angle.sin()

    def turn(x: Any) -> Any:  # (n, H, T, s)
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cosine - b * sine, a * sine + b * cosine], dim=-1)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            d = model.width
            self.before = nn.LayerNorm(d, bias=False)
            self.between = nn.LayerNorm(d, bias=False)
            self.qkv = nn.Linear(d, 3 * d, bias=False)
            self.out = nn.Linear(d, d, bias=False)
            self.up = nn.Linear(d, model.hidden, bias=False)
            self.down = nn.Linear(model.hidden, d, bias=False)

        def forward(self, x: Any) -> Any:
            n, t, d = x.shape
            q, k, v = (
                part.view(n, t, model.heads, size).transpose(1, 2)
                for part in self.qkv(self.before(x)).chunk(3, dim=-1)
            )
            y = functional.scaled_dot_product_attention(turn(q), turn(k), v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(n, t, d))
            return x + self.down(functional.relu(self.up(self.between(x))))

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(spec.task.modulus, model.width)
            self.blocks = nn.ModuleList([Block() for _ in range(model.layers)])
            self.last = nn.LayerNorm(model.width, bias=False)

        def forward(self, tokens: Any) -> Any:
            x = self.embedding(tokens)
            for block in self.blocks:
                x = block(x)
            return self.last(x[:, 1::3]) @ self.embedding.weight.T

    net = Decoder()
    for weight in net.parameters():
        if weight.ndim == 2:
            nn.init.normal_(weight, std=0.02)
    forward = torch.compile(net) if compiled else net
    given = spec.optimiser
    optimiser = torch.optim.AdamW(
        net.parameters(),
        lr=given.lr,
        betas=(given.beta1, given.beta2),
        weight_decay=given.weight_decay,
        fused=True,
    )
    maps = build_maps(spec.task, spec.seed)
    tasks, pairs = torch.tensor(maps.seen_tasks).long(), torch.tensor(maps.seen_pairs).long()
    orders = given.batch // len(tasks)

    def run(count: int) -> None:
        for _ in range(count):
            chosen = torch.stack(
                [torch.randperm(len(pairs))[: spec.task.triples] for _ in range(orders)]
            )
            shown = pairs[chosen].repeat_interleave(len(tasks), dim=0)  # (n, k, 2)
            z = (tasks.repeat(orders, 1)[:, None] * shown).sum(-1, keepdim=True) % maps.modulus
            tokens = torch.cat([shown, z], dim=-1).reshape(len(shown), -1)
            logits = forward(tokens)
            loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 2::3].flatten())
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), given.clip)
            optimiser.step()

    return run


def measure_steps(rounds: int, steps: int = 20) -> dict[str, dict[str, list[float]]]:
    """Seconds of a step, by network and contender."""
    import torch

    torch.set_num_threads(1)
    found = {}
    for name, changes in CASES.items():
        spec = InContextSpec().replace(**changes)
        contenders = {
            "grokscope": lab_step(spec),
            "grokscope, IVON": lab_step(spec.replace(**IVON)),
            "PyTorch loop": torch_step(spec, compiled=False),
            "PyTorch loop, compiled": torch_step(spec, compiled=True),
        }
        work = {n: clocked(partial(run, steps), time.process_time) for n, run in contenders.items()}
        take_turns(work, 1)  # compiles
        times = take_turns(work, rounds)
        found[name] = {n: [t / steps for t in each] for n, each in times.items()}
    return found
