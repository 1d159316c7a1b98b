"""Speed of in-context training: the lab's step against the same model in PyTorch.

    python -m benchmarks.incontext [--compiled] [--threads 1]

The contender is what one would write: `scaled_dot_product_attention`, fused AdamW, gradient
clipping, batches made on the fly, eager or compiled. Contenders take turns in short blocks, and the
shortest block of each counts, so that a busy machine disturbs all of them alike. Times are seconds
of the processor, not of the clock.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import Any

import numpy as np

from grokscope.spec import InContextSpec
from grokscope.tasks.incontext import build_maps

CASES: dict[str, dict[str, Any]] = {
    "p 7, width 64, 8 triples, batch 112": {},
    "p 5, width 32, 6 triples, batch 64": {
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiled", action="store_true", help="torch.compile as well")
    parser.add_argument("--threads", type=int, default=1, help="PyTorch's threads")
    parser.add_argument("--blocks", type=int, default=8, help="turns of each contender")
    parser.add_argument("--steps", type=int, default=20, help="steps of a turn")
    asked = parser.parse_args()
    import torch

    torch.set_num_threads(asked.threads)
    for name, changes in CASES.items():
        spec = InContextSpec().replace(**changes)
        contenders = {
            "lab": lab_step(spec),
            "lab, ivon": lab_step(spec.replace(**IVON)),
            "PyTorch eager": torch_step(spec, compiled=False),
        }
        if asked.compiled:
            contenders["PyTorch compiled"] = torch_step(spec, compiled=True)
        times: dict[str, list[float]] = {contender: [] for contender in contenders}
        for run in contenders.values():
            run(3)
        for _ in range(asked.blocks):
            for contender, run in contenders.items():
                began = time.process_time()
                run(asked.steps)
                times[contender].append((time.process_time() - began) / asked.steps * 1e3)
        print(name)
        for contender, found in times.items():
            print(f"  {contender:18} {min(found):6.2f} ms a step, median {np.median(found):.2f}")


if __name__ == "__main__":
    main()
