"""PyTorch's side of the comparison: `python -m benchmarks.pytorch` is a child.

Members that a contender cannot batch are trained one after the other. `modelbatch` stacks them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.numpy import load_file
from torch import nn

from benchmarks.teams import make_operands, serve
from benchmarks.textbook import (
    Bagged,
    Everywhere,
    General,
    GeneralAtLast,
    Loop,
    Shortcut,
    Textbook,
    cross_entropy,
    make_optimiser,
)


@cache
def compile_loss() -> Callable[..., Any]:
    """One for all members: their weights are its inputs."""
    return torch.compile(cross_entropy)


def read(problem: dict[str, Any]) -> dict[str, Any]:
    """Data and initial weights, as the lab has exported them, with the optimiser's settings."""
    arrays = load_file(Path(problem["arrays"]))
    names = ("tokens", "labels", "test_tokens", "test_labels")
    return {
        **{name: torch.tensor(arrays.pop(name)).long() for name in names},
        "weights": arrays,
        "optimiser": problem["spec"]["optimiser"],
        "model": problem["spec"]["model"],
    }


class Plain:
    """The eager loop."""

    model: Callable[..., nn.Module] = Textbook
    fused = False  # AdamW as it comes
    compiled = False

    def __init__(self, problems: list[dict[str, Any]]) -> None:
        self.problems = problems
        self.members = [self._member(problem) for problem in problems]

    def _member(self, problem: dict[str, Any], double: bool = False) -> Loop:
        data = read(problem)
        loss_of = compile_loss() if self.compiled else cross_entropy
        model = self._build(data)
        return Loop(model.double() if double else model, loss_of, data, self.fused)

    def _build(self, data: dict[str, Any]) -> nn.Module:
        return self.model(data["weights"])

    def warm_up(self) -> None:
        self.advance(1)

    def advance(self, epochs: int) -> None:
        for member in self.members:
            for _ in range(epochs):
                member.epoch()

    def losses(self, epochs: int, double: bool = False) -> list[float]:
        """Of the first member, from its initial weights; on request in double precision."""
        member = self._member(self.problems[0], double)
        return [float(member.epoch()) for _ in range(epochs)]


class AllPositions(Plain):
    model = Everywhere


class Deep(Plain):
    """The general transformer."""

    model = General

    def _build(self, data: dict[str, Any]) -> nn.Module:
        return self.model(data["weights"], data["model"])


class DeepTested(Deep):
    """With the accuracy on the test set after each epoch, as users log it."""

    def advance(self, epochs: int) -> None:
        for problem, member in zip(self.problems, self.members, strict=True):
            data = read(problem)
            for _ in range(epochs):
                member.epoch()
                with torch.no_grad():
                    guess = member.model(data["test_tokens"]).argmax(dim=-1)
                (guess == data["test_labels"]).float().mean().item()


class DeepAtLast(Deep):
    model = GeneralAtLast


class DeepCompiled(DeepAtLast):
    compiled = True


class ByHand(Plain):
    """The short cut; whoever goes that far also asks for the fused optimiser."""

    model = Shortcut
    fused = True


class ByHandBagged(ByHand):
    model = Bagged


class PlainCompiled(Plain):
    compiled = True


class ByHandCompiled(ByHand):
    compiled = True


class Stacked:
    """`modelbatch`: the textbook modules stacked, all members in one call."""

    def __init__(self, problems: list[dict[str, Any]]) -> None:
        self.problems = problems
        self._build(problems)

    def _build(self, problems: list[dict[str, Any]]) -> None:
        from modelbatch import ModelBatch, OptimizerFactory  # not among our dependencies

        members = [read(problem) for problem in problems]
        self.batch = ModelBatch([self._module(member) for member in members], shared_input=False)
        self.tokens = torch.stack([m["tokens"] for m in members])  # (members, n, T)
        self.labels = torch.stack([m["labels"] for m in members])  # (members, n)
        self.settings = members[0]["optimiser"]

        def factory(_: Any, **base: Any) -> Any:
            made = OptimizerFactory(torch.optim.AdamW, base)
            return made.create_optimizer(self.batch, [{}] * len(members))

        self.optimiser, self.schedule = make_optimiser(None, self.settings, factory)

    def _module(self, data: dict[str, Any]) -> nn.Module:
        return Textbook(data["weights"])

    def epoch(self) -> float:
        self.optimiser.zero_grad()
        outputs = self.batch(self.tokens)
        loss = self.batch.compute_loss(outputs, self.labels, F.cross_entropy)
        loss.backward()
        for group in self.optimiser.param_groups:  # one a member
            nn.utils.clip_grad_norm_(group["params"], self.settings["clip"])
        self.optimiser.step()
        self.schedule.step()
        return float(self.batch.latest_losses[0])

    def warm_up(self) -> None:
        self.epoch()

    def advance(self, epochs: int) -> None:
        for _ in range(epochs):
            self.epoch()

    def losses(self, epochs: int) -> list[float]:
        whole = self.batch, self.tokens, self.labels, self.optimiser, self.schedule
        self._build(self.problems[:1])
        losses = [self.epoch() for _ in range(epochs)]
        self.batch, self.tokens, self.labels, self.optimiser, self.schedule = whole
        return losses


class StackedDeep(Stacked):
    def _module(self, data: dict[str, Any]) -> nn.Module:
        return GeneralAtLast(data["weights"], data["model"])


class Floor:
    """The products of an epoch, as in `benchmarks.lab`."""

    def __init__(self, problems: list[dict[str, Any]]) -> None:
        made = [make_operands(product) for product in problems[0]["products"]]
        self.start = [list(map(torch.tensor, arrays)) for arrays in made]
        self.members = len(problems)

    def warm_up(self) -> None:
        self.advance(1)

    def advance(self, epochs: int) -> None:
        for _ in range(self.members):
            for x, g, w in self.start:
                for _ in range(epochs):
                    x, g, _ = g @ w.T, x @ w, x.T @ g


KINDS: dict[str, Callable[[list[Any]], Any]] = {
    "plain": Plain,
    "all positions": AllPositions,
    "plain compiled": PlainCompiled,
    "by hand": ByHand,
    "by hand, bagged": ByHandBagged,
    "by hand compiled": ByHandCompiled,
    "general": Deep,
    "general tested": DeepTested,
    "general at last": DeepAtLast,
    "general compiled": DeepCompiled,
    "modelbatch": Stacked,
    "general modelbatch": StackedDeep,
    "floor": Floor,
}

if __name__ == "__main__":
    if threads := os.environ.get("NPROC"):
        torch.set_num_threads(int(threads))
    serve(KINDS)
