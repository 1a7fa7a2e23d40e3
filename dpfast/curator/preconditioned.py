"""Records under a released linear map: Grams, lengths and clipped scores of what is seen."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.answers import (
    Answer,
    JointAnswer,
    Receipt,
    StepBudget,
    answer_of,
    joint_answer_of,
)
from dpfast.curator.curator import Curator, prepare
from dpfast.curator.joint import Layout, Plan, make_plan
from dpfast.curator.noisy_release import (
    for_observers,
    release_jointly_with_noise,
    release_with_noise,
)
from dpfast.data.scaling.maps import (
    NO_CLIPPING,
    LeverageWeights,
    Linearization,
    RowClipping,
    TransformedView,
)
from dpfast.data.scaling.units import ReleasedScales
from dpfast.kernels.records import RecordKernel, RecordView
from dpfast.models import Clip, Constants, Huber, LeastSquares, Mallows, Objective, Weighting
from dpfast.privacy.budget import GDP
from dpfast.privacy.mechanisms import check_grid_range, gaussian_scale
from dpfast.privacy.rounding import ROUNDING_PRODUCT
from dpfast.privacy.sensitivity import histogram as histogram_sensitivity

Array = NDArray[np.float64]

__all__ = [
    "NO_CLIPPING",
    "Linearization",
    "LeverageWeights",
    "RowClipping",
    "PreconditionedQueries",
]


#: Entries of rows from which on turning what is released takes less time than half a matrix saves.
TURNED = 500_000


class PreconditionedQueries:
    """Answers about rows ``a = z'W``, z a design row with its intercept and W released.

    ``few`` is of a secret sample of the same records, whose answers the same ledger pays (C85).

    Notes
    -----
    No row is stored: the kernels make what is seen of a record where they need it.  The mean score
    of a person is a record (claim C81).

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
        weigh: float = 0.0,
    ) -> None:
        self._curator, self._few, self._weigh = curator, few, weigh
        records = curator._records
        self._means = records.means
        self._raw, self._units = records.uncoded
        self._intercept = curator.objective.fit_intercept
        self._matrix = matrix
        columns = records.n_covariates + int(self._intercept)
        self.n = curator.n
        self.dimension = columns if matrix is None else matrix.shape[1]
        own, row = curator._layout, self.dimension // records.parts
        seen = matrix is not None  # through a map
        #: Of what is seen, through a map or of persons.
        self._layout = Layout(
            own.n, row, own.largest_block, own.additions, own.excess, own.means, seen
        )
        self._many: Any = None
        if matrix is not None and not self._means and self.n * self.dimension >= TURNED:
            from dpfast.curator.rotated import rotate

            self._many = rotate(matrix, self._raw, self._layout)

    def mapped(self, matrix: Array) -> PreconditionedQueries:
        """The same records with rows ``a'W``."""
        matrix = matrix if self._matrix is None else self._matrix.dot(matrix)
        return PreconditionedQueries(self._curator, matrix, few=self._few, weigh=self._weigh)

    def weighed(self, weigh: float) -> PreconditionedQueries:
        """The same records, their weights times a released number a part of what is seen."""
        assert not self._means  # whose rows have parts of their person for weights
        return PreconditionedQueries(self._curator, self._matrix, few=self._few, weigh=weigh)

    def subsample(self) -> PreconditionedQueries:
        """A few of the records, if there are so many that these tell enough; else all."""
        few = self._few
        return self if few is None else PreconditionedQueries(few, self._matrix, weigh=self._weigh)

    def gram(self, radius: float, mu: float, at: Linearization | None = None) -> Answer:
        """Mean of ``min(c, radius^2/|a|^2) a a'``, c the curvature or 1: ``mu`` (claim C14)."""
        view = self._view("response" if at is None else "curvature", at)
        return self._ask(view, Mallows, radius, 0.0, 0.0, mu).hessian

    def moment(
        self,
        radius: float,
        cap: float,
        mu: float,
        at: Linearization | None = None,
        what: str = "response",
        shift: float = 0.0,
    ) -> Answer:
        """Mean of ``min(1, radius^2/|a|^2) a r``, r held to ``+-cap``; costs ``mu`` (claim C13)."""
        view = self._view(what, at, shift)
        gradient = self._ask(view, Mallows, radius, cap, mu).gradient
        return answer_of((-gradient.value, *gradient[1:]))

    def clipped(
        self,
        at: Linearization,
        radius: float,
        mu: float,
        mu_meat: float = 0.0,
        held: RowClipping = NO_CLIPPING,
    ) -> JointAnswer:
        """Mean of the scores held to a norm, and its meat: less than both (claim C17)."""
        view = self._view("score", at, held=held)
        gradient, nothing, meat, cost = self._ask(view, Clip, radius, 0.0, mu, 0.0, mu_meat)
        score = answer_of((-gradient.value, *gradient[1:]))
        return joint_answer_of((score, nothing, meat, cost))

    def clipped_and_counted(
        self,
        at: Linearization,
        radius: float,
        mu: float,
        edges: Array,
        mu_counts: float,
        held: RowClipping = NO_CLIPPING,
    ) -> tuple[Answer, Answer]:
        """The mean of held scores, and :meth:`lengths` of scores: of one reading, not of persons.

        Costs the root of the sum of squares (claim C9).
        """
        curator, many, view = self._curator, self._many, self._view("score", at, held=held)
        layout = many.layout(view, radius, 0.0) if many else self._layout
        kernel, plan = _planned(Clip, radius, 0.0, layout, mu)
        receipt, _ = _lengths_receipt(self.n, self._layout.excess, len(edges) + 1, mu_counts)
        label, cost = (
            f"{plan.label} + {receipt.query}",
            math.hypot(mu, mu_counts) * (1 + ROUNDING_PRODUCT),
        )
        curator.ledger.charge(GDP(cost), label)
        if self._raw.read_again or self._raw.is_remote:
            *sums, counts = self._sums(view, Counting(kernel, edges), plan.want, radius, layout)
        else:
            sums = self._sums(view, kernel, plan.want, radius, layout)
            counts = self._counts(view, edges)
        question = (label, cost, edges, "score", at.theta, *self._seen(view, radius))
        score = release_with_noise(curator._noise, question, plan.receipts[0], sums[0])
        counted = release_with_noise(curator._noise, question, receipt, counts / self.n)
        score = many.back(score) if many else score
        return answer_of((-score.value, *score[1:])), counted

    def norm_histogram(
        self,
        edges: Array,
        mu: float,
        at: Linearization | None = None,
        what: str = "response",
        held: RowClipping = NO_CLIPPING,
        along: Array | None = None,
    ) -> Answer:
        """Release a histogram of norms of what a :class:`TransformedView` shows (claim C60)."""
        curator = self._curator
        receipt, cost = _lengths_receipt(self.n, self._layout.excess, len(edges) + 1, mu)
        if what == "weight":
            receipt = receipt._replace(query="histogram of weights")
        curator.ledger.charge(cost, receipt.query)
        view = self._view(what, at, held=held, turned=along is None)
        if along is not None:
            from dpfast.data.scaling.transformed import count_along

            counts = curator._records.total(count_along, edges, view, along)
        elif not self._means:
            counts = self._counts(view, edges)
        elif what == "score":
            of = self._persons(compiled(view, self._units), float(edges[-1]))
            counts = of.total(_as_they_are(self.dimension).counts, edges, curator._threads, 0.0)
        else:  # each row is in its own cell, with its part of a person
            from dpfast.data.persons.scores import counting_unit

            whole, seen = counting_unit(self.n), compiled(view, self._units)
            counts = self._raw.total(seen.counts, edges, curator._threads, whole) / whole
        theta, beside = None if at is None else at.theta, () if along is None else (along,)
        question = (receipt.query, mu, edges, what, theta, *beside, *self._seen(view))
        return curator._release(question, receipt, counts / self.n)

    def refuse(
        self,
        grams: Sequence[float],
        moments: Sequence[float] = (),
        lengths: Sequence[float] = (),
        steps: Sequence[float] = (),
        *,
        cells: int = 1,
    ) -> None:
        """Refuse budgets at which an answer would be, whatever the radius; costs nothing."""
        for rows in {self, self.subsample()}:
            asked = (*grams,), (*moments,), (*lengths,), (*steps,), cells
            _refuse(rows._layout, rows._scores_layout, *asked)

    def refuse_norm_histogram(self, cells: int, mu: float) -> None:
        """Refuse budgets at which :meth:`lengths` would be; costs nothing."""
        _lengths_receipt(self.n, self._layout.excess, cells, mu)

    @property
    def _scores_layout(self) -> Layout:
        """Of scores, of which persons have one each."""
        if not self._means:
            return self._layout
        from dpfast.data.persons.scores import blocks_of_persons
        from dpfast.data.reduction import additions

        sizes = blocks_of_persons(self.n, self.dimension)
        return Layout(self.n, self.dimension, max(sizes), additions(len(sizes)))

    def _view(
        self,
        what: str,
        at: Linearization | None,
        shift: float = 0.0,
        held: RowClipping = NO_CLIPPING,
        turned: bool = True,
    ) -> TransformedView:
        matrix = _known(self.dimension)[1] if self._matrix is None else self._matrix
        if turned and self._many:
            matrix, at, held = self._many.rotated(at, held)
        return TransformedView(matrix, self._intercept, what, at, shift, held, self._weigh)

    def _ask(
        self,
        view: TransformedView,
        weights: Callable[[float], Weighting],
        radius: float,
        cap: float,
        gradient: float,
        hessian: float = 0.0,
        meat: float = 0.0,
    ) -> JointAnswer:
        """Answers about what is seen, at these mu: of squares, or of Huber's loss with its cap."""
        curator, layout = self._curator, self._layout
        if self._means and weights is Clip:
            layout = self._scores_layout
        layout = self._many.layout(view, radius, cap) if self._many else layout
        kernel, plan = _planned(weights, radius, cap, layout, gradient, hessian, meat)
        curator.ledger.charge(plan.cost, plan.label)
        sums = self._sums(view, kernel, plan.want, radius if weights is Clip else None, layout)
        at = _known(self.dimension)[0]
        question = (plan.label, plan.cost.mu, at, *self._seen(view, radius, cap))
        answers = release_jointly_with_noise(
            curator._noise, question, plan.receipts, plan.grids, sums
        )
        answers = [*map(self._many.back, answers)] if self._many else answers
        return joint_answer_of((*answers, plan.cost.mu))

    def _seen(self, view: TransformedView, *norms: float) -> tuple[Any, ...]:
        """For observers: what rows and responses are made with, and held to."""
        return for_observers(view, norms, self._units, self._curator._made_with)

    def _counts(self, view: TransformedView, edges: Array) -> Any:
        """Exact numbers of rows with lengths between these edges."""
        given, units, total = (edges, self._curator._threads), self._units, self._raw.total
        if self._many:
            return self._many.asked(lambda of: total(of.counts, *given), view, units)
        return total(compiled(view, units).counts, *given)

    def _sums(
        self,
        view: TransformedView,
        kernel: Any,
        want: int,
        radius: float | None,
        layout: Any = None,
    ) -> Any:
        """Exact means of what is seen, by the kernels; of persons their rows, or scores."""
        asked = kernel.sums, _known(self.dimension)[0], want, float(self.n), self._curator._threads
        many, units = self._many, self._units
        if many:
            return many.asked(lambda of: self._raw.total(*asked, of), view, units, layout)
        seen = compiled(view, units)
        if self._means and radius is not None:
            from dpfast.data.persons.scores import ROW_NORM_FACTOR

            return self._persons(seen, ROW_NORM_FACTOR * radius).total(*asked)
        return self._raw.total(*asked, seen)

    def _persons(self, seen: RecordView, longest: float) -> Any:
        """The mean scores of persons, as records."""
        from dpfast.data.persons.scores import PersonScores

        persons: Any = self._raw
        return PersonScores(persons, seen, self.dimension, longest)


