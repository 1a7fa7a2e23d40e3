"""Records under a released linear map: Grams, lengths and clipped scores of what is seen."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.answers import Answer, JointAnswer, Receipt, StepBudget
from dpfast.curator.curator import Curator, Prepared, prepare
from dpfast.curator.door import hand_out_count
from dpfast.curator.joint import Layout, make_plan
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
from dpfast.data.bought.units import Units, uncoded
from dpfast.data.records import Covariates, Records
from dpfast.data.reduction import additions
from dpfast.errors import InvalidInput
from dpfast.kernels.records import RecordView
from dpfast.models import Clip, Huber, LeastSquares, Loss, Mallows, Objective, Weighting
from dpfast.privacy.budget import GDP, PureDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.mechanisms import check_grid_range, gaussian_scale, laplace_rate
from dpfast.privacy.sensitivity import histogram as histogram_sensitivity

Array = NDArray[np.float64]

__all__ = ["FREE", "At", "Discount", "Held", "Whitened"]


#: Entries of rows from which on turning what is released takes less time than half a matrix saves.
TURNED = 500_000


class Whitened:
    """Answers about rows ``a = z'W``, z a design row with its intercept and W released.

    Parameters
    ----------
    curator : Curator
        Of the records as they are, or in released units; its ledger pays.
    matrix : ndarray, optional
        The map W; none by default.
    few : Curator, optional
        Of a secret sample of the same records, whose answers the same ledger pays (claim C85).

    Notes
    -----
    Nothing is stored: the kernels make what is seen of a record where they need it.  Rows of
    persons are mapped by NumPy, some at a time; the mean score of a person is a record (claim C81).

    Privacy
    -------
    Row and response are replaced by a function of them that the transcript fixes, so each answer
    has the sensitivity of a query about records of the new kind (adaptive composition, claim C9).
    """

    def __init__(
        self,
        curator: Curator,
        matrix: Array | None = None,
        *,
        few: Curator | None = None,
    ) -> None:
        self._curator, self._few = curator, few
        self._means = curator._records.means
        self._intercept = curator.objective.fit_intercept
        self._matrix, self._turn = matrix, None
        columns = curator._records.n_covariates + int(self._intercept)
        self.n = curator.n
        self.dimension = columns if matrix is None else matrix.shape[1]
        if matrix is not None and not self._means and self.n * self.dimension >= TURNED:
            # the kernels see rows that are turned, under half a matrix
            turn, half = np.linalg.qr(matrix.T)
            if np.isfinite(turn).all() and np.isfinite(half).all():
                self._turn, self._half = turn, np.ascontiguousarray(half.T)

    def mapped(self, matrix: Array) -> Whitened:
        """The same records with rows ``a'W``."""
        matrix = matrix if self._matrix is None else self._matrix @ matrix
        return Whitened(self._curator, matrix, few=self._few)

    def few(self) -> Whitened:
        """A few of the records, if there are so many that these tell enough; else all."""
        return self if self._few is None else Whitened(self._few, self._matrix)

    def gram(self, radius: float, mu: float, at: At | None = None) -> Answer:
        """Mean of ``min(1, radius^2/|a|^2) a a'``; costs ``mu`` (claim C14).

        With a parameter of ``min(c, radius^2/|a|^2) a a'``, c the loss's curvature there: a Gram
        of rows ``sqrt(c) a``.
        """
        view = self._view("response" if at is None else "curvature", at)
        budget = StepBudget(0.0, mu)
        return self._back(self._about(view, Mallows, radius).joint(self._zero(), budget).hessian)

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
        curator = self._about(self._view(what, at, shift), Mallows, radius, cap)
        gradient = self._back(curator.joint(self._zero(), StepBudget(mu)).gradient)
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
        gradient, nothing, meat, cost = self._about(view, Clip, radius).joint(self._zero(), budget)
        gradient = self._back(gradient)
        score = Answer(-gradient.value, gradient.noise_scale, gradient.receipt)
        return JointAnswer(score, nothing, self._back(meat) if mu_meat else meat, cost)

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
        view, records = self._view(what, at, held=held, turned=along is None), curator._records
        persons: Any = records
        of_rows = self._means and what != "score"
        if self._means and not of_rows:
            from dpfast.data.persons.scores import PersonScores

            records = PersonScores(persons, view, float(edges[-1]))
            view = View(np.eye(self.dimension), False)
        if of_rows:
            whole = whole_of(self.n)
            counts = records.total(_count_lengths, edges, view, whole) / whole
        elif along is not None:
            counts = records.total(_count_along, edges, view, along)
        else:
            records, units = uncoded(records)
            counts = records.total(compiled(view, units).counts, edges, curator._threads)
        theta, beside = None if at is None else at.theta, () if along is None else (along,)
        question = (receipt.query, mu, edges, what, theta, *beside)
        return curator._release(question, receipt, counts / self.n)

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

        assert not self._means  # the rows of a person would count each
        cost = PureDP(epsilon)
        ledger.charge(cost, "held Newton step")
        rate = laplace_rate(2 * HELD_CELLS, epsilon)
        noise_scale = math.sqrt(2.0) * rate[1] / rate[0]
        mu, sensitivity = 2.0 * HELD_CELLS / noise_scale, 2.0 * HELD_CELLS  # for audits
        receipt = Receipt("held Newton step", "R40", mu, sensitivity, noise_scale)
        view = self._view("score", at, held=held, turned=False)
        count = int(self._curator._records.total(_sum_held, direction, bound, view)[0])
        question = (receipt.query, mu, at.theta, direction, bound)
        found = hand_out_count(self._curator._noise, question, receipt, count, rate)
        return float(found / HELD_CELLS / self.n * bound)

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
        for rows in {self, self.few()}:
            excess, layouts = rows._curator._records.excess, (rows._layout, rows._scores_layout)
            _refuse(*layouts, excess, (*grams,), moment, (*lengths,), (*steps,), cells)

    def refuse_lengths(self, cells: int, mu: float) -> None:
        """Refuse budgets at which :meth:`lengths` would be; costs nothing."""
        self._lengths_receipt(cells, mu)

    @property
    def _layout(self) -> Layout:
        """Of what is seen."""
        own = Layout.of(self._curator._records, self.dimension)
        return own._replace(seen=not self._means)

    @property
    def _scores_layout(self) -> Layout:
        """Of scores, of which persons have one each."""
        if not self._means:
            return self._layout
        from dpfast.data.persons.scores import blocks_of_persons

        sizes = blocks_of_persons(self.n, self.dimension)
        return Layout(self.n, self.dimension, max(sizes), additions(len(sizes)))

    def _lengths_receipt(self, cells: int, mu: float) -> Receipt:
        return _lengths_receipt(self.n, self._curator._records.excess, cells, mu)

    def _zero(self) -> Array:
        return np.zeros(self.dimension)

    def _view(
        self,
        what: str,
        at: At | None,
        shift: float = 0.0,
        held: Held = FREE,
        turned: bool = True,
    ) -> View:
        matrix = np.eye(self.dimension) if self._matrix is None else self._matrix
        if turned and self._turn is not None:
            matrix, back = self._half, self._turn.T
            at = at and at._replace(theta=back @ at.theta)
            held = held.mapped(back)
        return View(matrix, self._intercept, what, at, shift, held)

    def _back(self, answer: Answer) -> Answer:
        """What was released of turned rows, as of rows that are not: noise has no direction."""
        turn = self._turn
        if turn is None:
            return answer
        value = turn @ answer.value
        if value.ndim == 2:
            value = value @ turn.T
            value = 0.5 * (value + value.T)
        return answer._replace(value=value)

    def _about(
        self, view: View, weights: Callable[[float], Weighting], radius: float, cap: float = 0.0
    ) -> Curator:
        """A curator of what is seen: of squares, or of Huber's loss with a corner at the cap."""
        records: Any = self._curator._records
        if records.means and weights is Clip:
            from dpfast.data.persons.scores import LOOSE, PersonScores

            records = PersonScores(records, view, LOOSE * radius)
        elif records.means:
            records = records.mapped(lambda rows: SeenRows(rows, view))
        else:
            records = Seen(records, view)
        objective, prepared = _prepared(weights, radius, cap, self.dimension)
        return self._curator._beside(records, objective, self._curator.ledger, prepared)


