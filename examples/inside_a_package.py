"""dpfast inside another package: a function that pays from its caller's ledger, and its tests."""

from __future__ import annotations

import numpy as np

import dpfast

# ---- what the package has ------------------------------------------------------------------------


def dose_effect(X, y, *, budget: dpfast.Ledger, privacy: float = 0.5, noise=None):
    """Effect of the first column, with its interval; paid by `budget`.

    Wrong arguments are refused before the ledger is charged; nothing that is raised shows data.
    """
    fit = dpfast.fit(
        X, y, dpfast.Objective("log-cosh", scale=1.0), privacy=privacy, ledger=budget, noise=noise
    )
    return float(fit.params[1]), tuple(map(float, fit.conf_int()[1])), fit.privacy.to_dict()


# ---- how it is tested ----------------------------------------------------------------------------

rng = np.random.default_rng(0)
X = rng.normal(size=(5_000, 2))
y = 0.7 * X[:, 0] + rng.normal(size=5_000)


def test_it_finds_the_effect():
    """Seeded noise: the same numbers in every run, and a result that says it guarantees nothing."""
    runs = [
        dose_effect(X, y, budget=dpfast.Ledger(1.0), noise=dpfast.SeededNoise(3)) for _ in range(2)
    ]
    assert runs[0] == runs[1]
    effect, (low, high), privacy = runs[0]
    assert low < effect < high and abs(effect - 0.7) < 0.2
    assert privacy["guarantee"] == "none (simulation)"


def test_what_is_refused_costs_nothing():
    budget = dpfast.Ledger(1.0)
    try:
        dose_effect(X, y[:-1], budget=budget)
    except dpfast.InvalidInput as error:
        print("refused:", error)
    else:
        raise AssertionError("a response of another length")
    assert budget.entries == ()


def test_the_budget_ends():
    budget = dpfast.Ledger(1.0)
    for _ in range(4):  # 4 times 0.5^2 is 1
        dose_effect(X, y, budget=budget)
    try:
        dose_effect(X, y, budget=budget)
    except dpfast.BudgetExceeded as error:
        print("refused:", str(error).partition(":")[0])
    else:
        raise AssertionError("a fifth")


if __name__ == "__main__":
    test_it_finds_the_effect()
    test_what_is_refused_costs_nothing()
    test_the_budget_ends()
    print("the package keeps its promises")
