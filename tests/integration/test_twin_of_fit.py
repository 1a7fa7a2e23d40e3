"""The default fit against its twin in plain NumPy: same questions, prices, noise and results."""

import numpy as np
import pytest

import dpfast
from tests.twins.default_fit import fit


def table(n, q, loss, seed):
    rng = np.random.default_rng(seed)
    X = rng.gamma(2.0, size=(n, q)) * np.exp(rng.uniform(-3, 3, q)) + rng.uniform(-5, 5, q)
    eta = (X - X.mean(0)) / X.std(0) @ np.linspace(0.2, 0.8, q)
    y = eta + rng.normal(size=n)
    return X, (y > 0.0) * 1.0 if loss == "logistic" else 100.0 + 7.0 * y


# A step on the grid of the noise may go the other way where reads differ in their last digit, so
# agreement ends at about 1e-5 standard errors.  Where a curvature that is shrunk to a multiple of
# the identity has no eigenvectors of its own, the noise is turned with them: other seeds.
@pytest.mark.parametrize(
    ("n", "q", "loss", "mu", "seed"),
    [(1000, 4, "least-squares", 1.0, seed) for seed in range(4)]
    + [(10_000, 10, "least-squares", 1.0, seed) for seed in range(2)]
    + [(1000, 4, "logistic", 1.0, seed) for seed in (3, 4, 5)]
    + [(10_000, 6, "logistic", 6.0, seed) for seed in (0, 1, 2)],
)
def test_one_seed_gives_the_result_of_the_twin(n, q, loss, mu, seed):
    X, y = table(n, q, loss, seed)
    X[::97, 0] = np.nan  # rows that contribute nothing
    found = dpfast.fit(X, y, privacy=mu, loss=loss, noise=dpfast.SeededNoise(seed))
    twin = fit(X, y, loss, mu, dpfast.SeededNoise(seed))
    errors = np.sqrt(np.diag(twin.cov))
    assert np.abs((found.params - twin.params) / errors).max() < 1e-3
    assert np.abs((found.cov_params() - twin.cov) / np.outer(errors, errors)).max() < 1e-3
    charged = [mu for _, mu in found.privacy.entries]
    assert charged == pytest.approx(twin.mus, rel=1e-9)
