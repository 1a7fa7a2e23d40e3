"""Public units of a formula's terms, by the declared ranges of their columns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpfast.arguments import Array
from dpfast.data.coding import Coding, Column, Factor, Main
from dpfast.data.formula import Terms
from dpfast.data.indicators import declared_levels
from dpfast.data.scaling.units import ReleasedScales
from dpfast.data.schema import Numeric
from dpfast.data.splines import Spline


class DeclaredUnits(NamedTuple):
    """Public centres and units of a formula's columns, the coding, and the coded ranges."""

    scales: ReleasedScales
    coding: Coding
    bounds: Array


def declared_units(
    terms: Terms, names: tuple[str, ...], *, linked: bool, centred: bool
) -> DeclaredUnits | None:
    """Return the public units of a formula's columns; None if one of them has no finite range.

    A column has the declared centre and unit, and a function of columns has the middle and the half
    width of its range, which interval arithmetic gives.  Indicators keep their values 0 and 1.

    Parameters
    ----------
    terms : Terms
    names : tuple of str
        Names of the columns of the terms.
    linked : bool
        Whether the response has a link; it keeps its unit then.
    centred : bool
        Whether the model has an intercept, so that columns may be centred.
    """
    ranges, response_range = _ranges(terms.coding), _ranges(terms.left)
    if not (np.isfinite(ranges).all() and np.isfinite(response_range).all()):
        return None
    factors = _factors(terms.coding)
    levels = {j for found in declared_levels(terms.coding)[0] for j in found.places}
    columns: dict[str, Column] = {}
    for j, (name, (low, high)) in enumerate(zip(names, ranges.tolist(), strict=True)):
        centre, unit = (0.0, 1.0) if j in levels else _unit(terms, factors[j], low, high, centred)
        columns[name] = Numeric(low, high, centre, unit)
    response = _name(terms.left, columns)
    (low, high), (factor,) = response_range[0].tolist(), terms.left.terms[0]
    keeps = linked or declared_levels(terms.left)[0]
    centre, unit = (0.0, 1.0) if keeps else _unit(terms, (factor,), low, high, centred)
    columns[response] = Numeric(low, high, centre, unit)
    coding = Coding(
        columns,
        tuple((Main(name),) for name in names),
        response,
        terms.coding.fit_intercept,
        arrays=True,
    )
    pairs = [(columns[name].location, columns[name].spread) for name in names]
    centres, spreads = np.array(pairs).reshape(len(names), 2).T.copy()
    bounds = (ranges - centres[:, None]) / spreads[:, None]
    return DeclaredUnits(ReleasedScales(centres, spreads, (centre, unit)), coding, bounds)


def _unit(
    terms: Terms, factors: tuple[Factor, ...], low: float, high: float, centred: bool
) -> tuple[float, float]:
    """Return centre and unit of one column."""
    from_zero = not centred or any(isinstance(factor, Spline) for factor in factors)
    centre, unit = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
    if len(factors) == 1 and isinstance(factors[0], Main):
        centre, unit = terms.scales.get(factors[0].name, (centre, unit))
    if from_zero and centre:
        return 0.0, max(abs(low), abs(high))
    return centre, unit


def _ranges(coding: Coding) -> Array:
    """Return the public ranges of the columns of terms, shape (q, 2)."""
    nothing: dict[str, list[Any]] = {name: [] for name in coding.columns}
    return coding.design(nothing).bounds


def _factors(coding: Coding) -> list[tuple[Factor, ...]]:
    """Return the factors of each column of a design."""
    nothing: dict[str, list[Any]] = {name: [] for name in coding.columns}
    result: list[tuple[Factor, ...]] = []
    for term in coding.terms:
        width = 1
        for factor in term:
            width *= len(factor.encode(nothing, coding.columns)[1])
        result += [term] * width
    return result


def _name(left: Coding, taken: dict[str, Column]) -> str:
    """Return a name for the response that no column of the design has."""
    nothing: dict[str, list[Any]] = {name: [] for name in left.columns}
    name = left.design(nothing).names[0]
    while name in taken:
        name += "_"
    return name
