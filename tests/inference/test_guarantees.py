"""Every statement of a guarantee agrees with every other, on its kind and on its numbers."""

from __future__ import annotations

import inspect
import json
import math
import pickle
import re
from fractions import Fraction

import numpy as np
import pytest

import dpfast
from dpfast import bayesopt
from dpfast.inference import Guarantee
from dpfast.inference.composition import Charge, Prepaid, Rows, Sum, lines, plain
from dpfast.privacy.noise import EntropyNoise, NoiseSource, SeededNoise, is_genuine
from tests.loops import each

RNG = np.random.default_rng(0)
X = RNG.uniform(-1.0, 1.0, size=(400, 2))
Y = X @ [1.0, -0.5] + RNG.laplace(size=400)
SPLIT = X[:, 0]

GAUSSIAN = (1.0, dpfast.GDP(0.7), dpfast.ZCDP(0.5), dpfast.ApproxDP(1.0, 1e-6))
PAIR = (dpfast.ApproxDP(4.0, 1e-6),)
KIND = {
    dpfast.GDP: "GDP",
    dpfast.ZCDP: "zCDP",
    dpfast.ApproxDP: "(epsilon, delta)-DP",
}


def losses(theta):
    return (Y - X @ theta) ** 2


def slopes(theta):
    return 2.0 * (X @ theta - Y)[:, None] * X


def search(function, of=losses, **more):
    box = [(-1.0, 1.0)] * 2
    return lambda privacy, **options: function(
        of, box, n_records=len(Y), privacy=privacy, **more, **options
    )


def minimise(**more):
    return lambda privacy, **options: dpfast.minimize(
        X,
        Y,
        dpfast.Objective("tukey", scale=1.0),
        method=dpfast.optimize.Adaptive(last_share=0.1),
        privacy=privacy,
        **more,
        **options,
    )


def least_squares(function, **more):
    return lambda privacy, **options: function(X, Y, privacy=privacy, **more, **options)


#: How each public function is called, for which budgets.
CALLS = {
    "fit": (least_squares(dpfast.fit, loss=dpfast.Objective("huber", scale=1.0)), GAUSSIAN),
    "fit_quantiles": (
        least_squares(
            dpfast.fit_quantiles, taus=(0.3, 0.6), loss=dpfast.Objective("quantile", scale=1.0)
        ),
        GAUSSIAN,
    ),
    "minimize": (minimise(), GAUSSIAN),
    "minimize, exponential": (minimise(select="exponential"), GAUSSIAN[2:]),
    "tune": (search(bayesopt.tune, steps=2), GAUSSIAN),
}  # fmt: skip


def read(table):
    """An expression from its plain form."""
    if "times" in table:
        return Rows(table["times"], read(table["of"]))
    if "sum" in table:
        return Sum(tuple(map(read, table["sum"])))
    kind = getattr(dpfast, table["type"])
    spend = kind(*[table[field] for field in kind.fields])
    if "charge" in table:
        return Charge(table["charge"], spend)
    return Prepaid(table["set_aside"], spend, read(table["of_which"]))


