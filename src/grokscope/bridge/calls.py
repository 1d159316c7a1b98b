"""One attention call: its weights, computed from the queries and keys that go in, and the proof
that they are the model's own.

Fused kernels never return their weights. What they return is compared, at the rows that are read,
with what our weights give for the same values.

B examples, H heads, K key heads (grouped queries share keys), Q chosen rows, T positions, d size.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from grokscope.errors import GrokscopeError

POSITIONAL = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")  # of SDPA
CLOSE = 1e-5  # of the largest value, between an attention output of the model and ours
UNSEEN = 5e3  # a score so far below the largest of its row is a mask; exp(-5000) is 0 anyway


class CaptureError(GrokscopeError, RuntimeError):
    """Attention that cannot be read, or is not what it should be."""


@dataclass(frozen=True)
class Call:
    """What went into an attention call, from which the weights of any row can be computed."""

    query: Tensor  # (B, H, T, d)
    key: Tensor  # (B, K, T, d)
    value: Tensor  # (B, K, T, d)
    scale: float
    mask: Tensor | None = None  # (B or 1, H or 1, T, T): bool, true is seen; or added to scores
    causal: bool = False
    window: int | None = None  # a causal row sees this many positions, including its own
    padding: Tensor | None = None  # (B, T), zero where a key is padding
    softcap: float | None = None
    autocast: torch.dtype | None = None  # the mixed precision in which it is made

    def precision(self) -> torch.autocast:
        """The precision in which the call is made, whatever it is now."""
        on = self.autocast is not None
        return torch.autocast(self.query.device.type, self.autocast, enabled=on)

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Examples, heads, queries, keys."""
        return (*self.query.shape[:3], self.key.shape[2])

    def scores(self, rows: Tensor | None = None) -> Tensor:  # (B, Q) -> (B, H, Q, T)
        """scale <q, k> + mask of the chosen rows, or of all, in float32 or wider; -inf where
        nothing is seen."""
        wide = torch.promote_types(self.query.dtype, torch.float32)
        query, key = self.query.to(wide), _share(self.key.to(wide), self.query.shape[1])
        size, _, length, _ = query.shape
        with torch.autocast(query.device.type, enabled=False):
            scores = take_rows(query, rows) @ key.transpose(-1, -2) * self.scale
        if self.softcap is not None:
            scores = torch.tanh(scores / self.softcap) * self.softcap
        at = torch.arange(key.shape[2], device=key.device)
        place = torch.arange(length, device=key.device)[None] if rows is None else rows
        seen = torch.ones_like(place[:, None, :, None], dtype=torch.bool)  # (B or 1, 1, Q, 1)
        if self.causal:
            seen = at <= place[:, None, :, None]
            if self.window is not None:
                seen = seen & (at > place[:, None, :, None] - self.window)
        if self.padding is not None:  # a row that is padding sees nothing: kernels leave it out
            kept = self.padding.bool()
            seen = seen & kept[:, None, None, :]
            if kept.shape[1] == length:
                seen = seen & kept.gather(1, place.expand(size, -1))[:, None, :, None]
        if self.mask is not None:
            mask = take_rows(self.mask.expand(size, -1, length, -1), rows)
            if mask.dtype != torch.bool:
                scores, mask = scores + mask.to(wide), mask > -torch.inf
            seen = seen & mask
        return scores.masked_fill(~seen, -torch.inf)

    def mix(self, weights: Tensor) -> Tensor:  # (B, H, Q, T) -> (B, H, Q, d)
        """The output of attention with these weights."""
        return weights.to(self.value.dtype) @ _share(self.value, weights.shape[1])


def normalise(scores: Tensor) -> Tensor:  # (..., T)
    """Softmax; a row that sees nothing is zero."""
    seen = (scores > -torch.inf).any(dim=-1, keepdim=True)
    return torch.softmax(scores.masked_fill(~seen, 0.0), dim=-1) * seen


def find_hidden(scores: Tensor) -> Tensor:  # (..., T) -> (..., T)
    """Where a mask, however it is written (-inf, -1e10, the least float), keeps a row from
    looking. A weight that is merely small is not hidden."""
    scores = scores.detach().float()
    return (scores.amax(dim=-1, keepdim=True) - scores > UNSEEN) | (scores == -torch.inf)


def cast(value: Any, kind: torch.dtype | None) -> Any:
    """Fractional numbers in the given kind; all else, and without one, as it is."""
    fits = kind is not None and isinstance(value, Tensor) and value.dtype.is_floating_point
    return value.to(kind) if fits else value


def take_rows(tensor: Tensor, rows: Tensor | None) -> Tensor:  # (B, H, T, n), (B, Q)
    return tensor if rows is None else torch.gather(tensor, 2, _index(tensor, rows))


def put_rows(tensor: Tensor, rows: Tensor, values: Tensor) -> Tensor:
    """(B, H, T, n) with (B, H, Q, n) at rows (B, Q)."""
    return tensor.scatter(2, _index(tensor, rows), values.to(tensor.dtype))


