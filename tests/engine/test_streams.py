"""Streams: every next token is trained on, only what can be known is judged."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import grokscope as gs
from grokscope.engine.program import make_member, make_program, measure
from grokscope.models import transformer
from grokscope.models.layers import normalise

SPEC = gs.RunSpec().replace(
    **{
        "task.kind": "parity_stream",
        "task.bits": 5,
        "task.operands": 2,
        "task.examples": 60,
        "model.kind": "transformer",
        "model.width": 8,
        "model.hidden": 12,
        "model.heads": 2,
        "training.epochs": 4,
        "training.log_every": 2,
        "optimiser.batch": 16,
    }
)


def test_a_stream_is_bits_and_their_parities():
    task = SPEC.task
    data = gs.build_task(task, 3)
    assert data.tokens.shape == data.labels.shape == (60, 11)
    np.testing.assert_array_equal(data.tokens[:, 1:], data.labels[:, :-1])
    assert data.determined == (4, 10)
    for block, (begin, asked) in enumerate(((0, 4), (6, 10))):
        informative = begin + np.array([0, 2])
        parity = data.tokens[:, informative].sum(axis=1) % 2
        np.testing.assert_array_equal(data.labels[:, asked], parity)
        expected = np.zeros(11)
        expected[informative] = 0.5
        np.testing.assert_array_equal(data.oracle[:, block], np.tile(expected, (60, 1)))
    np.testing.assert_allclose(data.adversarial.sum(axis=-1), 1, rtol=1e-6)
    assert not (data.adversarial * data.oracle).any()
    assert not data.adversarial[:, 0, 5:].any()  # the first question sees the first block only
    np.testing.assert_allclose(data.uniform[0, 0], [0.2] * 5 + [0] * 6, rtol=1e-6)
    assert len({*map(bytes, data.tokens)}) == 60


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    store = gs.Store(tmp_path_factory.mktemp("streams"))
    form, member = make_member(SPEC, store)
    state = make_program(form).init(member)
    row = jax.jit(lambda state, member: measure(form, state, member))(state, member)
    return form, member, state.params, row


def test_a_row_judges_what_can_be_known(measured):
    form, member, params, row = measured
    attend = partial(normalise, kind="softmax")

    def read(side):
        return transformer.respond(
            params, jnp.asarray(side.tokens), form.problem.shape, attend, member.numbers.model
        )

    train, test = read(member.data.train), read(member.data.test)
    chances = jax.nn.log_softmax(train.logits)
    losses = -np.take_along_axis(
        np.asarray(chances), np.asarray(member.data.train.labels)[..., None], 2
    )
    assert row["train_loss"] == pytest.approx(losses.mean(), rel=1e-5)
    right = np.asarray(test.logits.argmax(axis=-1) == member.data.test.labels)
    assert row["test_accuracy"] == pytest.approx(right[:, [4, 10]].mean(), rel=1e-6)
    both = np.concatenate([np.asarray(r.attention)[:, [4, 10]].mean(axis=2) for r in (train, test)])
    oracle = np.concatenate([member.data.train.oracle, member.data.test.oracle])
    weakest = np.where(oracle > 0, both, 1).min(axis=-1)
    assert row["weakest_min"] == pytest.approx(weakest.min(), rel=1e-4)
    divergence = (oracle * np.log(np.where(oracle > 0, oracle / both.clip(1e-30), 1))).sum(-1)
    assert row["divergence"] == pytest.approx(divergence.mean(), rel=1e-4)
    scores = np.concatenate([np.asarray(r.scores) for r in (train, test)])
    spread = [scores[:, at, :, : at + 1].var(axis=-1).mean() for at in (4, 10)]
    assert row["logit_variance"] == pytest.approx(np.mean(spread), rel=1e-4)
    assert np.isnan(row["interaction_gradient"])
    assert np.isnan(row["lipschitz_bound"])


def test_gradients_on_logits_are_the_judged_ones(measured):
    """dL/da through a model of one's own making, and the largest by a finite difference."""
    form, member, params, row = measured
    tokens, labels = jnp.asarray(member.data.train.tokens), member.data.train.labels

    def loss(nudge):  # (n, P, H, T)
        def attend(scores):
            return normalise(scores + nudge, "softmax")

        logits = transformer.respond(
            params, tokens, form.problem.shape, attend, member.numbers.model
        ).logits
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], axis=2).sum()

    still = jnp.zeros((len(tokens), 11, 2, 11))
    every = np.asarray(jax.grad(loss)(still))
    gradients = np.abs(every)[:, [4, 10]]
    place = np.unravel_index(np.abs(every).argmax(), every.shape)
    step = 0.02
    difference = (loss(still.at[place].set(step)) - loss(still.at[place].set(-step))) / (2 * step)
    assert every[place] == pytest.approx(float(difference), rel=0.02)
    assert row["logit_gradient_max"] == pytest.approx(gradients.max(), rel=1e-3)
    assert row["logit_gradient_mean"] == pytest.approx(gradients.mean(), rel=1e-3)


def test_what_a_transformer_cannot_be():
    with pytest.raises(gs.SpecError, match=r"set model\.kind to transformer"):
        SPEC.replace(model=gs.ModelSpec())
    with pytest.raises(gs.SpecError, match="must be causal"):
        SPEC.replace(**{"model.masking": "none"})
    with pytest.raises(gs.SpecError, match="only used by transformer"):
        gs.RunSpec().replace(**{"model.layers": 2})
    with pytest.raises(gs.SpecError, match="joins some of attention"):
        SPEC.replace(**{"model.norm": "before"})
    with pytest.raises(gs.SpecError, match="names a place twice"):
        SPEC.replace(**{"model.norm": "attention+value"})
    with pytest.raises(gs.SpecError, match="must be even"):
        SPEC.replace(**{"model.positions": "rotary", "model.width": 6})


def test_a_run_from_spec_to_certificates(store):
    spec = SPEC.replace(
        **{"prior.kind": "oracle", "interventions.frozen_attention": "oracle", "model.norm": "mlp"}
    )
    (run,) = gs.train(spec, store, processes=1)
    assert run.status == "finished"
    assert run.outcome["final"]["divergence"] == pytest.approx(0, abs=1e-5)
    table = gs.certify(run, store)
    assert set(table["statement"]) <= {1, 2, 10}
