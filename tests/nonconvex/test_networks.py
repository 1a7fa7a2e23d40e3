"""Networks: gradients of records in NumPy, and those of PyTorch and JAX that a page describes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import dpfast
from dpfast.nonconvex import PerRecordObjective
from dpfast.optimize import Adaptive

PAGE = (Path(__file__).parents[2] / "docs/networks.md").read_text(encoding="utf-8")


def parts_of(theta, shape):
    """Weights of two layers of ``inputs, hidden, classes``, in PyTorch's order."""
    inputs, hidden, classes = shape
    ends = np.cumsum([hidden * inputs, hidden, classes * hidden])
    first, offset, second, last = np.split(theta, ends)
    return first.reshape(hidden, inputs), offset, second.reshape(classes, hidden), last


def forward(theta, X, shape):
    first, offset, second, last = parts_of(theta, shape)
    units = np.tanh(X @ first.T + offset)
    scores = units @ second.T + last
    scores = scores - scores.max(axis=1, keepdims=True)
    return units, scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))


def losses_of(theta, X, y, shape):
    one_hot = y[:, None] == np.arange(shape[2])
    return -np.where(one_hot, forward(theta, X, shape)[1], 0.0).sum(axis=1)


def gradients_of(theta, X, y, shape):
    """Back-propagation with a row for each record; an unknown label has a gradient of zero."""
    units, logs = forward(theta, X, shape)
    one_hot = y[:, None] == np.arange(shape[2])
    outer = np.where(one_hot.any(axis=1, keepdims=True), np.exp(logs) - one_hot, 0.0)
    inner = (outer @ parts_of(theta, shape)[2]) * (1.0 - units * units)
    layers = [
        inner[:, :, None] * X[:, None, :],
        inner,
        outer[:, :, None] * units[:, None, :],
        outer,
    ]
    return np.concatenate([layer.reshape(len(X), -1) for layer in layers], axis=1)


def weights_of(shape, seed=0):
    inputs, hidden, classes = shape
    size = hidden * (inputs + 1) + classes * (hidden + 1)
    return np.random.default_rng(seed).normal(size=size) / np.sqrt(inputs)


def test_gradients_of_a_numpy_network_are_differences_of_its_losses():
    shape, rng = (3, 4, 3), np.random.default_rng(1)
    theta, X, y = weights_of(shape), rng.normal(size=(5, 3)), np.array([0.0, 1.0, 2.0, 2.0, 7.0])
    found = gradients_of(theta, X, y, shape)
    for j, unit in enumerate(np.eye(len(theta))):
        ahead, behind = (losses_of(theta + s * 1e-5 * unit, X, y, shape) for s in (1.0, -1.0))
        np.testing.assert_allclose(found[:, j], (ahead - behind) / 2e-5, atol=1e-8)


def test_a_numpy_network_learns_rings_under_privacy():
    """Rings that no linear rule separates; 202 weights, 2,000 records."""
    shape, rng = (2, 40, 2), np.random.default_rng(2)
    X = rng.normal(size=(2000, 2))
    y = (np.einsum("ij,ij->i", X, X) > 1.4).astype(float)

    def gradients(theta, X, y):
        return gradients_of(theta, X, y, shape)

    start = weights_of(shape) / 2.0
    objective = PerRecordObjective(
        gradients, dimension=len(start), lipschitz=10.0, smoothness=1.0, vectorized=True,
        block_rows=512,
    )  # fmt: skip
    result = dpfast.minimize(
        X, y, objective, privacy=3.0, start=start, noise=dpfast.SeededNoise(0),
        method=Adaptive(clip=1.0, step_size=0.1, last_share=0.05),
    )  # fmt: skip
    accuracy = np.mean(forward(result.params, X, shape)[1].argmax(axis=1) == y)
    assert accuracy > 0.85
    assert "depends on row i of the data only" in repr(result.privacy.conditions)


def page_block(language, number=0):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.M | re.S)[number]


def digits():
    """Made-up records of 64 numbers, one with a label that is no class."""
    rng = np.random.default_rng(3)
    return rng.random((20, 64)), np.array([*range(10), *range(9), 77], dtype=float)


def agree(gradients, theta, shape, rtol):
    """Equal to NumPy's; row i is the same, whatever the other rows are."""
    X, y = digits()
    found = np.asarray(gradients(theta, X, y), dtype=float)
    np.testing.assert_allclose(found, gradients_of(theta, X, y, shape), rtol=rtol, atol=1e-6)
    others = X.copy()
    others[1:] = 1e300  # infinite in single precision
    with np.errstate(all="ignore"):
        alone = np.asarray(gradients(theta, others, y), dtype=float)
    np.testing.assert_allclose(alone[0], found[0], rtol=rtol, atol=1e-6)


def test_the_page_of_networks_has_the_gradients_of_pytorch():
    pytest.importorskip("torch")
    names: dict[str, object] = {}
    exec(compile(page_block("python"), "docs/networks.md", "exec"), names)
    start = np.asarray(names["start"])
    assert len(start) == 2410
    agree(names["gradients"], start, (64, 32, 10), 1e-3)


def test_the_page_of_networks_has_the_gradients_of_jax():
    jax = pytest.importorskip("jax")

    def loss(theta, x, y):
        first, offset, second, last = jax.numpy.split(theta, [2048, 2080, 2400])
        units = jax.numpy.tanh(first.reshape(32, 64) @ x + offset)
        logs = jax.nn.log_softmax(second.reshape(10, 32) @ units + last)
        return -jax.numpy.where(jax.numpy.arange(10) == y, logs, 0.0).sum()

    names = {"jax": jax, "np": np, "loss": loss}
    exec(compile(page_block("text"), "docs/networks.md", "exec"), names)
    agree(names["gradients"], weights_of((64, 32, 10)), (64, 32, 10), 1e-3)


def test_batch_normalisation_is_refused_before_anything_is_spent():
    """There is no batch under ``vmap``, which sees one record."""
    torch = pytest.importorskip("torch")
    names: dict[str, object] = {}
    layers = "torch.nn.Linear(64, 32), torch.nn.BatchNorm1d(32), torch.nn.Tanh()"
    page = page_block("python").replace("torch.nn.Linear(64, 32), torch.nn.Tanh()", layers)
    exec(compile(page, "docs/networks.md", "exec"), names)
    assert any(isinstance(part, torch.nn.BatchNorm1d) for part in names["network"])
    objective = PerRecordObjective(
        names["gradients"], dimension=len(names["start"]), lipschitz=1.0, smoothness=1.0,
        vectorized=True,
    )  # fmt: skip
    ledger = dpfast.Ledger(1.0)
    with pytest.raises(ValueError, match="input"):
        dpfast.minimize(*digits(), objective, privacy=1.0, start=names["start"], ledger=ledger)
    assert not ledger.entries