@lru_cache(maxsize=256)
def _prepared(
    weights: Callable[[float], Weighting], radius: float, cap: float, p: int
) -> tuple[Objective, Prepared]:
    """What the kernels are asked about rows that are seen, remembered."""
    loss: Loss = Huber(cap) if cap else LeastSquares()
    scale = 1.0 if cap else None
    objective = Objective(loss, weights(radius), p, fit_intercept=False, scale=scale)
    return objective, prepare(objective)


@lru_cache(maxsize=512)
def _refuse(
    layout: Layout,
    scores: Layout,
    excess: int,
    grams: tuple[float, ...],
    moment: float,
    lengths: tuple[float, ...],
    steps: tuple[float, ...],
    cells: int,
) -> None:
    """Plan such answers; what was not refused is remembered."""
    asked: list[tuple[Callable[[float], Weighting], float, StepBudget]] = []
    asked += [(Mallows, 0.0, StepBudget(0.0, mu)) for mu in grams if mu]
    asked += [(Mallows, 1.0, StepBudget(moment))] if moment else []
    asked += [(Clip, 0.0, StepBudget(mu, 0.0, 0.5 * mu)) for mu in steps]
    for weights, cap, budget in asked:
        _, (_, constants) = _prepared(weights, 1.0, cap, layout.row)
        assert constants is not None
        make_plan(constants, scores if weights is Clip else layout, budget)
    for mu in filter(None, lengths):
        _lengths_receipt(layout.n, excess, cells, mu)


