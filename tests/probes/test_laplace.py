"""The Kronecker-factored Laplace of a last layer against the explicit matrices."""

from __future__ import annotations

import numpy as np
import pytest

from grokscope.probes.laplace import fit_last_layer


@pytest.fixture
def layer():
    rng = np.random.default_rng(0)
    return rng.standard_normal((3, 5)), rng.standard_normal((40, 5))


def covariance_of(layer):
    """In full, rows of the matrix one after the other."""
    turn = np.kron(layer.outer, layer.inner)
    return (turn * layer.variance.ravel()) @ turn.T


def test_one_input_is_exact(layer):
    """For a single input the Kronecker product is the whole Gauss-Newton matrix."""
    weights, features = layer
    found = fit_last_layer(weights, features[:1], size=7.0, precision=0.5)
    logits = weights @ features[0]
    p = np.exp(logits) / np.exp(logits).sum()
    hessian = np.kron(np.diag(p) - np.outer(p, p), np.outer(features[0], features[0]))
    np.testing.assert_allclose(
        covariance_of(found), np.linalg.inv(7.0 * hessian + 0.5 * np.eye(15)), rtol=1e-9, atol=1e-11
    )


def test_many_inputs_are_the_product_of_means(layer):
    weights, features = layer
    found = fit_last_layer(weights, features, size=100.0, precision=2.0)
    logits = features @ weights.T
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    inner = np.mean([np.outer(f, f) for f in features], axis=0)
    outer = np.mean([np.diag(each) - np.outer(each, each) for each in p], axis=0)
    precision = 100.0 * np.kron(outer, inner) + 2.0 * np.eye(15)
    np.testing.assert_allclose(
        covariance_of(found), np.linalg.inv(precision), rtol=1e-8, atol=1e-11
    )


def test_draws_have_that_covariance(layer):
    weights, features = layer
    found = fit_last_layer(weights, features, size=20.0, precision=1.0)
    draws = found.draw(20_000, np.random.default_rng(1)).reshape(20_000, -1)
    np.testing.assert_allclose(draws.mean(axis=0), weights.ravel(), atol=0.03)
    np.testing.assert_allclose(np.cov(draws.T), covariance_of(found), atol=0.03)


def test_the_control_has_the_same_total_variance(layer):
    weights, features = layer
    found = fit_last_layer(weights, features, size=20.0, precision=1.0)
    even = covariance_of(found.isotropic())
    assert np.trace(even) == pytest.approx(np.trace(covariance_of(found)))
    np.testing.assert_allclose(even, np.eye(15) * even[0, 0], atol=1e-12)


def test_laplace_torch_finds_the_same():
    """The posterior precision of a last layer without bias by the package `laplace-torch`, which
    counts each of its examples once."""
    torch = pytest.importorskip("torch")
    package = pytest.importorskip("laplace")
    curvature = pytest.importorskip("laplace.curvature")
    generator = torch.Generator().manual_seed(0)
    body, head = torch.nn.Linear(4, 5, bias=False), torch.nn.Linear(5, 3, bias=False)
    network = torch.nn.Sequential(body, torch.nn.Tanh(), head).double()
    inputs = torch.randn(40, 4, generator=generator, dtype=torch.float64)
    labels = torch.randint(3, (40,), generator=generator)
    theirs = package.Laplace(
        network,
        "classification",
        subset_of_weights="last_layer",
        hessian_structure="kron",
        prior_precision=2.0,
        backend=curvature.CurvlinopsGGN,
    )
    data = torch.utils.data.TensorDataset(inputs, labels)
    theirs.fit(torch.utils.data.DataLoader(data, batch_size=40))
    features = torch.tanh(body(inputs)).detach().numpy()
    ours = fit_last_layer(head.weight.detach().numpy(), features, size=40.0, precision=2.0)
    precision = theirs.posterior_precision.to_matrix().detach().numpy()
    np.testing.assert_allclose(np.linalg.inv(covariance_of(ours)), precision, rtol=1e-9, atol=1e-11)
