"""Private tuning in one call, with a private clip and a private choice."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from numpy.typing import ArrayLike

from dpfast.arguments import function, number_in
from dpfast.bayesopt.portfolio import MIN_STEPS, Portfolio
from dpfast.bayesopt.result import Tuning
from dpfast.bayesopt.search import Search
from dpfast.bayesopt.settings import SearchSettings, checked_range, resolve_settings
from dpfast.bayesopt.spending import Spending
from dpfast.bayesopt.tuned_losses import (
    CLIP_QUANTILE,
    HALVINGS,
    NO_GRADIENT,
    BooleanLosses,
    TunedLosses,
    WithPrivateClip,
    clear_share,
    private_length,
)
from dpfast.curator.blackbox.vectors import RecordValues
from dpfast.curator.shares import share_receipt
from dpfast.errors import DpfastError, DpfastWarning, InvalidInput, described, understood
from dpfast.fit_requests.partial import KeepReleased
from dpfast.fit_requests.planned_run import checked_progress, warn_of
from dpfast.fit_requests.request import Account
from dpfast.optimize.schedules import checked_steps
from dpfast.privacy.budget import Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.rounding import ROUNDING_SUM

NO_CLIP = (
    "clip was not given, so it is 1: if many records' gradients are longer, a search may end worse "
    "than it began. dpfast.bayesopt.private_clip estimates a clip."
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
    progress: Callable[[int, int], None] | bool | None = None,
) -> Tuning:
    """Tune the parameters of a black box on sensitive validation records.

    By default values are compared: the exponential mechanism chooses among points that fill the
    bounds, then in ever smaller boxes around its last choice.  Beyond three parameters there is one
    choice, and a search that follows gradients from it (DP-GIBO).  Noisy mean differences from the
    start end both: a clearly worse answer is replaced by the start, and one that is not clearly
    better has a warning.  The range of losses and the norm of gradients are estimated with a part
    of the total.  A `clip`, a `search` or a `path` asks for one search alone.

    DP-GIBO is algorithm 1 of paper 4 (Sopa, Marusic, Avella-Medina and Cunningham 2025), corrected
    as listed in :mod:`dpfast.bayesopt`.  A surrogate Gaussian process turns each record's losses at
    a few points into a gradient.  The gradients are clipped, averaged and released with noise, and
    the parameters move along them.  Where losses have a public range (``loss_range`` of `search`,
    or boolean losses), values alone are compared in this range, with any number of parameters.

    Parameters
    ----------
    losses : callable
        ``losses(theta)`` trains and evaluates at parameters, an array of shape (d,), or a list or
        dict as in `bounds`.  It returns one loss per validation record, shape (n,).  A record's
        loss may depend on that record and on ``theta`` only: no standardisation by the validation
        set, no ranks, no early stopping on it.  It is called once before anything is spent; its
        later errors are raised unchanged.
    bounds, privacy, n_records, steps, search, ledger, noise, path
        See :class:`dpfast.bayesopt.Tuner`.
    clip : float, optional
        Public bound on the norm of one record's gradient, for DP-GIBO alone.  With a `search` and
        no clip it is estimated with one twentieth of the budget's square, as by
        :func:`dpfast.bayesopt.private_clip`.  One hundredth then pays for a comparison of the end
        with the start, with two more evaluations.  With a `path` the default is 1.
    progress : callable or bool, optional
        True shows a bar.  A function is called with (steps paid for, steps); each choice
        counts as an equal part of the steps.  See :func:`dpfast.fit`.

    Privacy
    -------
    The validation records are protected with ``privacy`` in total, under replacement of one record,
    n public (claims G1 to G3, G7 and G8 of ``PROOFS-bayesopt.md``).  The training data are not:
    see :class:`~dpfast.bayesopt.Tuner`.  The covariance is not fitted to the losses, which would be
    one more query (``fit_covariance`` takes public values).  Points are rounded to whole numbers
    and choices before ``losses`` sees them.  Rounding uses public and released numbers only, and
    costs nothing.

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
    follows_gradients = getattr(search, "loss_range", None) is None
    by_default = clip is None and path is None and follows_gradients
    if by_default and search is None and steps >= MIN_STEPS:
        with suppress(BooleanLosses):
            return _portfolio(losses, bounds, privacy, n_records, steps, ledger, noise, report)
    search_class = WithPrivateClip if by_default else TunedLosses
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
        tuner = search_class(losses, bounds, search=search, **options)
    except BooleanLosses:
        if path is not None:
            raise
        search = SearchSettings(loss_range=(0.0, 1.0))
        tuner = TunedLosses(losses, bounds, search=search, **options)
    if clip is None and path is not None and tuner._settings.loss_range is None:
        tuner.remarks = (NO_CLIP,)
    with KeepReleased(lambda *_: tuner.result()):
        while not tuner.done:
            tuner.evaluate()
            if report is not None:
                report(tuner.steps_paid * steps // tuner._settings.steps, steps)
        tuner.compare()
        tuning = tuner.result()
    warn_of(tuning)
    return tuning


def _portfolio(
    losses: Callable[[Any], ArrayLike],
    bounds: Any,
    privacy: Any,
    n_records: int,
    steps: int,
    ledger: Ledger | None,
    noise: NoiseSource | None,
    report: Callable[[int, int], None] | None,
) -> Tuning:
    """Compare values, follow gradients from the answer, and choose."""
    portfolio = Portfolio(
        losses,
        bounds,
        privacy=privacy,
        n_records=n_records,
        steps=steps,
        ledger=ledger,
        noise=noise,
    )
    with KeepReleased(lambda *_: portfolio.result()):
        return portfolio.run(lambda done: None if report is None else report(done, steps))


def private_clip(
    losses: Callable[[Any], ArrayLike],
    bounds: Any,
    *,
    privacy: Budget | float,
    n_records: int,
    share: float = CLIP_QUANTILE,
    search: SearchSettings | None = None,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> float:
    """Estimate a clip for :func:`dpfast.tune` above most records' gradients at the start.

    A clip that is ten times too large makes the noise of a search ten times too large.  One that is
    far too small hides differences between records, and may lead away from the minimum of the mean
    loss.  A twentieth of the budget's square, a mu of .22 times the total, is enough.  That is the
    share of :func:`dpfast.tune` without a clip.

    Parameters
    ----------
    losses, bounds, n_records, search, ledger, noise
        As for :func:`dpfast.tune`, which must have the same.  With a shared ledger
        ``privacy=ledger.remaining`` gives the search the rest of the budget.
    privacy : GDP, ZCDP, ApproxDP or float
        The total for the pilot; a float is ``mu`` of Gaussian DP.
    share : float
        Share of the records whose gradients are to be shorter, in (0, 1).  It is lower, down to a
        half, where noise could not tell it from all records.

    Returns
    -------
    float
        Between 1e-6 and 1e6.  The lower end comes with a ``DpfastWarning``: nearly all gradients
        are zero, and :func:`dpfast.tune` has nothing to follow.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public.  The answers are noisy shares of
    records whose gradient is shorter than a number (claim C46).  A record's gradient depends on its
    own losses and on weights from public points.

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
    spending = Spending(Account(privacy, ledger), n_records, noise)
    values = spending.values
    mu = spending.account.total.mu / math.sqrt(HALVINGS) * (1.0 - ROUNDING_SUM)
    share_receipt(values.n, mu)  # refuses what is impossible, free of charge
    label = f"private_clip(n={values.n}, share={share:g})"
    pilot_search = Search(settings)
    batch = pilot_search.batch()
    points = settings.space.all_parameters(settings.box.from_unit(batch))
    with KeepReleased(privacy=spending.guarantee):
        spending.begin(lambda: values.append(losses(points[0])), label, len(points), 1)
        for point in points[1:]:
            values.append(losses(point))
        pilot_search.add(batch)
        norms = values.norms(pilot_search.weights())
        clip, nonzero = private_length(norms, clear_share(values.n, mu, share), mu)
        if not nonzero:  # a released number
            message = NO_GRADIENT.format(name="private_clip", clip=clip)
            warnings.warn(message, DpfastWarning, stacklevel=2)
        return clip


def _append_all(values: RecordValues, losses: Callable[[Any], ArrayLike], candidates: Any) -> None:
    """Collect the losses of each candidate; a candidate that losses refuses costs nothing."""
    for i, candidate in enumerate(candidates):
        try:
            answer = losses(candidate)
        except DpfastError:
            raise
        except Exception as error:
            raise InvalidInput(
                f"losses raised {type(error).__name__} for candidates[{i}], "
                f"{described(candidate)}: losses must accept each candidate. Nothing was charged "
                "for the choice."
            ) from error
        values.append(answer)


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
    """Choose the candidate with the smallest mean loss by the exponential mechanism.

    Use it for the results of several searches that share a ledger, from different starts.  A tenth
    of the squared budget is enough for the choice; the searches share the rest equally.

    Parameters
    ----------
    losses : callable
        ``losses(candidate)`` returns one loss per validation record, shape (n,).
    candidates : sequence
        Public or released arguments of ``losses``, such as ``result.parameters``.
    loss_range : (float, float)
        Public range that losses are clipped to.
    privacy : GDP, ZCDP, ApproxDP or float
        The total for the choice; a float is ``mu`` of Gaussian DP.
    n_records, ledger, noise
        As for :func:`dpfast.tune`.

    Returns
    -------
    int
        Position of the chosen candidate.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public, for any number of candidates.
    The mean of the chosen one exceeds the smallest by about ``log(candidates)`` times
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
    spending = Spending(Account(privacy, ledger), n_records, noise)
    mu, values = spending.account.total.mu, spending.values
    values.choice_receipt(low, high, mu)  # refuses what is impossible, free of charge
    label = f"private_choice(n={values.n}, of {len(candidates)})"
    with KeepReleased(privacy=spending.guarantee):
        spending.begin(lambda: _append_all(values, losses, candidates), label)
        return values.choice(0, low, high, mu)
