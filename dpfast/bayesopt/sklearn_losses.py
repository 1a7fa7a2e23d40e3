"""Losses of a scikit-learn estimator as a function of its parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dpfast.arguments import Array
from dpfast.bayesopt.parameters import Parameter
from dpfast.bayesopt.space import as_parameter
from dpfast.data.cells import number_cells
from dpfast.data.classes import comparable, equal, label_kind, readable
from dpfast.data.columns import library
from dpfast.data.records import as_records
from dpfast.errors import InvalidInput, described

#: Metrics by name; each is a function of one record's truth and prediction.
METRICS: dict[str, Callable[[Any, Any], Array]] = {
    "squared_error": lambda truth, prediction: (truth - prediction) ** 2,
    "absolute_error": lambda truth, prediction: np.abs(truth - prediction),
    "zero_one": lambda truth, prediction: (~equal(truth, np.asarray(prediction))).astype(float),
}

#: Smallest probability that counts, so that a log loss stays finite.
SMALLEST_PROBABILITY = 1e-12

#: Beyond this, scikit-learn's trees refuse a covariate.
LARGEST = float(np.finfo(np.float32).max)


class SklearnLosses:
    """``losses(parameters)`` for :func:`dpfast.tune`; made by :func:`sklearn_losses`.

    Attributes
    ----------
    bounds : dict of str to Parameter
        Names of parameters and what they can be.
    n_records : int
        Number of validation records.
    loss_range : (float, float) or None
        Public range of the losses, where the metric has one that :func:`dpfast.tune` is to use.

    Privacy
    -------
    Holds records, and what a call returns is private: only :func:`dpfast.tune` is to see it.
    """

    def __init__(
        self,
        estimator: Any,
        training: tuple[Any, Any],
        validation: tuple[Any, Any],
        parameters: Mapping[str, Any],
        metric: str | Callable[[Any, Any], Any],
    ) -> None:
        from sklearn.base import clone

        kinds = label_kind(training[1]), label_kind(validation[1])
        if not comparable(*kinds):
            raise InvalidInput(
                f"y_train holds {kinds[0]} and y_validation {kinds[1]} (by their dtypes): every "
                "prediction may be wrong. Convert one of them."
            )
        self._clone = clone
        self._estimator = estimator
        self._training, self._truth = training, readable(validation[1])
        self._features, self._values = _features(training[0], validation[0])
        if not isinstance(parameters, Mapping):
            raise InvalidInput(
                "parameters must map names to (low, high), (low, high, 'log') or "
                f"dpfast.bayesopt.Real, Integer or Categorical; received {described(parameters)}."
            )
        self.n_records = len(validation[1])
        self.bounds: dict[str, Parameter] = {
            name: as_parameter(given, f"parameters[{described(name, text=True)}]")
            for name, given in parameters.items()
        }
        if not callable(metric) and metric not in (*METRICS, "log_loss"):
            raise InvalidInput(
                f"metric must be one of {sorted([*METRICS, 'log_loss'])} or a function of (truth, "
                f"prediction) that returns one loss per record; received {described(metric)}."
            )
        self._metric = metric
        self.loss_range = (0.0, 1.0) if metric == "zero_one" else None

    def __call__(self, parameters: Any) -> Array:
        """Train on the training records, return one loss per validation record, shape (n,)."""
        model = self._clone(self._estimator).set_params(**parameters)
        model.fit(*self._training)
        features, unusable = self._usable(model)
        if features is None:
            return np.full(self.n_records, np.nan)
        with np.errstate(all="ignore"):
            if self._metric == "log_loss":
                found = _log_loss(model, features, self._truth)
            else:
                metric = METRICS[self._metric] if isinstance(self._metric, str) else self._metric
                prediction = _answered(model.predict, features)
                truth = _truth_like(self._truth, prediction)
                found = np.asarray(metric(truth, prediction), dtype=np.float64)
            return found if unusable is None else np.where(unusable, np.nan, found)

    def _usable(self, model: Any) -> tuple[Any, Any]:
        """Covariates without what scikit-learn refuses, and the records that had such values."""
        from sklearn.utils import get_tags

        if self._values is None:
            return self._features, None
        unusable = np.abs(self._values) > LARGEST
        if not get_tags(model).input_tags.allow_nan:
            unusable |= np.isnan(self._values)
        unusable = unusable.any(axis=1)
        if unusable.all():
            return None, unusable
        # another record is predicted in the place of one that cannot be, and left out
        rows = np.where(unusable, int(np.argmin(unusable)), np.arange(len(unusable)))
        return _taken(self._features, rows), unusable


def sklearn_losses(
    estimator: Any,
    X_train: Any,
    y_train: Any,
    X_validation: Any,
    y_validation: Any,
    parameters: Mapping[str, Any],
    metric: str | Callable[[Any, Any], Any] = "squared_error",
) -> SklearnLosses:
    """Losses of an estimator on validation records, as a function of its parameters.

    Parameters
    ----------
    estimator : scikit-learn estimator or pipeline
        Cloned and fitted at every point.
    X_train, y_train
        Training records.  They are **not** protected by the guarantee of a search.
    X_validation, y_validation
        Validation records, the ones that are.
    parameters : dict
        Name (as for ``set_params``, so ``"svr__C"`` in a pipeline) to a
        :class:`dpfast.bayesopt.Real`, :class:`dpfast.bayesopt.Integer` or
        :class:`dpfast.bayesopt.Categorical`, or to ``(low, high)`` or ``(low, high, "log")``.
    metric : {"squared_error", "absolute_error", "zero_one", "log_loss"} or callable
        A callable takes (truth, prediction) and returns one loss per record, computed from that
        record alone.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> X = np.linspace(-1.0, 1.0, 100)[:, None]
    >>> losses = dpfast.bayesopt.sklearn_losses(
    ...     Ridge(), X, X[:, 0], X, X[:, 0], {"alpha": (0.1, 10.0, "log")}
    ... )
    >>> found = dpfast.tune(
    ...     losses, losses.bounds, n_records=losses.n_records, privacy=1.0, steps=2
    ... )
    >>> list(found.parameters)
    ['alpha']
    """
    return SklearnLosses(
        estimator, (X_train, y_train), (X_validation, y_validation), parameters, metric
    )


def _log_loss(model: Any, features: Any, truth: Any) -> Array:
    """Log loss; a label that training did not show counts as improbable, not as an error."""
    probabilities = np.asarray(_answered(model.predict_proba, features), dtype=np.float64)
    hits = np.column_stack([equal(truth, label) for label in model.classes_])
    given = np.where(hits, probabilities, 0.0).sum(axis=1)
    return np.asarray(-np.log(np.clip(given, SMALLEST_PROBABILITY, 1.0)))


def _features(training: Any, given: Any) -> tuple[Any, Any]:
    """Validation covariates, and the same as floats where their type, or training's, says so."""
    if isinstance(given, (list, tuple)) or (
        isinstance(given, np.ndarray) and given.dtype.kind == "O"
    ):
        if getattr(getattr(training, "dtype", None), "kind", "O") not in "biuf":
            return given, None  # text for a vectorizer, categories for an encoder
        given = as_records(given, np.zeros(len(given))).X
    if library(given) in ("pandas", "polars"):
        return given, _table_numbers(given)
    plain = isinstance(given, np.ndarray) and given.ndim == 2 and given.dtype.kind == "f"
    return given, given if plain else None


