"""Base of the estimators: reading of data, the noise source, and paid scores."""

from __future__ import annotations

import sys
import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from dpfast.arguments import Array, positive
from dpfast.curator.blackbox.vectors import RecordValues
from dpfast.data.columns import column_names, is_table, refuse_column_of, refuse_other_rows
from dpfast.data.records import Covariates
from dpfast.data.source import Source
from dpfast.errors import DpfastError, DpfastWarning, InvalidInput, described
from dpfast.estimators.arrays import column, matrix, records
from dpfast.fit_requests.partial import KeepReleased
from dpfast.fit_requests.request import Account, memory_needed
from dpfast.inference.guarantees import ALONE, Guarantee
from dpfast.inference.results import Fit
from dpfast.models import Loss, Objective
from dpfast.privacy.budget import GDP, Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource, checked_noise
from dpfast.regression.fit import fit

#: Modules of scikit-learn that call ``predict`` to compute a score, or to fit a second model.
SCORERS = ("sklearn.utils._response", "sklearn.metrics._scorer")


#: scikit-learn's class of a scorer that calls the estimator's own ``score``.
OWN_SCORER = "_PassthroughScorer"


#: Attributes that set the objective, and options of the fit that not all estimators have.
TERMS, OPTIONS = ("weights", "scale", "ridge", "fit_intercept"), ("standardize", "inference")


class Score(NamedTuple):
    """A paid score and the standard deviation of its noise, which is public."""

    value: float
    noise_scale: float


