"""Settings of the adaptive Newton method, and what its answers say of the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from dpfast.errors import InvalidInput, described
from dpfast.models import Objective
from dpfast.optimize.adaptive.joint import JointRun
from dpfast.optimize.adaptive.run import MOST_STEPS, Run, arrive
from dpfast.optimize.adaptive.shares import EARLY, meat_share
from dpfast.optimize.adaptive.steps import Arrival
from dpfast.optimize.budgets import Budgets, divided
from dpfast.optimize.propagation import Curvature, PrivacyNoise
from dpfast.optimize.protocol import Answers, Method
from dpfast.optimize.trajectory import Trajectory
from dpfast.privacy.dealing import SLOTS

#: Blocks pay from these numbers of records and budgets on; below, all records are read as fast.
FEWEST_RECORDS, LEAST_BUDGET = 50_000, 2_500.0

#: Noise scales between which squares and products of squares are ordinary numbers.
LEAST, MOST = 1e-70, 1e70

UNSETTLED = (
    "the last steps would still have moved the linear predictor by much (log odds, or residual "
    "scales): the estimate has not settled and the intervals may not cover. Use more records, a "
    "larger budget, or a start nearer the solution."
)

OUTSIDE = (
    "the residual scale is beyond the end of its public interval, where it was left: its own "
    "interval does not cover. Pass a wider dpfast.FreeScale."
)

CLIPPED = (
    "the counts vary by much more than Poisson ones with these means, and residuals are clipped "
    "where many of them are: means are estimated too low, the intercept above all. Pass a larger "
    "largest_residual, about five standard deviations of the most variable counts."
)

STUCK = (
    "a gradient remains along directions whose curvature the privacy noise hides, and which the "
    "steps could not follow: the intervals may not cover. Use more records, a larger budget, or "
    "fewer or better scaled covariates."
)


class AdaptiveNewton(Method):
    """Newton's method that spends its budget where the released answers show it is needed.

    A released start of the intercept, and of a scale that is estimated, early steps that only have
    to get near, then full answers until the path has arrived, all of which count in the result.
    Where there are many records the early steps read disjoint random blocks of them, which are paid
    for once: 2 to 5 reads of all records in place of 13 to 35.  What ``method="auto"`` chooses.

    Parameters
    ----------
    blocks : bool, optional
        Whether early steps and the last curvature read random blocks in place of all records.
        That takes a fraction of the time and never increases accuracy; it needs many records.
        By default decided from n, p and the budget.
    start : sequence of float, optional
        Public starting point of the coefficients, in place of zero and a released intercept.  It
        must not be computed from the data of the fit.

    Notes
    -----
    How many answers there are is decided on released answers, at most 20; the whole budget is spent
    either way, the more of it at the end the sooner the path arrives.

    Privacy
    -------
    Budgets that depend on released answers and add up to the total (claim C9), blocks that are
    dealt with secret bytes (claim C55).

    Examples
    --------
    >>> import numpy as np, dpfast
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = (rng.random(5000) < 0.03).astype(float)
    >>> fit = dpfast.fit(X, y, "logistic", privacy=1.0, method=dpfast.optimize.AdaptiveNewton())
    >>> fit.params.shape
    (3,)
    """

    name = "adaptive-newton"

    def __init__(self, *, blocks: bool | None = None, start: Sequence[float] | None = None) -> None:
        super().__init__(start=start)
        if not (blocks is None or isinstance(blocks, bool)):
            raise InvalidInput(
                f"blocks must be True, False or None (decided); received {described(blocks)}."
            )
        self.blocks = blocks

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"curvature"})

    def plan(self, objective: Objective, n: int, mu: float, inference: bool) -> Budgets:
        """The total alone: what each answer may cost is decided on those before."""
        where = "random blocks, then" if self._reads_blocks(objective, n, mu) else "on"
        own = f"{type(self).__name__}({', '.join(self.settings())})"
        description = f"{own}, {where} all records, up to {MOST_STEPS} steps"
        return Budgets((), mu, inference=inference, most_steps=MOST_STEPS, description=description)

    def _reads_blocks(self, objective: Objective, n: int, mu: float) -> bool:
        if self.blocks is not None:
            return self.blocks
        return n >= FEWEST_RECORDS and n * mu >= LEAST_BUDGET * objective.dimension**1.5

    def check(self, answers: Answers, budgets: Budgets) -> None:
        if self.blocks and not (answers.can_deal and answers.n >= SLOTS):
            raise InvalidInput(
                f"blocks=True needs at least {SLOTS} records. Leave it out, and blocks are read "
                "where that pays."
            )
        objective, mu = answers.objective, budgets.mu
        constants = objective.constants() or objective
        meat = meat_share(objective) if budgets.inference else 0.0
        answers.plan(divided(constants, mu, "hessian", meat=meat))
        free = objective.free_scale
        width = 1.0 if free is None else free.high / free.low
        for kind in ("hessian", "majorizer"):  # the smallest parts of the budget
            plan = answers.plan(divided(constants, 0.05 * mu * EARLY**0.5, kind))
            slope, curvature = plan.receipts[0].noise_scale, plan.receipts[1].noise_scale
            # a curvature's is that at the largest scale, and less there than at any other
            most = MOST / width
            if not (LEAST <= slope <= most and LEAST <= curvature <= most):
                raise InvalidInput(
                    "scale, radius of the weights and constants of the loss are so far apart that "
                    "the squares of their noise leave the range of floating point. Use other units "
                    'for X and y, or method="newton".'
                )

    def run(
        self,
        answers: Answers,
        start: NDArray[np.float64],
        budgets: Budgets,
        progress: Callable[[int, int], None] | None = None,
    ) -> Trajectory:
        objective, mu = answers.objective, budgets.mu
        blocks = self._reads_blocks(objective, answers.n, mu) and answers.can_deal
        kind = Run if objective.free_scale is None else JointRun
        return arrive(answers, start, mu, budgets.inference, blocks, progress, kind)

    def noise_covariance(self, trajectory: Trajectory, curvature: Curvature) -> PrivacyNoise:
        found: Arrival = trajectory.details
        said = (UNSETTLED,) * found.unsettled + (STUCK,) * found.stuck
        said += (OUTSIDE,) * found.outside + (CLIPPED,) * found.clipped
        return PrivacyNoise(found.noise, found.unfinished, said, found.n_hidden)

    def settings(self) -> list[str]:
        return [] if self.blocks is None else [f"blocks={self.blocks}"]
