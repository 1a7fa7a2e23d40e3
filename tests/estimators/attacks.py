"""How far apart one pair of data sets is, in mu, from the exact values behind the answers."""

from __future__ import annotations

import math

import numpy as np

from dpfast.audit.transcript import Answered, perform


def attained(call, data, neighbour):
    """Distance in mu of everything released, answers held equal: the likelihood ratio's own."""
    first = perform(call, data, None)
    other = perform(call, neighbour, first.events)
    assert first.returned and other.returned and not other.divergence
    moved = []
    for one, two in zip(first.events, other.events, strict=True):
        if isinstance(one, Answered):
            distance = np.linalg.norm(one.release.value - two.release.value)
            moved.append(distance / one.release.noise_scale)
    return math.hypot(*moved), moved
