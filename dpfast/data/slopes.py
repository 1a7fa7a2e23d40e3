"""Derivatives of a design's columns by the variables of a table, through all of their terms."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import numpy as np

from dpfast.arguments import Array
from dpfast.data.arithmetic import FUNCTIONS, Arithmetic
from dpfast.data.coding import Coding, Column, Factor, Main
from dpfast.data.columns import column, numbers
from dpfast.data.splines import Spline

Columns = Mapping[str, Column]

#: Change of the design with a variable: its name; the width of a coded unit in its own units; and
#: either derivatives of the design, (m, q), or its rows at the reference level and at another one.
Change = tuple[str, float, Array | None, tuple[Array, Array] | None]


def changes(coding: Coding, table: Any) -> list[Change]:
    """Return the changes of the design for each variable of its terms; one for each other level."""
    result: list[Change] = []
    read = {name for term in coding.terms for factor in term for name in names_of(factor)}
    for name in coding.covariate_columns:
        if name not in read:
            continue
        declared = coding.columns[name]
        if declared.kind in ("numeric", "released"):
            result.append((name, declared.spread, derivatives(coding, table, name), None))
            continue
        reference, levels = levels_of(declared)
        rows = {column_name: column(table, column_name) for column_name in coding.covariate_columns}
        is_missing = np.isnan(declared.encode(rows[name], name)[0]).any(axis=1)

        def at(
            level: Any, rows: Any = rows, name: str = name, is_missing: Any = is_missing
        ) -> Array:
            covariates = coding.covariates(rows | {name: [level] * len(is_missing)})
            return np.where(is_missing[:, None], np.nan, covariates)

        for level in levels:
            label = f"{name}[{level}]" if declared.kind == "categorical" else name
            result.append((label, 1.0, None, (at(reference), at(level))))
    return result


def names_of(factor: Factor) -> list[str]:
    """Return the columns that a factor reads."""
    if isinstance(factor, Arithmetic):
        return factor.names
    assert isinstance(factor, Main | Spline)
    return [factor.name]


def levels_of(declared: Any) -> tuple[Any, list[Any]]:
    """Return the reference level of a column without numbers, and its other levels."""
    if declared.kind == "binary":
        return declared.negative, [declared.positive]
    return declared.reference, [label for label in declared.levels if label != declared.reference]


def derivatives(coding: Coding, table: Any, name: str) -> Array:
    """Differentiate the design by one numeric column, by the product rule; shape (m, q)."""
    parts = []
    with np.errstate(all="ignore"):
        for term in coding.terms:
            value = np.ones((1, 1))
            slope = np.zeros((1, 1))
            for factor in term:  # the first factor's columns vary fastest
                here = factor.encode(table, coding.columns)[0]
                by = _derivative(factor, table, coding.columns, name, here)
                slope = _times(slope, here) + _times(value, by)
                value = _times(value, here)
            parts.append(slope)
    return np.column_stack(parts)


def _times(first: Array, second: Array) -> Array:
    """Multiply columns pairwise, the first argument's varying fastest."""
    products = second[:, :, None] * first[:, None, :]
    return np.asarray(products.reshape(len(products), -1))


def _derivative(factor: Factor, table: Any, columns: Columns, name: str, value: Array) -> Array:
    """Differentiate the columns of one factor, given their values."""
    if name not in names_of(factor):
        return np.zeros_like(value)
    if isinstance(factor, Arithmetic):
        slope = _dual(factor._tree(), table, columns, name)[1]
        return np.broadcast_to(slope, len(value))[:, None]
    if isinstance(factor, Spline):
        return factor.derivatives(table)
    return _of_column(table, columns, name)[:, None]


def _of_column(table: Any, columns: Columns, name: str) -> Array:
    """Differentiate a coded column by its own number; 0 where the value is clipped."""
    declared: Any = columns[name]
    x = numbers(column(table, name), name)
    moves = (declared.low <= x) & (x <= declared.high)
    return np.where(np.isfinite(x), moves / declared.spread, np.nan)


#: Derivatives of functions, by their values and arguments.
SLOPES: dict[str, Any] = {
    "log": lambda value, x: 1.0 / x,
    "exp": lambda value, x: value,
    "sqrt": lambda value, x: 0.5 / value,
    "abs": lambda value, x: np.sign(x),
}


def _dual(node: ast.AST, table: Any, columns: Columns, name: str) -> tuple[Any, Any]:
    """Evaluate a checked expression and its derivative by dual numbers."""
    if isinstance(node, ast.Constant):
        return float(node.value), 0.0  # type: ignore[arg-type]
    if isinstance(node, ast.Name):
        value = columns[node.id].encode(column(table, node.id), node.id)[0][:, 0]
        return value, _of_column(table, columns, name) if node.id == name else 0.0
    if isinstance(node, ast.UnaryOp):
        value, slope = _dual(node.operand, table, columns, name)
        return (-value, -slope) if isinstance(node.op, ast.USub) else (value, slope)
    if isinstance(node, ast.Call):
        function: Any = node.func
        name_of_function = function.attr if isinstance(function, ast.Attribute) else function.id
        x, slope = _dual(node.args[0], table, columns, name)
        value = FUNCTIONS[name_of_function](x)
        return value, SLOPES[name_of_function](value, x) * slope
    assert isinstance(node, ast.BinOp)
    (a, da), (b, db) = [_dual(side, table, columns, name) for side in (node.left, node.right)]
    if isinstance(node.op, ast.Add):
        return a + b, da + db
    if isinstance(node.op, ast.Sub):
        return a - b, da - db
    if isinstance(node.op, ast.Mult):
        return a * b, da * b + a * db
    if isinstance(node.op, ast.Div):
        return a / b, da / b - a * db / (b * b)
    return a**b, b * a ** (b - 1.0) * da  # a whole power
