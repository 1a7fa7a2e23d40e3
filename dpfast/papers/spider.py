"""KL-Spider (algorithm 1 of paper 2, corrected): rounds of one gradient and many cheap changes.

A round reads the gradient once and follows it by its changes, whose sensitivity is proportional to
a step's fixed length.  It stops as soon as its gradient is short enough.  Corrections are on the
formulas page: sensitivities of replacement, whole numbers of steps, and no change is read without
use.

Beyond the paper, rounds are paid in proportion to the accuracy they need.  Budget that a stopped
round did not spend goes to the later ones.  Three events show that constants may be wrong: a round
ends without a gradient as short as it aimed at, a fresh gradient is far longer than the followed
one, or a step leaves the ball of lemma 1.  With ``guard=True`` adaptive descent then has the rest,
which is no part of the paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from dpfast.arguments import Array, flag, positive
from dpfast.curator.nonconvex.gradients import GradientCurator, public_length
from dpfast.errors import InvalidInput, described
from dpfast.models import Objective
from dpfast.models.nonconvex import KL, PerRecordObjective
from dpfast.optimize.nonconvex.adaptive import Adaptive
from dpfast.optimize.nonconvex.descent import MIN_RHO, Path, checked_count, noise_for, price_of
from dpfast.papers.guard import hand_over

#: Part of the budget below which rounds end, and adaptive descent does not take over: their noise
#: would be too large.
MIN_BUDGET_PART = 0.05

#: Largest number of rounds.
MAX_ROUNDS = 200

#: Largest part of the budget for a round while none has gone as planned: the rest is for adaptive
#: descent, should the constants be wrong.
UNTRIED_SHARE = 0.5

#: Excess of a fresh gradient over the followed one, in expected norms of its noise, above which the
#: constants are taken to be wrong.  Less is explained by noise.
SLACK = 3.0

TOO_LONG = "began with a gradient longer than the round before had promised"
LEFT_BALL = "was about to leave the ball of its plan"
NOT_SHORT = "ended without a gradient as short as planned"

#: Remark of a run without a guard.
OFF_PLAN = (
    "{off_plan} of {rounds} rounds of KL-Spider ended without a gradient as short as planned. The "
    "KL constants may be too small for these data, or max_steps too few. With "
    "dpfast.papers.Spider(guard=True) adaptive descent has the rest of the budget of such a run."
)


class Round(NamedTuple):
    """Public plan of one round."""

    #: Excess risk it aims at.
    target: float
    #: Most updates; it reads one gradient and at most ``n_steps - 1`` changes.
    n_steps: int
    #: Length of every update.
    step: float
    #: It stops where the estimated gradient is shorter.
    threshold: float
    #: gradient_rho, change_rho: Cost of the gradient, and of one change.
    gradient_rho: float
    change_rho: float


class Spider:
    """Settings of KL-Spider; all public.

    Algorithm 1 of paper 2 (Menart, Ullah, Arora, Bassily and Guzmán 2023).

    Parameters
    ----------
    excess : float, optional
        ``F0``, a bound on the excess risk of the start; default the largest that the KL condition
        allows, ``(gamma L0)^kappa``.
    decay : float
        Factor between the target excess risks of consecutive rounds.
    accuracy : float, optional
        Ratio of the gradient norm a round aims at to the expected norm of the noise.  The paper's
        proof needs 8 with high probability.  With 4 all rounds of ellipsoids of condition 1 to 100
        go as planned in 31 of 32 runs, and the excess is a third of that with 8.  With 2 rounds
        fail from condition 30 on.  Default 4, and 2 with a guard, which hands such rounds over.
    step : float
        Length of a step relative to the target's gradient norm over the smoothness; the paper has
        1/4.
    threshold : float
        Norm at which a round stops, relative to the target's gradient norm; the paper has 7/8.
    gradient_share : float
        Part of a round's budget for its gradient, the rest is for the changes.
    max_steps : int
        Most updates of a round.
    guard : bool
        Watch for signs that the constants are wrong, and give the rest of the budget to adaptive
        descent where there is one.  By default the algorithm runs to its end, and the result warns.

    Other Parameters
    ----------------
    curator : GradientCurator
        Of methods: answers for gradients and their changes; a plan asks nothing of its records.
    kl : KL
        Public constants.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> objective = dpfast.Objective("cauchy", scale=1.0)
    >>> method = dpfast.papers.Spider(max_steps=5)
    >>> kl = dpfast.nonconvex.KL(2.0)
    >>> dpfast.minimize(X, X[:, 0], objective, privacy=1.0, method=method, kl=kl).params.shape
    (2,)
    """

    name = "spider"

    def __init__(
        self,
        *,
        excess: float | None = None,
        decay: float = 4.0,
        accuracy: float | None = None,
        step: float = 0.5,
        threshold: float = 0.875,
        gradient_share: float = 0.8,
        max_steps: int = 500,
        guard: bool = False,
    ) -> None:
        self.guard = flag(guard, "guard")
        self.excess = None if excess is None else positive(excess, "excess")
        self.decay = positive(decay, "decay")
        default = 2.0 if self.guard else 4.0
        self.accuracy = positive(default if accuracy is None else accuracy, "accuracy")
        self.step = positive(step, "step")
        self.threshold = positive(threshold, "threshold")
        self.gradient_share = positive(gradient_share, "gradient_share")
        self.max_steps = checked_count(max_steps, "max_steps")
        if not self.decay > 1.0 or not self.gradient_share < 1.0:
            raise InvalidInput(
                f"decay must exceed 1 and gradient_share be below 1; received {described(decay)} "
                f"and {described(gradient_share)}."
            )
        if not self.step < 2.0 * self.threshold:
            raise InvalidInput(
                "step must be shorter than twice the threshold, or a step need not go down; "
                f"received {described(step)} and {described(threshold)}."
            )

    def check(self, objective: Objective | PerRecordObjective) -> None:
        """Refuse an objective this method cannot minimise.

        Parameters
        ----------
        objective : Objective or PerRecordObjective
        """
        if not objective.smoothness < math.inf:
            raise InvalidInput(
                f"{described(objective)} has no smoothness constant, which KL-Spider needs. Use "
                'weights=dpfast.Mallows(radius) or method="adaptive".'
            )

    def plan(
        self,
        curator: GradientCurator,
        kl: KL,
        excess: float,
        remaining: float,
        max_cost: float = math.inf,
    ) -> tuple[Round, int]:
        """Plan the next round and the number of rounds from here (at least 1), from public numbers.

        Parameters
        ----------
        excess : float
            Bound on the excess risk of the iterate, public.
        remaining : float
            Rest of the budget, in rho.
        max_cost : float
            Largest cost of the next round.

        Returns
        -------
        plan : Round
        n_rounds : int

        Privacy
        -------
        Asks nothing of the curator's records.
        """
        d, n = curator.dimension, curator.n
        lipschitz = curator.lipschitz
        smoothness = curator.smoothness + curator.objective.ridge

        def price(target: float) -> float:
            """Return the cost of a round with noise `1/accuracy` of the target's gradient norm."""
            noise = kl.norm(target) / (self.accuracy * math.sqrt(d))
            return price_of(lipschitz, n, noise) / self.gradient_share

        # Targets fall by `decay`, so prices grow by `growth`; they sum to last / (1 - 1/growth).
        growth = self.decay ** (2.0 / kl.kappa)
        last_rho = remaining * (1.0 - 1.0 / growth)
        noise = noise_for(lipschitz, n, last_rho * self.gradient_share)
        final = kl.excess(self.accuracy * math.sqrt(d) * noise)
        if final < excess:
            n_rounds = max(1, math.ceil(math.log(excess / final) / math.log(self.decay)))
            target = excess * (final / excess) ** (1.0 / n_rounds)
        else:
            n_rounds = 1
            target = min(final, excess)
        rho = remaining
        if n_rounds > 1:
            rho = min(max(price(target), 10.0 * MIN_RHO), remaining)
        rho = min(rho, max_cost)
        norm = kl.norm(target)
        gain = norm * norm / smoothness * self.step * (self.threshold - 0.5 * self.step)
        drop = max(excess - target, 0.5 * target)
        in_range = drop < self.max_steps * gain  # otherwise the quotient may overflow
        n_steps = max(1, math.ceil(drop / gain)) if in_range else self.max_steps
        n_steps = max(1, min(n_steps, int(rho * (1.0 - self.gradient_share) / (2.0 * MIN_RHO))))
        share = self.gradient_share if n_steps > 1 else 1.0
        return (
            Round(
                target=target,
                n_steps=n_steps,
                step=self.step * norm / smoothness,
                threshold=self.threshold * norm,
                gradient_rho=rho * share * (1.0 - 1e-12),
                change_rho=rho * (1.0 - share) / max(n_steps - 1, 1) * (1.0 - 1e-12),
            ),
            n_rounds,
        )

    def ball(self, curator: GradientCurator, kl: KL) -> float:
        """Return the radius of a ball about the start that contains a planned run (lemma 1).

        It is the exact sum of the schedule's steps: whatever the noise, a step has its length.

        Privacy
        -------
        Asks nothing of the curator's records.
        """
        excess = self._first_excess(curator, kl)
        total = remaining = curator.remaining
        radius = 0.0
        done = 0
        while done == 0 or (remaining > MIN_BUDGET_PART * total and done < MAX_ROUNDS):
            plan, _ = self.plan(curator, kl, excess, remaining, self._max_cost(remaining, done))
            radius += plan.n_steps * plan.step
            remaining -= plan.gradient_rho + (plan.n_steps - 1) * plan.change_rho
            excess = min(excess, plan.target)
            done += 1
        return radius * (1.0 + 1e-9)

    def _first_excess(self, curator: GradientCurator, kl: KL) -> float:
        return kl.excess(curator.lipschitz) if self.excess is None else self.excess

    def run(
        self,
        curator: GradientCurator,
        start: Array,
        kl: KL,
        progress: Callable[[int, int], None] | None = None,
    ) -> Path:
        """Run rounds until the budget is used up; with a guard, or hand it over if they go wrong.

        Parameters
        ----------
        start : ndarray of shape (p,)
            Public.
        progress : callable, optional
            Called as ``progress(round, n_rounds)`` after each round; n_rounds may change.

        Privacy
        -------
        Post-processing of the curator's answers.  The moment a round stops, and hence the cost of
        later rounds, depends on earlier answers only (claim K4).
        """
        self.check(curator.objective)
        excess = self._first_excess(curator, kl)
        total = curator.remaining
        ball = self.ball(curator, kl) if self.guard else math.inf
        path = Path(start)
        last_good = start  # start of the last round that went as planned
        planned, done, off_plan = 1, 0, 0
        largest_norm = math.inf  # that the round before promises
        while done == 0 or (curator.remaining > MIN_BUDGET_PART * total and done < MAX_ROUNDS):
            remaining = curator.remaining
            max_cost = self._max_cost(remaining, done)
            plan, n_rounds = self.plan(curator, kl, excess, remaining, max_cost)
            if self.guard and done == 0 and not plan.target < excess:
                reason = "KL-Spider's noise hides what its constants say is left to gain"
                hand_over(Adaptive(), curator, path, start, 0.0, reason)
                break
            planned = done + n_rounds
            began = path.theta
            norm, reason = self._round(curator, plan, path, largest_norm, ball)
            path.rounds.append(plan._asdict() | {"final_norm": norm})
            done += 1
            if progress is not None:
                progress(done, max(planned, done))
            off_plan += bool(reason)
            if reason and self.guard:
                # a round that began too long shows that the round before it went wrong
                origin = last_good if reason == TOO_LONG else began
                reason = f"round {done} of KL-Spider {reason}"
                hand_over(Adaptive(), curator, path, origin, MIN_BUDGET_PART * total, reason)
                break
            last_good = began
            excess = min(excess, plan.target)
            if self.guard:
                largest_norm = (self.threshold + SLACK / self.accuracy) * kl.norm(excess)
        if off_plan and not self.guard:
            path.remarks.append(OFF_PLAN.format(off_plan=off_plan, rounds=done))
        return path

    def _max_cost(self, remaining: float, done: int) -> float:
        """Bound the cost of a round: with a guard, half is reserved before one went as planned."""
        return remaining if done or not self.guard else UNTRIED_SHARE * remaining

    def _round(
        self, curator: GradientCurator, plan: Round, path: Path, largest_norm: float, ball: float
    ) -> tuple[float, str]:
        """Run one round; return its last norm, and the reason if it did not go as planned."""
        theta = path.theta
        start = path.iterates[0]
        ridge = curator.objective.ridge_gradient
        noise = noise_for(curator.lipschitz, curator.n, plan.gradient_rho)
        noise *= math.sqrt(curator.dimension)  # its expected norm
        gradient = curator.gradient(theta, plan.gradient_rho).value
        for t in range(plan.n_steps):
            penalised = gradient + ridge(theta)
            norm = public_length(penalised)
            path.saw(norm)
            if t == 0 and norm > largest_norm + SLACK * noise:
                return norm, TOO_LONG
            if norm < plan.threshold or not 0.0 < norm < math.inf:
                return norm, ""
            new = theta - plan.step * (penalised / norm)
            if not public_length(new - start) <= ball:
                return norm, LEFT_BALL
            path.move(new)
            if t + 1 < plan.n_steps:
                gradient = gradient + curator.gradient_change(new, theta, plan.change_rho).value
            theta = new
        # the last step's gradient is not read: the round is judged by the one before it
        allowed = plan.threshold + plan.step * curator.smoothness + SLACK * noise
        return norm, "" if norm < allowed else NOT_SHORT

    def __repr__(self) -> str:
        return (
            f"Spider(excess={self.excess}, decay={self.decay:g}, accuracy={self.accuracy:g}, "
            f"step={self.step:g}, threshold={self.threshold:g}" + ", guard=True" * self.guard + ")"
        )