@dataclass(eq=False, repr=False)
class PrivateEstimator(BaseEstimator):
    """Base class of the scikit-learn estimators.

    Attributes
    ----------
    result_ : dpfast.Fit
        The released fit: standard errors, intervals, ledger, summary.  ``result_.privacy`` is the
        price of this fit alone; the joint cost of folds and candidates is in their ledger.
    coef_, intercept_ : ndarray, float
    n_features_in_ : int
        Public by declaration, like the names of the columns.
    """

    privacy: Budget | float | tuple[float, float] = 1.0
    _: KW_ONLY
    fit_intercept: bool = True
    largest_weight: float | None = None
    score_privacy: Budget | float | tuple[float, float] | None = None
    ledger: Ledger | None = None
    noise: NoiseSource | None = None

    # -- overridden by estimators

    def _encoded(self, y: Any) -> Any:
        """Encode the response as ``dpfast.fit`` takes it."""
        return y

    def _model(self) -> Loss | str:
        """Return the loss to fit."""
        raise NotImplementedError

    def _losses(self, X: Covariates, y: Array) -> Array:
        """Compute the loss of each record, shape (n,)."""
        raise NotImplementedError

    def _loss_bound(self) -> float:
        """Return the public bound at which losses are clipped."""
        raise NotImplementedError

    # -- reading

    def _read(self, X: Any, y: Any, *, reset: bool) -> tuple[Covariates, Array]:
        """Read records, checked by shape and dtype; any values are allowed."""
        refuse_other_rows(X, y, "y")
        refuse_column_of(X, y, "y")
        X = self._covariates(X, reset=reset)
        encoded = self._encoded(column(y, type(self).__name__))
        data = records(X, encoded)
        return data.X, data.y

    def _covariates(self, X: Any, *, reset: bool) -> Any:
        X = matrix(X)
        names = column_names(X) if is_table(X) else []
        if len(set(names)) < len(names):
            raise InvalidInput("names of the columns of X must differ.")
        try:
            validate_data(self, X, reset=reset, skip_check_array=True)  # names, number of columns
        except TypeError:
            raise InvalidInput(
                "names of the columns of X must all be text, or none of them; received "
                f"{described(X)}. Use X.columns = X.columns.astype(str)."
            ) from None
        return X

    # -- fitting

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Any:
        """Fit; spends ``privacy``, and returns itself.

        Parameters
        ----------
        X : array-like of shape (n, q)
            Any values: a record with a NaN or an infinity contributes exactly zero.
        y : array-like of shape (n,)
            Responses, or labels of the declared classes.
        sample_weight : array-like of shape (n,), optional
            Private weights, held to the public ``largest_weight`` of the estimator, which all but
            default fits need (see :func:`dpfast.records`).

        Returns
        -------
        PrivateEstimator

        Privacy
        -------
        Spends ``privacy``, charged to the ledger before X and y are used.

        Examples
        --------
        >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
        >>> model = dpfast.estimators.DPHuberRegressor(privacy=1.0, scale=1.0)
        >>> model.fit(X, 0.5 * X[:, 0]).coef_.shape
        (1,)
        """
        refuse_other_rows(X, sample_weight, "sample_weight")
        self._refuse_unpriced()
        return self._fit_records(*self._read(X, y, reset=True), sample_weight)

    def _fit_records(self, X: Covariates, y: Array, sample_weight: Any = None) -> Any:
        """Fit records that were read already; weights are as given."""
        terms, options = [
            {name: getattr(self, name) for name in names if hasattr(self, name)}
            for names in (TERMS, OPTIONS)
        ]
        objective = Objective(self._model(), **terms)
        options |= self._shared_options()
        return self._keep(fit(self._source(X, y, sample_weight), None, objective, **options))

    def _source(self, X: Covariates, y: Array, sample_weight: Any) -> Source:
        """Make the source of a fit; the bound on weights is used only if there are weights."""
        if isinstance(sample_weight, str):
            raise InvalidInput("sample_weight must be an array of weights, not the name of one.")
        names = getattr(self, "feature_names_in_", np.array([])).tolist() or None
        bound = None if sample_weight is None else self.largest_weight
        return Source(X, y, names=names, sample_weight=sample_weight, largest_weight=bound)

    def _noise(self) -> NoiseSource:
        return checked_noise(self.noise)

    def _shared_options(self) -> dict[str, Any]:
        return {"privacy": self.privacy, "ledger": self.ledger, "noise": self._noise()}

    def _keep(self, result: Fit) -> Any:
        relation = result.privacy.relation + ALONE + _among(self.ledger)
        result.privacy = result.privacy._replace(relation=relation)
        self.result_ = result
        params = np.where(
            np.isnan(result.params), 0.0, result.params
        )  # predictions skip dropped columns
        self.intercept_: Any = float(params[0]) if self.fit_intercept else 0.0
        first = int(self.fit_intercept)
        # without the scale, which comes last where it was estimated
        self.coef_ = params[first : first + self.n_features_in_]
        return self

    def _linear(self, X: Any) -> Array:
        check_is_fitted(self, "coef_")
        if sys._getframe(2).f_globals.get("__name__") in SCORERS:
            warnings.warn(
                "scikit-learn asks for predictions of records to score them itself: such a score "
                "(scoring=..., as 'r2') is exact and unpaid; publishing it voids the guarantee. "
                "Leave scoring out for the estimator's own score, which score_privacy pays for, or "
                "use dpfast.estimators.cross_validate.",
                DpfastWarning,
                stacklevel=3,
            )
        X = self._covariates(X, reset=False)
        return self._linear_of(records(X, np.zeros(len(X))).X)

    def _linear_of(self, X: Covariates) -> Array:
        """Predict as the fit does: covariates are clipped to their released ranges."""
        if getattr(self.result_, "coded", self.result_) is not self.result_:
            return np.asarray(self.result_._line(X), dtype=np.float64)
        with np.errstate(all="ignore"):
            return np.asarray(X @ np.ravel(self.coef_) + self.intercept_, dtype=np.float64)

    # -- scores

    def _exact(self, X: Any, y: Any) -> Array:
        """Read the response for an exact score: scikit-learn's messages may quote values."""
        check_is_fitted(self, "coef_")
        return self._read(X, y, reset=False)[1]

    def _score(self, X: Any, y: Any) -> float:
        check_is_fitted(self, "coef_")
        return self._paid_score(*self._read(X, y, reset=False)).value

    def _score_total(self) -> GDP:
        if self.score_privacy is None:
            raise InvalidInput(
                "score() answers a question about the records it is given, so it has a price. Set "
                "score_privacy=..., or use nonprivate_score() on data that are public."
            )
        return GDP.within(self.score_privacy)

    def _refuse_unpriced(self) -> None:
        """Refuse a fit that scikit-learn will score by a ``score`` without a valid price.

        An error after the fit was paid for would be turned into NaN by scikit-learn.
        """
        stack_frame = sys._getframe(2)
        while stack_frame is not None:
            if str(stack_frame.f_globals.get("__name__")).startswith("sklearn."):
                for scorer in _scorers(stack_frame.f_locals):
                    scored = getattr(scorer, "_estimator", None)
                    if type(scorer).__name__ == OWN_SCORER and type(_last(scored)) is type(self):
                        self._planned_score(1)
                        return
            stack_frame = stack_frame.f_back  # type: ignore[assignment]

    def _planned_score(self, n: int) -> RecordValues:
        """Plan a noisy mean of the losses of n records; refused, if at all, before the charge."""
        total = self._score_total()
        values = RecordValues(n, Ledger(total), self._noise())
        values.loss_receipt(0.0, 1.0, total.mu)
        return values

    def _paid_score(self, X: Covariates, y: Array) -> Score:
        """Release a noisy mean of per-record losses, charged before they are averaged."""
        values = self._planned_score(len(y))
        total, upper = self._score_total(), positive(self._loss_bound(), "the largest loss")
        assert self.score_privacy is not None

        def spent() -> Guarantee:
            return Guarantee.of(total, self._noise(), len(y), [("a score", total.mu)])

        with KeepReleased(privacy=spent):
            label, memory = f"{type(self).__name__}.score", memory_needed(len(y), X.shape[1], 1)
            Account(self.score_privacy, self.ledger).charge(label, memory)
            with np.errstate(all="ignore"):
                values.append(self._losses(X, y) / upper)
            answer = values.mean_loss(0, 0.0, 1.0, total.mu)
            return Score(1.0 - float(answer.value[0]), answer.noise_scale)


def _scorers(names: dict[str, Any]) -> list[Any]:
    """List the scorers among a frame's locals, by the names that scikit-learn uses."""
    named = [names.get("scorer"), names.get("scorers")]
    groups = [item if isinstance(item, dict) else getattr(item, "_scorers", {}) for item in named]
    return [*named, *(member for group in groups for member in group.values())]


def _last(scored: Any) -> Any:
    """Return the estimator whose ``score`` a pipeline, or a search without ``scoring``, calls."""
    while not isinstance(scored, PrivateEstimator):
        if hasattr(scored, "steps"):
            scored = scored.steps[-1][1]
        elif hasattr(scored, "refit") and getattr(scored, "scoring", None) is None:
            scored = scored.estimator
        else:
            return None
    return scored


def _among(ledger: Ledger | None) -> str:
    """Describe what a ledger has spent besides one fit, from public amounts."""
    if ledger is None:
        return ", without others of a cross-validation or search"
    try:
        return f": its ledger has spent {ledger.spent!r} in all so far"
    except (DpfastError, OSError):  # the ledger's file is gone; the paid fit is still returned
        return ": what its ledger has spent in all cannot be read"


@dataclass(kw_only=True, eq=False, repr=False)
class MEstimator(PrivateEstimator):
    """M-estimator: records are bounded by weights, or standardised with part of the budget."""

    standardize: bool | None = None
    weights: Any = None
    inference: bool = True
