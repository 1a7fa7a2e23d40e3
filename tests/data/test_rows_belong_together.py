"""X, y and groups of pandas whose indices differ as wholes are refused, without a label of them."""

from __future__ import annotations

import numpy as np
import pytest

import dpfast
from tests.loops import each

pandas = pytest.importorskip("pandas")

N = 60
RNG = np.random.default_rng(0)
LABELS = [f"patient-{4711 + i}" for i in range(N)]
TABLE = pandas.DataFrame(RNG.normal(size=(N, 3)), columns=["a", "b", "y"], index=LABELS)
X, Y = TABLE[["a", "b"]], TABLE["y"]
GROUP = pandas.Series(np.arange(N) // 2, index=LABELS)
SHUFFLED = Y.sample(frac=1.0, random_state=0)

CALLS = {
    "fit": lambda x, y, **options: dpfast.fit(
        x, y, dpfast.Objective("huber", scale=1.0), privacy=1.0, **options
    ),
    "fit_quantiles": lambda x, y, **options: dpfast.fit_quantiles(
        x, y, loss=dpfast.Objective("quantile", scale=1.0), privacy=1.0, **options
    ),
    "minimize": lambda x, y, **options: dpfast.minimize(
        x,
        y,
        dpfast.Objective("tukey", scale=1.0),
        privacy=1.0,
        method=dpfast.optimize.Adaptive(),
        **options,
    ),
    "certify": lambda x, y, **options: dpfast.release.certify(
        x,
        y,
        dpfast.Objective("log-cosh", scale=1.0),
        privacy=dpfast.PureDP(1.0),
        domain=dpfast.models.Box(1.0),
        **options,
    ),
    "nonprivate": lambda x, y: dpfast.nonprivate_fit(x, y, dpfast.Objective("huber", scale=1.0)),
}

OTHER = {
    "shuffled": SHUFFLED,
    "reset": Y.reset_index(drop=True),
    "one label": Y.rename(index={LABELS[3]: "patient-1"}),
    "a frame": SHUFFLED.to_frame(),
}


@each("name", CALLS)
@each("other", OTHER)
def test_rows_that_do_not_belong_together_are_refused_before_the_charge(name, other):
    kind = dpfast.PureDP if name == "certify" else dpfast.GDP
    ledger = dpfast.Ledger(kind(5.0))
    options = {} if name == "nonprivate" else {"ledger": ledger}
    with pytest.raises(dpfast.InvalidInput) as caught:
        CALLS[name](X, OTHER[other], **options)
    assert "patient" not in str(caught.value)
    assert not ledger.entries


def test_estimators_and_groups_do_the_same():
    pytest.importorskip("sklearn")
    from dpfast.estimators import DPHuberRegressor

    model = DPHuberRegressor(1.0, scale=1.0)
    with pytest.raises(dpfast.InvalidInput, match="index of X and that of y differ"):
        model.fit(X, SHUFFLED)
    model.fit(X, Y)
    with pytest.raises(dpfast.InvalidInput, match="index of X and that of group differ"):
        CALLS["fit"](dpfast.records(X, Y, group=GROUP[::-1], group_size=2), None)
    CALLS["fit"](dpfast.records(X, Y, group=GROUP, group_size=2), None)


def test_rows_that_belong_together_are_taken():
    seed = dpfast.SeededNoise
    expected = CALLS["fit"](X, Y, noise=seed(0)).params
    order = np.argsort(LABELS)[::-1]
    for x, y in [
        (X, Y.to_numpy()), (X.to_numpy(), SHUFFLED.loc[LABELS]), (X, Y.tolist()),
        (X.copy(), Y.copy()), (X.iloc[order], Y.iloc[order]),
        (X.reset_index(drop=True), Y.reset_index(drop=True).set_axis(np.arange(N))),
    ]:  # fmt: skip
        np.testing.assert_array_equal(CALLS["fit"](x, y, noise=seed(0)).params, expected)
    with pytest.raises(dpfast.InvalidInput, match="entries"):
        CALLS["fit"](X, Y[:-1])
