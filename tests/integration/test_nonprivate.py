"""``nonprivate_fit`` finds the minimum, or says that there is none: 20 tables by statsmodels."""

import numpy as np
import pytest
from scipy.special import expit

import dpfast
from dpfast.datasets import load_census2000
from dpfast.errors import NotConverged
from dpfast.models.names import all_losses
from tests.loops import each

EVERYTHING = dpfast.Mallows(1e50)  # no record is down-weighted
N = 400


def covariates(seed=0, n=N):
    rng = np.random.default_rng(seed)
    return rng, rng.normal(size=(n, 3))


def bundled(name, columns=slice(None), target=None):
    """X and y of one of scikit-learn's tables; a column of the data itself if `target` is set."""
    datasets = pytest.importorskip("sklearn.datasets")
    data = getattr(datasets, f"load_{name}")()
    y = data.target if target is None else data.data[:, target]
    return data.data[:, columns], (y[:, 0] if y.ndim == 2 else y).astype(float)


def linear(shift=0.0, scale=1.0, noise=None, columns=(1.0, 1.0, 1.0)):
    rng, X = covariates()
    e = rng.normal(size=N) if noise is None else noise(rng)
    return X * columns, scale * (shift + X @ [1.0, -2.0, 0.5] + e)


def rare_and_far():
    rng, _ = covariates()
    G = (rng.random((2000, 2)) < [0.007, 0.5]).astype(float)
    return G, 13 + 1.3 * G[:, 0] + 0.3 * rng.normal(size=2000) + 40 * (rng.random(2000) < 0.05)


def clusters():
    X, y = linear()
    return X, y + np.where(np.arange(N) % 3 == 0, -100.0, 100.0)


def nearly_collinear():
    X, y = linear()
    X[:, 1] = X[:, 0] + 1e-3 * X[:, 1]
    return X, y


def census():
    table = load_census2000()
    X = np.column_stack([table["education"], table["experience"]]).astype(float)[:2000]
    return X, np.asarray(table["log_wage"], dtype=float)[:2000]


#: name -> (table, scale)
HUBER = {
    "diabetes": (lambda: bundled("diabetes"), 50.0),
    "linnerud": (lambda: bundled("linnerud"), 20.0),
    "iris": (lambda: bundled("iris", slice(0, 3), 3), 0.2),
    "wine": (lambda: bundled("wine", slice(1, 6), 0), 0.5),
    "breast cancer": (lambda: bundled("breast_cancer", [0, 1, 4, 5], 3), 50.0),
    "census": (census, 0.5),
    "all beyond the corner": (lambda: linear(50.0), 1.0),
    "far": (lambda: linear(1e6), 1.0),
    "scale far too small": (lambda: linear(20.0), 1e-2),
    "scale far too large": (linear, 1e3),
    "heavy tails": (lambda: linear(noise=lambda rng: rng.standard_cauchy(N)), 1.0),
    "units": (lambda: linear(3.0, columns=(1e-6, 1.0, 1e6)), 1.0),
    "large response": (lambda: linear(3.0, scale=1e9), 1e9),
    "nearly collinear": (nearly_collinear, 1.0),
    "a rare and far level": (rare_and_far, 0.1),
    "two clusters": (clusters, 1.0),
}


def binary(coefficients, columns=(1.0, 1.0, 1.0), n=2000):
    rng, X = covariates(1, n)
    t = coefficients[0] + X @ coefficients[1:]
    return X * columns, (rng.random(n) < expit(t)).astype(float)


def two_classes(name, columns, first):
    X, y = bundled(name, columns)
    return X, (y == first).astype(float)


LOGISTIC = {
    "breast cancer": lambda: two_classes("breast_cancer", [0, 1], 1),
    "wine": lambda: two_classes("wine", [0, 1], 0),
    "rare events": lambda: binary([-5.0, 0.5, -0.5, 0.5]),
    "steep": lambda: binary([0.0, 5.0, -5.0, 3.0]),
    "units": lambda: binary([-1.0, 0.5, -0.5, 0.5], (1e-6, 1.0, 1e6)),
}


def sandwich(A, psi, slope):
    """Errors of ``theta`` when records score ``psi a`` and curve by ``slope a a'``."""
    H, Q = (A.T * slope) @ A, (A.T * psi**2) @ A
    P = np.linalg.inv(H)
    return np.sqrt((P @ Q @ P).diagonal())


