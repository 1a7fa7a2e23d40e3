"""Plots: they draw what they say and need nothing closed."""

from __future__ import annotations

import inspect
import io
import re
from itertools import pairwise

import numpy as np
import pytest

import dpfast

pytest.importorskip("matplotlib")
from matplotlib.figure import Figure

from dpfast import plots
from tests.loops import each


@pytest.fixture(scope="module")
def fit():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    return dpfast.fit(
        X, X @ [1.0, -1.0], dpfast.Objective("log-cosh", scale=1.0), privacy=1.0,
        noise=dpfast.SeededNoise(0),
    )  # fmt: skip


@pytest.fixture(scope="module")
def plan():
    """Of records enough that no width of its curves has to be rehearsed with noise."""
    return dpfast.plan(n=3_000_000, p=3, privacy=1.0, loss=dpfast.Objective("log-cosh", scale=1.0))


@pytest.fixture(scope="module")
def searched():
    at = np.random.default_rng(0).normal(1.0, 0.5, 500)
    return dpfast.bayesopt.tune(
        lambda theta: (at - theta[0]) ** 2 + (theta[1] - 0.5) ** 2, [(-3.0, 3.0), (-3.0, 3.0)],
        privacy=0.05, n_records=len(at), steps=6, noise=dpfast.SeededNoise(0),
    )  # fmt: skip


def drawn(figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=40)
    return file.getvalue()


def test_coefficients_and_their_intervals(fit):
    figure = plots.coefficient_plot({"a": fit, "b": fit}, title="twice", panels=False)
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == list(fit.names)
    (legend,) = figure.legends  # beside the panels
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b"]
    assert legend.get_window_extent().x0 >= axes.get_window_extent().x1
    assert drawn(figure).startswith(b"\x89PNG")


def test_a_tradeoff_curve_is_the_bound(fit):
    figure = plots.tradeoff_plot({"one": dpfast.GDP(1.0), "two": 2.0})
    lines = {line.get_label(): line.get_xydata() for line in figure.axes[0].lines}
    assert set(lines) == {"blind guessing", "one", "two"}
    rate, power = lines["one"][100]
    assert power == dpfast.GDP(1.0).attack_power(rate)
    assert (lines["two"][:, 1] >= lines["one"][:, 1]).all()
    drawn(figure)


def test_a_plan_is_marked_on_its_curves(plan):
    figure = plots.plan_plot(plan, title="a plan")
    for axes, x in zip(figure.axes, (plan.mu, plan.n), strict=True):
        curve = axes.lines[0].get_xydata()
        assert np.interp(x, *curve.T) == pytest.approx(plan.width, rel=0.02)
    drawn(figure)
    ticks_can_be_read(figure)


def test_a_budget_is_drawn_to_scale(fit):
    figure = plots.budget_plot(fit)
    widths = [patch.get_width() for patch in figure.axes[0].patches]
    assert sum(widths) == pytest.approx(1.0, abs=1e-6)
    assert len(widths) in (len(fit.privacy.entries), len(fit.privacy.entries) + 1)
    book = dpfast.Ledger(dpfast.ZCDP(2.0))
    book.charge(dpfast.ZCDP(0.5), "first")
    patches = plots.budget_plot(book, title="a ledger").axes[0].patches
    assert [patch.get_width() for patch in patches] == pytest.approx([0.25, 0.75])
    drawn(figure)


# ---- in notebooks, in figures of one's own, for readers who do not see them ----------------------


def fit_of(p):
    X = np.random.default_rng(p).normal(size=(4000, p - 1))
    names = [f"a name that is rather long, as of interactions, {j}" for j in range(p - 1)]
    return dpfast.fit(
        dpfast.records(X, X @ np.linspace(-1.0, 1.0, p - 1), names=names), None,
        dpfast.Objective("log-cosh", scale=1.0), privacy=2.0, noise=dpfast.SeededNoise(0),
    )  # fmt: skip


