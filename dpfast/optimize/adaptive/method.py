"""Settings of the adaptive Newton method, and what its answers say of the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import StepBudget
from dpfast.errors import InvalidInput, described
from dpfast.models import Objective
from dpfast.optimize.adaptive.run import EARLY, MEAT, MOST_STEPS, Arrival, arrive, expected_shares
from dpfast.optimize.budgets import divided
from dpfast.optimize.propagation import Curvature, PrivacyNoise
from dpfast.optimize.protocol import Answers, Method
from dpfast.optimize.schedules import Schedule, Uniform
from dpfast.optimize.trajectory import Trajectory
from dpfast.privacy.dealing import SLOTS

__all__ = ["AdaptiveNewton"]

#: Blocks pay from these numbers of records and budgets on; below, all records are read as fast.
FEWEST_RECORDS, LEAST_BUDGET = 50_000, 2_500.0

#: Noise scales between which squares and products of squares are ordinary numbers.
LEAST, MOST = 1e-70, 1e70

UNSETTLED = (
    "the last steps would still have moved the linear predictor by much (log odds, or residual "
    "scales): the estimate has not settled and the intervals may not cover. Use more records, a "
    "larger budget, or a start nearer the solution."
)

STUCK = (
    "a gradient remains along directions whose curvature the privacy noise hides, and which the "
    "steps could not follow: the intervals may not cover. Use more records, a larger budget, or "
    "fewer or better scaled covariates."
)


class AdaptiveNewton(Method):
    """Newton's method that spends its budget where the released answers show it is needed.

    A released start of the intercept, early steps that only have to get near, then full answers
    until the path has arrived, all of which count in the result.  Where there are many records the
    early steps read disjoint random blocks of them, which are paid for once: 2 to 5 reads of all
    records in place of 13 to 35.  What ``method="auto"`` chooses for a known scale.

    Parameters
    ----------
    blocks : bool, optional
        Whether early steps and the last curvature read random blocks in place of all records.
        That takes a fraction of the time and never increases accuracy; it needs many records, held
        in memory as arrays.  By default decided from n, p and the budget.

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
    >>> fit = dpfast.fit(X, y, "logistic", privacy=1.0, method=dpfast.AdaptiveNewton())
    >>> fit.params.shape
    (3,)
    """

    name = "adaptive-newton"

    def __init__(self, *, blocks: bool | None = None) -> None:
        if not (blocks is None or isinstance(blocks, bool)):
            raise InvalidInput(
                f"blocks must be True, False or None (decided); received {described(blocks)}."
            )
        self.blocks = blocks
        self._mu = 0.0
        self._in_blocks = False

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"curvature", "known scale"})

    def settled(self, objective: Objective, n: int, mu: float) -> AdaptiveNewton:
        chosen = copy(self)
        chosen._mu = mu
        enough = n >= FEWEST_RECORDS and n * mu >= LEAST_BUDGET * objective.dimension**1.5
        chosen._in_blocks = enough if self.blocks is None else self.blocks
        return chosen

    def curvatures(self, n_steps: int) -> tuple[str, ...]:
        return ("hessian",) * n_steps

    def defaults(self, objective: Objective, n: int, mu: float) -> tuple[int, Schedule]:
        """One budget, which the run divides."""
        return 1, Uniform()

    def most_steps(self, n_steps: int) -> int:
        return MOST_STEPS

    def described(self, n_steps: int, schedule: Schedule) -> str:
        where = "random blocks, then" if self._in_blocks else "on"
        return f"{self!r}, {where} all records, up to {MOST_STEPS} steps"

    def expected(self, objective: Objective) -> list[StepBudget]:
        """Budgets of the answers that count in the result of an easy run, for forecasts."""
        shares, last = expected_shares(self._in_blocks)
        curvature, meat = (None, 0.0) if self._in_blocks else ("hessian", MEAT)
        counted = [divided(objective, self._mu * share**0.5, curvature) for share in shares]
        return [*counted, divided(objective, self._mu * last**0.5, curvature, meat=meat)]

    def check(self, answers: Answers, n_steps: int, steering_mu: float) -> None:
        if n_steps != 1:
            raise InvalidInput(
                "dpfast.AdaptiveNewton decides the number of its steps and their budgets itself. "
                "Leave steps= and schedule= out, or use dpfast.Newton."
            )
        if self.blocks and not (answers.can_deal and answers.n >= SLOTS):
            raise InvalidInput(
                f"blocks=True needs at least {SLOTS} records, held in memory as arrays. Leave it "
                "out, and blocks are read where that pays."
            )
        for kind in ("hessian", "majorizer"):  # the smallest parts of the budget
            plan = answers.plan(divided(answers.objective, 0.05 * self._mu * EARLY**0.5, kind))
            if not all(LEAST <= receipt.noise_scale <= MOST for receipt in plan.receipts[:2]):
                raise InvalidInput(
                    "scale, radius of the weights and constants of the loss are so far apart that "
                    "the squares of their noise leave the range of floating point. Use other units "
                    "for X and y, or method=dpfast.Newton()."
                )

    def run(
        self,
        answers: Answers,
        start: NDArray[np.float64],
        budgets: Sequence[StepBudget],
        progress: Callable[[int, int], None] | None = None,
        steering_mu: float = 0.0,
    ) -> Trajectory:
        blocks = self._in_blocks and answers.can_deal
        return arrive(answers, start, self._mu, bool(budgets[-1].meat), blocks, progress)

    def noise_covariance(self, trajectory: Trajectory, curvature: Curvature) -> PrivacyNoise:
        found: Arrival = trajectory.details
        said = (UNSETTLED,) * found.unsettled + (STUCK,) * found.stuck
        # A direction below the floor is no harm in itself: what it leaves undone is known.
        hidden = found.n_hidden if 2 * found.n_hidden > len(trajectory.theta) else 0
        return PrivacyNoise(found.noise, found.unfinished, said, hidden)

    def __repr__(self) -> str:
        given = "" if self.blocks is None else f"blocks={self.blocks}"
        return f"AdaptiveNewton({given})"
