"""Arithmetic terms of formulas, with public bounds by interval arithmetic."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpfast.data.coding import Column, Encoded
from dpfast.data.columns import column
from dpfast.data.scaling.units import Released
from dpfast.data.schema import Categorical, Schema
from dpfast.errors import InvalidInput

ALLOWED = (
    "A term is a declared column, C(column), a spline with public knots, bs(column, knots=[...]), "
    "cr or ns, or arithmetic (+ - * / **) of declared numeric columns, constants, log, exp, sqrt "
    "and abs."
)

#: Function, and its bounds over an interval.
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "log": np.log,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "abs": np.abs,
}


@dataclass(frozen=True)
class Arithmetic:
    """Arithmetic expression of declared numbers, evaluated record by record."""

    text: str

    @property
    def names(self) -> list[str]:
        """Names of the columns in the expression."""
        tree = self._tree()
        function_nodes = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        function_nodes |= {
            id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)
        }
        name_nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
        return list(dict.fromkeys(node.id for node in name_nodes if id(node) not in function_nodes))

    @property
    def power(self) -> list[str] | None:
        """The column's name, repeated by the exponent; None for other expressions."""
        tree = self._tree()
        if not isinstance(tree, ast.BinOp) or not isinstance(tree.op, ast.Pow):
            return None
        base = tree.left
        exponent = tree.right
        if not isinstance(base, ast.Name) or not isinstance(exponent, ast.Constant):
            return None
        n_times = exponent.value
        return [base.id] * n_times if isinstance(n_times, int) and 1 < n_times < 9 else None

    def _tree(self) -> ast.expr:
        tree = ast.parse(self.text, mode="eval").body
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == "I":
            return tree.args[0] if len(tree.args) == 1 and not tree.keywords else tree
        return tree

    def encode(self, table: Any, columns: Mapping[str, Column] | Schema) -> Encoded:
        with np.errstate(all="ignore"):
            value, low, high = _Evaluation(self.text, table, columns).of(self._tree())
        if not isinstance(value, np.ndarray):
            raise InvalidInput(f"term {self.text!r} names no column. {ALLOWED}")
        # NumPy may round functions of arrays and of single numbers differently
        value = np.where(np.isfinite(value), np.clip(value, low, high), np.nan)
        return value[:, None], [self.text], np.array([[low, high]])


class _Evaluation:
    """Evaluation of an expression on the records, and by interval arithmetic on public ranges."""

    free = False

    def __init__(self, text: str, table: Any, columns: Mapping[str, Column] | Schema) -> None:
        self.text = text
        self.table = table
        self.columns = columns

    def of(self, node: ast.AST) -> tuple[Any, float, float]:
        """Return the value on the records (or a constant), and its public minimum and maximum."""
        value, low, high = self._of(node)
        if not isinstance(value, np.ndarray):
            if not np.isfinite([low, high]).all():
                raise InvalidInput(f"term {self.text!r} has a part that is no finite number.")
            return value, low, high
        # the logarithm of a range with zero: such values are missing, and the unit is estimated
        self.free |= not np.isfinite([low, high]).all()
        return (value, -math.inf, math.inf) if self.free else (value, low, high)

    def _of(self, node: ast.AST) -> tuple[Any, float, float]:
        number = node.value if isinstance(node, ast.Constant) else None
        if isinstance(number, (int, float)) and not isinstance(number, bool):
            constant = float(number)
            return constant, constant, constant
        if isinstance(node, ast.Name):
            declared = self.columns[node.id]
            if isinstance(declared, Categorical):
                raise InvalidInput(
                    f"{self.text!r}: column {node.id!r} is categorical and has no arithmetic."
                )
            self.free |= isinstance(declared, Released)
            encoded, _, bounds = declared.encode(column(self.table, node.id), node.id)
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
        minimum = 0.0 if name == "abs" and low < 0.0 < high else min(ends)
        return function(value), minimum, max(ends)

    def _binary(self, node: ast.BinOp) -> tuple[Any, float, float]:
        first, low, high = self.of(node.left)
        second, right_low, right_high = self.of(node.right)
        if isinstance(node.op, ast.Add):
            return first + second, low + right_low, high + right_high
        if isinstance(node.op, ast.Sub):
            return first - second, low - right_high, high - right_low
        if isinstance(node.op, ast.Mult):
            ends = [a * b for a in (low, high) for b in (right_low, right_high)]
            return first * second, min(ends), max(ends)
        if isinstance(node.op, ast.Div) and (isinstance(second, np.ndarray) or second):
            if right_low <= 0.0 <= right_high:
                return first / second, -math.inf, math.inf
            ends = [a / b for a in (low, high) for b in (right_low, right_high)]
            return first / second, min(ends), max(ends)
        if isinstance(node.op, ast.Pow) and right_low == right_high and right_low in range(1, 9):
            power = int(right_low)
            ends = [_power(low, power), _power(high, power)]
            minimum = 0.0 if power % 2 == 0 and low < 0.0 < high else min(ends)
            return _power(first, power), minimum, max(ends)
        raise InvalidInput(
            f"term {self.text!r}: powers are whole numbers from 1 to 8, and a divisor is not zero. "
            f"{ALLOWED}"
        )


def _power(base: Any, power: int) -> Any:
    """Raise to a whole power; infinite where Python raises because the result is too large."""
    try:
        return base**power
    except OverflowError:
        return -math.inf if base < 0.0 and power % 2 else math.inf
