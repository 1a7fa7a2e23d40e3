"""What a hostile reading found: refused after the charge, endless, or not what it says."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

import dpfast
from dpfast.errors import InvalidInput
from dpfast.privacy.decimals import root_to_float, written
from dpfast.studies.requests import part_of
from tests.loops import each

SCHEMA = dpfast.Schema({"sex": dpfast.Categorical(["F", "M"])})
RNG = np.random.default_rng(0)


def test_a_response_whose_units_come_out_as_none_is_fitted_by_level():
    """Nearly all zeros: a centre of 0 and a spread of 1 were read as no units, after the charge."""
    table = {"x": RNG.normal(size=1000), "y": np.zeros(1000), "sex": np.array(["F", "M"] * 500)}
    for seed in range(3):
        ledger, noise = dpfast.Ledger(1.0), dpfast.SeededNoise(seed)
        found = dpfast.tables.fits(
            "y ~ x", table, "sex", schema=SCHEMA, privacy=1.0, ledger=ledger, noise=noise
        )
        assert found.names and len(ledger.entries) == 1


def test_a_request_without_intervals_is_answered_and_quoted():
    X = RNG.normal(size=(2000, 2))
    table = {"x": X[:, 0], "z": X[:, 1], "y": X[:, 0]}
    request = {"analysis": "fit", "formula": "y ~ x + z", "loss": "huber", "mu": 0.05}
    study = dpfast.Study(table, privacy=1.0, noise=dpfast.SeededNoise(0))
    assert study.quote(request).widths is None or study.quote(request).widths
    answer = study.answer(request)
    assert answer["answer"] and isinstance(answer["conf_int"], dict)


def test_a_log_is_a_copy():
    study = dpfast.Study({"sex": ["F", "M"] * 50}, privacy=1.0, schema=SCHEMA)
    study.counts("sex", share=0.1)
    study.log[0][0]["by"].append("another")
    assert study.log[0][0]["by"] == ["sex"]


@each("value", [5e-324, 1e-310, 1e-300, 0.1, 0.7, 1.0, 1e300])
def test_roots_are_the_largest_at_once(value):
    """Of subnormal numbers, too, whose decimals are percents away."""
    ratio = Fraction(*written(value))
    root = root_to_float(ratio.numerator, ratio.denominator, up=False)
    assert Fraction(*written(root)) ** 2 <= ratio
    assert ratio < Fraction(*written(math.nextafter(root, math.inf))) ** 2
    above = root_to_float(ratio.numerator, ratio.denominator, up=True)
    assert Fraction(*written(above)) ** 2 >= ratio
    assert ratio > Fraction(*written(math.nextafter(above, 0.0))) ** 2
    assert part_of(dpfast.GDP(1.0), min(value, 1.0)).mu <= 1.0
    assert dpfast.GDP.within(dpfast.ZCDP(value)).mu > 0.0


def test_what_a_plan_needs_pays_for_it():
    """In the decimals that a ledger adds up."""
    study = dpfast.Study(None, privacy=1.0, schema=SCHEMA, n=1000)
    asked = [{"analysis": "counts", "by": "sex", "mu": mu} for mu in (0.53, 0.5700000000000001)]
    ledger = dpfast.Ledger(study.plan(asked).needed)
    for one in asked:
        ledger.charge(one["mu"], "counts")


def test_products_of_many_levels_are_refused_at_once():
    levels = list(map(str, range(30)))
    schema = dpfast.Schema({name: dpfast.Categorical(levels) for name in "abcd"})
    study = dpfast.Study(None, privacy=1.0, schema=schema, n=1000)
    with pytest.raises(InvalidInput, match="810,000 cells"):
        study.quote({"analysis": "fit", "formula": "e ~ a:b:c:d", "share": 0.1})


@pytest.mark.parametrize("change", ["twice", "sum", "records"])
def test_a_saved_fit_that_does_not_add_up_is_refused(tmp_path, change):
    X = RNG.normal(size=(300, 1))
    path = tmp_path / "fit.json"
    dpfast.saved.save(dpfast.fit(X, X[:, 0], privacy=2.0, noise=dpfast.SeededNoise(0)), path)
    text = path.read_text()
    if change == "twice":
        text = text.replace('"fit": ', '"fit": 0, "fit": ', 1)
    else:
        told = json.loads(text)
        if change == "sum":
            told["fit"]["privacy"]["total"]["mu"] = 1e-3
            told["fit"]["privacy"]["mu"] = 1e-3
        else:
            told["fit"]["n_records"] = -1
        text = json.dumps(told) + "\n"
    path.write_text(text)
    with pytest.raises(InvalidInput):
        dpfast.saved.load(path)
