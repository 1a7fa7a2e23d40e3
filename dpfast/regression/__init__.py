"""Regressions: private fits, their forecast, and the same fit without privacy."""

from typing import TYPE_CHECKING

from dpfast.lazy import lazy_getattr

if TYPE_CHECKING:
    from dpfast.regression.forecast import Plan
    from dpfast.regression.quantiles.results import QuantileFits
    from dpfast.regression.standardise import Standardized

#: Where each name lives; a test holds it against the imports above.
_HOMES = {
    ".forecast": "Plan",
    ".quantiles.results": "QuantileFits",
    ".standardise": "Standardized",
}

__all__ = [
    "Plan",
    "QuantileFits",
    "Standardized",
]

__getattr__ = lazy_getattr(__name__, _HOMES)
