"""Private tuning in one call."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast.arguments import function
from dpfast.bayesopt.result import Tuning
from dpfast.bayesopt.settings import SearchSettings
from dpfast.bayesopt.training import TrainingCost
from dpfast.bayesopt.tuner import Tuner
from dpfast.curator.blackbox.vectors import checked_values
from dpfast.front.partial import KeepingPaid
from dpfast.front.progress import watched
from dpfast.optimize.schedules import checked_steps
from dpfast.privacy.budget import Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource

__all__ = ["tune"]

Array = NDArray[np.float64]


def tune(
    losses: Callable[[Any], ArrayLike],
    bounds: Any,
    *,
    privacy: Budget | float,
    n_records: int,
    clip: float = 1.0,
    steps: int = 25,
    search: SearchSettings | None = None,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
    training: TrainingCost | None = None,
    path: str | os.PathLike[str] | None = None,
    keep_values: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Tuning:
    """Tune the parameters of a black box on sensitive validation records (DP-GIBO).

    Sopa, Marusic, Avella-Medina and Cunningham, "Scalable differentially private Bayesian
    optimization", Algorithm 1 with the corrections listed in :mod:`dpfast.bayesopt`: a surrogate
    Gaussian process turns each record's losses at a few points into a gradient; the gradients are
    clipped, averaged and released with noise; the parameters move along them.

    Parameters
    ----------
    losses : callable
        ``losses(theta)`` trains and evaluates at parameters, an array of shape (d,) (or the list or
        dict that `bounds` ask for), and returns one loss per validation record, shape (n,).  A
        record's loss may depend on that record and on ``theta`` only: no standardisation by the
        validation set, no ranks, no early stopping on it.
    bounds : array-like of shape (d, 2), list or dict
        Public lower and upper bound of each parameter, or its type; see
        :class:`dpfast.bayesopt.Tuner`.
    privacy, n_records, clip, steps, search, ledger, noise, training, path, keep_values
        See :class:`dpfast.bayesopt.Tuner`.
    progress : callable, optional
        Called with (steps paid for, steps); see :func:`dpfast.fit`.

    Returns
    -------
    Tuning

    Raises
    ------
    InvalidInput
        For wrong shapes, dtypes or settings; never because of values.  ``losses`` is called once
        before anything is spent, and the shape and dtype of what it returns are checked.
    BudgetExceeded
        If a shared ledger or the budget for training does not suffice.
    Exception
        What ``losses`` raises later comes out as it is.  It has the search so far, a
        :class:`Tuning`, in its attribute ``partial_result``, and so has the ``KeyboardInterrupt``
        of Ctrl-C.

    Privacy
    -------
    The validation records are protected with ``privacy`` in total, under replacement of one record,
    n public (claims G1 to G3 of ``PROOFS-bayesopt.md``).  The training data are not:
    see :class:`dpfast.bayesopt.TrainingCost`.  There is no argument for fitting the covariance to
    the values told: that would be one more query (``fit_covariance`` takes public values).  Points
    are rounded to whole numbers and choices before ``losses`` sees them, by public and released
    numbers, so that rounding costs nothing.

    Examples
    --------
    >>> deep = lambda p: np.full(500, abs(p["depth"] - 3) / 8 + (p["loss"] == "a"))
    >>> found = dpfast.tune(
    ...     deep,
    ...     {
    ...         "depth": dpfast.bayesopt.Integer(1, 9),
    ...         "loss": dpfast.bayesopt.Categorical(["a", "b"]),
    ...     },
    ...     privacy=5.0,
    ...     n_records=500,
    ...     noise=dpfast.SeededNoise(0),
    ... )
    >>> found.parameters
    {'depth': 3, 'loss': 'b'}

    >>> import numpy as np
    >>> import dpfast
    >>> x = np.random.default_rng(0).normal(1.0, 0.3, size=(2000, 3))
    >>> found = dpfast.tune(
    ...     lambda theta: np.sum((x - theta) ** 2, axis=1),
    ...     bounds=[(-2.0, 2.0)] * 3,
    ...     privacy=dpfast.GDP(1.0),
    ...     n_records=2000,
    ...     clip=20.0,
    ... )
    >>> bool(np.abs(found.theta - 1.0).max() < 0.5)
    True
    """
    report = watched(progress, checked_steps(steps))
    tuner = _TunedLosses(
        losses,
        bounds,
        privacy=privacy,
        n_records=n_records,
        clip=clip,
        steps=steps,
        search=search,
        ledger=ledger,
        noise=noise,
        training=training,
        path=path,
        keep_values=keep_values,
    )
    with KeepingPaid(lambda _: tuner.result()):
        while not tuner.done:
            tuner.evaluate()
            if report is not None:
                report(tuner.steps_paid, steps)
    return tuner.result()


class _TunedLosses(Tuner):
    """A search that calls a function for its losses, the first time before anything is spent."""

    def __init__(self, losses: Callable[[Any], ArrayLike], bounds: Any, **options: Any) -> None:
        self._losses = function(losses, "losses", "the parameters")
        self._first: list[Array] = []  # what the rehearsal was told, until it is used
        super().__init__(bounds, **options)

    def _rehearse(self, n: int) -> None:
        """Evaluate the first point of the first batch; only its shape and dtype are looked at."""
        batch = self._search.batch()
        if self._training is not None:
            self._training.charge(1)  # for what is run, whatever comes of it
        points = self._settings.space.all_parameters(self._settings.box.outside(batch))
        told = checked_values(self._losses(points[0]), n)
        if self._training is not None:
            self._training.charge(len(batch) - 1)
        self._first, self._pending = [told], batch

    def evaluate(self) -> None:
        """Ask, evaluate and tell."""
        points = self.ask()
        rows, self._first = self._first, []
        n = self._values.n
        rows += [checked_values(self._losses(theta), n) for theta in points[len(rows) :]]
        self.tell(np.concatenate(rows))
