"""Names and arguments from statsmodels and scikit-learn, and what to type instead."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from typing import Any

_FIT = 'dpfast.fit("y ~ x1 + x2", table, "{}", privacy=1.0)'
_OLS, _LOGIT, _COUNTS, _ROBUST = map(
    _FIT.format, ("least-squares", "logistic", "poisson", "log-cosh")
)
_QUANTILES = "dpfast.fit_quantiles(X, y, [0.1, 0.5, 0.9], privacy=1.0)"

#: Names that are looked for in dpfast, and what does it.
NAMES = {
    **dict.fromkeys(("ols", "OLS", "LinearRegression", "linear_regression", "lm"), _OLS),
    **dict.fromkeys(("logit", "Logit", "LogisticRegression", "logistic_regression"), _LOGIT),
    **dict.fromkeys(("PoissonRegressor", "poisson", "poisson_regression"), _COUNTS),
    **dict.fromkeys(("GammaRegressor", "gamma"), _FIT.format("gamma")),
    **dict.fromkeys(("probit", "Probit"), _FIT.format("probit")),
    **dict.fromkeys(("rlm", "RLM", "HuberRegressor", "TheilSenRegressor"), _ROBUST),
    **dict.fromkeys(("glm", "GLM"), f'{_LOGIT}, "probit", "poisson" or "gamma"'),
    **dict.fromkeys(("quantreg", "QuantReg", "QuantileRegressor"), _QUANTILES),
    **dict.fromkeys(("Ridge", "ridge"), 'dpfast.Objective("log-cosh", scale=1.0, ridge=0.1)'),
    **dict.fromkeys(("wls", "WLS"), "dpfast.records(X, y, sample_weight=..., largest_weight=...)"),
    **dict.fromkeys(
        ("feols", "felm", "PanelOLS", "reghdfe", "MixedLM", "lmer", "mixedlm"),
        'dpfast.tables.absorbed("y ~ x | state", table, ...)',
    ),
    **dict.fromkeys(("Lasso", "ElasticNet"), 'dpfast.Objective("log-cosh", scale=1.0, ridge=0.1)'),
    **dict.fromkeys(("smf", "sm", "api"), _OLS),
    "MNLogit": f"a regression for each level, {_LOGIT}",
    **dict.fromkeys(
        ("crosstab", "value_counts", "groupby", "histogram", "count"), "dpfast.tables.counts(...)"
    ),
    **dict.fromkeys(("quantile", "percentile", "median"), "dpfast.private_quantiles(...)"),
    **dict.fromkeys(
        ("ttest_ind", "ttest", "t_test", "anova_lm"),
        'a regression on the groups, and its fit.wald_test("x1 = 0")',
    ),
    **dict.fromkeys(("BudgetAccountant", "Accountant", "accountant"), "dpfast.Ledger(1.0)"),
    "load": 'dpfast.saved.load("fit.json")',
    "save": 'dpfast.saved.save(fit, "fit.json")',
    "predict": "fit.predict(rows), of a fit",
    "summary": "fit.summary(), of a fit",
    "IV2SLS": 'dpfast.effects.two_stage("y ~ x | z", table, privacy=1.0)',
    **dict.fromkeys(("PHReg", "CoxPHFitter"), "dpfast.effects.cox"),
    "add_constant": "nothing for it: a fit has an intercept, and X no column of ones",
    "formula": 'dpfast.fit("y ~ x", table, privacy=1.0)',
    "from_formula": 'dpfast.fit("y ~ x", table, privacy=1.0)',
    "read_csv": "pandas.read_csv, or dpfast.open_parquet for what is larger than memory",
    "Budget": "privacy=1.0 (mu), privacy=(1.0, 1e-6) (epsilon, delta), or dpfast.GDP(1.0)",
    "epsilon": "privacy=(1.0, 1e-6): epsilon and delta",
    "seed": "noise=dpfast.SeededNoise(0), for simulations: it voids the guarantee",
    "StandardScaler": "nothing for it: where columns lie is estimated inside the total",
    "GridSearchCV": "dpfast.tune, which pays for what it looks at",
    "cross_val_score": "dpfast.estimators.cross_validate, which pays for each fit and score",
    "train_test_split": "dpfast.estimators.cross_validate, which deals folds in secret",
    "describe": "dpfast.private_quantiles(...): looking at the data costs, too",
    "mean": "dpfast.tables.means(...)",
}

_NOISE = "noise=dpfast.SeededNoise(0), for simulations only: a seed voids the guarantee"
_PAIR = "privacy=(epsilon, delta), such as privacy=(1.0, 1e-6)"
_STEPS = 'method=dpfast.optimize.Newton(steps=8), or nothing: method="auto" chooses'
_ERRORS = "nothing for it: standard errors are those of a sandwich, the privacy noise included"
_RIDGE = 'dpfast.Objective("log-cosh", scale=1.0, ridge=0.1) in the place of the loss'
_RECORDS = "dpfast.records(X, y, {}) in the place of X"
_WEIGHTS = (
    'dpfast.records(table, sample_weight="w") in the place of the table, or '
    "dpfast.records(X, y, sample_weight=w) in that of X; weights against far rows are "
    'dpfast.Objective("log-cosh", scale=1.0, weights=dpfast.Mallows(2.0)) in that of the loss'
)
_REPEATED = (
    'a row for each of those that a row stands for, table.loc[table.index.repeat(table["w"])] in '
    "the place of the table: their number is then public, and each of them is protected"
)
_PERSONS = (
    'dpfast.records(table, group="id", each="person") in the place of the table, or '
    'dpfast.records(X, y, group=ids, each="person") in that of X; rows count alike with '
    "group_size=10, the most rows of a person, in the place of each"
)
_OBJECTIVE = "dpfast.Objective(loss, {}) in the place of the loss"
_OPEN = "dpfast.plan(n=..., p=..., privacy=...) is free: it sees no data"

#: Arguments that are passed, and what to pass instead.
ARGUMENTS = {
    "epsilon": _PAIR, "eps": _PAIR, "delta": _PAIR, "budget": _PAIR, "epsilon_delta": _PAIR,
    "mu": "privacy=1.0: a number is mu", "rho": "privacy=dpfast.ZCDP(rho)",
    **dict.fromkeys(("random_state", "seed", "rng", "generator"), _NOISE),
    **dict.fromkeys(("cov_type", "cov_kwds", "use_t", "robust", "se_type"), _ERRORS),
    **dict.fromkeys(("max_iter", "maxiter", "tol", "solver", "n_iter", "steps"), _STEPS),
    "start_params": 'method=dpfast.optimize.Newton(start=[...])',
    "start": 'method=dpfast.optimize.Newton(start=[...])',
    **dict.fromkeys(("alpha", "C", "penalty", "l1_ratio", "ridge", "reg_param"), _RIDGE),
    "fit_intercept": _OBJECTIVE.format("fit_intercept=False") + ', or "- 1" in a formula',
    "hasconst": "nothing for it: a fit has an intercept, and X no column of ones",
    "scale": _OBJECTIVE.format("scale=1.0"),
    **dict.fromkeys(("weights", "var_weights", "aweights", "pweights", "sample_weight"), _WEIGHTS),
    "family": 'the loss by name: "logistic", "probit", "poisson" or "gamma"',
    **dict.fromkeys(("freq_weights", "fweights"), _REPEATED),
    **dict.fromkeys(("groups", "group", "cluster", "clusters"), _PERSONS),
    "offset": _RECORDS.format("offset=..."),
    "exposure": _RECORDS.format("offset=np.log(exposure)"),
    "names": _RECORDS.format("names=[...]"), "exog_names": _RECORDS.format("names=[...]"),
    "n_jobs": _RECORDS.format("threads=2"), "threads": _RECORDS.format("threads=2"),
    "endog": "X first, then y", "exog": "X first, then y",
    "data": 'the table after the formula: dpfast.fit("y ~ x", table, ...)',
    "formula": 'the formula first: dpfast.fit("y ~ x", table, ...)',
    "df": 'the table after the formula: dpfast.fit("y ~ x", table, ...)',
    "missing": "nothing for it: a record with a missing value counts in n and contributes zero",
    "bounds": "nothing for it; public ranges go into dpfast.fit_formula(..., schema=...)",
    **dict.fromkeys(("bounds_X", "bounds_y", "data_norm", "clip", "clipping_norm", "l2_norm_clip",
                     "max_grad_norm"),
                    "nothing for it: no bound on the data is needed"),
    "accountant": "ledger=dpfast.Ledger(1.0)", "standardise": "standardize=True",
    "normalize": "standardize=True, the default", "verbose": "progress=print",
    "disp": "progress=print",
    "quantile": "dpfast.fit_quantiles(X, y, [0.5], privacy=1.0)", "q": 'loss=dpfast.Quantile(0.5)',
    "tau": "loss=dpfast.Quantile(0.5)", "schema": "dpfast.fit_formula(formula, table, schema=...)",
    **dict.fromkeys(("maximize", "direction"), "losses, which are made small: minus what is to be "
                    "large, one number for each record"),
    **dict.fromkeys(("n_trials", "n_calls", "max_evals"), "steps=25: the budget is divided among "
                    "so many, each of which evaluates a few points"),
    **dict.fromkeys(("callbacks", "callback"), "progress=print: it is called with the steps paid "
                    "for and the steps planned"),
    "width": _OPEN, "level": "fit.conf_int(level=0.9), after the fit",
}  # fmt: skip

#: What is called otherwise here.
CALLED = {
    "get_prediction": "fit.predict(rows) and fit.predict_interval(rows)",
    "f_test": "fit.wald_test(rows)",
    "get_robustcov_results": "nothing for it: standard errors are those of a sandwich already",
    "df_resid": "fit.degrees_of_freedom, how well each standard error is known",
    "df_model": "len(fit.params) - 1", "pvalue": "fit.pvalues", "coef_": "fit.params[1:]",
    "intercept_": "fit.params[0]", "std_errors": "fit.bse", "summary2": "fit.summary()",
    "confint": "fit.conf_int()", "fit": "the fit itself: it is one",
    "margins": "fit.marginal_effects(rows)", "get_margeff": "fit.marginal_effects(rows)",
    "summary_frame": "fit.to_frame()", "to_csv": "fit.to_frame().to_csv(...)",
    **dict.fromkeys(("html", "as_html"), "fit.report('fit.html'), a page, or fit.to_html()"),
    **dict.fromkeys(("latex", "as_latex"), "fit.to_latex(stars=True)"),
    "vcov": "fit.cov_params()", "predict_proba": "fit.predict(rows)",
    "feature_names_in_": "fit.names", "anova": "fit.wald_test(rows)",
    "compare_lr_test": "fit.wald_test(rows)", "score": "fit.predict(rows) of public rows",
    "bootstrap": "nothing for it: fit.conf_int() has the noise of privacy in it already",
    "epsilon": "fit.privacy.epsilon(1e-6)", "coefficients": "fit.params", "coef": "fit.params",
}  # fmt: skip

_MADE = "it as a column of the table: table.assign(older=table.age > 30), and then older"
_LISTED = "C(x, levels=['a', 'b']), with the reference first"
_SPLINE = (
    "a spline with public knots and ends, bs(x, knots=[...], lower_bound=..., upper_bound=...)"
)
_ITSELF = "x itself: where columns lie, and how far apart, is estimated inside the total"

#: Functions, and kinds of Python, in terms of formulas, and what to write instead.
TERMS = {
    **dict.fromkeys(("factor", "C", "Treatment", "Sum", "Helmert", "Poly", "Diff"), _LISTED),
    **dict.fromkeys(("s", "te", "ti", "lo", "spline", "cc", "lowess"), _SPLINE),
    **dict.fromkeys(("center", "scale", "standardize", "zscore", "normalize", "demean"), _ITSELF),
    **dict.fromkeys(("where", "ifelse", "cut", "min", "max", "maximum", "minimum", "round", "clip",
                     "lag", "diff", "rank", "Compare", "BoolOp", "IfExp", "Mod", "FloorDiv"),
                    _MADE),
    **dict.fromkeys(("log10", "log2"), "log(x): the base changes its coefficient alone"),
    "poly": "powers, x + I(x**2)", "pow": "I(x**2)", "power": "I(x**2)", "square": "I(x**2)",
    "BitXor": "** for a power, I(x**2)", "log1p": "log(1 + x)", "expm1": "exp(x)",
    "offset": 'dpfast.records(table, offset="x") in the place of the table, and no term',
    "Q": "the name between backticks, `my column`",
    **dict.fromkeys(("Attribute", "Subscript"), "the name of the column alone: what is computed of "
                    "a whole column would be a release"),
}  # fmt: skip


_TABLE = "dpfast.tables.{}(table, {}, schema=schema, privacy=0.5)"

#: What is made or called, as it is written; where that says more than the arguments alone.
CALLS = {
    "GDP": "dpfast.GDP(1.0), of mu; epsilon and delta are dpfast.ApproxDP(1.0, 1e-6)",
    "ZCDP": "dpfast.ZCDP(0.5), of rho; mu is dpfast.GDP(1.0)",
    "PureDP": "dpfast.PureDP(1.0), of epsilon",
    "ApproxDP": "dpfast.ApproxDP(epsilon=1.0, delta=1e-6); mu is dpfast.GDP(1.0)",
    "Ledger": "dpfast.Ledger(1.0), of mu, or dpfast.Ledger((1.0, 1e-6)), of epsilon and delta",
    "SeededNoise": "dpfast.SeededNoise(0), for simulations only",
    "Schema": 'dpfast.Schema({"age": dpfast.Numeric(18, 90)}), of a mapping of names',
    "Numeric": 'dpfast.Numeric(18, 90, units="years"), of a public range',
    "Categorical": 'dpfast.Categorical(["north", "south"]), with the reference first',
    "Binary": 'dpfast.Binary("yes", "no"), of which the first is 1',
    "Objective": 'dpfast.Objective("huber", scale=1.0, weights=dpfast.Mallows(2.0), ridge=0.1)',
    "Huber": "dpfast.Huber(1.345), of the corner in scales of residuals",
    "Logistic": 'dpfast.Logistic(), or "logistic"; a ridge belongs to dpfast.Objective',
    "Poisson": "dpfast.Poisson(largest_mean=20), where that is public",
    "Quantile": "dpfast.Quantile(0.5), of the level",
    "FreeScale": "dpfast.FreeScale(0.1, 10.0), with public ends",
    "CustomLoss": "dpfast.CustomLoss(loss, psi, psi_prime, ...), functions of a residual",
    "Mallows": "dpfast.Mallows(2.0), of a radius",
    "Study": "dpfast.Study(table, privacy=1.0, schema=schema)",
    "records": "dpfast.records(X, y, names=[...], sample_weight=..., offset=..., group=..., "
               "group_size=...)",
    "counts": _TABLE.format("counts", '"sex"'),
    "means": _TABLE.format("means", '"wage", "sex"'),
    "open_parquet": 'dpfast.open_parquet("data.parquet", covariates=["age"], response="wage")',
    "private_quantiles": "dpfast.private_quantiles(age, [0.25, 0.5], low=0, high=99, privacy=0.5)",
    "coefficient_plot": 'dpfast.plots.coefficient_plot({"short": first, "long": second}, '
                        'keep=["age"], labels={"age": "Age in years"}, exponentiate=True)',
    "compare": 'dpfast.compare(first, second, names=["short", "long"])',
    "cox": 'dpfast.effects.cox("weeks ~ age", table, event="died", cuts=[4, 13], privacy=1.0)',
    "nonprivate_fit": 'dpfast.nonprivate_fit(X, y, "least-squares"): it spends nothing',
}  # fmt: skip

_NEEDED = (
    "{}() needs privacy=..., the total to spend: privacy=1.0 (mu of Gaussian DP), "
    "privacy=(1.0, 1e-6) (epsilon and delta), or privacy=dpfast.GDP(1.0). It is passed by name."
)


def instead(called: Callable[..., Any], given: tuple[Any, ...], named: Mapping[str, Any]) -> str:
    """Write what to type in place of a call; empty if its arguments are accepted."""
    parameters = signature(called).parameters
    is_constructor = called.__name__ == "__init__"
    name = type(given[0]).__name__ if is_constructor else called.__name__
    hint = f". Write {CALLS[name]}." if name in CALLS else ""
    unknown = next((key for key in named if key not in parameters), None)
    if unknown is not None:
        known = [key for key in parameters if not is_constructor or key != "self"]
        usual = ARGUMENTS.get(unknown, "")
        if usual is _RIDGE and "ridge" in parameters:
            usual = "ridge=0.1"
        hint = hint or (f". Write {usual}." if usual else "")
        return f"{name}() has no argument {unknown!r}" + (hint or f"; it has {', '.join(known)}.")
    needed = parameters.get("privacy")
    if needed is not None and needed.default is Parameter.empty and "privacy" not in named:
        return _NEEDED.format(name)
    try:
        signature(called).bind(*given, **named)
    except TypeError as error:
        return hint and f"{name}(): {error}{hint}"
    return ""


def instead_of_term(tree: ast.expr) -> str:
    """Write what to use for a term of another language; empty if a formula may have it."""
    for node in ast.walk(tree):
        kinds: list[ast.AST] = [node.op] if isinstance(node, ast.BinOp) else [node]
        names = [type(kind).__name__ for kind in kinds]
        if isinstance(node, ast.Call):
            names = [getattr(node.func, "id", "") or getattr(node.func, "attr", "")]
        elif isinstance(node, ast.Attribute) and getattr(node.value, "id", "") in ("np", "numpy"):
            names = []
        for name in names:
            if name in TERMS:
                return TERMS[name]
    return ""


def without_parts(formula: str) -> str:
    """Remove what is in parentheses or quotes from a formula."""
    bare, before = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`", "", formula), ""
    while bare != before:
        bare, before = re.sub(r"\([^()]*\)", "\0", bare), bare
    return bare


def power_of_a_name(bare: str) -> str:
    """Find a power such as ``x**2`` in a formula without parentheses; empty if there is none."""
    match = re.search(r"([A-Za-z_]\w*)\s*(?:\*\*|\^)\s*(\d+)", bare)
    return f"{match[1]}**{match[2]}" if match else ""