def _index(tensor: Tensor, rows: Tensor) -> Tensor:
    return rows[:, None, :, None].expand(-1, tensor.shape[1], -1, tensor.shape[3])


def _share(tensor: Tensor, heads: int) -> Tensor:  # (B, K, T, d) -> (B, H, T, d)
    """Keys or values repeated for the query heads that share them."""
    shared = tensor.shape[1]
    if heads % shared:
        raise CaptureError(f"{heads} query heads cannot share {shared} key heads.")
    return tensor if heads == shared else tensor.repeat_interleave(heads // shared, dim=1)


def prove(call: Call, own: Callable[..., Tensor], rows: Tensor | None, name: str) -> Tensor:
    """The model's own output (B, H, T, d), once it is proven at the rows (B, Q) that our weights
    give the same.

    `own(values, kind)` is the model's own computation without dropout, of numbers of that kind.
    Half precision would hide what is wrong with large scores, and values that are nearly equal at
    all positions would prove nothing, so made-up ones are sent through it in float32 as well; where
    the kernel refuses that, in the model's own precision."""
    wide = torch.promote_types(call.query.dtype, torch.float32)
    device = call.value.device
    with call.precision():
        output = own(call.value)
    with torch.no_grad():
        scores = call.scores(rows)
        weights = normalise(scores)
        sees = weights.sum(dim=-1, keepdim=True) > 0
        spread = torch.where(find_hidden(scores), 0.0, scores).abs().max().item()
        place = torch.arange(call.value[0, 0].numel(), device=device, dtype=torch.float32)
        made = torch.cos(1.7 * place**1.5).view_as(call.value[0, 0]).to(wide)
        made = made.expand_as(call.value).contiguous()
        coarse = max(_rounding(call.query.dtype), _rounding(call.autocast or wide))
        exact, rounding = None, _rounding(wide)
        with contextlib.suppress(Exception), torch.autocast(device.type, enabled=False):
            exact = own(made, wide)
        if exact is None or exact.dtype != wide:
            made, rounding = made.to(call.value.dtype), coarse
            with call.precision():
                exact = own(made)
        for values, theirs, eps in ((call.value, output, coarse), (made, exact, rounding)):
            with torch.autocast(device.type, enabled=False):
                ours = (weights.to(values.dtype) @ _share(values, weights.shape[1])).float()
            size = values.abs().max().item()
            allowed = (max(CLOSE, 4 * eps) + 4 * eps * spread) * max(size, 1e-30)
            apart = torch.where(sees, take_rows(theirs, rows).float() - ours, 0.0).abs().max()
            if apart > allowed:  # nan is the loss's matter
                raise CaptureError(
                    f"The attention read in {name} is not the model's own: with it the output of "
                    f"that call differs by {apart:.2g} (values up to {size:.2g}, {allowed:.1g} "
                    "allowed). Something else than softmax(scale q k + mask) happens there; name "
                    "other layers, or reach the weights with attention=ReadModule."
                )
    return output


def _rounding(kind: torch.dtype) -> float:
    """How coarsely products are computed: half precision and TF32 where they are switched on."""
    fast = {"highest": 0.0, "high": 2.0**-10, "medium": 2.0**-7}
    given = torch.finfo(kind).eps
    return max(given, fast[torch.get_float32_matmul_precision()] * (kind == torch.float32))


def find_autocast(device: torch.device) -> torch.dtype | None:
    """The type of the mixed precision around us, if any."""
    on = torch.is_autocast_enabled(device.type)
    return torch.get_autocast_dtype(device.type) if on else None


def from_sdpa(given: dict[str, Any]) -> Call:
    """A call of torch.nn.functional.scaled_dot_product_attention, from its arguments by name.
    Queries without an axis for heads have one."""
    parts = [given[name] for name in ("query", "key", "value")]
    mask = given.get("attn_mask")
    if any(part.dim() not in (3, 4) or part.is_nested for part in parts):
        raise CaptureError(
            "scaled_dot_product_attention was called with queries of shape "
            f"{tuple(parts[0].shape) if not parts[0].is_nested else 'nested'}; only (batch, heads, "
            "positions, size) can be read. Name the module with ReadModule."
        )
    if parts[0].dim() == 3:
        parts = [part[:, None] for part in parts]
        mask = mask[:, None] if mask is not None and mask.dim() == 3 else mask
    if mask is not None:
        mask = mask[(None,) * (4 - mask.dim())]
    scale = given.get("scale")
    scale = parts[0].shape[-1] ** -0.5 if scale is None else float(scale)
    query, key, value = parts
    causal, autocast = bool(given.get("is_causal", False)), find_autocast(query.device)
    return Call(query, key, value, scale, mask, causal, autocast=autocast)


def from_transformers(implementation: str, given: tuple[Any, ...], options: dict[str, Any]) -> Call:
    """A call of an attention function of Hugging Face transformers."""
    if len(given) == 4:  # some models give the mask by name
        given = (*given, options.get("attention_mask"))
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
    autocast = find_autocast(query.device)
    return Call(query, key, value, scale, mask, causal, window, padding, softcap, autocast)
