"""Every exception and warning of dpfast.

All exceptions derive from :class:`DpfastError` and from the built-in exception a caller would
expect, so ``except ValueError`` keeps working.  Messages say what was wrong, what was received,
what is allowed and what to do.  No message ever contains a number computed from records.
"""

from __future__ import annotations

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
    "MissingBound",
    "RecordsUnavailable",
    "SimulationWarning",
    "UnsupportedConversion",
]


class DpfastError(Exception):
    """Base of every exception dpfast raises on purpose."""


class InvalidInput(DpfastError, ValueError):
    """An argument has a wrong shape, dtype or public value.  Nothing was spent."""


class MissingBound(InvalidInput):
    """A public bound is needed and was not passed; it is never estimated from the data."""


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


class EntropyFailure(DpfastError, RuntimeError):
    """The entropy source returned bytes that are not random; no noise was drawn."""


class InferenceUnavailable(DpfastError, AttributeError):
    """Standard errors were not bought in this fit, so they do not exist.

    An ``AttributeError``, so that ``hasattr(result, "bse")`` is simply False.
    """


class DpfastWarning(UserWarning):
    """Base of every warning dpfast emits; they depend on public values only."""


class SimulationWarning(DpfastWarning):
    """Noise from a seeded source carries no privacy guarantee."""
