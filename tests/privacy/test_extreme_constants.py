"""Public constants of extreme ratios: refused before the charge, or a result of finite numbers.

Each option is in its own range; what leaves floating point is products, squares and quotients.
"""

from __future__ import annotations

import itertools
import random
import warnings

import numpy as np
import pytest

import dpfast
from tests.privacy.test_refused_first import CALLS, X, Y, rich_ledger

EXTREMES = [1e-300, 1e-100, 1e-70, 1e-35, 1e-12, 1e12, 1e35, 1e70, 1e100, 1e150, 1e300]
OPTIONS = {
    "fit": {
        "scale": EXTREMES,
        "ridge": [0.0, *EXTREMES],
        "weights": [dpfast.Mallows(v) for v in (1e-100, 1e-70, 1e-35, 1e35, 1e70, 1e100)]
        + [dpfast.Bounded(v) for v in (1e-100, 1e-70, 1e35, 1e70, 1e100)]
        + [dpfast.models.Schweppe(1e-70), dpfast.models.Schweppe(1e70)],
        "privacy": [1e-9, 1e-4, 1e4, 1e9],
        "method": [
            "newton",
            "gradient-descent",
            dpfast.optimize.Newton(start=[1e150] * 3),
            dpfast.optimize.Newton(start=[1e300] * 3),
            dpfast.optimize.GradientDescent(step_size=1e-300),
            dpfast.optimize.GradientDescent(step_size=1e300),
            dpfast.optimize.Newton(floor=1e300),
            dpfast.optimize.Newton(floor=1e-300, max_step=1e-300),
        ],
        "loss": [
            "huber",
            "pseudo-huber",
            dpfast.Huber(1e-100),
            dpfast.Huber(1e100),
            dpfast.Huber(1e-70),
            dpfast.Huber(1e70),
            "smoothed-huber",
            "logistic",
        ],
    },
    "fit, free scale": {
        "scale": [
            dpfast.FreeScale(a, b)
            for a, b in [(1e-70, 1e70), (1e-100, 1e-99), (1e99, 1e100), (1e-9, 1e9), (1e-3, 1e3)]
        ],
        "ridge": [0.0, *EXTREMES],
        "privacy": [1e-4, 1e4, 1e9],
        "weights": [dpfast.Mallows(1e-70), dpfast.Mallows(1e70)],
    },
    "minimize": {
        "scale": EXTREMES,
        "ridge": [0.0, *EXTREMES],
        "weights": [
            dpfast.Mallows(1e-70),
            dpfast.Mallows(1e70),
            dpfast.Mallows(1e100),
            dpfast.Bounded(1e-100),
        ],
        "privacy": [1e-9, 1e-4, 1e4, 1e9],
        "start": [[1e150] * 3, [1e300] * 3],
        "method": [dpfast.optimize.Adaptive(last_share=0.02, max_steps=60), "proximal"],
        "objective": [
            "welsch",
            "cauchy",
            "geman-mcclure",
            dpfast.models.Welsch(1e-70),
            dpfast.models.Welsch(1e70),
        ],
    },
    "minimize, spider": {
        "scale": EXTREMES,
        "kl": [(a, b) for a in (1e-70, 1e-12, 1e12, 1e70) for b in (1.0, 2.0, 50.0, 1e70)],
        "method": ["spider", "proximal"],
        "privacy": [1e-4, 1e4],
    },
    "minimize, exponential": {
        "scale": EXTREMES,
        "privacy": [dpfast.ZCDP(1e-9), dpfast.ZCDP(1e9)],
        "start": [[1e300] * 3, [1e150] * 3],
    },
    "certify": {
        "scale": EXTREMES,
        "ridge": [0.0, *EXTREMES],
        "domain": [dpfast.models.Box(v) for v in (1e-70, 1e-35, 1e35, 1e70)],
        "privacy": [dpfast.PureDP(1e-6), dpfast.PureDP(1e3)],
    },
    "release_functional": {
        "scale": EXTREMES,
        "ridge": [0.0, *EXTREMES],
        "domain": [dpfast.models.Box(v) for v in (1e-70, 1e-35, 1e35, 1e70)],
        "direction": [[1e-150, 0, 0], [1e150, 1e-150, 0], [1e70, 0, 0]],
    },
    "release_parameter": {
        "scale": EXTREMES,
        "ridge": [0.0, *EXTREMES],
        "domain": [dpfast.models.Box(v) for v in (1e-70, 1e-35, 1e35, 1e70)],
    },
    "fit_quantiles": {
        "scale": EXTREMES,
        "loss": [dpfast.Quantile(0.5, bandwidth) for bandwidth in (1e-100, 1e-70, 1e70, 1e100)],
        "taus": [[1e-300, 0.5], [1e-100, 0.5], [1e-9, 0.5, 1.0 - 1e-16]],
        "privacy": [1e-9, 1e-4, 1e4, 1e9],
    },
    "treatment_effect": {
        "clip": EXTREMES,
        "overlap": [1e-300, 1e-9, 0.5 - 1e-12],
        "privacy": [1e-9, 1e-4, 1e4, 1e9],
        "standardize": [False],
    },
    "fit_many": {
        "loss": ["huber", dpfast.Huber(1e-70), dpfast.Huber(1e70), "log-cosh"],
        "privacy": [1e-9, 1e-4, 1e-2, 1e2, 1e4, 1e9],
    },
    "fit_sparse": {
        "loss": ["huber", dpfast.Huber(1e-70), dpfast.Huber(1e70), "log-cosh"],
        "privacy": [1e-9, 1e-4, 1e-2, 1e2, 1e4, 1e9],
    },
    "goodness_of_fit": {
        "fit": [
            dpfast.fit(X, Y, loss, privacy=90.0, noise=dpfast.SeededNoise(0))
            for loss in (dpfast.Huber(1e-70), dpfast.Huber(1e70), dpfast.Quantile(1e-9))
        ],
        "privacy": [1e-9, 1e-4, 1e-2, 1e2, 1e4, 1e9],
    },
    "counts": {"least": EXTREMES, "privacy": [1e-9, 1e-4, 1e4, 1e9]},
    "means": {"least": EXTREMES, "privacy": [1e-9, 1e-4, 1e4, 1e9]},
    "cell quantiles": {
        "least": EXTREMES,
        "probabilities": [[1e-300], [1e-9, 1.0 - 1e-16]],
        "privacy": [1e-9, 1e-4, 1e4, 1e9],
        "level": [1e-300, 1e-9, 1.0 - 1e-16],
    },
    "fits": {
        "least": EXTREMES,
        "loss": ["log-cosh", dpfast.Huber(1e-70), dpfast.Huber(1e70)],
        "privacy": [1e-9, 1e-4, 1e4, 1e9],
    },
    "absorbed": {"privacy": [1e-9, 1e-4, 1e-2, 1e2, 1e4, 1e9]},
    "small_areas": {"least": EXTREMES, "privacy": [1e-9, 1e-4, 1e-2, 1e2, 1e4, 1e9]},
    "two_stage": {"privacy": [1e-9, 1e-4, 1e-2, 1e2, 1e4, 1e9]},
    "cox": {
        "cuts": [[1e-300], [1e300], [1e-300, 1e300]],
        "privacy": [1e-9, 1e-4, 1e-2, 1e2, 1e4, 1e9],
    },
    "private_quantiles": {
        "low": [-1e307, -1e100, -1e-300, 0.0],
        "high": [1e-300, 1e-100, 1e100, 1e307],
        "privacy": [1e-9, 1e9],
    },
    "distribution": {
        "bins": [2, 16, [1e-300], [1e-3, 0.5]],
        "privacy": [1e-9, 1e-4, 1e-2, 1e2, 1e4, 1e9],
    },
    "tune": {
        "clip": EXTREMES,
        "bounds": [
            [(0, 1e-300)] * 2,
            [(-1e307, 1e307)] * 2,
            [(0, 1e-70), (0, 1e70)],
            [(1e15, 1e15 + 2)] * 2,
        ],
        "privacy": [1e-4, 1e9],
    },
}


