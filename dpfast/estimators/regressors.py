"""Regressions as scikit-learn estimators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin

from dpfast.data.records import Covariates
from dpfast.errors import InvalidInput, described, understood
from dpfast.estimators.base import Array, MEstimator, PrivateEstimator
from dpfast.models import Loss
from dpfast.models.poisson import Poisson
from dpfast.models.quantile import Quantile


class PrivateRegressor(RegressorMixin, PrivateEstimator):
    """Base class of the regressors.

    Parameters
    ----------
    X : array-like of shape (m, q)
        Of predictions and scores; any values are allowed.
    y : array-like of shape (m,)
    """

    def predict(self, X: ArrayLike) -> Array:
        """Predict the response, shape (m,); NaN for a row with a value that is not finite.

        Privacy
        -------
        Costs nothing for public rows.  The prediction for a private row reveals that row.
        """
        return self._linear(X)

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Estimate ``1 - mean(min(|y - prediction|, bound)) / bound`` with noise; higher is better.

        A quantile is scored by its check loss instead of the absolute error.  The bound is ``5
        scale``, with the declared or released scale of residuals.  For least squares it is five
        released scales of the response; for counts ``largest_residual``.  Noise may take a score
        outside [0, 1].

        Privacy
        -------
        Costs ``score_privacy``, charged to the ledger (claim G4 of PROOFS-bayesopt.md).
        """
        return self._score(X, y)

    def nonprivate_score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Compute the coefficient of determination on public data: **not private**.

        Privacy
        -------
        None: must not be published, or acted upon, where the data are private.
        """
        return float(RegressorMixin.score(self, X, self._exact(X, y)))

    def _loss_bound(self) -> float:
        """Return five scales, of residuals (declared or released) or of the response."""
        result = self.result_
        coded = result.coded.coding
        if getattr(self, "scale", None) is not None:
            size = float(self.scale)
        elif result._free_scale:
            size = float(result.scale)
        else:
            size = float(coded.response_units()[1]) if coded is not None else 0.2
        return min(5.0 * size, float(np.finfo(np.float64).max))

    def _losses(self, X: Covariates, y: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.abs(y - self._linear_of(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # such a record contributes exactly zero
        tags.regressor_tags.poor_score = True  # the noise on tiny test data hides the signal
        return tags


@understood
@dataclass(kw_only=True, eq=False, repr=False)
class DPHuberRegressor(PrivateRegressor, MEstimator):
    """Robust linear regression under differential privacy (see :func:`dpfast.fit`).

    Parameters
    ----------
    privacy : float or Budget
        Total of one ``fit``, intervals included; a float is mu of Gaussian DP.
    loss : str or Loss
        "log-cosh" (default), "huber", "pseudo-huber", or a dpfast loss.
    scale : float, optional
        Public: typical size of a residual in the units of y.  By default it is estimated within
        the total, as are centres and scales of the columns (see ``standardize``).  This needs some
        hundred records at mu = 1.
    standardize : bool, optional
        As for :func:`dpfast.fit`: estimate centres and scales of the columns (True), use the
        columns unchanged (False), or estimate if no scale and no weights are declared (None).
    weights : Mallows, Bounded or None
        How a record's covariates are bounded; default Mallows weights.
    fit_intercept : bool
    ridge : float
        Public ridge penalty.
    inference : bool
        Spend part of the budget on standard errors (``result_``).
    largest_weight : float, optional
        Public bound on the weights that ``fit`` may be given, as for :func:`dpfast.fit`.
    score_privacy : float, Budget or None
        Price of one ``score``; None refuses to score.
    ledger : Ledger, optional
        Budget shared with other fits: each ``fit`` and ``score`` is charged, and refused when it
        is exhausted.  Clones share it, so the folds of a cross-validation do.
    noise : NoiseSource, optional
        Default: operating-system entropy.  ``SeededNoise`` is for simulation and voids the
        guarantee; clones draw from the same source, one after the other, while copies in other
        processes (``n_jobs``) repeat each other's numbers.  There is no ``random_state``, which
        ensembles would set.

    Privacy
    -------
    As for :func:`dpfast.fit`, for the records of one ``fit``.  ``result_.privacy`` is the price of
    that fit alone.  :func:`dpfast.estimators.cross_validate` plans and pays a whole
    cross-validation; tools of scikit-learn pay each fit and score on its own from the ledger, and
    some of what they do **no estimator can prevent**:

    * an integer ``cv`` stratifies the folds of a classifier by exact labels, and one record moves
      others; use :class:`dpfast.estimators.DealtFolds`;
    * a bootstrap of rows copies a record several times into a fit that pays for one of it
      (``BaggingRegressor`` counts copies by weights, which need ``largest_weight`` and are paid);
    * ``AdaBoostRegressor``, ``AdaBoostClassifier``, ``StackingRegressor``, ``StackingClassifier``,
      ``CalibratedClassifierCV``, ``TunedThresholdClassifierCV``, ``RANSACRegressor``, ``RFECV`` and
      ``SelfTrainingClassifier`` compute from exact residuals, labels or scores, and keep or follow
      what they find; ensembles of classifiers find their classes in the labels;
    * ``scoring=`` other than the estimator's own ``score`` is exact: it hands out residuals of
      records left out;
    * ``StandardScaler``, imputers and feature selection before the estimator in a pipeline learn
      from records without paying.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> y = 0.5 * X[:, 0]
    >>> model = dpfast.estimators.DPHuberRegressor(privacy=1.0, scale=1.0, score_privacy=1.0)
    >>> model = model.fit(X, y)
    >>> model.predict(X).shape, type(model.score(X, y)), model.nonprivate_score(X, y) < 1.0
    ((200,), <class 'float'>, True)
    """

    loss: str | Loss = "log-cosh"
    scale: float | None = None
    ridge: float = 0.0

    def _model(self) -> str | Loss:
        return self.loss


@understood
@dataclass(kw_only=True, eq=False, repr=False)
class DPQuantileRegressor(PrivateRegressor, MEstimator):
    """Linear regression of a quantile under differential privacy (:class:`dpfast.Quantile`).

    Similar to scikit-learn's ``QuantileRegressor``, without its L1 penalty.  The estimand is the
    quantile of the response plus independent logistic noise of the bandwidth's width.

    Parameters
    ----------
    quantile : float
        Level, between 0 and 1; default the median.
    bandwidth : float, optional
        Smoothing, in units of the scale; by default from the level, n, p and the budget.
    privacy, scale, standardize, weights, fit_intercept, inference, largest_weight, score_privacy
        As in :class:`DPHuberRegressor`.
    ledger, noise
        Likewise.

    Privacy
    -------
    As for :class:`DPHuberRegressor`.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 400)[:, None]
    >>> model = dpfast.estimators.DPQuantileRegressor(privacy=1.0, quantile=0.9, scale=0.1)
    >>> model.fit(X, 0.5 * X[:, 0] + 0.1 * np.sin(40.0 * X[:, 0])).predict(X).shape
    (400,)
    """

    quantile: float = 0.5
    bandwidth: float | None = None
    scale: float | None = None

    def _model(self) -> Loss:
        return Quantile(self.quantile, self.bandwidth)

    def _losses(self, X: Covariates, y: Array) -> Array:
        """Compute check losses: at most the absolute errors, and never negative."""
        tau = Quantile(self.quantile).tau
        with np.errstate(all="ignore"):
            residual = y - self._linear_of(X)
            return np.maximum(tau * residual, (tau - 1.0) * residual)


@understood
@dataclass(kw_only=True, eq=False, repr=False)
class DPPoissonRegressor(PrivateRegressor, MEstimator):
    """Poisson regression of counts under differential privacy (:class:`dpfast.Poisson`).

    The link is the logarithm, as in scikit-learn's ``PoissonRegressor``; there is no penalty by
    default.  Predictions are mean counts.

    Parameters
    ----------
    loss : Poisson
        Sets the public bounds: no mean above ``largest_mean`` is modelled.
    standardize : bool, optional
        As in :class:`DPLogisticRegression`.
    privacy, weights, fit_intercept, ridge, inference, largest_weight, score_privacy, ledger, noise
        As in :class:`DPHuberRegressor`.

    Privacy
    -------
    As for :class:`DPHuberRegressor`.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 400)[:, None]
    >>> counts = dpfast.Poisson(largest_mean=4.0)
    >>> model = dpfast.estimators.DPPoissonRegressor(privacy=1.0, loss=counts)
    >>> bool((model.fit(X, np.round(np.exp(X[:, 0]))).predict(X) > 0.0).all())
    True
    """

    loss: str | Poisson = "poisson"
    ridge: float = 0.0

    def _model(self) -> Poisson:
        loss = Poisson() if isinstance(self.loss, str) and self.loss == Poisson.name else self.loss
        if not isinstance(loss, Poisson):
            raise InvalidInput(
                f"loss must be a dpfast.Poisson; received {described(loss, text=True)}."
            )
        return loss

    def predict(self, X: ArrayLike) -> Array:
        """Predict mean counts, shape (m,)."""
        return self._model().mean(self._linear(X))

    def _losses(self, X: Covariates, y: Array) -> Array:
        """Compute absolute errors of mean counts."""
        with np.errstate(all="ignore"):
            return np.abs(y - self._model().mean(self._linear_of(X)))

    def _loss_bound(self) -> float:
        return self._model().largest_residual


@understood
@dataclass(kw_only=True, eq=False, repr=False)
class DPLinearRegression(PrivateRegressor):
    """Least squares under differential privacy, with standard errors in ``result_``.

    The coefficients of ordinary least squares with nothing declared
    (``dpfast.fit(X, y, "least-squares")``).

    Parameters
    ----------
    privacy, fit_intercept, largest_weight, score_privacy, ledger, noise
        As in :class:`DPHuberRegressor`.

    Privacy
    -------
    As of :class:`DPHuberRegressor`.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> dpfast.estimators.DPLinearRegression(privacy=1.0).fit(X, 0.5 * X[:, 0]).coef_.shape
    (1,)
    """

    def _model(self) -> str:
        return "least-squares"
