"""``fit``: private M-estimation of a regression, with confidence intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dpfast.arguments import flag
from dpfast.data.beside import beside
from dpfast.front.parts import offset_joins_predictor, parts_of
from dpfast.front.request import Request, rows_unseen
from dpfast.inference.results import Fit
from dpfast.privacy.budget import GDP, Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.regression.road import fit_on_road, on_road
from dpfast.regression.standardise import Standardized, checked_standardize

if TYPE_CHECKING:  # of methods that are asked for
    from dpfast.models import FreeScale, Loss, Objective, Weighting
    from dpfast.optimize.protocol import Method

__all__ = ["fit"]


def fit(
    X: Any,
    y: Any,
    loss: str | Loss | Objective,
    *,
    privacy: Budget | float,
    scale: float | FreeScale | None = None,
    fit_intercept: bool = True,
    weights: Weighting | None = None,
    ridge: float = 0.0,
    method: str | Method = "auto",
    standardize: bool | Standardized | None = None,
    inference: bool = True,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
    threads: int | None = None,
    names: Sequence[str] | None = None,
    group: Any = None,
    group_size: int | None = None,
    each: str = "row",
    sample_weight: Any = None,
    largest_weight: float | None = None,
    offset: Any = None,
    progress: Callable[[int, int], None] | None = None,
) -> Fit:
    """Fit a regression under differential privacy, with confidence intervals.

    Least squares, robust losses, quantiles, the logistic loss and counts take one road: columns are
    put into units that are bought, a schema's as well, rows are whitened by released
    Grams, and scores that are held to a bought norm are averaged; the target is the one without
    weights.  With weights, a ridge, a method or ``standardize=False`` it minimises ``mean_i sigma *
    rho((y_i - x_i'theta) / sigma) * w(x_i)`` (or the weighted cross-entropy) by noisy Newton or
    noisy gradient descent (eq. (9) and (4) of Avella-Medina, Bradshaw and Loh 2023), and estimates
    the covariance by a private sandwich (eq. (13)) plus the variance of the privacy noise.

    Parameters
    ----------
    X : array-like of shape (n, q), data frame, Design or Records
        Covariates, without a column of ones; or a design (``schema.encode(table, response=...)``)
        or opened records, which hold their response, with ``y=None``.  Any values: a record with a
        NaN or an infinity contributes exactly zero and still counts in n.
    y : array-like of shape (n,)
        Response; in {0, 1} for the logistic loss, counts for :class:`dpfast.Poisson`.
    loss : {"huber", "log-cosh", "pseudo-huber", "logistic", ...}, Loss or Objective
        Also "quantile", "smoothed-huber", "ostrovskii-bach", "smooth-absolute", counts ("poisson",
        or ``dpfast.Poisson(largest_mean=20)`` where their bound is public), or a loss of your own
        (:class:`dpfast.CustomLoss`).  "log-cosh" is the recommended robust
        loss: its Hessian costs nothing beside the gradient.  A :class:`dpfast.Objective` stands
        for loss, scale, weights and ridge.
        The redescending losses "tukey", "geman-mcclure", "welsch" and "cauchy" are not convex:
        they have neither Newton steps nor intervals, and :func:`dpfast.minimize` suits them better.
        "least-squares" estimates the coefficients of ordinary least squares, of columns in any
        units: it finds where they lie and how long scores are, and takes neither scale, weights,
        ridge nor method.
    privacy : GDP, ZCDP, PureDP, ApproxDP or float
        The **total** to spend, inference included; a float is ``mu`` of Gaussian DP.
    scale : float or FreeScale
        Public residual scale in the units of y (after a schema: in the response's own units, not
        the coded ones; all other options are of coded columns).  The logistic loss and least
        squares have none; without one the losses "huber", "log-cosh" and "pseudo-huber" estimate
        it in bought units (``standardize``), and the others refuse.
        ``dpfast.FreeScale(low, high)`` estimates it together with the coefficients, within a
        public interval, as the last parameter "scale" (eq. (6)); losses "huber", "log-cosh" and
        "pseudo-huber" with Mallows or Bounded weights only.
    fit_intercept : bool
        Add a constant term, the first coefficient.
    weights : Mallows, Bounded, Schweppe, MallowsLinear or Clip, optional
        How a record's covariates are bounded.  By default none; with a ridge, a method or
        ``standardize=False`` ``Mallows(sqrt(p))``, p counting the intercept.
    ridge : float
        Public ridge penalty ``ridge/2 ||theta||^2``.
    method : {"auto", "adaptive-newton", "newton", "gradient-descent", "double-noise"}
        Or with settings, such as ``dpfast.optimize.Newton(steps=8, schedule="uniform",
        start=[...])``: :class:`dpfast.optimize.AdaptiveNewton`, :class:`dpfast.optimize.Newton`,
        :class:`dpfast.optimize.JointNewton`, :class:`dpfast.optimize.GradientDescent`,
        :class:`dpfast.optimize.DoubleNoise`, or a ``dpfast.optimize.Method`` of your own.  "auto"
        chooses from n, p, the loss and the budget, all public: the adaptive method where there is a
        curvature to be seen.
    standardize : bool or Standardized, optional
        Buy centres and spreads of the columns and of the response, within ``privacy``
        (:func:`dpfast.standardize`; of 0 and 1 and of counts the columns' alone); the result is
        then in the units of the columns as they came, and :attr:`Fit.coded` in the released ones,
        of which weights and ridge are.  By default bought where nothing says anything about units:
        no ``weights`` (nor ``scale`` or a schema, where the budget is too small to buy any); after
        a schema the result stays in its units.  False says that the columns' own units are right.
        A scale that is not given is then estimated.  Units that are bought already, such as
        ``fit.units`` of another fit of these records or of one that was interrupted, are passed
        for True and cost nothing more; a ``start`` is in them (``fit.coded.params``).  Where n and
        the budget are too small to buy any, the answer is the mean of the response alone, with a
        warning.
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
    group : array-like of shape (n,) or str, optional
        The person each row belongs to, or the name of its column in a data frame or (with
        ``each="person"``) a Parquet file: the budget then protects a person with all their rows.
    group_size : int, optional
        Public bound m on the rows of one person; further rows are left out.  The noise is that of
        a budget of ``privacy / m`` for one row.  Standard errors are those of clusters; with
        weights, a ridge, a method or ``standardize=False`` intervals allow for rows that go
        together as far as rows can (m times the sampling variance of independent ones).
    each : {"row", "person"}
        What counts once.  With "person" a person counts with the mean of what their rows
        contribute, however many these are: no ``group_size``, the noise of one row a person, and
        the number of rows is private.  The target is that of rows with weight one over the number
        of their person's; if that number depends on the response (as for rows until an event) it is
        another one than that of the rows.  Rows come in any order, from memory or from files (not
        from Dask).  What is bought is bought with one row of each person, chosen in secret.
    sample_weight : array-like of shape (n,) or str, optional
        Private weight of each record, as of a sampling design, or the name of its column in a data
        frame or Parquet file (of Dask: a collection of its own, or the name).  A weight below zero
        or missing is zero.  Standard errors are those of sampling weights, and do not change if all
        weights are multiplied by a number; weights that stand for so many copies of a record
        (``freq_weights``) are another model.
    largest_weight : float, optional
        Public bound A, required with ``sample_weight``; larger weights are held to it.  A record
        counts with ``a_i / A``, and sums are divided by n, so the noise is ``A / mean(a_i)`` times
        that of equal weights: a smaller A is quieter, and biased as far as weights are cut.
    offset : array-like of shape (n,) or str, optional
        Private part of the linear predictor whose coefficient is 1, or the name of its column; in
        the units of y (logistic: of log odds).  Predictions are those for an offset of zero.
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
    Exception
        What an optimiser of your own raises comes out as it is, and so do Ctrl-C and a shortage of
        memory.  It has the fit so far, without standard errors, in its attribute
        ``partial_result``; before its first step the answers that were released, and their units.
        ``partial_result.privacy.unspent`` is not refunded.  Where only the optimiser's
        ``noise_covariance`` fails, the fit is returned and :attr:`Fit.warnings` says why there are
        no standard errors.

    Privacy
    -------
    The whole result is ``privacy``-DP under replacement of one record with n public (claims C9 to
    C19 of ``dpfast/privacy/PROOFS.md``; D1 to D6 where units are bought; C70 and C71 with weights
    and offsets of records, which are private).  ``largest_weight``, ``scale``, ``weights``,
    ``ridge``, ``names``, settings of the method and every other option must be public.

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
    given = parts_of(loss, scale, weights, ridge, fit_intercept)
    loss, scale, weights, ridge, fit_intercept, columns = given
    joins = offset is not None and offset_joins_predictor(loss)
    standardize = checked_standardize(standardize)
    options = {"scale": scale, "weights": weights, "ridge": ridge, "method": method}
    taken = on_road(loss, standardize, options)
    with rows_unseen(each):
        request = Request(
            X,
            y,
            fit_intercept=fit_intercept,
            noise=noise,
            threads=threads,
            names=names,
            group=group,
            group_size=group_size,
            each=each,
            together=taken,
            bound_to=columns,
            beside=beside(sample_weight, largest_weight, offset, joins),
        )
    inference = flag(inference, "inference")
    if taken:
        return fit_on_road(
            request,
            privacy,
            total,
            loss,
            scale=scale,
            inference=inference,
            standardize=standardize,
            ledger=ledger,
            progress=progress,
        )
    from dpfast.regression.walk import Walks

    walks = Walks(request, total, [loss], options, standardize=standardize, inference=inference)
    label = request.label("fit", walks.loss.name)
    return walks.run(privacy, ledger, progress, label, lambda fits, _: fits[0])
