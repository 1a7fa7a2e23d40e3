"""What a fit says of itself: t where it is not normal, and paragraphs made of its own numbers."""

from __future__ import annotations

import re

import numpy as np
import pytest

import dpfast
from dpfast.errors import InvalidInput

X = np.random.default_rng(1).normal(size=(800, 2))
Y = 1.0 + X @ [1.0, -0.5] + np.cos(9.0 * X[:, 0])


def fit_of(privacy=1.0, **options):
    return dpfast.fit(X, Y, dpfast.Objective("log-cosh", scale=1.0), privacy=privacy, **options)


def test_a_table_says_t_where_intervals_are_those_of_t():
    few, many = fit_of(0.5, noise=dpfast.SeededNoise(1)), fit_of(1e5, noise=dpfast.SeededNoise(1))
    assert few.degrees_of_freedom.min() < 1000.0 < many.degrees_of_freedom.min()
    told, said = few.summary(), " ".join(few.explain().split())
    assert "P>|t|" in told and "P>|z|" not in told
    least, most = few.degrees_of_freedom.min(), few.degrees_of_freedom.max()
    shown = re.search(r"distribution with (\S+?)(?: to (\S+))? degrees", said)
    assert float(shown[1]) == pytest.approx(least, rel=0.06)
    assert float(shown[2] or shown[1]) == pytest.approx(most, rel=0.06)
    assert "P>|z|" in many.summary() and "degrees" not in many.explain()
    for form in (told.as_html(), told.as_latex(), told.as_markdown()):
        assert "|z|" not in form


@pytest.mark.filterwarnings("ignore::dpfast.errors.DpfastWarning")
def test_a_page_says_t(tmp_path):
    fit_of(0.5, noise=dpfast.SeededNoise(1)).report(tmp_path / "now.html")
    assert "P&gt;|t|" in (tmp_path / "now.html").read_text()
    assert dpfast.inference.verify_report(tmp_path / "now.html").passed


def test_paragraphs_are_made_of_the_fits_own_numbers():
    fit = fit_of(0.7)
    paper, board = fit.methods_text(), fit.methods_text("board")
    assert "from 800 records, of intercept, x1, x2." in paper and "mu = 0.7" in paper
    assert f"epsilon = {fit.privacy.epsilon(1e-6):.3g} at delta = 1e-06" in paper
    assert f"at most {100 * dpfast.GDP(0.7).attack_power(0.05):.3g}% of cases" in board
    assert "800 records" in board and fit.privacy.relation in board
    unbought = fit_of(0.7, inference=False).methods_text()
    assert "No standard errors were estimated." in unbought
    for warning in fit.warnings:
        assert warning in paper
    with pytest.raises(InvalidInput, match="audience"):
        fit.methods_text("press")


def test_no_paragraph_claims_what_does_not_hold():
    seeded = fit_of(1.0, noise=dpfast.SeededNoise(1))
    exact = dpfast.nonprivate_fit(X, Y, dpfast.Objective("log-cosh", scale=1.0))
    for fit in (seeded, exact):
        assert "not differentially private" in fit.methods_text()
        assert "no privacy guarantee" in fit.methods_text("board")
        assert "epsilon" not in fit.methods_text() + fit.methods_text("board")


def test_no_table_of_coded_units_lacks_the_word():
    """Of a schema's columns: results are in the table's own units, and the coded fit says so."""
    table = {"x": X[:, 0], "z": X[:, 1], "y": (Y > 1.0).astype(int)}
    declared = {"x": dpfast.Numeric(-3, 3), "z": dpfast.Numeric(-4, 4, centre=0, unit=2)}
    for x, told in ((declared["x"], True), (dpfast.Numeric(-3, 3, centre=0, unit=1), False)):
        schema = dpfast.Schema({"x": x, "y": dpfast.Binary(1, 0)})
        design = schema.encode(table, ["x"], response="y")
        fit = dpfast.fit(design, None, "logistic", privacy=1.0, standardize=False)
        assert ("coded" in fit.coded.summary()) == told and "coded" not in fit.summary()
    pytest.importorskip("formulaic")
    schema = dpfast.Schema(declared | {"y": dpfast.Binary(1, 0)})
    fit = dpfast.fit("y ~ x*z", table, "logistic", schema=schema, privacy=1.0, standardize=False)
    assert "coded" in fit.coded.summary() and "coded" not in fit.summary()
