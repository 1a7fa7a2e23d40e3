"""Linear combinations of coefficients by their names, and equations in them.

Texts mean what they mean in formulaic and patsy, which may be missing and take less: formulaic 1.2
drops the end of ``a = b = 0`` in silence and reads no ``1e-3``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpfast.arguments import Array, did_you_mean, real_array, real_number
from dpfast.errors import InvalidInput, described
from dpfast.inference.rendering.editing import factor_of

#: One linear combination of coefficients.
Combination = str | Mapping[str, float]

_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")

#: What may follow a name that ends.
_ENDS = " \t+-*/=,)"

#: A factor alone, or equal to zero.
_FACTOR = re.compile(r"\s*([^,=]+?)\s*(=\s*0(?:\.0*)?\s*)?(?=,|$)")

_OF_LEVELS = re.compile(r"^C\(\s*(.*?)\s*\)$")

#: A text has at most so many open parentheses at a time.
_DEEPEST = 50


class _Affine(NamedTuple):
    """A linear combination of coefficients plus a constant."""

    row: Array
    constant: float

    @property
    def is_number(self) -> bool:
        return not self.row.any()

    def plus(self, other: _Affine, sign: float = 1.0) -> _Affine:
        return _Affine(self.row + sign * other.row, self.constant + sign * other.constant)

    def times(self, factor: float) -> _Affine:
        return _Affine(self.row * factor, self.constant * factor)


def by_name(
    restriction: ArrayLike | Combination | Sequence[Combination],
    names: tuple[str, ...],
    value: ArrayLike = 0.0,
) -> tuple[Any, Any]:
    """Read rows of weights and the values they are compared with."""
    if isinstance(restriction, str | Mapping):
        pairs = _rows(restriction, names, described(restriction, text=True))
    elif isinstance(restriction, list | tuple) and any(
        isinstance(part, str | Mapping) for part in restriction
    ):
        # A list may be cells by mistake: an entry is called by its place.
        listed = enumerate(restriction)
        pairs = [row for i, part in listed for row in _rows(part, names, f"entry {i} of the list")]
    else:
        return restriction, value
    if any(target is not None for _, target in pairs):
        if real_array(value, "value").any():
            raise InvalidInput(
                'equations have their values behind "=": pass either value=... or "=", not both.'
            )
        value = [0.0 if target is None else target for _, target in pairs]
    return np.array([row for row, _ in pairs]), value


def written(row: Array, names: tuple[str, ...]) -> str:
    """Write a linear combination by the names of its coefficients."""
    terms = []
    for weight, name in zip(row.tolist(), names, strict=True):
        if weight:
            size = "" if abs(weight) == 1.0 else f"{abs(weight):.6g}*"
            terms.append(f"{'-' if weight < 0.0 else '+'} {size}{name}")
    text = " ".join(terms) or "0"
    return f"-{text[2:]}" if text[:2] == "- " else text.removeprefix("+ ")


def _rows(
    combination: Any, names: tuple[str, ...], called: str
) -> list[tuple[Array, float | None]]:
    """Read rows of weights, each with its value if there is an equation."""
    if isinstance(combination, str):
        if combination in names:  # whatever else it could mean
            return [(_unit(combination, names), None)]
        return _Text(combination, names, called).equations()
    if not isinstance(combination, Mapping):
        raise InvalidInput(
            "linear combinations are all texts and mappings of names to weights, or all numbers; "
            f"received {described(combination)} among them."
        )
    row = np.zeros(len(names))
    for name, weight in combination.items():
        row[_place(name, names)] += real_number(weight, "a weight")
    return [(row, None)]


def _unit(name: str, names: tuple[str, ...]) -> Array:
    """Return the row of one coefficient."""
    return np.eye(len(names))[_place(name, names)]


def _place(name: Any, names: tuple[str, ...]) -> int:
    if name not in names:
        raise InvalidInput(
            f"there is no coefficient {described(name, text=True)}{did_you_mean(name, names)}; "
            f"they are {list(names)}."
        )
    if names.count(name) > 1:
        raise InvalidInput(
            f"{names.count(name)} coefficients are called {described(name, text=True)}. Pass "
            "an array of weights, in the order of names."
        )
    return names.index(name)


def _pattern(name: str) -> re.Pattern[str]:
    """Match a name as it is or between backticks; of a term in parentheses with other spaces."""
    exact = re.escape(name)
    if "(" in name:
        exact = r"\s*".join(map(re.escape, name.replace(" ", "")))
    return re.compile(f"`{exact}`|{exact}")


class _Text:
    """A recursive-descent parser: ``equations > sum > product > factor``."""

    def __init__(self, text: str, names: tuple[str, ...], called: str) -> None:
        self._rest = text.strip()
        self._names = names
        longest = sorted(names, key=len, reverse=True)
        self._patterns = {name: _pattern(name) for name in longest if name}
        self._called = called
        self._open = 0
        self._named = False  # whether an equation has a name so far

    def equations(self) -> list[tuple[Array, float | None]]:
        with np.errstate(all="ignore"):  # what is not finite is refused as a row of weights
            read = self._part()
            while self._take(","):
                read += self._part()
        if self._rest:
            raise self._refusal()
        return read

    def _part(self) -> list[tuple[Array, float | None]]:
        """Read an equation, or a factor, which is an equation for each of its levels."""
        match = _FACTOR.match(self._rest)
        factor = "" if match is None else _OF_LEVELS.sub(r"\1", match[1])
        levels = [name for name in self._names if factor and factor_of(name) == factor]
        if match is None or not levels or factor in self._names:
            return [self._equation()]
        self._rest = self._rest[match.end() :].lstrip()
        value = None if match[2] is None else 0.0
        return [(_unit(name, self._names), value) for name in levels]

    def _equation(self) -> tuple[Array, float | None]:
        self._named = False
        left_side = self._sum()
        if self._take("="):
            difference = left_side.plus(self._sum(), -1.0)
            return difference.row, -difference.constant
        if left_side.constant or (left_side.is_number and not self._named):
            raise self._refusal()  # without "=" a number would be a hypothesis or a shift
        return left_side.row, None

    def _sum(self) -> _Affine:
        sign = self._sign()
        total = self._product().times(1.0 if sign is None else sign)
        while (sign := self._sign()) is not None:
            total = total.plus(self._product(), sign)
        return total

    def _product(self) -> _Affine:
        product, adjacent = self._factor(), True
        while True:
            if self._take("*"):
                factor, adjacent = self._factor(), False
            elif self._take("/"):
                factor = self._factor()
                if not factor.is_number:
                    raise self._refusal()
                product = product.times(float(np.divide(1.0, factor.constant)))
                continue
            elif adjacent and product.is_number and self._begins_factor():  # "2 educ"
                factor, adjacent = self._factor(), False
            else:
                return product
            if product.is_number:
                product, factor = factor, product
            if not factor.is_number:
                raise self._refusal()
            product = product.times(factor.constant)

    def _factor(self) -> _Affine:
        name = next(filter(self._begins, self._patterns), None)
        if name is not None:
            self._rest = self._rest[self._begins(name) :].lstrip()
            self._named = True
            return _Affine(_unit(name, self._names), 0.0)
        if self._take("("):
            self._open += 1
            if self._open > _DEEPEST:
                raise self._refusal()
            inner = self._sum()
            self._open -= 1
            if not self._take(")"):
                raise self._refusal()
            return inner
        number = _NUMBER.match(self._rest)
        if number is None:
            raise self._refusal()
        self._rest = self._rest[number.end() :].lstrip()
        return _Affine(np.zeros(len(self._names)), float(number.group()))

    def _sign(self) -> float | None:
        if self._take("+"):
            return 1.0
        return -1.0 if self._take("-") else None

    def _take(self, sign: str) -> bool:
        if not self._rest.startswith(sign):
            return False
        self._rest = self._rest[len(sign) :].lstrip()
        return True

    def _begins_factor(self) -> bool:
        return self._rest.startswith("(") or any(map(self._begins, self._patterns))

    def _begins(self, name: str) -> int:
        """Return the length of this name at the beginning of the rest; 0 if it is not there."""
        match = self._patterns[name].match(self._rest)
        if match is None:
            return 0
        following = self._rest[match.end() : match.end() + 1]
        return match.end() if not following or following in _ENDS else 0

    def _refusal(self) -> InvalidInput:
        return InvalidInput(
            f"{self._called} is neither a sum of coefficients nor an equation of such sums"
            f"{did_you_mean(self._rest.partition('=')[0].strip(), self._names)}: they are "
            f'{list(self._names)}. Write it like "first - 2*second" or "first = second", or '
            "as a mapping of names to weights."
        )
