"""The map from a fit's columns to a design's: what is dropped, centred or contrasted."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpfast.fit_requests.request import FitRequest
from dpfast.scaling.private import levels_of
from dpfast.scaling.standardized import Standardized

Array = NDArray[np.float64]


def design_basis(
    request: FitRequest, units: Standardized | None, inner: bool = False
) -> Array | None:
    """Centre powers and products, take contrasts of levels, and drop columns that look constant.

    Parameters
    ----------
    request : FitRequest
    units : Standardized, optional
        Released units; without them those of the request's coding.
    inner : bool
        Whether the released units are of coded columns.

    Returns
    -------
    ndarray of shape (p, r) or None
        Map of a design row, the intercept first; None if it is the identity.  Columns are dropped
        unless all look constant.
    """
    if request.terms is None and (units is None or not units.unseen):
        return None
    basis, names = None, request._coefficient_names()
    estimated = np.array([units is None or name not in units.unseen for name in names])
    scales = _scales(request, units, inner)
    if scales is None or not estimated.any():
        return None
    if request.fit_intercept and request.terms is not None:
        from dpfast.regression.centred_powers import basis_of_terms

        basis = basis_of_terms(request.terms, *scales, estimated[1:])
        basis = basis if units is None else with_contrasts(request, basis, units)
    if basis is None and not estimated.all():
        basis = np.eye(len(names))
    return None if basis is None else basis[:, estimated]


def _scales(
    request: FitRequest, units: Standardized | None, inner: bool
) -> tuple[Array, Array] | None:
    """Return centres and spreads of the terms' values, declared or released; None without."""
    coding = request.coding
    if units is None and coding is None:
        return None
    q = request.n_covariates
    centres, spreads = np.zeros(q), np.ones(q)
    if coding is not None and (units is None or inner):
        shift, matrix = coding.natural_units()
        spreads = 1.0 / matrix.diagonal()
        centres = -shift * spreads
    if units is not None:
        centres, spreads = centres + spreads * units.centres, spreads * units.spreads
    return centres, spreads


def with_contrasts(request: FitRequest, basis: Array | None, units: Standardized) -> Array | None:
    """Take orthonormal contrasts of declared levels in place of their indicators."""
    for levels in levels_of(request):
        if not levels.spans_all or levels.levels < 3:
            continue
        from dpfast.data.indicators import contrasts

        if basis is None:
            basis = np.eye(request.dimension)
        columns = slice(levels.places.start, levels.places.stop)
        basis[1:, 1:][columns, columns] = contrasts(units.centres[columns])
    return basis


def main_columns(direction: Array, names: tuple[str, ...]) -> str:
    """Name the columns with at least half of a direction's largest entry."""
    sizes = np.abs(direction)
    pairs = zip(names, sizes, strict=True)
    return ", ".join(name for name, size in pairs if size >= 0.5 * sizes.max())
