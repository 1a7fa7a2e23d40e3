"""The same estimator without privacy, to compare with; its result could not be published."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import positive, refuse_names, whole_number
from dpfast.curator.nonconvex.gradients import GradientCurator
from dpfast.curator.steps import nonprivate_residuals
from dpfast.data.record_weights.columns_given import largest_weight
from dpfast.data.source import source_of
from dpfast.errors import InvalidInput, NotConverged, understood
from dpfast.fit_requests.request import Account, FitRequest, checked_start, response_of
from dpfast.fit_requests.rows import FormulaRows, NewRows, with_offset
from dpfast.fit_requests.targets import target_of
from dpfast.inference.degrees import Covariance
from dpfast.inference.guarantees import NOT_PRIVATE
from dpfast.inference.results import Fit
from dpfast.models import LeastSquares, Loss, Mallows, Objective, resolve_loss
from dpfast.models.names import offset_joins_predictor
from dpfast.models.nonconvex import PerRecordObjective
from dpfast.models.objective import terms_of
from dpfast.optimize.road.run import MEDIAN
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import SeededNoise
from dpfast.regression.exact import nonprivate_minimum, split_singular
from dpfast.regression.formula import of_table, with_columns, with_intercept
from dpfast.regression.road import uses_default_fit

#: What a mean score may be where rounding forbids less: far below a standard error.
ROUNDING_SCORE = 1e-6

#: Rows up to this length have full weight.
FARTHEST = 1e20

#: Ends of the cells among which the median residual is looked for, in typical ones.
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
    loss: str | Loss | Objective = "log-cosh",
    *,
    tolerance: float = 1e-10,
    max_steps: int = 1000,
) -> Fit:
    """Fit the objective of :func:`dpfast.fit` exactly: **not private**, for comparison only.

    Majorise-minimise steps from zero until Newton's steps take over; ordinary sandwich errors.

    Parameters
    ----------
    X, y, loss
        As in :func:`dpfast.fit`, by default with full weight of each record; where neither
        weights, a ridge nor a scale to be estimated are declared it has that in :func:`dpfast.fit`,
        too.  A residual scale that nobody declared is the median absolute residual of least
        squares over .6745 (``fit.scale`` of a private one was released).
    tolerance : float
        The mean score is zero when no entry exceeds this times the root mean square of the
        records' own (1e-6 of it where rounding forbids more).
    max_steps : int

    Returns
    -------
    Fit
        Coefficients that the data do not determine (collinear columns, say) have the standard
        error NaN, and ``warnings`` says so.

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
        named = source_of(y, None)
        coding, source = of_table(X, with_columns(named), None)
        loss = with_intercept(loss, coding.fit_intercept)
        fit = nonprivate_fit(source, None, loss, tolerance=tolerance, max_steps=max_steps)
        fit._new_rows = FormulaRows(coding, fit._new_rows)
        return with_offset(fit, named.offset)
    refuse_names(X, y)
    source, given = source_of(X, y), terms_of(loss)
    loss, scale, weights, ridge, fit_intercept, columns = given
    if source.sample_weight is not None and source.largest_weight is None:
        largest = largest_weight(source.covariates, source.sample_weight)
        source = source.but(largest_weight=largest)
    request = FitRequest(
        source, None, Account(1.0), fit_intercept=fit_intercept, noise=SeededNoise(0),
        bound_to=columns, takes=("sample_weight", "offset"),
        of_predictor=offset_joins_predictor(loss),
    )  # fmt: skip
    loss = resolve_loss(loss, unbounded=True)
    told = {"scale": scale, "weights": weights, "ridge": ridge, "method": "auto"}
    known = request.coded_scale(scale)
    if uses_default_fit(loss, told):
        loss, weights = loss._bounded, Mallows(FARTHEST)
        if loss.needs_scale and known is None:
            known = _residual_scale(request, tolerance, max_steps)
    objective = request.objective(loss, scale=known, weights=weights, ridge=ridge)
    if not objective.has_curvature:
        raise InvalidInput(
            f"{objective.curvature_refusal()}, so there is no unique minimiser to find by Newton's "
            "method. Use dpfast.nonconvex.nonprivate_minimize."
        )
    curator = request.curator(objective)
    start = objective.origin()
    if objective.free_scale is not None:
        start = np.append(start, objective.free_scale.start / objective.free_scale.factor)
    found = nonprivate_minimum(curator, start, tolerance, max_steps)
    if not found.score <= max(tolerance, ROUNDING_SCORE):
        raise NotConverged(
            f"no minimum of {objective!r} was found in {max_steps} steps. It may not exist: of a "
            "logistic regression it does not where covariates separate the classes, or a class is "
            "absent. Pass an objective with ridge=..., leave covariates out, or raise max_steps."
        )
    inverse, lost = split_singular(found.hessian)
    covariance = inverse @ found.meat @ inverse / request.n
    covariance[lost] = covariance[:, lost] = np.nan
    fit = request.make_result(
        found.iterates[-1],
        objective,
        method=f"Newton, {len(found.iterates) - 1} exact steps",
        privacy=NOT_PRIVATE._replace(n=request.n),
        iterates=found.iterates,
        covariance=Covariance(
            (covariance + covariance.T) / 2.0,
            0,
            np.zeros(objective.dimension),
            remarks=(NOT_DETERMINED.format(int(lost.sum())),) if lost.any() else (),
        ),
    )
    if scale is None and known is not None:
        fit._scale = known / request.coded_scale(1.0)
    return fit


def _residual_scale(request: FitRequest, tolerance: float, max_steps: int) -> float:
    """Median absolute residual of least squares over that of a normal one: **not private**."""
    squares = request.objective(LeastSquares(), scale=None, weights=Mallows(FARTHEST), ridge=0.0)
    curator = request.curator(squares)
    theta = nonprivate_minimum(curator, squares.origin(), tolerance, max_steps).iterates[-1]
    typical, whole = ((2.0 * curator.nonprivate_loss(at)) ** 0.5 for at in (theta, 0.0 * theta))
    if not 0.0 < typical < math.inf:
        return 1.0
    edges = typical * CELLS
    below = nonprivate_residuals(curator, theta, edges)
    found = float(np.interp(0.5 * below[-1], below[:-1], edges)) / MEDIAN
    return max(found, ROUNDING_SCORE * whole)


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
    """A curator whose exact losses and gradients are to be read, and the start: **not private**."""
    request, target = target_of(X, y, objective, SeededNoise(0))
    curator = GradientCurator(request.records, target, Ledger(1.0), request.noise)
    return curator, checked_start(start, target.dimension)


def nonprivate_descent(curator: GradientCurator, start: NDArray[np.float64]) -> NDArray[np.float64]:
    """Iterates of L-BFGS on the exact objective, shape (K + 1, p): **not private**."""
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
