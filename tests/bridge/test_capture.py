"""Captured attention is the model's own, whichever way the model computes it."""

from __future__ import annotations

import contextlib
import dataclasses

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from grokscope.bridge import CaptureError, ReadModule, calls, read_attention
from grokscope.bridge.calls import prove
from grokscope.bridge.capture import Recorder

SIZES = {
    "vocab_size": 20,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 32,
    "initializer_range": 0.3,
}
MODELS = {
    "gpt2": lambda how: transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=20,
            n_embd=32,
            n_layer=2,
            n_head=4,
            n_positions=32,
            bos_token_id=0,
            eos_token_id=0,
            initializer_range=0.3,
            attn_implementation=how,
        )
    ),
    "llama": lambda how: transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**SIZES, num_key_value_heads=2, attn_implementation=how)
    ),
    "neox": lambda how: transformers.GPTNeoXForCausalLM(
        transformers.GPTNeoXConfig(**SIZES, attn_implementation=how)
    ),
    "bert": lambda how: transformers.BertForMaskedLM(
        transformers.BertConfig(**SIZES, attn_implementation=how)
    ),
    "mistral": lambda how: transformers.MistralForCausalLM(
        transformers.MistralConfig(
            **SIZES, num_key_value_heads=2, sliding_window=3, attn_implementation=how
        )
    ),
}


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("how", ["sdpa", "eager", "fused"])
@pytest.mark.parametrize("name", MODELS)
def test_weights_equal_the_models_own(name, how, padded):
    """Against `output_attentions` of the same weights under eager attention, to 1e-5."""
    if how == "fused":
        register_flash()
    torch.manual_seed(0)
    model = MODELS[name](how)
    torch.manual_seed(0)
    eager = MODELS[name]("eager").eval()
    tokens = torch.randint(0, 20, (3, 9))
    mask = torch.ones_like(tokens)
    if padded:
        mask[1, :3] = 0
    given = {"input_ids": tokens, "attention_mask": mask}
    ours = read_attention(model, lambda m: m(**given))
    with torch.no_grad():
        own = eager(**given, output_attentions=True).attentions
    assert len(ours) == len(own) == 2
    for a, b in zip(ours.values(), own, strict=True):
        assert a.std() > 0.05  # far from uniform
        apart = (a - b).abs().amax(dim=(1, 3))
        assert apart[mask.bool()].max() < 1e-5  # rows that are padding mean nothing
    assert model.config._attn_implementation == how
    assert model.training  # as it was


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("bloom", {}),  # ALiBi, by hand
        ("falcon", {"multi_query": True, "new_decoder_architecture": False}),
        ("gemma2", {"num_key_value_heads": 2, "head_dim": 8}),  # scores are capped
        ("gptj", {"rotary_dim": 4}),
        ("mixtral", {"num_key_value_heads": 2, "num_local_experts": 4}),
        ("opt", {"word_embed_proj_dim": 32, "ffn_dim": 48}),
        ("qwen3", {"num_key_value_heads": 2, "head_dim": 8}),
    ],
)
def test_families_of_hugging_face(kind, options):
    """As each is loaded by default, against what it reports itself under eager attention."""

    def make(**how):
        torch.manual_seed(0)
        tokens = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
        config = transformers.AutoConfig.for_model(kind, **{**SIZES, **tokens, **options})
        return transformers.AutoModelForCausalLM.from_config(config, **how).eval()

    given = {"input_ids": torch.randint(1, 20, (3, 9))}
    ours = read_attention(make(), lambda m: m(**given))
    with torch.no_grad():
        own = make(attn_implementation="eager")(**given, output_attentions=True).attentions
    assert len(ours) == len(own) == 2
    for a, b in zip(ours.values(), own, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=0)


