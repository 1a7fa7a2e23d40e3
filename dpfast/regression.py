"""``fit``: private M-estimation of a regression, with confidence intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpfast.curator import Curator
from dpfast.data import as_records
from dpfast.errors import InvalidInput
from dpfast.inference.results import Fit, Guarantee
from dpfast.inference.sandwich import sandwich_covariance
from dpfast.models import Bounded, Clip, Loss, Mallows, Objective, resolve_loss, resolve_weighting
from dpfast.optimize import GradientDescent, Newton, Schedule, resolve_schedule
from dpfast.optimize.planning import choose_method, plan_steps
from dpfast.optimize.schedules import ROUNDING_MARGIN
from dpfast.privacy.budget import GDP, Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import EntropyNoise, NoiseSource

__all__ = ["coefficient_names", "fit", "make_objective"]

RELATION = "neighbours differ in the replacement of one record; n is public"


def fit(
    X: Any,
    y: Any,
    loss: str | Loss,
    *,
    privacy: Budget | float,
    scale: float | None = None,
    fit_intercept: bool = True,
    weights: Mallows | Bounded | Clip | None = None,
    ridge: float = 0.0,
    method: str | Newton | GradientDescent = "auto",
    steps: int | None = None,
    schedule: str | Schedule | None = None,
    start: Sequence[float] | None = None,
    inference: bool = True,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
    threads: int | None = None,
    names: Sequence[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Fit:
    """Fit a robust regression under differential privacy, with confidence intervals.

    Minimises ``mean_i sigma * rho((y_i - x_i'theta) / sigma) * w(x_i)`` (or the weighted
    cross-entropy) by noisy Newton or noisy gradient descent (eq. (9) and (4) of Avella-Medina,
    Bradshaw and Loh 2023), and estimates the covariance of the result by a private sandwich
    (eq. (13)) plus the variance of the privacy noise.

    Parameters
    ----------
    X : array-like of shape (n, q)
        Covariates, without a column of ones.  Any values: a record with a NaN or an infinity
        contributes exactly zero and still counts in n.
    y : array-like of shape (n,)
        Response; in {0, 1} for the logistic loss.
    loss : {"huber", "log-cosh", "pseudo-huber", "logistic"} or Loss
        "log-cosh" is the recommended robust loss: its Hessian costs nothing beside the gradient.
    privacy : GDP, ZCDP, PureDP, ApproxDP or float
        The **total** to spend, inference included; a float is ``mu`` of Gaussian DP.
    scale : float
        Public residual scale in the units of y; required by all losses but the logistic.
    fit_intercept : bool
        Add a constant term, the first coefficient.
    weights : Mallows, Bounded or Clip, optional
        How a record's covariates are bounded; default ``Mallows(sqrt(p))``, p counting the
        intercept.
    ridge : float
        Public ridge penalty ``ridge/2 ||theta||^2``.
    method : {"auto", "newton", "gradient-descent"} or Newton or GradientDescent
        "auto" chooses from n, p, the loss and the budget, all public.
    steps : int, optional
        Number of steps, fixed in advance; default 8 (Newton) or 100 (gradient descent).
    schedule : {"geometric", "uniform"} or Schedule, optional
        How the budget is divided among the steps; default geometric, most of it last.
    start : sequence of float, optional
        Public starting point, default zero.  It must not be computed from these data.
    inference : bool
        Buy standard errors and intervals with a part of the budget.
    ledger : Ledger, optional
        A budget shared by several analyses; the total of this fit is charged to it at once.
    noise : NoiseSource, optional
        Default: operating-system entropy.  ``SeededNoise`` is for simulation and voids the
        guarantee.
    threads : int, optional
        Threads of the compiled kernels; results do not depend on it.
    names : sequence of str, optional
        Names of the q covariates; a table's column names by default.
    progress : callable, optional
        Called as ``progress(step, n_steps)`` after each step.

    Returns
    -------
    Fit

    Raises
    ------
    InvalidInput, InvalidBudget
        On a wrong shape, dtype, option or budget, before anything is spent.  Never because of a
        value in the data.
    BudgetExceeded
        If the shared ledger cannot pay, before the data are touched.

    Privacy
    -------
    The whole result is ``privacy``-DP under replacement of one record with n public (claims C9 to
    C19 of ``dpfast/privacy/PROOFS.md``).  ``scale``, ``weights``, ``start``, ``ridge``, ``names``
    and every other option must be public.

    Examples
    --------
    >>> import numpy as np, dpfast
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = 1 + X @ [2.0, -1.0] + rng.normal(size=5000)
    >>> result = dpfast.fit(X, y, "log-cosh", privacy=dpfast.GDP(1.0), scale=1.0)
    >>> result.params.shape
    (3,)
    """
    total = GDP.within(privacy)
    objective, records = make_objective(X, y, loss, scale, fit_intercept, weights, ridge, names)
    n, p = records.n, objective.dimension
    if p > n and not ridge:
        raise InvalidInput(
            f"p = {p} coefficients cannot be identified from n = {n} records. Use fewer "
            "covariates or pass ridge=... (a public penalty)."
        )
    if inference and not objective.weighting.has_curvature:
        raise InvalidInput(
            f"{objective.weighting!r} has no Hessian, so no sandwich covariance exists. Pass "
            "inference=False, or weights=dpfast.Mallows(radius)."
        )
    optimiser, reason = choose_method(method, objective, n, total.mu)
    default_steps, default_schedule = optimiser.defaults(objective, n, total.mu)
    n_steps = _resolve_steps(steps, default_steps)
    chosen = resolve_schedule(schedule, default_schedule)
    budgets = plan_steps(optimiser, objective, total.mu, chosen, n_steps, inference)
    theta = _resolve_start(start, p)
    n_threads = _resolve_threads(threads)
    if noise is None:
        noise = EntropyNoise()
    elif not isinstance(noise, NoiseSource):
        raise InvalidInput(
            "noise must be a dpfast noise source such as dpfast.SeededNoise(0); received "
            f"{noise!r}."
        )
    own_ledger = Ledger(total)
    curator = Curator(records, objective, own_ledger, noise, n_threads)
    for budget in budgets:
        curator.receipts(budget)  # refuses an impossible budget while nothing is spent
    label = f"fit({objective.loss.name}, n={n}, p={p})"
    if ledger is not None:
        # In the ledger's own currency if the request was made in it, as mu otherwise.
        same = isinstance(privacy, Budget) and type(privacy) is type(ledger.total)
        ledger.charge(privacy if same else total, label)
    steering_mu = total.mu * optimiser.steering_share**0.5 * (1.0 - ROUNDING_MARGIN)
    trajectory = optimiser.run(curator, theta, budgets, progress, steering_mu)
    covariance = sandwich_covariance(trajectory, n, objective.ridge) if inference else None
    return Fit(
        params=trajectory.theta,
        names=coefficient_names(records.names, records.n_covariates, fit_intercept),
        n_records=n,
        model=repr(objective),
        method=f"{optimiser!r}, {n_steps} steps, {chosen!r}; {reason}",
        privacy=Guarantee(
            guarantee=noise.guarantee,
            mu=total.mu,
            relation=RELATION,
            n=n,
            entries=tuple((entry.label, entry.spend.mu) for entry in own_ledger.entries),
        ),
        covariance=covariance,
        iterates=np.array(trajectory.iterates),
        binary_response=objective.loss.binary_response,
        fit_intercept=fit_intercept,
    )


def make_objective(
    X: Any,
    y: Any,
    loss: str | Loss,
    scale: float | None,
    fit_intercept: bool,
    weights: Mallows | Bounded | Clip | None,
    ridge: float,
    names: Sequence[str] | None,
) -> tuple[Objective, Any]:
    """Check the arguments that describe data and model, and build both."""
    records = as_records(X, y, names)
    dimension = records.n_covariates + int(fit_intercept)
    if dimension == 0:
        raise InvalidInput("X has no columns and fit_intercept is False: there is nothing to fit.")
    objective = Objective(
        resolve_loss(loss),
        resolve_weighting(weights, dimension),
        records.n_covariates,
        fit_intercept=fit_intercept,
        scale=scale,
        ridge=ridge,
    )
    return objective, records


def coefficient_names(
    names: tuple[str, ...] | None, n_covariates: int, fit_intercept: bool
) -> tuple[str, ...]:
    """Names of the coefficients: "intercept" first, then the covariates' own or x1, x2, ..."""
    if names is None:
        names = tuple(f"x{j + 1}" for j in range(n_covariates))
    return ("intercept", *names) if fit_intercept else names


def _resolve_steps(steps: int | None, default: int) -> int:
    if steps is None:
        return default
    if (
        isinstance(steps, bool)
        or not isinstance(steps, (int, np.integer))
        or not (1 <= steps <= 100_000)
    ):
        raise InvalidInput(f"steps must be a whole number from 1 to 100000; received {steps!r}.")
    return int(steps)


def _resolve_threads(threads: int | None) -> int:
    if threads is None:
        return 0
    if isinstance(threads, bool) or not isinstance(threads, (int, np.integer)) or threads < 1:
        raise InvalidInput(
            f"threads must be a positive whole number or None; received {threads!r}."
        )
    return int(threads)


def _resolve_start(start: Sequence[float] | None, dimension: int) -> Any:
    if start is None:
        return np.zeros(dimension)
    theta = np.array(start, dtype=float)
    if theta.shape != (dimension,) or not np.isfinite(theta).all():
        raise InvalidInput(
            f"start must be {dimension} finite numbers (the intercept first, if any); received "
            f"shape {theta.shape}."
        )
    return theta
