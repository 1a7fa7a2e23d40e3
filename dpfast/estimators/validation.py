"""Cross-validation whose total is planned, checked and charged before the first fit."""

from __future__ import annotations

import contextlib
import copy
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from dpfast.errors import BudgetExceeded, InvalidInput
from dpfast.estimators.base import Array, PrivateEstimator, Score
from dpfast.estimators.folds import DealtFolds
from dpfast.fit_requests.account import checked_ledger
from dpfast.fit_requests.partial import KeepReleased
from dpfast.inference.guarantees import RELATION, Guarantee
from dpfast.inference.rendering.arrays import plain_fields
from dpfast.inference.results import Fit
from dpfast.privacy.budget import GDP, Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import is_genuine
from dpfast.privacy.random_parts import cross_validation_cost, part_sizes

#: Too small for any charge: a fit with it is checked in full, and stops before it reads a record.
_EMPTY_BUDGET = GDP(5e-324)


class CrossValidation(NamedTuple):
    """Noisy scores of the held-out folds, and their joint cost.

    Attributes
    ----------
    scores, noise_scales : ndarray of shape (k,)
        As the estimator's ``score``: one minus the mean loss as a share of its bound, with noise;
        and the noise's standard deviation, public.
    fits : tuple of Fit
        The released fit without each fold; its ``privacy`` is the price of that fit alone.
    privacy : Guarantee
        Joint guarantee of all fits and scores.
    unfinished : object
        Released numbers of the fold in progress, if a run ended early; otherwise None.  If that
        fold's fit was finished, it is the last of ``fits``.

    Privacy
    -------
    Made of released and public numbers: its properties cost nothing.
    """

    scores: Array
    noise_scales: Array
    fits: tuple[Fit, ...]
    privacy: Guarantee
    unfinished: Any = None

    @property
    def mean(self) -> float:
        """Mean score."""
        return float(np.mean(self.scores)) if len(self.scores) else math.nan

    @property
    def noise_scale(self) -> float:
        """Standard deviation of the noise in the mean score; public."""
        return math.hypot(*self.noise_scales) / max(1, len(self.noise_scales))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values (for JSON)."""
        return plain_fields(self._asdict())

    def __str__(self) -> str:
        scores = ", ".join(f"{score:.4f}" for score in self.scores)
        return (
            f"{len(self.scores)} folds: mean score {self.mean:.4f}, with noise of standard "
            f"deviation {self.noise_scale:.4f}; scores {scores}\n{self.privacy}"
        )


def cross_validate(
    estimator: Any, X: ArrayLike, y: ArrayLike, *, folds: int | DealtFolds = 5
) -> CrossValidation:
    """Cross-validate an estimator of this module, with one charge for everything, up front.

    Parameters
    ----------
    estimator : one of this module's estimators
        Not changed.  Its ``privacy`` is the price of one fit, and ``score_privacy`` that of one
        score.  Its ``ledger``, if any, pays the total below at once or refuses.
    X : array-like of shape (n, q)
    y : array-like of shape (n,)
    folds : int or DealtFolds
        Other splitters are refused, since they may read labels.  Pipelines are refused, too:
        their other steps learn from records without paying.

    Privacy
    -------
    ``sqrt((k-1) privacy^2 + score_privacy^2)`` in mu for k folds (claim C54).  A record is in k - 1
    training sets and in one test fold.  The folds do not depend on records, and the model tested
    on a record was fitted without it.  Scores of other folds do not involve it.  A ledger in
    another currency composes the k - 1 fits and the score by its own rule.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = X @ [2.0, -1.0] + rng.normal(size=5000)
    >>> ledger = dpfast.Ledger(1.0)
    >>> model = dpfast.estimators.DPHuberRegressor(0.4, scale=1.0, score_privacy=0.3, ledger=ledger)
    >>> result = dpfast.estimators.cross_validate(model, X, y, folds=5)
    >>> round(result.privacy.mu, 3)  # the root of 4 * 0.4^2 + 0.3^2
    0.854
    """
    if not isinstance(estimator, PrivateEstimator):
        raise InvalidInput(
            f"cross_validate takes an estimator of dpfast.estimators; received "
            f"{type(estimator).__name__}. Other steps of a pipeline see records without paying: "
            "transform with public constants first (dpfast.Schema), then pass the estimator."
        )
    model = clone(estimator)
    splitter = _splitter(folds, model)
    k, ledger = splitter.n_splits, model.ledger
    if ledger is not None:
        checked_ledger(ledger)
    features, response = model._read(X, y, reset=True)
    n = len(response)
    model.ledger = Ledger(_EMPTY_BUDGET)
    for size in set(part_sizes(n, k)):
        model._planned_score(size)
        with contextlib.suppress(BudgetExceeded):
            copy.copy(model)._fit_records(features[size:], response[size:])
    run = _Run(model, splitter, n, _guarantee(model, splitter, n, k, k))
    parts = splitter.parts(n)  # before the charge: if it fails, nothing was paid
    if ledger is not None:
        currency = GDP if ledger.keeps_apart else type(ledger.total)
        fit_price = _in_kind(model.privacy, currency)
        total = cross_validation_cost(
            fit_price, _in_kind(model.score_privacy, currency), k, currency
        )
        ledger.charge(total, f"cross_validate({type(model).__name__}, n={n}, {k} folds)")
    model.ledger = None  # from here on everything is paid for
    with KeepReleased(lambda _, keeping: run.partial(keeping.inner())):
        for j in range(k):
            trained, tested = copy.copy(model), parts == j
            run.models.append(trained)
            trained._fit_records(features[~tested], response[~tested])
            run.scores.append(trained._paid_score(features[tested], response[tested]))
        return run.result()


def _splitter(folds: int | DealtFolds, model: PrivateEstimator) -> DealtFolds:
    """Return the splitter; refuse any that may read labels or values."""
    if type(folds) is DealtFolds:  # a subclass could read anything
        return folds
    if isinstance(folds, (int, np.integer)):
        return DealtFolds(folds, noise=model._noise())
    raise InvalidInput(
        f"folds must be a number or dpfast.estimators.DealtFolds; received "
        f"{type(folds).__name__}. Folds that follow labels or values let one record move "
        "others."
    )


class _Run:
    """Fits and scores of a cross-validation so far."""

    def __init__(
        self, model: PrivateEstimator, splitter: DealtFolds, n: int, guarantee: Guarantee
    ) -> None:
        self._model, self._splitter, self._n = model, splitter, n
        self._guarantee = guarantee
        self.models: list[PrivateEstimator] = []
        self.scores: list[Score] = []

    def result(self, unfinished: Any = None) -> CrossValidation:
        """Return the result, complete or so far."""
        fits = [model.result_ for model in self.models if hasattr(model, "result_")]
        values, scales = np.array(self.scores).reshape(-1, 2).T
        guarantee = self._guarantee
        if unfinished is not None or len(self.scores) < self._splitter.n_splits:
            n_fits = len(self.scores) + 1
            guarantee = _guarantee(self._model, self._splitter, self._n, n_fits, len(fits))
        return CrossValidation(values, scales, tuple(fits), guarantee, unfinished)

    def partial(self, inner: Any) -> CrossValidation | None:
        """Return what an exception leaves; None before anything was released."""
        result = self.result(inner)
        return None if inner is None and not result.fits else result


def _in_kind(price: Any, currency: type[Budget]) -> Budget:
    """Convert a price to the ledger's currency, if it is another one."""
    return price if isinstance(price, currency) else GDP.within(price)


def _guarantee(
    model: PrivateEstimator, splitter: DealtFolds, n: int, fits: int, scores: int
) -> Guarantee:
    """Make the joint guarantee; it is genuine only if every source of randomness is."""
    k = splitter.n_splits
    fit_mu, score_mu = GDP.within(model.privacy), model._score_total()
    total = cross_validation_cost(fit_mu, score_mu, k)
    assert isinstance(total, GDP)
    sources = (model._noise(), splitter.noise)
    source = next((source for source in sources if not is_genuine(source)), sources[0])
    entries = [("a fit without one fold", fit_mu.mu)] * min(fits, k - 1)
    entries += [("its score", score_mu.mu)] * (scores > 0)
    relation = f"{RELATION}; a record is in {k - 1} of the {k} fits and in one score"
    return Guarantee.of(total, source, n, entries, relation=relation)
