"""The same training in PyTorch, as users write it: a module and a loop.

`Textbook` computes keys and values at every position of every example, the rest at the query.
`Everywhere` computes all at every position and reads the last, as transformers are usually written
(`model(tokens)[:, -1]`). `Shortcut` is the same function with the exact short cut of
`grokscope.models.minimal` by hand: the query token is constant, so scores and values are look-ups
in tables with a row a token. `Bagged` is the fastest way to write that in PyTorch that we found.
All have the same parameters. `General` is the general transformer with pre-norms, `GeneralAtLast`
the same without what nobody reads.

This module knows neither JAX nor the lab. n examples, T positions, d width, V tokens, C classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Textbook(nn.Module):
    def __init__(self, weights: Mapping[str, np.ndarray]) -> None:
        super().__init__()
        vocabulary, d = weights["embedding"].shape
        m, classes = weights["readout"].shape
        self.embedding = nn.Embedding(vocabulary, d)
        self.position = nn.Embedding(len(weights["position"]), d)
        self.query, self.key, self.value = (nn.Linear(d, d, bias=False) for _ in range(3))
        self.hidden, self.readout = nn.Linear(d, m), nn.Linear(m, classes)
        with torch.no_grad():
            for name, layer in self.named_children():
                weight = torch.tensor(weights[name])
                layer.weight.copy_(weight if isinstance(layer, nn.Embedding) else weight.T)
            self.hidden.bias.copy_(torch.tensor(weights["hidden_bias"]))
            self.readout.bias.copy_(torch.tensor(weights["readout_bias"]))

    def forward(self, tokens: Tensor) -> Tensor:  # (n, T) -> (n, C)
        embedded = self.embedding(tokens) + self.position.weight  # (n, T, d)
        query = self.query(embedded[:, -1])  # (n, d)
        scores = torch.einsum("nd,ntd->nt", query, self.key(embedded)) / query.shape[-1] ** 0.5
        attention = torch.softmax(scores, dim=-1)
        pooled = torch.einsum("nt,ntd->nd", attention, self.value(embedded))
        return self.readout(F.relu(self.hidden(pooled)))


class Everywhere(Textbook):
    def forward(self, tokens: Tensor) -> Tensor:  # (n, T) -> (n, C)
        embedded = self.embedding(tokens) + self.position.weight  # (n, T, d)
        query, key, value = self.query(embedded), self.key(embedded), self.value(embedded)
        pooled = F.scaled_dot_product_attention(query, key, value)  # (n, T, d)
        return self.readout(F.relu(self.hidden(pooled)))[:, -1]


class Shortcut(Textbook):
    def forward(self, tokens: Tensor) -> Tensor:  # (n, T) -> (n, C)
        embedding, position = self.embedding.weight, self.position.weight
        query = self.query(embedding[-1] + position[-1])  # (d,)
        direction = query @ self.key.weight / query.shape[-1] ** 0.5  # (d,)
        by_token = F.embedding(tokens, (embedding @ direction)[:, None])[..., 0]  # (n, T)
        attention = torch.softmax(by_token + position @ direction, dim=-1)
        pooled = self.mix(attention, tokens) + attention @ self.value(position)
        return self.readout(F.relu(self.hidden(pooled)))

    def mix(self, attention: Tensor, tokens: Tensor) -> Tensor:  # (n, T), (n, T) -> (n, d)
        values = F.embedding(tokens, self.value(self.embedding.weight))  # (n, T, d)
        return torch.einsum("nt,ntd->nd", attention, values)


class Bagged(Shortcut):
    """Look-up and sum in one call, so that the values of all positions are never written out."""

    def mix(self, attention: Tensor, tokens: Tensor) -> Tensor:
        table = self.value(self.embedding.weight)  # (V, d)
        return F.embedding_bag(tokens, table, per_sample_weights=attention, mode="sum")


class General(nn.Module):
    """`grokscope.models.transformer` with learned positions and pre-norms, as such a model is
    usually written: everything at every position, and the last is read."""

    pruned = False  # is the last layer computed only where it is read?

    def __init__(self, weights: Mapping[str, np.ndarray], model: Mapping[str, Any]) -> None:
        super().__init__()
        self.heads = model["heads"]
        self.gelu = {"gelu": "tanh", "gelu_exact": "none"}[model["activation"]]
        self.layers = sum(name.endswith(".query") for name in weights)
        # Names of parameters may hold no dots.
        self.arrays = nn.ParameterDict(
            {name.replace(".", "_"): torch.tensor(array) for name, array in weights.items()}
        )

    def forward(self, tokens: Tensor) -> Tensor:  # (n, T) -> (n, C)
        w = self.arrays
        x = w["embedding"][tokens] + w["position"]  # (n, T, d)
        for layer in range(self.layers):
            last = self.pruned and layer == self.layers - 1
            x = self._block(f"block{layer}", x, 1 if last else x.shape[1])
        return (self._norm("final", x) @ w["unembedding"])[:, -1]

    def _block(self, at: str, x: Tensor, rows: int) -> Tensor:  # (n, T, d) -> (n, rows, d)
        """One layer at the last `rows` positions."""
        w = self.arrays
        normed = self._norm(f"{at}_attention", x)
        query, key, value = (
            (stream @ w[f"{at}_{name}"]).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for name, stream in (("query", normed[:, -rows:]), ("key", normed), ("value", normed))
        )  # (n, H, ., d/H)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=rows > 1)
        x = x[:, -rows:] + mixed.transpose(1, 2).flatten(-2) @ w[f"{at}_output"]
        normed = self._norm(f"{at}_mlp", x)
        hidden = F.gelu(normed @ w[f"{at}_hidden"] + w[f"{at}_hidden_bias"], approximate=self.gelu)
        return x + hidden @ w[f"{at}_readout"] + w[f"{at}_readout_bias"]

    def _norm(self, name: str, x: Tensor) -> Tensor:
        """Of those that may be there."""
        if f"{name}_gain" not in self.arrays:
            return x
        return F.layer_norm(
            x, x.shape[-1:], self.arrays[f"{name}_gain"], self.arrays[f"{name}_bias"]
        )


class GeneralAtLast(General):
    pruned = True


def make_optimiser(
    parameters: Any,
    settings: Mapping[str, float],
    make: Callable[..., torch.optim.Optimizer] = torch.optim.AdamW,
    **options: Any,
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    """AdamW, whose decay is decoupled, and a linear warm-up."""
    optimiser = make(
        parameters,
        lr=settings["lr"],
        betas=(settings["beta1"], settings["beta2"]),
        eps=settings["epsilon"],
        weight_decay=settings["weight_decay"],
        **options,
    )
    return optimiser, torch.optim.lr_scheduler.LambdaLR(optimiser, warm_up(settings["warmup"]))


def warm_up(epochs: float) -> Callable[[int], float]:
    return lambda step: min(1.0, (step + 1) / max(epochs, 1))


class Loop:
    """One member and its training loop, full batch."""

    def __init__(
        self,
        model: nn.Module,
        loss_of: Callable[[nn.Module, Tensor, Tensor], Tensor],
        problem: Mapping[str, Any],
        fused: bool = False,
    ) -> None:
        self.model, self.loss_of = model, loss_of
        self.tokens, self.labels = problem["tokens"], problem["labels"]  # (n, T), (n,)
        self.clip = problem["optimiser"]["clip"]
        self.optimiser, self.schedule = make_optimiser(
            model.parameters(), problem["optimiser"], fused=fused
        )

    def epoch(self) -> Tensor:
        """The loss before the step."""
        loss = self.loss_of(self.model, self.tokens, self.labels)
        self.optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimiser.step()
        self.schedule.step()
        return loss.detach()


def cross_entropy(model: nn.Module, tokens: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(model(tokens), labels)
