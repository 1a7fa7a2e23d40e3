"""``fit``: private M-estimation of a regression, with confidence intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpfast.arguments import flag, refuse_names
from dpfast.data.source import EVERYTHING, source_of
from dpfast.errors import InferenceUnavailable, InvalidInput, understood
from dpfast.fit_requests.planned_run import Fits, run, single
from dpfast.fit_requests.request import Account, FitRequest, hide_row_details
from dpfast.inference.natural import natural_map
from dpfast.inference.results import Fit
from dpfast.models import FreeScale, resolve_loss
from dpfast.models.objective import terms_of
from dpfast.privacy.budget import Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.regression.default_fit import DefaultFit, uses_default_fit
from dpfast.scaling.like import Like
from dpfast.scaling.standardize import checked_standardize
from dpfast.scaling.standardized import Standardized

if TYPE_CHECKING:  # of methods that are asked for
    from dpfast.data.schema import Schema
    from dpfast.models import Loss, Objective
    from dpfast.optimize.protocol import Method


NO_FORMULA = (
    "a schema and data= belong to a formula: fit('y ~ x', table, schema=schema, privacy=...). "
    "Without a formula pass fit(X, y, privacy=...), or "
    "fit(schema.encode(table, covariates, response), privacy=...)."
)
TWO_TABLES = "data= and the second argument are both the table of the formula: pass one of them."


@understood
def fit(
    X: Any,
    y: Any = None,
    loss: str | Loss | Objective = "least-squares",
    *,
    data: Any = None,
    privacy: Budget | float | tuple[float, float],
    schema: Schema | None = None,
    method: str | Method = "auto",
    standardize: bool | Standardized | Like | None = None,
    inference: bool = True,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
    progress: Callable[[int, int], None] | bool | None = None,
) -> Fit:
    """Fit a regression under differential privacy, with confidence intervals.

    The default fit serves least squares, robust losses, quantiles, the logistic loss and counts.
    It standardises the columns privately, preconditions the rows by noisy Gram matrices, and takes
    noisy Newton steps with clipped gradients.  Its estimand has no weights.

    With weights, a ridge, a method or a free scale it minimises ``mean_i sigma *
    rho((y_i - x_i'theta) / sigma) * w(x_i)``, or the weighted cross-entropy.  It does so by noisy
    Newton or noisy gradient descent (eq. (9) and (4) of Avella-Medina, Bradshaw and Loh 2023).  The
    covariance is a private sandwich (eq. (13)) plus the variance of the privacy noise.

    Parameters
    ----------
    X : str, array-like of shape (n, q), data frame, Design, Records or Source
        A formula, such as ``"log(wage) ~ educ + I(age**2) + C(region)"``.  Functions act on the
        columns as they are.  Categorical names stand for indicators of their declared levels, by
        the full-rank rule of formulaic and patsy.  Splines are ``bs(age, knots=[30, 45],
        lower_bound=18, upper_bound=90)``, ``cr`` (natural) and ``ns``.  Their knots and ends are
        public, in the column's own units; a declared range gives the ends, at which values are
        clipped.  ``- 1`` drops the intercept.
        Or covariates, without a column of ones; or a design (``schema.encode(table,
        response=...)``), opened records, or :func:`dpfast.records` with names, persons, weights or
        offsets, which hold their response, with ``y=None``.  Any values: a record with a NaN or an
        infinity contributes exactly zero and still counts in n.
    y : array-like of shape (n,), or a table, optional
        Response; in {0, 1} for the logistic loss, counts for :class:`dpfast.Poisson`.  After a
        formula the table (``data``).
    loss : {"least-squares", "log-cosh", "huber", "logistic", ...}, Loss or Objective
        "least-squares", the default, estimates the coefficients of ordinary least squares, of
        columns in any units.  It estimates their scales and the norms of scores, and takes no
        scale, weights, ridge or method.
        "log-cosh" is the recommended robust loss, for responses with outliers or heavy tails: its
        Hessian costs nothing beside the gradient.
        Also "pseudo-huber", "quantile", "smoothed-huber", "ostrovskii-bach", "smooth-absolute",
        counts ("poisson", or ``dpfast.Poisson(largest_mean=20)`` where their bound is public), or a
        loss of your own (:class:`dpfast.CustomLoss`).  A :class:`dpfast.Objective` has a loss with
        a public scale, weights, a ridge, or no intercept.  ``scale`` (and the bounds of a
        :class:`dpfast.FreeScale`) is in the response's own units.  ``ridge``, ``weights`` and a
        method's ``start`` are of the coded columns and response, as is :attr:`Fit.coded`.
        The redescending losses "tukey", "geman-mcclure", "welsch" and "cauchy" are not convex:
        they have no Newton steps and no intervals, and :func:`dpfast.minimize` suits them better.
    data : DataFrame of pandas, polars or Dask, Arrow table, mapping to arrays, path or Source
        The table of a formula, in the place of y.
        A Dask data frame stays where it is.  Parquet files (a path, a folder, a pattern such as
        ``"parts/*.parquet"``, or a list) are read block by block.  So are, once, lazy frames of
        polars, data sets of Arrow, and relations of DuckDB or what else has the Arrow stream
        interface.  Files of text (``.csv``, ``.tsv``, ``.txt``, also with ``.gz``) and ``.feather``
        are read by their paths.  Of all these only the formula's columns are read.
        :func:`dpfast.records` of a table adds persons, weights and offsets, by column names.
    privacy : float, (float, float), GDP, ZCDP or ApproxDP
        The **total** to spend, inference included: ``mu`` of Gaussian DP, or (epsilon, delta).
    schema : Schema, optional
        Ranges of a formula's columns, to which they are clipped, and levels.  A formula means the
        same with and without one.  Where all ranges are declared, columns are coded by them: a
        function of columns has the range that interval arithmetic gives.  Otherwise, as for
        ``log(wage)`` of a range with zero, centres and spreads are estimated (``standardize``).
        Levels are public facts: declare them, list them, ``C(region, levels=["north", "south"])``,
        or have a column whose type does.  Declared levels are never dropped as constant.  One with
        too few records has a wide interval.
    method : {"auto", "newton", "gradient-descent"}
        Or with settings, such as ``dpfast.optimize.Newton(steps=8, schedule="uniform",
        start=[...])``: :class:`dpfast.optimize.Newton`, :class:`dpfast.optimize.GradientDescent`,
        or a ``dpfast.optimize.Method`` of your own.  "auto" chooses from n, p, the loss and the
        budget, all public: Newton's method where there is a curvature to be seen.
    standardize : bool, Standardized or Like, optional
        Estimate centres and spreads of the columns and of the response with part of ``privacy``
        (:func:`dpfast.standardize`; a response of 0 and 1 or of counts stays as it is).  The
        result is in the original units, and :attr:`Fit.coded` in the released ones; weights and
        ridge refer to the latter.  The default is True if nothing declares units: there are no
        ``weights``, and no ``scale`` or schema where the budget is small.  After a schema
        :attr:`Fit.coded` is in its units.  False declares that the columns' own units are right:
        only the scale of the response is estimated (of counts their size, of 0 and 1 nothing), and
        so is a scale
        that is not given.  Released units, such as ``fit.units`` of another fit
        of these records or of an interrupted one, may be passed and cost nothing more; a
        ``start`` is in them (``fit.coded.params``).  From a public table of the same columns,
        :func:`dpfast.regression.like`, units, whitening and the start cost nothing.  If n and the
        budget are too small, there are predictions by shrunk slopes, or by the mean of the response
        alone, and a warning.  A fit
        stops after its counts, with NaN and a warning, where too few records have numbers in all
        columns for the budget.
    inference : bool
        Estimate standard errors and intervals with part of the budget.
    ledger : Ledger, optional
        A budget shared by several analyses; the total of this fit is charged to it at once, and
        what a fit did not use that stopped after its counts is returned at its end.
    noise : NoiseSource, optional
        Default: operating-system entropy.  ``SeededNoise`` is for simulation and voids the
        guarantee.
    progress : callable or bool, optional
        True shows a bar (of tqdm, where it is installed).  A function is called as
        ``progress(0, n_steps)`` before anything is spent, where an exception refuses the fit, and
        as ``progress(step, n_steps)`` after each step.  Later exceptions are logged and the fit
        goes on, because it is paid for; ``KeyboardInterrupt`` stops it.

    Returns
    -------
    Fit
        After a formula its ``predict`` takes tables with the columns of the formula.

    Raises
    ------
    InvalidInput, InvalidBudget
        On a wrong shape, dtype, option or budget, before anything is spent.  Values in the data
        never raise.
    Exception
        Exceptions of your own optimiser pass unchanged, and so do Ctrl-C and a shortage of
        memory.  Their attribute ``partial_result`` has the fit so far, without standard errors;
        before the first step it has the released answers and units.
        ``partial_result.privacy.unspent`` is not refunded.  Where only the optimiser's
        ``noise_covariance`` fails, the fit is returned and :attr:`Fit.warnings` says why there are
        no standard errors.

    Privacy
    -------
    The whole result is ``privacy``-DP under replacement of one record with n public (claims C9 to
    C19 of ``dpfast/privacy/PROOFS.md``; D1 to D6 where units are estimated; C70 and C71 with
    weights and offsets of records, which are private).  The objective, settings of the method and
    every other option must be public.  A
    formula maps each record on its own by public facts, which spends nothing.

    Examples
    --------
    >>> import numpy as np, dpfast
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = 1 + X @ [2.0, -1.0] + rng.normal(size=5000)
    >>> result = dpfast.fit(X, y, privacy=1.0)
    >>> result.params.shape
    (3,)
    >>> table = {"wage": np.exp(y), "educ": X[:, 0], "age": X[:, 1]}
    >>> dpfast.fit("log(wage) ~ educ + age + I(age**2)", table, privacy=1.0).names
    ('intercept', 'educ', 'age', 'I(age ** 2)')
    >>> schema = dpfast.Schema({"educ": dpfast.Numeric(-5, 5), "wage": dpfast.Numeric(0, 500)})
    >>> dpfast.fit("wage ~ educ", data=table, schema=schema, privacy=2.0).names
    ('intercept', 'educ')
    """
    read = None
    if isinstance(X, str | bytes):
        from dpfast.regression.formula import read_formula

        if y is not None and data is not None:
            raise InvalidInput(TWO_TABLES)
        read = read_formula(X, y if data is None else data, schema, loss)
        X, y, loss, standardize = read.source, None, read.loss, read.standardize(standardize)
    elif schema is not None or data is not None:
        raise InvalidInput(NO_FORMULA)
    if getattr(y, "ndim", 0) != 1:
        refuse_names(X, y)
    account = Account(privacy, ledger)
    source, terms = source_of(X, y), terms_of(loss)
    standardize = checked_standardize(standardize)
    options = terms._asdict() | {"method": method}
    loss = resolve_loss(terms.loss, unbounded=True)
    is_default_fit = uses_default_fit(loss, options)
    with hide_row_details(source.each):
        request = FitRequest(
            source, None, account, fit_intercept=terms.fit_intercept, noise=noise,
            takes=EVERYTHING, per_person=is_default_fit, bound_to=terms.n_covariates,
            of_predictor=loss.link != "identity",
        )  # fmt: skip
    if request.within and loss.link != "identity":
        raise InvalidInput(
            'effects="person" is for losses of differences, such as least-squares and log-cosh: '
            "means taken from a response with a link leave no such model."
        )
    refuse_no_own_units(request)
    settings: dict[str, Any] = {
        "standardize": standardize,
        "inference": flag(inference, "inference"),
    }
    account.warn_if_weak(request.n_units)
    if is_default_fit:
        result = default_fit(request, [loss], scale=terms.scale, **settings).fit(progress)
    else:
        from dpfast.regression.method_fit import MethodFits

        fits = MethodFits(request, [terms.loss], options, **settings)
        label = request.label("fit", fits.loss.name)
        result = run(Fits(fits, single), label, fits.memory_bytes(), progress)
    return result if read is None else read.rows_of(result)


def refuse_no_own_units(request: FitRequest) -> None:
    """Refuse a model without an intercept whose columns were centred: public."""
    if request.coding is None:
        return
    try:
        with np.errstate(all="ignore"):  # of declared units
            natural_map(request.coding, request.fit_intercept, False)
    except InferenceUnavailable as error:
        message = str(error)
    else:
        return
    raise InvalidInput(message)


def default_fit(
    request: FitRequest,
    losses: Sequence[str | Loss],
    *,
    scale: float | FreeScale | None,
    standardize: Any,
    inference: bool,
) -> DefaultFit:
    """Plan default fits, with a public table if ``standardize`` is one."""
    kind = DefaultFit
    if isinstance(standardize, Like):
        from dpfast.regression.like_fit import LikeFit

        kind = LikeFit
    return kind(request, losses, scale=scale, standardize=standardize, inference=inference)
