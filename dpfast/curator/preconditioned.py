"""Queries about records under a released linear map: Grams, lengths and clipped scores."""

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
)
from dpfast.curator.curator import Curator, prepare
from dpfast.curator.joint import Layout, Plan, make_plan
from dpfast.curator.noisy_release import (
    charge,
    release_with_noise,
)
from dpfast.data.records import Records
from dpfast.data.scaling.maps import (
    NO_CLIPPING,
    LeverageWeights,
    Linearization,
    RowClipping,
    TransformedView,
    zero_and_identity,
)
from dpfast.kernels import session
from dpfast.kernels.records import GRADIENT, RecordKernel, RecordView
from dpfast.models import Clip, Constants, LeastSquares, Mallows, Objective, Weighting
from dpfast.models.losses import ClippedResponse
from dpfast.privacy.budget import GDP
from dpfast.privacy.mechanisms import (
    CLAMP,
    GRID_COST,
    check_grid_range,
    gaussian_scale,
)
from dpfast.privacy.rounding import ROUNDING_FORMULA, ROUNDING_PRODUCT
from dpfast.privacy.sensitivity import (
    _UP,
    histogram as histogram_sensitivity,
    relative_slack,
)

Array = NDArray[np.float64]

__all__ = [
    "NO_CLIPPING",
    "Linearization",
    "LeverageWeights",
    "RowClipping",
    "PreconditionedQueries",
]


#: Entries of rows from which on rotation saves time: a triangular map is half a matrix, but
#: released answers must be rotated back.
MIN_ROTATED_ENTRIES = 500_000


