"""Spline terms of formulas: B-splines and natural cubic splines between public knots."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, TypeGuard

import numpy as np

from dpfast.arguments import Array
from dpfast.data.coding import Column, Encoded
from dpfast.data.columns import column, numbers
from dpfast.data.schema import Numeric, Schema
from dpfast.errors import InvalidInput, described

#: Most inner knots of a spline: each is one column of the design.
MAX_KNOTS = 100

#: Bound on the size of a knot: cubes of larger ones leave float64.
MAX_KNOT = 1e100

#: Arguments of each spline after its column, as patsy and formulaic have them.
_BOUNDS = ("knots", "lower_bound", "upper_bound", "extrapolation")
SPLINES = {"bs": (*_BOUNDS, "degree", "include_intercept"), "cr": _BOUNDS, "ns": _BOUNDS}


@dataclass(frozen=True)
class Spline:
    """Piecewise polynomials of a column in its own units, between public knots.

    B-splines (de Boor 1978, *A Practical Guide to Splines*), or natural cubic splines that take the
    value 1 at one knot and 0 at the others.
    """

    what: str
    name: str
    knots: tuple[float, ...]
    degree: int
    whole: bool
    every_level: bool = False
    own_units: ClassVar[bool] = True

    def _basis(self) -> Any:
        from scipy.interpolate import BSpline, make_interp_spline

        knots = np.array(self.knots)
        if self.what != "bs":
            return make_interp_spline(knots, np.eye(len(knots)), 3, bc_type="natural")
        knots = np.pad(knots, self.degree, "edge")
        return BSpline(knots, np.eye(len(knots) - self.degree - 1), self.degree)

    def derivatives(self, table: Any) -> Array:
        """Differentiate the columns by the number in the column; 0 beyond the ends."""
        x = numbers(column(table, self.name), self.name)
        low, *_, high = self.knots
        with np.errstate(all="ignore"):
            clipped = np.where(np.isfinite(x), np.clip(x, low, high), np.nan)
            slopes = self._basis().derivative()(clipped) * ((low <= x) & (x <= high))[:, None]
        return np.asarray(slopes[:, int(not self.every_level) :])

    def encode(self, table: Any, columns: Mapping[str, Column] | Schema) -> Encoded:
        x = numbers(column(table, self.name), self.name)
        ends = self.knots[0], self.knots[-1]
        with np.errstate(all="ignore"):
            basis = self._basis()
            clipped = np.where(np.isfinite(x), np.clip(x, *ends), np.nan)
            # B-splines are nonnegative and sum to one: coefficients bound their weighted sums
            low = basis.c.min(axis=0)
            high = basis.c.max(axis=0)
            values = np.clip(basis(clipped), low, high)
        first = int(not self.every_level)
        names = [f"{self.what}({self.name})[{j}]" for j in range(first, len(low))]
        return values[:, first:], names, np.column_stack([low, high])[first:]


def is_spline(tree: ast.expr | None) -> TypeGuard[ast.Call]:
    """Test for a call of one of the spline functions."""
    return (
        isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id in SPLINES
    )


def parse_spline(tree: ast.Call, text: str, schema: Schema) -> Spline:
    """Parse a spline; its knots and ends are public: written down, or declared with the column."""
    kind = tree.func.id  # type: ignore[attr-defined]
    degree_usage = ", degree=3" if kind == "bs" else ""
    usage = f"{kind}(x, knots=[...]{degree_usage}, lower_bound=..., upper_bound=...)"
    if not (len(tree.args) == 1 and isinstance(tree.args[0], ast.Name)):
        raise InvalidInput(f"{text!r}: a spline is of one column, all else by name: {usage}.")
    name = tree.args[0].id
    options = _options(tree, text, kind, usage)
    declared = schema[name]
    if declared.kind not in ("numeric", "released"):
        raise InvalidInput(f"{text!r}: column {name!r} is {declared.kind}, and no number.")
    if options.get("extrapolation", "clip") != "clip":
        raise InvalidInput(
            f"{text!r}: values beyond the ends are taken for the ends, extrapolation='clip'."
        )
    knots = _knots(options, declared, text, usage, at_least=0 if kind == "bs" else 1)
    degree = options.get("degree", 3)
    if type(degree) is not int or not 0 <= degree <= 5:
        raise InvalidInput(f"{text!r}: the degree of a spline is from 0 to 5.")
    spans_constant = kind == "cr" or options.get("include_intercept", False) is True
    spline = Spline(kind, name, knots, degree, spans_constant)
    try:
        is_finite = bool(np.isfinite(spline.encode({name: []}, schema)[2]).all())
    except (ValueError, np.linalg.LinAlgError):
        is_finite = False
    if not is_finite:
        raise InvalidInput(f"{text!r}: these knots lie too close together.")
    return spline


def _options(tree: ast.Call, text: str, kind: str, usage: str) -> dict[str, Any]:
    """Evaluate the keyword arguments of a spline, which must be literals."""
    options: dict[str, Any] = {}
    for keyword in tree.keywords:
        if keyword.arg == "df":
            raise InvalidInput(
                f"{text!r}: df puts knots at quantiles of the data, which are private. Write them "
                f"down, from what is publicly known: {usage}."
            )
        if keyword.arg not in SPLINES[kind]:
            raise InvalidInput(
                f"{text!r}: {kind} has no argument {keyword.arg!r}; it has "
                f"{', '.join(SPLINES[kind])}."
            )
        try:
            options[keyword.arg] = ast.literal_eval(keyword.value)
        except (ValueError, TypeError) as error:
            raise InvalidInput(
                f"{text!r}: write the numbers themselves, {keyword.arg}=..., not names for them."
            ) from error
    return options


def _knots(
    options: dict[str, Any], declared: Column, text: str, usage: str, at_least: int
) -> tuple[float, ...]:
    """Return both ends of a spline and its inner knots between them."""
    low = options.get("lower_bound", declared.low if isinstance(declared, Numeric) else None)
    high = options.get("upper_bound", declared.high if isinstance(declared, Numeric) else None)
    if low is None or high is None:
        raise InvalidInput(
            f"{text!r}: where the column ends is a private fact of the data. Write what is "
            f"publicly known: {usage}."
        )
    inner = options.get("knots", ())
    inner = list(inner) if isinstance(inner, list | tuple) else [inner]
    knots = [low, *inner, high]
    if (
        not all(type(knot) in (int, float) and abs(knot) < MAX_KNOT for knot in knots)
        or not all(float(a) < float(b) for a, b in pairwise(knots))
        or not at_least <= len(inner) <= MAX_KNOTS
    ):
        raise InvalidInput(
            f"{text!r}: knots are {at_least} to {MAX_KNOTS} numbers that increase between the "
            f"ends, {described(low)} and {described(high)} here: {usage}."
        )
    return tuple(map(float, knots))
