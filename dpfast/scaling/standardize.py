"""``standardize``: columns on a common scale, by private centres and spreads."""

from __future__ import annotations

from typing import Any

from dpfast.arguments import flag
from dpfast.errors import InvalidInput, described, understood
from dpfast.fit_requests.planned_run import run
from dpfast.fit_requests.request import Account, FitRequest
from dpfast.privacy.budget import Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.scaling.like import Like
from dpfast.scaling.private import PrivateScaling, refuse_no_columns
from dpfast.scaling.standardized import Standardized

CODED = (
    "these records are coded by a schema, which declares the units of their columns: "
    "there is nothing to standardise. Leave standardize out."
)


@understood
def standardize(
    X: Any,
    y: Any = None,
    *,
    privacy: Budget | float | tuple[float, float],
    response: bool = True,
    fit_intercept: bool = True,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> Standardized:
    """Estimate private centres and spreads of columns whose ranges are not public.

    Noisy bisection over floating-point numbers finds a quantile near the median of each column, of
    any magnitude.  One histogram in octaves of the distances from there then gives mean and
    standard deviation.  A quarter of the budget is for a second look at columns that seem
    constant.  A private fit needs columns of about unit size, which these provide.

    Parameters
    ----------
    X : array-like of shape (n, q), data frame, Records or Source
        As for :func:`dpfast.fit`; text has to be declared in a schema.  Records with a non-finite
        entry in any column are ignored.
    y : array-like of shape (n,), optional
        Response; None with records that hold theirs.
    privacy : GDP, ZCDP, ApproxDP or float
        The **total** to spend; a float is mu of Gaussian DP.  A tenth to a quarter of mu of an
        analysis is enough where n mu is in the thousands.
    response : bool
        Estimate the centre and spread of the response, too; not for one of 0 and 1.
    fit_intercept : bool
        Without an intercept columns are scaled by their root mean squares and not centred.
    ledger, noise
        As of :func:`dpfast.fit`.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public (claims D1, D2, D4 and D6 of
    ``dpfast/privacy/scaling/PROOFS-scaling.md``); a fit of the standardised columns composes with
    it as any two analyses do (claim D5).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.integers(18, 90, 20_000), 2000 + rng.integers(0, 9, 20_000)])
    >>> y = 1e4 + 300.0 * X[:, 0] + 2e3 * rng.normal(size=20_000)
    >>> ledger = dpfast.Ledger(1.0)
    >>> units = dpfast.standardize(X, y, privacy=0.3, ledger=ledger)
    >>> known = dpfast.Objective("log-cosh", scale=2e3)
    >>> fit = dpfast.fit(units.encode(X, y), None, known, privacy=0.9, ledger=ledger)
    >>> bool(abs(fit.natural.params[1] - 300.0) < 30.0)
    True
    """
    account, response = Account(privacy, ledger), flag(response, "response")
    request = FitRequest(X, y, account, fit_intercept=fit_intercept, noise=noise, takes=("group",))
    refuse_no_columns(request)
    scaling = PrivateScaling(request, request.mu, response=response)
    return run(scaling, request.label("standardize"), request.memory_bytes())


def checked_standardize(value: Any) -> Any:
    """Check the option ``standardize``: a flag, given units, a public table, or None."""
    if value is None or isinstance(value, (Standardized, Like)):
        return value
    try:
        return flag(value, "standardize")
    except InvalidInput:
        pass
    raise InvalidInput(
        "standardize must be True or False, private scales (dpfast.standardize(...), fit.units), "
        f"or a public table (regression.like(...)); received {described(value)}."
    )


def refuse_like(standardize: Any, what: str) -> None:
    """Refuse a public table where units alone can be given."""
    if isinstance(standardize, Like):
        raise InvalidInput(
            f"regression.like is for default fits; here are {what}. Estimate units once, with "
            "dpfast.standardize, and pass these."
        )
