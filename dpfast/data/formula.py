"""Formulas over a schema: ``"log_wage ~ education + I(experience**2) + C(state)"``.

The formulaic package (an extra) reads the formula; the terms are evaluated here, record by record,
from declared columns only.  Functions that look at the whole column (centring, splines, quantiles)
are refused: they would be releases.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.data.columns import column
from dpfast.data.schema import Categorical, Design, Schema
from dpfast.errors import InvalidInput

__all__ = ["design_from_formula"]

Array = NDArray[np.float64]
#: Values (n, k), names, and bounds (k, 2) of the columns a factor stands for.
Factor = tuple[Array, list[str], Array]


def design_from_formula(formula: str, table: Any, schema: Schema) -> Design:
    """Encode a table as a formula says, with a schema's public facts.

    Numeric names stand for the *scaled* column of the schema, categorical ones for their
    indicators without the reference level (treatment coding, in interactions too).

    Parameters
    ----------
    formula : str
        Terms of declared columns, ``C(name)``, ``I(arithmetic)``, ``log``, ``exp``, ``sqrt`` and
        ``abs`` of single columns, products with ``:`` and ``*``; ``- 1`` drops the intercept.
    table : pandas or polars DataFrame, Arrow table, or mapping of names to arrays
    schema : Schema

    Raises
    ------
    InvalidInput
        For anything else in the formula, an undeclared column, or a wrong type.
    """
    try:
        from formulaic import Formula
    except ImportError as error:
        raise ImportError(
            "formulas need the formulaic package: pip install 'dpfast[tables]'."
        ) from error
    try:
        parsed = Formula(formula)
    except Exception as error:  # its parser raises many kinds
        raise InvalidInput(f"formula {formula!r} could not be read: {error}") from error
    left, right = getattr(parsed, "lhs", None), getattr(parsed, "rhs", parsed)
    intercept, parts = False, []
    for term in right:
        factors = [str(factor.expr) for factor in term.factors]
        if factors == ["1"]:
            intercept = True
        else:
            parts.append(_product([_factor(text, table, schema) for text in factors]))
    if not parts:
        raise InvalidInput(f"formula {formula!r} has no covariate.")
    y = None
    if left is not None:
        responses = [str(factor.expr) for term in left for factor in term.factors]
        if len(responses) != 1 or responses[0] not in schema.columns:
            raise InvalidInput(
                f"the left side of {formula!r} must be one declared column; received {responses}."
            )
        y = schema.response(table, responses[0])
    return Design(
        X=np.column_stack([part[0] for part in parts]),
        y=y,
        names=tuple(name for part in parts for name in part[1]),
        bounds=np.concatenate([part[2] for part in parts]),
        fit_intercept=intercept,
    )


def _product(factors: list[Factor]) -> Factor:
    """Column by column products, the first factor's columns varying fastest."""
    values, names, bounds = factors[0]
    for more, more_names, more_bounds in factors[1:]:
        pairs = [(i, j) for j in range(len(more_names)) for i in range(len(names))]
        values = np.column_stack([values[:, i] * more[:, j] for i, j in pairs])
        corners = [np.outer(bounds[i], more_bounds[j]) for i, j in pairs]
        names = [f"{names[i]}:{more_names[j]}" for i, j in pairs]
        bounds = np.array([[corner.min(), corner.max()] for corner in corners])
    return values, names, bounds


