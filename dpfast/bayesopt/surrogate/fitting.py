"""Maximum likelihood fit of a covariance to *public* evaluations."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from dpfast.arguments import Array, flag, real_array
from dpfast.bayesopt.space import Box
from dpfast.bayesopt.surrogate.covariance import RBF, Covariance, as_points
from dpfast.errors import InvalidInput, described

#: Bounds of the logarithm of the noise variance, relative to the prior variance.
_LOG_NOISE = (-16.0, 2.0)


def fit_covariance(
    public_points: ArrayLike,
    public_values: ArrayLike,
    kind: type[Covariance] = RBF,
    *,
    bounds: ArrayLike | None = None,
    separate: bool = False,
) -> tuple[Covariance, float]:
    """Fit length-scales, output scale and noise variance by maximum likelihood to public values.

    Parameters
    ----------
    public_points, public_values : array-like of shapes (m, d) and (m,)
        Evaluated points, and the losses there on data that need no protection.  **Never use the
        values passed to a tuner**: a likelihood has no bounded sensitivity.  It would void the
        guarantee of everything computed with the covariance (condition 2 of PROOFS-bayesopt.md).
    kind : type
        ``RBF`` (default), ``Matern52``, ``Matern72`` or ``Polynomial2``.
    bounds : array-like of shape (d, 2), optional
        The box of the search; with it the covariance is in units of its sides, as
        ``dpfast.tune(..., units="box")`` needs it.
    separate : bool
        A length-scale for every parameter instead of a common one.

    Returns
    -------
    covariance, noise_variance : Covariance, float

    Privacy
    -------
    Spends nothing: public values only.

    Examples
    --------
    >>> points = np.linspace(0.0, 1.0, 9)[:, None]
    >>> kernel, noise_variance = dpfast.bayesopt.fit_covariance(points, points[:, 0] ** 2)
    >>> type(kernel).__name__
    'RBF'
    """
    if not isinstance(kind, type) or not issubclass(kind, Covariance) or kind is Covariance:
        raise InvalidInput(f"kind must be RBF or another covariance; received {described(kind)}.")
    points = as_points(public_points, "public_points")
    values = real_array(public_values, "public_values")
    if values.shape != (len(points),) or len(points) < 3 or not np.isfinite(values).all():
        raise InvalidInput(
            "public_values must be one finite number for each of at least 3 public_points; "
            f"received shape {values.shape} for {len(points)} points."
        )
    if bounds is not None:
        points = Box(bounds).to_unit(points)
    d = points.shape[1]
    size = d if flag(separate, "separate") else 1
    spread = np.maximum(points.std(axis=0), 1e-12)
    centre = np.log(2.0 * spread if separate else [2.0 * float(np.sqrt(np.mean(spread**2)))])
    limits = [(c - 5.0, c + 5.0) for c in centre] + [_LOG_NOISE]

    def objective(parameters: Array) -> float:
        return _profile(kind, parameters, size, points, values)[0]

    best = None
    for shift in (-1.0, 0.0, 1.5):
        optimum = minimize(
            objective, np.append(centre + shift, -7.0), method="L-BFGS-B", bounds=limits
        )
        if best is None or optimum.fun < best.fun:
            best = optimum
    assert best is not None
    _, variance = _profile(kind, best.x, size, points, values)
    scales = np.exp(best.x[:size])
    length_scales = scales if separate else float(scales[0])
    noise = variance * float(np.exp(best.x[size]))
    return kind(length_scales, float(np.sqrt(variance))), noise


def _profile(
    kind: type[Covariance], parameters: Array, size: int, points: Array, values: Array
) -> tuple[float, float]:
    """Return the profile negative log likelihood, and the output variance that attains it."""
    scales = np.exp(parameters[:size])
    gram = kind(scales if size > 1 else float(scales[0])).values(points, points)
    gram[np.diag_indices_from(gram)] += np.exp(parameters[size]) + 1e-9
    try:
        factor = cho_factor(gram, lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        return 1e12, 1.0
    m = len(values)
    solved_ones = cho_solve(factor, np.ones(m), check_finite=False)
    residual = values - float(solved_ones @ values) / float(solved_ones.sum())
    variance = float(residual @ cho_solve(factor, residual, check_finite=False)) / m
    variance = max(variance, 1e-24)
    return 0.5 * m * np.log(variance) + float(np.log(np.diag(factor[0])).sum()), variance
