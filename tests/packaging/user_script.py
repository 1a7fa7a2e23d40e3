"""What a user may write: every public name, and results used as numbers.  Checked, and run."""

import numpy as np

import dpfast

NAMES: list[object] = [
    dpfast.optimize.Adaptive,
    dpfast.ApproxDP,
    dpfast.models.Ball,
    dpfast.Binary,
    dpfast.Bounded,
    dpfast.models.Box,
    dpfast.BudgetExceeded,
    dpfast.Categorical,
    dpfast.models.Cauchy,
    dpfast.models.Clip,
    dpfast.CustomLoss,
    dpfast.DpfastError,
    dpfast.privacy.EntropyNoise,
    dpfast.Fit,
    dpfast.FreeScale,
    dpfast.GDP,
    dpfast.models.GemanMcClure,
    dpfast.optimize.Geometric,
    dpfast.optimize.GradientDescent,
    dpfast.Huber,
    dpfast.models.Interval,
    dpfast.errors.InvalidBudget,
    dpfast.InvalidInput,
    dpfast.nonconvex.KL,
    dpfast.Ledger,
    dpfast.LogCosh,
    dpfast.Logistic,
    dpfast.Mallows,
    dpfast.models.MallowsLinear,
    dpfast.nonconvex.Minimum,
    dpfast.optimize.Newton,
    dpfast.papers.NoisyDescent,
    dpfast.Numeric,
    dpfast.Objective,
    dpfast.models.OneHot,
    dpfast.models.OstrovskiiBach,
    dpfast.nonconvex.PerRecordObjective,
    dpfast.regression.Plan,
    dpfast.Poisson,
    dpfast.models.Product,
    dpfast.papers.Proximal,
    dpfast.models.PseudoHuber,
    dpfast.PureDP,
    dpfast.Quantile,
    dpfast.regression.QuantileFits,
    dpfast.Schema,
    dpfast.models.Schweppe,
    dpfast.SeededNoise,
    dpfast.models.SmoothAbsolute,
    dpfast.models.SmoothedHuber,
    dpfast.papers.Spider,
    dpfast.models.TukeyBiweight,
    dpfast.optimize.Uniform,
    dpfast.models.Welsch,
    dpfast.ZCDP,
    dpfast.audit,
    dpfast.bayesopt,
    dpfast.release.certify,
    dpfast.compare,
    dpfast.datasets,
    dpfast.effects,
    dpfast.errors,
    dpfast.nonconvex.estimate_kl,
    dpfast.estimators,
    dpfast.fit,
    dpfast.fit_many,
    dpfast.regression.fit_sparse,
    dpfast.regression.like,
    dpfast.fit_quantiles,
    dpfast.minimize,
    dpfast.nonprivate_fit,
    dpfast.nonconvex.nonprivate_minimize,
    dpfast.open_parquet,
    dpfast.plan,
    dpfast.release.plan_release,
    dpfast.plots,
    dpfast.private_quantiles,
    dpfast.release_functional,
    dpfast.release_parameter,
    dpfast.standardize,
    dpfast.saved,
    dpfast.studies,
    dpfast.Study,
    dpfast.tables,
    dpfast.tune,
    dpfast.inference.verify_report,
    dpfast.quantiles,
]

rng = np.random.default_rng(0)
X = rng.normal(size=(5000, 2))
y = X @ [1.0, 2.0] + rng.normal(size=5000)
result: dpfast.Fit = dpfast.fit(
    X, y, dpfast.Objective("log-cosh", scale=1.0), privacy=dpfast.GDP(1.0)
)
low: float = float(result.conf_int()[0, 0])
print(result.summary(), result.privacy.epsilon(1e-6), low)
loss = dpfast.Huber(1.345)
ledger = dpfast.Ledger(dpfast.GDP(2.0))
other = dpfast.fit(
    dpfast.records(X, y, threads=2, names=["a", "b"]),
    None,
    dpfast.Objective(loss, weights=dpfast.Mallows(2.0), scale=dpfast.FreeScale(0.1, 10.0)),
    privacy=0.5,
    method=dpfast.optimize.Newton(),
    ledger=ledger,
    noise=dpfast.SeededNoise(1),
)
minimum: dpfast.nonconvex.Minimum = dpfast.minimize(
    X, y, dpfast.Objective("tukey", scale=1.0), privacy=1.0
)
plan: dpfast.regression.Plan = dpfast.plan(
    5000, 2, dpfast.Objective("log-cosh", scale=1.0), privacy=1.0
)
quartiles = dpfast.private_quantiles(y, [0.25, 0.75], low=-5.0, high=5.0, privacy=1.0)
print(float(quartiles[0]), minimum.params, ledger.remaining, other.params)
schema = dpfast.Schema(
    {"a": dpfast.Numeric(-3.0, 3.0), "b": dpfast.Binary(positive="yes", negative="no")}
)
table = dpfast.datasets.load_census2000()
print(len(table), schema, dpfast.bayesopt, dpfast.audit.replay)
try:
    ledger.charge(dpfast.GDP(9.0), "too much")
except dpfast.BudgetExceeded as error:
    print(error)