def _factor(text: str, table: Any, schema: Schema) -> Factor:
    if text in schema.columns:
        return schema[text].encode(column(table, text), text)
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise InvalidInput(f"term {text!r} could not be read. {ALLOWED}") from error
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and len(tree.args) == 1:
        if tree.func.id == "C" and isinstance(tree.args[0], ast.Name):
            name = tree.args[0].id
            declared = schema[name]
            if not isinstance(declared, Categorical):
                raise InvalidInput(
                    f"{text!r}: column {name!r} is declared {declared.kind}. Declare it "
                    "Categorical([...]) with its public levels."
                )
            return declared.encode(column(table, name), name)
        if tree.func.id == "I":
            tree = tree.args[0]
    with np.errstate(all="ignore"):
        value, low, high = _Arithmetic(text, table, schema).of(tree)
    if not isinstance(value, np.ndarray):
        raise InvalidInput(f"term {text!r} names no column. {ALLOWED}")
    value = np.where(np.isfinite(value), value, np.nan)
    if not np.isfinite([low, high]).all():
        raise InvalidInput(
            f"term {text!r} has no finite bound over the declared ranges. Change the range, the "
            "centre or the function."
        )
    return value[:, None], [text], np.array([[low, high]])


ALLOWED = (
    "A term is a declared column, C(column), or arithmetic (+ - * / **) of declared numeric "
    "columns, constants, log, exp, sqrt and abs."
)

#: Function, and its bounds over an interval.
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "log": np.log,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "abs": np.abs,
}


class _Arithmetic:
    """Evaluates an expression on the records and, by interval arithmetic, on the public ranges."""

    def __init__(self, text: str, table: Any, schema: Schema) -> None:
        self.text, self.table, self.schema = text, table, schema

    def of(self, node: ast.AST) -> tuple[Any, float, float]:
        """Value on the records (or a constant), and its least and largest possible value."""
        number = node.value if isinstance(node, ast.Constant) else None
        if isinstance(number, (int, float)) and not isinstance(number, bool):
            constant = float(number)
            return constant, constant, constant
        if isinstance(node, ast.Name):
            encoded, names, bounds = self.schema[node.id].encode(
                column(self.table, node.id), node.id
            )
            if len(names) != 1:
                raise InvalidInput(
                    f"{self.text!r}: column {node.id!r} is categorical and has no arithmetic."
                )
            return encoded[:, 0], float(bounds[0, 0]), float(bounds[0, 1])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            value, low, high = self.of(node.operand)
            return (-value, -high, -low) if isinstance(node.op, ast.USub) else (value, low, high)
        if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
            return self._call(node)
        if isinstance(node, ast.BinOp):
            return self._binary(node)
        raise InvalidInput(f"term {self.text!r} is not allowed. {ALLOWED}")

    def _call(self, node: ast.Call) -> tuple[Any, float, float]:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            name = node.func.attr if node.func.value.id in ("np", "numpy") else ""
        if name not in FUNCTIONS:
            raise InvalidInput(f"term {self.text!r} calls a function. {ALLOWED}")
        function = FUNCTIONS[name]
        value, low, high = self.of(node.args[0])
        ends = [float(function(low)), float(function(high))]
        least = 0.0 if name == "abs" and low < 0.0 < high else min(ends)
        return function(value), least, max(ends)

    def _binary(self, node: ast.BinOp) -> tuple[Any, float, float]:
        left, low, high = self.of(node.left)
        right, right_low, right_high = self.of(node.right)
        if isinstance(node.op, ast.Add):
            return left + right, low + right_low, high + right_high
        if isinstance(node.op, ast.Sub):
            return left - right, low - right_high, high - right_low
        if isinstance(node.op, ast.Mult):
            ends = [a * b for a in (low, high) for b in (right_low, right_high)]
            return left * right, min(ends), max(ends)
        if isinstance(node.op, ast.Div) and not right_low <= 0.0 <= right_high:
            ends = [a / b for a in (low, high) for b in (right_low, right_high)]
            return left / right, min(ends), max(ends)
        if isinstance(node.op, ast.Pow) and right_low == right_high and right_low in range(1, 9):
            power = int(right_low)
            ends = [low**power, high**power]
            least = 0.0 if power % 2 == 0 and low < 0.0 < high else min(ends)
            return left**power, least, max(ends)
        raise InvalidInput(
            f"term {self.text!r}: powers are whole numbers from 1 to 8, and a divisor's declared "
            f"range must not contain zero. {ALLOWED}"
        )
