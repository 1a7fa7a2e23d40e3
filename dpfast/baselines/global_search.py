"""Private global Bayesian optimisation in the manner of Kusner et al. (2015)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from dpfast.arguments import function, positive, real_array
from dpfast.baselines.searched import Searched
from dpfast.bayesopt.box import Box
from dpfast.bayesopt.settings import checked_range
from dpfast.bayesopt.space import spread_unit
from dpfast.bayesopt.surrogate.covariance import RBF, Covariance, checked_covariance
from dpfast.bayesopt.training import Spending
from dpfast.errors import InvalidInput
from dpfast.front.partial import KeepingPaid
from dpfast.optimize.schedules import Uniform, checked_steps
from dpfast.privacy.budget import GDP, Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource

__all__ = ["global_search"]

Array = NDArray[np.float64]

#: Points at which the confidence bound is compared, all over the box and around the best one.
CANDIDATES = 2000


def global_search(
    losses: Callable[[Array], ArrayLike],
    bounds: ArrayLike,
    *,
    privacy: Budget | float,
    n_records: int,
    loss_range: tuple[float, float],
    evaluations: int = 50,
    covariance: Covariance | None = None,
    exploration: float = 2.0,
    start: ArrayLike | None = None,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> Searched:
    """Release the mean loss at points chosen by a confidence bound of a Gaussian process (GP-UCB).

    A rival of section 4 of paper 4 (Sopa, Marusic, Avella-Medina and Cunningham 2025).

    Every mean loss is released with noise for its worst case over losses in a public range, and
    the next point minimises posterior mean minus `exploration` posterior standard deviations.  The
    original adds noise once at the end, for a sensitivity that holds only if the validation losses
    of neighbouring data sets are close; this is what it costs without that assumption.

    Parameters
    ----------
    losses : callable
        ``losses(theta)`` returns one loss per validation record, shape (n,).
    bounds : array-like of shape (d, 2)
    privacy : GDP, ZCDP, ApproxDP or float
    n_records : int
    loss_range : (float, float)
        Public range that losses are clipped to.
    evaluations : int
        Number of points.
    covariance : Covariance, optional
        Of the mean loss over the unit box, in units of the range; default an RBF of length-scale
        a quarter of the diagonal and standard deviation a quarter of the range.
    exploration : float
    start : array-like of shape (d,), optional
        First point; default the middle.
    ledger, noise
        As of :func:`dpfast.fit`.

    Returns
    -------
    Searched
        ``theta`` has the lowest posterior mean among the evaluated points.

    Raises
    ------
    InvalidInput
        If an argument is refused, before anything is charged.
    BudgetExceeded
        If the ledger cannot pay; nothing is spent then.
    Exception
        What ``losses`` raises later has the search so far in its attribute ``partial_result``.

    Privacy
    -------
    ``privacy`` in total (claims G4 and G8 of PROOFS-bayesopt.md).

    Examples
    --------
    >>> losses = lambda theta: np.full(100, ((theta - 0.3) ** 2).sum())
    >>> dpfast.baselines.global_search(
    ...     losses, [(0.0, 1.0)], privacy=1.0, n_records=100, loss_range=(0.0, 1.0), evaluations=5
    ... ).theta.shape
    (1,)
    """
    function(losses, "losses", "the parameters")
    box = Box(bounds)
    count, d = checked_steps(evaluations), box.dimension
    if covariance is None:
        covariance = RBF(0.25 * d**0.5, 0.25)
    covariance = checked_covariance(covariance, d)
    exploration = positive(exploration, "exploration", or_zero=True)
    total = GDP.within(privacy)
    own = Spending(privacy, total, n_records, noise)
    values = own.values
    low, high = checked_range(loss_range)
    mus = Uniform().step_mus(total.mu, count)
    receipt = values.loss_receipt(low, high, mus[0])  # refuses what is impossible
    places = box.inside(_first(start, box))[None, :]
    label = f"global_search(n={n_records}, {count} evaluations)"
    first = box.outside(places[0])
    grid = spread_unit(CANDIDATES, d)
    scores: list[float] = []
    relative = (receipt.noise_scale / (high - low)) ** 2
    centre = places[0]

    def found() -> Searched:
        return Searched(
            theta=box.outside(centre),
            path=box.outside(places[: len(scores)]),
            scores=np.array(scores),
            method=f"GP-UCB, {covariance!r}, exploration {exploration:g}",
            privacy=own.guarantee(),
        )

    with KeepingPaid(lambda _: found() if scores else None, privacy=own.guarantee):
        own.begin(lambda: values.append(losses(first)), ledger, label)
        for k, mu in enumerate(mus):
            scores.append(float(values.mean_loss(k, low, high, mu).value[0]))
            known = _relative(scores, low, high)
            mean, _ = _posterior(covariance, places, known, relative, places)
            centre = places[int(np.argmin(mean))]
            if k + 1 == count:
                break
            around = np.clip(centre + 0.2 * (grid[: CANDIDATES // 4] - 0.5), 0.0, 1.0)
            candidates = np.vstack((grid, around))
            mean, deviation = _posterior(covariance, places, known, relative, candidates)
            chosen = candidates[int(np.argmin(mean - exploration * deviation))]
            places = np.vstack((places, chosen))
            values.append(losses(box.outside(chosen)))
        return found()


def _first(start: ArrayLike | None, box: Box) -> Array:
    if start is None:
        return 0.5 * box.lower + 0.5 * box.upper
    theta = np.array(real_array(start, "start"))
    if theta.shape != (box.dimension,) or not np.isfinite(theta).all():
        raise InvalidInput(f"start must be {box.dimension} finite numbers within the bounds.")
    return np.asarray(np.clip(theta, box.lower, box.upper))


def _relative(scores: list[float], low: float, high: float) -> Array:
    """Released scores in units of the public range, centred."""
    return (np.array(scores) - 0.5 * (low + high)) / (high - low)


def _posterior(
    covariance: Covariance, places: Array, scores: Array, variance: float, at: Array
) -> tuple[Array, Array]:
    """Posterior mean and standard deviation, with an unknown constant mean taken as the average."""
    level = float(scores.mean())
    gram = covariance.values(places, places)
    gram[np.diag_indices_from(gram)] += variance + 1e-8 * covariance.output_scale**2
    factor = cho_factor(gram, lower=True, check_finite=False)
    cross = covariance.values(at, places)
    mean = level + cross @ cho_solve(factor, scores - level, check_finite=False)
    half = solve_triangular(factor[0], cross.T, lower=True, check_finite=False)
    prior = covariance.output_scale**2
    return mean, np.sqrt(np.maximum(prior - np.sum(half * half, axis=0), 0.0))
