"""How the attention of a model is reached, without changing the model.

While a `Recorder` is open, three doors are watched through which nearly every transformer goes:

- torch.nn.functional.scaled_dot_product_attention (nanoGPT, timm, most hand-written models);
- torch.nn.functional.multi_head_attention_forward (torch.nn.MultiheadAttention);
- the attention interface of Hugging Face transformers, whichever implementation is configured.

Fused kernels never return their weights, so weights are computed from the queries and keys that go
in. A module that computes attention by hand is reached with `ReadModule`.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from grokscope.bridge.calls import (
    Call,
    CaptureError,
    bind_multihead,
    from_multihead,
    from_sdpa,
    from_transformers,
)

__all__ = ["CaptureError", "ReadModule", "Recorder", "read_attention"]

SUM_TOLERANCE = 2e-3  # of a row of probabilities; half precision rounds to a thousandth
SAME_TOLERANCE = 2e-3  # relative, between the model's logits with its own attention and with ours


@dataclass(frozen=True)
class ReadModule:
    """Attention weights from a module of your own: `function(module, inputs, output)` is called
    after each forward of the modules whose dotted name ends in `name`, and returns the weights
    (B, H, T, T), or (B, T, T) for one head."""

    name: str
    function: Callable[[nn.Module, tuple[Any, ...], Any], Tensor]


class Recorder(TorchFunctionMode):
    """Records every attention call while it is open.

    `watch` keeps queries and keys and leaves the computation as it is; weights of single rows can
    be had from them, with gradients, within the user's own training step. `explicit` computes the
    output from weights that are kept in the graph, so that a loss can be differentiated with
    respect to each of them: for probes only.
    """

    def __init__(
        self,
        model: nn.Module,
        mode: Literal["watch", "explicit"],
        read: ReadModule | None = None,
        verify: bool = False,
    ) -> None:
        super().__init__()
        self.verify = verify  # hold every watched call against the kernel's own result
        self.model = model
        self.mode = mode
        self.read = read
        self.calls: list[Call | Tensor] = []
        self._inside = False
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Recorder:
        self.calls = []
        if self.read is not None:
            self._hook(self.read)
            return self
        self._patch_transformers()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self.read is None:
            super().__exit__(*error)
        self._stack.close()

    def weights(self, layers: Sequence[int] | None = None, rows: Tensor | None = None) -> list[Any]:
        """Weights (B, H, Q, T) of each chosen call, of all rows or of the named ones (B, Q)."""
        found = []
        for layer in range(max(len(self.calls), 1)) if layers is None else layers:
            call = self._find(layer)
            if isinstance(call, Call):
                found.append(call.weights(rows))
            elif rows is None:
                found.append(call)
            else:
                index = rows[:, None, :, None].expand(-1, call.shape[1], -1, call.shape[3])
                found.append(torch.gather(call, 2, index))
        return found

    def size(self, layers: Sequence[int] | None = None) -> tuple[int, int]:
        """Examples, and positions that could ask."""
        call = self._find(0 if layers is None else layers[0])
        shape = call.query.shape if isinstance(call, Call) else call.shape
        return shape[0], shape[2]

    def _find(self, layer: int) -> Call | Tensor:
        if not self.calls:
            raise CaptureError(
                f"No attention was seen in a forward of {type(self.model).__name__}. Its attention "
                "is not computed by scaled_dot_product_attention, nn.MultiheadAttention or the "
                "interface of transformers, or it has none; reach it with "
                "attention=ReadModule(name, function)."
            )
        if not -len(self.calls) <= layer < len(self.calls):
            raise CaptureError(
                f"Layer {layer} was asked for, but the model has {len(self.calls)} attention "
                f"calls, 0 to {len(self.calls) - 1}."
            )
        return self.calls[layer]

    # The doors

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._inside:
            return func(*args, **kwargs)
        if func is F.scaled_dot_product_attention:
            return self._sdpa(args, kwargs)
        if func is F.multi_head_attention_forward:
            return self._multihead(args, kwargs)
        return func(*args, **kwargs)

    def _sdpa(self, args: Any, kwargs: Any) -> Tensor:
        call = from_sdpa(*args, **kwargs)
        given = dict(zip(("query", "key", "value", "attn_mask", "dropout_p"), args, strict=False))
        given |= kwargs | {"is_causal": call.causal}
        if self.mode == "explicit":
            return self._mix(call, given["value"])
        self.calls.append(call)
        if self.verify:
            with torch.no_grad():
                own = F.scaled_dot_product_attention(**{**given, "dropout_p": 0.0})
                check_same(own, _combine(call.weights(), given["value"]))
        return F.scaled_dot_product_attention(*args, **kwargs)

    def _multihead(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        given = bind_multihead(args, kwargs)
        call, value = from_multihead(given)
        if self.mode == "watch":
            self.calls.append(call)
            if self.verify:
                shown = {"need_weights": True, "average_attn_weights": False, "is_causal": False}
                with torch.no_grad():
                    still = {**given, **shown, "training": False}
                    check_same(F.multi_head_attention_forward(**still)[1], call.weights())
            return F.multi_head_attention_forward(*args, **kwargs)
        # The weights that the function itself returns are a copy that its output does not depend
        # on: a loss has no gradient with respect to them.
        mixed = self._mix(call, value).permute(2, 0, 1, 3).flatten(2)  # (T, B, E)
        output = F.linear(mixed, given["out_proj_weight"], given["out_proj_bias"])
        weights: Any = self.calls[-1]
        if given["query"].dim() == 2:
            output, weights = output[:, 0], weights[0]
        if not given["need_weights"]:
            return output, None
        return output, weights.mean(dim=-3) if given["average_attn_weights"] else weights

    def _mix(self, call: Call, value: Tensor) -> Tensor:  # value (B, K, T, d) -> (B, H, T, d)
        """The output of attention from weights that stay in the graph."""
        weights = call.weights()
        if not weights.requires_grad and torch.is_grad_enabled():
            weights.requires_grad_()
        self.calls.append(weights)
        return _combine(weights, value)

    def _patch_transformers(self) -> None:
        if "transformers.modeling_utils" not in sys.modules:
            return
        from transformers.modeling_utils import AttentionInterface

        original = AttentionInterface.get_interface

        def get_interface(registry: Any, implementation: str, default: Callable) -> Callable:
            function = original(registry, implementation, default)

            def attend(
                module: nn.Module,
                query: Tensor,
                key: Tensor,
                value: Tensor,
                mask: Any,
                **options: Any,
            ) -> tuple[Tensor, Tensor | None]:
                call = from_transformers(implementation, module, query, key, mask, options)
                if self.mode == "explicit":
                    output = self._mix(call, value)
                    return output.transpose(1, 2).contiguous(), None
                self.calls.append(call)
                self._inside = True  # the kernel below goes through another door
                try:
                    if self.verify:
                        with torch.no_grad():
                            still = {**options, "dropout": 0.0}
                            own = function(module, query, key, value, mask, **still)[0]
                            ours = _combine(call.weights(), value).transpose(1, 2)
                            check_same(own, ours)
                    return function(module, query, key, value, mask, **options)
                finally:
                    self._inside = False

            return attend

        AttentionInterface.get_interface = get_interface
        self._stack.callback(setattr, AttentionInterface, "get_interface", original)

    def _hook(self, read: ReadModule) -> None:
        named = dict(self.model.named_modules())
        found = [m for n, m in named.items() if n == read.name or n.endswith(f".{read.name}")]
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
            self.calls.append(weights if weights.dim() == 4 else weights[:, None])

        for module in found:
            self._stack.callback(module.register_forward_hook(after).remove)


def _combine(weights: Tensor, value: Tensor) -> Tensor:  # (B, H, T, T), (B, K, T, d)
    heads, shared = weights.shape[1], value.shape[1]
    if heads != shared:
        value = value.repeat_interleave(heads // shared, dim=1)
    return weights.to(value.dtype) @ value


def check_rows(weights: Tensor) -> None:  # (B, H, Q, T)
    """Attention must be finite, not negative, and sum to one."""
    weights = weights.detach()
    if not torch.isfinite(weights).all():
        raise CaptureError(
            "Attention at the query has values that are not finite; the model's weights or its "
            "inputs are broken, or its scores overflow."
        )
    total = weights.sum(dim=-1)
    worst = total.flatten()[(total - 1).abs().argmax()].item()
    if abs(worst - 1) > SUM_TOLERANCE or weights.min() < -SUM_TOLERANCE:
        raise CaptureError(
            f"Attention at the query sums to {worst:.4g} in some row, not to one: it is not a "
            "distribution over positions. If the query is padding, name other positions; if a "
            "ReadModule gives the weights, let it return them after softmax and before dropout."
        )


def unwrap(model: nn.Module) -> nn.Module:
    """The module itself, out of torch.compile and of data parallelism."""
    while True:
        if hasattr(model, "_orig_mod"):
            model = model._orig_mod
        elif isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
            model = model.module
        else:
            return model


def is_compiled(model: nn.Module) -> bool:
    """Whether a forward would run compiled code, in which nothing can be recorded."""
    return hasattr(model, "_orig_mod") or any(
        module._compiled_call_impl is not None for module in model.modules()
    )


def find_device(model: nn.Module) -> torch.device:
    tensor = next(model.parameters(), next(model.buffers(), None))
    return torch.device("cpu") if tensor is None else tensor.device


@contextlib.contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode and uncompiled; afterwards its modes and the random numbers are
    as they were, so that training goes on as if nobody had looked."""
    modes = [(module, module.training) for module in model.modules()]
    device = find_device(model)
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices), torch.compiler.set_stance("force_eager"):
        model.eval()
        try:
            yield
        finally:
            for module, mode in modes:
                module.training = mode


