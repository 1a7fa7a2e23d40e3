"""Moment conditions of instruments, as a problem for averaged Newton steps."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dpfast.arguments import Array
from dpfast.curator.answers import JointAnswer
from dpfast.curator.preconditioned import Linearization, PreconditionedQueries
from dpfast.models import LeastSquares
from dpfast.solvers.pcn.clipping import ASYMMETRY
from dpfast.solvers.pcn.histogram import FINE, N_FINE_BINS, NormHistogram, released_norms
from dpfast.solvers.pcn.initial import PILOT_CAP
from dpfast.solvers.pcn.plan import BudgetAllocation
from dpfast.solvers.pcn.score_equations import ScoreQueries, ScoreSolution, solve_scores
from dpfast.solvers.pcn.second_moments import SecondMoments, second_moments

#: Price of the second Gram matrix, relative to the first.  No later query corrects the first stage:
#: with 2 intervals are 2% narrower at n mu = 1,500, and F is lower by a third.
SECOND = 3.0

#: Price of the pilot's moments, relative to those of a default fit.  A poor pilot has long scores:
#: with 1 intervals are 3% wider at n mu = 1,000.
PILOT = 2.5


class Columns(NamedTuple):
    """Positions of columns among the design's coefficients, in the order of an analysis.

    Exogenous ones come first (the constant among them), then excluded instruments, then the
    endogenous ones.
    """

    exogenous: list[int]
    excluded: list[int]
    endogenous: list[int]

    @property
    def all(self) -> list[int]:
        """Positions of all columns."""
        return [*self.exogenous, *self.excluded, *self.endogenous]

    @property
    def n_instruments(self) -> int:
        """Number of instruments, the exogenous columns included."""
        return len(self.exogenous) + len(self.excluded)

    @property
    def n_surplus(self) -> int:
        """Number of surplus instruments."""
        return len(self.excluded) - len(self.endogenous)

    @property
    def regressors(self) -> list[int]:
        """Places of the regressors in the order of an analysis."""
        return [*range(len(self.exogenous)), *range(self.n_instruments, len(self.all))]

    def without(self, positions: set[int]) -> Columns:
        """Leave out exogenous columns, and excluded instruments if enough are left."""
        exogenous = [j for j in self.exogenous if j not in positions]
        excluded = [j for j in self.excluded if j not in positions]
        enough = len(excluded) >= len(self.endogenous)
        return Columns(exogenous, excluded if enough else self.excluded, self.endogenous)


class IVQueries(ScoreQueries):
    """Division of a budget over two Gram matrices, the pilot's moments, a histogram and steps."""

    __slots__ = ()

    @staticmethod
    def planned(n: int, p: int, mu: float) -> IVQueries:
        """Divide a mu for ``p`` columns of ``n`` records or persons; public."""
        return IVQueries(BudgetAllocation(n, p, mu), 2, 1.0 + SECOND, PILOT, is_linear=True)

    def refuse_all(self, rows: PreconditionedQueries, n_instruments: int) -> None:
        """Refuse budgets that an answer about these columns would refuse; costs nothing."""
        budget = self.budgets(0)
        grams = budget.matrix, budget.matrix * SECOND**0.5
        pilot = budget.vector * PILOT**0.5
        rows.refuse(grams, (pilot,), (budget.histogram,), cells=N_FINE_BINS)
        self.refuse(rows.mapped(np.eye(rows.dimension)[:, :n_instruments]))


class FirstStage(NamedTuple):
    """Released first stage, in coordinates in which the moments' derivative is triangular.

    ``triangle`` is a factor of the second moments of all columns, ``whiten`` maps instruments to
    whitened ones, and ``jacobian`` is minus the derivative of their moments by the coefficients.
    By a QR decomposition all of it is in its first rows.
    """

    triangle: Array
    whiten: Array
    jacobian: Array
    #: Map from ``triangle``'s columns to the coordinates of the Gram's release, and its noise.
    back: Array
    noise: float

    @staticmethod
    def of(moments: SecondMoments, columns: Columns) -> FirstStage:
        """Decompose the released second moments of all columns."""
        k, x = columns.n_instruments, columns.regressors
        triangle: Array = np.linalg.qr(moments.factor, mode="complete")[1]
        rotation, jacobian = np.linalg.qr(triangle[:k, x], mode="complete")
        whiten = np.asarray(np.linalg.inv(triangle[:k, :k]) @ rotation, dtype=np.float64)
        return FirstStage(triangle, whiten, jacobian, moments.unfirst, moments.noise)

    def step(self) -> Array:
        """Return the map from moments to a Newton step of the coefficients."""
        return np.asarray(np.linalg.pinv(self.jacobian))


