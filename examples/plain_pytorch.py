"""The instruments in a plain PyTorch loop, on a model with torch.nn.MultiheadAttention.

    python -m examples.plain_pytorch             # half a minute; then: grokscope runs

The task is the sum of two numbers modulo 7; two more numbers are distractors.
"""

from __future__ import annotations

import sys

import torch
from torch import nn

from grokscope.bridge import Observer, StructuralPrior

MODULUS = 7


class Reader(nn.Module):
    """A class token that attends to four numbers once."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(MODULUS + 1, width)
        self.position = nn.Parameter(0.1 * torch.randn(5, width))
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 128), nn.ReLU(), nn.Linear(128, MODULUS))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:  # (n, 5) -> (n, 7)
        x = self.embedding(tokens) + self.position
        looked, _ = self.attention(x[:, -1:], x, x, need_weights=False)
        return self.mlp(looked[:, 0])


def main(steps: int = 600, store: str | None = None) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    numbers = torch.cartesian_prod(*[torch.arange(MODULUS)] * 4)
    numbers = numbers[torch.randperm(len(numbers))]
    tokens = torch.cat([numbers, torch.full((len(numbers), 1), MODULUS)], dim=1)
    labels = (numbers[:, 0] + numbers[:, 2]) % MODULUS
    train, test = (tokens[:400], labels[:400]), (tokens[400:], labels[400:])
    model = Reader()
    optimiser = torch.optim.AdamW(model.parameters(), 3e-3, weight_decay=0.5)
    prior = StructuralPrior(model, query=0, informative=[0, 2], strength=0.1)
    with Observer(
        model,
        "plain PyTorch",
        query=0,  # the class token is the only query; it is last among the keys
        informative=[0, 2],
        test=test,
        every=25,
        prior=prior,
        optimizer=optimiser,
        store=store,
    ) as observer:
        for step in range(steps + 1):
            observer.step(step, train)
            with prior:
                loss = nn.functional.cross_entropy(model(train[0]), train[1])
            loss = loss + prior.penalty(step)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    row = observer.rows[-1]
    print(f"{observer.run.id}: test accuracy {row['test_accuracy']:.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
