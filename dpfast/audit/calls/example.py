"""A call to audit, and the losses and weightings that calls are made with."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from dpfast.models import (
    Bounded,
    Clip,
    Mallows,
    resolve_loss,
)
from dpfast.models.names import LOSSES as BUILT_IN
from dpfast.privacy.budget import Budget

__all__ = [
    "BINARY",
    "CONCORDANT",
    "CURVED",
    "LOSSES",
    "OTHERS",
    "REDESCENDING",
    "SCALED",
    "WEIGHTS",
    "Example",
]


class Example(NamedTuple):
    """One call to audit.

    Attributes
    ----------
    name : str
        Qualified name of the public callable.
    label : str
        Which options it is called with.
    call : callable
        Takes ``(X, y)`` with two covariates.
    binary : bool
        Whether y must be in {0, 1}.
    budget : budget
        What the call claims to spend.
    """

    name: str
    label: str
    call: Callable[[Any], Any]
    binary: bool
    budget: Budget


#: Losses that are tried with every option, and the rest of the built-in ones.
LOSSES = ("huber", "log-cosh", "pseudo-huber", "logistic")
OTHERS = tuple(name for name in BUILT_IN if name not in LOSSES)
REDESCENDING = tuple(name for name in OTHERS if not resolve_loss(name).has_curvature)
CURVED = tuple(name for name in OTHERS if name not in REDESCENDING)
SCALED = tuple(name for name, kind in BUILT_IN.items() if kind.scale_part is not None)
CONCORDANT = tuple(name for name in LOSSES if resolve_loss(name).self_concordance < math.inf)
BINARY = frozenset(name for name, kind in BUILT_IN.items() if kind.binary_response)
WEIGHTS = (None, Mallows(1.5), Bounded(1.5), Clip(0.8))