class HessianOfMoments(NamedTuple):
    """Facts about the derivative of the moments, which noise in the first stage blurs."""

    known: Array
    relative_error: float
    change: float = 0.0

    @staticmethod
    def of(stage: FirstStage, step: Array, columns: Columns) -> HessianOfMoments:
        """Bound the relative error of a step by the noise in the Gram matrix."""
        k, x = columns.n_instruments, columns.regressors
        instruments = np.linalg.norm(stage.back[:, :k] @ stage.whiten, 2)
        regressors = np.linalg.norm(stage.back[:, x] @ step, 2)
        return HessianOfMoments(np.ones(k), float(stage.noise * instruments * regressors))


class MomentScores(NamedTuple):
    """Mean scores of whitened instruments at the residuals of all regressors.

    There are as many equations as parameters: the first parameters are the triangular map of the
    coefficients, and each surplus moment has its own mean as a parameter.  A Newton step is then
    the score.
    """

    instruments: PreconditionedQueries
    basis: Array
    to_params: Array
    n_regressors: int

    @property
    def n(self) -> int:
        """Number of records, or of persons if they count."""
        return self.instruments.n

    def sample(self) -> MomentScores:
        """Return the same problem: moments are linear, and there are no rounds."""
        return self

    def params(self, theta: Array) -> Array:
        """Return the coefficients of all columns, zero for excluded instruments."""
        return np.asarray(self.to_params @ theta)

    def _at(self, theta: Array) -> Linearization:
        return Linearization(self.basis @ self.params(theta), LeastSquares(), raw=True)

    def norms(self, theta: Array, mu: float) -> NormHistogram:
        """Release the norms of scores; costs ``mu`` (claim C60)."""
        return released_norms(self.instruments, mu, self._at(theta), "score", FINE)

    def score(self, theta: Array, bound: float, mu: float, mu_meat: float = 0.0) -> JointAnswer:
        """Release the mean score, clipped for each record: costs ``mu`` (claim T7)."""
        answer = self.instruments.clipped(self._at(theta), bound, mu, mu_meat)
        value = answer.gradient.value.copy()
        value[self.n_regressors :] -= theta[self.n_regressors :]
        return answer._replace(gradient=answer.gradient._replace(value=value))

    def trusted_part(self, step: Array) -> float:
        """Return 1: moments are linear."""
        return 1.0


class IVEstimate(NamedTuple):
    """Estimate in coded units, the moments it solves, and their errors.

    Moments are means of scores of whitened instruments, and ``place`` the average of the points
    where they were released.
    """

    params: Array
    covariance: Array
    stage: FirstStage
    solution: ScoreSolution
    #: Map from the moments to the coefficients of the regressors.
    step: Array
    moment: Array
    place: Array
    #: Variance of the moments in any direction that allows for the bias of clipping.
    clipping: float
    #: Number of records or of persons.
    n: int
    #: Mean product of the residual and the last column.
    mixed: float

    @property
    def spread(self) -> float:
        """Standard deviation of a score."""
        meat = self.solution.meat[0]
        return math.sqrt(max(float(np.trace(meat)) / len(meat), self.noise**2))

    @property
    def noise(self) -> float:
        """Noise of the averaged moments."""
        return self.solution.average.noise


def solve_moments(
    rows: PreconditionedQueries,
    basis: Array,
    columns: Columns,
    queries: IVQueries,
) -> IVEstimate:
    """Release the first stage, then solve the moment conditions by averaged Newton steps."""
    moments = second_moments(rows.mapped(basis), queries.budgets(0), SECOND, balanced=True)
    k, x = columns.n_instruments, columns.regressors
    stage = FirstStage.of(moments, columns)
    step = stage.step()
    mu = queries.budgets(0).vector * PILOT**0.5
    pilot = rows.mapped(basis @ moments.first).moment(moments.radius, PILOT_CAP, mu)
    response = moments.unfirst.T @ pilot.value
    to_params = np.zeros((len(stage.triangle), k))
    to_params[x] = step
    problem = MomentScores(
        rows.mapped(basis[:, :k] @ stage.whiten), basis, to_params, len(x)
    )  # fmt: skip
    start = stage.whiten.T @ response[:k]
    start[len(x) :] = 0.0
    hessian = HessianOfMoments.of(stage, step, columns)
    solution = solve_scores(problem, start, None, hessian, queries)
    theta = solution.theta
    params, place = problem.params(theta), problem.params(solution.average.theta)
    moment = solution.average.score - stage.jacobian @ (params - place)[x]
    moment[len(x) :] += solution.average.theta[len(x) :]
    to_regressors = step @ solution.back
    return IVEstimate(
        params=params,
        covariance=to_regressors @ solution.variance @ to_regressors.T,
        stage=stage,
        solution=solution,
        step=to_regressors,
        moment=moment,
        place=place,
        clipping=(ASYMMETRY * solution.clipping_bias) ** 2 / k,
        n=problem.n,
        mixed=float(response[-1] - stage.triangle[:, -1] @ (stage.triangle @ params)),
    )
