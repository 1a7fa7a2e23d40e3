"""Calls of treatment effects."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from dpfast.data.schema import Categorical, Schema
from dpfast.data.source import records
from dpfast.effects.hazards import cox
from dpfast.effects.instrumental import two_stage
from dpfast.effects.treatment import treatment_effect
from dpfast.effects.treatment_inputs import METHODS
from dpfast.privacy.budget import GDP, ZCDP
from dpfast.privacy.ledger import Ledger
from tests.audit.calls.example import Example

__all__ = ["effects"]


def _effect(label: str, **options: Any) -> Example:
    budget = options.setdefault("privacy", GDP(9.0))

    def call(data: Any) -> Any:
        own = dict(options)
        if "ledger" in own:  # state belongs inside the call
            own["ledger"] = Ledger(own["ledger"])
        X, y = data
        with np.errstate(all="ignore"):
            treated = np.where(np.abs(X[:, 1]) < 1e300, X[:, 1] > 0.0, X[:, 1])
        found = treatment_effect(X, treated, y, **own)
        return found, found.summary(), found.to_dict(), repr(found)

    return Example("dpfast.effects.treatment.treatment_effect", label, call, False, budget)


def _two_stage(data: Any, **beside: Any) -> Any:
    X, y = data
    with np.errstate(all="ignore"):
        table = {"x": X[:, 0] + 0.5 * y, "z": X[:, 0], "w": X[:, 1], "y": y}
    source = records(table | {"weight": np.abs(y), "who": np.arange(len(y)) // 2}, **beside)
    found = two_stage("y ~ x + w | z + w", source, privacy=GDP(60.0))
    return found, found.summary(), found.to_dict(), repr(found)


def _cox(data: Any, **options: Any) -> Any:
    X, y = data
    with np.errstate(all="ignore"):
        event = np.where(np.abs(X[:, 1]) < 1e300, X[:, 1] > 0.0, X[:, 1])
        table = {"x": X[:, 0], "died": event, "weeks": np.abs(y), "site": 1.0 * (X[:, 0] > 0.0)}
        table["since"] = 0.2 * np.abs(X[:, 0])
    asked = {"event": "died", "cuts": [0.5, 1.0], "privacy": GDP(60.0)}
    found = cox("weeks ~ x", table, **asked, **options)
    return found, found.summary(), found.to_dict(), repr(found), found.survival()


def effects() -> Iterator[Example]:
    yield Example("dpfast.effects.hazards.cox", "two intervals", _cox, False, GDP(60.0))
    with_scales = partial(_cox, unit=0.25)
    yield Example("dpfast.effects.hazards.cox", "whole units", with_scales, False, GDP(60.0))
    site = Schema({"site": Categorical([0, 1])})
    late = partial(_cox, strata="site", schema=site, entry="since")
    yield Example("dpfast.effects.hazards.cox", "strata and entry", late, False, GDP(60.0))
    stages = "dpfast.effects.instrumental.two_stage"
    yield Example(stages, "one control", _two_stage, False, GDP(60.0))
    weighted = partial(_two_stage, sample_weight="weight")
    yield Example(stages, "weights", weighted, False, GDP(60.0))
    of_persons = partial(_two_stage, group="who", each="person")
    yield Example(stages, "one control, persons, two rows", of_persons, False, GDP(60.0))
    for method in METHODS:
        yield _effect(method, method=method, standardize=False)
    yield _effect("a trial", propensity=0.5, method="difference")
    yield _effect("a trial, on the treated", propensity=0.4, average="treated", standardize=False)
    yield _effect("a public clip", clip=8.0, standardize=False, overlap=0.2)
    yield _effect("units bought", privacy=GDP(40.0))
    yield _effect("zCDP, shared ledger", privacy=ZCDP(50.0), ledger=ZCDP(99.0), standardize=False)
