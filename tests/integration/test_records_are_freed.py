"""A call frees its records when it returns: no reference cycle keeps them until a collection."""

from __future__ import annotations

import gc
import weakref

import numpy as np

import dpfast
from dpfast.fit_requests.request import FitRequest
from tests.loops import each

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4000, 2))
TABLE = {"y": X[:, 0] + RNG.normal(size=4000), "x": X[:, 0], "z": X[:, 1]}
SURVIVAL = {"t": RNG.exponential(size=4000), "e": np.ones(4000), "x": X[:, 0]}
SEED = dpfast.SeededNoise(0)

CALLS = {
    "fit": lambda: dpfast.fit("y ~ x + z", TABLE, privacy=3.0, noise=SEED),
    "log-cosh": lambda: dpfast.fit("y ~ x", TABLE, "log-cosh", privacy=3.0, noise=SEED),
    "method": lambda: dpfast.fit(
        "y ~ x", TABLE, "log-cosh", privacy=3.0, noise=SEED, method="newton"
    ),
    "quantiles": lambda: dpfast.fit_quantiles(
        X[:, :1], TABLE["y"], [0.25, 0.5], privacy=3.0, noise=SEED
    ),
    "standardize": lambda: dpfast.standardize(X, TABLE["y"], privacy=3.0, noise=SEED),
    "instruments": lambda: dpfast.effects.two_stage("y ~ x | z", TABLE, privacy=3.0, noise=SEED),
    "cox": lambda: dpfast.effects.cox(
        "t ~ x", SURVIVAL, event="e", cuts=[0.5, 1.0, 2.0], privacy=3.0, noise=SEED
    ),
}


@each("call", CALLS.values(), ids=CALLS)
def test_a_call_frees_its_records_when_it_returns(call, monkeypatch):
    requests = []
    original = FitRequest.__init__

    def remembered(self, *arguments, **options):
        original(self, *arguments, **options)
        requests.append(weakref.ref(self))

    monkeypatch.setattr(FitRequest, "__init__", remembered)
    gc.disable()
    try:
        result = call()
        assert requests and not any(request() for request in requests)
    finally:
        gc.enable()
    del result