class PreconditionedQueries(session.RowQuestions):
    """Queries about rows ``a = z'W``, z a design row with its intercept and W released.

    ``subsample`` is of a secret sample of the same records; the same ledger pays (C85).

    Notes
    -----
    No row is stored: the kernels transform each record when they read it.  The mean score
    of a person is a record (claim C81).

    Privacy
    -------
    A function that the transcript fixes replaces row and response.  So each answer has the
    sensitivity of a query about the transformed records (adaptive composition, claim C9).
    """

    _curator: Curator
    _layout: Layout

    def mapped(self, matrix: Array) -> PreconditionedQueries:
        """Return queries about the same records with rows ``a'W``."""
        matrix = matrix if self._matrix is None else self._matrix @ matrix
        return PreconditionedQueries(
            self._curator, matrix, subsample=self._sample, weigh=self._weigh
        )

    def weighed(self, weigh: float) -> PreconditionedQueries:
        """Return queries that join a released multiple of the weight to each transformed record."""
        assert not self._means  # persons: the weight of a row is its part of its person
        return PreconditionedQueries(
            self._curator, self._matrix, subsample=self._sample, weigh=weigh
        )

    def subsample(self) -> PreconditionedQueries:
        """Return queries about a secret sample if there are many records, else about all."""
        if self._sample is None:
            return self
        return PreconditionedQueries(self._sample, self._matrix, weigh=self._weigh)

    def gram(self, radius: float, mu: float, at: Linearization | None = None) -> Answer:
        """Mean of ``min(c, radius^2/|a|^2) a a'``, c the curvature or 1: ``mu`` (claim C14)."""
        view = self._view("response" if at is None else "curvature", at)
        answer: JointAnswer = self._release_means(view, Mallows, radius, 0.0, 0.0, mu)
        return answer.hessian

    def moment(
        self,
        radius: float,
        cap: float,
        mu: float,
        at: Linearization | None = None,
        what: str = "response",
        shift: float = 0.0,
    ) -> Answer:
        """Mean of ``min(1, radius^2/|a|^2) a r``, r clipped to ``+-cap``; ``mu`` (claim C13)."""
        view = self._view(what, at, shift)
        answer: Answer = self._release_means(view, Mallows, radius, cap, mu).gradient
        negative: Answer = session.negated(answer)
        return negative

    def gram_and_moment(
        self,
        radius: float,
        cap: float,
        budget: StepBudget,
        at: Linearization | None = None,
        shift: float = 0.0,
    ) -> tuple[Answer, Answer]:
        """Release :meth:`gram` and :meth:`moment` of responses in one read.

        They cost less than both (claim C17): score and curvature of a record are collinear.
        """
        view = self._view("response", at, shift)
        answer = self._release_means(view, Mallows, radius, cap, budget.gradient, budget.hessian)
        return answer.hessian, session.negated(answer.gradient)

    def clipped_and_counted(
        self,
        at: Linearization,
        radius: float,
        mu: float,
        edges: Array,
        mu_counts: float,
        row_clipping: RowClipping = NO_CLIPPING,
    ) -> tuple[Answer, Answer]:
        """Release the mean of clipped scores and their norm histogram in one pass; not of persons.

        Costs the root of the sum of squares (claim C9).
        """
        curator, rotated = self._curator, self._rotated
        view = self._view("score", at, row_clipping=row_clipping)
        layout = rotated.layout(view, radius, 0.0) if rotated else self._layout
        plans = row_plans(Clip, False, layout, True, False, False)
        kernel, plan = plans.at(radius, 0.0, mu, 0.0, 0.0)
        receipt, _ = _histogram_receipt(self.n, self._layout.excess, len(edges) + 1, mu_counts)
        label = f"{plan.label} + {receipt.query}"
        cost = math.hypot(mu, mu_counts) * (1 + ROUNDING_PRODUCT)
        charge(curator.ledger, GDP(cost), label)
        *sums, counts = self._sums(view, Counting(kernel, edges), plan.want, radius, layout)
        question = (label, cost, edges, "score", at.theta, *self._observed(view, radius))
        score = release_with_noise(curator._noise, question, plan.receipts[0], sums[0])
        counted = release_with_noise(curator._noise, question, receipt, counts / self.n)
        score = rotated.back(score) if rotated else score
        return session.negated(score), counted

    def refuse(
        self,
        grams: Sequence[float],
        moments: Sequence[float] = (),
        histograms: Sequence[float] = (),
        steps: Sequence[float] = (),
        *,
        cells: int = 1,
    ) -> None:
        """Refuse budgets that an answer would refuse at any radius; costs nothing.

        Budgets are refused because they are too small or too large: the extremes decide.
        """
        costs = [_extremes(tuple(mus)) for mus in (grams, moments, histograms, steps)]
        for rows in {self, self.subsample()}:
            _refuse(*rows.layouts, *costs, cells)

    def refuse_norm_histogram(self, cells: int, mu: float) -> None:
        """Refuse budgets that :meth:`norm_histogram` would refuse; costs nothing."""
        _histogram_receipt(self.n, self._layout.excess, cells, mu)

    @property
    def layouts(self) -> tuple[Layout, Layout]:
        """Layouts of sums of rows and of scores; public."""
        return self._layout, self._scores_layout

    @property
    def _scores_layout(self) -> Layout:
        """Layout of sums of scores; a person has one score."""
        if not self._means:
            return self._layout
        from dpfast.data.persons.scores import blocks_of_persons
        from dpfast.data.reduction import additions

        sizes = blocks_of_persons(self.n, self.dimension)
        return Layout(self.n, self.dimension, max(sizes), additions(len(sizes)))

    def _special_sums(
        self, view: TransformedView, kernel: Any, want: int, radius: float | None, layout: Any
    ) -> Any:
        """Compute exact means of rotated rows, or of the scores of persons."""
        zero, _ = zero_and_identity(self.dimension)
        arguments = kernel.sums, zero, want, float(self.n), self._curator._threads
        if self._rotated:
            return self._rotated.asked(
                lambda kernel_view: self._raw.total(*arguments, kernel_view),
                view, self._units, layout,
            )  # fmt: skip
        assert radius is not None
        from dpfast.data.persons.scores import ROW_NORM_FACTOR

        compiled_view = compiled(view, self._units)
        return self._persons(compiled_view, ROW_NORM_FACTOR * radius).total(*arguments)

    def _special_counts(self, view: TransformedView, edges: Array, direction: Array | None) -> Any:
        """Count norms between these edges along a direction, or of rows that are not arrays."""
        threads = self._curator._threads
        if direction is not None:
            from dpfast.data.scaling.transformed import count_along

            return self._curator._records.total(count_along, edges, view, direction)
        if not self._means:
            return self._counts(view, edges)
        if view.what == "score":
            persons = self._persons(compiled(view, self._units), float(edges[-1]))
            return persons.total(_identity_view(self.dimension).counts, edges, threads, 0.0)
        # each row has its own cell, and counts as its part of a person
        from dpfast.data.persons.scores import counting_unit

        unit, compiled_view = counting_unit(self.n), compiled(view, self._units)
        return self._raw.total(compiled_view.counts, edges, threads, unit) / unit

    def _rotated_counts(self, view: TransformedView, edges: Array) -> Any:
        """Count rotated rows with lengths between these edges, exactly."""
        arguments = edges, self._curator._threads
        return self._rotated.asked(
            lambda kernel_view: self._raw.total(kernel_view.counts, *arguments), view, self._units
        )

    def _persons(self, view: RecordView, longest: float) -> Any:
        """Make records of the mean scores of persons."""
        from dpfast.data.persons.scores import person_scores

        persons: Any = self._raw
        return person_scores(persons, view, self.dimension, longest)


