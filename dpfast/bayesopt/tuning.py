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
from dpfast.curator.shares import Shares, share_receipt
from dpfast.errors import DpfastError, DpfastWarning, InvalidInput, described, understood
from dpfast.fit_requests.partial import KeepReleased
from dpfast.fit_requests.progress import checked_progress
from dpfast.fit_requests.request import Account
from dpfast.inference.guarantees import TOLD, Guarantee
from dpfast.optimize.schedules import checked_steps
from dpfast.privacy.budget import GDP, Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.rounding import ROUNDING_SUM

#: Between which powers of ten a clip is looked for, and in how many halvings: to a factor of 1.014.
SMALLEST, LARGEST, HALVINGS = -6.0, 6.0, 10

#: Of a clip at the smallest length it could have.
NO_GRADIENT = (
    "{name} was answered with its smallest length, {clip:.2g}: nearly no record's losses "
    "were seen to differ among the first points. Those of trees, of whole numbers and of right and "
    "wrong are flat; others may not be finite there. With such a clip tune follows noise: "
    "search=dpfast.bayesopt.SearchSettings(loss_range=(low, high)) compares values instead."
)


#: Parts of mu that a search spends on its clip, and on comparing its end with its start.
PILOT, COMPARED = 0.22, 0.1

#: Share of the records whose gradients are to be shorter than a clip that a search buys: where
#: many are longer, means of what is left of them point elsewhere.
MOST_OF_THEM = 0.95

#: Share of the differences between two ends that are to be shorter than what tells how long they
#: are, and times that to which they are held; deviations of noise from which on an end is worse.
OF_DIFFERENCES, FARTHER, CLEAR = 0.95, 4.0, 2.0

WORSE = (
    "the mean loss at the end is above that at the start by about {worse:.2g} (noise {noise:.1g}): "
    "the search went astray. Use a larger clip, or compare values with "
    "search=dpfast.bayesopt.SearchSettings(loss_range=(low, high))."
)

NO_CLIP = (
    "clip was not given, and 1 was taken: where many records' gradients are longer, a search may "
    "end worse than it began. dpfast.bayesopt.private_clip buys one."
)


