"""Powers and products of centred columns, as a linear map of a formula's own columns.

``(x - c)^2 = x^2 - 2 c x + c^2``: where a formula has all terms of lower order, centred powers and
products span the same columns.  They are nearly uncorrelated where the columns' own are nearly
collinear.  Centres and spreads are released before, so the map costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.data.arithmetic import Arithmetic
from dpfast.data.coding import Coding
from dpfast.data.polynomials import Monomial, Polynomial, polynomials

Array = NDArray[np.float64]

#: Largest entry of the map in units of the columns.  Beyond, the centred column would be a small
#: difference of large numbers, with few digits left.
MAX_CANCELLATION = 1e8


class Scale(NamedTuple):
    """Released centre and spread of a factor."""

    centre: float
    spread: float


def basis_of_terms(
    terms: Coding, centres: Array, spreads: Array, used: NDArray[np.bool_]
) -> Array | None:
    """Return :func:`centred_basis` of the columns of a formula's terms."""
    if all(len(term) < 2 and not isinstance(term[0], Arithmetic) for term in terms.terms):
        return None
    columns = polynomials(terms)
    return None if len(columns) != len(spreads) else centred_basis(columns, centres, spreads, used)


def centred_basis(
    columns: Sequence[Polynomial], centres: Array, spreads: Array, used: NDArray[np.bool_]
) -> Array | None:
    """Return the map from coded columns, with the intercept, to centred powers and products.

    Parameters
    ----------
    columns : sequence of dict
        Polynomials of the q covariates.
    centres, spreads : ndarray of shape (q,)
        Their released units: a coded column is ``(x - centre) / spread``.
    used : ndarray of shape (q,)
        Which columns the fit keeps; the map leaves the others as they are.

    Returns
    -------
    ndarray of shape (q + 1, q + 1) or None
        Triangular up to the order of columns; None if no column changes.
    """
    q = len(columns)
    known, defined_by = _representations(columns, used)
    scales = _scales(columns, centres, spreads, used)
    in_coded = _to_coded(centres, spreads)
    basis, changed = np.eye(q + 1), False
    for j in sorted(range(q), key=lambda j: _degree(columns[j])):
        leading = _leading(columns[j])
        if leading is None or len(leading) < 2 or defined_by.get(leading) != j:
            continue
        centred = _hermite(leading, scales)
        if centred is None or not centred.keys() <= known.keys():
            continue
        with np.errstate(all="ignore"):
            column = in_coded @ sum(value * known[key] for key, value in centred.items())
        # False for NaN, too
        if np.abs(column).max() < MAX_CANCELLATION and abs(column[j + 1]) > 1.0 / MAX_CANCELLATION:
            basis[:, j + 1], changed = column, True
    return basis if changed else None


def _representations(
    columns: Sequence[Polynomial], used: NDArray[np.bool_]
) -> tuple[dict[Monomial, Array], dict[Monomial, int]]:
    """Express each monomial by the intercept and columns; return which column has it, too."""
    identity = np.eye(len(columns) + 1)
    known: dict[Monomial, Array] = {(): identity[0]}
    defined_by: dict[Monomial, int] = {}
    for j in sorted(range(len(columns)), key=lambda j: _degree(columns[j])):
        leading = _leading(columns[j])
        lower = {key: value for key, value in columns[j].items() if key != leading}
        if not used[j] or leading is None or leading in known or not lower.keys() <= known.keys():
            continue
        rest = sum((value * known[key] for key, value in lower.items()), np.zeros(len(identity)))
        known[leading] = (identity[j + 1] - rest) / columns[j][leading]
        defined_by[leading] = j
    return known, defined_by


def _leading(column: Polynomial) -> Monomial | None:
    """Return the monomial of highest degree, if there is one."""
    degree = _degree(column)
    highest = [key for key, value in column.items() if len(key) == degree and value]
    return highest[0] if degree and len(highest) == 1 else None


def _degree(column: Polynomial) -> int:
    return max((len(key) for key, value in column.items() if value), default=0)


def _scales(
    columns: Sequence[Polynomial], centres: Array, spreads: Array, used: NDArray[np.bool_]
) -> dict[str, Scale]:
    """Return the released scale of each factor that is a column, or linear in one."""
    scales: dict[str, Scale] = {}
    for column, centre, spread, is_used in zip(columns, centres, spreads, used, strict=True):
        leading = _leading(column)
        if is_used and leading is not None and len(leading) == 1 and _degree(column) == 1:
            slope = column[leading]
            middle = (float(centre) - column.get((), 0.0)) / slope
            scales.setdefault(leading[0], Scale(middle, float(spread) / abs(slope)))
    return scales


def _hermite(leading: Monomial, scales: dict[str, Scale]) -> Polynomial | None:
    """Multiply Hermite polynomials of the factors, of about unit variance.

    They are uncorrelated for normal columns, and nearly so for bell-shaped ones.
    """
    result: Polynomial = {(): 1.0}
    for name in dict.fromkeys(leading):
        if name not in scales:
            return None
        part = _one_factor(name, leading.count(name), scales[name])
        result = _product(result, part)
    return result


def _one_factor(name: str, degree: int, scale: Scale) -> Polynomial:
    """Return the Hermite polynomial of a scaled factor in powers of the factor itself."""
    centre, spread = scale
    in_z = np.polynomial.hermite_e.herme2poly([0.0] * degree + [1.0]) / math.sqrt(
        math.factorial(degree)
    )
    z = np.polynomial.Polynomial([-centre / spread, 1.0 / spread])
    in_x = np.polynomial.Polynomial(in_z)(z)
    return {(name,) * k: float(value) for k, value in enumerate(in_x.coef)}


def _product(first: Polynomial, second: Polynomial) -> Polynomial:
    result: Polynomial = {}
    for (one, a), (other, b) in product(first.items(), second.items()):
        result[tuple(sorted(one + other))] = a * b
    return result


def _to_coded(centres: Array, spreads: Array) -> Array:
    """Return the map of coefficients of own units to those of coded columns."""
    return np.block([
        [np.ones((1, 1)), centres[None]],
        [np.zeros((len(spreads), 1)), np.diag(spreads)],
    ])  # fmt: skip
