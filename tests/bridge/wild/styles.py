"""Attention as other people write it: small re-creations of the styles that grokking code and its
neighbours use, each with the weights that it computes itself.

Nothing here is copied; what is kept is how the weights come about and where they go: which
softmax, which product, which order of axes, what is returned. Every attention module keeps its
weights in `own`, (B, H, T, T) or (B, T, T), for the test to compare with; nn.MultiheadAttention is
asked for them.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

TOKENS, LENGTH, WIDTH, HEADS = 11, 6, 16, 2


def split(x: Tensor, heads: int = HEADS) -> Tensor:  # (B, T, D) -> (B, H, T, d)
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def look_back(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool).tril()


class Block(nn.Module):
    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn = attention
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class LanguageModel(nn.Module):
    """(B, T) -> (B, T, V); with targets also the loss, as in nanoGPT. `name` is that of the list of
    blocks."""

    def __init__(
        self, make_attention, layers: int = 2, returns_loss: bool = True, name: str = "h"
    ) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(TOKENS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.name = name
        setattr(self, name, nn.ModuleList(Block(make_attention()) for _ in range(layers)))
        self.lm_head = nn.Linear(WIDTH, TOKENS, bias=False)
        self.returns_loss = returns_loss

    def forward(self, idx: Tensor, targets: Tensor | None = None):
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
        for block in getattr(self, self.name):
            x = block(x)
        logits = self.lm_head(x)
        if not self.returns_loss:
            return logits
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
        return logits, loss


class NanoGPT(nn.Module):
    """The slow path: masked_fill, F.softmax, dropout, @."""

    def __init__(self) -> None:
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.attn_dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = map(split, self.c_attn(x).split(WIDTH, dim=2))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(look_back(x.shape[1])[None, None] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        self.own = att.detach()
        return self.c_proj((self.attn_dropout(att) @ v).transpose(1, 2).flatten(2))


class Nanochat(nn.Module):
    """Rotary positions, norms on queries and keys, shared keys, SDPA, an output of zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.c_q = nn.Linear(WIDTH, WIDTH, bias=False)
        self.c_k, self.c_v = (nn.Linear(WIDTH, WIDTH // HEADS, bias=False) for _ in range(2))
        self.c_proj = nn.Linear(WIDTH, WIDTH, bias=False)
        nn.init.zeros_(self.c_proj.weight)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = split(self.c_q(x)), split(self.c_k(x), 1), split(self.c_v(x), 1)
        q, k = (F.rms_norm(self.rotate(t), (t.size(-1),)) for t in (q, k))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
        seen = look_back(x.shape[1])
        seen_only = scores.masked_fill(~seen, -torch.inf).detach().exp()
        self.own = seen_only / seen_only.sum(dim=-1, keepdim=True)
        return self.c_proj(y.transpose(1, 2).flatten(2))

    @staticmethod
    def rotate(x: Tensor) -> Tensor:
        half = x.shape[-1] // 2
        angle = torch.arange(x.shape[2])[:, None] * 100.0 ** (-torch.arange(half) / half)
        a, b = x[..., :half], x[..., half:]
        cos, sin = angle.cos(), angle.sin()
        return torch.cat([a * cos + b * sin, b * cos - a * sin], dim=-1)


class HookPoint(nn.Identity):
    """A place to hook, as in progress-measures and TransformerLens."""


class ProgressMeasures(nn.Module):
    """Weights per head, einsum with values first, -1e10 for a mask, hook points."""

    def __init__(self) -> None:
        super().__init__()
        d = WIDTH // HEADS
        self.W_K, self.W_Q, self.W_V = (
            nn.Parameter(torch.randn(HEADS, d, WIDTH) / WIDTH**0.5) for _ in range(3)
        )
        self.W_O = nn.Parameter(torch.randn(WIDTH, d * HEADS) / WIDTH**0.5)
        self.hook_attn, self.hook_attn_pre, self.hook_z = HookPoint(), HookPoint(), HookPoint()

    def forward(self, x: Tensor) -> Tensor:
        k, q, v = (torch.einsum("ihd,bpd->biph", w, x) for w in (self.W_K, self.W_Q, self.W_V))
        scores = torch.einsum("biph,biqh->biqp", k, q)
        mask = look_back(x.shape[1]).float()
        masked = torch.tril(scores) - 1e10 * (1 - mask)
        pattern = F.softmax(self.hook_attn_pre(masked / math.sqrt(q.shape[-1])), dim=-1)
        pattern = self.hook_attn(pattern)
        self.own = pattern.detach()
        z = self.hook_z(torch.einsum("biph,biqp->biqh", v, pattern))
        return torch.einsum("df,bqf->bqd", self.W_O, z.transpose(1, 2).flatten(2))


class HookedTransformer(nn.Module):
    """TransformerLens 2.x: heads on the third axis, no NaN, a hook, a cast, then einsum."""

    def __init__(self) -> None:
        super().__init__()
        d = WIDTH // HEADS
        self.W_Q, self.W_K, self.W_V, self.W_O = (
            nn.Parameter(torch.randn(HEADS, *shape) / WIDTH**0.5)
            for shape in [(WIDTH, d)] * 3 + [(d, WIDTH)]
        )
        self.hook_attn_scores, self.hook_pattern = HookPoint(), HookPoint()

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (torch.einsum("bpm,hmd->bphd", x, w) for w in (self.W_Q, self.W_K, self.W_V))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
        scores = torch.where(look_back(x.shape[1]), scores, torch.tensor(-torch.inf))
        pattern = F.softmax(self.hook_attn_scores(scores), dim=-1)
        pattern = torch.where(torch.isnan(pattern), torch.zeros_like(pattern), pattern)
        pattern = self.hook_pattern(pattern).to(v.dtype)
        self.own = pattern.detach()
        z = torch.einsum("bkhd,bhqk->bqhd", v, pattern)
        return torch.einsum("bqhd,hdm->bqm", z, self.W_O)


class Head(nn.Module):
    """openai/grok: a module per head, nn.Softmax, (B, T, T)."""

    def __init__(self) -> None:
        super().__init__()
        d = WIDTH // HEADS
        self.Wq, self.Wk, self.Wv = (nn.Linear(WIDTH, d, bias=False) for _ in range(3))
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor):
        queries, keys, values = self.Wq(queries), self.Wk(keys), self.Wv(values)
        attn = torch.matmul(queries, torch.transpose(keys, -2, -1)) / math.sqrt(keys.shape[-1])
        attn.masked_fill_(~look_back(keys.shape[1]), float("-inf"))
        attn = self.softmax(attn)
        self.own = attn.detach()
        return torch.matmul(attn, values), attn


class OpenAIGrok(nn.Module):
    """Returns logits, and lists of what it attended to."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, WIDTH)
        self.attn_heads = nn.ModuleList(Head() for _ in range(HEADS))
        self.Wo = nn.Linear(WIDTH, WIDTH, bias=False)
        self.linear = nn.Linear(WIDTH, TOKENS, bias=False)

    def forward(self, x: Tensor):
        x = self.embedding(x) + 0.3 * torch.sin(torch.arange(x.shape[1]))[:, None]
        results, attentions = zip(*(head(x, x, x) for head in self.attn_heads), strict=True)
        x = x + self.Wo(torch.cat(results, dim=-1))
        return self.linear(x), list(attentions), list(results)


class MultiheadBlock(nn.Module):
    """danielmamay (`self_attn`) and teddykoker (`attn`): nn.MultiheadAttention, positions first."""

    def __init__(self, name: str, need_weights: bool) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        setattr(self, name, nn.MultiheadAttention(WIDTH, HEADS))
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, WIDTH))
        self.name, self.need_weights = name, need_weights

    def forward(self, x: Tensor) -> Tensor:  # (T, B, D)
        mask = torch.full((len(x), len(x)), -float("inf")).triu(diagonal=1)
        h, attend = self.ln_1(x), getattr(self, self.name)
        x = x + attend(h, h, h, attn_mask=mask, need_weights=self.need_weights)[0]
        return x + self.mlp(self.ln_2(x))


class TimeFirst(nn.Module):
    """Logits are (T, B, V). `turn`: tokens come as (B, T) and are turned inside (danielmamay), or
    they come as (T, B) (teddykoker)."""

    def __init__(self, turn: bool) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(TOKENS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        name = "self_attn" if turn else "attn"
        blocks = nn.Sequential(*(MultiheadBlock(name, need_weights=turn) for _ in range(2)))
        setattr(self, "model" if turn else "layers", blocks)
        self.head = nn.Linear(WIDTH, TOKENS)
        self.turn = turn

    def forward(self, x: Tensor) -> Tensor:
        x = x.T if self.turn else x
        h = self.tokens(x) + self.places(torch.arange(len(x)))[:, None]
        return self.head((self.model if self.turn else self.layers)(h))


class VisionAttention(nn.Module):
    """timm: q, k, v in one, queries scaled first, `softmax` as a method, dropout, @."""

    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.attn_drop, self.fused_attn = nn.Dropout(0.0), fused

    def forward(self, x: Tensor) -> Tensor:
        size, length, _ = x.shape
        qkv = self.qkv(x).reshape(size, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        scores = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).detach()
        self.own = scores.exp() / scores.exp().sum(dim=-1, keepdim=True)
        if self.fused_attn:
            x = F.scaled_dot_product_attention(q, k, v)
        else:
            attn = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
            x = self.attn_drop(attn.softmax(dim=-1)) @ v
        return self.proj(x.transpose(1, 2).reshape(size, length, -1))


class VisionTransformer(nn.Module):
    """Images (B, 1, 4, 4) in four patches and a class token in front, at position 0."""

    def __init__(self) -> None:
        super().__init__()
        self.patch_embed = nn.Conv2d(1, WIDTH, 2, 2)
        self.cls_token = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.blocks = nn.ModuleList(Block(VisionAttention(fused)) for fused in (True, False))
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        patches = self.patch_embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), patches], dim=1)
        for block in self.blocks:
            x = block(x)
        return self.head(x[:, 0])
