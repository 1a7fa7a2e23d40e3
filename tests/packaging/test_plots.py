"""Plots: they draw what they say and need nothing closed."""

from __future__ import annotations

import io

import numpy as np
import pytest
from scipy.stats import f

import dpfast

pytest.importorskip("matplotlib")

from dpfast import plots


@pytest.fixture(scope="module")
def fit():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    return dpfast.fit(X, X @ [1.0, -1.0], "log-cosh", privacy=1.0, scale=1.0,
                      noise=dpfast.SeededNoise(0))  # fmt: skip


def drawn(figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=40)
    return file.getvalue()


def test_coefficients_and_their_intervals(fit):
    figure = plots.coefficient_plot({"a": fit, "b": fit}, title="twice")
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == list(fit.names)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b"]
    assert drawn(figure).startswith(b"\x89PNG")


def test_an_ellipse_is_the_joint_region(fit):
    figure = plots.ellipse_plot({"a": fit, "b": fit}, "x1", 2, truth=(1.0, -1.0), title="joint")
    (axes,) = figure.axes
    boundary = np.column_stack(axes.lines[0].get_data())
    difference = boundary - fit.params[1:]
    distance = np.einsum(
        "ij,jk,ik->i", difference, np.linalg.inv(fit.cov_params()[1:, 1:]), difference
    )
    known = fit.degrees_of_freedom[1:].min()
    np.testing.assert_allclose(distance, 2 * f.ppf(0.95, 2, known), rtol=1e-6)
    np.testing.assert_allclose(np.concatenate(axes.lines[1].get_data()), fit.params[1:])
    assert axes.get_ylabel() == "x2" and axes.get_xlabel().startswith("x1")
    assert drawn(figure).startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="empty"):
        plots.ellipse_plot({}, 0, 1)
    with pytest.raises(dpfast.InvalidInput, match="position"):
        plots.ellipse_plot(fit, 0, 7)


def test_a_tradeoff_curve_is_the_bound(fit):
    figure = plots.tradeoff_plot({"one": dpfast.GDP(1.0), "two": 2.0})
    lines = {line.get_label(): line.get_xydata() for line in figure.axes[0].lines}
    assert set(lines) == {"blind guessing", "one", "two"}
    rate, power = lines["one"][100]
    assert power == dpfast.GDP(1.0).attack_power(rate)
    assert (lines["two"][:, 1] >= lines["one"][:, 1]).all()
    drawn(figure)


def test_a_plan_is_marked_on_its_curves():
    plan = dpfast.plan(n=2000, p=3, mu=1.0, scale=1.0)
    figure = plots.plan_plot(plan, title="a plan")
    for axes, x in zip(figure.axes, (plan.mu, plan.n), strict=True):
        curve = axes.lines[0].get_xydata()
        assert np.interp(x, *curve.T) == pytest.approx(plan.width, rel=0.02)
    drawn(figure)


def test_a_trajectory_is_the_released_path(fit):
    figure = plots.trajectory_plot(fit, title="a path")
    lines = figure.axes[0].lines
    assert [line.get_label() for line in lines] == list(fit.names)
    for line, path in zip(lines, fit.iterates.T, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), path)
    drawn(figure)


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
