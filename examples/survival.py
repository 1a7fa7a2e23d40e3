"""Proportional hazards under differential privacy, by one Poisson record a person.

    python examples/survival.py

A person with time t and event d in {0, 1} is a Poisson record: the count d, with mean
``L(t) exp(x'beta)``, where L is the cumulative hazard, released first and then an offset, log L(t).
Nothing is declared but the longest time: where covariates lie is bought in both fits.  Beside it,
where lifelines is installed, the exact Cox regression of the same persons.

*Not* a row for each person and period, with the person's score the mean of their rows' scores: the
number of rows depends on when the event comes, and the limit of such a fit is another model.
"""

from __future__ import annotations

import warnings

import numpy as np

import dpfast

#: Public: no time is longer, in the data's unit.
LONGEST = 50.0

#: Shares of persons between which the hazard is taken to be constant.
SHARES = np.arange(1, 19) / 19.0


def cumulative_hazard(
    time: np.ndarray,
    event: np.ndarray,
    privacy: float,
    ledger: dpfast.Ledger,
    noise: dpfast.SeededNoise | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Released points of the cumulative hazard, a line between each two.

    Quantiles of the times say who is still there, those of the times of events (a censored person's
    is beyond all of them) how many events there were: the hazard is events over persons there.
    """
    mu = privacy / 2**0.5
    options = {"low": 0.0, "high": LONGEST, "privacy": mu, "steps": 10, "ledger": ledger}
    left = dpfast.private_quantiles(time, SHARES, noise=noise, **options)
    seen = np.where(event, time, LONGEST)
    came = dpfast.private_quantiles(seen, SHARES, noise=noise, **options)
    known = came < 0.98 * LONGEST  # the others are censored
    last = came[known].max(initial=0.0)
    grid = np.unique(np.concatenate([[0.0], left[left < last], came[known]]))
    there = 1.0 - np.interp(grid, np.r_[0.0, left, LONGEST], np.r_[0.0, SHARES, 1.0])
    events = np.interp(grid, np.r_[0.0, came[known]], np.r_[0.0, SHARES[known]])
    middle = 0.5 * (there[1:] + there[:-1])
    hazard = np.concatenate([[0.0], np.cumsum(np.diff(events) / middle)])
    half = np.interp(0.5 * last, grid, hazard)
    rest = (hazard[-1] - half) / (0.5 * last) * (LONGEST - last)  # as in the second half
    return np.append(grid, LONGEST), np.append(hazard, hazard[-1] + rest)


def baseline(hazard: np.ndarray, spread: float) -> np.ndarray:
    """Cumulative hazard at a predictor of zero, of log hazards normal with this spread.

    Of all persons together the hazard falls while those with the larger ones leave:
    ``exp(-hazard) = E exp(-baseline exp(spread z))`` is solved for the baseline.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    trial = np.geomspace(1e-4, 1e2, 600)
    left = np.exp(-trial[:, None] * np.exp(spread * nodes)) @ (weights / weights.sum())
    return np.where(hazard > 0.0, np.interp(hazard, -np.log(np.maximum(left, 1e-12)), trial), 0.0)


def fit(
    X: np.ndarray,
    time: np.ndarray,
    event: np.ndarray,
    privacy: float,
    names: list[str],
    noise: dpfast.SeededNoise | None = None,
) -> dpfast.Fit:
    """Log hazard ratios: a third of ``mu^2`` for the cumulative hazard, two fits with the rest.

    The first says how much the predictors vary, as if covariates were uncorrelated, by the spreads
    that it bought; all but the questions of the records is arithmetic with what was released.
    """
    ledger = dpfast.Ledger(dpfast.GDP(privacy))
    shares = privacy * np.sqrt([0.3, 0.2, 0.499])
    grid, hazard = cumulative_hazard(time, event, shares[0], ledger, noise)
    spread, found = 0.0, None
    for mu in shares[1:]:
        known = np.interp(time, grid, baseline(hazard, spread))
        found = dpfast.fit(
            dpfast.records(X, event.astype(float), offset=np.log(np.maximum(known, 1e-3)),
            names=names),
            None, "poisson", privacy=mu, ledger=ledger, noise=noise,
        )  # fmt: skip
        spread = float(np.sqrt(np.square(found.params[1:] * found.units.spreads).sum()))
    assert found is not None
    return found


def simulated(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weibull times with log hazard ratios 0.7 and -0.4, half of them censored or so."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 2))
    time = 15.0 * (rng.exponential(size=n) / np.exp(X @ [0.7, -0.4])) ** (1.0 / 1.3)
    censored = rng.uniform(0.0, LONGEST, n)
    return X, np.minimum(np.minimum(time, censored), LONGEST), time <= censored


def main() -> None:
    X, time, event = simulated(5000, 0)
    found = fit(X, time, event, 1.0, ["first", "second"])
    print("simulated, log hazard ratios 0.7 and -0.4, n = 5,000, mu = 1\n", found.summary(), "\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of lifelines about its own libraries
        beside_lifelines()


def beside_lifelines() -> None:
    try:
        from lifelines import CoxPHFitter
        from lifelines.datasets import load_dd
    except ImportError:
        print("With lifelines installed: one of its data sets beside its Cox regression.")
        return
    table = load_dd()
    data = table[["duration", "observed"]].copy()
    data["democracy"] = (table["democracy"] == "Democracy").astype(float)
    exact = CoxPHFitter().fit(data, "duration", "observed")
    found = fit(
        data[["democracy"]].to_numpy(),
        np.minimum(data["duration"].to_numpy(dtype=float), LONGEST),
        data["observed"].to_numpy() == 1,
        2.0,
        ["democracy"],
    )
    print("duration of governments (lifelines), n =", len(data), "mu = 2\n", found.summary())
    print("exact Cox regression:\n", exact.summary[["coef", "se(coef)"]])


if __name__ == "__main__":
    main()
