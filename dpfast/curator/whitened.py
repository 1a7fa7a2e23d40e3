"""Records under a released linear map: Grams, lengths and clipped scores of least squares."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.answers import Answer, JointAnswer, Receipt, StepBudget
from dpfast.curator.door import hand_out_count
from dpfast.data.bought.maps import (
    BLOCK,
    FREE,
    At,
    Discount,
    Held,
    View,
    lengths,
    projections,
    seen,
)
from dpfast.data.parts import in_memory
from dpfast.data.records import Covariates, Records
from dpfast.errors import InvalidInput
from dpfast.models import Clip, Huber, LeastSquares, Loss, Mallows, Objective, Weighting
from dpfast.privacy.budget import GDP, PureDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.mechanisms import check_grid_range, gaussian_scale, laplace_rate
from dpfast.privacy.sensitivity import histogram as histogram_sensitivity

if TYPE_CHECKING:
    from dpfast.curator.curator import Curator

Array = NDArray[np.float64]

__all__ = ["FREE", "At", "Discount", "Held", "Whitened"]


class Whitened:
    """Answers about rows ``a = z'W``, z a design row with its intercept and W released.

    Parameters
    ----------
    curator : Curator
        Of the records as they are; its ledger pays.
    mapped : Records, optional
        The same records under a map.
    matrix : ndarray, optional
        The map, where records are mapped on the way of each query.

    Privacy
    -------
    Row and response are replaced by a function of them that the transcript fixes, so each answer
    has the sensitivity of a query about records of the new kind (adaptive composition, claim C9).
    """

    def __init__(
        self, curator: Curator, mapped: Records | None = None, matrix: Array | None = None
    ) -> None:
        self._curator = curator
        self._records = curator._records if mapped is None else mapped
        self._means = self._records.means
        self._intercept = mapped is None and curator.objective.fit_intercept
        self._matrix = matrix
        columns = self._records.n_covariates + int(self._intercept)
        self.n = curator.n
        self.dimension = columns if matrix is None else matrix.shape[1]

    def mapped(self, matrix: Array) -> Whitened:
        """The same records with rows ``a'W``."""
        if self._matrix is not None:
            return Whitened(self._curator, matrix=self._matrix @ matrix)
        if self._means or not in_memory(self._records):
            return Whitened(self._curator, matrix=matrix)
        records = self._records
        return Whitened(
            self._curator, Records(*seen(records.X, records.y, View(matrix, self._intercept)), None)
        )

    def gram(self, radius: float, mu: float, at: At | None = None) -> Answer:
        """Mean of ``min(1, radius^2/|a|^2) a a'``; costs ``mu`` (claim C14).

        With a parameter of ``min(c, radius^2/|a|^2) a a'``, c the loss's curvature there: a Gram
        of rows ``sqrt(c) a``.
        """
        view = self._view("response" if at is None else "curvature", at)
        budget = StepBudget(0.0, mu)
        return (
            self._about(view, LeastSquares(), Mallows(radius)).joint(self._zero(), budget).hessian
        )

    def moment(
        self,
        radius: float,
        cap: float,
        mu: float,
        at: At | None = None,
        what: str = "response",
        shift: float = 0.0,
    ) -> Answer:
        """Mean of ``min(1, radius^2/|a|^2) a r``, r held to ``+-cap``; costs ``mu`` (claim C13).

        ``r`` is the response less ``shift``, one that the loss may have, or the score there.
        """
        curator = self._about(self._view(what, at, shift), Huber(cap), Mallows(radius))
        gradient = curator.joint(self._zero(), StepBudget(mu)).gradient
        return Answer(-gradient.value, gradient.noise_scale, gradient.receipt)

    def clipped(
        self,
        at: At,
        radius: float,
        mu: float,
        mu_meat: float = 0.0,
        held: Held = FREE,
    ) -> JointAnswer:
        """Mean of the scores ``psi d a``, each held to a norm of ``radius``, and its meat.

        Costs less than the two together, and ``mu`` alone as long as ``mu_meat <= mu / 2`` (claim
        C17 without a curvature).
        """
        view = self._view("score", at, held=held)
        budget = StepBudget(mu, 0.0, mu_meat)
        gradient, nothing, meat, cost = self._about(view, LeastSquares(), Clip(radius)).joint(
            self._zero(), budget
        )
        score = Answer(-gradient.value, gradient.noise_scale, gradient.receipt)
        return JointAnswer(score, nothing, meat, cost)

    def lengths(
        self,
        edges: Array,
        mu: float,
        at: At | None = None,
        what: str = "response",
        held: Held = FREE,
        along: Array | None = None,
    ) -> Answer:
        """Shares of the records with these lengths of what is seen (:class:`View`).

        Parameters
        ----------
        edges : ndarray of shape (k,)
            Increasing; cell i holds the lengths in ``(edges[i - 1], edges[i]]``, the first one all
            that are no longer and the last, of k + 1, all that are longer.
        mu : float
        at : At, optional
        what : {"response", "curvature", "score", "foreseen", "residual"}
            The rows' lengths, as they are or times the root of the loss's curvature; the scores',
            or what is foreseen of them; or absolute residuals.
        along : ndarray of shape (p,), optional
            Absolute values of the scores along this direction in place of their lengths.

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
        curator.ledger.charge(GDP(mu), receipt.query)
        view = self._view(what, at, held=held)
        whole = whole_of(self.n) if self._means else None
        counts = self._records.total(_count_lengths, edges, view, whole, along)
        question = (receipt.query, mu, edges, what, None if at is None else at.theta)
        if along is not None:
            question = (*question, along)
        return curator._release(question, receipt, counts / (whole or 1.0) / self.n)

    def mean_along(
        self,
        direction: Array,
        bound: float,
        epsilon: float,
        ledger: Ledger,
        at: At,
        held: Held = FREE,
    ) -> float:
        """Mean of the scores along a direction, each number held to ``+-bound``.

        Privacy
        -------
        Costs ``epsilon`` of pure DP, charged to ``ledger``; direction, bound and parameter are
        released (claim R40).  A record that is not finite is zero.
        """
        from dpfast.privacy.release.sensitivity import HELD_CELLS

        cost = PureDP(epsilon)
        ledger.charge(cost, "held Newton step")
        rate = laplace_rate(2 * HELD_CELLS, epsilon)
        noise_scale = math.sqrt(2.0) * rate[1] / rate[0]
        mu, sensitivity = 2.0 * HELD_CELLS / noise_scale, 2.0 * HELD_CELLS  # for audits
        receipt = Receipt("held Newton step", "R40", mu, sensitivity, noise_scale)
        view = self._view("score", at, held=held)
        count = int(self._records.total(_sum_held, direction, bound, view)[0])
        question = (receipt.query, mu, at.theta, direction, bound)
        found = hand_out_count(self._curator._noise, question, receipt, count, rate)
        return found / HELD_CELLS / self.n * bound

    def refuse(
        self,
        grams: Sequence[float],
        moment: float,
        lengths: Sequence[float],
        steps: Sequence[float],
        *,
        cells: int,
    ) -> None:
        """Refuse budgets at which an answer would be, whatever the radius; costs nothing.

        Noise is in proportion to the radius of weights and clipping, so that of 1 decides; of
        histograms the one with most cells does.  Zero is of what is not asked.
        """
        for mu in filter(None, grams):
            self.refuse_gram(mu)
        if moment:
            self._refuse_moment(moment)
        for mu in filter(None, lengths):
            self._lengths_receipt(cells, mu)
        for mu in steps:
            self._plain(LeastSquares(), Clip(1.0)).plan(StepBudget(mu, 0.0, 0.5 * mu))

    def refuse_sums(self, gram: float, moment: float) -> None:
        """Refuse budgets at which :meth:`gram` and :meth:`moment` would be; costs nothing."""
        self.refuse_gram(gram)
        self._refuse_moment(moment)

    def refuse_gram(self, mu: float) -> None:
        """Refuse a budget at which :meth:`gram` would be; costs nothing."""
        self._plain(LeastSquares(), Mallows(1.0)).plan(StepBudget(0.0, mu))

    def refuse_lengths(self, cells: int, mu: float) -> None:
        """Refuse budgets at which :meth:`lengths` would be; costs nothing."""
        self._lengths_receipt(cells, mu)

    def _refuse_moment(self, mu: float) -> None:
        self._plain(Huber(1.0), Mallows(1.0)).plan(StepBudget(mu))

    def _lengths_receipt(self, cells: int, mu: float) -> Receipt:
        sensitivity = histogram_sensitivity(self.n)
        scale = gaussian_scale(sensitivity, mu, cells)
        check_grid_range(1.0, scale, cells)
        return Receipt("histogram of lengths", "C60", mu, sensitivity, scale)

    def _plain(self, loss: Loss, weighting: Weighting) -> Curator:
        return self._about(self._view("score", At(self._zero(), loss)), loss, weighting)

    def _zero(self) -> Array:
        return np.zeros(self.dimension)

    def _view(
        self,
        what: str,
        at: At | None,
        shift: float = 0.0,
        held: Held = FREE,
    ) -> View:
        matrix = self._matrix
        if matrix is None and self._intercept and (what == "curvature" or held != FREE):
            matrix = np.eye(self.dimension)  # what multiplies a row multiplies its constant, too
        return View(matrix, self._intercept, what, at, shift, held)

    def _about(self, view: View, loss: Loss, weighting: Weighting) -> Curator:
        """A curator of what is seen, for a loss of its own."""
        intercept = self._intercept and view.matrix is None
        records: Any = self._records
        if view.at is not None or view.matrix is not None or view.shift:
            columns = self.dimension - int(intercept)
            if records.means:
                records = records.mapped(lambda rows: Seen(rows, view, columns))
            else:
                records = Seen(records, view, columns)
        objective = Objective(
            loss,
            weighting,
            records.n_covariates,
            fit_intercept=intercept,
            scale=1.0 if loss.needs_scale else None,
        )
        return self._curator._beside(records, objective, self._curator.ledger)


class Seen(Records):
    """What a query sees of records, made block by block in every pass, wherever they are kept."""

    __slots__ = ("_all", "_view", "excess")

    def __init__(self, records: Records, view: View, n_covariates: int) -> None:
        self.n, self.n_covariates, self.names = records.n, n_covariates, None
        self.block_sizes, self.excess = records.block_sizes, records.excess
        if hasattr(records, "X"):  # in memory, or on disk
            self.block_sizes = block_sizes_of(records.n)
        self._all, self._view = records, view

    def blocks(self) -> Iterator[tuple[Covariates, Array]]:
        """As they are, mapped on the way."""
        records, first = self._all, 0
        if not hasattr(records, "X"):
            for X, y in records.blocks():
                yield seen(X, y, self._view)
            return
        for size in self.block_sizes:
            some = slice(first, first + size)
            yield seen(records.X[some], records.y[some], self._view)
            first += size

    def total(
        self, function: Callable[..., Any], *arguments: Any, own: Sequence[Any] | None = None
    ) -> Any:
        """As of all records, each block mapped on the way."""
        if own is not None:
            raise InvalidInput("mapped records have no arguments of single blocks.")
        if hasattr(self._all, "X"):
            return super().total(function, *arguments)
        return self._all.total(_of_seen, function, self._view, *arguments)


def block_sizes_of(n: int) -> tuple[int, ...]:
    """Sizes of the blocks in which records in memory are seen: public."""
    return (BLOCK,) * (n // BLOCK) + ((n % BLOCK,) if n % BLOCK else ())


def _of_seen(
    X: Covariates, y: Array, function: Callable[..., Any], view: View, *arguments: Any
) -> Any:
    return function(*seen(X, y, view), *arguments)


def whole_of(n: int) -> float:
    """What a person's rows share when their lengths are counted: n of it are added exactly."""
    return math.ldexp(1.0, 52 - n.bit_length())


