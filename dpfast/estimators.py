"""scikit-learn estimators (the ``sklearn`` extra): private fits in pipelines and cross-validation.

Nothing leaks through convenience: bounds, classes and the number of columns are declared, and
``score`` is a paid noisy query.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from dpfast.baselines import adassp
from dpfast.curator.vectors import RecordValues
from dpfast.errors import InvalidInput
from dpfast.inference.request import charge_shared
from dpfast.inference.results import Fit
from dpfast.models import Loss
from dpfast.privacy.budget import GDP, Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import EntropyNoise, NoiseSource, SeededNoise
from dpfast.regression import fit

__all__ = ["DPHuberRegressor", "DPLinearRegression", "DPLogisticRegression"]

Array = NDArray[np.float64]


class _PrivateEstimator(BaseEstimator):
    """What the three estimators share.

    Attributes
    ----------
    result_ : dpfast.Fit
        The released fit: standard errors, intervals, ledger, summary.
    coef_, intercept_ : ndarray, float
    n_features_in_ : int
        Public by declaration, like the names of the columns.
    """

    def _covariates(self, X: Any, *, reset: bool) -> Array:
        """Checked for shape and type; values may be anything."""
        return np.asarray(
            validate_data(self, X, reset=reset, ensure_all_finite=False, dtype=np.float64)
        )

    def _response(self, y: Any, n: int) -> Array:
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y "
                "is None."
            )
        y = column_or_1d(y, warn=True)
        if len(y) != n:
            raise InvalidInput(f"X has {n} rows and y has {len(y)} entries; each record needs one.")
        return self._encoded(y)

    def _encoded(self, y: Any) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(y, dtype=np.float64)

    def _noise(self) -> NoiseSource:
        seed = self.random_state
        if seed is None:
            return EntropyNoise()
        if hasattr(seed, "randint"):  # a generator of scikit-learn's callers: a simulation, too
            seed = seed.randint(2**31)
        return SeededNoise(int(seed))

    def _shared_options(self) -> dict[str, Any]:
        return {
            "privacy": self.privacy,
            "fit_intercept": self.fit_intercept,
            "ledger": self.ledger,
            "noise": self._noise(),
            "names": getattr(self, "feature_names_in_", np.array([])).tolist() or None,
        }

    def _keep(self, result: Fit) -> Any:
        self.result_ = result
        self.intercept_: Any = float(result.params[0]) if self.fit_intercept else 0.0
        self.coef_ = result.params[1:] if self.fit_intercept else result.params
        return self

    def _linear(self, X: Any) -> Array:
        check_is_fitted(self, "coef_")
        with np.errstate(all="ignore"):
            return np.asarray(
                self._covariates(X, reset=False) @ np.ravel(self.coef_) + self.intercept_
            )

    def _paid_score(self, losses: Array, upper: float) -> float:
        """Noisy mean of per-record losses in [0, upper], charged before they are averaged."""
        if self.score_privacy is None:
            raise InvalidInput(
                "score() answers a question about the records it is given, so it has a price. Set "
                "score_privacy=..., or use nonprivate_score() on data that are public."
            )
        total = GDP.within(self.score_privacy)
        values = RecordValues(len(losses), Ledger(total), self._noise())
        values.loss_receipt(0.0, upper, total.mu)  # refuses what is impossible, free of charge
        charge_shared(self.ledger, self.score_privacy, total, f"{type(self).__name__}.score")
        values.append(losses)
        return float(values.mean_loss(0, 0.0, upper, total.mu).value[0])


class _Regressor(RegressorMixin, _PrivateEstimator):
    def predict(self, X: ArrayLike) -> Array:
        """Predicted response, shape (m,)."""
        return self._linear(X)

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Noisy ``1 - mean(min(|y - prediction|, error_bound)) / error_bound``; higher is better.

        Privacy
        -------
        Costs ``score_privacy``, charged to the ledger (claim G4 of PROOFS-bayesopt.md).
        """
        predicted = self.predict(X)
        with np.errstate(all="ignore"):
            losses = np.abs(self._response(y, len(predicted)) - predicted)
        return 1.0 - self._paid_score(losses, self._error_bound()) / self._error_bound()

    def nonprivate_score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Coefficient of determination on public data: **not private**."""
        return float(RegressorMixin.score(self, X, y))

    def _error_bound(self) -> float:
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # such a record contributes exactly zero
        tags.regressor_tags.poor_score = True  # the noise on tiny test data hides the signal
        return tags


class DPHuberRegressor(_Regressor):
    """Robust linear regression under differential privacy (see :func:`dpfast.fit`).

    Parameters
    ----------
    privacy : float or Budget
        Total of one ``fit``, intervals included; a float is mu of Gaussian DP.
    loss : str or Loss
        "log-cosh" (default), "huber", "pseudo-huber", or a dpfast loss.
    scale : float
        Public: typical size of a residual in the units of y.
    weights : Mallows, Bounded or None
        How a record's covariates are bounded; default Mallows weights.
    fit_intercept : bool
    ridge : float
        Public ridge penalty.
    inference : bool
        Buy standard errors (``result_``) with a part of the budget.
    score_privacy : float, Budget or None
        Price of one ``score``; None refuses to score.
    ledger : Ledger, optional
        Budget shared with other fits: each ``fit`` and ``score`` is charged, and refused when it
        is exhausted.  Clones share it, so the folds of a cross-validation do.
    random_state : int or None
        None: operating-system entropy.  An integer is for simulation and voids the guarantee.

    Privacy
    -------
    As :func:`dpfast.fit`.  Cross-validation fits overlapping sets of records: every fold is
    charged in full.
    """

    def __init__(
        self,
        privacy: Budget | float = 1.0,
        *,
        loss: str | Loss = "log-cosh",
        scale: float = 1.0,
        weights: Any = None,
        fit_intercept: bool = True,
        ridge: float = 0.0,
        inference: bool = True,
        score_privacy: Budget | float | None = None,
        ledger: Ledger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.privacy = privacy
        self.loss = loss
        self.scale = scale
        self.weights = weights
        self.fit_intercept = fit_intercept
        self.ridge = ridge
        self.inference = inference
        self.score_privacy = score_privacy
        self.ledger = ledger
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> DPHuberRegressor:
        """Fit; spends ``privacy``."""
        X = self._covariates(X, reset=True)
        y = self._response(y, len(X))
        options = self._shared_options()
        return self._keep(
            fit(
                X,
                y,
                self.loss,
                scale=self.scale,
                weights=self.weights,
                ridge=self.ridge,
                inference=self.inference,
                **options,
            )
        )

    def _error_bound(self) -> float:
        return 5.0 * self.scale


class DPLinearRegression(_Regressor):
    """Least squares under differential privacy from noisy statistics (AdaSSP, Wang 2018).

    Parameters
    ----------
    privacy : float or Budget
        Total of one ``fit``.
    x_bound, y_bound : float
        Public bounds on the norm of a row (intercept included) and on ``|y|``; records outside
        are projected.
    fit_intercept, score_privacy, ledger, random_state
        As in :class:`DPHuberRegressor`.

    Privacy
    -------
    As :func:`dpfast.baselines.adassp`.
    """

    def __init__(
        self,
        privacy: Budget | float = 1.0,
        *,
        x_bound: float = 2.0,
        y_bound: float = 1.0,
        fit_intercept: bool = True,
        score_privacy: Budget | float | None = None,
        ledger: Ledger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.privacy = privacy
        self.x_bound = x_bound
        self.y_bound = y_bound
        self.fit_intercept = fit_intercept
        self.score_privacy = score_privacy
        self.ledger = ledger
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> DPLinearRegression:
        """Fit; spends ``privacy``."""
        X = self._covariates(X, reset=True)
        y = self._response(y, len(X))
        options = self._shared_options()
        return self._keep(adassp(X, y, x_bound=self.x_bound, y_bound=self.y_bound, **options))

    def _error_bound(self) -> float:
        return 2.0 * self.y_bound


class DPLogisticRegression(ClassifierMixin, _PrivateEstimator):
    """Logistic regression for two declared classes (see :func:`dpfast.fit`).

    Parameters
    ----------
    privacy : float or Budget
        Total of one ``fit``, intervals included.
    classes : sequence of two labels
        Public: the negative class, then the positive one.  They are never taken from y; a record
        with any other label contributes exactly zero.
    weights, fit_intercept, ridge, inference, score_privacy, ledger, random_state
        As in :class:`DPHuberRegressor`.

    Privacy
    -------
    As :func:`dpfast.fit`.
    """

    def __init__(
        self,
        privacy: Budget | float = 1.0,
        *,
        classes: Sequence[Any] = (0, 1),
        weights: Any = None,
        fit_intercept: bool = True,
        ridge: float = 0.0,
        inference: bool = True,
        score_privacy: Budget | float | None = None,
        ledger: Ledger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.privacy = privacy
        self.classes = classes
        self.weights = weights
        self.fit_intercept = fit_intercept
        self.ridge = ridge
        self.inference = inference
        self.score_privacy = score_privacy
        self.ledger = ledger
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> DPLogisticRegression:
        """Fit; spends ``privacy``."""
        X = self._covariates(X, reset=True)
        y = self._response(y, len(X))
        options = self._shared_options()
        result = fit(
            X,
            y,
            "logistic",
            weights=self.weights,
            ridge=self.ridge,
            inference=self.inference,
            **options,
        )
        self._keep(result)
        self.coef_ = np.reshape(self.coef_, (1, -1))
        self.intercept_ = np.array([self.intercept_])
        self.classes_ = self._declared()
        return self

    def _declared(self) -> NDArray[Any]:
        classes = np.asarray(self.classes)
        if classes.shape != (2,) or classes[0] == classes[1]:
            raise InvalidInput(
                "classes must be two different labels, the negative one first; received "
                f"{self.classes!r}."
            )
        return classes

    def _encoded(self, y: Any) -> Array:
        negative, positive = self._declared()
        with np.errstate(all="ignore"):
            return np.where(y == positive, 1.0, np.where(y == negative, 0.0, np.nan))

    def decision_function(self, X: ArrayLike) -> Array:
        """Linear predictor, positive for the positive class, shape (m,)."""
        return self._linear(X)

    def predict_proba(self, X: ArrayLike) -> Array:
        """Probability of each class, shape (m, 2)."""
        from scipy.special import expit

        positive = expit(self._linear(X))
        return np.column_stack([1.0 - positive, positive])

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The more probable class of each row, shape (m,)."""
        positive = self._linear(X) > 0.0
        return np.asarray(self.classes_[positive.astype(int)])

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Noisy accuracy.

        Privacy
        -------
        Costs ``score_privacy``, charged to the ledger (claim G4 of PROOFS-bayesopt.md).
        """
        predicted = self._encoded(self.predict(X))
        wrong = np.abs(self._response(y, len(predicted)) - predicted)
        return 1.0 - self._paid_score(wrong, 1.0)

    def nonprivate_score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Exact accuracy on public data: **not private**."""
        return float(ClassifierMixin.score(self, X, y))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # such a record contributes exactly zero
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # the noise on tiny test data hides the signal
        return tags
