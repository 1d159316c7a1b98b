"""One call of attention: queries, keys and what hides some keys, as each library states it.

B examples, H heads, K key heads (grouped queries share keys), Q asked rows, T positions, d size.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grokscope.errors import GrokscopeError


class CaptureError(GrokscopeError, RuntimeError):
    """Attention that cannot be read, or that is not what it should be."""


@dataclass(frozen=True)
class Call:
    """What is needed to compute the weights of one attention call."""

    query: Tensor  # (B, H, T, d)
    key: Tensor  # (B, K, T, d)
    scale: float
    mask: Tensor | None = None  # (B or 1, H or 1, T, T): bool, true is seen; or added to scores
    causal: bool = False
    window: int | None = None  # a causal row sees this many positions, itself among them
    padding: Tensor | None = None  # (B, T), zero where a key is padding
    softcap: float | None = None

    def weights(self, rows: Tensor | None = None) -> Tensor:  # rows (B, Q) -> (B, H, Q, T)
        """softmax(scale <q, k> + mask) in float32, or wider; a row that sees nothing is zero.

        The one formula for both uses: the rows of a prior within the user's own forward, and all
        rows of a probe."""
        wide = torch.promote_types(self.query.dtype, torch.float32)
        query, key = self.query.to(wide), self.key.to(wide)
        heads, shared = query.shape[1], key.shape[1]
        if heads % shared:
            raise CaptureError(f"{heads} query heads cannot share {shared} key heads.")
        if shared != heads:
            key = key.repeat_interleave(heads // shared, dim=1)
        length = query.shape[2]
        place = torch.arange(length, device=query.device).expand(len(query), length)
        if rows is not None:
            place = rows
            query = _take(query, rows)
        with torch.autocast(query.device.type, enabled=False):
            scores = query @ key.transpose(-1, -2) * self.scale
        if self.softcap is not None:
            scores = torch.tanh(scores / self.softcap) * self.softcap
        seen = self._visible(place, key.shape[2])
        if self.mask is not None:
            mask = self.mask.expand(len(query), -1, -1, -1)
            mask = mask if rows is None else _take(mask.expand(-1, -1, length, -1), rows)
            if mask.dtype == torch.bool:
                seen = mask if seen is None else seen & mask
            else:
                scores = scores + mask.to(wide)
        if seen is None:
            return torch.softmax(scores, dim=-1)
        any_seen = seen.any(dim=-1, keepdim=True)
        weights = torch.softmax(scores.masked_fill(~seen & any_seen, -torch.inf), dim=-1)
        return weights * any_seen

    def _visible(self, place: Tensor, keys: int) -> Tensor | None:  # (B, Q) -> (B, 1, Q, T)
        """Which keys a row sees by causality, window and padding; None if it is all of them."""
        if not self.causal and self.padding is None:
            return None
        at = torch.arange(keys, device=place.device)
        seen = torch.ones(*place.shape, keys, dtype=torch.bool, device=place.device)
        if self.causal:
            seen = at <= place[..., None]
            if self.window is not None:
                seen = seen & (at > place[..., None] - self.window)
        if self.padding is not None:
            seen = seen & self.padding.bool()[:, None, :]
        return seen[:, None]


def _take(tensor: Tensor, rows: Tensor) -> Tensor:  # (B, H, T, n), (B, Q) -> (B, H, Q, n)
    index = rows[:, None, :, None].expand(-1, tensor.shape[1], -1, tensor.shape[3])
    return torch.gather(tensor, 2, index)


def from_sdpa(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Call:
    """A call of torch.nn.functional.scaled_dot_product_attention."""
    if query.dim() != 4:
        raise CaptureError(
            f"scaled_dot_product_attention was called with queries of shape {tuple(query.shape)}; "
            "only (batch, heads, positions, size) can be read. Name the module with ReadModule."
        )
    if attn_mask is not None:
        attn_mask = attn_mask[(None,) * (4 - attn_mask.dim())]
    return Call(query, key, scale or query.shape[-1] ** -0.5, attn_mask, is_causal)


def from_transformers(
    implementation: str,
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    mask: Any,
    options: dict[str, Any],
) -> Call:
    """A call of an attention function of Hugging Face transformers."""
    where = f"{type(module).__name__} (attention {implementation!r})"
    if options.get("s_aux") is not None or getattr(module, "sinks", None) is not None:
        raise CaptureError(
            f"{where} gives part of its attention to a learnt sink, so its weights on positions do "
            "not sum to one; grokscope cannot read that."
        )
    if options.get("cu_seq_lens_q") is not None:
        raise CaptureError(
            f"{where} was given packed sequences; give the probe one sequence a row."
        )
    scale = options.get("scaling")
    scale = query.shape[-1] ** -0.5 if scale is None else float(scale)
    softcap, bias = options.get("softcap"), options.get("position_bias")
    length, padding = query.shape[2], None
    # Eager attention gets a mask whenever it needs one; the fused kernels know causality
    # themselves, and are given none where causality is all there is.
    hidden = None if mask is None or (isinstance(mask, Tensor) and mask.dim() == 2) else mask
    causal = False
    if hidden is None and implementation != "eager":
        told = options.get("is_causal")
        causal = bool(getattr(module, "is_causal", True) if told is None else told) and length > 1
    if isinstance(mask, Tensor) and mask.dim() == 2:
        padding = mask
    if hidden is not None and not isinstance(hidden, Tensor):
        hidden = _materialise(hidden, query, key, where)
    if bias is not None:
        if hidden is not None and hidden.dtype == torch.bool:
            hidden = torch.where(hidden, bias, torch.finfo(bias.dtype).min)
        else:
            hidden = bias if hidden is None else hidden + bias
    window = options.get("sliding_window") if causal else None
    return Call(query, key, scale, hidden, causal, window, padding, softcap)


def _materialise(mask: Any, query: Tensor, key: Tensor, where: str) -> Tensor:
    """The block mask of flex attention as a plain one."""
    from torch.nn.attention.flex_attention import BlockMask, create_mask

    if not isinstance(mask, BlockMask):
        raise CaptureError(f"{where} was given a mask of type {type(mask).__name__}, unknown here.")
    sizes = (len(query), 1, query.shape[2], key.shape[2])
    return create_mask(mask.mask_mod, *sizes, device=str(query.device))


_MULTIHEAD = inspect.signature(F.multi_head_attention_forward)


def bind_multihead(args: Any, kwargs: Any) -> dict[str, Any]:
    """Arguments of torch.nn.functional.multi_head_attention_forward by name."""
    bound = _MULTIHEAD.bind(*args, **kwargs)
    bound.apply_defaults()
    given = dict(bound.arguments)
    for name in ("bias_k", "bias_v", "static_k", "static_v"):
        if given[name] is not None:
            raise CaptureError(f"nn.MultiheadAttention with {name} adds a key; grokscope cannot.")
    if given["add_zero_attn"]:
        raise CaptureError("nn.MultiheadAttention with add_zero_attn adds a key; grokscope cannot.")
    return given


def from_multihead(given: dict[str, Any]) -> tuple[Call, Tensor]:
    """A call of nn.MultiheadAttention: queries and keys through its own projections, and its
    values (B, H, T, d)."""
    given_sides = [given[name] for name in ("query", "key", "value")]  # (T, B, E) or (T, E)
    width, heads = given["query"].shape[-1], given["num_heads"]
    if given["use_separate_proj_weight"]:
        matrices = [given[f"{name}_proj_weight"] for name in "qkv"]
    else:
        matrices = given["in_proj_weight"].chunk(3)
    biases = (None,) * 3 if given["in_proj_bias"] is None else given["in_proj_bias"].chunk(3)
    sides = []
    for side, weight, bias in zip(given_sides, matrices, biases, strict=True):
        made = F.linear(side if side.dim() == 3 else side[:, None], weight, bias)  # (T, B, E)
        sides.append(made.unflatten(-1, (heads, width // heads)).permute(1, 2, 0, 3))
    mask = given["attn_mask"]
    if mask is not None:
        mask = mask[None] if mask.dim() == 2 else mask.unflatten(0, (-1, heads))
        mask = mask[None] if mask.dim() == 3 else mask
        mask = ~mask if mask.dtype == torch.bool else mask  # there, true means hidden
    padding = given["key_padding_mask"]
    if padding is not None:
        padding = padding[None] if padding.dim() == 1 else padding
        if padding.dtype == torch.bool:
            padding = ~padding
        else:  # added to the scores, as a mask may be
            added = padding[:, None, None, :]
            if mask is not None and mask.dtype == torch.bool:
                mask = torch.zeros_like(mask, dtype=added.dtype).masked_fill(~mask, -torch.inf)
            mask, padding = added if mask is None else mask + added, None
    scale = (width // heads) ** -0.5
    return Call(sides[0], sides[1], scale, mask, padding=padding), sides[2]