def exact_scores(
    rows: PreconditionedQueries, at: Linearization, bound: float, row_clipping: RowClipping
) -> tuple[Array, int, tuple[Any, ...]]:
    """Sum clipped scores exactly, for a release of the curator's; not of persons.

    Returns
    -------
    total : ndarray of shape (p,)
    depth : int
        Sequential roundings of the mean that it is made of (claim C11).
    seen : tuple
        What an observer of the release receives.
    """
    plain = PreconditionedQueries(rows._curator, rows._matrix)
    plain._rotated = None  # sums of several waves are in the same coordinates
    view = plain._view("score", at, row_clipping=row_clipping)
    kernel, _ = _kernel_and_constants(Clip, bound, 0.0, plain.dimension)
    gradient = plain._sums(view, kernel, GRADIENT, bound)[0]
    return -plain.n * gradient, plain._layout.depth(GRADIENT), plain._observed(view, bound)


class Counting(NamedTuple):
    """Kernel whose sums are followed by the norm histogram of the same rows, in one pass."""

    kernel: RecordKernel
    edges: Array

    def sums(self, X: Any, y: Array, *arguments: Any) -> Any:
        """Compute sums and histogram of one block."""
        theta, want, divisor, threads, view = arguments
        return self.kernel.sums(X, y, theta, want, divisor, threads, view, self.edges)


@lru_cache(maxsize=256)
def _kernel_and_constants(
    weights: Callable[[float], Weighting], radius: float, cap: float, p: int
) -> tuple[RecordKernel, Constants]:
    """Make the kernel and constants of queries about transformed rows; both are cached."""
    loss, scale = (ClippedResponse(cap), 1.0) if cap else (LeastSquares(), None)
    objective = Objective(loss, weights(radius), p, fit_intercept=False, scale=scale)
    kernel, constants = prepare(objective)
    assert constants is not None
    return kernel, constants


@lru_cache(maxsize=512)
def _kernel_and_plan(
    weights: Callable[[float], Weighting],
    radius: float,
    cap: float,
    layout: Layout,
    gradient: float,
    hessian: float = 0.0,
    meat: float = 0.0,
) -> tuple[RecordKernel, Plan]:
    """Make a kernel and the plan of its query; both are cached."""
    kernel, constants = _kernel_and_constants(weights, radius, cap, layout.row)
    return kernel, make_plan(constants, layout, StepBudget(gradient, hessian, meat))


