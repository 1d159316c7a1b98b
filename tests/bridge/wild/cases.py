"""The suite: other people's code, the lines that a user writes, and the weights to compare with.

Run as a script (`python -m wild.cases` in tests/bridge), it prints the table of docs/your-model.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest import mock

import torch
import transformers
from torch import Tensor, nn

from . import styles

SIZES = {
    "vocab_size": styles.TOKENS,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 16,
    "initializer_range": 0.3,
}


@dataclass(frozen=True)
class Case:
    """`options` is what the user writes besides model and name; `own` gives the model's own weights
    by module path, after a forward in evaluation mode."""

    title: str
    make: Callable[[], nn.Module]
    batch: Callable[[], Any]
    own: Callable[[nn.Module, Any], dict[str, Tensor]]
    options: str = "informative=[0, 2], test=held_out"
    read: str = ""  # what is read, in the user's terms
    needs: str = ""  # a package
    train: Callable[..., None] | None = None  # its own loop, as (model, batch, observer, steps)

    @property
    def first_line(self) -> str:
        return f'observer = Observer(model, "run", {self.options})'


def tokens(size: int = 5) -> Tensor:
    return torch.randint(0, styles.TOKENS, (size, styles.LENGTH), generator=torch.Generator())


def answered() -> tuple[Tensor, Tensor]:
    given = tokens()
    return given, (given[:, 0] + given[:, 2]) % styles.TOKENS


def last_counts() -> tuple[Tensor, Tensor]:
    given, answer = answered()
    targets = torch.full_like(given, -1)
    targets[:, -1] = answer
    return given, targets


def turned() -> tuple[Tensor, Tensor]:
    given, answer = answered()
    return given.T.contiguous(), answer


def labelled() -> dict[str, Tensor]:
    given = tokens()
    return {"input_ids": given, "labels": given}


def pictures() -> tuple[Tensor, Tensor]:
    return torch.randn(5, 1, 4, 4, generator=torch.Generator()), torch.tensor([0, 1, 2, 1, 0])


def kept(model: nn.Module, batch: Any) -> dict[str, Tensor]:
    """From the re-creations, which keep their weights."""

    def ask(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if "average_attn_weights" not in kwargs:
            options = {**kwargs, "need_weights": True, "average_attn_weights": False}
            module.own = module(*args, **options)[1]

    modules = dict(model.named_modules())
    multihead = [m for m in modules.values() if isinstance(m, nn.MultiheadAttention)]
    hooks = [module.register_forward_hook(ask, with_kwargs=True) for module in multihead]
    model(batch[0])
    for hook in hooks:
        hook.remove()
    return {name: module.own for name, module in modules.items() if hasattr(module, "own")}


def reported(names: str) -> Callable[[nn.Module, Any], dict[str, Tensor]]:
    """From `output_attentions` of the same weights under eager attention."""

    def own(model: nn.Module, batch: Any) -> dict[str, Tensor]:
        eager = type(model)(model.config).eval()
        eager.load_state_dict(model.state_dict())
        eager.set_attn_implementation("eager")
        output = eager(**batch, output_attentions=True)
        lists = [output[key] for key in ("attentions", "decoder_attentions") if key in output]
        return {names.format(place): weights for place, weights in enumerate(lists[0])}

    return own


def make_timm() -> nn.Module:
    """The package itself. It imports torchvision, which the registry has for CUDA only, but does
    not need it here."""
    parts = ("ops", "ops.misc", "transforms", "transforms.functional", "datasets", "models")
    names = ["torchvision", *(f"torchvision.{part}" for part in parts)]
    names.append("torchvision.models.feature_extraction")
    sys.modules.update({name: mock.MagicMock() for name in names})
    try:
        from timm.models.vision_transformer import VisionTransformer
    finally:
        for name in names:
            del sys.modules[name]  # nobody else shall take it for the package
    sizes = {"img_size": 4, "patch_size": 2, "in_chans": 1, "num_classes": 3}
    model = VisionTransformer(**sizes, embed_dim=16, depth=2, num_heads=2)
    model.blocks[1].attn.fused_attn = False
    return model


def own_of_timm(model: nn.Module, batch: Any) -> dict[str, Tensor]:
    """From what goes into each attention module, by the formula."""
    found = {}

    def look(name: str, module: Any, inputs: Any) -> None:
        size, length, _ = inputs[0].shape
        parts = module.qkv(inputs[0]).reshape(size, length, 3, module.num_heads, -1)
        q, k, _ = parts.permute(2, 0, 3, 1, 4).unbind(0)
        found[name] = (q @ k.mT / q.shape[-1] ** 0.5).softmax(dim=-1)

    hooks = [
        block.attn.register_forward_pre_hook(partial(look, f"blocks.{place}.attn"))
        for place, block in enumerate(model.blocks)
    ]
    model(batch[0])
    for hook in hooks:
        hook.remove()
    return found


def make_t5() -> nn.Module:
    config = transformers.T5Config(
        vocab_size=styles.TOKENS,
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=2,
        num_heads=2,
        decoder_start_token_id=0,
    )
    return transformers.T5ForConditionalGeneration(config)


def make_peft(kind: str) -> nn.Module:
    import peft

    config = {
        "lora": lambda: peft.LoraConfig(task_type="CAUSAL_LM", target_modules=["q_proj", "v_proj"]),
        "prefix": lambda: peft.PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3),
    }[kind]()
    return peft.get_peft_model(make_llama(), config)


def make_llama() -> nn.Module:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES, num_key_value_heads=2))


def inside_peft(model: nn.Module, batch: Any) -> dict[str, Tensor]:
    model.base_model.set_attn_implementation("eager")
    try:
        found = model(**batch, output_attentions=True).attentions
    finally:
        model.base_model.set_attn_implementation("sdpa")
    names = [n for n, m in model.named_modules() if type(m).__name__ == "LlamaAttention"]
    return dict(zip(names, found, strict=True))


def make_x_transformer(**options: Any) -> nn.Module:
    from x_transformers import Decoder, TransformerWrapper

    memory = options.pop("num_memory_tokens", 0)
    layers = Decoder(dim=32, depth=2, heads=2, attn_dim_head=16, **options)
    return TransformerWrapper(
        num_tokens=styles.TOKENS,
        max_seq_len=styles.LENGTH,
        num_memory_tokens=memory,
        attn_layers=layers,
    )


def in_x_transformers(model: nn.Module, batch: Any) -> dict[str, Tensor]:
    """From what it returns with `return_attn`."""
    _, maps = model(batch[0], return_attn=True)
    names = [n for n, m in model.named_modules() if type(m).__name__ == "Attend"]
    return dict(zip(names, maps, strict=True))


def make_lens() -> nn.Module:
    from transformer_lens.model_bridge import TransformerBridge

    return TransformerBridge.boot_native(
        {
            "n_layers": 2,
            "d_model": 16,
            "n_ctx": styles.LENGTH,
            "d_head": 8,
            "n_heads": 2,
            "d_mlp": 32,
            "d_vocab": styles.TOKENS,
            "act_fn": "relu",
            "seed": 0,
        }
    )


def in_the_lens(model: nn.Module, batch: Any) -> dict[str, Tensor]:
    """From its own cache."""
    _, cache = model.run_with_cache(batch[0])
    return {f"blocks.{i}.attn": cache[f"blocks.{i}.attn.hook_pattern"] for i in range(2)}


def make_lightning() -> nn.Module:
    """As in openai/grok, whose model is inside a LightningModule."""
    from pytorch_lightning import LightningModule

    class Trainable(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.transformer = styles.OpenAIGrok()

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return self.transformer(*args, **kwargs)

        def training_step(self, batch: Any, index: int) -> Tensor:
            return nn.functional.cross_entropy(self(batch[0])[0][:, -1], batch[1])

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), 1e-2)

    return Trainable()


def fit(module: nn.Module, batch: Any, observer: Any, steps: int, **options: Any) -> None:
    """A Lightning Trainer, watched if there is an observer."""
    from pytorch_lightning import Trainer

    from grokscope.bridge import LightningObserver

    quiet = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    trainer = Trainer(
        max_steps=steps,
        accelerator="cpu",
        callbacks=[LightningObserver(observer)] if observer else [],
        **dict.fromkeys(quiet, False),
        **options,
    )
    trainer.fit(module, torch.utils.data.DataLoader([batch] * 40, batch_size=None))


CASES = {
    "nanogpt": Case(
        "nanoGPT without flash attention",
        lambda: styles.LanguageModel(styles.NanoGPT),
        last_counts,
        kept,
        read="the softmax of each `h.N.attn`",
    ),
    "nanochat": Case(
        "nanochat",
        lambda: styles.LanguageModel(styles.Nanochat),
        last_counts,
        kept,
        read="the fused kernel of each `h.N.attn`",
    ),
    "progress-measures": Case(
        "progress-measures (Nanda et al.)",
        lambda: styles.LanguageModel(styles.ProgressMeasures, 1, False, "blocks"),
        answered,
        kept,
        read="the softmax of `blocks.0.attn`",
    ),
    "lens-2": Case(
        "TransformerLens 2.x, `HookedTransformer`",
        lambda: styles.LanguageModel(styles.HookedTransformer, 2, False, "blocks"),
        answered,
        kept,
        read="the softmax of each `blocks.N.attn`",
    ),
    "lens-4": Case(
        "TransformerLens 4.x, `TransformerBridge`",
        make_lens,
        answered,
        in_the_lens,
        read="the softmax of each `blocks.N.attn`",
        needs="transformer_lens",
    ),
    "openai-grok": Case(
        "openai/grok",
        styles.OpenAIGrok,
        answered,
        kept,
        read="the softmax of each head, `attn_heads.N`",
    ),
    "danielmamay": Case(
        "danielmamay/grokking",
        lambda: styles.TimeFirst(turn=True),
        answered,
        kept,
        read="each `model.N.self_attn`; logits (T, B, V) are turned",
    ),
    "teddykoker": Case(
        "teddykoker/grokking",
        lambda: styles.TimeFirst(turn=False),
        turned,
        kept,
        read="each `layers.N.attn`; tokens come as (T, B)",
    ),
    "vision": Case(
        "vision transformers, written as timm's",
        styles.VisionTransformer,
        pictures,
        kept,
        options="query=0, test=held_out",
        read="fused or by hand, each `blocks.N.attn`; position 0 is the class token",
    ),
    "timm": Case(
        "timm, `VisionTransformer`",
        make_timm,
        pictures,
        own_of_timm,
        options="query=0, test=held_out",
        read="fused or not, each `blocks.N.attn`; position 0 is the class token",
        needs="timm",
    ),
    "llama": Case(
        "Hugging Face, for instance Llama",
        make_llama,
        labelled,
        reported("model.layers.{}.self_attn"),
        options="query=-2, informative=[0, 2], test=held_out",
        read="whatever attention is configured in each `model.layers.N.self_attn`",
        needs="transformers",
    ),
    "t5": Case(
        "Hugging Face, encoder and decoder (T5)",
        make_t5,
        labelled,
        reported("decoder.block.{}.layer.0.SelfAttention"),
        options="informative=[0, 2], test=held_out, layers=['decoder.*SelfAttention']",
        read="each `decoder.block.N.layer.0.SelfAttention`; without `layers` you get a list",
        needs="transformers",
    ),
    "peft-lora": Case(
        "PEFT, LoRA",
        lambda: make_peft("lora"),
        labelled,
        inside_peft,
        options="query=-2, informative=[0, 2], test=held_out",
        read="`base_model.model.model.layers.N.self_attn`, the model inside",
        needs="peft",
    ),
    "peft-prefix": Case(
        "PEFT, prefix tuning with 3 virtual tokens",
        lambda: make_peft("prefix"),
        labelled,
        inside_peft,
        options="query=-2, informative=[0, 2], test=held_out, offset=3",
        read="`base_model.model.layers.N.self_attn`, inside; the prefix is no position",
        needs="peft",
    ),
    "x-transformers": Case(
        "x-transformers",
        make_x_transformer,
        answered,
        in_x_transformers,
        read="each `attn_layers.layers.N.1.attend`",
        needs="x_transformers",
    ),
    "x-transformers-memory": Case(
        "x-transformers with 2 memory key-values",
        lambda: make_x_transformer(attn_num_mem_kv=2),
        answered,
        in_x_transformers,
        options="informative=[0, 2], test=held_out, offset=2",
        read="each `attn_layers.layers.N.1.attend`; memory is no position",
        needs="x_transformers",
    ),
    "x-transformers-tokens": Case(
        "x-transformers with 3 memory tokens",
        lambda: make_x_transformer(num_memory_tokens=3),
        answered,
        in_x_transformers,
        options="informative=[0, 2], test=held_out, offset=3",
        read="each `attn_layers.layers.N.1.attend`; memory is no position",
        needs="x_transformers",
    ),
    "lightning": Case(
        "PyTorch Lightning, `LightningModule`",
        make_lightning,
        answered,
        kept,
        read="each `transformer.attn_heads.N`, the model inside; in place of the other two lines, "
        "`Trainer(callbacks=[LightningObserver(observer)])`",
        needs="pytorch_lightning",
        train=fit,
    ),
}


def render() -> str:
    """The table of docs/your-model.md."""
    lines = ["| your code | the first line you write | what is read |", "|---|---|---|"]
    for case in CASES.values():
        lines.append(f'| {case.title} | `Observer(model, "run", {case.options})` | {case.read} |')
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(render(), end="")
