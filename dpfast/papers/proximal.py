"""Private proximal point (algorithms 2 and 4 of paper 2, corrected): weakly convex, kappa >= 2.

Every round minimises ``F(w) + L ||w - centre||^2``, strongly convex for an L-weakly convex F.  Its
answer is projected onto the ball of radius ``L0/(2 L)``, which contains the exact solution.  The
distance a round moved is the gradient's norm over 2 L.  Where moves do not shrink as planned, the
constants may be wrong.  With ``guard=True`` adaptive descent then has the rest of the budget, which
is no part of the paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from dpfast.arguments import Array, flag, positive
from dpfast.curator.nonconvex.gradients import GradientCurator, public_length
from dpfast.errors import InvalidInput, described
from dpfast.models import Objective
from dpfast.models.nonconvex import KL, PerRecordObjective
from dpfast.optimize.nonconvex.adaptive import Adaptive
from dpfast.optimize.nonconvex.descent import Path, checked_count, noise_for
from dpfast.papers.guard import hand_over
from dpfast.papers.noisy_descent import NoisyDescent, projected, reach

#: Number of rounds without KL constants.
DEFAULT_ROUNDS = 8

#: Largest number of rounds: with more, each would have too little budget.
MAX_ROUNDS = 30

#: Part of the budget below which adaptive descent does not take over: its steps would be noise.
MIN_BUDGET_PART = 0.05

#: Excess of a round's move over the plan, in expected norms of its noise, above which the constants
#: are taken to be wrong.  Less is explained by noise.
SLACK = 3.0


#: Remark of a run without a guard.
TOO_FAR = (
    "{too_far} of {rounds} rounds of the proximal point method moved farther than planned. The "
    "constants may not fit these data, or there are too few rounds. With Proximal(guard=True) of "
    "dpfast.optimize adaptive descent has the rest of the budget of such a run."
)


class InnerOptimiser(Protocol):
    """Optimiser of ``F(w) + convexity ||w - centre||^2`` that spends at most ``rho``."""

    def solve(
        self, curator: GradientCurator, centre: Array, convexity: float, rho: float
    ) -> tuple[Array, float]:
        """Return the approximate minimiser and the cost of its queries."""


class Proximal:
    """Settings of the private proximal point method; all public.

    Algorithm 2 of paper 2 (Menart, Ullah, Arora, Bassily and Guzmán 2023).

    Parameters
    ----------
    convexity : float, optional
        ``L``, a bound on how far F is from convex (``F + L/2 ||w||^2`` is convex); default the
        declared smoothness.
    rounds : int, optional
        By default the number of exact proximal steps, by the KL condition, from the worst excess
        risk to the level of the noise, at most 30; 8 without the condition.
    growth : float
        Factor between the budgets of consecutive rounds: later ones need more.
    inner : InnerOptimiser, optional
        Default :class:`NoisyDescent`.
    guard : bool
        Watch whether the rounds' moves shrink as planned, and give the rest of the budget to
        adaptive descent where they do not.  By default the algorithm runs to its end, and the
        result warns.  A given number of rounds has no plan.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> objective = dpfast.Objective("cauchy", scale=1.0)
    >>> method = dpfast.papers.Proximal(rounds=2)
    >>> dpfast.minimize(X, X[:, 0], objective, privacy=dpfast.ZCDP(1.0), method=method).params.shape
    (2,)
    """

    name = "proximal"

    def __init__(
        self,
        *,
        convexity: float | None = None,
        rounds: int | None = None,
        growth: float = 2.0,
        inner: InnerOptimiser | None = None,
        guard: bool = False,
    ) -> None:
        self.convexity = None if convexity is None else positive(convexity, "convexity")
        self.rounds = None if rounds is None else checked_count(rounds, "rounds", 1000)
        self.growth = positive(growth, "growth")
        self.guard = flag(guard, "guard")
        self.inner: InnerOptimiser = NoisyDescent() if inner is None else inner
        if not callable(getattr(self.inner, "solve", None)):
            raise InvalidInput(
                "inner must have a method solve, as dpfast.papers.NoisyDescent() has; received "
                f"an object of type {type(inner).__name__}."
            )

    def check(self, objective: Objective | PerRecordObjective) -> None:
        """Refuse an objective this method cannot minimise.

        Parameters
        ----------
        objective : Objective or PerRecordObjective
        """
        if self.convexity is None and not objective.smoothness < math.inf:
            raise InvalidInput(
                f"{described(objective)} has no smoothness constant. Pass "
                "Proximal(convexity=...), a public number."
            )
        check = getattr(self.inner, "check", None)
        if check is not None:
            check(objective)

    def run(
        self,
        curator: GradientCurator,
        start: Array,
        kl: KL | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Path:
        """Run all rounds; with a guard, or hand the budget over if moves do not shrink.

        Parameters
        ----------
        curator, start, kl, progress
            As of :meth:`Spider.run`; without ``kl`` there are eight rounds.

        Privacy
        -------
        Post-processing of the curator's answers.  Budget that one round does not spend goes to the
        next (claim K4).
        """
        self.check(curator.objective)
        convexity = curator.smoothness if self.convexity is None else self.convexity
        path = Path(start)
        total = curator.remaining
        planned = None if self.rounds is not None else self._excesses(curator, convexity, kl)
        n_rounds = self.rounds or (DEFAULT_ROUNDS if kl is None else max(len(planned or ()), 2))
        fallback = self._fallback(curator.objective) if self.guard else None
        if planned is not None and len(planned) > MAX_ROUNDS and fallback is not None:
            reason = "the KL constants ask for more rounds of the proximal point method than pay"
            hand_over(fallback, curator, path, start, 0.0, reason)
            return path
        n_rounds = n_rounds if self.rounds else min(n_rounds, MAX_ROUNDS)
        weights = [self.growth**k for k in range(n_rounds)]
        moves: list[float] = []
        too_far = 0
        for k in range(n_rounds):
            share = weights[k] / math.fsum(weights[k:])
            rho = curator.remaining * share * (1.0 - 1e-12)
            centre = path.theta
            theta, cost = self.inner.solve(curator, centre, convexity, rho)
            theta = projected(theta, centre, reach(curator, centre, convexity))
            moves.append(public_length(theta - centre))
            path.rounds.append({"rho": cost, "moved": moves[-1]})
            path.move(theta)
            if progress is not None:
                progress(k + 1, n_rounds)
            noise = math.sqrt(curator.dimension) * noise_for(curator.lipschitz, curator.n, rho)
            bound = math.inf if self.rounds else _longest_move(planned, convexity, moves, n_rounds)
            went_wrong = not moves[-1] <= bound + SLACK * noise / (2.0 * convexity)
            too_far += went_wrong
            if went_wrong and fallback is not None:
                reason = f"round {k + 1} of the proximal point method moved farther than planned"
                hand_over(fallback, curator, path, centre, MIN_BUDGET_PART * total, reason)
                break
        if too_far and not self.guard:
            path.remarks.append(TOO_FAR.format(too_far=too_far, rounds=n_rounds))
        return path

    def _fallback(self, objective: Objective | PerRecordObjective) -> Adaptive | None:
        """Return the method that gets the rest of the budget; None without a step size."""
        if isinstance(self.inner, Adaptive):
            return self.inner
        return Adaptive() if objective.smoothness < math.inf else None

    def _excesses(
        self, curator: GradientCurator, convexity: float, kl: KL | None
    ) -> list[float] | None:
        """Plan the excess risk before each round by the KL condition, down to the noise."""
        if kl is None:
            return None
        noise = noise_for(curator.lipschitz, curator.n, 0.5 * curator.remaining)
        final = kl.excess(math.sqrt(curator.dimension) * noise)
        # From excess e an exact step reaches e' with e' + g^2/(4 L) <= e, g = kl.norm(e') or more.
        excesses: list[float] = []
        excess = kl.excess(curator.lipschitz)
        while excess > final and len(excesses) <= MAX_ROUNDS:
            excesses.append(excess)
            low, high = 0.0, excess
            for _ in range(60):
                middle = 0.5 * (low + high)
                if middle + kl.norm(middle) ** 2 / (4.0 * convexity) > excess:
                    high = middle
                else:
                    low = middle
            excess = high
        return excesses

    def __repr__(self) -> str:
        return (
            f"Proximal(convexity={self.convexity}, rounds={self.rounds}, growth={self.growth:g}, "
            f"inner={self.inner!r}" + ", guard=True" * self.guard + ")"
        )


def _longest_move(
    planned: list[float] | None, convexity: float, moves: list[float], n_rounds: int
) -> float:
    """Bound the move of the last round.

    An exact one from excess risk e moves by at most ``sqrt(e / L)``.  Without KL constants the
    first half of the rounds must bring the moves down to half of the longest.
    """
    if planned is not None:
        excess = planned[min(len(moves), len(planned)) - 1] if planned else math.inf
        return 2.0 * math.sqrt(excess / convexity)
    return 0.5 * max(moves) if len(moves) == n_rounds // 2 else math.inf
