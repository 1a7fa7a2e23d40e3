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
    X[::97, 0] = np.nan  # rows that contribute nothing
    return X, (y > 0.0) * 1.0 if loss == "logistic" else 100.0 + 7.0 * y


def difference(n, q, loss, mu, seed):
    """How far the two are from each other, in standard errors; infinite at other prices."""
    X, y = table(n, q, loss, seed)
    found = dpfast.fit(X, y, privacy=mu, loss=loss, noise=dpfast.SeededNoise(seed))
    twin = fit(X, y, loss, mu, dpfast.SeededNoise(seed))
    charged = [mu for _, mu in found.privacy.entries]
    if len(charged) != len(twin.mus) or not np.allclose(charged, twin.mus, rtol=1e-9, atol=0.0):
        return np.inf
    errors = np.sqrt(np.diag(twin.cov))
    of_params = np.abs((found.params - twin.params) / errors).max()
    of_cov = np.abs((found.cov_params() - twin.cov) / np.outer(errors, errors)).max()
    return max(of_params, of_cov)


# A step on the grid of the noise may go the other way where reads differ in their last digit, so
# agreement ends at about 1e-5 standard errors.
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("n", "q"), [(1000, 4), (10_000, 10)])
def test_one_seed_gives_the_result_of_the_twin(n, q, seed):
    assert difference(n, q, "least-squares", 1.0, seed) < 1e-3


@pytest.mark.parametrize(("n", "q", "mu"), [(1000, 4, 1.0), (10_000, 3, 4.0)])
def test_so_do_most_seeds_of_a_curvature_that_changes(n, q, mu):
    """Of eigenvalues that rounding alone tells apart, the vectors are chosen by it.

    The noise is turned with them, and such fits differ by a part of their standard errors.
    """
    found = [difference(n, q, "logistic", mu, seed) for seed in range(10)]
    assert np.median(found) < 1e-3, found
    assert sum(d > 3.0 for d in found) <= 2, found
