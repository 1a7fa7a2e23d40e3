"""Private tuning in one call, and a clip for it in another."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpfast.arguments import Array, function, number_in
from dpfast.bayesopt.result import Tuning
from dpfast.bayesopt.search import Search
from dpfast.bayesopt.settings import SearchSettings, checked_range, resolve_settings
from dpfast.bayesopt.spending import Spending
from dpfast.bayesopt.tuner import Tuner
from dpfast.curator.blackbox.vectors import RecordValues, checked_values
from dpfast.curator.shares import share_receipt
from dpfast.errors import DpfastError, DpfastWarning, InvalidInput, described, understood
from dpfast.front.partial import KeepingPaid
from dpfast.front.progress import watched
from dpfast.front.request import Account
from dpfast.optimize.schedules import checked_steps
from dpfast.privacy.budget import Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.rounding import MARGIN_8000

#: Between which powers of ten a clip is looked for, and in how many halvings: to a factor of 1.014.
SMALLEST, LARGEST, HALVINGS = -6.0, 6.0, 10

#: Of a clip at the smallest length it could have.
NO_GRADIENT = (
    "private_clip was answered with its smallest length, {clip:.2g}: nearly no record's losses "
    "were seen to differ among the first points. Those of trees, of whole numbers and of right and "
    "wrong are flat; others may not be finite there. With such a clip tune follows noise: "
    "search=dpfast.bayesopt.SearchSettings(loss_range=(low, high)) compares values instead."
)


@understood
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
    path: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Tuning:
    """Tune the parameters of a black box on sensitive validation records (DP-GIBO).

    Algorithm 1 of paper 4 (Sopa, Marusic, Avella-Medina and Cunningham 2025), corrected as listed
    in :mod:`dpfast.bayesopt`: a surrogate Gaussian process turns each record's losses at a few
    points into a gradient; the gradients are clipped, averaged and released with noise; the
    parameters move along them.  Where losses have a public range (``loss_range`` of `search`;
    losses that are booleans have one), their values are compared instead: two choices by the
    exponential mechanism, among points that fill the bounds and among others around the first
    choice.

    Parameters
    ----------
    losses : callable
        ``losses(theta)`` trains and evaluates at parameters, an array of shape (d,) (or the list or
        dict that `bounds` ask for), and returns one loss per validation record, shape (n,).  A
        record's loss may depend on that record and on ``theta`` only: no standardisation by the
        validation set, no ranks, no early stopping on it.  It is called once before anything is
        spent, and what it raises later comes out as it is.
    bounds, privacy, n_records, clip, steps, search, ledger, noise, path
        See :class:`dpfast.bayesopt.Tuner`.
    progress : callable, optional
        Called with (steps paid for, steps), where each of two choices counts as half of the steps;
        see :func:`dpfast.fit`.

    Privacy
    -------
    The validation records are protected with ``privacy`` in total, under replacement of one record,
    n public (claims G1 to G3 and G7 of ``PROOFS-bayesopt.md``).  The training data are not:
    see :class:`~dpfast.bayesopt.Tuner`.  There is no argument for fitting the covariance to
    the values told: that would be one more query (``fit_covariance`` takes public values).  Points
    are rounded to whole numbers and choices before ``losses`` sees them, by public and released
    numbers, so that rounding costs nothing.

    Examples
    --------
    >>> deep = lambda p: np.full(500, abs(p["depth"] - 3) / 8 + (p["loss"] == "a"))
    >>> depth, loss = dpfast.bayesopt.Integer(1, 9), dpfast.bayesopt.Categorical(["a", "b"])
    >>> search = {"privacy": 5.0, "n_records": 500, "noise": dpfast.SeededNoise(0)}
    >>> dpfast.tune(deep, {"depth": depth, "loss": loss}, **search).parameters
    {'depth': 3, 'loss': 'b'}
    """
    steps = checked_steps(steps)
    report = watched(progress, steps)
    if search is None and getattr(losses, "loss_range", None) is not None:
        search = SearchSettings(loss_range=losses.loss_range)  # type: ignore[attr-defined]
    options: dict[str, Any] = {
        "privacy": privacy,
        "n_records": n_records,
        "clip": clip,
        "steps": steps,
        "ledger": ledger,
        "noise": noise,
        "path": path,
    }
    try:
        tuner = _TunedLosses(losses, bounds, search=search, **options)
    except _RightOrWrong:
        if path is not None:
            raise
        search = SearchSettings(loss_range=(0.0, 1.0))
        tuner = _TunedLosses(losses, bounds, search=search, **options)
    with KeepingPaid(lambda _: tuner.result()):
        while not tuner.done:
            tuner.evaluate()
            if report is not None:
                report(tuner.steps_paid * steps // tuner._settings.steps, steps)
        return tuner.result()


class _RightOrWrong(InvalidInput):
    """Losses are booleans, and how to search was left to :func:`tune`."""


class _TunedLosses(Tuner):
    """A search that calls a function for its losses, the first time before anything is spent."""

    def __init__(self, losses: Callable[[Any], ArrayLike], bounds: Any, **options: Any) -> None:
        self._losses = function(losses, "losses", "the parameters")
        self._first: list[Array] = []  # what the rehearsal was told, until it is used
        self._asked = options["search"] is not None
        super().__init__(bounds, **options)

    def _rehearse(self, n: int) -> None:
        """Evaluate the first point of the first batch; only its shape and dtype are looked at."""
        batch = self._search.batch()
        points = self._settings.space.all_parameters(self._settings.box.outside(batch))
        first = self._losses(points[0])
        if not self._asked and getattr(first, "dtype", None) == np.bool_:
            raise _RightOrWrong(
                "losses that are booleans have no gradient, and a search with a path must know "
                "that they are when it begins. Nothing was spent. Pass "
                "search=dpfast.bayesopt.SearchSettings(loss_range=(0, 1))."
            )
        told = checked_values(first, n)
        self._first, self._pending = [told], batch

    def evaluate(self) -> None:
        """Ask, evaluate and tell."""
        points = self.ask()
        rows, self._first = self._first, []
        n = self._values.n
        rows += [checked_values(self._losses(theta), n) for theta in points[len(rows) :]]
        self.tell(np.concatenate(rows))


def private_clip(
    losses: Callable[[Any], ArrayLike],
    bounds: Any,
    *,
    privacy: Budget | float,
    n_records: int,
    share: float = 0.8,
    search: SearchSettings | None = None,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> float:
    """A clip for :func:`dpfast.tune` below which most records' gradients lie at the start.

    A clip that is ten times too large makes the noise of a search ten times too large; one that is
    far too small forgets how much records differ.  A twentieth of the budget's square, a mu of .22
    times the total, is enough for a pilot.

    Parameters
    ----------
    losses, bounds, n_records, search, ledger, noise
        As for :func:`dpfast.tune`, which is to have the same; of a shared ledger
        ``privacy=ledger.remaining`` gives the search what is left.
    privacy : GDP, ZCDP, ApproxDP or float
        The total for the pilot; a float is ``mu`` of Gaussian DP.
    share : float
        Of the records whose gradients are to be shorter, in (0, 1).

    Returns
    -------
    float
        Between 1e-6 and 1e6.  At the lower end a ``DpfastWarning`` says so: then there are
        nearly no gradients, and nothing for :func:`dpfast.tune` to follow.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public: noisy shares of records whose
    gradient is shorter than a number (claim C46).  A record's gradient is made of its own losses
    and of weights that follow from public points.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(1.0, 0.3, size=(2000, 3))
    >>> losses = lambda theta: np.sum((x - theta) ** 2, axis=1)
    >>> what = {"bounds": [(-2.0, 2.0)] * 3, "n_records": 2000}
    >>> ledger = dpfast.Ledger(dpfast.GDP(1.0))
    >>> clip = dpfast.bayesopt.private_clip(losses, privacy=0.22, ledger=ledger, **what)
    >>> found = dpfast.tune(losses, clip=clip, privacy=ledger.remaining, ledger=ledger, **what)
    >>> bool(np.abs(found.theta - 1.0).max() < 0.2)
    True
    """
    function(losses, "losses", "the parameters")
    share = number_in(share, "share", "(0, 1)")
    settings = resolve_settings(bounds, 1.0, 1, search)
    own = Spending(Account(privacy, ledger), n_records, noise)
    mu, values = own.account.total.mu / math.sqrt(HALVINGS) * (1.0 - MARGIN_8000), own.values
    share_receipt(values.n, mu)  # refuses what is impossible, free of charge
    label = f"private_clip(n={values.n}, share={share:g})"
    first = Search(settings)
    batch = first.batch()
    points = settings.space.all_parameters(settings.box.outside(batch))
    with KeepingPaid(privacy=own.guarantee):
        own.begin(lambda: values.append(losses(points[0])), label, len(points), 1)
        for point in points[1:]:
            values.append(losses(point))
        first.add(batch)
        lengths = values.lengths(first.weights())

        low, high = SMALLEST, LARGEST
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            if lengths.excess(10.0**middle, share, mu).value[0] < 0.0:
                low = middle
            else:
                high = middle
        clip = float(10.0 ** (0.5 * (low + high)))
        if low == SMALLEST:  # as released
            warnings.warn(NO_GRADIENT.format(clip=clip), DpfastWarning, stacklevel=2)
        return clip


def _tell(values: RecordValues, losses: Callable[[Any], ArrayLike], candidates: Any) -> None:
    """Losses of all candidates, which are the caller's: what one cannot have costs nothing."""
    for i, candidate in enumerate(candidates):
        try:
            found = losses(candidate)
        except DpfastError:
            raise
        except Exception as error:
            raise InvalidInput(
                f"losses raised {type(error).__name__} for candidates[{i}], "
                f"{described(candidate)}: each must be what losses takes. Nothing was charged for "
                "the choice."
            ) from error
        values.append(found)


