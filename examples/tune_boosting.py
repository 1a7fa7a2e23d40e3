"""Gradient boosting tuned on private validation records, with every charge in a ledger.

    python examples/tune_boosting.py

Wages of the 2000 US Census, predicted from education, experience and place.  2,000 persons stand
for an earlier survey that is public: models are trained on them, and nothing protects them.  The
other 27,501 are the records to be protected: a search asks them how well a model does, and moves
the parameters along a noisy slope of their losses.  Another look at them, a quantile, is paid from
the same ledger.  Needs scikit-learn.
"""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

import dpfast
from dpfast.bayesopt import Integer, Real, SearchSettings, sklearn_losses
from dpfast.datasets import load_census2000

#: What scikit-learn would use.
DEFAULT = {"learning_rate": 0.1, "max_leaf_nodes": 31, "min_samples_leaf": 20}

SEARCHED = {
    "learning_rate": Real(0.01, 1.0, log=True),
    "max_leaf_nodes": Integer(2, 64, log=True),
    "min_samples_leaf": Integer(2, 200, log=True),
}

PUBLIC = 2_000


def places(names: np.ndarray) -> np.ndarray:
    """Names as numbers, by the public list of all of them."""
    return np.unique(names, return_inverse=True)[1].astype(float)


def main() -> None:
    census = load_census2000()
    X = np.column_stack(
        [census["education"], census["experience"], places(census["state"]), places(census["puma"])]
    )
    y = census["log_wage"]
    order = np.random.default_rng(0).permutation(len(y))
    public, private = order[:PUBLIC], order[PUBLIC:]

    model = HistGradientBoostingRegressor(max_iter=40, early_stopping=False, random_state=0)
    losses = sklearn_losses(model, X[public], y[public], X[private], y[private], SEARCHED)

    ledger = dpfast.Ledger(dpfast.GDP(1.0))
    found = dpfast.tune(
        losses,
        losses.bounds,
        n_records=losses.n_records,
        privacy=0.8,
        steps=8,
        search=SearchSettings(start=DEFAULT),
        ledger=ledger,
    )
    print("found:", found.parameters)
    print(found.privacy)

    model.set_params(**found.parameters).fit(X[public], y[public])
    errors = np.abs(y[private] - model.predict(X[private]))
    median = dpfast.private_quantiles(errors, [0.5], low=0.0, high=5.0, privacy=0.4, ledger=ledger)
    print(f"half of the wages are predicted to a factor of {np.exp(median[0]):.2f}")
    print("\nthe ledger:")
    for entry in ledger.entries:
        print(f"  {entry.spend!r:14} {entry.label}")
    print(f"  {ledger.remaining!r} left")

    print("\nNOT private, only to see what the search was worth; mean squared errors:")
    for what, parameters in (("default", DEFAULT), ("found", found.parameters)):
        print(f"  {what:8} {losses(parameters).mean():.4f}")


if __name__ == "__main__":
    main()
