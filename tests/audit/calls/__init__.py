"""Calls of every public function that answers questions about records, for replay.

Each call checks one combination of options.  A new public function gets its calls here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.audit.calls.effects import effects
from tests.audit.calls.example import Example
from tests.audit.calls.fits import (
    fits,
    formulas,
    levels,
    many,
    persons,
    quantiles,
    sparse,
    standardised,
    stored,
    weighted,
)
from tests.audit.calls.minimizations import minimizations
from tests.audit.calls.queries import gradient_queries, joint_releases, steering_queries
from tests.audit.calls.releases import releases
from tests.audit.calls.samples import Sized, samples, seen
from tests.audit.calls.searches import searches
from tests.audit.calls.tables import tables

__all__ = ["MAKERS", "Example", "Sized", "examples", "samples", "seen"]

#: What makes the calls; a public function that answers questions about records needs some here.
MAKERS: tuple[Callable[[], Iterator[Example]], ...] = (
    fits,
    joint_releases,
    steering_queries,
    minimizations,
    gradient_queries,
    formulas,
    searches,
    levels,
    many,
    quantiles,
    sparse,
    standardised,
    releases,
    stored,
    weighted,
    persons,
    effects,
    tables,
)


def examples() -> list[Example]:
    """Every registered call."""
    return [example for make in MAKERS for example in make()]
