"""Checks of public arguments; what is refused is not shown."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpfast.errors import InvalidInput, described

Array = NDArray[np.float64]
FLOAT64 = np.dtype(np.float64)

#: Up to here every whole number is one of float64's; no argument is larger.
LARGEST_WHOLE = 2**53

#: Range in which a declared public constant keeps every kernel free of overflow.
CONSTANT_RANGE = (1e-100, 1e100)

Thing = TypeVar("Thing")


def real_array(value: Any, name: str) -> Array:
    """Return a public argument as a float64 array; refuse other than real numbers, unseen."""
    if type(value) is np.ndarray and value.dtype == FLOAT64:
        return value
    try:
        array = np.asarray(value)
        if array.dtype.kind in "iufbO":
            with np.errstate(all="ignore"):  # a signalling NaN must not warn about itself
                return np.asarray(array, dtype=np.float64)
    except Exception:
        pass  # raised below without its context, which may quote a value
    raise InvalidInput(f"{name} must hold real numbers; received {described(value)}.")


def real_number(value: Any, name: str) -> float:
    """Return a public argument as a float; refuse all else, unseen."""
    try:
        if not hasattr(value, "__len__") or getattr(value, "shape", None) == ():  # no text, no list
            return float(value)
    except Exception:
        pass  # raised below without its context, which may quote a value
    raise InvalidInput(f"{name} must be a number; received {described(value)}.")


def _inside(value: Any, name: str, interval: str, allowed: str) -> float:
    """Return a number in an interval, whose brackets say which ends are included."""
    number = float("nan") if isinstance(value, (bool, np.bool_)) else real_number(value, name)
    low, high = map(float, interval[1:-1].split(","))
    above = low <= number if interval[0] == "[" else low < number
    if above and (number <= high if interval[-1] == "]" else number < high):
        return number
    raise InvalidInput(f"{name} must {allowed}; received {described(value)}.")


def number_in(value: Any, name: str, interval: str) -> float:
    """Return a public argument in an interval, written as usual: "[0, 1)"."""
    return _inside(value, name, interval, f"lie in {interval}")


def positive(value: Any, name: str, *, or_zero: bool = False) -> float:
    """Return a public argument that is finite and positive (or 0, with ``or_zero``)."""
    if or_zero:
        return _inside(value, name, "[0, inf)", "be at least 0 and finite")
    return _inside(value, name, "(0, inf)", "be positive and finite")


def whole_number(
    value: Any, name: str, least: int = 0, most: int = LARGEST_WHOLE, *, otherwise: str = ""
) -> int:
    """Return a public argument as an int; ``otherwise`` says what else a caller allows."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if whole and least <= value <= most:
        return int(value)
    told = most < LARGEST_WHOLE or (whole and value > most)
    allowed = f"from {least} to {most}" if told else f"of at least {least}"
    raise InvalidInput(
        f"{name} must be a whole number {allowed}{otherwise}; received {described(value)}."
    )


def one_of(value: Any, options: Sequence[str | None], name: str, *, otherwise: str = "") -> Any:
    """Return a public argument that is one of some words; no method of a caller's compares."""
    if value is None or type(value) is str:
        if value in options:
            return value
    elif isinstance(value, str) and str.__str__(value) in options:  # NumPy's text, an enum's
        return str.__str__(value)
    raise InvalidInput(
        f"{name} must be one of {tuple(options)}{otherwise}; received "
        f"{described(value, text=True)}."
    )


def suggested(value: Any, names: Sequence[str], elsewhere: Mapping[str, str]) -> str:
    """Write the end of a refusal: the name that was mistyped, or is called so elsewhere."""
    if type(value) is not str:
        return ""
    from difflib import get_close_matches

    word = value[:80].strip().lower().replace("_", "-").replace(" ", "-")
    aliases = [name for name in names if word in elsewhere.get(name, "").split()]
    matches = aliases or get_close_matches(word, names, 1)
    return f" Did you mean {matches[0]!r}?" if matches else ""


def did_you_mean(value: Any, names: Sequence[str]) -> str:
    """Ask, in parentheses, whether the nearest of some public names was meant; "" if none is."""
    if type(value) is not str or len(value) > 80:
        return ""
    from difflib import get_close_matches

    near = get_close_matches(value, names, 1)
    if not near:  # names of tables often differ in case alone
        near = [name for name in names if name.lower() == value.lower()][:1]
    return f" (did you mean {near[0]!r}?)" if near else ""


