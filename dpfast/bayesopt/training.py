"""What an evaluation costs the people in the validation data, and those in the training data."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from dpfast.curator.blackbox.vectors import RecordValues
from dpfast.errors import InvalidInput, described
from dpfast.front.request import charge_after, room_for
from dpfast.inference.composition import composition_of
from dpfast.inference.guarantees import TOLD, Guarantee
from dpfast.privacy.budget import GDP, Budget, as_budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource, checked_noise

Told = TypeVar("Told")


class Spending:
    """What a call has to spend on questions about values that it is told of records."""

    def __init__(
        self, privacy: Budget | float, total: GDP, n_records: int, noise: NoiseSource | None
    ) -> None:
        self.privacy, self.total, self.noise = privacy, total, checked_noise(noise)
        self.ledger = Ledger(total)
        self.values = RecordValues(n_records, self.ledger, self.noise)

    def guarantee(self) -> Guarantee:
        """Of what was charged so far."""
        charges = [(entry.label, entry.charged.mu) for entry in self.ledger.entries]
        spent, n = composition_of(self.ledger), self.values.n
        return Guarantee.of(self.total, self.noise, n, charges, vouched=TOLD, expression=spent)

    def begin(
        self, first: Callable[[], Told], ledger: Ledger | None, label: str, *room: int
    ) -> Told:
        """Charge the shared ledger for all once the first point was told, of the right shape."""
        needed = room_for(self.values.n, *room)
        return charge_after(first, ledger, self.privacy, self.total, label, needed)


class TrainingCost:
    """A budget for training, charged once for every point that is handed out.

    The guarantee of a search is for the *validation* records.  If those the model was trained on
    need protection, every training run must itself be private and all of them must be composed.

    Parameters
    ----------
    ledger : Ledger
        Budget of the training records.
    cost : budget or float
        What one training run is proved to cost; a float is mu.

    Other Parameters
    ----------------
    n_points : int
        Of :meth:`charge`: points that are about to be evaluated.

    Privacy
    -------
    Each point handed out charges ``cost`` before it is handed out, and the search is refused when
    the ledger is exhausted.  That a run costs no more than declared is the caller's claim.

    Examples
    --------
    >>> cost = dpfast.bayesopt.TrainingCost(dpfast.Ledger(2.0), dpfast.GDP(0.1))
    >>> cost.charge(3)
    >>> len(cost.ledger.entries)
    3
    """

    def __init__(self, ledger: Ledger, cost: Budget | float) -> None:
        if not isinstance(ledger, Ledger):
            raise InvalidInput(f"ledger must be a dpfast.Ledger; received {described(ledger)}.")
        self.ledger = ledger
        self.cost = as_budget(cost)

    def charge(self, n_points: int) -> None:
        """Pay for training runs at this many points, one by one.

        Privacy
        -------
        Spends the cost of a training run for each point, of the training records' budget.
        """
        for _ in range(n_points):
            self.ledger.charge(self.cost, "training run")
