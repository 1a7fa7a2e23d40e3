"""Every exception and warning of dpfast.

Each derives from :class:`DpfastError` and from the built-in exception a caller would expect.  No
message ever contains a number computed from records, nor what stands in an argument that may be
data by mistake: :func:`described` says what kind of thing it is.
"""

from __future__ import annotations

import sys
from functools import wraps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    Called = TypeVar("Called")

__all__ = [
    "BudgetExceeded",
    "DpfastError",
    "DpfastWarning",
    "EntropyFailure",
    "InferenceUnavailable",
    "InvalidBudget",
    "InvalidInput",
    "LedgerClosed",
    "LedgerCorrupted",
    "LedgerUnavailable",
    "MissingBound",
    "NotConverged",
    "RecordsUnavailable",
    "ResultWarning",
    "SimulationWarning",
    "UnsupportedConversion",
    "described",
    "dtype_name",
    "understood",
]


class DpfastError(Exception):
    """Base of every exception dpfast raises on purpose."""


class InvalidInput(DpfastError, ValueError):
    """An argument has a wrong shape, dtype or public value.  Nothing was spent."""


class MissingBound(InvalidInput):
    """A public bound is needed and was not passed; it is never estimated from the data."""


class NotConverged(DpfastError, RuntimeError):
    """A comparison without privacy found no minimum; nothing private raises it."""


class InvalidBudget(DpfastError, ValueError):
    """A privacy parameter is not a finite positive number in its range.  Nothing was spent."""


class RecordsUnavailable(DpfastError, RuntimeError):
    """Records could not be read in the middle of a query: a file changed or a cluster failed.

    The charge of that query stays, because a failure can follow from what was read; the answer was
    not given.  The message never holds anything that was read.
    """


class UnsupportedConversion(DpfastError, TypeError):
    """No provable conversion between these two privacy guarantees exists here."""


class BudgetExceeded(DpfastError, RuntimeError):
    """A ledger refused a charge.  Nothing was spent and no record was touched."""


class LedgerClosed(DpfastError, RuntimeError):
    """A copy of a ledger (pickled, deep-copied or inherited through fork) cannot spend."""


class LedgerCorrupted(DpfastError, RuntimeError):
    """A ledger file cannot be understood, so nothing may be spent from it."""


class LedgerUnavailable(DpfastError, OSError):
    """A ledger's file cannot be opened, locked, read or written; what was asked was not granted."""


class EntropyFailure(DpfastError, RuntimeError):
    """The entropy source returned bytes that are not random; no noise was drawn."""


class InferenceUnavailable(DpfastError, AttributeError):
    """Standard errors were not asked for in this fit, so they do not exist.

    An ``AttributeError``, so that ``hasattr(result, "bse")`` is simply False.
    """


class DpfastWarning(UserWarning):
    """Base of every warning dpfast emits; they depend on public and released values only."""


class SimulationWarning(DpfastWarning):
    """Noise from a seeded source carries no privacy guarantee."""


class BudgetWarning(DpfastWarning):
    """A budget that promises next to nothing, as far as public numbers say."""


class ResultWarning(DpfastWarning):
    """What makes a released result unreliable; it is also in the result's ``warnings``."""


LONGEST_TEXT = 80

#: Where the types are whose instances are shown: budgets, weights, optimisers; and losses, from
#: modules that list them.  Domains are not among them, because a box is made of vectors.
SETTINGS = (
    "dpfast.privacy.budget",
    *(f"dpfast.models.{name}" for name in ("custom", "free_scale", "objective", "weighting")),
    "dpfast.optimize.",
)