class Counting(NamedTuple):
    """A kernel whose sums have the counts of what they are of beside them."""

    kernel: RecordKernel
    edges: Array

    def sums(self, X: Any, y: Array, *asked: Any) -> Any:
        """Of a block, through a view."""
        *_, threads, seen = asked
        return *self.kernel.sums(X, y, *asked), seen.counts(X, y, self.edges, threads)


@lru_cache(maxsize=64)
def _known(p: int) -> tuple[Array, Array]:
    """Where kernels are asked, as what is seen is that of the parameter already; and no map."""
    zero, identity = np.zeros(p), np.eye(p)
    zero.flags.writeable = identity.flags.writeable = False
    return zero, identity


@lru_cache(maxsize=256)
def _prepared(
    weights: Callable[[float], Weighting], radius: float, cap: float, p: int
) -> tuple[RecordKernel, Constants]:
    """What the kernels are asked about rows that are seen, remembered."""
    loss, scale = (Huber(cap), 1.0) if cap else (LeastSquares(), None)
    about = Objective(loss, weights(radius), p, fit_intercept=False, scale=scale)
    kernel, constants = prepare(about)
    assert constants is not None
    return kernel, constants


@lru_cache(maxsize=512)
def _planned(
    weights: Callable[[float], Weighting],
    radius: float,
    cap: float,
    layout: Layout,
    gradient: float,
    hessian: float = 0.0,
    meat: float = 0.0,
) -> tuple[RecordKernel, Plan]:
    """A kernel, and the plan of what it is asked, remembered."""
    kernel, constants = _prepared(weights, radius, cap, layout.row)
    return kernel, make_plan(constants, layout, StepBudget(gradient, hessian, meat))


