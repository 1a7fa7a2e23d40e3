"""Records under a released linear map: Grams, lengths and clipped scores of least squares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dpfast.curator.answers import Answer, JointAnswer, Receipt, StepBudget
from dpfast.data.bought.maps import CHUNK, alone, map_records, norms
from dpfast.data.parts import in_memory
from dpfast.data.records import Covariates, Records
from dpfast.errors import InvalidInput
from dpfast.models import Clip, Huber, LeastSquares, Loss, Mallows, Objective, Weighting
from dpfast.privacy.budget import GDP
from dpfast.privacy.mechanisms import check_grid_range, gaussian_scale
from dpfast.privacy.sensitivity import histogram as histogram_sensitivity

if TYPE_CHECKING:
    from dpfast.curator.curator import Curator

Array = NDArray[np.float64]

__all__ = ["Whitened"]


class Whitened:
    """Answers about rows ``a = z'W``, z a design row with its intercept and W released.

    Parameters
    ----------
    curator : Curator
        Of the records as they are; its ledger pays.
    mapped : Records, optional
        The same records under a map.

    Privacy
    -------
    Row and response are replaced by a function of them that the transcript fixes, so each answer
    has the sensitivity of a query about records of the new kind (adaptive composition, claim C9).
    """

    def __init__(self, curator: Curator, mapped: Records | None = None) -> None:
        self._curator = curator
        self._records = curator._records if mapped is None else mapped
        self._intercept = mapped is None and curator.objective.fit_intercept
        self.n = curator.n
        self.dimension = self._records.n_covariates + int(self._intercept)

    def mapped(self, matrix: Array, radius: float = np.inf, power: float = 0.0) -> Whitened:
        """The same records with rows ``w^(power/2) a'W`` and responses ``w^(power/2) y``.

        ``w = min(1, radius^2 / |a|^2)`` discounts rows that are long before they are mapped: of
        their scores it takes ``w^power``.
        """
        kind = MappedArrays if in_memory(self._records) else Mapped
        return Whitened(
            self._curator, kind(self._records, (matrix, self._intercept, radius, power))
        )

    def gram(self, radius: float, mu: float) -> Answer:
        """Mean of ``min(1, radius^2/|a|^2) a a'``; costs ``mu`` (claim C14)."""
        return (
            self._about(LeastSquares(), Mallows(radius))
            .joint(np.zeros(self.dimension), StepBudget(0.0, mu))
            .hessian
        )

    def moment(self, radius: float, cap: float, mu: float, theta: Array | None = None) -> Answer:
        """Mean of ``min(1, radius^2/|a|^2) a r``, r held to ``+-cap``; costs ``mu`` (claim C13).

        ``r`` is the response, or its residual at a parameter.
        """
        point = np.zeros(self.dimension) if theta is None else theta
        gradient = self._about(Huber(cap), Mallows(radius)).joint(point, StepBudget(mu)).gradient
        return Answer(-gradient.value, gradient.noise_scale, gradient.receipt)

    def clipped(self, theta: Array, radius: float, mu: float, mu_meat: float = 0.0) -> JointAnswer:
        """Mean of the scores ``(y - a'theta) a``, each held to a norm of ``radius``, and its meat.

        Costs less than the two together, and ``mu`` alone as long as ``mu_meat <= mu / 2`` (claim
        C17 without a curvature).
        """
        budget = StepBudget(mu, 0.0, mu_meat)
        gradient, nothing, meat, cost = self._about(LeastSquares(), Clip(radius)).joint(
            theta, budget
        )
        score = Answer(-gradient.value, gradient.noise_scale, gradient.receipt)
        return JointAnswer(score, nothing, meat, cost)

    def lengths(self, edges: Array, mu: float, theta: Array | None = None) -> Answer:
        """Shares of the records whose ``|a|``, or score at ``theta``, has these lengths.

        Scores are those of least squares, or of log odds where the curator's loss is about them.

        Parameters
        ----------
        edges : ndarray of shape (k,)
            Increasing; cell i holds the lengths in ``(edges[i - 1], edges[i]]``, the first one all
            that are no longer and the last, of k + 1, all that are longer.
        mu : float
        theta : ndarray of shape (p,), optional

        Returns
        -------
        Answer
            Of shape (k + 1,).

        Privacy
        -------
        Costs ``mu`` (claim C60).  A record that is not finite is in no cell.
        """
        receipt = self._lengths_receipt(len(edges) + 1, mu)
        curator = self._curator
        how = self._intercept, curator.objective.loss.binary_response
        curator.ledger.charge(GDP(mu), receipt.query)
        counts = self._records.total(_count_lengths, edges, theta, *how)
        question = (receipt.query, mu, edges, theta)
        return curator._release(question, receipt, counts / self.n)

    def refuse(
        self,
        rows: float,
        lengths: float,
        whitened: float,
        pilot: float,
        scores: float,
        steps: Sequence[float],
        *,
        cells: int,
    ) -> None:
        """Refuse budgets at which an answer would be, whatever the radius; costs nothing.

        Noise is in proportion to the radius of weights and clipping, so that of 1 decides; of
        histograms the one with most cells does.
        """
        for mu in (rows, whitened):
            self.refuse_sums(mu, pilot)
        for mu in (lengths, scores):
            self._lengths_receipt(cells, mu)
        for mu in steps:
            self._about(LeastSquares(), Clip(1.0)).plan(StepBudget(mu, 0.0, 0.5 * mu))

    def refuse_sums(self, gram: float, moment: float) -> None:
        """Refuse budgets at which :meth:`gram` and :meth:`moment` would be; costs nothing."""
        self.refuse_gram(gram)
        self._about(Huber(1.0), Mallows(1.0)).plan(StepBudget(moment))

    def refuse_gram(self, mu: float) -> None:
        """Refuse a budget at which :meth:`gram` would be; costs nothing."""
        self._about(LeastSquares(), Mallows(1.0)).plan(StepBudget(0.0, mu))

    def refuse_lengths(self, cells: int, mu: float) -> None:
        """Refuse budgets at which :meth:`lengths` would be; costs nothing."""
        self._lengths_receipt(cells, mu)

    def _lengths_receipt(self, cells: int, mu: float) -> Receipt:
        sensitivity = histogram_sensitivity(self.n)
        scale = gaussian_scale(sensitivity, mu, cells)
        check_grid_range(1.0, scale, cells)
        return Receipt("histogram of lengths", "C60", mu, sensitivity, scale)

    def _about(self, loss: Loss, weighting: Weighting) -> Curator:
        records, intercept = self._records, self._intercept
        objective = Objective(
            loss,
            weighting,
            records.n_covariates,
            fit_intercept=intercept,
            scale=1.0 if loss.needs_scale else None,
        )
        return self._curator._beside(records, objective, self._curator.ledger)