@lru_cache(maxsize=256)
def row_plans(
    weights: Callable[[float], Weighting], capped: bool, layout: Layout, *wanted: bool
) -> session.RowPlans:
    """Plan a query of some of gradient, Hessian and meat, at any norm, cap and budgets.

    :func:`_kernel_and_plan`, compiled, to the same bits.  Where an example of another norm and
    another cap differs, as where nothing bounds a residual, that function plans each query.
    """
    mus = [2.0 * GRID_COST * mean for mean in wanted]  # small: no grid is too fine for it
    budget = StepBudget(mus[0], mus[1], mus[2])
    kernel, constants = _kernel_and_constants(weights, 1.0, float(capped), layout.row)
    assert constants.coupling == "independent" and constants.sides is None  # as the session has it
    plan = make_plan(constants, layout, budget)
    slack = relative_slack(layout.n, layout.depth(plan.want))
    up = _UP, 1.0 + ROUNDING_FORMULA, 1.0 + ROUNDING_PRODUCT
    roundings = 1.0 + slack, *up, GRID_COST
    largest = 2.0 * layout.excess / CLAMP
    plans = session.RowPlans(weights, layout, kernel, plan, capped, roundings, largest)
    example = 2.0, 3.0 * capped, *mus
    plans.usual = True
    plans.usual = plans.at(*example)[1] == _kernel_and_plan(weights, *example[:2], layout, *mus)[1]
    return plans


def _rotated_rows(matrix: Array, records: Any, layout: Layout) -> Any:
    """Make rotated rows of a map, where that saves time."""
    if layout.n * layout.row < MIN_ROTATED_ENTRIES:
        return None
    from dpfast.curator.rotated import rotate

    return rotate(matrix, records, layout)


@lru_cache(maxsize=512)
def _extremes(mus: tuple[float, ...]) -> tuple[float, ...]:
    """Return the smallest and the largest positive budget."""
    positive = [mu for mu in mus if mu]
    return (min(positive), max(positive)) if positive else ()


@lru_cache(maxsize=512)
def _refuse(
    layout: Layout,
    scores: Layout,
    grams: tuple[float, ...],
    moments: tuple[float, ...],
    histograms: tuple[float, ...],
    steps: tuple[float, ...],
    cells: int,
) -> None:
    """Plan such answers, which refuses impossible budgets; accepted ones are cached."""
    for mu in grams:
        _kernel_and_plan(Mallows, 1.0, 0.0, layout, 0.0, mu)
    for mu in moments:
        _kernel_and_plan(Mallows, 1.0, 1.0, layout, mu)
    for mu in steps:
        _kernel_and_plan(Clip, 1.0, 0.0, scores, mu, 0.0, 0.5 * mu)
    for mu in histograms:
        _histogram_receipt(layout.n, layout.excess, cells, mu)


@lru_cache(maxsize=512)
def _histogram_receipt(n: int, excess: int, cells: int, mu: float) -> tuple[Receipt, GDP]:
    """Make the receipt of a histogram of norms, and its cost; both are cached."""
    sensitivity = histogram_sensitivity(n, excess)
    scale = gaussian_scale(sensitivity, mu, cells)
    check_grid_range(float(excess), scale, cells)
    return Receipt("histogram of lengths", "C60", mu, sensitivity, scale), GDP(mu)


@lru_cache(maxsize=64)
def _identity_view(p: int) -> RecordView:
    """Make the view of rows that are not transformed."""
    return RecordView((p + 1, p))


session.connect_plans(
    Receipt,
    Plan,
    _kernel_and_plan,
    _histogram_receipt,
    GRID_COST,
    1.0 + ROUNDING_FORMULA,
    0.5 * CLAMP,
)
session.connect_rows(
    (JointAnswer, TransformedView, RecordView, Records, Layout),
    (NO_CLIPPING, Clip),
    (row_plans, zero_and_identity, _rotated_rows),
)
compiled = session.compiled


def nonprivate_residuals(curator: Curator, theta: Array, edges: Array) -> Array:
    """Count records with absolute residuals below each edge, and all: exact, not private."""
    rows, units = curator._records.uncoded
    objective = curator.objective
    at = Linearization(theta, objective.loss)
    view = TransformedView(np.eye(len(theta)), objective.fit_intercept, "residual", at)
    counts: Array = rows.total(compiled(view, units).counts, edges, curator._threads)
    return counts.cumsum()
