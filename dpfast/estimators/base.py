"""What the three estimators share: reading data, the noise source, paid scores."""

from __future__ import annotations

import sys
import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from dpfast.arguments import positive
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

Array = NDArray[np.float64]

#: Modules of scikit-learn that ask for predictions to make a score, or a second model, of them.
SCORERS = ("sklearn.utils._response", "sklearn.metrics._scorer")


#: Its name for the scorer that is an estimator's own ``score``.
PASSED_ON = "_PassthroughScorer"


#: Settings of the objective, and of the fit beside those that all estimators have.
TERMS, OPTIONS = ("weights", "scale", "ridge", "fit_intercept"), ("standardize", "inference")


class Score(NamedTuple):
    """A paid score and the standard deviation of its noise, which is public."""

    value: float
    noise_scale: float


@dataclass(eq=False, repr=False)
class PrivateEstimator(BaseEstimator):
    """What the three estimators share.

    Attributes
    ----------
    result_ : dpfast.Fit
        The released fit: standard errors, intervals, ledger, summary.  ``result_.privacy`` is the
        price of this fit alone; what folds and candidates cost together, only their ledger knows.
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

    # -- what each estimator does differently

    def _encoded(self, y: Any) -> Any:
        """The response as ``dpfast.fit`` takes it."""
        return y

    def _model(self) -> Loss | str:
        """The loss that is fitted."""
        raise NotImplementedError

    def _losses(self, X: Covariates, y: Array) -> Array:
        """Loss of each record, shape (n,)."""
        raise NotImplementedError

    def _loss_bound(self) -> float:
        """Public bound that losses are clipped to."""
        raise NotImplementedError

    # -- reading

    def _read(self, X: Any, y: Any, *, reset: bool) -> tuple[Covariates, Array]:
        """Records checked for shape and dtype; values may be anything."""
        refuse_other_rows(X, y, "y")
        refuse_column_of(X, y, "y")
        X = self._covariates(X, reset=reset)
        encoded = self._encoded(column(y, type(self).__name__))
        found = records(X, encoded)
        return found.X, found.y

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
        """Fit records that were read; their weights as they came."""
        terms, options = [
            {name: getattr(self, name) for name in names if hasattr(self, name)}
            for names in (TERMS, OPTIONS)
        ]
        objective = Objective(self._model(), **terms)
        options |= self._shared_options()
        return self._keep(fit(self._source(X, y, sample_weight), None, objective, **options))

    def _source(self, X: Covariates, y: Array, sample_weight: Any) -> Source:
        """Records as a fit takes them: the bound is for those that have weights, idle otherwise."""
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
        params = np.where(np.isnan(result.params), 0.0, result.params)  # predictions' slopes
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
                "(scoring=..., as 'r2') is exact and unpaid, and publishing it breaks the promise. "
                "Leave scoring out for the estimator's own score, which score_privacy pays for, or "
                "use dpfast.estimators.cross_validate.",
                DpfastWarning,
                stacklevel=3,
            )
        X = self._covariates(X, reset=False)
        return self._linear_of(records(X, np.zeros(len(X))).X)

    def _linear_of(self, X: Covariates) -> Array:
        """As the fit predicts: in bought units, columns are held to what was seen of them."""
        if getattr(self.result_, "coded", self.result_) is not self.result_:
            return np.asarray(self.result_._line(X), dtype=np.float64)
        with np.errstate(all="ignore"):
            return np.asarray(X @ np.ravel(self.coef_) + self.intercept_, dtype=np.float64)

    # -- scores

    def _exact(self, X: Any, y: Any) -> Array:
        """The response for an exact score, read here: scikit-learn quotes what it refuses."""
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
        """Refuse a fit that scikit-learn is to score by a ``score`` without a valid price.

        What it would raise after the fit was paid for, scikit-learn turns into NaN.
        """
        place = sys._getframe(2)
        while place is not None:
            if str(place.f_globals.get("__name__")).startswith("sklearn."):
                for scorer in _scorers(place.f_locals):
                    scored = getattr(scorer, "_estimator", None)
                    if type(scorer).__name__ == PASSED_ON and type(_last(scored)) is type(self):
                        self._planned_score(1)
                        return
            place = place.f_back  # type: ignore[assignment]

    def _planned_score(self, n: int) -> RecordValues:
        """What will average the losses of n records; refuses what is impossible, for free."""
        total = self._score_total()
        values = RecordValues(n, Ledger(total), self._noise())
        values.loss_receipt(0.0, 1.0, total.mu)
        return values

    def _paid_score(self, X: Covariates, y: Array) -> Score:
        """Noisy mean of per-record losses, charged before they are averaged."""
        values = self._planned_score(len(y))
        total, upper = self._score_total(), positive(self._loss_bound(), "the largest loss")
        assert self.score_privacy is not None

        def spent() -> Guarantee:
            return Guarantee.of(total, self._noise(), len(y), [("a score", total.mu)])

        with KeepReleased(privacy=spent):
            label, room = f"{type(self).__name__}.score", memory_needed(len(y), X.shape[1], 1)
            Account(self.score_privacy, self.ledger).charge(label, room)
            with np.errstate(all="ignore"):
                values.append(self._losses(X, y) / upper)
            answer = values.mean_loss(0, 0.0, 1.0, total.mu)
            return Score(1.0 - float(answer.value[0]), answer.noise_scale)


def _scorers(names: dict[str, Any]) -> list[Any]:
    """Scorers by the names that scikit-learn has for one, and for several."""
    found = [names.get("scorer"), names.get("scorers")]
    several = [one if isinstance(one, dict) else getattr(one, "_scorers", {}) for one in found]
    return [*found, *(one for some in several for one in some.values())]


def _last(scored: Any) -> Any:
    """Whose ``score`` that of a pipeline, or of a search without another scoring, is."""
    while not isinstance(scored, PrivateEstimator):
        if hasattr(scored, "steps"):
            scored = scored.steps[-1][1]
        elif hasattr(scored, "refit") and getattr(scored, "scoring", None) is None:
            scored = scored.estimator
        else:
            return None
    return scored


def _among(ledger: Ledger | None) -> str:
    """That a fit's own price is not that of a search; from public amounts."""
    if ledger is None:
        return ", without others of a cross-validation or search"
    try:
        return f": its ledger has spent {ledger.spent!r} in all so far"
    except (DpfastError, OSError):  # the ledger's file is gone; what was paid for is not lost
        return ": what its ledger has spent in all cannot be read"


@dataclass(kw_only=True, eq=False, repr=False)
class MEstimator(PrivateEstimator):
    """Those whose records may be bounded by weights, and whose units may be bought."""

    standardize: bool | None = None
    weights: Any = None
    inference: bool = True
