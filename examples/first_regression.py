"""A first private regression: fit, read, show."""

import numpy as np

import dpfast

# Records: 20,000 persons, two covariates.
rng = np.random.default_rng(0)
X = rng.normal(size=(20_000, 2))
y = 1.0 + X @ [0.5, -0.3] + rng.normal(size=20_000)

# Before any record is touched: how wide will intervals be?
print(dpfast.plan(n=20_000, p=3, privacy=1.0))

# `privacy` is the total that is spent, intervals included; where the columns lie is bought with it.
# Least squares; for outliers or heavy tails add loss="log-cosh".
fit = dpfast.fit(dpfast.records(X, y, names=["dose", "age"]), privacy=1.0)
print(fit.summary())

low, high = fit.conf_int(level=0.95)[1]
print(f"effect of the dose: between {low:.3f} and {high:.3f}")
print(fit.t_test("dose + age = 0").pvalues)

# What the total promises, in plain words; and as a pair of epsilon and delta.
print(fit.privacy.explain())
print(f"epsilon = {fit.privacy.epsilon(1e-6):.2f} at delta = 1e-6")

# One page for readers, which a reviewer can check: dpfast verify fit.html
fit.report("fit.html")
print(dpfast.inference.verify_report("fit.html"))
