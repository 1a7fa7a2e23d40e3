"""Names and arguments from statsmodels and scikit-learn, and what to type instead."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter, signature
from typing import Any

_FIT = 'dpfast.fit("y ~ x1 + x2", table, "{}", privacy=1.0)'
_OLS, _LOGIT, _COUNTS, _ROBUST = map(
    _FIT.format, ("least-squares", "logistic", "poisson", "log-cosh")
)
_PICTURE = 'dpfast.plots.coefficient_plot({"short": first, "long": second}, keep=["age"])'
_COX = 'dpfast.effects.cox("weeks ~ age", table, event="died", cuts=[4, 13], privacy=1.0)'
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
    **dict.fromkeys(("Lasso", "LassoCV", "ElasticNet"), "dpfast.regression.fit_sparse(X, y, ...)"),
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
    **dict.fromkeys(("load", "read_json", "loads"), 'dpfast.saved.load("fit.json")'),
    **dict.fromkeys(("save", "dump", "pickle", "to_json"), 'fit.save("fit.json")'),
    **dict.fromkeys(("predict", "augment"), "fit.predict(rows), of a fit and public rows"),
    "summary": "fit.summary(), of a fit",
    "tidy": "fit.to_frame(), of any result",
    "glance": "fit.summary(), of any result; fit.n_records and fit.privacy are parts of it",
    **dict.fromkeys(
        (
            "coefplot",
            "coef_plot",
            "plot_coefficients",
            "plot_coefs",
            "forest_plot",
            "forestplot",
            "modelplot",
            "iplot",
        ),
        _PICTURE,
    ),
    **dict.fromkeys(
        ("plot_predictions", "plot_slopes", "effect_plot"),
        'dpfast.plots.prediction_plot(fit, rows, "age")',
    ),
    **dict.fromkeys(
        (
            "etable",
            "esttab",
            "stargazer",
            "modelsummary",
            "summary_col",
            "outreg",
            "outreg2",
            "Stargazer",
        ),
        'dpfast.compare({"short": first, "long": second}).as_latex(stars=True)',
    ),
    **dict.fromkeys(
        ("slopes", "avg_slopes", "margins", "comparisons", "avg_comparisons", "get_margeff"),
        'fit.marginal_effects(rows, average=True, contrasts="female"), of public rows',
    ),
    **dict.fromkeys(
        (
            "ate",
            "ATE",
            "att",
            "ATT",
            "aipw",
            "ipw",
            "psm",
            "matching",
            "teffects",
            "causal",
            "treatment_effects",
            "average_treatment_effect",
            "doubleml",
            "DoubleML",
        ),
        "dpfast.effects.treatment_effect(X, treatment, y, privacy=1.0)",
    ),
    **dict.fromkeys(
        ("did", "diff_in_diff", "difference_in_differences"),
        'dpfast.fit("y ~ treated*after", table, privacy=1.0)',
    ),
    **dict.fromkeys(
        (
            "IV2SLS",
            "iv2sls",
            "iv",
            "IV",
            "ivreg",
            "ivregress",
            "tsls",
            "two_sls",
            "instruments",
            "IVGMM",
            "LIML",
        ),
        'dpfast.effects.two_stage("y ~ x | z", table, privacy=1.0)',
    ),
    **dict.fromkeys(
        (
            "PHReg",
            "CoxPHFitter",
            "coxph",
            "phreg",
            "KaplanMeierFitter",
            "kaplan_meier",
            "survfit",
            "survival",
            "Surv",
        ),
        _COX,
    ),
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
_FITS = 'dpfast.tables.fits("y ~ x", table, "region", schema=schema, privacy=1.0)'
_WITHIN = 'dpfast.tables.absorbed("y ~ x | state", table, schema=schema, privacy=1.0)'
_ROWS_MEANT = (
    'the rows that you mean, table[table["female"] == 1], in the place of the table: their number '
    "is then public"
)
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
    **dict.fromkeys(("cov_type", "cov_kwds", "use_t", "robust", "se_type", "vcov", "vce", "se",
                     "ses", "std_errors", "standard_errors", "cov_estimator"), _ERRORS),
    **dict.fromkeys(("subset", "where", "filter", "sample", "mask"), _ROWS_MEANT),
    **dict.fromkeys(("by", "split", "fsplit", "strata", "over"), _FITS),
    **dict.fromkeys(("absorb", "fe", "fixed_effects", "entity_effects", "time_effects", "fixef"),
                    _WITHIN),
    **dict.fromkeys(("max_iter", "maxiter", "tol", "solver", "n_iter", "steps"), _STEPS),
    "start_params": 'method=dpfast.optimize.Newton(start=[...])',
    "start": 'method=dpfast.optimize.Newton(start=[...])',
    **dict.fromkeys(("alpha", "C", "penalty", "l1_ratio", "ridge", "reg_param"), _RIDGE),
    "fit_intercept": _OBJECTIVE.format("fit_intercept=False") + ', or "- 1" in a formula',
    "hasconst": "nothing for it: a fit has an intercept, and X no column of ones",
    "scale": _OBJECTIVE.format("scale=1.0"),
    **dict.fromkeys(("weights", "var_weights", "aweights", "pweights", "sample_weight"), _WEIGHTS),
    **dict.fromkeys(("family", "link", "distribution"),
                    'the loss by name: "logistic", "probit", "poisson" or "gamma"'),
    **dict.fromkeys(("freq_weights", "fweights"), _REPEATED),
    **dict.fromkeys(("groups", "group", "cluster", "clusters", "id", "person", "cluster_vars"),
                    _PERSONS),
    "offset": _RECORDS.format("offset=..."),
    "exposure": _RECORDS.format("offset=np.log(exposure)"),
    "names": _RECORDS.format("names=[...]"), "exog_names": _RECORDS.format("names=[...]"),
    "n_jobs": _RECORDS.format("threads=2"), "threads": _RECORDS.format("threads=2"),
    "endog": "X first, then y", "exog": "X first, then y",
    "data": 'the table after the formula: dpfast.fit("y ~ x", table, ...)',
    "formula": 'the formula first: dpfast.fit("y ~ x", table, ...)',
    "df": 'the table after the formula: dpfast.fit("y ~ x", table, ...)',
    **dict.fromkeys(("missing", "na_action", "dropna", "na_rm"), "nothing for it: a record with a "
                    "missing value counts in n and contributes zero"),
    "bounds": "nothing for it; public ranges go into dpfast.fit(formula, table, schema=...)",
    **dict.fromkeys(("bounds_X", "bounds_y", "data_norm", "clip", "clipping_norm", "l2_norm_clip",
                     "max_grad_norm"),
                    "nothing for it: no bound on the data is needed"),
    "accountant": "ledger=dpfast.Ledger(1.0)", "standardise": "standardize=True",
    "normalize": "standardize=True, the default", "verbose": "progress=True",
    "disp": "progress=True",
    "quantile": "dpfast.fit_quantiles(X, y, [0.5], privacy=1.0)", "q": 'loss=dpfast.Quantile(0.5)',
    "tau": "loss=dpfast.Quantile(0.5)", "schema": "dpfast.fit(formula, table, schema=...)",
    **dict.fromkeys(("maximize", "direction"), "losses, which are made small: minus what is to be "
                    "large, one number for each record"),
    **dict.fromkeys(("n_trials", "n_calls", "max_evals"), "steps=25: the budget is divided among "
                    "so many, each of which evaluates a few points"),
    **dict.fromkeys(("callbacks", "callback"), "progress=print: it is called with the steps paid "
                    "for and the steps planned; progress=True shows a bar"),
    "width": _OPEN,
    **dict.fromkeys(("level", "conf_level", "confidence", "ci"),
                    "fit.conf_int(level=0.9), after the fit"),
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
    **dict.fromkeys(("tidy", "to_pandas", "as_frame", "params_table", "table", "frame"),
                    "fit.to_frame()"),
    **dict.fromkeys(("glance", "describe", "info", "print_summary", "summary_table"),
                    "fit.summary()"),
    **dict.fromkeys(("augment", "predictions", "fitted"), "fit.predict(rows), for public rows"),
    "to_excel": "fit.to_frame().to_excel(...)", "to_polars": 'fit.to_frame(backend="polars")',
    **dict.fromkeys(("groupby", "by", "subset"), _FITS),
    **dict.fromkeys(("n", "N", "n_obs", "nobs_", "n_samples", "n_rows"), "fit.n_records"),
    **dict.fromkeys(("std_err", "std_error", "se", "ses", "stderr", "standard_errors", "bse_"),
                    "fit.bse"),
    **dict.fromkeys(("p_values", "pvals", "pval", "p"), "fit.pvalues"),
    **dict.fromkeys(("tvalue", "tstat", "tstats", "t_values", "zvalue", "statistic"),
                    "fit.zvalues"),
    **dict.fromkeys(("budget", "mu", "spent", "guarantee", "delta", "cost"),
                    "fit.privacy, which says it"),
    **dict.fromkeys(("cov", "covariance", "covariance_matrix", "cov_matrix", "vcov"),
                    "fit.cov_params()"),
    **dict.fromkeys(("odds_ratios", "odds_ratio", "hazard_ratios", "rate_ratios", "exp", "eform"),
                    "fit.ratios()"),
    **dict.fromkeys(("plot_coef", "plot_coefs", "coefplot", "plot_coefficients", "iplot"),
                    'fit.plot(keep=["age"])'),
    **dict.fromkeys(("etable", "stargazer", "modelsummary", "esttab"),
                    "fit.to_latex(stars=True), or dpfast.compare(first, second).as_latex()"),
    **dict.fromkeys(("slopes", "avg_slopes", "margeff", "marginal", "marginal_effect"),
                    "fit.marginal_effects(rows, average=True)"),
    **dict.fromkeys(("linear_hypothesis", "lincom", "lht", "test", "wald", "waldtest"),
                    'fit.wald_test("a = 0, b = 0")'),
    **dict.fromkeys(("ci", "conf", "confidence_interval", "confidence_intervals", "interval"),
                    "fit.conf_int()"),
    **dict.fromkeys(("r2", "R2", "r_squared", "adj_r2", "loglik", "log_likelihood", "AIC", "BIC"),
                    "nothing for it: it is a query about the records that a fit does not pay for"),
    **dict.fromkeys(("residuals", "resids", "influence", "get_influence", "leverage"),
                    "nothing for it: it has a value for each record"),
    "predict_proba": "fit.predict(rows)",
    "feature_names_in_": "fit.names", "anova": "fit.wald_test(rows)",
    "compare_lr_test": "fit.wald_test(rows)", "score": "fit.predict(rows) of public rows",
    "bootstrap": "nothing for it: fit.conf_int() has the noise of privacy in it already",
    "epsilon": "fit.privacy.epsilon(1e-6)", "coefficients": "fit.params", "coef": "fit.params",
}  # fmt: skip

#: Attributes of a ledger, a study and a schema that are called otherwise.
OF_LEDGER = {
    **dict.fromkeys(
        ("budget", "balance", "left", "available", "unspent", "remaining_budget"),
        "ledger.remaining",
    ),
    **dict.fromkeys(
        ("spend", "add", "deduct", "consume", "pay", "request"), 'ledger.charge(0.5, "a label")'
    ),
    **dict.fromkeys(("history", "log", "charges", "transactions"), "ledger.entries"),
    **dict.fromkeys(("used", "consumed", "total_spent", "cost"), "ledger.spent"),
    **dict.fromkeys(
        ("save", "dump"),
        'dpfast.Ledger.open("budget.ledger", 1.0) from the start: '
        "each charge is written before it is granted",
    ),
}
OF_STUDY = {
    **dict.fromkeys(("ols", "OLS", "lm", "regress", "regression", "logit", "glm"),
                    'study.fit("y ~ x", "least-squares", share=0.2)'),
    **dict.fromkeys(("groupby", "crosstab", "value_counts", "tabulate", "freq", "count"),
                    'study.counts("region", share=0.1), or study.means("pay", "region", '
                    "share=0.1)"),
    **dict.fromkeys(("mean", "average", "avg"), 'study.means("pay", "region", share=0.1)'),
    **dict.fromkeys(("median", "quantile", "percentile"),
                    'study.quantiles("pay", "region", [0.5], share=0.1)'),
    **dict.fromkeys(("ate", "treatment_effect", "causal"), 'study.effect(treatment="t", '
                    'response="y", covariates=["x"], share=0.2)'),
    **dict.fromkeys(("iv", "iv2sls", "tsls"), 'study.two_stage("y ~ x | z", share=0.2)'),
    **dict.fromkeys(("budget", "spent", "balance", "left", "privacy"),
                    "study.remaining, or study.ledger.spent"),
    **dict.fromkeys(("summary", "results", "answers", "history", "describe"),
                    "study.log, its answers in order"),
    **dict.fromkeys(("save", "export", "to_html", "publish"), 'study.report("study.html")'),
    **dict.fromkeys(("query", "execute", "ask", "sql"), "study.run(request)"),
    **dict.fromkeys(("data", "table", "df", "records", "head"),
                    "nothing for it: a study shows released numbers only"),
}  # fmt: skip
OF_SCHEMA = {
    **dict.fromkeys(("infer", "from_frame", "from_dataframe", "from_table", "detect"),
                    'dpfast.Schema({"age": dpfast.Numeric(18, 90)}): ranges and levels of values '
                    "are private facts, which you declare from public knowledge"),
    **dict.fromkeys(("keys", "names", "items"), "schema.columns, a mapping"),
    **dict.fromkeys(("save", "dump", "to_json"), "schema.to_toml()"),
    **dict.fromkeys(("load", "from_json", "from_file"), "dpfast.Schema.from_toml(text)"),
}  # fmt: skip

_PUBLIC_ROWS = 'the public rows first, such as {"age": [30, 40]}'

#: Arguments of methods of results, and what to pass instead.
OF_METHODS = {
    **dict.fromkeys(("conf_level", "confidence", "confidence_level", "conf", "ci", "prob"),
                    "level=0.9"),
    **dict.fromkeys(("newdata", "exog", "data", "df", "table", "at", "atexog", "rows", "datagrid"),
                    _PUBLIC_ROWS),
    **dict.fromkeys(("variables", "dydx"), "nothing for it: every variable of the model is in it"),
    **dict.fromkeys(("r_matrix", "hypothesis", "hypotheses", "constraints", "q_matrix", "R", "q"),
                    'the hypothesis first, such as "a = 0, b = 0"'),
    **dict.fromkeys(("use_f", "use_t", "scalar", "distribution"), "nothing for it: tests are t and "
                    "F with the degrees of freedom of the noise"),
    **dict.fromkeys(("cols", "parm", "which", "names"), 'the name afterwards: conf_int()["age"]; '
                    'or keep=["age"] in to_latex and plot'),
    **dict.fromkeys(("vcov", "cov_type", "cov_p", "robust", "cov"), _ERRORS),
    **dict.fromkeys(("type", "transform", "linear"), "nothing for it: it is the mean response"),
    **dict.fromkeys(("interval", "obs", "prediction"), "fit.predict_interval(rows, "
                    "new_response=True), of a new response"),
    **dict.fromkeys(("exponentiate", "eform"), "fit.ratios(), of exponentials"),
    **dict.fromkeys(("decimals", "float_format", "precision", "digits"),
                    "fit.to_latex(digits=3), of decimals"),
    **dict.fromkeys(("stars", "keep", "drop", "labels"), "fit.to_latex(stars=True, keep=[...], "
                    'labels={"age": "Age"}), of tables for papers'),
}  # fmt: skip

#: Arguments of a study's methods, and what to pass instead.
OF_REQUESTS = {
    **dict.fromkeys(("privacy", "epsilon", "eps", "budget", "delta", "rho", "spend", "price"),
                    "share=0.2, a share of the study's total, or mu=0.3"),
    **dict.fromkeys(("groupby", "group", "groups"), 'by="region"'),
    **dict.fromkeys(("data", "table", "df", "schema", "ledger", "noise"),
                    "nothing for it: the study has it"),
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
    "Waves": "dpfast.tables.Waves(1.0, waves=4), of the number of waves to come",
    "records": "dpfast.records(X, y, names=[...], sample_weight=..., offset=..., group=..., "
               "group_size=...)",
    "counts": _TABLE.format("counts", '"sex"'),
    "means": _TABLE.format("means", '"wage", "sex"'),
    "open_parquet": 'dpfast.open_parquet("data.parquet", covariates=["age"], response="wage")',
    "private_quantiles": "dpfast.private_quantiles(age, [0.25, 0.5], low=0, high=99, privacy=0.5)",
    "coefficient_plot": 'dpfast.plots.coefficient_plot({"short": first, "long": second}, '
                        'keep=["age"], labels={"age": "Age in years"}, exponentiate=True)',
    "compare": 'dpfast.compare(first, second, names=["short", "long"]); .as_latex(stars=True, '
               'keep=["age"], labels={"age": "Age"}) of it is for papers',
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
    is_method = "self" in parameters and not is_constructor
    name = type(given[0]).__name__ if is_constructor else called.__name__
    hint = f". Write {CALLS[name]}." if name in CALLS and not is_method else ""
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values()):
        unknown = next((key for key in named if key in OF_REQUESTS), None)
        return "" if unknown is None else f"{name}(): write {OF_REQUESTS[unknown]}"
    unknown = next((key for key in named if key not in parameters), None)
    if unknown is not None:
        known = [key for key in parameters if key != "self"]
        usual = (OF_METHODS if is_method else ARGUMENTS).get(unknown, "")
        if usual is _RIDGE and "ridge" in parameters:
            usual = "ridge=0.1"
        if usual is _PUBLIC_ROWS and "y" in parameters:
            usual = f"the private records first: {name}(X, y)"
        hint = hint or (f". Write {usual}." if usual else "")
        return f"{name}() has no argument {unknown!r}" + (hint or f"; it has {', '.join(known)}.")
    needed = parameters.get("privacy")
    try:
        bound = signature(called).bind_partial(*given, **named).arguments
    except TypeError:  # too many of them
        bound = dict(named)
    if needed is not None and needed.default is Parameter.empty and "privacy" not in bound:
        return _NEEDED.format(name)
    try:
        signature(called).bind(*given, **named)
    except TypeError as error:
        return hint and f"{name}(): {error}{hint}"
    return ""


def of_attribute(kind: type, name: str) -> str:
    """Write that a class has no such attribute, and what to type in its place."""
    tables = {"Ledger": OF_LEDGER, "Study": OF_STUDY, "Schema": OF_SCHEMA}
    own = (tables[base.__name__] for base in kind.__mro__ if base.__name__ in tables)
    table = next(own, CALLED)
    message = f"{kind.__name__!r} object has no attribute {name!r}"
    if name in table:
        return f"{message}; write {table[name]}."
    near = _nearest(name, [key for key in dir(kind) if key[:1] != "_"])
    return f"{message}; did you mean {near!r}?" if near else message


def of_request(field: object) -> str:
    """Write what to use for a field that no request has."""
    return f": write {OF_REQUESTS[field]}" if field in OF_REQUESTS else ""


def of_module(name: str, package: str, public: Iterable[str], elsewhere: str) -> str:
    """Write the end of a message for a name that a module lacks."""
    if name in NAMES:
        return f". Write {NAMES[name]}."
    if elsewhere:
        return f". It is {elsewhere}."
    near = _nearest(name, list(public))
    return f". Did you mean {package}.{near}?" if near else "."


def _nearest(name: str, names: list[str]) -> str:
    from difflib import get_close_matches

    return (get_close_matches(name, names, 1, 0.7) or [""])[0]


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