def described(value: object, *, text: bool = False) -> str:
    """Describe an argument for a message that must not show data.

    Shown unchanged: None, plain Python numbers (``int``, ``float`` and ``bool``), and dpfast's own
    settings, whose constructors have checked their content.  No subclass of a number is shown: a
    NumPy scalar may be an entry of an array.  A plain string is shown only where a string belongs
    (``text=True``: an option, a column, a formula, a path), because a person typed it there.  Where
    a number or an array belongs it may be a cell.  Everything else (arrays, frames, lists, tuples,
    sets, mappings, foreign objects) is named by its type and, if it has them, its shape and dtype.
    Its content is never shown.

    Parameters
    ----------
    value : object
    text : bool
        The argument is meant to be a string.

    Examples
    --------
    >>> from dpfast.errors import described
    >>> described(1.5), described([1.5, 2.5]), described("F", text=True), described("F")
    ('1.5', 'a list of length 2', "'F'", 'a str of length 1')
    """
    kind = type(value)
    if kind is int and value.bit_length() > 300:  # type: ignore[attr-defined]
        return f"an int of {value.bit_length()} bits"  # type: ignore[attr-defined]
    if value is None or kind in (bool, int, float):
        return repr(value)
    if text and type(value) is str:  # no subclass: NumPy's is an entry of an array
        return repr(value[:LONGEST_TEXT]) + ("..." if len(value) > LONGEST_TEXT else "")
    origin = kind.__module__.partition(".")[0]
    if kind.__module__.startswith(SETTINGS) or _is_loss(kind):
        return repr(value)
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if kind.__name__ in ("function", "builtin_function_or_method", "method"):
        return f"the function {getattr(value, '__qualname__', kind.__name__)}"
    name = kind.__name__ if origin in ("builtins", "__main__") else f"{origin}.{kind.__name__}"
    if origin == "pyarrow" and name.endswith("Array"):
        name = "pyarrow.Array"  # of whichever type, which Arrow may have found in the cells
    description = f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
    if kind in (str, bytes, list, tuple, dict, set, frozenset):
        return f"{description} of length {len(value)}"  # type: ignore[arg-type]
    if origin in ("numpy", "pandas", "polars", "pyarrow", "scipy", "dask"):
        facts = []
        shape = getattr(value, "shape", None) if kind.__name__ != "LazyFrame" else None
        if type(shape) is tuple and shape and all(type(size) is int for size in shape):
            facts.append(f"shape {shape}")
        if origin in ("numpy", "scipy") and hasattr(value, "dtype"):
            facts.append(f"dtype {dtype_name(value.dtype)}")  # a missing cell makes pandas' floats
        description += " of " * bool(facts) + " and ".join(facts)
    return description


def _is_loss(kind: type) -> bool:
    module = kind.__module__
    return module.startswith("dpfast.models.") and hasattr(sys.modules.get(module), "KINDS")


def dtype_name(dtype: object) -> str:
    """Return the name of a type without its parameters, which may depend on the cells.

    Parameters are categories, fields of a struct, lengths of text and of lists, the width of level
    numbers, digits of a decimal, units and zones of times, and the fill value of a sparse column.

    Parameters
    ----------
    dtype : object
        A type of NumPy, pandas, polars or Arrow.

    Examples
    --------
    >>> from dpfast.errors import dtype_name
    >>> dtype_name(np.array(["a", "Bb"]).dtype), dtype_name(np.dtype("float32"))
    ('str', 'float32')
    """
    name = getattr(dtype, "name", None)
    name = name if isinstance(name, str) else str(dtype)
    for bracket in "[(<{":
        name = name.partition(bracket)[0]
    name = name.removeprefix("large_").removesuffix("_view")  # of Arrow, for much text
    return name.rstrip("0123456789") if getattr(dtype, "char", "") in ("U", "S", "V") else name


class Hinted:
    """A base of classes that say what to type for an attribute that they lack."""

    if not TYPE_CHECKING:  # type checkers know what is missing by themselves

        def __getattr__(self, name):
            if name[:1] == "_" or hasattr(type(self), name):  # a property that refuses by itself
                return object.__getattribute__(self, name)
            from dpfast.hints import of_attribute  # only who asks for what there is not

            raise AttributeError(of_attribute(type(self), name))


def stack_level() -> int:
    """Return the level at which a warning points at the line that called the package."""
    level, frame = 2, sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("dpfast."):
        level, frame = level + 1, frame.f_back
    return level


def understood(called: Called) -> Called:
    """Make a function or class say what to type in place of a call with wrong arguments.

    The names of the arguments alone decide, after Python has refused them.

    Parameters
    ----------
    called : callable
        A class is changed in place; so are those that inherit its constructor.

    Examples
    --------
    >>> dpfast.GDP(epsilon=1.0)
    Traceback (most recent call last):
    TypeError: GDP() has no argument 'epsilon'. Write dpfast.GDP(1.0)...
    """
    if isinstance(called, type):
        called.__init__ = understood(called.__init__)  # type: ignore[misc]
        return called
    function: Any = called

    @wraps(function)
    def asked(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except TypeError:
            from dpfast.hints import instead  # only who asks for what there is not

            hint = instead(function, arguments, named)
            if not hint:  # the call was one: what it met inside is its own
                raise
        raise TypeError(hint)

    return asked  # type: ignore[return-value]
