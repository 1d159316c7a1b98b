"""Attention by hand: which tensor of a product is a softmax that is multiplied with values?

In sum_s w[.., t, s] v[.., s, d] the softmax's own axis s is summed over, the axis t of queries is
in the weights and in the result only, and all other axes (examples, heads) are shared. That sets
attention apart from mixtures of experts, code books and classifiers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

SOFTMAX = ("softmax", "special_softmax")
PRODUCTS = ("matmul", "__matmul__", "__rmatmul__", "linalg_matmul", "bmm", "einsum")


def may_be_attention(weights: Tensor, args: Any, kwargs: Any) -> bool:
    """A softmax over the last of three or four axes: (B, H, T, T) or (B, T, T)."""
    axis = kwargs.get("dim", args[1] if len(args) > 1 else None)
    rank = weights.dim()
    return rank in (3, 4) and axis in (-1, rank - 1) and weights.shape[-1] > 1 and bool(args)


@dataclass(frozen=True)
class Part:
    """A tensor of a product that may be weights: `summed` is the axis that is summed over, `free`
    the one that is in the result only."""

    tensor: Tensor
    summed: int
    free: int


def find_weights(func: Any, args: list[Any]) -> Iterator[Part]:
    """Every tensor of the product that has the axes of weights."""
    if func.__name__ == "einsum":
        yield from _in_einsum(args)
        return
    left, right = args[:2] if func.__name__ != "__rmatmul__" else args[1::-1]
    if isinstance(left, Tensor) and isinstance(right, Tensor) and min(left.dim(), right.dim()) > 2:
        yield Part(left, -1, -2)
        yield Part(right, -2, -1)


def _in_einsum(args: Any) -> Iterator[Part]:
    if not isinstance(args[0], str):
        return
    tensors = args[1] if len(args) == 2 and isinstance(args[1], list | tuple) else args[1:]
    inputs, arrow, output = args[0].replace(" ", "").replace("...", "").partition("->")
    letters = inputs.split(",")
    if not arrow or len(letters) != 2 or len(tensors) != 2:
        return
    for mine, other, tensor in zip(letters, letters[::-1], tensors, strict=True):
        summed = [c for c in mine if c in other and c not in output]
        free = [c for c in mine if c not in other and c in output]
        shared = [c for c in mine if c in other and c in output]
        some = "..." in args[0] or shared
        if len(summed) == len(free) == 1 and some:
            # Counted from the end: an ellipsis stands in front.
            yield Part(tensor, *(mine.index(c) - len(mine) for c in (*summed, *free)))


@dataclass(frozen=True)
class Softmax:
    """The result (B, H, T, S) or (B, T, S) of a softmax over its last axis."""

    weights: Tensor
    version: int  # of its numbers, which may be overwritten
    dropped: bool  # whether dropout may have changed them on their way

    def is_same(self, part: Part) -> bool:
        tensor, weights = part.tensor, self.weights
        return tensor.data_ptr() == weights.data_ptr() and tensor.dtype == weights.dtype

    def is_in(self, part: Part) -> bool:
        """Whether it is this tensor of a product, with the right axes: itself or a view of it, or
        a copy."""
        tensor, weights = part.tensor, self.weights
        same = tensor.numel() == weights.numel()
        if not same or (tensor.shape[part.free], tensor.shape[part.summed]) != weights.shape[-2:]:
            return False
        if self.is_same(part):
            untouched = weights._version == self.version
            return untouched and tensor.stride(part.summed) == weights.stride(-1)
        turned = tensor if part.summed == -1 else tensor.transpose(-1, -2)
        return is_copy(turned, weights, self.dropped)


def is_copy(tensor: Tensor, weights: Tensor, dropped: bool = False) -> bool:
    """Whether the tensor has the same numbers, rounded, or else after dropout: some are zero, and
    the others are all larger by one factor."""
    if tensor.numel() != weights.numel() or tensor.shape[-1] != weights.shape[-1]:
        return False
    ours, theirs = (t.detach().float().reshape(-1) for t in (weights, tensor))
    coarse = max(torch.finfo(t.dtype).eps for t in (weights, tensor))
    close = partial(torch.allclose, rtol=8 * coarse, atol=2 * coarse)
    if close(theirs, ours):
        return True
    left = theirs != 0
    factor = theirs.sum() / (ours * left).sum().clamp(min=1e-30)
    thinned = dropped and not left.all() and factor >= 1
    return bool(thinned) and close(theirs, ours * left * factor)