def check(privacy, genuine):
    """Kind and numbers of one guarantee, wherever they are stated."""
    assert isinstance(privacy, Guarantee)
    total, kind = privacy.total, KIND[type(privacy.total)]
    stated = kind if genuine else "none (simulation)"
    assert privacy.guarantee == stated
    numbers = dict(zip(total.fields, total.values(), strict=True))

    table = json.loads(json.dumps(privacy.to_dict(), allow_nan=False))
    assert table["guarantee"] == stated
    assert table["total"] == {"type": type(total).__name__} | numbers

    assert privacy.headline.startswith(f"{stated}, ")
    for name, value in numbers.items():
        assert f"{name}={value:g}" in privacy.headline

    text = str(privacy)
    if isinstance(total, dpfast.ApproxDP):
        assert f"(epsilon={total.epsilon:.6g}, delta={total.delta:.3g})-DP in total" in text
    else:
        assert f"Privacy: {total.values()[0]:.6g}-{kind} in total" in text
    # Gaussian DP is stated where it is known and nowhere else
    gaussian = isinstance(total, dpfast.GDP) or not math.isnan(privacy.mu)
    assert ("-GDP" in text) == gaussian
    assert (table["mu"] is not None) == gaussian
    assert ("simulation" in text) != genuine

    # what is explained is the total itself, in its own currency
    told = privacy.explain(1e-5)
    assert total.explain(1e-5) in told
    assert {name for name in ("GDP", "ZCDP", "ApproxDP") if re.search(rf"\b{name}\(", told)} == {
        type(total).__name__
    }
    assert ("simulation" in told) != genuine

    for delta in (1e-9, 1e-6, 1e-3):
        if isinstance(total, dpfast.ApproxDP):
            if delta >= total.delta:
                assert privacy.epsilon(delta) <= total.epsilon
            elif not gaussian:
                assert privacy.epsilon(delta) == math.inf
        else:
            implied = total.as_approx(delta).epsilon
            # Gaussian charges say more than their total in zCDP
            assert privacy.epsilon(delta) <= implied
            if not gaussian or isinstance(total, dpfast.GDP):
                assert privacy.epsilon(delta) == implied
        for epsilon, at in privacy.equivalents():
            assert privacy.epsilon(at) == epsilon

    # the expression of what was spent is the total, in numbers, words and JSON alike
    for share in privacy.spent_share():
        assert 1 - Fraction(1, 10**6) <= share <= 1
    assert "\n".join(lines(privacy.composition)) in told
    assert table["composition"] == json.loads(json.dumps(plain(privacy.composition)))
    assert read(table["composition"]) == privacy.composition

    # what was charged adds up to the total and not more, in the unit it is given in
    spent = [amount for _, amount in privacy.entries]
    if privacy.unit == "rho":
        assert math.fsum(spent) <= total.rho * (1 + 1e-12)
    elif spent:
        assert math.hypot(*spent) <= privacy.mu * (1 + 1e-12)
    if spent:
        assert math.fsum(share for _, share in privacy.shares()) <= 1 + 1e-12
        assert f"spent {privacy.unit} = " in text
    assert repr(pickle.loads(pickle.dumps(privacy))) == repr(privacy)


@pytest.mark.parametrize(
    ("name", "budget"),
    [(name, budget) for name, (_, budgets) in CALLS.items() for budget in budgets],
    ids=str,
)
def test_all_statements_of_a_guarantee_agree(name, budget):
    result = CALLS[name][0](budget, noise=dpfast.SeededNoise(0))
    check(result.privacy, genuine=False)
    check(result.privacy._replace(genuine=True), genuine=True)
    if hasattr(result, "summary"):
        # one line and conditions in the summary; every line in what explains it
        summary = result.summary()
        shown, explained = (re.sub(r"\s+", " ", text) for text in (summary, summary.explain()))
        assert f"Privacy: {result.privacy.in_one_line}" in shown
        assert all(said in shown for said in result.privacy.conditions)
        for line in str(result.privacy).splitlines():
            if line.startswith("  spent "):
                assert line.replace("  spent ", "Spent: ") in explained
            else:
                assert line.strip().removeprefix("Privacy: ") in explained
        assert result.to_dict()["privacy"] == result.privacy.to_dict()
    told = name == "tune"
    assert [("depend on that record" in words) for words in result.privacy.vouched] == [True] * told
    for text in (str(result.privacy), result.privacy.explain()):
        assert ("The caller vouches that the values told" in text) == told
    if isinstance(result, dpfast.Fit):
        assert result.privacy.headline in repr(result)


