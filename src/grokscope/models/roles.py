"""What an array of weights does, whichever model and block it belongs to."""

from __future__ import annotations

INTERACTION = ("query", "key")
MLP = ("hidden", "hidden_bias", "readout", "readout_bias")
MATRICES = frozenset({*INTERACTION, "value", "output", "hidden", "readout"})
"""Of attention and MLP; embeddings, positions and the unembedding are look-ups and read-outs."""


def role(name: str) -> str:
    """ "block1.query" is a "query"."""
    return name.rpartition(".")[2]
