"""The curvature at the pilot estimate, and the preconditioner of the Newton steps by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dpfast.arguments import Array
from dpfast.curator.preconditioned import Linearization, PreconditionedQueries
from dpfast.kernels import decisions
from dpfast.solvers.pcn.curvature import (
    GaussianCurvature,
    gaussian_design_curvature,
    typical_curvature,
)
from dpfast.solvers.pcn.histogram import FINE, NormHistogram, bin_edges, released_norms
from dpfast.solvers.pcn.initial import InitialEstimate
from dpfast.solvers.pcn.many_columns import MANY
from dpfast.solvers.pcn.plan import GRAM_NOISE, TINY, Budgets
from dpfast.solvers.pcn.precondition import precondition
from dpfast.solvers.pcn.rounds import Pilot, Run, broadened, clipped_round
from dpfast.solvers.pcn.scores import NoisyScore

#: Largest part of the records for which a subsample estimates the curvature of all.
SUBSAMPLE_PART = 0.25

#: Largest mean square of the norms beyond those that a subsample shows, as a part of all.  With
#: more, the curvature is estimated from all records.
MAX_UNDETECTED_SQUARE = 0.05


#: Largest noise of the first Gram, in its least eigenvalue, at which no other one is asked for; and
#: largest mean square of the rows beyond its radius, where a coordinate has 1.  With an excess of 1
#: intervals of two skewed designs of 10,000 records are 5% wider than after a second Gram; with .5
#: none of five designs is, and of .25 normal rows of 2,000 are whitened twice.
MAX_FIRST_NOISE, MAX_FIRST_EXCESS = 0.5, 0.5


class LocalCurvature(NamedTuple):
    """The curvature at the pilot estimate: what is expected, and the norms of its rows."""

    #: Records that the curvature is estimated from; a subsample, or not, or None without one.
    rows: PreconditionedQueries
    sampled: bool | None
    budget: Budgets
    at: Linearization
    #: The same with a wider scale, and the factor.
    broad_at: Linearization
    broadening: float
    expected: GaussianCurvature
    norms: NormHistogram
    max_norm: float
    light_tail: bool
    #: Score of the first step, if that was taken already.
    last_score: NoisyScore | None
    #: Curvature along most directions, and the norm of the typical row, for each coefficient.
    typical: float
    unit: float


def local_curvature(run: Run, pilot: Pilot, report: Callable[[Array, int], None]) -> LocalCurvature:
    """Estimate the norms of curvature-weighted rows, from a subsample where it shows their tail."""
    broadening = broadened(Linearization(pilot.theta, run.setting.loss))[1]
    # a subsample has too few records for a sharp curvature; a large one saves no time
    tries_sample = (
        run.few_rows is not run.rows
        and broadening == 1.0
        and run.few_rows.n <= SUBSAMPLE_PART * run.rows.n
    )
    if tries_sample:
        local = _norms(run, pilot, run.few_rows, True, None)
        if local.light_tail:
            return local
    sampled, last_score = False if tries_sample else None, None
    if run.max_rounds:
        # the first step starts with the curvature of a subsample
        budget = run.budgets(pilot.rounds, sampled)
        first = budget.round._replace(vector=budget.steps[0])
        n_rounds = pilot.rounds
        pilot, last_score = clipped_round(run, pilot, run.rows, first)
        pilot = pilot._replace(rounds=n_rounds)
        report(pilot.theta, 1)
    return _norms(run, pilot, run.rows, sampled, last_score)


def _norms(
    run: Run,
    pilot: Pilot,
    rows: PreconditionedQueries,
    sampled: bool | None,
    last_score: NoisyScore | None,
) -> LocalCurvature:
    """Release the norms of these rows, weighted by their curvature."""
    budget, p = run.budgets(pilot.rounds, sampled), pilot.theta.size
    at = Linearization(pilot.theta, run.setting.loss, pilot.scale)
    expected = gaussian_design_curvature(at, *run.constant_and_offsets)
    broad_at, broadening = broadened(at)
    typical = typical_curvature(*expected)
    unit = (broadening * typical) ** 0.5
    norms = released_norms(rows, budget.histogram, broad_at, "curvature", FINE)
    max_norm = budget.longest_radius(rows.n, p) * unit
    light_tail = (
        run.few_rows is not run.rows
        and sampled is not False
        and norms.longest <= max_norm
        and norms.undetected_square() <= MAX_UNDETECTED_SQUARE * p * unit**2
    )
    return LocalCurvature(
        rows,
        sampled,
        budget,
        at,
        broad_at,
        broadening,
        expected,
        norms,
        max_norm,
        light_tail,
        last_score,
        typical,
        unit,
    )


class LocalWhitening(NamedTuple):
    """Whitening by a released curvature; its eigenvalues are relative to the typical one."""

    whiten: Array
    unwhiten: Array
    values: Array
    floor: float
    noise: float | Array
    radius: float
    density_factor: float
    records_detected: bool
    #: Noise that is left, in the least eigenvalue.
    relative_error: float

    @property
    def known(self) -> Array:
        """Part of each direction's curvature that is not noise."""
        return np.asarray(decisions.known_part(self.values, self.noise, self.floor))


def first_preconditioner(
    run: Run, local: LocalCurvature, initial: InitialEstimate
) -> LocalWhitening | None:
    """Return the whitening of the first Gram, if another one would tell nothing new.

    That is so where the curvature is that of the rows, no row is much longer than the radius of the
    first Gram, and its noise is small in every direction.
    """
    first = initial.whitening
    if run.max_rounds or first is None or initial.is_repeated or initial.later:
        return None
    least, largest = max(float(first.values[0]), TINY), float(first.values[-1])
    radius = initial.radius / max(largest, TINY) ** 0.5  # a row within it was within the first
    noise = max(first.floor, 0.5 * first.edge) / least  # half of the edge is seen beyond it
    if noise > MAX_FIRST_NOISE or local.norms.mean_excess(radius, 0.0) > MAX_FIRST_EXCESS:
        return None
    unit, ones, noises = decisions.white(first.values, first.edge)
    floor, error = first.floor / least, first.relative_error
    return LocalWhitening(unit, unit, ones, floor, noises, radius, 1.0, True, error)


def local_preconditioner(
    run: Run, local: LocalCurvature, initial: InitialEstimate
) -> LocalWhitening:
    """Whiten rows by the curvature, so that a step's noise is the same in every direction."""
    max_norm, unit = local.max_norm, local.unit
    # the largest eigenvalue of the noise is twice its effect on a direction
    noise = 0.5 * GRAM_NOISE / max_norm**2
    p = local.at.theta.size
    radius = local.norms.choose_weight_radius(p, unit**2, noise)
    if p < MANY:  # below the length of most rows, a radius loses as much as its noise is less
        radius = min(max_norm, radius)
    factor = local.broadening
    if factor > 1.0:  # the density of the narrow window, in every direction of the wide one
        shares, noise_scale, _ = run.few_rows.norm_histogram(
            bin_edges(FINE)[:-1], local.budget.histogram, local.at, "curvature"
        )
        factor /= local.norms.density_ratio(shares, noise_scale, FINE, local.broadening)
    gram = local.rows.gram(radius, local.budget.matrix, local.broad_at)
    first, typical = initial.whitening, local.typical
    collinear = first is not None and first.collinear
    whitening = precondition(gram, local.expected, factor, collinear=collinear)
    return LocalWhitening(
        whitening.whiten,
        whitening.unwhiten,
        whitening.values / typical,
        whitening.floor / typical,
        whitening.noise / typical,
        radius,
        factor,
        whitening.shows_records,
        whitening.relative_error,
    )
