"""Formulas with instruments, ``"y ~ x + w | z + w"``, and the columns of either part."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from dpfast.data.coding import Coding
from dpfast.data.formula import coded_terms, parts_at, sides
from dpfast.errors import InvalidInput, described

#: Refusal of a table whose levels are coded otherwise in one part than in both.
ENTANGLED = (
    "products of levels are coded by the other terms of the formula, and here the two parts code "
    "them differently. Write the factors of each product as terms of both parts."
)


class Equations(NamedTuple):
    """A formula with instruments: that of all columns, and those of its two parts."""

    response: str
    formula: str
    regressors: str
    instruments: str


class Roles(NamedTuple):
    """Positions of the design's columns: exogenous, excluded instruments, endogenous."""

    exogenous: list[int]
    excluded: list[int]
    endogenous: list[int]


def equations_of(formula: Any) -> Equations:
    """Split a formula with instruments at its bar; no table is needed."""
    parts = parts_at("|", formula) if type(formula) is str else []
    if len(parts) != 2:
        raise InvalidInput(
            "formula must be text with one bar, 'y ~ x + w | z + w': regressors, and after the bar "
            f"the instruments with the exogenous regressors; received {described(formula)}. Levels "
            "to absorb are written in both parts, C(state, levels=[...])."
        )
    left = parts_at("~", parts[0])[0]
    written = Equations(
        left.strip().strip("`"), f"{parts[0]} + {parts[1]}", parts[0], f"{left} ~ {parts[1]}"
    )
    if not all(intercept for _, _, intercept in map(sides, written[2:])):
        raise InvalidInput("two_stage has an intercept, which is its own instrument.")
    terms = [[frozenset(term) for term in sides(part)[1]] for part in written[2:]]
    if set(terms[0]) <= set(terms[1]):
        raise InvalidInput(
            "every regressor is among the instruments: that is least squares. Use dpfast.fit."
        )
    return written


def roles_of(coding: Coding, equations: Equations) -> Roles:
    """Find the columns of either part in the design of both, by public facts."""
    regressors, instruments = (coded_terms(part, coding) for part in equations[2:])
    if {*regressors, *instruments} != {*coding.terms}:
        raise InvalidInput(ENTANGLED)
    roles = Roles([], [], [])
    first = 0
    empty: dict[str, list[Any]] = {name: [] for name in coding.columns}
    for term in coding.terms:
        width = math.prod([factor.encode(empty, coding.columns)[0].shape[1] for factor in term])
        role = roles[1 if term not in regressors else 0 if term in instruments else 2]
        role.extend(range(first, first + width))
        first += width
    if len(roles.excluded) < len(roles.endogenous):
        raise InvalidInput(
            f"{len(roles.endogenous)} endogenous regressors need as many instruments at least, "
            f"which are no regressors; received {len(roles.excluded)}."
        )
    return roles