def register_flash():
    """A kernel that returns no weights and is told of padding and causality as flash attention is,
    so that this door can be tested without a GPU."""
    from transformers.masking_utils import AttentionMaskInterface, flash_attention_mask

    def forward(module, query, key, value, mask, scaling=None, dropout=0.0, **options):
        groups = query.shape[1] // key.shape[1]
        key, value = (t.repeat_interleave(groups, dim=1) for t in (key, value))
        length, window = query.shape[2], options.get("sliding_window")
        at = torch.arange(length)
        seen = torch.ones(length, length, dtype=torch.bool)
        if module.is_causal:
            seen = at <= at[:, None]
            if window is not None:
                seen = seen & (at > at[:, None] - window)
        seen = seen[None, None]
        if mask is not None:
            seen = seen & mask.bool()[:, None, None, :]
        out = torch.nn.functional.scaled_dot_product_attention(
            query, key, value, seen, scale=scaling, dropout_p=dropout
        )
        return out.transpose(1, 2), None

    transformers.AttentionInterface.register("fused", forward)
    AttentionMaskInterface.register("fused", flash_attention_mask)


@pytest.mark.parametrize("fused", [True, False])
def test_hand_written_models(make_nano, batch, fused):
    """nanoGPT, through SDPA, its own softmax and a function, against softmax written out."""
    model, reference = make_nano(fused=fused), make_nano(fused=False)
    with torch.no_grad():
        reference.eval()(*batch)
    own = {f"attn.{i}": layer.weights for i, layer in enumerate(reference.attn)}
    found = read_attention(model, lambda m: m(*batch))
    torch.testing.assert_close(found, own, atol=1e-6, rtol=0)
    if not fused:
        read = ReadModule("attn_dropout", lambda module, inputs, output: inputs[0])
        told = read_attention(model, lambda m: m(*batch), read)
        own = {f"{name}.attn_dropout": weights for name, weights in own.items()}
        torch.testing.assert_close(told, own, atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", ["plain", "padding", "float padding", "mask", "cross", "sizes"])
def test_multihead_attention(kind):
    """nn.MultiheadAttention: our rows from its projections against the weights it returns."""
    sizes = {"kdim": 12, "vdim": 12} if kind == "sizes" else {}
    module = torch.nn.MultiheadAttention(16, 4, batch_first=True, dropout=0.2, **sizes)
    x = torch.randn(3, 6, 16)
    other = torch.randn(3, 6, 12) if kind == "sizes" else torch.randn(3, 6, 16)
    key = other if kind in ("cross", "sizes") else x
    hidden = torch.zeros(3, 6, dtype=torch.bool)
    hidden[1, 4:] = True
    options = {
        "padding": {"key_padding_mask": hidden},
        "float padding": {"key_padding_mask": -1e9 * hidden.float()},
        "mask": {"attn_mask": torch.triu(torch.ones(6, 6, dtype=torch.bool), diagonal=1)},
    }.get(kind, {})
    own = module.eval()(x, key, key, average_attn_weights=False, **options)[1]
    module.train()
    with Recorder(module, "watch") as recorder:
        module(x, key, key, need_weights=False, **options)
    rows = torch.tensor([[0, 5]]).expand(3, 2)
    (layer,) = recorder.layers
    torch.testing.assert_close(layer.read(rows)[0], own[:, :, [0, 5]], atol=1e-6, rtol=0)
    prove(layer.call, layer.own, rows, "it")
    forward = lambda m: m(x, key, key, need_weights=False, **options)  # noqa: E731
    (explicit,) = read_attention(module, forward).values()
    torch.testing.assert_close(explicit, own, atol=1e-6, rtol=0)


@pytest.mark.parametrize("need_weights", [True, False])
def test_watching_multihead_attention_changes_nothing(need_weights):
    """Dropout included; what it returns as weights as well."""
    module = torch.nn.MultiheadAttention(16, 4, batch_first=True, dropout=0.2)
    x = torch.randn(3, 6, 16)
    results = []
    for watched in (False, True):
        torch.manual_seed(3)
        with Recorder(module, "watch") if watched else contextlib.nullcontext():
            output, weights = module(x, x, x, need_weights=need_weights)
        results.append([output] + [weights] * need_weights)
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)


