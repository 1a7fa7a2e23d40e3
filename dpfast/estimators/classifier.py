"""Logistic regression as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin

from dpfast.data.classes import comparable, encoded, label_kind
from dpfast.data.records import Covariates
from dpfast.errors import InvalidInput, understood
from dpfast.estimators.base import Array, MEstimator
from dpfast.inference.results import Fit


@understood
@dataclass(kw_only=True, eq=False, repr=False)
class DPLogisticRegression(ClassifierMixin, MEstimator):
    """Logistic regression for two declared classes (see :func:`dpfast.fit`).

    Parameters
    ----------
    privacy : float or Budget
        Total of one ``fit``, intervals included.
    classes : sequence of two labels
        Public: the negative class, then the positive one.  They are never inferred from y; a record
        with any other label contributes exactly zero.  Text labels with numeric classes, or
        the reverse, are refused by dtype.
    standardize : bool, optional
        As for :func:`dpfast.fit`: estimate centres and scales of the columns within the total; by
        default unless ``weights`` are declared.
    weights, fit_intercept, ridge, inference, largest_weight, score_privacy, ledger, noise
        As in :class:`DPHuberRegressor`.
    X : array-like of shape (m, q)
        Of predictions and scores; any values are allowed.
    y : array-like of shape (m,)
        An undeclared label counts as half an error.

    Privacy
    -------
    As for :class:`DPHuberRegressor`.  For a classifier an integer ``cv`` means folds that are
    **stratified by exact labels**, so that one record moves others between folds.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> y = np.where(X[:, 0] > 0.0, "yes", "no")
    >>> model = dpfast.estimators.DPLogisticRegression(privacy=1.0, classes=("no", "yes")).fit(X, y)
    >>> model.predict_proba(X).shape, model.predict(X).shape, model.decision_function(X).shape
    ((200, 2), (200,), (200,))
    >>> 0.0 <= model.nonprivate_score(X, y) <= 1.0
    True
    """

    classes: Sequence[Any] = (0, 1)
    ridge: float = 0.0

    def _model(self) -> str:
        return "logistic"

    def _keep(self, result: Fit) -> Any:
        super()._keep(result)
        self.coef_ = np.reshape(self.coef_, (1, -1))
        self.intercept_ = np.array([self.intercept_])
        self.classes_ = self._declared()
        return self

    def _declared(self) -> NDArray[Any]:
        classes = _own_array(self.classes)
        if classes.shape != (2,) or classes[0] == classes[1] or (classes != classes).any():
            raise InvalidInput(
                "classes must be two different labels, the negative one first; received a "
                f"{type(self.classes).__name__} of shape {classes.shape}."
            )
        return classes

    def _encoded(self, y: Any) -> Array:
        classes = self._declared()
        kinds = label_kind(y), "anything" if classes.dtype == object else label_kind(classes)
        if not comparable(*kinds):
            untyped = kinds[0] == "objects"
            raise InvalidInput(
                f"y holds {kinds[0]} (by its dtype) and classes are {kinds[1]}: "
                f"{'text among them' if untyped else 'no label'} would be "
                f"{'none' if untyped else 'one'} of the classes. Declare classes of the kind y "
                "has, or convert y."
            )
        return encoded(y, *classes)

    def decision_function(self, X: ArrayLike) -> Array:
        """Compute the linear predictor, shape (m,); above 0 is the positive class, NaN stays NaN.

        Privacy
        -------
        Costs nothing for public rows.  The result for a private row reveals that row.
        """
        return self._linear(X)

    def predict_proba(self, X: ArrayLike) -> Array:
        """Compute the probability of each class in the order of ``classes_``, shape (m, 2).

        Privacy
        -------
        As for :meth:`decision_function`.
        """
        from scipy.special import expit

        positive = expit(self._linear(X))
        return np.column_stack([1.0 - positive, positive])

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the more probable class, shape (m,); the negative one if a value is not finite.

        Privacy
        -------
        As for :meth:`decision_function`.
        """
        positive = self._linear(X) > 0.0
        return np.asarray(self.classes_[positive.astype(int)])

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Estimate the accuracy: the share of correct predictions plus noise, maybe outside [0, 1].

        Privacy
        -------
        Costs ``score_privacy``, charged to the ledger (claim G4 of PROOFS-bayesopt.md).
        """
        return self._score(X, y)

    def nonprivate_score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Compute the exact accuracy on public data: **not private**.

        Privacy
        -------
        None: must not be published, or acted upon, where the data are private.
        """
        return float(np.mean(self._exact(X, y) == (self._linear(X) > 0.0)))

    def _losses(self, X: Covariates, y: Array) -> Array:
        """Return 1 for a wrong prediction, 0 for a correct one, NaN for an undeclared label."""
        return np.abs(y - (self._linear_of(X) > 0.0))

    def _loss_bound(self) -> float:
        return 1.0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # such a record contributes exactly zero
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # the noise on tiny test data hides the signal
        return tags


def _own_array(classes: Any) -> NDArray[Any]:
    """Make an array of the declared labels without converting any, as NumPy turns 1 beside text."""
    if hasattr(classes, "dtype") or not isinstance(classes, (list, tuple)):
        return np.asarray(classes)
    as_objects = np.empty(len(classes), dtype=object)
    for i, label in enumerate(classes):
        as_objects[i] = label
    kinds = {label_kind(np.asarray(label)) for label in classes}
    plain = len(kinds) == 1 and not any(isinstance(label, (list, tuple)) for label in classes)
    return np.asarray(classes) if plain else as_objects