#: Of a result, what has to be finite.  Standard errors may be infinite, which their warnings say.
NUMBERS = ("params", "theta", "values", "estimate", "bound", "lower", "scores", "iterates")

LABELS = (np.asarray(Y) > 0).astype(float)


def singles_and_pairs(name):
    options = OPTIONS[name]
    singles = [{key: value} for key, values in options.items() for value in values]
    pairs = [
        {first: one, second: other}
        for (first, ones), (second, others) in itertools.combinations(options.items(), 2)
        for one in ones
        for other in others
    ]
    random.Random(0).shuffle(pairs)
    return singles, pairs


def tried(name, wrong):
    function, right = CALLS[name]
    given = right | wrong
    if given.get("loss") == "logistic":
        given |= {"scale": None, "y": LABELS}
    ledger = rich_ledger(given["privacy"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = function(**given, ledger=ledger)
        except dpfast.DpfastError as error:
            refusal = error
        else:
            refusal = None
    if refusal is not None:
        assert not ledger.entries, (name, wrong, refusal)
        return
    for key in NUMBERS:
        found = getattr(result, key, 0.0)
        if name == "fits" and key == "params":  # levels with too few records are not fitted
            found = found[[one is not None for one in result.fits]]
        if name == "small_areas" and key == "params" and result.least:  # suppressed by a rule
            found = found[result.counts >= result.least]
        if key == "params" and isinstance(result, dpfast.Fit) and result.warnings:
            found = found[:1]  # slopes that were not bought, which it says
        if key == "params" and name == "fit_many" and result.warnings:
            found = found[:, :1]  # the same
        if isinstance(found, (float, np.ndarray)):
            assert np.isfinite(found).all(), (name, wrong, key, found)
    if getattr(result, "_covariance", None) is not None:
        bse = result.bse["x1"] if name == "fit_sparse" else result.bse  # of interest
        assert np.isfinite(bse).all() or result.warnings, (name, wrong)
    for report in ("summary", "to_dict", "__repr__"):
        getattr(result, report, lambda: None)()


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.one_in(3)
def test_extreme_constants_are_refused_first_or_give_numbers(name):
    singles, pairs = singles_and_pairs(name)
    for wrong in (*singles, *pairs[:30]):
        tried(name, wrong)


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIONS)
def test_pairs_of_extreme_constants(name):
    for wrong in singles_and_pairs(name)[1][30:]:
        tried(name, wrong)


def test_every_function_that_spends_is_here():
    variants = {
        "fit, groups",
        "fit, persons",
        "fit, weights",
        "fit_quantiles, weights",
        "minimize, own objective",
        "certify, both",
        "tune, portfolio",
    }
    same = {
        "Tuner": "tune",
        "private_clip": "tune",
        "private_choice": "tune",
        "standardize": "private_quantiles",
        "fit, formula": "fit",
    }
    missing = {*CALLS} - {*OPTIONS} - variants - {*same}
    assert not missing and {*same.values()} <= {*OPTIONS}
