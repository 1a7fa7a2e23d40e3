"""How the columns of a design change with the variables of a table, through all of their terms."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.data.coding import Coding, Column, Factor, Main
from dpfast.data.columns import column, numbers
from dpfast.data.formula import Arithmetic, Spline

Array = NDArray[np.float64]
Columns = Mapping[str, Column]

#: Of a variable: its name; what a coded 1 is worth in its own units; and either derivatives of the
#: design, (m, q), for one of these, or the design's rows at the reference level and at another one.
Change = tuple[str, float, Array | None, tuple[Array, Array] | None]


def changes(coding: Coding, table: Any) -> list[Change]:
    """Of each variable that a term reads, in the order of the columns; of levels one each."""
    found: list[Change] = []
    read = {name for term in coding.terms for factor in term for name in names_of(factor)}
    for name in coding.covariate_columns:
        if name not in read:
            continue
        declared = coding.columns[name]
        if declared.kind in ("numeric", "released"):
            found.append((name, declared.spread, derivatives(coding, table, name), None))
            continue
        reference, levels = levels_of(declared)
        rows = {other: column(table, other) for other in coding.covariate_columns}
        lacks = np.isnan(declared.encode(rows[name], name)[0]).any(axis=1)

        def at(level: Any, rows: Any = rows, name: str = name, lacks: Any = lacks) -> Array:
            found = coding.covariates(rows | {name: [level] * len(lacks)})
            return np.where(lacks[:, None], np.nan, found)

        for level in levels:
            label = f"{name}[{level}]" if declared.kind == "categorical" else name
            found.append((label, 1.0, None, (at(reference), at(level))))
    return found


def names_of(factor: Factor) -> list[str]:
    """The columns that a factor reads."""
    if isinstance(factor, Arithmetic):
        return factor.names
    assert isinstance(factor, Main | Spline)
    return [factor.name]


def levels_of(declared: Any) -> tuple[Any, list[Any]]:
    """What a column without numbers is compared with, and what is compared with it."""
    if declared.kind == "binary":
        return declared.negative, [declared.positive]
    return declared.reference, [one for one in declared.levels if one != declared.reference]


def derivatives(coding: Coding, table: Any, name: str) -> Array:
    """Of the design's columns, by the number in a column, shape (m, q): the product rule."""
    parts = []
    with np.errstate(all="ignore"):
        for term in coding.terms:
            value, slope = np.ones((1, 1)), np.zeros((1, 1))
            for factor in term:  # the first factor's columns vary fastest
                here = factor.encode(table, coding.columns)[0]
                by = _derivative(factor, table, coding.columns, name, here)
                slope = _times(slope, here) + _times(value, by)
                value = _times(value, here)
            parts.append(slope)
    return np.column_stack(parts)


def _times(first: Array, second: Array) -> Array:
    """Products of columns, those of the first one varying fastest."""
    found = second[:, :, None] * first[:, None, :]
    return np.asarray(found.reshape(len(found), -1))


def _derivative(factor: Factor, table: Any, columns: Columns, name: str, value: Array) -> Array:
    """Of the columns of one factor, whose values are given."""
    if name not in names_of(factor):
        return np.zeros_like(value)
    if isinstance(factor, Arithmetic):
        slope = _dual(factor._tree(), table, columns, name)[1]
        return np.broadcast_to(slope, len(value))[:, None]
    if isinstance(factor, Spline):
        return factor.derivatives(table)
    return _of_column(table, columns, name)[:, None]


def _of_column(table: Any, columns: Columns, name: str) -> Array:
    """Of a coded column by its own number; a value that is held at an end does not move."""
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
    """Value and derivative of an expression, which was found to be allowed."""
    if isinstance(node, ast.Constant):
        return float(node.value), 0.0  # type: ignore[arg-type]
    if isinstance(node, ast.Name):
        value = columns[node.id].encode(column(table, node.id), node.id)[0][:, 0]
        return value, _of_column(table, columns, name) if node.id == name else 0.0
    if isinstance(node, ast.UnaryOp):
        value, slope = _dual(node.operand, table, columns, name)
        return (-value, -slope) if isinstance(node.op, ast.USub) else (value, slope)
    if isinstance(node, ast.Call):
        from dpfast.data.formula import FUNCTIONS

        called: Any = node.func
        which = called.attr if isinstance(called, ast.Attribute) else called.id
        x, slope = _dual(node.args[0], table, columns, name)
        value = FUNCTIONS[which](x)
        return value, SLOPES[which](value, x) * slope
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