@pytest.fixture(scope="module")
def every_plot(plan, searched):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    table = {"x1": X[:, 0], "x2": X[:, 1], "y": X @ [1.0, -1.0] + 5.0}
    fit = dpfast.fit("y ~ x1 + x2", table, "least-squares", privacy=1.0)
    quantiles = dpfast.fit_quantiles(X, table["y"], [0.25, 0.75], privacy=4.0)
    schema = dpfast.Schema({"y": dpfast.Numeric(0, 10), "sex": dpfast.Categorical(["F", "M"])})
    table["sex"] = np.tile(["F", "M"], 1000)
    cells = dpfast.tables.means(table, "y", "sex", schema=schema, privacy=1.0)
    distribution = dpfast.tables.distribution(table, "y", "sex", schema=schema, privacy=1.0)
    ledger = dpfast.Ledger(1.0)
    ledger.charge(0.5, 'a "query" <b>')
    return {
        plots.coefficient_plot: (fit,),
        plots.tradeoff_plot: (1.0,),
        plots.plan_plot: (plan,),
        plots.budget_plot: (ledger,),
        plots.search_plot: (searched,),
        plots.prediction_plot: (fit, {"x1": [0.0, 1.0], "x2": [0.0, 0.0]}, "x1"),
        plots.quantile_plot: (quantiles,),
        plots.cell_plot: (cells,),
        plots.distribution_plot: (distribution,),
    }


def test_every_plot_is_swept(every_plot):
    assert {plot.__name__ for plot in every_plot} == {n for n in dir(plots) if n.endswith("_plot")}


@pytest.mark.parametrize("name", [name for name in dir(plots) if name.endswith("_plot")])
@pytest.mark.one_in(4)
def test_a_plot_shows_itself_and_says_itself(every_plot, name):
    plot = getattr(plots, name)
    figure = plot(*every_plot[plot])
    shown = figure._repr_html_()
    (words,) = re.findall(r'^<img alt="([^"<>]+)" src="data:image/png;base64,[\w+/=]+">$', shown)
    assert len(words) > 40 and re.search(r"\d", words)
    for kind in ("png", "svg"):
        file = io.BytesIO()
        figure.savefig(file, format=kind, dpi=40)
        assert figure.alternative[:25].encode() in file.getvalue()


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in dir(plots)
        if name.endswith("_plot") and "ax" in inspect.signature(getattr(plots, name)).parameters
    ],
)
@pytest.mark.one_in(3)
def test_a_plot_is_drawn_where_it_is_wanted(every_plot, name):
    plot, figure = getattr(plots, name), Figure()
    axes = figure.subplots(1, 3)
    pair = name == "plan_plot"
    found = plot(*every_plot[plot], ax=axes[:2] if pair else axes[0], title="here")
    assert found is figure and len(figure.axes) == 3
    assert [bool(a.has_data()) for a in axes] == [True, pair, False]
    assert axes[0].get_title() == "here" and drawn(figure)
    if pair:
        with pytest.raises(ValueError, match="2 axes"):
            plot(*every_plot[plot], ax=axes[0])


def test_a_search_marks_the_steps_that_followed_more_than_noise(searched):
    figure = plots.search_plot(searched)
    lines = figure.axes[0].lines
    paths, marks = lines[::2], lines[1::2]
    np.testing.assert_array_equal([line.get_ydata() for line in paths], searched.iterates.T)
    stood = np.flatnonzero(searched.stands_out) + 1
    assert 0 < len(stood) < 6, len(stood)
    for line, column in zip(marks, searched.iterates.T, strict=True):
        np.testing.assert_array_equal(line.get_xydata(), np.column_stack([stood, column[stood]]))
    values = dpfast.bayesopt.tune(
        lambda theta: np.arange(900) / 900 > theta[0], [(0.0, 1.0)], privacy=1.0, n_records=900,
        noise=dpfast.SeededNoise(0),
    )  # fmt: skip
    (line,) = plots.search_plot(values).axes[0].lines
    assert line.get_marker() == "None"
    with pytest.raises(dpfast.DpfastError, match=r"result of dpfast\.bayesopt\.tune"):
        plots.search_plot([1.0, 2.0])


def test_coefficients_are_chosen_by_name():
    fit = fit_of(3)
    chosen = [fit.names[2], fit.names[1]]
    (axes,) = plots.coefficient_plot(fit, keep=chosen).axes
    told = [label.get_text().replace("\n", " ") for label in axes.get_yticklabels()]
    assert told == chosen
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), np.asarray(fit.params)[[2, 1]])
    assert fit.names[1] not in plots.coefficient_plot(fit, keep=chosen[0]).alternative
    for wrong, told in ((["age"], "keep must be names of rows"), ([], "nothing is left to draw")):
        with pytest.raises(dpfast.InvalidInput, match=told):
            plots.coefficient_plot(fit, keep=wrong)
    with pytest.raises(TypeError, match=r"no argument 'names'.*keep="):
        plots.coefficient_plot(fit, names=chosen)


