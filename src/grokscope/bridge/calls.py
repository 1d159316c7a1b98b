"""One attention call: queries, keys, values, and what hides some keys, as each library passes them.

B examples, H heads, K key heads (grouped queries share keys), Q chosen rows, T positions, d size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from grokscope.errors import GrokscopeError


class CaptureError(GrokscopeError, RuntimeError):
    """Attention that cannot be read, or is not what it should be."""


@dataclass(frozen=True)
class Call:
    """An attention call whose weights are still to be computed."""

    query: Tensor  # (B, H, T, d)
    key: Tensor  # (B, K, T, d)
    value: Tensor  # (B, K, T, d)
    scale: float
    mask: Tensor | None = None  # (B or 1, H or 1, T, T): bool, true is seen; or added to scores
    causal: bool = False
    window: int | None = None  # a causal row sees this many positions, including its own
    padding: Tensor | None = None  # (B, T), zero where a key is padding
    softcap: float | None = None

    @property
    def asked(self) -> Tensor:  # (B, H, T, d)
        return self.query

    def weights(self, rows: Tensor | None = None) -> Tensor:  # (B, Q) -> (B, H, Q, T)
        """softmax(scale <q, k> + mask) of the chosen rows, or of all, in float32 or wider. A row
        that sees nothing is zero."""
        wide = torch.promote_types(self.query.dtype, torch.float32)
        query, key = self.query.to(wide), _share(self.key.to(wide), self.query.shape[1])
        size, _, length, _ = query.shape
        with torch.autocast(query.device.type, enabled=False):
            scores = take_rows(query, rows) @ key.transpose(-1, -2) * self.scale
        if self.softcap is not None:
            scores = torch.tanh(scores / self.softcap) * self.softcap
        at = torch.arange(key.shape[2], device=key.device)
        place = torch.arange(length, device=key.device)[None] if rows is None else rows
        place = place[:, None, :, None]  # (B or 1, 1, Q, 1)
        seen = torch.ones_like(place, dtype=torch.bool)
        if self.causal:
            seen = at <= place
            if self.window is not None:
                seen = seen & (at > place - self.window)
        if self.padding is not None:
            seen = seen & self.padding.bool()[:, None, None, :]
        if self.mask is not None:
            mask = take_rows(self.mask.expand(size, -1, length, -1), rows)
            if mask.dtype != torch.bool:
                scores, mask = scores + mask.to(wide), mask > -torch.inf
            seen = seen & mask
        any_seen = seen.any(dim=-1, keepdim=True)
        scores = scores.masked_fill(~seen, -torch.inf).masked_fill(~any_seen, 0.0)
        return torch.softmax(scores, dim=-1) * any_seen

    def mix(self, weights: Tensor) -> Tensor:  # (B, H, T, T) -> (B, H, T, d)
        """The output of attention with these weights."""
        return weights.to(self.value.dtype) @ _share(self.value, weights.shape[1])


@dataclass(frozen=True)
class Known:
    """An attention call whose weights are known."""

    asked: Tensor  # (B, H, T, T)

    def weights(self, rows: Tensor | None = None) -> Tensor:  # (B, Q) -> (B, H, Q, T)
        return take_rows(self.asked, rows)


def take_rows(tensor: Tensor, rows: Tensor | None) -> Tensor:  # (B, H, T, n), (B, Q)
    if rows is None:
        return tensor
    index = rows[:, None, :, None].expand(-1, tensor.shape[1], -1, tensor.shape[3])
    return torch.gather(tensor, 2, index)  # (B, H, Q, n)


def _share(tensor: Tensor, heads: int) -> Tensor:  # (B, K, T, d) -> (B, H, T, d)
    """Keys or values repeated for the query heads that share them."""
    shared = tensor.shape[1]
    if heads % shared:
        raise CaptureError(f"{heads} query heads cannot share {shared} key heads.")
    return tensor if heads == shared else tensor.repeat_interleave(heads // shared, dim=1)


def from_sdpa(given: dict[str, Any]) -> Call:
    """A call of torch.nn.functional.scaled_dot_product_attention, from its arguments by name."""
    query, mask = given["query"], given.get("attn_mask")
    if query.dim() != 4:
        raise CaptureError(
            f"scaled_dot_product_attention was called with queries of shape {tuple(query.shape)}; "
            "only (batch, heads, positions, size) can be read. Name the module with ReadModule."
        )
    if mask is not None:
        mask = mask[(None,) * (4 - mask.dim())]
    scale = given.get("scale") or query.shape[-1] ** -0.5
    return Call(query, given["key"], given["value"], scale, mask, given.get("is_causal", False))


def from_transformers(implementation: str, given: tuple[Any, ...], options: dict[str, Any]) -> Call:
    """A call of an attention function of Hugging Face transformers."""
    module, query, key, value, mask = given
    where = f"{type(module).__name__} (attention {implementation!r})"
    if options.get("s_aux") is not None or getattr(module, "sinks", None) is not None:
        raise CaptureError(
            f"{where} gives part of its attention to a learnt sink, so its weights on positions do "
            "not sum to one; grokscope cannot read it."
        )
    if options.get("cu_seq_lens_q") is not None:
        raise CaptureError(f"{where} was given packed sequences; give it one sequence per row.")
    padding = None
    if isinstance(mask, Tensor) and mask.dim() == 2:
        mask, padding = None, mask
    elif hasattr(mask, "mask_mod"):  # the block mask of flex attention
        from torch.nn.attention.flex_attention import create_mask

        sizes = (len(query), 1, query.shape[2], key.shape[2])
        mask = create_mask(mask.mask_mod, *sizes, device=str(query.device))
    elif mask is not None and not isinstance(mask, Tensor):
        raise CaptureError(f"{where} was given a mask of unknown type, {type(mask).__name__}.")
    # Eager attention always gets the mask it needs. Fused kernels apply causality themselves and
    # get no mask where there is nothing else to hide.
    causal = False
    if mask is None and implementation != "eager" and query.shape[2] > 1:
        told = options.get("is_causal")
        causal = bool(getattr(module, "is_causal", True) if told is None else told)
    bias, scale = options.get("position_bias"), options.get("scaling")
    if bias is not None and mask is not None and mask.dtype == torch.bool:
        mask = torch.where(mask, bias, torch.finfo(bias.dtype).min)
    elif bias is not None:
        mask = bias if mask is None else mask + bias
    scale = query.shape[-1] ** -0.5 if scale is None else float(scale)
    window, softcap = options.get("sliding_window"), options.get("softcap")
    return Call(query, key, value, scale, mask, causal, window, padding, softcap)
