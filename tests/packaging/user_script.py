"""What a user may write: every public name, and results used as numbers.  Checked, and run."""

import numpy as np

import dpfast

NAMES: list[object] = [
    dpfast.Adaptive,
    dpfast.AdaptiveNewton,
    dpfast.ApproxDP,
    dpfast.Ball,
    dpfast.Binary,
    dpfast.Bounded,
    dpfast.Box,
    dpfast.BudgetExceeded,
    dpfast.Categorical,
    dpfast.Cauchy,
    dpfast.Clip,
    dpfast.CustomLoss,
    dpfast.DoubleNoise,
    dpfast.DpfastError,
    dpfast.EntropyNoise,
    dpfast.Fit,
    dpfast.FreeScale,
    dpfast.GDP,
    dpfast.GemanMcClure,
    dpfast.Geometric,
    dpfast.GradientDescent,
    dpfast.Huber,
    dpfast.Interval,
    dpfast.InvalidBudget,
    dpfast.InvalidInput,
    dpfast.JointNewton,
    dpfast.KL,
    dpfast.Ledger,
    dpfast.LogCosh,
    dpfast.Logistic,
    dpfast.LpBall,
    dpfast.Mallows,
    dpfast.MallowsLinear,
    dpfast.Minimum,
    dpfast.Newton,
    dpfast.NoisyDescent,
    dpfast.Numeric,
    dpfast.Objective,
    dpfast.OneHot,
    dpfast.OstrovskiiBach,
    dpfast.PerRecordObjective,
    dpfast.Plan,
    dpfast.Poisson,
    dpfast.Product,
    dpfast.Proximal,
    dpfast.PseudoHuber,
    dpfast.PureDP,
    dpfast.Quantile,
    dpfast.QuantileFits,
    dpfast.Schema,
    dpfast.Schweppe,
    dpfast.SeededNoise,
    dpfast.SmoothAbsolute,
    dpfast.SmoothedHuber,
    dpfast.Spider,
    dpfast.TukeyBiweight,
    dpfast.Uniform,
    dpfast.Welsch,
    dpfast.ZCDP,
    dpfast.audit,
    dpfast.baselines,
    dpfast.bayesopt,
    dpfast.certify,
    dpfast.compare,
    dpfast.datasets,
    dpfast.effects,
    dpfast.errors,
    dpfast.estimate_kl,
    dpfast.estimators,
    dpfast.fit,
    dpfast.fit_formula,
    dpfast.fit_quantiles,
    dpfast.minimize,
    dpfast.nonprivate_fit,
    dpfast.nonprivate_minimize,
    dpfast.one_hidden_layer,
    dpfast.open_parquet,
    dpfast.phase_retrieval,
    dpfast.plan,
    dpfast.plan_release,
    dpfast.plots,
    dpfast.private_quantiles,
    dpfast.release_functional,
    dpfast.release_parameter,
    dpfast.standardize,
    dpfast.tables,
    dpfast.tune,
    dpfast.verify_report,
    dpfast.with_private_scaling,
]

rng = np.random.default_rng(0)
X = rng.normal(size=(5000, 2))
y = X @ [1.0, 2.0] + rng.normal(size=5000)
result: dpfast.Fit = dpfast.fit(X, y, "log-cosh", privacy=dpfast.GDP(1.0), scale=1.0)
low: float = float(result.conf_int()[0, 0])
print(result.summary(), result.privacy.epsilon(1e-6), low)
loss = dpfast.Huber(1.345)
ledger = dpfast.Ledger(dpfast.GDP(2.0))
other = dpfast.fit(
    X,
    y,
    loss,
    privacy=0.5,
    scale=dpfast.FreeScale(0.1, 10.0),
    weights=dpfast.Mallows(2.0),
    method=dpfast.JointNewton(),
    ledger=ledger,
    noise=dpfast.SeededNoise(1),
    threads=2,
    names=["a", "b"],
)
minimum: dpfast.Minimum = dpfast.minimize(X, y, "tukey", privacy=1.0, scale=1.0)
plan: dpfast.Plan = dpfast.plan(5000, 2, "log-cosh", scale=1.0, mu=1.0)
quartiles = dpfast.private_quantiles(y, [0.25, 0.75], low=-5.0, high=5.0, privacy=1.0)
print(float(quartiles[0]), minimum.params, ledger.remaining, other.params)
schema = dpfast.Schema(
    {"a": dpfast.Numeric(-3.0, 3.0), "b": dpfast.Binary(positive="yes", negative="no")}
)
table = dpfast.datasets.load_census2000()
print(
    len(table), schema, dpfast.baselines.output_perturbation, dpfast.bayesopt, dpfast.audit.replay
)
try:
    ledger.charge(dpfast.GDP(9.0), "too much")
except dpfast.BudgetExceeded as error:
    print(error)