def names_given(value: Any, name: str) -> list[str]:
    """Return a public argument of names, of which one may stand alone."""
    texts: list[Any] = [value]
    if type(value) is not str:
        texts = list(value) if isinstance(value, list | tuple) else [None]
    if not all(type(text) is str for text in texts):
        raise InvalidInput(
            f"{name} must be a name or a list of names; received {described(value)}."
        )
    return texts


def function(value: Any, name: str, of: str) -> Callable[..., Any]:
    """Return a public argument that can be called."""
    if not callable(value):
        raise InvalidInput(f"{name} must be a function of {of}; received {described(value)}.")
    return value


def file_path(value: Any, name: str) -> str:
    """Return a public argument that names a file."""
    if isinstance(value, (str, bytes, os.PathLike)):
        with suppress(Exception):  # a name that no file can have
            path = os.fsdecode(value)
            if path and "\0" not in path and os.fsencode(path):
                return path
    raise InvalidInput(
        f"{name} must be the path of a file; received {described(value, text=True)}."
    )


def text_names(value: Any, count: int, what: str) -> tuple[str, ...]:
    """Return a public argument of ``count`` names."""
    texts: tuple[Any, ...] = ()
    if not isinstance(value, str):
        with suppress(Exception):  # refused below without its context, which may quote a value
            texts = tuple(value)
    if len(texts) != count or not all(isinstance(name, str) for name in texts):
        raise InvalidInput(
            f"names must be {count} strings, one for each {what}; received {described(value)}."
        )
    for i, name in enumerate(texts):
        if not _is_unicode(name):
            raise InvalidInput(
                f"names[{i}], of a {what}, is no Unicode text (half of a surrogate pair is in it): "
                "no file, screen or data frame would take it. Rename it."
            )
    return texts


def _is_unicode(text: str) -> bool:
    """Tell whether a text can be printed and written: half of a surrogate pair cannot."""
    try:
        str.encode(text)
    except UnicodeEncodeError:
        return False
    return True


def flag(value: Any, name: str) -> bool:
    """Return a public argument that is True or False (1 or 0)."""
    if isinstance(value, (bool, np.bool_)) or (type(value) is int and value in (0, 1)):
        return bool(value)
    raise InvalidInput(f"{name} must be True or False; received {described(value)}.")


def detached(thing: Thing) -> Thing:
    """Copy an object with attributes as ``copy.copy`` does, without its detour through pickling."""
    copied = object.__new__(type(thing))
    copied.__dict__ = thing.__dict__.copy()
    return copied


def refuse_own_class(thing: object, remedy: str) -> None:
    """Refuse classes that inherit their number in the kernels, which see no changes (claim C12)."""
    if "code" not in vars(type(thing)):
        raise InvalidInput(
            f"{type(thing).__name__} is derived from a class of dpfast, whose functions the "
            f"compiled kernels would go on using. {remedy}"
        )


def check_constant(value: object, name: str, meaning: str) -> float:
    """Return a public positive constant as a float, or refuse it with the reason."""
    low, high = CONSTANT_RANGE
    if type(value) is float and low <= value <= high:
        return value  # the usual case
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise InvalidInput(
            f"{name} must be a number ({meaning}); received {described(value)} of type "
            f"{type(value).__name__}. Pass a positive public number."
        )
    try:
        number = float(value)
    except OverflowError:  # an int may be too long
        number = math.inf
    if not low <= number <= high:
        raise InvalidInput(
            f"{name} must lie in [{low:g}, {high:g}] ({meaning}); received {described(value)}. "
            "Pass a positive, finite public number."
        )
    return number


def refuse_names(X: Any, y: Any) -> None:
    """Refuse a name or a formula in the place of y, and X and y the other way round."""
    if isinstance(y, str) and not hasattr(X, "__dask_graph__"):  # these name their columns
        raise InvalidInput(
            "the formula comes first: dpfast.fit('response ~ terms', table, privacy=...)."
            if "~" in y
            else "y is the response itself, not the name of a column. Write a formula, "
            "dpfast.fit('response ~ x1 + x2', table, privacy=...), or pass table['response']."
        )
    ndim = [getattr(values, "ndim", None) for values in (X, y)]
    if ndim == [1, 2]:
        raise InvalidInput(
            "X has one dimension and y has two: X comes first, then y. Write "
            "dpfast.fit(X, y, ...), with X of shape (n, q) and y of shape (n,)."
        )
