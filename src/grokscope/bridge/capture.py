"""How the attention of a model is reached without changing the model.

While a `Recorder` is open, it watches the three doors that nearly every transformer goes through:

- torch.nn.functional.scaled_dot_product_attention (nanoGPT, timm, most hand-written models);
- torch.nn.functional.multi_head_attention_forward (torch.nn.MultiheadAttention);
- the attention interface of Hugging Face transformers, whichever implementation is configured.

Fused kernels never return their weights, so weights are computed from the queries and keys that go
in. A module that computes attention by hand is reached with `ReadModule`.

B examples, H heads, K key heads (grouped queries share keys), Q chosen rows, T positions, d size.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Literal
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from grokscope.errors import GrokscopeError

Mode = Literal["watch", "explicit"]
SDPA, MULTIHEAD = F.scaled_dot_product_attention, F.multi_head_attention_forward
POSITIONAL = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")  # of SDPA
SAME_TOLERANCE = 2e-3  # relative, between an attention output of the model and ours


class CaptureError(GrokscopeError, RuntimeError):
    """Attention that cannot be read, or is not what it should be."""


@dataclass(frozen=True)
class Call:
    """An attention call, from which its weights can be computed unless they are `known`."""

    query: Tensor  # (B, H, T, d)
    key: Tensor  # (B, K, T, d)
    value: Tensor  # (B, K, T, d)
    scale: float
    mask: Tensor | None = None  # (B or 1, H or 1, T, T): bool, true is seen; or added to scores
    causal: bool = False
    window: int | None = None  # a causal row sees this many positions, including its own
    padding: Tensor | None = None  # (B, T), zero where a key is padding
    softcap: float | None = None
    known: Tensor | None = None  # (B, H, T, T)

    def weights(self, rows: Tensor | None = None) -> Tensor:  # (B, Q) -> (B, H, Q, T)
        """softmax(scale <q, k> + mask) of the chosen rows, or of all, in float32 or wider. A row
        that sees nothing is zero."""
        if self.known is not None:
            return take_rows(self.known, rows)
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


@dataclass(frozen=True)
class ReadModule:
    """Attention weights from a module of your own: `function(module, inputs, output)` is called
    after each forward of the modules whose dotted name ends in `name`, and returns the weights
    (B, H, T, T), or (B, T, T) for one head."""

    name: str
    function: Callable[[nn.Module, tuple[Any, ...], Any], Tensor]


class Recorder(TorchFunctionMode):
    """Records every attention call while it is open.

    `watch` leaves the computation as it is and keeps queries and keys, from which single rows can
    be computed, with gradients, in the user's own training step. `explicit`, for probes, computes
    the output from weights that stay in the graph, so that a loss can be differentiated with
    respect to them. `verify` compares each output with that of the model's own kernel.
    """

    def __init__(
        self, model: nn.Module, mode: Mode, read: ReadModule | None = None, verify: bool = False
    ) -> None:
        super().__init__()
        self.model, self.mode, self.read, self.verify = model, mode, read, verify
        self.calls: list[Call] = []
        self._inside = False
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Recorder:
        self.calls = []
        if self.read is not None:
            self._hook(self.read)
        else:
            self._patch_transformers()
            super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self.read is None:
            super().__exit__(*error)
        self._stack.close()

    def chosen(self, layers: Sequence[int] | None = None) -> list[Call]:
        """The recorded calls, all or those with the given numbers."""
        if not self.calls:
            raise CaptureError(
                f"No attention was seen in a forward of {type(self.model).__name__}. If it uses "
                "neither scaled_dot_product_attention nor nn.MultiheadAttention nor the interface "
                "of transformers, reach it with attention=ReadModule(name, function)."
            )
        return self.calls if layers is None else choose(self.calls, layers, "Layer")

    def weights(self, layers: Sequence[int] | None = None) -> list[Tensor]:  # (B, H, T, T) each
        return [call.weights() for call in self.chosen(layers)]

    # The doors

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not self._inside and func is SDPA:
            return self._sdpa(*args, **kwargs)
        if not self._inside and func is MULTIHEAD:
            return self._multihead(args, kwargs)
        return func(*args, **kwargs)

    def _attend(
        self, call: Call, own: Callable, quiet: dict[str, float], finish: Callable[[Tensor], Any]
    ) -> Any:
        """Record a call. `own()` is the model's own computation, `own(**quiet)` the same without
        dropout, and `finish` gives an output (B, H, T, d) the form of its result."""
        self._inside = True  # a kernel may go through another door
        try:
            if self.verify:
                with torch.no_grad():
                    check_same(own(**quiet), finish(call.mix(call.weights())), call.padding)
            if self.mode == "watch":
                self.calls.append(call)
                return own()
        finally:
            self._inside = False
        weights = call.weights()
        if not weights.requires_grad and torch.is_grad_enabled():
            weights.requires_grad_()
        self.calls.append(replace(call, known=weights))
        return finish(call.mix(weights))

    def _sdpa(self, *args: Any, **kwargs: Any) -> Tensor:
        given = dict(zip(POSITIONAL, args, strict=False)) | kwargs
        call, own = from_sdpa(given), partial(SDPA, **given)
        return self._attend(call, own, {"dropout_p": 0.0}, lambda mixed: mixed)

    def _multihead(self, args: Any, kwargs: Any) -> tuple[Tensor, Tensor | None]:
        """Without `need_weights` it goes through SDPA. With it, the weights that it returns are a
        copy that its output does not depend on."""
        bound = inspect.signature(MULTIHEAD).bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        wanted, watched = given["need_weights"], self.mode == "watch"
        for name in ("bias_k", "bias_v", "static_k", "static_v", "add_zero_attn"):
            if given[name] is not None and given[name] is not False:
                raise CaptureError(
                    f"nn.MultiheadAttention with {name} has keys that belong to no position of the "
                    "sequence; grokscope cannot read it."
                )
        if wanted:
            given |= {"need_weights": False, "training": given["training"] and not watched}
        with mock.patch.object(F, "scaled_dot_product_attention", self._sdpa):
            output, _ = MULTIHEAD(**given)
        if not wanted:
            return output, None
        if watched:
            return MULTIHEAD(*args, **kwargs)
        weights = self.calls[-1].weights()  # (B, H, T, T)
        weights = weights if given["query"].dim() == 3 else weights[0]
        return output, weights.mean(dim=-3) if given["average_attn_weights"] else weights

    def _patch_transformers(self) -> None:
        if "transformers.modeling_utils" not in sys.modules:
            return
        from transformers.modeling_utils import AttentionInterface

        original = AttentionInterface.get_interface

        def finish(mixed: Tensor) -> tuple[Tensor, None]:
            return mixed.transpose(1, 2).contiguous(), None

        def get_interface(registry: Any, implementation: str, default: Callable) -> Callable:
            function = original(registry, implementation, default)

            def attend(*given: Any, **options: Any) -> tuple[Tensor, Tensor | None]:
                call = from_transformers(implementation, given, options)
                own = partial(function, *given, **options)
                return self._attend(call, own, {"dropout": 0.0}, finish)

            return attend

        patch = mock.patch.object(AttentionInterface, "get_interface", get_interface)
        self._stack.enter_context(patch)

    def _hook(self, read: ReadModule) -> None:
        found = [m for n, m in self.model.named_modules() if f".{n}".endswith(f".{read.name}")]
        if not found:
            raise CaptureError(f"No module of the model has a name that ends in {read.name!r}.")

        def after(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
            weights = read.function(module, inputs, output)
            if not isinstance(weights, Tensor) or weights.dim() not in (3, 4):
                what = getattr(weights, "shape", type(weights).__name__)
                raise CaptureError(
                    f"ReadModule({read.name!r}) returned {what}; it must return weights of shape "
                    "(batch, heads, positions, positions)."
                )
            weights = weights if weights.dim() == 4 else weights[:, None]
            self.calls.append(Call(weights, weights, weights, 1.0, known=weights))  # of its shape

        for module in found:
            self._stack.callback(module.register_forward_hook(after).remove)


def choose(items: Sequence[Any], numbers: Sequence[int], kind: str) -> list[Any]:
    count = len(items)
    for number in numbers:
        if not -count <= number < count:
            raise CaptureError(f"{kind} {number} was asked for, but there are {count}, from 0.")
    return [items[number] for number in numbers]


def check_same(own: Any, ours: Any, padding: Tensor | None = None) -> None:
    """Compare the output of an attention call with the one that the captured weights give."""
    own, ours = (out[0] if isinstance(out, tuple) else out for out in (own, ours))
    if padding is not None:  # (B, T): flash attention leaves out the rows that are padding
        own, ours = own[padding.bool()], ours[padding.bool()]
    size, apart = own.float().abs().max().item(), (own.float() - ours.float()).abs().max().item()
    coarse = torch.finfo(own.dtype).eps ** 0.5 / 3e-4  # 1 in float32
    if apart > SAME_TOLERANCE * max(coarse, 1.0) * max(size, 1e-3):
        raise CaptureError(
            "The captured attention is not the model's own: with it the output differs by "
            f"{apart:.2g} (values up to {size:.2g}). Reach it with attention=ReadModule."
        )


def read_attention(
    model: nn.Module, forward: Callable[[nn.Module], Any], read: ReadModule | None = None
) -> list[Tensor]:
    """Weights (B, H, T, T) of every attention call of `forward(model)`, in float32 and without
    dropout. They are checked to be the model's own: its output with them must be the same."""
    model = unwrap(model)
    recorder = Recorder(model, "explicit", read, verify=True)
    with undisturbed(model), torch.no_grad(), recorder:
        forward(model)
    return recorder.weights()


def unwrap(model: nn.Module) -> nn.Module:
    """The module inside torch.compile and data parallelism."""
    if hasattr(model, "_orig_mod"):
        return unwrap(model._orig_mod)
    parallel = isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel)
    return unwrap(model.module) if parallel else model


def is_compiled(model: nn.Module) -> bool:
    """Whether a forward would run compiled code, in which nothing can be recorded."""
    parts = any(module._compiled_call_impl is not None for module in model.modules())
    return parts or hasattr(model, "_orig_mod")


def find_device(model: nn.Module) -> torch.device:
    return next(chain(model.parameters(), model.buffers(), [torch.empty(0)])).device


@contextlib.contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode and uncompiled. Afterwards its modes and the random numbers are
    as before, so that training continues as if it had not been interrupted."""
    modes = [(module, module.training) for module in model.modules()]
    device = find_device(model)
    forked = torch.random.fork_rng([device] if device.type == "cuda" else [])
    with forked, torch.compiler.set_stance("force_eager"):
        model.eval()
        try:
            yield
        finally:
            for module, mode in modes:
                module.training = mode
