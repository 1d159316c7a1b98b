"""How the attention of a model is reached without changing the model.

While a `Recorder` is open, it watches the doors that nearly every transformer goes through:

- torch.nn.functional.scaled_dot_product_attention (nanoGPT, timm, most recent models);
- torch.nn.functional.multi_head_attention_forward (torch.nn.MultiheadAttention);
- the attention interface of Hugging Face transformers, whichever implementation is configured;
- attention by hand: a softmax whose result is multiplied with values (`products`).

Each call is named by the path of the module that makes it. A module whose attention is reached by
none of these is read with `ReadModule`.

B examples, H heads, Q chosen rows, T positions, d size.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules import module as hooks
from torch.overrides import TorchFunctionMode

from grokscope.bridge import calls, products
from grokscope.bridge.calls import Call, CaptureError, cast, put_rows, take_rows
from grokscope.bridge.layers import Layer, Layers, ReadModule, choose_layers, widen, with_heads
from grokscope.bridge.surroundings import undisturbed, unwrap

Mode = Literal["list", "watch", "explicit"]
MOST = 16  # softmaxes of which it is not yet known whether they are attention
SDPA, MULTIHEAD = F.scaled_dot_product_attention, F.multi_head_attention_forward


@dataclass(eq=False)
class Recorder(TorchFunctionMode):
    """Records every attention call while it is open.

    `list` only names them. `watch` leaves the computation as it is and keeps queries and keys, from
    which single rows can be computed, with gradients, in the user's own training step. `explicit`,
    for probes, makes the `chosen` calls depend on the weights of the chosen rows, so that a loss
    can be differentiated with respect to them; all else goes through the model's own kernels.
    """

    model: nn.Module
    mode: Mode = "watch"
    read: ReadModule | None = None
    rows: Callable[[Layer], Tensor | None] = lambda layer: None  # (B, Q), or None for all
    chosen: Sequence[Layer] | None = None  # from an earlier `list`; None for all
    gradient: bool = False
    layers: list[Layer] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self._inside, self._turns = False, 0
        self._counts: Counter[str] = Counter()
        self._paths = {
            id(m): _plain_path(n) or type(m).__name__ for n, m in self.model.named_modules()
        }
        self._modules: list[tuple[str, int]] = []
        self.inputs: list[Tensor] = []  # of the model's forward
        self._pending: list[tuple[products.Softmax, Layer]] = []
        self._used: list[Tensor] = []
        self._cleanup = contextlib.ExitStack()

    def __enter__(self) -> Recorder:
        own = self.model.register_forward_pre_hook(self._note_inputs, with_kwargs=True)
        self._cleanup.enter_context(own)
        self._cleanup.enter_context(hooks.register_module_forward_pre_hook(self._push))
        after = hooks.register_module_forward_hook(self._pop, always_call=True)
        self._cleanup.enter_context(after)
        if self.read is not None:
            self._hook(self.read)
        else:
            self._patch_transformers()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._cleanup.close()
        unproven, self._pending = [layer.path for _, layer in self._pending], []
        if error[0] is None and self.mode == "explicit" and unproven:
            raise CaptureError(
                f"The softmax in {unproven[0]} was multiplied with values in an earlier forward, "
                "but not in this one; the model changes its ways, and cannot be read."
            )
        if error[0] is None and self.read is not None and not self.read.trusted:
            self._prove_read(self.read)
        repeated = Counter(layer.path for layer in self.layers)
        seen: Counter[str] = Counter()
        for layer in self.layers:
            seen[layer.path] += 1
            many = repeated[layer.path] > 1
            layer.name = f"{layer.path}#{seen[layer.path]}" if many else layer.path

    def _note_inputs(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        self.inputs = [part for part in (*args, *kwargs.values()) if isinstance(part, Tensor)]

    def _push(self, module: nn.Module, inputs: Any) -> None:
        self._turns += 1
        above = self._modules[-1][0] if self._modules else type(self.model).__name__
        self._modules.append((self._paths.get(id(module), above), self._turns))

    def _pop(self, module: nn.Module, inputs: Any, output: Any) -> None:
        if self._modules:
            self._modules.pop()

    def _new_layer(self, door: str, sizes: Any, device: torch.device, path: str = "") -> Layer:
        above, turn = self._modules[-1] if self._modules else (type(self.model).__name__, 0)
        key = (door, self._counts[door])
        self._counts[door] += 1
        return Layer(path or above, key, tuple(sizes), device, turn)

    def _is_chosen(self, layer: Layer) -> bool:
        return self.chosen is None or any(layer.key == other.key for other in self.chosen)

    def _make_explicit(self, layer: Layer, weights: Tensor) -> Tensor:
        """Weights that the loss can be differentiated by. What comes before the first of them
        needs no graph: `take_probe` starts without one."""
        if self.gradient:
            torch.set_grad_enabled(True)
            weights = weights if weights.requires_grad else weights.detach().requires_grad_()
        layer.weights = weights
        return weights

    # The doors

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._inside:
            return func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if self.read is None:
            if func is SDPA:
                return self._sdpa(*args, **kwargs)
            if func is MULTIHEAD:
                return self._multihead(args, kwargs)
            if name in products.SOFTMAX:
                return self._softmax(func, args, kwargs)
        result = func(*args, **kwargs)
        if name in products.PRODUCTS and (self._pending or self.read is not None):
            self._product(func, [*args, *kwargs.values()])
        return result

    def _through(self) -> AbstractContextManager[Any]:
        """Within, nothing is recorded: a kernel may go through another door."""
        return mock.patch.object(self, "_inside", True)

    def _attend(self, layer: Layer, call: Call, own: Callable[..., Tensor]) -> Tensor | None:
        """Record a call; returns its new output (B, H, T, d) if it is made explicit. `own(value,
        kind)` is the model's own computation without dropout, of numbers of that kind."""
        self.layers.append(layer)
        if self.mode == "watch":
            layer.call, layer.own = call, own
        if self.mode != "explicit" or not self._is_chosen(layer):
            return None
        with self._through():
            rows = self.rows(layer)
            output = calls.prove(call, own, rows, layer.path)
            layer.scores, layer.rows = call.scores(rows), rows
            weights = self._make_explicit(layer, calls.normalise(layer.scores))
            mixed = call.mix(weights)
            return mixed.to(output.dtype) if rows is None else put_rows(output, rows, mixed)

    def _sdpa(self, *args: Any, **kwargs: Any) -> Tensor:
        given = dict(zip(calls.POSITIONAL, args, strict=False)) | kwargs
        call = calls.from_sdpa(given)
        plain = given["query"].dim() == 3

        def own(value: Tensor, kind: torch.dtype | None = None) -> Tensor:
            values = {"value": value[:, 0] if plain else value, "dropout_p": 0.0}
            output = SDPA(**{name: cast(part, kind) for name, part in (given | values).items()})
            return output[:, None] if plain else output

        layer = self._new_layer("call", call.sizes, call.query.device)
        output = self._attend(layer, call, own)
        if output is None:
            return SDPA(**given)
        return output[:, 0] if plain else output

    def _multihead(self, args: Any, kwargs: Any) -> tuple[Tensor, Tensor | None]:
        """Without `need_weights` it goes through SDPA. With it, the weights that it returns are a
        copy that its output does not depend on."""
        bound = inspect.signature(MULTIHEAD).bind(*args, **kwargs)
        bound.apply_defaults()
        given = dict(bound.arguments)
        asked = given["need_weights"]
        quiet = {"need_weights": False, "training": False, "dropout_p": 0.0} if asked else {}
        with mock.patch.object(F, "scaled_dot_product_attention", self._sdpa):
            output, _ = MULTIHEAD(**given | quiet)
        own = MULTIHEAD(*args, **kwargs) if asked else (output, None)
        return (output, own[1]) if self.mode == "explicit" else own

    def _patch_transformers(self) -> None:
        if "transformers.modeling_utils" not in sys.modules:
            return
        from transformers.modeling_utils import AttentionInterface

        original = AttentionInterface.get_interface

        def get_interface(registry: Any, implementation: str, default: Callable) -> Callable:
            function = original(registry, implementation, default)

            def attend(*given: Any, **options: Any) -> tuple[Tensor, Tensor | None]:
                if self._inside:
                    return function(*given, **options)
                call = calls.from_transformers(implementation, given, options)

                def own(value: Tensor, kind: torch.dtype | None = None) -> Tensor:
                    parts = [cast(part, kind) for part in (*given[:3], value, *given[4:])]
                    others = {name: cast(part, kind) for name, part in options.items()}
                    return function(*parts, **others | {"dropout": 0.0})[0].transpose(1, 2)

                path = self._paths.get(id(given[0]), "")
                layer = self._new_layer("call", call.sizes, call.query.device, path)
                output = self._attend(layer, call, own)
                if output is not None:
                    return output.transpose(1, 2).contiguous(), None
                with self._through():
                    return function(*given, **options)

            return attend

        patch = mock.patch.object(AttentionInterface, "get_interface", get_interface)
        self._cleanup.enter_context(patch)

    # Attention by hand

    def _softmax(self, func: Any, args: Any, kwargs: Any) -> Tensor:
        weights = func(*args, **kwargs)
        if not products.may_be_attention(weights, args, kwargs):
            return weights
        sizes = with_heads(weights).shape
        layer, scores = self._new_layer("softmax", sizes, weights.device), args[0]
        if self.mode == "explicit":
            if not self._is_chosen(layer):
                return weights
            layer.rows = rows = self.rows(layer)
            picked = self._make_explicit(layer, take_rows(with_heads(weights), rows))
            layer.scores = take_rows(with_heads(scores), rows).detach()
            whole = put_rows(with_heads(weights), rows, picked) if rows is not None else picked
            weights = whole.view_as(weights)
        elif self.mode == "watch":
            layer.known, layer.scores = weights, scores.detach()
        mark = products.Softmax(weights, weights._version, self.mode == "watch")
        self._pending = [*self._pending[-MOST:], (mark, layer)]
        return weights

    def _product(self, func: Any, args: list[Any]) -> None:
        """Has a softmax, or what a ReadModule will return, been multiplied with values?"""
        found = list(products.find_weights(func, args))
        if self.read is not None:
            self._used += [part.tensor for part in found]
        # Itself goes before a copy: the same weights may be computed twice.
        fits = [
            (softmax.is_same(part), place)
            for part in found
            for place, (softmax, _) in enumerate(self._pending)
            if softmax.is_in(part)
        ]
        if fits:
            _, layer = self._pending.pop(max(fits)[1])
            if self._modules:
                layer.path, layer.turn = self._modules[-1]
            self.layers.append(layer)

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
            sizes, path = with_heads(weights).shape, self._paths[id(module)]
            layer = self._new_layer("read", sizes, weights.device, path)
            self.layers.append(layer)
            if self.mode != "list":
                layer.known = layer.weights = weights

        for module in found:
            self._cleanup.enter_context(module.register_forward_hook(after))

    def _prove_read(self, read: ReadModule) -> None:
        dropped = self.mode == "watch"
        for known, layer in [(layer.known, layer) for layer in self.layers]:
            if known is not None and not any(
                products.is_copy(used, known, dropped) for used in self._used
            ):
                raise CaptureError(
                    f"The weights that ReadModule({read.name!r}) returned for {layer.path} were "
                    "not multiplied with values anywhere in the forward, so they are not the "
                    "model's attention. If you know that they are, say "
                    "ReadModule(..., trusted=True)."
                )
        self._used = []


