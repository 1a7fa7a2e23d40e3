"""Losses of a scikit-learn estimator as a function of its parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dpfast.arguments import Array
from dpfast.bayesopt.parameters import Parameter
from dpfast.bayesopt.space import as_parameter
from dpfast.data import as_records
from dpfast.data.cells import number_cells
from dpfast.data.classes import comparable, equal, label_kind, readable
from dpfast.data.columns import library
from dpfast.errors import InvalidInput, described


def _difference(truth: Any, prediction: Any) -> Array:
    return np.subtract(truth, prediction, dtype=np.float64)


#: Metrics by name; each compares one record's truth and prediction.
METRICS: dict[str, Callable[[Any, Any], Array]] = {
    "squared_error": lambda truth, prediction: _difference(truth, prediction) ** 2,
    "absolute_error": lambda truth, prediction: np.abs(_difference(truth, prediction)),
    "zero_one": lambda truth, prediction: (~equal(truth, np.asarray(prediction))).astype(float),
}

#: Metrics of labels that are numbers.
NUMERIC = ("squared_error", "absolute_error")

TEXT = (
    "labels are text, and metric={metric!r} takes numbers. Pass metric='zero_one', 'log_loss' or a "
    "function."
)

#: Lower bound of a probability, so that a log loss stays finite.
SMALLEST_PROBABILITY = 1e-12

#: Largest covariate that scikit-learn's trees accept.
LARGEST = float(np.finfo(np.float32).max)


class SklearnLosses:
    """Losses of an estimator; made by :func:`sklearn_losses`.

    Attributes
    ----------
    bounds : dict of str to Parameter
        Names of parameters, with their types and bounds.
    n_records : int
        Number of validation records.
    loss_range : (float, float) or None
        Public range of the losses for :func:`dpfast.tune`, where the metric has one.

    Privacy
    -------
    Holds records, and a call returns private values: pass it to :func:`dpfast.tune` only.
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

        label_kinds = label_kind(training[1]), label_kind(validation[1])
        if not comparable(*label_kinds):
            raise InvalidInput(
                f"y_train holds {label_kinds[0]} and y_validation {label_kinds[1]} (by their "
                "dtypes), so every prediction may be wrong. Convert one of them."
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
        if _length(self._features) != self.n_records:
            raise InvalidInput(
                f"X_validation has {_length(self._features)} records and y_validation "
                f"{self.n_records}: they must be as many."
            )
        self.bounds: dict[str, Parameter] = {
            name: as_parameter(bounds, f"parameters[{described(name, text=True)}]")
            for name, bounds in parameters.items()
        }
        if not callable(metric) and metric not in (*METRICS, "log_loss"):
            raise InvalidInput(
                f"metric must be one of {sorted([*METRICS, 'log_loss'])} or a function of (truth, "
                f"prediction) that returns one loss per record; received {described(metric)}."
            )
        if metric in NUMERIC and "text" in label_kinds:
            raise InvalidInput(TEXT.format(metric=metric))
        self._metric = metric
        self.loss_range = (0.0, 1.0) if metric == "zero_one" else None

    def __call__(self, parameters: Any) -> Array:
        """Train on the training records; return one loss per validation record, shape (n,)."""
        model = self._clone(self._estimator).set_params(**parameters)
        model.fit(*self._training)
        features, unusable = self._usable(model)
        if features is None:
            return np.full(self.n_records, np.nan)
        is_log_loss = self._metric == "log_loss"
        method = model.predict_proba if is_log_loss else model.predict
        prediction, refused = _predicted(method, features, self.n_records)
        with np.errstate(all="ignore"):
            if is_log_loss:
                losses = _log_loss(model, prediction, self._truth)
            else:
                metric = METRICS[self._metric] if isinstance(self._metric, str) else self._metric
                prediction = np.asarray(prediction)  # of the labels of training, which are public
                if self._metric in NUMERIC and prediction.dtype.kind not in "biuf":
                    raise InvalidInput(TEXT.format(metric=self._metric))
                truth = _truth_like(self._truth, prediction)
                losses = np.asarray(metric(truth, prediction), dtype=np.float64)
        for missing in (unusable, refused):
            losses = losses if missing is None else np.where(missing, np.nan, losses)
        return losses

    def _usable(self, model: Any) -> tuple[Any, Any]:
        """Return covariates that scikit-learn accepts, with a mask of refused records."""
        from sklearn.utils import get_tags

        if self._values is None:
            return self._features, None
        unusable = np.abs(self._values) > LARGEST
        if not get_tags(model).input_tags.allow_nan:
            unusable |= np.isnan(self._values)
        unusable = unusable.any(axis=1)
        if unusable.all():
            return None, unusable
        # a record that would be refused gets another record's covariates; its loss is missing
        rows = np.where(unusable, int(np.argmin(unusable)), np.arange(len(unusable)))
        return _rows_of(self._features, rows), unusable


def sklearn_losses(
    estimator: Any,
    X_train: Any,
    y_train: Any,
    X_validation: Any,
    y_validation: Any,
    parameters: Mapping[str, Any],
    metric: str | Callable[[Any, Any], Any] = "squared_error",
) -> SklearnLosses:
    """Make the losses of an estimator on validation records, as a function of its parameters.

    Parameters
    ----------
    estimator : scikit-learn estimator or pipeline
        Cloned and fitted at every point.
    X_train, y_train
        Training records.  They are **not** protected by the guarantee of a search.
    X_validation, y_validation
        Validation records, which are protected.
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


def _log_loss(model: Any, prediction: Any, truth: Any) -> Array:
    """Compute the log loss; a label that training did not have is improbable, not an error."""
    probabilities = np.asarray(prediction, dtype=np.float64)
    hits = np.column_stack([equal(truth, label) for label in model.classes_])
    likelihood = np.where(hits, probabilities, 0.0).sum(axis=1)
    return np.asarray(-np.log(np.clip(likelihood, SMALLEST_PROBABILITY, 1.0)))


def _features(training: Any, records: Any) -> tuple[Any, Any]:
    """Return validation covariates, and the same as floats where dtypes are numeric."""
    if isinstance(records, (list, tuple)) or (
        isinstance(records, np.ndarray) and records.dtype.kind == "O"
    ):
        if getattr(getattr(training, "dtype", None), "kind", "O") not in "biuf":
            return records, None  # text for a vectorizer, categories for an encoder
        records = as_records(records, np.zeros(len(records))).X
    if library(records) in ("pandas", "polars"):
        return records, _table_numbers(records)
    if library(records) == "scipy":
        records = records.tocsr()  # other formats have no rows
    is_matrix = isinstance(records, np.ndarray) and records.ndim == 2 and records.dtype.kind == "f"
    return records, records if is_matrix else None


def _table_numbers(table: Any) -> Array:
    """Return the numeric columns of a frame; columns of Python objects are left out."""
    if library(table) == "pandas":
        numbers = table.select_dtypes("number").to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        names = [name for name, kind in table.schema.items() if kind.is_numeric()]
        columns = [table[name].cast(float).to_numpy() for name in names]
        numbers = np.array(columns).reshape(len(names), len(table)).T
    return np.asarray(numbers, dtype=np.float64)


def _length(features: Any) -> int:
    return int(features.shape[0] if hasattr(features, "shape") else len(features))


def _rows_of(features: Any, rows: Any) -> Any:
    """Return some records, in the container that the estimator gets."""
    if library(features) == "pandas":
        return features.iloc[rows]
    if isinstance(features, (list, tuple)):
        return [features[row] for row in rows]
    return features.take(rows) if library(features) == "pyarrow" else features[rows]


def _predicted(method: Callable[[Any], Any], features: Any, n: int) -> tuple[Any, Any]:
    """Predict the validation records, with a mask of those that the estimator refuses.

    A refused record gets another record's prediction: its loss will be missing.  The message of the
    estimator may quote a record, so it is not shown.
    """
    try:
        return method(features), None
    except Exception as error:
        kind = type(error).__name__
    refused = np.zeros(n, dtype=bool)
    refused[_refused_of_halves(method, features, np.arange(n))] = True
    if refused.all():
        raise InvalidInput(
            f"the estimator refused the validation covariates ({kind}); its message is not shown, "
            "because it may quote them. Put steps that handle missing values, unknown categories "
            "and text before it, in a pipeline."
        )
    rows = np.where(refused, int(np.argmin(refused)), np.arange(n))
    return method(_rows_of(features, rows)), refused


def _refused(method: Callable[[Any], Any], features: Any, rows: Any) -> list[int]:
    """Return the records, among these, that the estimator refuses."""
    try:
        method(_rows_of(features, rows))
    except Exception:
        return _refused_of_halves(method, features, rows)
    return []


def _refused_of_halves(method: Callable[[Any], Any], features: Any, rows: Any) -> list[int]:
    """Return those of rows that the estimator refuses together."""
    if len(rows) == 1:
        return [int(rows[0])]
    half = len(rows) // 2
    parts = [_refused(method, features, part) for part in (rows[:half], rows[half:])]
    return [*parts[0], *parts[1]]


def _truth_like(truth: Any, prediction: Array) -> Any:
    """Convert labels to numbers where predictions are numbers; others become missing."""
    numeric = prediction.dtype.kind in "biuf" and truth.dtype.kind not in "biuf"
    return number_cells(truth.tolist()) if numeric else truth