def _lengths_receipt(n: int, excess: int, cells: int, mu: float) -> Receipt:
    sensitivity = histogram_sensitivity(n, excess)
    scale = gaussian_scale(sensitivity, mu, cells)
    check_grid_range(float(excess), scale, cells)
    return Receipt("histogram of lengths", "C60", mu, sensitivity, scale)


def compiled(view: View, units: Units | None = None) -> RecordView:
    """The kernels' form of a view with a matrix, of records that are in these units or in none."""
    matrix, at, shift = view.matrix, view.at, view.shift
    assert matrix is not None
    if not view.intercept:
        matrix = np.concatenate([np.zeros((1, matrix.shape[1])), matrix])
    discount, reach = view.held
    back = None
    if discount is not None:
        far, scale = np.ascontiguousarray(discount.at.theta), discount.at.scale
        back = (np.ascontiguousarray(discount.back), far, scale, discount.radius, discount.power)
    code, c, h, theta, of_scale = None, 1.0, 1.0, None, 1.0
    if at is not None:
        own = at.loss.code, at.loss.c, at.loss.h
        code, c, h = getattr(at.loss, "_seen_by_kernels", own)
        theta = np.ascontiguousarray(at.theta, dtype=np.float64)
        of_scale = min(max(1e-100, at.scale), 1e100)
    centres, spreads, response = (None, None, (0.0, 1.0)) if units is None else units
    return RecordView(
        np.ascontiguousarray(matrix), view.what, code, c, h, of_scale, theta, shift, centres,
        spreads, response, reach, back,
    )  # fmt: skip


class Seen(Records):
    """What a query sees of records: the kernels make it, wherever the records are kept."""

    __slots__ = ("_all", "_view", "excess")

    seen = True

    def __init__(self, records: Records, view: View) -> None:
        self.n, self.n_covariates, self.names = records.n, view.columns, None
        self.block_sizes, self.excess = records.block_sizes, records.excess
        self._all, units = uncoded(records)
        self._view = compiled(view, units)

    @property
    def additions(self) -> int:
        return self._all.additions

    def total(
        self, function: Callable[..., Any], *arguments: Any, own: Sequence[Any] | None = None
    ) -> Any:
        """As of all records, of a kernel's function that is told what to see."""
        if own is not None:
            raise InvalidInput("mapped records have no arguments of single blocks.")
        return self._all.total(function, *arguments, self._view)


class SeenRows(Records):
    """What a query sees of rows of persons, made block by block in every pass."""

    __slots__ = ("_all", "_view")

    def __init__(self, records: Records, view: View) -> None:
        self.n, self.n_covariates, self.names = records.n, view.columns, None
        self.block_sizes = records.block_sizes
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


def block_sizes_of(n: int) -> tuple[int, ...]:
    """Sizes of the blocks in which records in memory are seen: public."""
    return (BLOCK,) * (n // BLOCK) + ((n % BLOCK,) if n % BLOCK else ())


def whole_of(n: int) -> float:
    """What a person's rows share when their lengths are counted: n of it are added exactly."""
    return math.ldexp(1.0, 52 - n.bit_length())


def _count_lengths(X: Covariates, y: Array, edges: Array, view: View, whole: float) -> Array:
    """How many rows there are of each length, each with its person's part of ``whole``."""
    counts = np.zeros(len(edges) + 1)
    for first in range(0, len(X), BLOCK):
        some = slice(first, first + BLOCK)
        found = lengths(X[some], y[some], view)
        told = ~np.isnan(found)
        cells = np.searchsorted(edges, found[told])
        parts = None if whole is None else np.floor(whole * y[some, 1][told])
        counts += np.bincount(cells, parts, minlength=len(counts))
    return counts


def _count_along(X: Covariates, y: Array, edges: Array, view: View, along: Array) -> NDArray[Any]:
    """How many records have scores of each size along a direction."""
    counts = np.zeros(len(edges) + 1, dtype=np.int64)
    for first in range(0, len(X), BLOCK):
        some = slice(first, first + BLOCK)
        found = np.abs(projections(X[some], y[some], view, along))
        cells = np.searchsorted(edges, found[~np.isnan(found)])
        counts += np.bincount(cells, minlength=len(counts))
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
