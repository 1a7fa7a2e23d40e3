"""A private logistic regression: odds ratios, probabilities, and what is refused."""

import numpy as np
from scipy.special import expit

import dpfast

rng = np.random.default_rng(1)
n = 30_000
age, treated = rng.normal(size=n), rng.integers(0, 2, n)
recovered = rng.random(n) < expit(-0.5 - 0.4 * age + 0.8 * treated)
X = np.column_stack([age, treated])

# (epsilon, delta) is understood everywhere; it is spent as Gaussian DP, whose sums are exact.
fit = dpfast.fit(
    dpfast.records(X, recovered, names=["age", "treated"]),
    None,
    "logistic",
    privacy=dpfast.ApproxDP(1.0, 1e-6),
)
print(fit.summary())

odds = fit.ratios("treated")
(low, high) = odds.interval[0]
print(f"odds ratio of the treatment: {odds.estimate[0]:.2f} ({low:.2f} to {high:.2f})")

# Probabilities at public rows cost nothing.
rows = [[0.0, 0.0], [0.0, 1.0]]
print("recovery at the mean age:", fit.predict(rows), fit.predict_interval(rows))

# What would be another query about the records is refused, with the reason, and costs nothing.
try:
    fit.resid  # noqa: B018
except dpfast.DpfastError as error:
    print("refused:", error)