def test_rows_that_see_nothing_are_zero():
    """Left padding under a causal mask; the other rows are the module's own."""
    module = torch.nn.MultiheadAttention(16, 4, batch_first=True)
    x = torch.randn(2, 5, 16)
    hidden = torch.zeros(2, 5, dtype=torch.bool)
    hidden[1, :2] = True
    options = {"key_padding_mask": hidden, "attn_mask": torch.ones(5, 5).triu(1).bool()}
    found = read_attention(module, lambda m: m(x, x, x, need_weights=False, **options))
    ours = found["MultiheadAttention"]
    own = module.eval()(x, x, x, average_attn_weights=False, **options)[1]
    assert (ours[1, :, :2] == 0).all()
    torch.testing.assert_close(ours[1, :, 2:], own[1, :, 2:], atol=1e-6, rtol=0)
    torch.testing.assert_close(ours[0], own[0], atol=1e-6, rtol=0)


@pytest.mark.parametrize("nested", [True, False])
def test_encoder_layers_skip_their_fast_path(nested):
    """With padding, too, where the fast path would leave dense tensors altogether."""
    layer = torch.nn.TransformerEncoderLayer(16, 4, 24, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=nested)
    x, hidden = torch.randn(2, 5, 16), torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    found = read_attention(encoder, lambda m: m(x, src_key_padding_mask=hidden))
    assert list(found) == ["layers.0.self_attn", "layers.1.self_attn"]
    assert all((weights[1, :, :, 3:] == 0).all() for weights in found.values())
    assert torch.backends.mha.get_fastpath_enabled()


def test_rows_are_those_of_the_whole(make_gpt2, hf_batch):
    model = make_gpt2()
    with Recorder(model, "watch") as recorder:
        model(**hf_batch)
    rows = torch.randint(0, 9, (6, 2))
    everything = torch.arange(9).expand(6, 9)
    whole, some = (recorder.layers[1].read(chosen)[0] for chosen in (everything, rows))
    for example in range(6):
        expected = whole[example][:, rows[example]]
        torch.testing.assert_close(some[example], expected, atol=1e-6, rtol=0)


def test_watching_changes_nothing(make_gpt2, hf_batch):
    """The same loss and gradients, dropout included, with and without the recorder."""
    results = []
    for watched in (False, True):
        model = make_gpt2()
        torch.manual_seed(3)
        if watched:
            with Recorder(model, "watch"):
                loss = model(**hf_batch).loss
        else:
            loss = model(**hf_batch).loss
        loss.backward()
        results.append([loss.detach(), *(p.grad for p in model.parameters())])
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)


def test_what_cannot_be_read_is_said(make_nano, batch):
    perceptron = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
    with pytest.raises(CaptureError, match="No attention was seen in a forward of Sequential"):
        read_attention(perceptron, lambda m: m(torch.zeros(2, 3)))
    with pytest.raises(CaptureError, match="ends in 'nothing'"):
        read_attention(make_nano(), lambda m: m(*batch), ReadModule("nothing", lambda *_: None))
    with pytest.raises(CaptureError, match=r"returned NoneType; it must return weights"):
        read_attention(make_nano(), lambda m: m(*batch), ReadModule("c_proj", lambda *_: None))


def test_sinks_are_refused():
    config = transformers.GptOssConfig(
        **SIZES,
        num_key_value_heads=2,
        head_dim=8,
        num_local_experts=2,
        num_experts_per_tok=1,
        attn_implementation="eager",
    )
    model = transformers.GptOssForCausalLM(config)
    with pytest.raises(CaptureError, match="learnt sink"):
        read_attention(model, lambda m: m(torch.zeros(2, 4, dtype=torch.long)))


def test_a_wrong_capture_is_noticed(make_nano, batch, monkeypatch):
    """If the formula did not fit the model, the model's own output would tell."""
    right = calls.from_sdpa

    def wrong(given):
        call = right(given)
        return dataclasses.replace(call, scale=3 * call.scale)

    monkeypatch.setattr(calls, "from_sdpa", wrong)
    with pytest.raises(CaptureError, match=r"read in attn\.0 is not the model's own"):
        read_attention(make_nano(), lambda m: m(*batch))
