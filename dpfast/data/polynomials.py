"""Columns of a design as polynomials in the columns that its terms multiply: public facts."""

from __future__ import annotations

import ast
from itertools import product
from typing import Any

from dpfast.data.arithmetic import Arithmetic
from dpfast.data.coding import Coding, Main

#: Factors of a product, sorted; a power repeats its factor.  Factors are columns, functions of
#: columns, or one of several columns that a factor stands for.
Monomial = tuple[str, ...]
Polynomial = dict[Monomial, float]

#: Largest degree, and number of terms, of an expression that is multiplied out.
MAX_DEGREE, MAX_TERMS = 8, 100


def polynomials(coding: Coding) -> list[Polynomial]:
    """Return each column of a design as a polynomial, in the order of the columns."""
    empty = {name: list[Any]() for name in coding.columns}
    result: list[Polynomial] = []
    for term in coding.terms:
        factors = [_columns_of(factor, empty, coding) for factor in term]
        # the first factor's columns vary fastest
        for parts in product(*reversed(factors)):
            column: Polynomial = {(): 1.0}
            for part in parts:
                column = _times(column, part)
            result.append(column)
    return result


def _columns_of(factor: Any, empty: Any, coding: Coding) -> list[Polynomial]:
    """Return the columns of one factor of a term."""
    if isinstance(factor, Arithmetic):
        return [_of_tree(factor._tree())]
    if isinstance(factor, Main) and coding.columns[factor.name].kind != "categorical":
        return [{(factor.name,): 1.0}]
    names = factor.encode(empty, coding.columns)[1]
    return [{(name,): 1.0} for name in names]


def _of_tree(node: ast.expr) -> Polynomial:
    """Multiply an expression out; a part that is not a polynomial is a factor of its own."""
    expanded = _expanded(node)
    if expanded is None or len(expanded) > MAX_TERMS or max(map(len, expanded)) > MAX_DEGREE:
        return {(ast.unparse(node),): 1.0}
    return expanded


def _expanded(node: ast.expr) -> Polynomial | None:
    """Multiply an expression out; return None if it is neither a sum nor a product."""
    if isinstance(node, ast.Constant):
        return {(): float(node.value)}  # type: ignore[arg-type]
    if isinstance(node, ast.Name):
        return {(node.id,): 1.0}
    if isinstance(node, ast.UnaryOp):
        inner = _of_tree(node.operand)
        return _scaled(inner, -1.0) if isinstance(node.op, ast.USub) else inner
    if not isinstance(node, ast.BinOp):
        return None
    left, right = _of_tree(node.left), _of_tree(node.right)
    constant = right.get((), 0.0) if right.keys() <= {()} else None
    if isinstance(node.op, ast.Add):
        return _sum(left, right)
    if isinstance(node.op, ast.Sub):
        return _sum(left, _scaled(right, -1.0))
    if isinstance(node.op, ast.Mult):
        return _times(left, right)
    if isinstance(node.op, ast.Div) and constant:
        return _scaled(left, 1.0 / constant)
    if isinstance(node.op, ast.Pow) and constant is not None:
        power: Polynomial = {(): 1.0}
        for _ in range(int(constant)):
            power = _times(power, left)
        return power
    return None


def _sum(first: Polynomial, second: Polynomial) -> Polynomial:
    return {key: first.get(key, 0.0) + second.get(key, 0.0) for key in {**first, **second}}


def _scaled(terms: Polynomial, by: float) -> Polynomial:
    return {key: by * value for key, value in terms.items()}


def _times(first: Polynomial, second: Polynomial) -> Polynomial:
    result: Polynomial = {}
    for (one, a), (other, b) in product(first.items(), second.items()):
        key = tuple(sorted(one + other))
        result[key] = result.get(key, 0.0) + a * b
    return result
