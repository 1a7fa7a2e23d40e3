"""Encoding of tables by a coding: values, names and bounds of the design's columns."""

from __future__ import annotations

import math
from itertools import compress, product
from typing import Any

import numpy as np

from dpfast.data.coding import Array, Coding, Encoded, Main
from dpfast.data.columns import column, column_names
from dpfast.errors import InvalidInput


def encoded(coding: Coding, table: Any, needed: list[str]) -> Encoded:
    """Encode a table as the columns of a design: values, names and bounds."""
    absent = [name for name in needed if name not in column_names(table)]
    if absent:
        raise InvalidInput(
            f"the table has no column {', '.join(map(repr, absent))}; needed are {needed}, in "
            f"any order, in the units of the fit{', or an array of these' * coding.arrays}."
        )
    n_rows = {_length(column(table, name), name) for name in needed}
    if len(n_rows) > 1:
        raise InvalidInput(f"the columns have different lengths: {sorted(n_rows)}.")
    parts = [
        _product([factor.encode(table, coding.columns) for factor in term]) for term in coding.terms
    ]
    return (
        np.column_stack([values for values, _, _ in parts]),
        [name for _, names, _ in parts for name in names],
        np.concatenate([bounds for _, _, bounds in parts]),
    )


def _product(factors: list[Encoded]) -> Encoded:
    """Multiply the columns of factors, the first factor's columns varying fastest."""
    values, names, bounds = factors[0]
    for next_values, next_names, next_bounds in factors[1:]:
        pairs = [(i, j) for j in range(len(next_names)) for i in range(len(names))]
        with np.errstate(all="ignore"):
            values = np.column_stack([values[:, i] * next_values[:, j] for i, j in pairs])
            corners = [np.outer(bounds[i], next_bounds[j]) for i, j in pairs]
        names = [f"{names[i]}:{next_names[j]}" for i, j in pairs]
        declared = np.isfinite(bounds).all() and np.isfinite(next_bounds).all()
        bounds = np.array([[corner.min(), corner.max()] for corner in corners])
        if declared and not np.isfinite(bounds).all():
            raise InvalidInput(
                f"the product {names[0]!r} has no finite bound over the declared ranges. Change "
                "the ranges or the centres."
            )
    return values, names, bounds


def _length(values: Any, name: str) -> int:
    if not hasattr(values, "__len__") or isinstance(values, (str, bytes)):
        raise InvalidInput(
            f"column {name!r} must be a sequence of values, one for each row; received a "
            f"{type(values).__name__}. Write [value] for a single row."
        )
    return len(values)


def natural_units_of_products(coding: Coding) -> tuple[Array, Array]:
    """Compute :meth:`Coding.natural_units` for terms with several factors.

    ``prod((x_k - centre_k) / unit_k)`` is multiplied out: each subset of the factors is a product
    of natural columns, with the other factors' ``-centre_k / unit_k`` in its coefficient.
    """
    terms = [_parts(coding, term) for term in coding.terms]
    starts: dict[Any, int] = {}
    n_columns = 0
    for names, other_factors, width in terms:
        starts[names, other_factors] = n_columns
        n_columns += width
    constant = np.zeros(n_columns)
    matrix = np.zeros((n_columns, n_columns))
    row = 0
    for names, other_factors, width in terms:
        for in_product in product((True, False), repeat=len(names)):
            share = math.prod(
                (1.0 if is_in else -coding.columns[name].location) / coding.columns[name].spread
                for name, is_in in zip(names, in_product, strict=True)
            )
            if not share:
                continue
            subset = tuple(compress(names, in_product))
            if not subset and not other_factors:
                constant[row] += share
            elif (subset, other_factors) in starts:
                start = starts[subset, other_factors]
                matrix[range(row, row + width), range(start, start + width)] += share
            else:
                raise InvalidInput(
                    "coefficients of a product or power in the table's own units need the "
                    f"terms of fewer factors, {':'.join(subset) or 'levels'} here: add them. "
                    "predict takes and returns the table's own units."
                )
        row += width
    return constant, matrix


def _parts(coding: Coding, term: tuple[Any, ...]) -> tuple[tuple[str, ...], tuple[Any, ...], int]:
    """Split a term into its numeric columns, its other factors, and its width."""
    names: list[str] = []
    other_factors: list[Any] = []
    for factor in term:
        if (power := getattr(factor, "power", None)) is not None:
            names += power
        elif not isinstance(factor, Main) and not getattr(factor, "own_units", False):
            raise InvalidInput(
                "coefficients of functions of columns are given in coded units only. predict "
                "takes and returns the table's own units."
            )
        elif isinstance(factor, Main) and coding.columns[factor.name].kind != "categorical":
            names.append(factor.name)
        else:
            other_factors.append(factor)
    widths = [
        factor.encode({factor.name: []}, coding.columns)[0].shape[1] for factor in other_factors
    ]
    return tuple(sorted(names)), tuple(other_factors), math.prod(widths)
