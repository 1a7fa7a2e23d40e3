"""The losses and weightings that calls to audit are made with."""

from __future__ import annotations

import math

from dpfast.audit.selfcheck import Example
from dpfast.models import Bounded, Clip, Mallows, resolve_loss
from dpfast.models.names import LOSSES as BUILT_IN

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


#: Losses that are tried with every option, and the rest of the built-in ones.
LOSSES = ("huber", "log-cosh", "pseudo-huber", "logistic")
OTHERS = tuple(name for name in BUILT_IN if name not in LOSSES)
REDESCENDING = tuple(name for name in OTHERS if not resolve_loss(name).has_curvature)
CURVED = tuple(name for name in OTHERS if name not in REDESCENDING)
SCALED = tuple(name for name, kind in BUILT_IN.items() if kind.scale_part is not None)
CONCORDANT = tuple(name for name in LOSSES if resolve_loss(name).self_concordance < math.inf)
BINARY = frozenset(name for name, kind in BUILT_IN.items() if kind.binary_response)
WEIGHTS = (None, Mallows(1.5), Bounded(1.5), Clip(0.8))