@each("name", HUBER)
def test_huber_agrees_with_statsmodels(name):
    sm = pytest.importorskip("statsmodels.api")
    (X, y), scale = HUBER[name][0](), HUBER[name][1]
    A = np.column_stack([np.ones(len(X)), X])
    A, units = A / np.abs(A).max(axis=0), np.abs(A).max(axis=0)

    class Known(sm.robust.scale.HuberScale):
        def __call__(self, df_resid, nobs, resid):
            return scale

    model = sm.RLM(y, A, M=sm.robust.norms.HuberT(1.345))
    rlm = model.fit(scale_est=Known(), maxiter=1000, tol=1e-9 * scale, conv="coefs")
    fit = dpfast.nonprivate_fit(X, y, dpfast.Objective("huber", weights=EVERYTHING, scale=scale))
    r = (y - A @ rlm.params) / scale
    bse = sandwich(A, np.clip(r, -1.345, 1.345), (np.abs(r) <= 1.345) / scale)
    np.testing.assert_allclose((fit.params * units - rlm.params) / bse, 0.0, atol=1e-4)
    np.testing.assert_allclose(fit.bse * units, bse, rtol=1e-4)
    assert fit.warnings == ()


@each("name", LOGISTIC)
def test_logistic_agrees_with_statsmodels(name):
    sm = pytest.importorskip("statsmodels.api")
    X, y = LOGISTIC[name]()
    A = np.column_stack([np.ones(len(X)), X])
    A, units = A / np.abs(A).max(axis=0), np.abs(A).max(axis=0)
    glm = sm.GLM(y, A, family=sm.families.Binomial()).fit(cov_type="HC0", tol=1e-14)
    fit = dpfast.nonprivate_fit(X, y, dpfast.Objective("logistic", weights=EVERYTHING))
    np.testing.assert_allclose((fit.params * units - glm.params) / glm.bse, 0.0, atol=1e-6)
    np.testing.assert_allclose(fit.bse * units, glm.bse, rtol=1e-6)


@pytest.mark.parametrize("loss", ["log-cosh", "pseudo-huber", "smoothed-huber"])
def test_far_smooth_losses_are_stationary(loss):
    """Their curvature does not vanish a hundred scales away, it underflows."""
    X, y = linear(5_000.0)
    fit = dpfast.nonprivate_fit(X, y, dpfast.Objective(loss, weights=EVERYTHING, scale=1.0))
    psi = dpfast.models.resolve_loss(loss).psi(y - fit.predict(X))
    np.testing.assert_allclose(psi @ np.column_stack([np.ones(N), X]) / N, 0.0, atol=1e-9)
    assert (fit.bse > 0.01).all() and (fit.bse < 1.0).all()


@each("loss", ["least-squares", "log-cosh", "huber", "quantile"])
def test_an_exact_relation_is_found_whatever_the_units(loss):
    """All residuals and scores are rounding, and so is a scale that would be estimated."""
    X = np.random.default_rng(1).normal(size=(300, 3)) * [1.0, 1e3, 1e-3]
    fit = dpfast.nonprivate_fit(X, X @ [1.0, 2.0, 1e3] + 100.0, loss)
    np.testing.assert_allclose(fit.params, [100.0, 1.0, 2.0, 1e3], rtol=1e-6)


@pytest.mark.filterwarnings("error")
def test_units_without_end_do_not_warn():
    X, y = linear()
    with pytest.raises(dpfast.errors.DpfastError):
        dpfast.nonprivate_fit(X, 1e200 * y, "least-squares")


def separated():
    X, _ = linear()
    return X, (X[:, 0] > 0).astype(float)


@pytest.mark.parametrize("table", [separated, lambda: (linear()[0], np.zeros(N))])
def test_no_minimum_is_an_error_that_quotes_nothing(table):
    X, y = table()
    with pytest.raises(NotConverged, match="separate the classes") as error:
        dpfast.nonprivate_fit(X, y, "logistic", max_steps=100)
    assert "100 steps" in str(error.value)
    ridge = dpfast.nonprivate_fit(X, y, dpfast.Objective("logistic", ridge=1e-3))
    assert np.isfinite(ridge.bse).all() and ridge.warnings == ()