def read_attention(
    model: nn.Module,
    forward: Callable[[nn.Module], Any],
    read: ReadModule | None = None,
) -> list[Tensor]:
    """Weights (B, H, T, T) of every attention call of `forward(model)`, in float32 and without
    dropout. Whether they are the model's own is checked: with them its output must be the same."""
    model = unwrap(model)
    with undisturbed(model), torch.no_grad():
        own = forward(model)
        with Recorder(model, "explicit", read) as recorder:
            ours = forward(model)
        check_same(own, ours)
    return recorder.weights()


def check_same(own: Any, ours: Any) -> None:
    """The model's output with its own attention against its output with the captured one."""
    pairs = list(zip(_tensors(own), _tensors(ours), strict=True))
    for a, b in pairs:
        if a.shape != b.shape or not a.dtype.is_floating_point:
            continue
        size = a.float().abs().max().item() if a.numel() else 0.0
        coarse = torch.finfo(a.dtype).eps ** 0.5 / 3e-4  # 1 in float32
        apart = (a.float() - b.float()).abs().max().item() if a.numel() else 0.0
        if apart > SAME_TOLERANCE * max(coarse, 1.0) * max(size, 1e-3):
            raise CaptureError(
                "The attention that was captured is not the model's own: with it the output "
                f"differs by {apart:.2g} (values up to {size:.2g}). The model does something "
                "with its attention that grokscope does not know; use attention=ReadModule."
            )


def _tensors(output: Any) -> list[Tensor]:
    """Logits and losses among an output, without caches and hidden states."""
    if isinstance(output, Tensor):
        return [output]
    if hasattr(output, "logits"):
        return [output.logits]
    if hasattr(output, "last_hidden_state"):
        return [output.last_hidden_state]
    if isinstance(output, tuple | list):
        return [part for part in output if isinstance(part, Tensor)]
    return []
