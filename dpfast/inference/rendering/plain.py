"""Results as plain values for JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """Return lists, dictionaries, text and numbers; None for numbers that are not finite."""
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
    return str(value)  # a paid result must not be lost for its type


def plain_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result's fields as plain values; numbers that are not finite stay."""
    return {name: _plain(value) for name, value in fields.items()}


def _plain(value: Any) -> Any:
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return plain_fields(value)
    return value.tolist() if isinstance(value, np.ndarray) else value