def private_choice(
    losses: Callable[[Any], ArrayLike],
    candidates: Sequence[Any],
    *,
    loss_range: tuple[float, float],
    privacy: Budget | float,
    n_records: int,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> int:
    """Which candidate has the smallest mean loss, by the exponential mechanism: its position.

    For the results of several searches that share a ledger, from different starts: a tenth of the
    squared budget for the choice, the rest in equal parts for the searches.

    Parameters
    ----------
    losses : callable
        ``losses(candidate)`` returns one loss per validation record, shape (n,).
    candidates : sequence
        Public, or released: of whatever ``losses`` takes, such as ``result.parameters``.
    loss_range : (float, float)
        Public range that losses are clipped to.
    privacy : GDP, ZCDP, ApproxDP or float
        The total for the choice; a float is ``mu`` of Gaussian DP.
    n_records, ledger, noise
        As of :func:`dpfast.tune`.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public, however many candidates there
    are: the mean that is chosen is worse than the smallest by about ``log(candidates)`` times
    ``1.6 (high - low) / (n mu)`` (claim G7).  A value that is not finite counts as the upper end.

    Examples
    --------
    >>> losses = lambda theta: np.full(500, (theta - 0.3) ** 2)
    >>> what = {"loss_range": (0.0, 1.0), "n_records": 500}
    >>> dpfast.bayesopt.private_choice(losses, [0.9, 0.2, -0.5], privacy=1.0, **what)
    1
    """
    function(losses, "losses", "a candidate")
    if not isinstance(candidates, (list, tuple)) or not candidates:
        raise InvalidInput(
            f"candidates must be a list of at least one; received {described(candidates)}."
        )
    low, high = checked_range(loss_range)
    own = Spending(Account(privacy, ledger), n_records, noise)
    mu, values = own.account.total.mu, own.values
    values.choice_receipt(low, high, mu)  # refuses what is impossible, free of charge
    label = f"private_choice(n={values.n}, of {len(candidates)})"
    with KeepingPaid(privacy=own.guarantee):
        own.begin(lambda: _tell(values, losses, candidates), label)
        return values.choice(0, low, high, mu)
