"""The second paper's network without norms, at paper scale, beside an eager PyTorch loop of the
authors' kind.

Theirs: `nn.MultiheadAttention` and the MLP at every position, training pass and test pass at every
step. Ours: training with every default measure every 25 steps, and every probe but the kernel's (a
study asks for it twice in a run) every 200. Same data, same initial weights; the two take turns.
Needs the extra `torch`.
"""

from __future__ import annotations

import tempfile
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.teams import clocked, take_turns
from grokscope.engine.compilation import default_options, prepare
from grokscope.engine.program import make_member, make_program
from grokscope.papers.inductive_bias import probes
from grokscope.papers.inductive_bias.settings import SEEDS, base
from grokscope.store import Store

LOOK = 200  # steps between two looks at the weights
STEPS = 5  # of a turn in PyTorch


class Loop(nn.Module):
    """One block and its training, as the authors write it."""

    def __init__(self, weights: dict[str, np.ndarray], heads: int, data: Any) -> None:
        super().__init__()
        block = {name.removeprefix("block0."): torch.tensor(w) for name, w in weights.items()}
        (tokens, d), m = block["embedding"].shape, block["hidden"].shape[1]
        self.embed, self.position = nn.Embedding(tokens, d), nn.Parameter(block["position"])
        self.attention = nn.MultiheadAttention(d, heads, bias=False, batch_first=True)
        self.fc1, self.fc2 = nn.Linear(d, m), nn.Linear(m, d)
        self.unembed = nn.Parameter(block["unembedding"])
        with torch.no_grad():
            self.embed.weight.copy_(block["embedding"])
            packed = torch.cat([block[name].T for name in ("query", "key", "value")])
            self.attention.in_proj_weight.copy_(packed)
            self.attention.out_proj.weight.copy_(block["output"].T)
            self.fc1.weight.copy_(block["hidden"].T)
            self.fc2.weight.copy_(block["readout"].T)
            self.fc1.bias.zero_()
            self.fc2.bias.zero_()
        self.sides = [
            (torch.tensor(np.asarray(s.tokens)), torch.tensor(np.asarray(s.labels)).long())
            for s in (data.train, data.test)
        ]
        self.optimiser = torch.optim.AdamW(
            self.parameters(), lr=1e-3, betas=(0.9, 0.98), weight_decay=1.0
        )

    def forward(self, tokens: Tensor) -> Tensor:  # (n, T) -> (n, C)
        x = self.embed(tokens) + self.position
        x = x + self.attention(x, x, x, need_weights=True)[0]
        x = x + self.fc2(nn.functional.gelu(self.fc1(x)))
        return x[:, -1] @ self.unembed

    def step(self) -> float:
        """The training loss before the step; loss and accuracy on both sides are measured."""
        (tokens, labels), (others, answers) = self.sides
        logits = self(tokens)
        loss = nn.functional.cross_entropy(logits.double(), labels)
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        (logits.argmax(-1) == labels).double().mean().item()
        with torch.no_grad():
            test = self(others)
            nn.functional.cross_entropy(test.double(), answers).item()
            (test.argmax(-1) == answers).double().mean().item()
        return loss.item()


def measure_placement(rounds: int) -> dict[str, list[float]]:
    """Seconds of a step, by contender."""
    prepare()
    spec = base("paper", seed=SEEDS[0])
    with tempfile.TemporaryDirectory() as folder, jax.enable_x64(True):
        form, member = make_member(spec, Store(folder))
        program = make_program(form, options=tuple(default_options().items()))
        state = program.init(member)
        weights = {name: np.asarray(array) for name, array in state.params.items()}
        theirs = Loop(weights, spec.model.heads, member.data)
        every = spec.training.log_every

        def train() -> None:
            nonlocal state
            state, _, _ = program.advance(state, member, jnp.int32(1))
            jax.block_until_ready(state)

        run: Any = SimpleNamespace(spec=spec, weights=lambda epoch: weights, snapshots=[0])

        def look() -> None:
            for probe in (probes.scale_removed, probes.compressibility, probes.attention_entropy):
                probe(run, 0)

        work = {
            "ours": clocked(train),
            "theirs": clocked(lambda: [theirs.step() for _ in range(STEPS)]),
            "probes": clocked(look),
        }
        take_turns(work, 1)  # compiles; the first call writes the row of epoch 0 alone
        take_turns(work, 1)
        times = take_turns(work, rounds)
    pairs = zip(times["ours"], times["probes"], strict=True)
    return {
        "grokscope": [t / every + p / LOOK for t, p in pairs],
        "PyTorch loop, tested each step": [t / STEPS for t in times["theirs"]],
    }