@lru_cache(maxsize=512)
def _refuse(
    layout: Layout,
    scores: Layout,
    grams: tuple[float, ...],
    moments: tuple[float, ...],
    lengths: tuple[float, ...],
    steps: tuple[float, ...],
    cells: int,
) -> None:
    """Plan such answers; what was not refused is remembered."""
    for mu in filter(None, grams):
        _planned(Mallows, 1.0, 0.0, layout, 0.0, mu)
    for mu in moments:
        _planned(Mallows, 1.0, 1.0, layout, mu)
    for mu in steps:
        _planned(Clip, 1.0, 0.0, scores, mu, 0.0, 0.5 * mu)
    for mu in filter(None, lengths):
        _lengths_receipt(layout.n, layout.excess, cells, mu)


@lru_cache(maxsize=512)
def _lengths_receipt(n: int, excess: int, cells: int, mu: float) -> tuple[Receipt, GDP]:
    """Of a histogram, and what it costs; remembered."""
    sensitivity = histogram_sensitivity(n, excess)
    scale = gaussian_scale(sensitivity, mu, cells)
    check_grid_range(float(excess), scale, cells)
    return Receipt("histogram of lengths", "C60", mu, sensitivity, scale), GDP(mu)


@lru_cache(maxsize=64)
def _as_they_are(p: int) -> RecordView:
    """Rows that nothing is done to."""
    return RecordView((p + 1, p))


