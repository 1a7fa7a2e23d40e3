"""The same estimator without privacy, for comparison; its result must not be published."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import positive, refuse_names, whole_number
from dpfast.curator.nonconvex.gradients import GradientCurator
from dpfast.curator.preconditioned import nonprivate_residuals
from dpfast.data.record_weights.columns_given import largest_weight
from dpfast.data.schema import Schema
from dpfast.data.source import Source, source_of
from dpfast.errors import InvalidInput, NotConverged, understood
from dpfast.fit_requests.request import Account, FitRequest, checked_start, response_of
from dpfast.fit_requests.rows import NewRows
from dpfast.fit_requests.targets import target_of
from dpfast.inference.degrees import Covariance
from dpfast.inference.guarantees import NOT_PRIVATE
from dpfast.inference.results import Fit
from dpfast.models import LeastSquares, Loss, Mallows, Objective, resolve_loss
from dpfast.models.names import offset_joins_predictor
from dpfast.models.nonconvex import PerRecordObjective
from dpfast.models.objective import Terms, terms_of
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import SeededNoise
from dpfast.regression.default_fit import uses_default_fit
from dpfast.regression.exact import Minimum, nonprivate_minimum, split_singular
from dpfast.regression.fit import NO_FORMULA
from dpfast.regression.formula import read_formula
from dpfast.solvers.pcn.initial import MEDIAN

#: Mean score accepted where rounding prevents a smaller one: far below a standard error.
ROUNDING_SCORE = 1e-6

#: Radius of weights so large that every row has full weight, in finite arithmetic.
FARTHEST = 1e20

#: Ends of the cells in which the median residual is searched, over the root mean square.
CELLS = 2.0 ** np.linspace(-20.0, 4.0, 24 * 128 + 1)

NOT_DETERMINED = (
    "{} coefficients are not determined by these data, and their standard errors are missing. "
    "Leave out collinear or constant covariates, pass an objective with ridge=..., or choose a "
    "loss whose curvature does not vanish."
)


@understood
def nonprivate_fit(
    X: Any,
    y: Any = None,
    loss: str | Loss | Objective = "least-squares",
    *,
    schema: Schema | None = None,
    tolerance: float = 1e-10,
    max_steps: int = 1000,
) -> Fit:
    """Fit the objective of :func:`dpfast.fit` exactly: **not private**, for comparison only.

    Majorisation-minimisation from zero until Newton's steps take over; sandwich standard errors.

    Parameters
    ----------
    X, y, loss
        As in :func:`dpfast.fit`, by default with full weight of each record.  The default fit
        of :func:`dpfast.fit` has full weights, too: no weights, ridge or free scale are declared.
        A missing residual scale is the median absolute residual of least squares over .6745
        (``fit.scale`` of a private fit was released).
    schema : Schema, optional
        Ranges and levels of a formula's columns.
    tolerance : float
        The mean score is zero when no entry exceeds this times the root mean square of the
        records' own (1e-6 of it where rounding forbids more).
    max_steps : int

    Returns
    -------
    Fit
        Coefficients that the data do not determine, as with collinear columns, have the standard
        error NaN, with a warning.

    Raises
    ------
    NotConverged
        If no minimum was found.  Only functions without privacy may raise on values.

    Privacy
    -------
    None.  Nothing about the result is protected.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> y = 0.5 * X[:, 0]
    >>> objective = dpfast.Objective("huber", scale=1.0)
    >>> dpfast.nonprivate_fit(X, y, objective).params.round(3) + 0.0
    array([0. , 0.5])
    """
    tolerance = positive(tolerance, "tolerance", or_zero=True)
    max_steps = whole_number(max_steps, "max_steps", 1)
    if isinstance(X, str):
        read = read_formula(X, y, schema, loss)
        exact = nonprivate_fit(
            read.source, None, read.loss, tolerance=tolerance, max_steps=max_steps
        )
        return read.rows_of(exact)
    if schema is not None:
        raise InvalidInput(NO_FORMULA)
    refuse_names(X, y)
    terms = terms_of(loss)
    request = _request_of(source_of(X, y), terms)
    objective, scale = _objective_of(request, terms, tolerance, max_steps)
    minimum = _converged_minimum(request, objective, tolerance, max_steps)
    fit = request.make_result(
        minimum.iterates[-1],
        objective,
        method=f"Newton, {len(minimum.iterates) - 1} exact steps",
        privacy=NOT_PRIVATE._replace(n=request.n),
        iterates=minimum.iterates,
        covariance=_sandwich(minimum, request.n),
    )
    if terms.scale is None and scale is not None:
        fit._scale = scale / request.coded_scale(1.0)
    return fit.natural


def _request_of(source: Source, terms: Terms) -> FitRequest:
    """Check the records; the largest weight is taken from the data: **not private**."""
    if source.sample_weight is not None and source.largest_weight is None:
        largest = largest_weight(source.covariates, source.sample_weight)
        source = source.but(largest_weight=largest)
    return FitRequest(
        source, None, Account(1.0), fit_intercept=terms.fit_intercept, noise=SeededNoise(0),
        bound_to=terms.n_covariates, takes=("sample_weight", "offset"),
        of_predictor=offset_joins_predictor(terms.loss),
    )  # fmt: skip


def _objective_of(
    request: FitRequest, terms: Terms, tolerance: float, max_steps: int
) -> tuple[Objective, Any]:
    """Build the objective, with full weights in place of a default fit; return its scale, too."""
    loss = resolve_loss(terms.loss, unbounded=True)
    scale, weights = request.coded_scale(terms.scale), terms.weights
    options = {
        "scale": terms.scale, "weights": terms.weights, "ridge": terms.ridge, "method": "auto",
    }  # fmt: skip
    if uses_default_fit(loss, options):
        loss, weights = loss._bounded, Mallows(FARTHEST)
        if loss.needs_scale and scale is None:
            scale = _residual_scale(request, tolerance, max_steps)
    objective = request.objective(loss, scale=scale, weights=weights, ridge=terms.ridge)
    if not objective.has_curvature:
        raise InvalidInput(
            f"{objective.curvature_refusal()}, so there is no unique minimiser to find by Newton's "
            "method. Use dpfast.nonconvex.nonprivate_minimize."
        )
    return objective, scale


def _converged_minimum(
    request: FitRequest, objective: Objective, tolerance: float, max_steps: int
) -> Minimum:
    """Minimise the objective, or raise :class:`NotConverged`: **not private**."""
    curator = request.curator(objective)
    start = objective.origin()
    if objective.free_scale is not None:
        start = np.append(start, objective.free_scale.start / objective.free_scale.factor)
    minimum = nonprivate_minimum(curator, start, tolerance, max_steps)
    if not minimum.score <= max(tolerance, ROUNDING_SCORE):
        raise NotConverged(
            f"no minimum of {objective!r} was found in {max_steps} steps. It may not exist: a "
            "logistic regression has none if covariates separate the classes, or if a class is "
            "absent. Pass an objective with ridge=..., leave covariates out, or raise max_steps."
        )
    return minimum


def _sandwich(minimum: Minimum, n: int) -> Covariance:
    """Return the sandwich covariance (Huber 1967, White 1980): **not private**."""
    inverse, singular = split_singular(minimum.hessian)
    covariance = inverse @ minimum.meat @ inverse / n
    covariance[singular] = covariance[:, singular] = np.nan
    remarks = (NOT_DETERMINED.format(int(singular.sum())),) if singular.any() else ()
    return Covariance(
        (covariance + covariance.T) / 2.0, 0, np.zeros(len(covariance)), remarks=remarks
    )


def _residual_scale(request: FitRequest, tolerance: float, max_steps: int) -> float:
    """Estimate the scale by the median absolute residual of least squares: **not private**.

    The median is divided by the normal distribution's (Hampel 1974).
    """
    squares = request.objective(LeastSquares(), scale=None, weights=Mallows(FARTHEST), ridge=0.0)
    curator = request.curator(squares)
    theta = nonprivate_minimum(curator, squares.origin(), tolerance, max_steps).iterates[-1]
    typical, total = ((2.0 * curator.nonprivate_loss(at)) ** 0.5 for at in (theta, 0.0 * theta))
    if not 0.0 < typical < math.inf:
        return 1.0
    edges = typical * CELLS
    below = nonprivate_residuals(curator, theta, edges)
    median = float(np.interp(0.5 * below[-1], below[:-1], edges)) / MEDIAN
    return max(median, ROUNDING_SCORE * total)


def nonprivate_minimize(
    X: Any,
    y: Any,
    objective: str | Loss | Objective | PerRecordObjective,
    *,
    start: Sequence[float] | None = None,
) -> Fit:
    """Find the minimum that :func:`dpfast.minimize` approximates: **not private**.

    L-BFGS from ``start`` to the local minimum it leads to; a :class:`PerRecordObjective` needs its
    ``losses``.

    Parameters
    ----------
    X, y : array-like of shape (n, q) and (n,)
    objective : str, Loss, Objective or PerRecordObjective
    start : array-like, optional
        Where the search begins; zero by default.

    Returns
    -------
    Minimum
        Its ``privacy`` says that there is none.

    Privacy
    -------
    None.  Nothing about the result is protected.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> y = 0.5 * X[:, 0]
    >>> objective = dpfast.Objective("cauchy", scale=1.0)
    >>> dpfast.nonconvex.nonprivate_minimize(X, y, objective).params.shape
    (2,)
    """
    curator, origin = nonprivate_curator(X, y, objective, start)
    path = nonprivate_descent(curator, origin)
    target = curator.objective
    return Fit(
        params=path[-1],
        names=tuple(f"w{j + 1}" for j in range(target.dimension)),
        n_records=curator.n,
        model=repr(target),
        method=f"L-BFGS, {len(path) - 1} exact steps",
        privacy=NOT_PRIVATE._replace(n=curator.n),
        covariance=None,
        iterates=path,
        **response_of(target),
        fit_intercept=target.fit_intercept if isinstance(target, Objective) else False,
        rows=NewRows(getattr(source_of(X, y).covariates, "coding", None)),
    )


def nonprivate_curator(
    X: Any,
    y: Any,
    objective: str | Loss | Objective | PerRecordObjective,
    start: Sequence[float] | None = None,
) -> tuple[GradientCurator, NDArray[np.float64]]:
    """Return a curator of exact losses and gradients, and the start: **not private**."""
    request, target = target_of(X, y, objective, SeededNoise(0))
    curator = GradientCurator(request.records, target, Ledger(1.0), request.noise)
    return curator, checked_start(start, target.dimension)


def nonprivate_descent(curator: GradientCurator, start: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the iterates of L-BFGS on the exact objective, shape (K + 1, p): **not private**."""
    from scipy.optimize import minimize

    target = curator.objective
    path = [start]

    def value(theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        penalty = 0.5 * target.ridge * float(theta @ theta)
        gradient = curator.nonprivate_gradient(theta) + target.ridge_gradient(theta)
        return curator.nonprivate_loss(theta) + penalty, gradient

    options = {"maxiter": 2000, "ftol": 1e-15, "gtol": 1e-12, "maxls": 50}
    minimize(
        value, start, jac=True, method="L-BFGS-B", callback=lambda x: path.append(x.copy()),
        options=options,
    )  # fmt: skip
    return np.array(path)
