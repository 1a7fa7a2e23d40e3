"""``fit``: private M-estimation of a regression, with confidence intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpfast.arguments import flag
from dpfast.front.progress import watched
from dpfast.front.request import Request, charge_shared, checked_start
from dpfast.inference.results import Fit
from dpfast.inference.sandwich import sandwich_covariance
from dpfast.models import FreeScale, Loss, Weighting
from dpfast.optimize import Schedule
from dpfast.optimize.protocol import Method, answers_only, checked_run
from dpfast.privacy.budget import GDP, Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.regression.decisions import recipe_of

__all__ = ["fit"]


def fit(
    X: Any,
    y: Any,
    loss: str | Loss,
    *,
    privacy: Budget | float,
    scale: float | FreeScale | None = None,
    fit_intercept: bool = True,
    weights: Weighting | None = None,
    ridge: float = 0.0,
    method: str | Method = "auto",
    steps: int | None = None,
    schedule: str | Schedule | None = None,
    start: Sequence[float] | None = None,
    inference: bool = True,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
    threads: int | None = None,
    names: Sequence[str] | None = None,
    group: Any = None,
    group_size: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Fit:
    """Fit a robust regression under differential privacy, with confidence intervals.

    Minimises ``mean_i sigma * rho((y_i - x_i'theta) / sigma) * w(x_i)`` (or the weighted
    cross-entropy) by noisy Newton or noisy gradient descent (eq. (9) and (4) of Avella-Medina,
    Bradshaw and Loh 2023), and estimates the covariance of the result by a private sandwich
    (eq. (13)) plus the variance of the privacy noise.

    Parameters
    ----------
    X : array-like of shape (n, q), data frame, Design or Records
        Covariates, without a column of ones; or a design (``schema.encode(table, response=...)``)
        or opened records, which hold their response, with ``y=None``.  Any values: a record with a
        NaN or an infinity contributes exactly zero and still counts in n.
    y : array-like of shape (n,)
        Response; in {0, 1} for the logistic loss.
    loss : {"huber", "log-cosh", "pseudo-huber", "logistic", ...} or Loss
        Also "smoothed-huber", "ostrovskii-bach", "smooth-absolute", or a loss of your own
        (:class:`dpfast.CustomLoss`).  "log-cosh" is the recommended robust
        loss: its Hessian costs nothing beside the gradient.
        The redescending losses "tukey", "geman-mcclure", "welsch" and "cauchy" are not convex:
        they have neither Newton steps nor intervals, and :func:`dpfast.minimize` suits them better.
    privacy : GDP, ZCDP, PureDP, ApproxDP or float
        The **total** to spend, inference included; a float is ``mu`` of Gaussian DP.
    scale : float or FreeScale
        Public residual scale in the units of y (after a schema: in the response's own units, not
        the coded ones; all other options are of coded columns); required by all losses but the
        logistic.
        ``dpfast.FreeScale(low, high)`` estimates it together with the coefficients, within a
        public interval, as the last parameter "scale" (eq. (6)); losses "huber", "log-cosh" and
        "pseudo-huber" with Mallows or Bounded weights only.
    fit_intercept : bool
        Add a constant term, the first coefficient.
    weights : Mallows, Bounded, Schweppe, MallowsLinear or Clip, optional
        How a record's covariates are bounded; default ``Mallows(sqrt(p))``, p counting the
        intercept.
    ridge : float
        Public ridge penalty ``ridge/2 ||theta||^2``.
    method : {"auto", "adaptive-newton", "newton", "gradient-descent", "double-noise"}
        Or :class:`dpfast.AdaptiveNewton`, :class:`dpfast.Newton`, :class:`dpfast.GradientDescent`,
        :class:`dpfast.DoubleNoise` with settings, or a ``dpfast.optimize.Method`` of your own.
        "auto" chooses from n, p, the loss and the budget, all public: the adaptive method for a
        known scale, unless ``steps`` or ``schedule`` is given, which it decides itself.
    steps : int, optional
        Number of steps, fixed in advance; the default depends on the method and on n, p and mu.
    schedule : {"geometric", "uniform"} or Schedule, optional
        How the budget is divided among the steps; default geometric, most of it last.
    start : sequence of float, optional
        Public starting point of the coefficients, default zero.  It must not be computed from
        these data.
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
    group : array-like of shape (n,), optional
        The person each row belongs to: the budget then protects a person with all their rows.
    group_size : int, optional
        Public bound m on the rows of one person; further rows are left out.  The noise is that of
        a budget of ``privacy / m`` for one row, and intervals allow for rows of one person that
        go together (their sampling variance is up to m times that of independent rows).
    progress : callable, optional
        Called as ``progress(0, n_steps)`` before anything is spent, where it is refused if it
        raises, and as ``progress(step, n_steps)`` after each step.  What it raises there is logged
        and the fit goes on, because it is paid for; ``KeyboardInterrupt`` stops it.

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
    request = Request(
        X,
        y,
        fit_intercept=fit_intercept,
        noise=noise,
        threads=threads,
        names=names,
        group=group,
        group_size=group_size,
    )
    unit, inference = request.per_record(total), flag(inference, "inference")
    recipe = recipe_of(
        request.n,
        request.n_covariates,
        unit.mu,
        request.fit_intercept,
        loss,
        request.coded_scale(scale),
        weights,
        ridge,
        method,
        steps,
        schedule,
        inference,
    )
    objective, n, p = recipe.objective, request.n, request.dimension
    theta = checked_start(start, p)
    if objective.free_scale is not None:
        theta = np.append(theta, objective.free_scale.start / objective.free_scale.factor)
    curator = request.curator(objective, Ledger(unit))
    for budget in recipe.budgets:
        curator.plan(budget)  # refuses an impossible budget while nothing is spent
    optimiser, n_steps = recipe.optimiser, len(recipe.budgets)
    answers = answers_only(curator, recipe.budgets)
    optimiser.check(answers, n_steps, recipe.steering_mu)
    report = watched(progress, optimiser.most_steps(n_steps))
    charge_shared(ledger, privacy, total, f"fit({objective.loss.name}, n={n}, p={p})")
    with np.errstate(all="ignore"):  # of released numbers; a paid result must arrive
        found = optimiser.run(answers, theta, recipe.budgets, report, recipe.steering_mu)
        trajectory = checked_run(found, objective.dimension, inference)
        covariance = None
        if inference:
            covariance = sandwich_covariance(
                optimiser, trajectory, request.n_units, objective.ridge
            )
    return request.fit(
        trajectory.theta,
        objective,
        model=recipe.model,
        method=recipe.method,
        privacy=request.guarantee(total, curator.ledger),
        iterates=trajectory.iterates,
        covariance=covariance,
    )
