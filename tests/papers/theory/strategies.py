"""Random attention, values and networks, with the edges where a formula could break."""

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from grokscope.papers.structural_inference.theory import relu_attention, softmax_attention

ATTENTIONS = {"softmax": softmax_attention, "relu": relu_attention}

masses = st.floats(0, 1, allow_subnormal=False) | st.sampled_from([0.0, 1e-9, 0.5, 1 - 1e-9, 1.0])
score_values = st.floats(-5, 5, allow_subnormal=False) | st.sampled_from([-30.0, 0.0, 1.0, 30.0])
coordinates = st.floats(-3, 3, allow_subnormal=False) | st.sampled_from([0.0, 1.0])
seeds = st.integers(0, 2**32 - 1)


def vectors(size):
    return hnp.arrays(np.float64, size, elements=coordinates)


class Row(NamedTuple):
    """Attention over one input with its uniform oracle."""

    attention: np.ndarray  # (T,)
    oracle: np.ndarray  # (T,)
    informative: int


@st.composite
def rows(draw, longest=6, distractors=True):
    positions = draw(st.integers(1, longest))
    informative = draw(st.integers(1, positions)) if distractors else positions
    places = draw(st.permutations(range(positions)))[:informative]
    oracle = np.zeros(positions)
    oracle[places] = 1 / informative
    scores = draw(hnp.arrays(np.float64, positions, elements=score_values))
    kind = draw(st.sampled_from(["softmax", "softmax", "relu", "hot", "oracle"]))
    if kind == "hot":
        attention = np.eye(positions)[places[0]]
    elif kind == "oracle":
        attention = oracle.copy()
    else:
        attention = ATTENTIONS[kind](scores)
    return Row(attention, oracle, informative)


class Network(NamedTuple):
    """f(z) = W_2 relu(W_1 z + b_1) + b_2."""

    hidden_weight: np.ndarray  # (hidden, d)
    hidden_bias: np.ndarray  # (hidden,)
    output_weight: np.ndarray  # (classes, hidden)
    output_bias: np.ndarray  # (classes,)

    def __call__(self, pooled):
        hidden = np.maximum(pooled @ self.hidden_weight.T + self.hidden_bias, 0)
        return hidden @ self.output_weight.T + self.output_bias


def make_network(seed, width, hidden=5, classes=3, scale=1.0):
    generator = np.random.default_rng(seed)
    return Network(
        scale * generator.normal(size=(hidden, width)),
        generator.normal(size=hidden),
        scale * generator.normal(size=(classes, hidden)),
        generator.normal(size=classes),
    )


@st.composite
def networks(draw, width=2):
    scale = draw(st.sampled_from([0.1, 1.0, 5.0]))
    return make_network(draw(seeds), width, scale=scale)


class Swap(NamedTuple):
    """Two inputs that differ in the token at one position, through tables of scores and values."""

    attention: np.ndarray  # (2, T) before and after
    values: np.ndarray  # (2, T, d)
    position: int

    @property
    def mass(self):
        return self.attention[:, self.position]

    @property
    def value(self):
        return self.values[:, self.position]

    @property
    def pooled(self):
        return np.einsum("st,std->sd", self.attention, self.values)


@st.composite
def swaps(draw, longest=5, width=2):
    positions = draw(st.integers(1, longest))
    position = draw(st.integers(0, positions - 1))
    scores = draw(hnp.arrays(np.float64, positions, elements=score_values))
    values = draw(vectors((positions, width)))
    changed_scores, changed_values = scores.copy(), values.copy()
    changed_scores[position] = draw(score_values)
    changed_values[position] = draw(vectors(width))
    normalise = ATTENTIONS[draw(st.sampled_from(["softmax", "relu"]))]
    return Swap(
        normalise(np.stack([scores, changed_scores])), np.stack([values, changed_values]), position
    )
