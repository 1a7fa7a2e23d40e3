"""Linear combinations of coefficients by their names: ``"educ - 2 exper"``, ``{"educ": 1.0}``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast.arguments import real_number
from dpfast.errors import InvalidInput, described

__all__ = ["Combination", "by_name"]

#: One linear combination of coefficients.
Combination = str | Mapping[str, float]

_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def by_name(
    restriction: ArrayLike | Combination | Sequence[Combination], names: tuple[str, ...]
) -> Any:
    """Rows of weights for what is written in names; anything else as it is.

    Parameters
    ----------
    restriction : str, mapping of str to float, sequence of these, or array-like
        A sum of names of coefficients, each with a number before or after it if it has a weight:
        ``"educ - exper"``, ``"2*educ + 0.5 exper"``, ``"educ/3"``.  Of names that begin alike the
        longest counts.
    names : tuple of str
        Those of the coefficients.
    """
    if isinstance(restriction, str | Mapping):
        return _row(restriction, names, described(restriction, text=True))
    if isinstance(restriction, list | tuple) and any(
        isinstance(part, str | Mapping) for part in restriction
    ):
        # A list may be cells by mistake: an entry is called by its place.
        listed = enumerate(restriction)
        return np.array([_row(part, names, f"entry {i} of the list") for i, part in listed])
    return restriction


def _row(combination: Any, names: tuple[str, ...], called: str) -> NDArray[np.float64]:
    if isinstance(combination, str):
        terms = _parsed(combination, names, called)
    elif isinstance(combination, Mapping):
        terms = [(name, real_number(w, "a weight")) for name, w in combination.items()]
    else:
        raise InvalidInput(
            "linear combinations are all texts and mappings of names to weights, or all numbers; "
            f"received {described(combination)} among them."
        )
    row = np.zeros(len(names))
    for name, weight in terms:
        if name not in names:
            raise InvalidInput(
                f"there is no coefficient {described(name, text=True)}; they are {list(names)}."
            )
        if names.count(name) > 1:
            raise InvalidInput(
                f"{names.count(name)} coefficients are called {described(name, text=True)}. Pass "
                "an array of weights, in the order of names."
            )
        row[names.index(name)] += weight
    return row


def _parsed(text: str, names: tuple[str, ...], called: str) -> list[tuple[str, float]]:
    """Names and their weights, in order."""
    if text in names:  # whatever else it could mean
        return [(text, 1.0)]
    longest = sorted(names, key=len, reverse=True)
    terms: list[tuple[str, float]] = []
    rest = text.strip()
    while rest or not terms:
        sign, rest = _sign(rest, first=not terms)
        weight, rest = _number(rest, before=True)
        name = next((name for name in longest if _begins(rest, name)), None)
        if name is None or sign is None:
            raise InvalidInput(
                f"{called} is no sum of coefficients: they are {list(names)}. "
                'Write it like "first - 2*second", or as a mapping of names to weights.'
            )
        rest = rest[len(name) :].lstrip()
        more, rest = _number(rest, before=False)
        terms.append((name, sign * weight * more))
    return terms


def _sign(text: str, first: bool) -> tuple[float | None, str]:
    if text[:1] in ("+", "-"):
        return (-1.0 if text[0] == "-" else 1.0), text[1:].lstrip()
    return (1.0 if first else None), text


def _number(text: str, before: bool) -> tuple[float, str]:
    """A factor before a name, or one after it; 1 if there is none."""
    operator = "" if before else text[:1]
    if not before and operator not in ("*", "/"):
        return 1.0, text
    found = _NUMBER.match(text[len(operator) :].lstrip())
    if found is None:
        return (1.0, text) if before else (np.nan, text)
    value, rest = float(found.group()), text[len(operator) :].lstrip()[found.end() :].lstrip()
    if before and rest.startswith("*"):
        rest = rest[1:].lstrip()
    with np.errstate(all="ignore"):
        return (float(np.divide(1.0, value)) if operator == "/" else value), rest


def _begins(text: str, name: str) -> bool:
    """Whether a text begins with a name, and not with a longer word."""
    following = text[len(name) : len(name) + 1]
    return bool(name) and text.startswith(name) and (not following or following in " \t+-*/")
