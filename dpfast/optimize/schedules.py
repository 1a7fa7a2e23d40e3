"""Division of a total budget among the steps of an optimiser."""

from __future__ import annotations

from functools import lru_cache

from dpfast.arguments import number_in, whole_number
from dpfast.errors import InvalidInput, described
from dpfast.privacy.rounding import ROUNDING_SHARES


class Schedule:
    """Base of the budget schedules.

    Privacy
    -------
    Public numbers only: which step gets which share depends on no record.
    """

    def shares(self, n_steps: int) -> list[float]:
        """Return the shares of ``mu^2``, one per step, positive, with a sum of at most one.

        Parameters
        ----------
        n_steps : int
            At least one.

        Returns
        -------
        list of float
        """
        raise NotImplementedError

    def step_mus(self, mu: float, n_steps: int) -> list[float]:
        """Return the budget ``mu_k`` of each step; the exact sum of squares is below ``mu^2``.

        Parameters
        ----------
        mu : float
            Total of the steps.
        n_steps : int
            At least one.

        Returns
        -------
        list of float

        Examples
        --------
        >>> [round(mu, 6) for mu in dpfast.optimize.Uniform().step_mus(1.0, 4)]
        [0.5, 0.5, 0.5, 0.5]
        """
        shrunk = mu * (1.0 - ROUNDING_SHARES)
        return [shrunk * share**0.5 for share in self.shares(n_steps)]


class Uniform(Schedule):
    """The same share for every step, as printed in Avella-Medina et al., eq. (4) and (9).

    Examples
    --------
    >>> dpfast.optimize.Uniform().shares(4)
    [0.25, 0.25, 0.25, 0.25]
    """

    def shares(self, n_steps: int) -> list[float]:
        return [1.0 / n_steps] * n_steps

    def __repr__(self) -> str:
        return "Uniform()"


class Geometric(Schedule):
    """Shares that grow by ``ratio`` per step, mixed with a uniform share.

    Only the noise of the last steps survives in the result (formulas page, sections 2.1 and 4.4),
    so they get most of the budget.  The uniform share keeps noise from dominating the early steps.

    Parameters
    ----------
    ratio : float, at least 1
        Growth of the share from one step to the next.
    uniform_share : float in (0, 1]
        Part of the budget that is divided evenly.

    Examples
    --------
    >>> dpfast.optimize.Geometric(2.0, 0.1).shares(2)
    [0.35, 0.65]
    """

    def __init__(self, ratio: float, uniform_share: float) -> None:
        self.ratio = number_in(ratio, "ratio", "[1, 1e6]")
        self.uniform_share = number_in(uniform_share, "uniform_share", "(0, 1]")

    def shares(self, n_steps: int) -> list[float]:
        return list(_geometric_shares(self.ratio, self.uniform_share, n_steps))

    def __repr__(self) -> str:
        return f"Geometric(ratio={self.ratio:g}, uniform_share={self.uniform_share:g})"


@lru_cache(maxsize=256)
def _geometric_shares(ratio: float, uniform_share: float, n_steps: int) -> tuple[float, ...]:
    powers = [ratio ** -(n_steps - 1 - k) for k in range(n_steps)]
    uniform = uniform_share / n_steps
    rest = (1.0 - uniform_share) / sum(powers)
    return tuple([uniform + rest * power for power in powers])


def checked_steps(steps: int) -> int:
    """Check a number of steps."""
    return whole_number(steps, "steps", 1, 100_000)


def resolve_schedule(schedule: str | Schedule | None, default: Schedule) -> Schedule:
    """Turn the ``schedule`` argument into a :class:`Schedule`."""
    if isinstance(schedule, Schedule):
        return schedule
    if schedule is None or isinstance(schedule, str):
        if schedule is None or schedule == "geometric":
            return default
        if schedule == "uniform":
            return Uniform()
    raise InvalidInput(
        'schedule must be "geometric", "uniform", a dpfast.optimize.Geometric(ratio, '
        "uniform_share) or "
        f"None; received {described(schedule, text=True)}."
    )
