"""What an array of weights does, whichever model and block it belongs to."""

from __future__ import annotations

INTERACTION = ("query", "key")
MLP = ("hidden", "hidden_bias", "readout", "readout_bias")
ATTENTION = (*INTERACTION, "value", "output")
READ_THROUGH = tuple(
    f"{place}_{kind}" for place in ("attention", "query_key", "value") for kind in ("gain", "bias")
)
"""Norms before attention."""
LOOK_UPS = ("embedding", "position")
MATRICES = frozenset({*ATTENTION, "hidden", "readout"})
"""Of attention and MLP; embeddings, positions and the unembedding are look-ups and read-outs."""


def role(name: str) -> str:
    """ "block1.query" is a "query"."""
    return name.rpartition(".")[2]
