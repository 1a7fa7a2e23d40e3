"""What evaluating a point costs the people in the training data."""

from __future__ import annotations

from dpfast.errors import InvalidInput, described
from dpfast.privacy.budget import Budget, as_budget
from dpfast.privacy.ledger import Ledger

__all__ = ["TrainingCost"]


class TrainingCost:
    """A budget for training, charged once for every point that is handed out.

    The guarantee of a search is for the *validation* records.  A loss also tells about the records
    the model was trained on; if those need protection, every training run must itself be private
    and all of them must be composed, which is what this does.

    Parameters
    ----------
    ledger : Ledger
        Budget of the training records.
    cost : budget or float
        What one training run is proved to cost; a float is mu.

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

        Parameters
        ----------
        n_points : int
            Points that are about to be evaluated.

        Privacy
        -------
        Spends the cost of a training run for each point, of the training records' budget.
        """
        for _ in range(n_points):
            self.ledger.charge(self.cost, "training run")