def _plain_path(name: str) -> str:
    """A module path without the wrappers of compilers, checkpoints and hooks (`_orig_mod`)."""
    return ".".join(part for part in name.split(".") if not part.startswith("_"))


def list_layers(
    model: nn.Module, forward: Callable[[], Any], read: ReadModule | None = None
) -> list[Layer]:
    """The attention calls of a forward."""
    recorder = Recorder(model, "list", read)
    with torch.no_grad(), recorder:
        forward()
    return recorder.layers


def read_attention(
    model: nn.Module,
    forward: Callable[[nn.Module], Any],
    read: ReadModule | None = None,
    layers: Layers = None,
) -> dict[str, Tensor]:
    """Weights (B, H, T, T) of the attention calls of `forward(model)`, all or those of `layers`, by
    module path, in float32 and without dropout. They are proven to be the model's own: what each
    call returns with them is the same."""
    model = unwrap(model)
    with undisturbed(model), torch.no_grad():
        found = list_layers(model, partial(forward, model), read)
        chosen = choose_layers(found, layers, model)
        recorder = Recorder(model, "explicit", read, chosen=chosen)
        with recorder:
            forward(model)
    names = {layer.key: layer.name for layer in chosen}
    return {
        names[layer.key]: widen(with_heads(layer.weights))
        for layer in recorder.layers
        if layer.key in names and layer.weights is not None
    }