def _count_lengths(
    X: Covariates,
    y: Array,
    edges: Array,
    view: View,
    whole: float | None = None,
    along: Array | None = None,
) -> NDArray[Any]:
    """How many rows there are of each length; of persons each counts with its part of ``whole``."""
    counts = np.zeros(len(edges) + 1, dtype=np.int64 if whole is None else np.float64)
    for first in range(0, len(X), BLOCK):
        some = slice(first, first + BLOCK)
        if along is None:
            found = lengths(X[some], y[some], view)
        else:
            found = np.abs(projections(X[some], y[some], view, along))
        told = ~np.isnan(found)
        cells = np.searchsorted(edges, found[told])
        parts = None if whole is None else np.floor(whole * y[some, 1][told])
        counts += np.bincount(cells, parts, minlength=len(counts))
    return counts


def _sum_held(
    X: Covariates, y: Array, direction: Array, bound: float, view: View
) -> NDArray[np.int64]:
    """Sum of whole numbers of cells: of each record's score along a direction, held to a bound."""
    from dpfast.privacy.release.sensitivity import HELD_CELLS

    found = np.zeros(1, dtype=np.int64)
    for first in range(0, len(X), BLOCK):
        some = slice(first, first + BLOCK)
        parts = projections(X[some], y[some], view, direction) / bound
        cells = np.rint(HELD_CELLS * np.clip(parts, -1.0, 1.0))
        found += np.where(np.isnan(cells), 0.0, cells).astype(np.int64).sum()
    return found