@pytest.mark.parametrize("kind", ["twice", "constant", "zero"])
def test_what_the_data_do_not_determine_has_no_standard_error(kind):
    X, y = linear(30.0)
    more = {"twice": X[:, [0]], "constant": np.full((N, 1), 7.0), "zero": np.zeros((N, 1))}[kind]
    lost = {"twice": [1, 4], "constant": [0, 4], "zero": [4]}[kind]
    fit = dpfast.nonprivate_fit(
        np.hstack([X, more]), y, dpfast.Objective("huber", weights=EVERYTHING, scale=1.0)
    )
    plain = dpfast.nonprivate_fit(X, y, dpfast.Objective("huber", weights=EVERYTHING, scale=1.0))
    np.testing.assert_allclose(fit.predict(np.hstack([X, more])), plain.predict(X), atol=1e-6)
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(fit.bse)), lost)
    kept = np.setdiff1d(np.arange(4), lost)
    np.testing.assert_allclose(fit.bse[kept], plain.bse[kept], rtol=1e-6)
    assert len(fit.warnings) == 1 and "not determined" in fit.warnings[0]
    assert "nan" in fit.summary()


def test_a_level_beyond_the_corner_on_both_sides_has_no_standard_error():
    """Its coefficient is any number between; the curvature along it is exactly zero."""
    X, y = linear()
    level = np.zeros((N, 1))
    level[:2] = 1.0
    y[:2] = X[:2] @ [1.0, -2.0, 0.5] + [60.0, 40.0]
    fit = dpfast.nonprivate_fit(
        np.hstack([X, level]), y, dpfast.Objective("huber", weights=EVERYTHING, scale=1.0)
    )
    assert 40.0 < fit.params[4] < 60.0
    assert np.isnan(fit.bse[4]) and np.isfinite(fit.bse[:4]).all()
    assert fit.warnings


def test_a_scale_at_its_bound():
    X, y = linear(5.0)
    free = dpfast.FreeScale(3.0, 30.0)
    fit = dpfast.nonprivate_fit(X, y, dpfast.Objective("huber", weights=EVERYTHING, scale=free))
    known = dpfast.nonprivate_fit(X, y, dpfast.Objective("huber", weights=EVERYTHING, scale=3.0))
    assert fit.scale == pytest.approx(3.0)
    np.testing.assert_allclose(fit.params[:4], known.params, rtol=1e-8)


@each("loss", [name for name, kind in all_losses().items() if kind.supports_default_fit])
def test_the_call_of_a_private_fit_needs_no_more(loss):
    """Raw columns, nothing declared: the same target, which a large budget finds; by statsmodels.

    Errors of fits with mu = 30 are below .1 standard errors, .5 are never; weights of rows in raw
    units would put these tens away.
    """
    rng = np.random.default_rng(3)
    X = rng.normal(size=(4000, 2)) * [1.0, 100.0] + [0.0, 300.0]
    t = 0.5 * X[:, 0] + 0.003 * X[:, 1] - 1.0
    y, kind = 10.0 * (t + rng.standard_t(4, 4000)), all_losses()[loss]
    if kind.binary_response:
        y = (t + rng.logistic(size=4000) > 0.0).astype(float)
    elif loss == "gamma":
        y = np.exp(t) * rng.gamma(2.0, size=4000)
    elif kind.link != "identity":
        y = rng.poisson(np.exp(t)).astype(float)
    exact = dpfast.nonprivate_fit(X, y, loss)
    private = dpfast.fit(X, y, loss, privacy=30.0, noise=dpfast.SeededNoise(0))
    assert np.abs((private.params - exact.params) / exact.bse).max() < 0.5
    if kind.needs_scale:
        A = np.column_stack([np.ones(4000), X])
        residuals = y - A @ np.linalg.lstsq(A, y, rcond=None)[0]
        assert exact.scale == pytest.approx(np.median(np.abs(residuals)) / 0.6745, rel=0.01)
        assert private.scale == pytest.approx(exact.scale, rel=0.1)
    if loss in ("poisson", "logistic"):
        sm = pytest.importorskip("statsmodels.api")
        family = {"poisson": sm.families.Poisson(), "logistic": sm.families.Binomial()}[loss]
        theirs = sm.GLM(y, sm.add_constant(X), family=family).fit(cov_type="HC0")
        np.testing.assert_allclose(exact.params, theirs.params, rtol=1e-6)
        np.testing.assert_allclose(exact.bse, theirs.bse, rtol=1e-6)