def _table_numbers(table: Any) -> Array:
    """The columns of numbers of a frame; those of Python objects are left alone."""
    if library(table) == "pandas":
        found = table.select_dtypes("number").to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        names = [name for name, kind in table.schema.items() if kind.is_numeric()]
        columns = [table[name].cast(float).to_numpy() for name in names]
        found = np.array(columns).reshape(len(names), len(table)).T
    return np.asarray(found, dtype=np.float64)


def _taken(features: Any, rows: Any) -> Any:
    return features.iloc[rows] if library(features) == "pandas" else features[rows]


def _answered(method: Callable[[Any], Any], features: Any) -> Any:
    """What a model says about the validation covariates; what it raises may quote them."""
    try:
        return method(features)
    except Exception as error:
        kind = type(error).__name__
    raise InvalidInput(
        f"the estimator refused the validation covariates ({kind}); its message is not shown, "
        "because it may quote them. Put steps that handle missing values, unknown categories and "
        "text before it, in a pipeline."
    )


def _truth_like(truth: Any, prediction: Any) -> Any:
    """Objects as numbers where the predictions are numbers: what is none is missing."""
    numeric = truth.dtype == object and label_kind(np.asarray(prediction)) == "numbers"
    return number_cells(truth.tolist()) if numeric else truth