def test_every_function_with_a_guarantee_is_swept():
    """Public functions that take ``privacy`` and return a result, but those of dpfast.release."""
    known = {name.split(",")[0] for name in CALLS}
    elsewhere = {
        "private_quantiles": "returns numbers",
        "private_clip": "returns a number",
        "private_choice": "returns a number",
        "standardize": "through Request.guarantee, as fit",
        "release_functional": "a ReleaseGuarantee states one pair, in one place",
        "release_parameter": "a ReleaseGuarantee states one pair, in one place",
        "certify": "a ReleaseGuarantee states one pair, in one place",
        "plan": "a forecast from public numbers",
        "plan_release": "a forecast from public rows",
    }
    for module in (dpfast, bayesopt):
        for name in module.__all__:
            function = getattr(module, name)
            if inspect.isfunction(function) and "privacy" in inspect.signature(function).parameters:
                assert name in known | set(elsewhere), name


def test_a_choice_by_the_exponential_mechanism_is_nowhere_called_gdp():
    result = CALLS["minimize, exponential"][0](dpfast.ZCDP(0.5))
    for text in (
        result.summary(), repr(result), str(result.privacy), repr(result.privacy),
        result.privacy.explain(), json.dumps(result.to_dict()["privacy"]),
    ):  # fmt: skip
        assert "GDP" not in text
        assert "zCDP" in text or "ZCDP" in text


def test_a_budget_plot_shows_the_shares_of_any_guarantee():
    pytest.importorskip("matplotlib")
    from dpfast import plots

    for name in ("minimize, exponential", "minimize"):
        result = CALLS[name][0](dpfast.ZCDP(0.5), noise=dpfast.SeededNoise(0))
        widths = [patch.get_width() for patch in plots.budget_plot(result).axes[0].patches]
        assert sum(widths) == pytest.approx(1.0, abs=1e-6)


class Claims(NoiseSource):
    """A source of a user's own that claims a guarantee, and draws nothing."""

    guarantee = "GDP"

    def normals(self, size, bits):
        return np.zeros(size, dtype=np.int64)

    def discrete_laplace(self, size, numerator, denominator):
        return np.ones(size, dtype=np.int64)


class Heir(EntropyNoise):
    """A subclass of the private source that draws nothing."""

    guarantee = "GDP"

    def normals(self, size, bits):
        return np.zeros(size, dtype=np.int64)

    def discrete_laplace(self, size, numerator, denominator):
        return np.ones(size, dtype=np.int64)


@each("source", [Claims, Heir])
@each("name", CALLS)
def test_no_source_but_the_librarys_own_carries_a_guarantee(name, source):
    call, budgets = CALLS[name]
    if name == "minimize, exponential":
        pytest.skip("rejection sampling never ends without randomness")
    assert call(budgets[0], noise=source()).privacy.guarantee == "none (simulation)"
    assert call(budgets[0]).privacy.guarantee != "none (simulation)"


def test_a_release_believes_no_source_either():
    result = dpfast.release.certify(
        X,
        Y,
        dpfast.Objective("log-cosh", scale=1.0),
        privacy=dpfast.PureDP(1.0),
        domain=dpfast.models.Box(1.0),
        noise=Claims(),
    )
    assert result.privacy.guarantee == "none (simulation)"


def test_only_the_exact_type_is_genuine_and_it_cannot_be_tampered_with_by_assignment():
    assert is_genuine(EntropyNoise())
    for source in (SeededNoise(0), Claims(), Heir(), NoiseSource()):
        assert not is_genuine(source)
    with pytest.raises(AttributeError):
        EntropyNoise().normals = lambda size, bits: np.zeros(size, dtype=np.int64)
    with pytest.raises(AttributeError):
        SeededNoise(0).guarantee = "GDP"


class Duck:
    """Looks like a source."""

    guarantee = "GDP"
    normals = discrete_laplace = None

    def __repr__(self):
        return "patient 4711"


@each("name", CALLS)
@each("noise", [Duck(), EntropyNoise, 0, "entropy", np.random.default_rng(0)])
def test_what_is_no_source_is_refused_before_the_charge(name, noise):
    call, budgets = CALLS[name]
    budget = budgets[0]
    ledger = dpfast.Ledger(budget)
    with pytest.raises(dpfast.InvalidInput, match="noise must be") as caught:
        call(budget, noise=noise, ledger=ledger)
    assert not ledger.entries
    assert "4711" not in str(caught.value)
