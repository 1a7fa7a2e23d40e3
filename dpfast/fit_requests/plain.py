"""What was found, as plain values for JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """Lists, dictionaries, text, numbers; None for what is not finite, which JSON does not know."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    return str(value)  # what was paid for is not lost for its type


def plain_of(found: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a result as lists, dictionaries, text and numbers; what is not finite stays."""
    return {name: _plain(value) for name, value in found.items()}


def _plain(value: Any) -> Any:
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return plain_of(value)
    return value.tolist() if isinstance(value, np.ndarray) else value