def compiled(
    view: TransformedView, units: ReleasedScales | None = None, **kept: Array | None
) -> RecordView:
    """The kernels' form of a view with a matrix, of records that are in these units or in none;
    ``kept``: lengths to keep, or that were kept.
    """
    matrix: Any = view.matrix
    at, shift, p = view.at, view.shift, int(matrix.shape[1])
    if matrix is _known(p)[1]:  # no map
        matrix = p + 1 - view.intercept, p
    elif view.intercept:
        matrix = np.ascontiguousarray(matrix)
    else:
        matrix = np.concatenate([np.zeros((1, p)), np.ascontiguousarray(matrix)])
    discount, reach = view.row_clipping
    back = None
    if discount is not None:
        far, scale = np.ascontiguousarray(discount.at.theta), discount.at.scale
        back = (np.ascontiguousarray(discount.back), far, scale, discount.radius, discount.power)
    code, c, h, theta, of_scale = None, 1.0, 1.0, None, 1.0
    if at is not None:
        own = at.loss.code, at.loss.c, at.loss.h
        code, c, h = getattr(at.loss, "_kernel_parameters", own)
        theta = np.ascontiguousarray(at.theta, dtype=np.float64)
        of_scale = at.scale
        if not 1e-100 <= of_scale <= 1e100:
            of_scale = min(max(1e-100, of_scale), 1e100)
    centres, spreads, response = (None, None, (0.0, 1.0)) if units is None else units
    return RecordView(
        matrix, view.what, code, c, h, of_scale, theta, shift, centres, spreads, response, reach,
        back, view.weigh, **kept,
    )  # fmt: skip