@pytest.mark.parametrize("p", [2, 25])
def test_few_and_many_coefficients_keep_apart(p):
    """Names do not overlap, points stand off the frame, and no line looks like another."""
    fit = fit_of(p)
    figure = plots.coefficient_plot(dict.fromkeys("abcdef"[: 8 - p // 5], fit), panels=False)
    (axes,) = figure.axes
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in axes.get_yticklabels()]
    assert all(one.y0 > other.y1 for one, other in pairwise(boxes))
    low, high = axes.get_ylim()
    heights = np.concatenate([line.get_ydata() for line in axes.lines[:-1]])
    assert low < heights.min() - 0.05 and heights.max() + 0.05 < high


@pytest.mark.slow
@pytest.mark.parametrize("n", [100, 40_000, 3_000_000])
def test_the_ticks_of_a_plan_can_be_read(n):
    figure = plots.plan_plot(
        dpfast.plan(n=n, p=3, privacy=1.0, loss=dpfast.Objective("log-cosh", scale=1.0))
    )
    figure.draw_without_rendering()
    ticks_can_be_read(figure)


def ticks_can_be_read(figure):
    for axes in figure.axes:
        for axis, low, high in ((axes.xaxis, *axes.get_xlim()), (axes.yaxis, *axes.get_ylim())):
            ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
            assert ticks and not any(t.get_text() for t in axis.get_minorticklabels())
            boxes = [t.label1.get_window_extent() for t in ticks if t.label1.get_visible()]
            for one, other in pairwise(boxes):
                assert one.x1 < other.x0 or one.y1 < other.y0


@each("wrong", [None, 1.0, "fit", [1.0], dpfast.GDP(1.0), np.ones(3)], ids=repr)
def test_what_is_no_result_is_refused_in_words(fit, wrong):
    for draw in (plots.coefficient_plot, plots.plan_plot, plots.budget_plot, plots.search_plot):
        with pytest.raises(dpfast.InvalidInput, match="what is drawn"):
            draw(wrong)
    with pytest.raises(dpfast.InvalidInput, match=r"received a dict of length 1\."):
        plots.coefficient_plot({"a": wrong})
    with pytest.raises(dpfast.InvalidInput, match=r"with names and intervals.*dpfast\.WaldTest"):
        plots.coefficient_plot(fit.wald_test("x1"))
    for draw in (plots.quantile_plot, plots.cell_plot, plots.distribution_plot):
        with pytest.raises(dpfast.InvalidInput, match="what is drawn"):
            draw(wrong)
    with pytest.raises(dpfast.InvalidInput, match="a result of"):
        plots.plan_plot(fit)


# ---- several results, scales, papers -------------------------------------------------------------


def table_of(n=4000):
    rng = np.random.default_rng(1)
    age, female = rng.uniform(20.0, 60.0, n), rng.integers(0, 2, n).astype(float)
    pay = 10.0 + 0.2 * age + 2.0 * female + rng.normal(size=n)
    return {"age": age, "female": female, "pay": pay, "high": (pay > 19.0).astype(float)}


TABLE, SEEDED = table_of(), {"privacy": 4.0, "noise": dpfast.SeededNoise(0)}


def test_models_with_different_terms_stand_side_by_side():
    short = dpfast.fit("pay ~ age", TABLE, "least-squares", **SEEDED)
    long = dpfast.fit("pay ~ age + I(age**2) + female", TABLE, "least-squares", **SEEDED)
    figure = plots.coefficient_plot({"short": short, "long": long}, labels={"female": "Women"})
    rows = [label.get_text() for axes in figure.axes for label in axes.get_yticklabels()]
    assert sorted(rows) == sorted(["intercept", "age", "I(age ** 2)", "Women"])
    marks = [len(line.get_xdata()) for axes in figure.axes for line in axes.lines[:2]]
    assert sum(marks) == len(short.names) + len(long.names)
    assert "short: intercept" in figure.alternative and "Women" in figure.alternative


def test_no_interval_is_hidden_by_a_wider_one():
    """In its panel each interval is at least a hundredth of the width."""
    fit = dpfast.fit("pay ~ age + I(age**2) + female", TABLE, "least-squares", **SEEDED)
    figure = plots.coefficient_plot(fit)
    assert len(figure.axes) == 3
    hidden = 0
    for axes in figure.axes:
        low, high = axes.get_xlim()
        ends = np.array([part for c in axes.collections for part in c.get_segments()])[..., 0]
        hidden += np.count_nonzero(np.ptp(ends, axis=1) < 0.01 * (high - low))
    assert hidden == 0
    assert len(plots.coefficient_plot(fit, panels=False).axes) == 1


def test_ratios_are_drawn_on_a_logarithmic_axis():
    fit = dpfast.fit("high ~ age + female", TABLE, "logistic", **SEEDED)
    figure = plots.coefficient_plot(fit, drop="intercept", exponentiate=True, panels=False)
    (axes,) = figure.axes
    assert axes.get_xscale() == "log"
    np.testing.assert_allclose(axes.lines[0].get_xdata(), np.exp(np.asarray(fit.params)[1:]))
    assert axes.lines[1].get_xdata()[0] == 1.0 and "Ratios" in figure.alternative


def test_bands_of_predictions_are_their_intervals():
    fit = dpfast.fit("pay ~ age + female", TABLE, "least-squares", **SEEDED)
    ages = np.arange(20.0, 61.0, 10.0)
    rows = {"age": np.tile(ages[::-1], 2), "female": np.repeat([0.0, 1.0], 5)}
    widths = []
    for new in (False, True):
        figure = plots.prediction_plot(fit, rows, "age", by="female", new_response=new)
        (axes,) = figure.axes
        np.testing.assert_array_equal(axes.lines[1].get_xdata(), ages)
        at = {"age": ages, "female": np.ones(5)}
        np.testing.assert_allclose(axes.lines[1].get_ydata(), fit.predict(at))
        ends = fit.predict_interval(at, new_response=new)
        box = axes.collections[1].get_paths()[0].vertices[:, 1]
        assert box.min() == pytest.approx(ends.min()) and box.max() == pytest.approx(ends.max())
        widths.append(np.ptp(ends, axis=1).max())
    assert widths[1] > 3.0 * widths[0]
    for wrong, told in ((("agee",), "did you mean 'age'"), (("age", "sex"), "by must be a column")):
        with pytest.raises(dpfast.InvalidInput, match=told):
            plots.prediction_plot(fit, rows, wrong[0], by=wrong[1] if wrong[1:] else None)
    with pytest.raises(dpfast.InvalidInput, match="table of public rows"):
        plots.prediction_plot(fit, np.ones((2, 2)), "age")


def test_quantile_processes_have_a_panel_for_each_coefficient():
    X = np.column_stack([TABLE["age"], TABLE["female"]])
    fits = dpfast.fit_quantiles(X, TABLE["pay"], [0.25, 0.5, 0.75], **SEEDED)
    figure = fits.plot(drop="intercept", labels={"x1": "Age", "x2": "Female"})
    assert [axes.get_title() for axes in figure.axes] == ["Age", "Female"]
    np.testing.assert_allclose(figure.axes[0].lines[0].get_ydata(), fits.params[:, 1])
    levels = plots.coefficient_plot(fits, keep="x2")
    assert next(text.get_text() for text in levels.legends[0].get_texts()) == "tau 0.25"


def test_suppressed_cells_are_named_without_a_mark():
    schema = dpfast.Schema({"sex": dpfast.Categorical(["F", "M", "X"])})
    table = {"sex": ["F"] * 400 + ["M"] * 500}
    figure = dpfast.tables.counts(table, "sex", schema=schema, privacy=1.0).plot()
    values = figure.axes[0].lines[0].get_xdata()
    assert np.isfinite(values).tolist() == [True, True, False]
    assert "X too small to be shown" in figure.alternative


def test_the_dark_mode_inverts_ink_and_paper():
    fit = dpfast.fit("pay ~ age", TABLE, "least-squares", **SEEDED)
    figure = plots.coefficient_plot({"a": fit, "b": fit}, title="Pay")
    assert figure.dark() is figure and figure.get_facecolor()[:3] == pytest.approx([22 / 255] * 3)
    texts = [axes.title for axes in figure.axes] + list(figure.legends[0].get_texts())
    assert {text.get_color() for text in texts} == {"#eeeeee"}
    assert drawn(figure) != drawn(plots.coefficient_plot({"a": fit, "b": fit}, title="Pay"))
