"""What stands beside a record's response: its own weight and its offset, private as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpfast.data.beside.given import Beside

__all__ = ["beside"]


def beside(weight: Any, largest_weight: Any, offset: Any, of_predictor: bool) -> Beside | None:
    """What was passed, checked (:func:`dpfast.data.beside.given.beside`); None if it is nothing."""
    if weight is None and largest_weight is None and offset is None:
        return None
    from dpfast.data.beside import given

    return given.beside(weight, largest_weight, offset, of_predictor)