@understood
def tune(
    losses: Callable[[Any], ArrayLike],
    bounds: Any,
    *,
    privacy: Budget | float,
    n_records: int,
    clip: float | None = None,
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
    bounds, privacy, n_records, steps, search, ledger, noise, path
        See :class:`dpfast.bayesopt.Tuner`.
    clip : float, optional
        Public bound on the norm of one record's gradient.  By default one twentieth of the budget's
        square buys it, as :func:`dpfast.bayesopt.private_clip` does, and one hundredth a
        comparison of the end with the start, which takes two more evaluations.  With a `path`
        nothing is bought, and it is 1.
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
    report = checked_progress(progress, steps)
    if search is None and getattr(losses, "loss_range", None) is not None:
        search = SearchSettings(loss_range=losses.loss_range)  # type: ignore[attr-defined]
    follows = getattr(search, "loss_range", None) is None
    kind = _BuysClip if clip is None and path is None and follows else _TunedLosses
    options: dict[str, Any] = {
        "privacy": privacy,
        "n_records": n_records,
        "clip": 1.0 if clip is None else clip,
        "steps": steps,
        "ledger": ledger,
        "noise": noise,
        "path": path,
    }
    try:
        tuner = kind(losses, bounds, search=search, **options)
    except _RightOrWrong:
        if path is not None:
            raise
        search = SearchSettings(loss_range=(0.0, 1.0))
        tuner = _TunedLosses(losses, bounds, search=search, **options)
    if clip is None and path is not None and tuner._settings.loss_range is None:
        tuner.remarks = (NO_CLIP,)
    with KeepReleased(lambda _: tuner.result()):
        while not tuner.done:
            tuner.evaluate()
            if report is not None:
                report(tuner.steps_paid * steps // tuner._settings.steps, steps)
        tuner.compare()
        return tuner.result()


class _RightOrWrong(InvalidInput):
    """Losses are booleans, and how to search was left to :func:`tune`."""


class _TunedLosses(Tuner):
    """A search that calls a function for its losses, the first time before anything is spent."""

    def __init__(self, losses: Callable[[Any], ArrayLike], bounds: Any, **options: Any) -> None:
        self._losses = function(losses, "losses", "the parameters")
        self._first: list[Array] = []  # what the rehearsal was told, until it is used
        self.remarks: tuple[str, ...] = ()
        self._asked = options["search"] is not None
        super().__init__(bounds, **options)

    def _rehearse(self, n: int) -> None:
        """Evaluate the first point of the first batch; only its shape and dtype are looked at."""
        batch = self._search.batch()
        points = self._settings.space.all_parameters(self._settings.box.from_unit(batch))
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
        told = np.concatenate(rows)
        self.buy(told)
        self.tell(told)

    def buy(self, told: Array) -> None:
        """What is bought before a step; nothing where the clip was given."""

    def compare(self) -> None:
        """Compare the end with the start; not where the clip was given."""

    def result(self) -> Tuning:
        """What was found, and what is to be said of it."""
        return super().result()._replace(remarks=self.remarks)


class _BuysClip(_TunedLosses):
    """A search that buys its clip at its first points, and a comparison of its end with its start.

    Privacy
    -------
    The total for three ledgers of its own, whose squares of mu add up to its square (claim C9).
    """

    def __init__(self, losses: Callable[[Any], ArrayLike], bounds: Any, **options: Any) -> None:
        self._account = Account(options["privacy"], options["ledger"])
        mu = self._account.total.mu
        self._pilot, self._last = Ledger(GDP(PILOT * mu)), Ledger(GDP(COMPARED * mu))
        halving = (1.0 - ROUNDING_SUM) / math.sqrt(HALVINGS)
        self._of_clip, half = PILOT * mu * halving, COMPARED * mu * math.sqrt(0.5)
        self._of_lengths, self._of_ends = half * halving, half * (1.0 - ROUNDING_SUM)
        left = mu * math.sqrt(1.0 - PILOT**2 - COMPARED**2) * (1.0 - ROUNDING_SUM)
        self._found = False
        super().__init__(losses, bounds, **options | {"privacy": GDP(left), "ledger": None})

    def _start(self, n: int, account: Account, ledger: Ledger | None) -> None:
        """Charge for all of it, once nothing is left to be refused."""
        probe = RecordValues(n, self._last, self._noise)
        for mu in (self._of_clip, self._of_lengths):
            share_receipt(n, mu)
        for bound in (10.0**SMALLEST, 10.0**LARGEST):
            self._search.refuse_impossible(probe, min(self._mus))
            probe.mean_receipt(FARTHER * bound, self._of_ends, 1)
        steps = f"steps={self._settings.steps}"
        what = f"tune({self._settings.describe()}, bought clip, {steps}, n={n})"
        self._account.refuse_unpayable(what)
        self._rehearse(n)
        self._ledger = Ledger(self._total)
        self._account.charge(what)

    def buy(self, told: Array) -> None:
        """The clip, at the first points."""
        if self._found:
            return
        assert self._pending is not None
        values, first = (
            RecordValues(self._values.n, self._pilot, self._noise),
            Search(self._settings),
        )
        values.append(told, len(told))
        first.add(self._pending)
        clip, seen = _length(values.norms(first.weights()), MOST_OF_THEM, self._of_clip)
        if not seen:
            self.remarks = (NO_GRADIENT.format(name="the search", clip=clip),)
        self._settings = self._search.settings = self._settings._replace(clip=clip)
        self._found = True

    def compare(self) -> None:
        """How much the mean loss at the end is above that at the start, of differences held."""
        n, space, box = self._values.n, self._settings.space, self._settings.box
        start = space.all_parameters(box.from_unit(np.array([self._search.iterates[0]])))[0]
        values = RecordValues(n, self._last, self._noise)
        for point in (start, self.result().best_params):
            values.append(checked_values(self._losses(point), n), 1)
        ends = np.array([[-1.0], [1.0]])
        length, _ = _length(values.norms(ends), OF_DIFFERENCES, self._of_lengths)
        answer = values.mean(ends, FARTHER * length, self._of_ends, label="end and start")
        worse, noise = float(answer.value[0]), answer.noise_scale
        if worse > CLEAR * noise:
            told = WORSE.format(worse=worse, noise=noise)
            self.remarks = (*self.remarks, told)

    def result(self) -> Tuning:
        """With the clip and the comparison in what was spent."""
        found = super().result()
        books = (self._pilot, self._ledger, self._last)
        charges = [(entry.label, entry.spend.mu) for book in books for entry in book.entries]
        paid = Guarantee.of(self._account.total, self._noise, self._values.n, charges, vouched=TOLD)
        return found._replace(privacy=paid._replace(genuine=found.privacy.genuine))


def _length(lengths: Shares, share: float, mu: float) -> tuple[float, bool]:
    """A length below which this share of the records' are, and whether it is no smallest one."""
    low, high = SMALLEST, LARGEST
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if lengths.excess(10.0**middle, share, mu).value[0] < 0.0:
            low = middle
        else:
            high = middle
    return float(10.0 ** (0.5 * (low + high))), low > SMALLEST


def private_clip(
    losses: Callable[[Any], ArrayLike],
    bounds: Any,
    *,
    privacy: Budget | float,
    n_records: int,
    share: float = MOST_OF_THEM,
    search: SearchSettings | None = None,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> float:
    """A clip for :func:`dpfast.tune` below which most records' gradients lie at the start.

    A clip that is ten times too large makes the noise of a search ten times too large; one that is
    far too small forgets how much records differ, and may lead away from where their mean loss is
    least.  A twentieth of the budget's square, a mu of .22 times the total, is enough for a pilot,
    and :func:`dpfast.tune` without a clip spends it.

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
    mu, values = own.account.total.mu / math.sqrt(HALVINGS) * (1.0 - ROUNDING_SUM), own.values
    share_receipt(values.n, mu)  # refuses what is impossible, free of charge
    label = f"private_clip(n={values.n}, share={share:g})"
    first = Search(settings)
    batch = first.batch()
    points = settings.space.all_parameters(settings.box.from_unit(batch))
    with KeepReleased(privacy=own.guarantee):
        own.begin(lambda: values.append(losses(points[0])), label, len(points), 1)
        for point in points[1:]:
            values.append(losses(point))
        first.add(batch)
        clip, seen = _length(values.norms(first.weights()), share, mu)
        if not seen:  # as released
            told = NO_GRADIENT.format(name="private_clip", clip=clip)
            warnings.warn(told, DpfastWarning, stacklevel=2)
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
    with KeepReleased(privacy=own.guarantee):
        own.begin(lambda: _tell(values, losses, candidates), label)
        return values.choice(0, low, high, mu)
