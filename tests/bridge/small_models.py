"""Fixtures: small models of several makes, and batches for them."""

from __future__ import annotations

import pytest
import torch
import transformers
from torch import nn
from torch.nn import functional as F

VOCABULARY, LENGTH = 20, 9


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


class Attention(nn.Module):
    """As in nanoGPT: fused or by hand."""

    def __init__(self, width: int, heads: int, fused: bool) -> None:
        super().__init__()
        self.heads, self.fused = heads, fused
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.attn_dropout = nn.Dropout(0.1)

    def forward(self, x):
        n, length, width = x.shape
        parts = self.c_attn(x).split(width, dim=2)
        q, k, v = (p.view(n, length, self.heads, -1).transpose(1, 2) for p in parts)
        if self.fused:
            dropout = 0.1 if self.training else 0.0
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        else:
            scores = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
            seen = torch.tril(torch.ones(length, length, dtype=torch.bool))
            self.weights = F.softmax(scores.masked_fill(~seen, -torch.inf), dim=-1)
            y = self.attn_dropout(self.weights) @ v
        return self.c_proj(y.transpose(1, 2).reshape(n, length, width))


class NanoGPT(nn.Module):
    """Returns logits and loss, as nanoGPT does; targets below zero do not count."""

    def __init__(self, fused: bool = True, layers: int = 2, width: int = 16, heads: int = 2):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, width), nn.Embedding(LENGTH, width)
        self.attn = nn.ModuleList(Attention(width, heads, fused) for _ in range(layers))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width))
            for _ in range(layers)
        )
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, idx, targets=None):
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
        for attend, think in zip(self.attn, self.mlp, strict=True):
            x = x + attend(x)
            x = x + think(x)
        logits = self.head(x)
        if targets is None:
            return logits, None
        flat = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
        return logits, flat


@pytest.fixture
def make_nano():
    def make(**options):
        torch.manual_seed(0)
        return NanoGPT(**options)

    return make


@pytest.fixture
def batch():
    """Inputs, and targets of which only the last one counts."""
    torch.manual_seed(1)
    tokens = torch.randint(0, VOCABULARY, (6, LENGTH))
    targets = torch.full_like(tokens, -1)
    targets[:, -1] = (tokens[:, 0] + tokens[:, 2]) % VOCABULARY
    return tokens, targets


@pytest.fixture
def make_gpt2():
    def make(implementation: str = "sdpa", **options):
        torch.manual_seed(0)
        config = transformers.GPT2Config(
            vocab_size=VOCABULARY,
            n_positions=16,
            n_embd=16,
            n_layer=2,
            n_head=2,
            bos_token_id=0,
            eos_token_id=0,
            initializer_range=0.3,
            attn_implementation=implementation,
            **options,
        )
        return transformers.GPT2LMHeadModel(config)

    return make


@pytest.fixture
def hf_batch(batch):
    tokens = batch[0]
    labels = tokens.clone()
    labels[:, :-1] = -100
    return {"input_ids": tokens, "labels": labels}
