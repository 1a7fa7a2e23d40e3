"""``fit_quantiles``: several quantiles of one response under one budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpfast.arguments import flag, real_array
from dpfast.data.schema import Schema
from dpfast.data.source import EVERYTHING
from dpfast.errors import InvalidInput, described, understood
from dpfast.fit_requests.planned_run import Fits, run
from dpfast.fit_requests.request import Account, FitRequest
from dpfast.inference.guarantees import Guarantee
from dpfast.inference.results import Fit
from dpfast.models import Objective
from dpfast.models.names import resolve_loss
from dpfast.models.objective import terms_of
from dpfast.models.quantile import Quantile
from dpfast.optimize.protocol import Method
from dpfast.privacy.budget import Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.regression.default_fit import DefaultFit, uses_default_fit
from dpfast.regression.fit import NO_FORMULA, default_fit, refuse_no_own_units
from dpfast.regression.formula import read_formula
from dpfast.regression.quantiles.results import QuantileFits
from dpfast.scaling.like import Like
from dpfast.scaling.standardize import checked_standardize
from dpfast.scaling.standardized import Standardized

if TYPE_CHECKING:  # of levels by a method
    from dpfast.regression.method_fit import MethodFits

#: Number of levels in one call, at most: each has its part of the budget.
MAX_LEVELS = 99


@understood
def fit_quantiles(
    X: Any,
    y: Any = None,
    taus: Sequence[float] = (0.25, 0.5, 0.75),
    loss: str | Quantile | Objective = "quantile",
    *,
    privacy: Budget | float | tuple[float, float],
    schema: Schema | None = None,
    method: str | Method = "auto",
    standardize: bool | Standardized | Like | None = None,
    inference: bool = True,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
    progress: Callable[[int, int], None] | bool | None = None,
) -> QuantileFits:
    """Fit several quantiles of a response under one total, with predictions that do not cross.

    Each level is a fit of :class:`dpfast.Quantile`, with the mu of the total over the square root
    of the number of levels.  Private units, scale and start are estimated once for them together.

    Parameters
    ----------
    X, y : str, array-like, data frame, Design, Records or Source
        As for :func:`dpfast.fit`, a formula and a table among them; quantiles are of weighted
        records, less their offsets.
    taus : sequence of float
        Levels between 0 and 1, ascending; at most 99.
    loss : "quantile", Quantile or Objective
        Bandwidth, scale, weights and intercept for every level; its own level is ignored.  By
        default each level's bandwidth follows from n, p and its part of the budget.
    privacy : float, (float, float), GDP, ZCDP or ApproxDP
        The **total** to spend on all levels, inference included; a float is ``mu`` of Gaussian DP.
    schema : Schema, optional
        Ranges and levels of a formula's columns.
    method, standardize, inference, ledger, noise
        As for :func:`dpfast.fit`.  One ledger entry pays for everything.
    progress : callable or bool, optional
        True shows a bar.  A function is called as ``progress(step, n_steps)``, for the steps of
        every level together.

    Privacy
    -------
    The whole result is ``privacy``-DP under replacement of one record with n public: adaptive
    composition of the fits (claim C9), each as :func:`dpfast.fit` (claims C12 to C19 and C56), and
    of private units (D1 to D6); C70 and C71 with weights and offsets, which are private.

    Notes
    -----
    Levels share the private units and the charge.  Their scores are released one by one, each
    with noise ``sqrt(K)`` times that of a single level at the same total.  With a few levels and
    n mu in the thousands that is still small beside the sampling error.

    Examples
    --------
    >>> import numpy as np, dpfast
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (5000, 1))
    >>> y = 1 + (2 + X[:, 0]) * rng.normal(size=5000)
    >>> found = dpfast.fit_quantiles(X, y, [0.25, 0.5, 0.75], privacy=2.0)
    >>> found.predict([[0.0]]).shape, len(found.fits)
    ((1, 3), 3)
    >>> dpfast.fit_quantiles("y ~ x", {"y": y, "x": X[:, 0]}, [0.5], privacy=2.0).names
    ('intercept', 'x')
    """
    account = Account(privacy, ledger)
    terms = terms_of(loss)
    declared = resolve_loss(terms.loss, unbounded=True)
    if not isinstance(declared, Quantile):
        raise InvalidInput(
            f'fit_quantiles fits the loss "quantile" alone; received {described(declared)}. Use '
            "dpfast.fit for another."
        )
    losses = [Quantile(tau, declared.bandwidth) for tau in _levels(taus)]
    read = None
    if isinstance(X, str):
        read = read_formula(X, y, schema, loss)
        X, y, terms = read.source, None, terms_of(read.loss)
        standardize = read.standardize(standardize)
    elif schema is not None:
        raise InvalidInput(NO_FORMULA)
    standardize = checked_standardize(standardize)
    options = terms._asdict() | {"method": method}
    is_default_fit = uses_default_fit(losses[0], options)
    request = FitRequest(
        X,
        y,
        account,
        fit_intercept=terms.fit_intercept,
        noise=noise,
        takes=tuple([what for what in EVERYTHING if what not in ("each", "effects")]),
        per_person=is_default_fit,
        bound_to=terms.n_covariates,
    )
    refuse_no_own_units(request)
    settings: dict[str, Any] = {
        "standardize": standardize,
        "inference": flag(inference, "inference"),
    }
    fits: DefaultFit | MethodFits
    if is_default_fit:
        fits = default_fit(request, losses, scale=terms.scale, **settings)
    else:
        from dpfast.regression.method_fit import MethodFits

        part = math.sqrt(1.0 / len(losses)) * (1.0 - ROUNDING_SUM)
        fits = MethodFits(request, losses, options, **settings, part=part)

    def combine(fits: list[Fit], guarantee: Guarantee) -> QuantileFits:
        taus = tuple([loss.tau for loss in losses[: len(fits)]])
        fits = fits if read is None else [read.rows_of(fit) for fit in fits]
        return QuantileFits(taus, tuple(fits), guarantee)

    label = request.label("fit_quantiles", f"{len(losses)} levels")
    return run(Fits(fits, combine), label, fits.memory_bytes(), progress)


def _levels(taus: Any) -> list[float]:
    """Check the levels as far as :class:`Quantile` does not."""
    levels = real_array(taus, "taus")
    if levels.ndim != 1 or not 1 <= len(levels) <= MAX_LEVELS:
        raise InvalidInput(
            f"taus must be a sequence of 1 to {MAX_LEVELS} levels, such as [0.25, 0.5, 0.75]; "
            f"received shape {levels.shape}."
        )
    # a private column may stand here for a list of levels: no value of it is repeated
    if not ((levels > 0.0) & (levels < 1.0)).all() or not (np.diff(levels) > 0.0).all():
        raise InvalidInput(
            "taus must lie strictly between 0 and 1 and ascend, and none may come twice. Pass "
            "levels such as [0.25, 0.5, 0.75]."
        )
    checked: list[float] = levels.tolist()
    return checked
