"""Rehearsal of a request: its answer on public rows, with simulated noise and for no charge."""

from __future__ import annotations

from typing import Any

from dpfast.fit_requests.planned_run import quietly
from dpfast.inference.composition import plain_spend
from dpfast.privacy.budget import Budget
from dpfast.privacy.noise import SeededNoise
from dpfast.studies.answers import Persons, answered, told_of
from dpfast.studies.quotes import repeated
from dpfast.studies.requests import StudyRequest

#: First words of a rehearsal, and of its summary.
NOT_PRIVATE = "REHEARSAL, not private: public rows and simulated noise; nothing was charged."


def rehearsal_of(
    request: StudyRequest,
    spend: Budget,
    n: int | None,
    like: Any,
    schema: Any,
    persons: Persons | None,
) -> dict[str, Any]:
    """Answer a request on public rows, in the form of an answer for JSON."""
    table, noise = repeated(request, like, n, persons), SeededNoise(0)
    with quietly():
        result = answered(request, table, schema, persons, privacy=spend, ledger=None, noise=noise)
    told = told_of(request, result)
    told["summary"] = f"{NOT_PRIVATE}\n\n{told['summary']}"
    warnings = [str(message) for message in getattr(result, "warnings", ())]
    return {"rehearsal": NOT_PRIVATE, **told, "spend": plain_spend(spend), "warnings": warnings}
