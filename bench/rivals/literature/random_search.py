"""Private random search: the best of a secret number of random points."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from bench.rivals.literature.selection import best_of_random_trials, plan_selection
from bench.rivals.literature.trials import trials_rate
from dpfast.arguments import Array, function, real_number
from dpfast.bayesopt.settings import checked_range
from dpfast.bayesopt.space import Box
from dpfast.bayesopt.spending import Spending
from dpfast.curator.blackbox.vectors import checked_values
from dpfast.errors import InvalidBudget, described
from dpfast.fit_requests.partial import KeepReleased
from dpfast.fit_requests.request import Account
from dpfast.inference.guarantees import Guarantee
from dpfast.privacy.budget import GDP, Budget, PureDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource

#: Beyond it the smaller of two probabilities leaves float64.
LARGEST_MU = 70.0


class Searched(NamedTuple):
    """What a search found: what else was tried, and how often, is secret."""

    #: The recommended parameters.
    theta: Array
    #: Their released mean loss.
    scores: Array
    method: str
    #: For the validation records; training data are not covered.
    privacy: Guarantee


def random_search(
    losses: Callable[[Array], ArrayLike],
    bounds: ArrayLike,
    *,
    privacy: Budget | float,
    n_records: int,
    loss_range: tuple[float, float],
    mean_trials: float = 100.0,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> Searched:
    """Try a random number of random points and publish the one with the lowest noisy loss.

    A rival of section 4 of paper 4 (Sopa, Marusic, Avella-Medina and Cunningham 2025).

    Liu and Talwar (2019) with the accounting of Papernot and Steinke (2022): a geometric number of
    epsilon-DP trials costs ``3 epsilon`` however large its mean, because only the winner is
    published.

    Parameters
    ----------
    losses : callable
        ``losses(theta)`` returns one loss per validation record, shape (n,).
    bounds : array-like of shape (d, 2)
    privacy : PureDP, GDP or float
        The total; a Gaussian budget is converted to the largest epsilon it covers.
    n_records : int
    loss_range : (float, float)
        Public range that losses are clipped to.
    mean_trials : float
        Expected number of trials, from 1.01 to 100,000; the actual one is secret.
    ledger, noise
        As of :func:`dpfast.fit`.

    Returns
    -------
    Searched

    Privacy
    -------
    ``privacy`` in total (claims B10 and B11 of PROOFS-rivals.md).  Running time and calls of
    ``losses`` show the number of trials to whoever can watch them.

    Examples
    --------
    >>> losses = lambda theta: np.full(100, ((theta - 0.3) ** 2).sum())
    >>> literature.random_search(
    ...     losses, [(0.0, 1.0)], privacy=1.0, n_records=100, loss_range=(0.0, 1.0), mean_trials=5.0
    ... ).theta.shape
    (1,)
    """
    function(losses, "losses", "the parameters")
    box = Box(bounds)
    epsilon = _pure(privacy)
    low, high = checked_range(loss_range)
    mean_trials = real_number(mean_trials, "mean_trials")
    trials_rate(mean_trials)  # refuses what is impossible
    own = Spending(Account(privacy, ledger, PureDP(epsilon).as_gdp()), n_records, noise)
    plan = plan_selection(own.values, low, high, epsilon)
    label = f"random_search(n={n_records}, d={box.dimension})"
    middle = 0.5 * box.lower + 0.5 * box.upper  # a point that tells nothing

    with KeepReleased(privacy=own.guarantee):  # of the trials only the winner is handed out
        own.begin(lambda: checked_values(losses(middle), n_records), label)
        found = best_of_random_trials(
            losses,
            (box.lower, box.upper),
            (low, high),
            n=n_records,
            epsilon=epsilon,
            mean_trials=mean_trials,
            ledger=own.ledger,
            noise=own.noise,
        )
        return Searched(
            theta=found.theta,
            scores=np.array([found.score]),
            method=f"random search, {mean_trials:g} trials on average, epsilon {plan.trial:.3g} "
            "each",
            privacy=own.guarantee(),
        )


def _pure(privacy: Budget | float) -> float:
    """The largest epsilon whose pure guarantee a budget covers, rounded down."""
    if isinstance(privacy, PureDP):
        return privacy.epsilon
    mu = GDP.within(privacy).mu
    if mu > LARGEST_MU:
        raise InvalidBudget(
            f"no pure guarantee is computed from a Gaussian one above mu = {LARGEST_MU:g}; "
            f"received {described(privacy)}. Pass privacy=dpfast.PureDP(epsilon)."
        )
    epsilon = math.log(float(ndtr(0.5 * mu)) / float(ndtr(-0.5 * mu)))
    less = 1e-12
    while PureDP(epsilon).as_gdp().mu > mu:  # by rounding, coarse for a small mu
        epsilon *= 1.0 - less
        less = min(2.0 * less, 0.5)
    return epsilon