class Mapped(Records):
    """Records that are mapped block by block in every pass, wherever they are kept."""

    __slots__ = ("_all", "_arguments", "excess")

    def __init__(self, records: Records, arguments: tuple[Any, ...]) -> None:
        self.n = records.n
        self.n_covariates = arguments[0].shape[1]
        self.names = None
        self.block_sizes = records.block_sizes
        self.excess = records.excess
        self._all = records
        self._arguments = arguments

    def total(
        self, function: Callable[..., Any], *arguments: Any, own: Sequence[Any] | None = None
    ) -> Any:
        """As of all records, each block mapped on the way."""
        if own is not None:
            raise InvalidInput("mapped records have no arguments of single blocks.")
        return self._all.total(_of_mapped, function, self._arguments, *arguments)


class MappedArrays(Records):
    """Records in memory, mapped once."""

    __slots__ = ()

    def __init__(self, records: Records, arguments: tuple[Any, ...]) -> None:
        super().__init__(*map_records(records.X, records.y, arguments), None)


def _of_mapped(
    X: Covariates, y: Array, function: Callable[..., Any], how: tuple[Any, ...], *arguments: Any
) -> Any:
    return function(*map_records(X, y, how), *arguments)


def _count_lengths(
    X: Covariates, y: Array, edges: Array, theta: Array | None, intercept: bool, odds: bool
) -> NDArray[np.int64]:
    counts = np.zeros(len(edges) + 1, dtype=np.int64)
    for first in range(0, len(X), CHUNK):
        rows, responses = X[first : first + CHUNK], alone(y)[first : first + CHUNK]
        with np.errstate(all="ignore"):
            lengths = norms(rows, intercept)
            if theta is not None:
                fitted = rows @ theta[1:] + theta[0] if intercept else rows @ theta
                fitted = expit(fitted) if odds else fitted
                lengths = lengths * np.abs(responses - fitted)
            lengths = lengths[np.isfinite(responses) & ~np.isnan(lengths)]
        cells = np.searchsorted(edges, lengths)
        counts += np.bincount(cells, minlength=len(counts))
    return counts
