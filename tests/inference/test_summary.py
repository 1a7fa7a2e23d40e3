"""A summary says the same in text, HTML, LaTeX and Markdown, whatever the coefficients are called.

Each form is read back by a parser of its own, written from what the form means.
"""

from __future__ import annotations

import copy
import math
import pickle
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import dpfast
from dpfast.inference.rendering.digits import by_error, printable, short_number
from dpfast.inference.rendering.table import Summary, Table
from dpfast.inference.summary import row_of
from tests.loops import each

HOSTILE = (
    "a_b", "x|y", "a&b", "<script>alert(1)</script>", "50%", "$x$", "#1", "{brace}", "back\\slash",
    "*bold*", "[link](http://x)", "`code`", "~tilde^caret", "em--dash---", 'quote"\'', "new\nline",
    "right\u202eleft", "C(education)[T.some college, but no degree, or an associate's degree]",
    "C(education)[T.some college, but no degree, and not an associate's degree]",
    "a name longer than a line of text has room for, and so has to be continued on another",
)  # fmt: skip


def fit_of(names, units=1.0, **settings):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4000, len(names)))
    y = units * (X @ np.linspace(-1.0, 1.0, len(names)) + rng.normal(size=4000))
    loss = dpfast.Objective("log-cosh", scale=units)
    settings = {"loss": loss, "privacy": 2.0, "noise": dpfast.SeededNoise(0)} | settings
    return dpfast.fit(dpfast.records(X, y, names=list(names)), None, **settings)


@pytest.fixture(scope="module")
def fit():
    return fit_of(["age", "educ"])


# ---- four readers --------------------------------------------------------------------------------


class Tables(HTMLParser):
    """Rows of cells, as a browser would show them; and every tag met."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.rows, self.open, self.tags = [], False, []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self.open = True

    def handle_endtag(self, tag):
        self.open = self.open and tag not in ("td", "th")

    def handle_data(self, data):
        if self.open:
            self.rows[-1][-1] += data


def read_html(summary):
    parser = Tables()
    parser.feed(summary.as_html())
    assert "script" not in parser.tags
    return parser.rows


MEANING = {
    r"\textbackslash{}": "\\", r"\textasciicircum{}": "^", r"\textasciitilde{}": "~",
    r"\textasciigrave{}": "`", r"\textless{}": "<", r"\textgreater{}": ">", r"\textbar{}": "|",
    "{[}": "[", "{]}": "]", "{*}": "*", r"\{": "{", r"\}": "}", r"\$": "$", r"\&": "&",
    r"\#": "#", r"\_": "_", r"\%": "%", "-{}": "-",
}  # fmt: skip


def read_latex(told):
    """What TeX would set: commands by their meaning; any other special sign is a mistake."""
    told = told if type(told) is str else told.as_latex()
    body = re.search(r"\\toprule\n(.*)\\end\{tabular\}", told, re.S)[1]
    rows = []
    for line in body.split("\n"):
        if line.strip() in ("", r"\midrule", r"\bottomrule"):
            continue
        assert line.endswith(r" \\")
        cells = re.split(r"(?<!\\)&", line.removesuffix(r"\\"))
        rows.append([words(cell.strip()) for cell in cells])
    return rows


def words(cell):
    found, at = "", 0
    while at < len(cell):
        number = re.compile(r"\$(-?[\d.]+)(?: \\times 10\^\{(-?\d+)\})?\$").match(cell, at)
        if number:
            found += number[1] + (f"e{int(number[2]):+03d}" if number[2] else "")
            at = number.end()
            continue
        command = next((c for c in MEANING if cell.startswith(c, at)), None)
        if command is None:
            assert cell[at] not in "\\{}$&#_%^~<>|[]*`", cell
            assert cell[at : at + 2] != "--", cell
            found, at = found + cell[at], at + 1
        else:
            found, at = found + MEANING[command], at + len(command)
    return found


def read_markdown(summary):
    lines = [line for line in summary.as_markdown().splitlines() if line.startswith("|")]
    rows = [re.split(r"(?<!\\)(?:\\\\)*\|", line)[1:-1] for line in lines]
    assert set("".join(rows.pop(1))) == set("-:")
    for cell in (cell for row in rows for cell in row):
        assert not re.search(r"(?<!\\)(?:\\\\)*[`*_\[\]<>|~&$#]", cell), cell
    return [[re.sub(r"\\(.)", r"\1", cell.strip()) for cell in row] for row in rows]


def read_text(summary):
    """Rows by position: a heading's end is its column's; names may have lines of their own."""
    _, table, _ = re.split(r"^=+$\n?", str(summary), flags=re.M)
    head, _, *lines = table.removesuffix(f"{summary.table.remark}\n").splitlines()
    ends = [match.end() for match in re.finditer(r"\S+( err)?", head)]
    rows, waiting = [["", *re.findall(r"std err|\S+", head)]], ""
    for line in lines:
        cells = re.fullmatch(rf"(.*?)((?:\s+\S+){{{len(ends)}}})", line)
        here = [m.end() for m in re.finditer(r"\S+", line)][-len(ends) :]
        if cells is None or here != ends:
            waiting += line
            continue
        name = waiting + cells[1].rstrip() if waiting else cells[1]
        rows.append([name.rstrip(), *cells[2].split()])
        waiting = ""
    assert not waiting
    return rows


READERS = {"text": read_text, "html": read_html, "latex": read_latex, "markdown": read_markdown}


@pytest.mark.parametrize("form", READERS)
@pytest.mark.parametrize("units", [1.0, 1e-9, 1e5, 1e12])
@pytest.mark.one_in(2)
def test_every_form_has_the_same_names_and_numbers(form, units):
    fit = fit_of(HOSTILE, units)
    summary = fit.summary()
    head, *rows = READERS[form](summary)
    assert head == ["", *summary.table.columns]
    assert [row[0] for row in rows] == [printable(name) for name in fit.names]
    assert [tuple(row[1:]) for row in rows] == list(summary.table.cells)


def test_the_numbers_are_those_of_the_fit():
    """To half of the last digit shown: three digits of the error, or four decimals."""
    fit = fit_of(["a", "b", "c", "d"], 250.0)
    ends = fit.conf_int(0.9)
    for k, row in enumerate(fit.summary(0.9).table.cells):
        estimate, error, z, p, low, high = row
        within = 0.00501 * fit.bse[k]  # three digits
        for shown, value in ((estimate, fit.params[k]), (error, fit.bse[k]), (low, ends[k, 0]),
                             (high, ends[k, 1])):  # fmt: skip
            assert abs(float(shown) - value) <= max(within, 5.1e-5)
        assert abs(float(z) - fit.zvalues[k]) <= 5.1e-4
        if fit.pvalues[k] < 0.001:  # a p value is never nothing
            assert p == "<0.001"
        else:
            assert abs(float(p) - fit.pvalues[k]) <= 5.1e-4


@each(
    ("p", "shown"),
    [(0.0, "<0.001"), (9.99e-4, "<0.001"), (0.001, "0.001"), (0.0504, "0.050"), (np.nan, "nan")],
)
def test_p_values_below_what_is_shown(p, shown):
    assert row_of(1.0, 0.1, 10.0, p, 0.8, 1.2)[3] == shown


def test_a_name_is_never_cut():
    fit = fit_of(HOSTILE)
    flat = re.sub(r"\s+", "", fit.summary())
    for name in fit.names:
        assert re.sub(r"\s+", "", printable(name)) in flat
    assert max(map(len, fit.summary().splitlines())) <= 79


def test_what_is_not_a_number_is_said_in_every_form():
    table = Table(
        "t", (), ("coef", "std err"), ("a", "b"), (("nan", "inf"), ("-1.2e-05", "<0.001"))
    )
    for read in READERS.values():
        assert read(Summary(table))[1:] == [["a", "nan", "inf"], ["b", "-1.2e-05", "<0.001"]]


def test_without_standard_errors_the_estimates_stand_alone():
    fit = fit_of(["a", "b"], inference=False)
    for form, read in READERS.items():
        assert [len(row) for row in read(fit.summary())] == [2, 2, 2, 2], form
    for said in (str(fit.summary()), fit.summary().as_html(), fit.summary().as_latex(),
                 fit.summary().as_markdown()):  # fmt: skip
        assert "No standard errors were estimated." in said


def test_estimands_keep_their_parentheses_and_the_level_of_a_quantile():
    X, y = np.random.default_rng(0).normal(size=(2, 400))
    wide = np.random.default_rng(1).normal(size=(500, 8))
    mean = dpfast.fit(wide, wide[:, 0], privacy=0.12, noise=dpfast.SeededNoise(0))
    assert "Estimand: The mean of the response (its intercept, through the loss's link)\n" in str(
        mean.summary()
    )
    loss = dpfast.Quantile(0.9)
    quantile = dpfast.fit(X[:, None], y, loss, privacy=3.0, noise=dpfast.SeededNoise(0))
    assert "Estimand: A smoothed conditional quantile, Quantile(0.9, " in str(quantile.summary())


def below(fit):
    """Lines of a summary below its table."""
    return re.split(r"^=+$\n?", str(fit.summary()), flags=re.M)[2].splitlines()


def test_six_lines_below_the_table_say_what_readers_need(fit):
    X = np.random.default_rng(0).normal(size=(4000, 3))
    y = X @ [1.0, 0.5, 0.0] + np.random.default_rng(1).normal(size=4000)
    # four digits each, which the line of units has room for whatever the noise
    table = {"age": 40.0 + 10.0 * X[:, 0], "educ": 13.0 + 3.0 * X[:, 1], "pay": 20.0 + y}
    pytest.importorskip("formulaic")
    raw = dpfast.fit("pay ~ age + educ", table, privacy=1.0)
    for found in (fit, raw, dpfast.fit(X, y, privacy=1.0), dpfast.fit(X, y > 0, "logistic",
                  privacy=dpfast.ApproxDP(1.0, 1e-6))):  # fmt: skip
        lines = below(found)
        said = " ".join(" ".join(lines).split())
        apart = "Warning: ", "    ", "Privacy guarantee: none (simulation)"
        assert len([line for line in lines if not line.startswith(apart)]) <= 5, lines
        if not found.warnings:
            assert len(lines) <= 6 + (not found.privacy.genuine), lines
        for heading in ("Estimand: ", "Records: ", "Method: ", "Privacy: "):
            assert said.count(heading) == 1
        assert ", one record replaced" in said and "at delta = 1e-06" in said
    lines = below(raw)
    assert re.search(r"noisy Newton steps on .*covariates; gradients clipped at \S+ about", said)
    assert any(re.match(r"Centre and scale: age \S+, \S+; educ ", line) for line in lines)


def test_explain_has_what_a_summary_leaves_out(fit):
    said = " ".join(fit.explain().split())
    for heading in ("Estimand: ", "Model: LogCosh(", "Method: ", "Promise: ", "Spent: mu = "):
        assert heading in said
    assert all(name in said for name in ("LogCosh", "one record", "on gradient"))
    assert max(map(len, fit.explain().splitlines())) <= 79
    for text in (fit.summary(), fit.summary().as_latex()):
        assert "Spent" not in text and "Promise" not in text
    warned = fit_of([f"x{j}" for j in range(9)], privacy=0.02)
    assert all(warning in " ".join(warned.explain().split()) for warning in warned.warnings)


@each("form", ["as_text", "as_html", "as_latex", "as_markdown"])
def test_what_was_paid_and_warnings_are_in_every_form(form):
    fit = fit_of([f"x{j}" for j in range(9)], privacy=0.02)
    assert fit.warnings
    said = getattr(fit.summary(), form)()
    assert "(0.02-GDP)" in said and "simulation" in said
    assert said.count("Warning: ") == len(fit.warnings)


def test_a_summary_is_a_string_that_can_be_sent():
    summary = fit_of(["a", "b"]).summary()
    for again in (pickle.loads(pickle.dumps(summary)), copy.deepcopy(summary)):
        assert type(again) is Summary and again == summary and again.table == summary.table
    assert type(str(summary)) is str and f"{summary}" == str(summary)
    assert summary._repr_html_() == fit_of(["a", "b"])._repr_html_()


def test_an_effect_has_the_same_forms():
    rng = np.random.default_rng(0)
    x, T = rng.normal(size=(4000, 1)), rng.integers(0, 2, 4000)
    y = x[:, 0] + T + rng.normal(size=4000)
    found = dpfast.effects.treatment_effect(x, T, y, privacy=1.0, noise=dpfast.SeededNoise(0))
    rows = [read(found.summary(alpha=0.1)) for read in READERS.values()]
    assert all(row == rows[0] for row in rows) and rows[0][0][-2:] == ["[0.05", "0.95]"]
    assert abs(float(rows[0][1][1]) - found.estimate) <= 0.00501 * found.bse


@each(
    ("value", "error", "shown"),
    [
        (31234.5678, 1200.0, "31235"),
        (31234.5678, 12.0, "31234.6"),
        (31234.5678, 1.2, "31234.5678"),
        (0.51234567, 0.0312, "0.5123"),
        (0.00051234, 0.0312, "0.0005"),
        (0.51234567, 0.00312, "0.51235"),
        (0.51234567, 0.000312, "0.512346"),
        (-0.5, 12.0, "-0.5000"),
        (1.5, 1e-12, "1.5000"),
        (3.2e-6, 1.1e-7, "3.2e-06"),
        (1.5, math.nan, "1.5000"),
        (math.nan, 0.1, "nan"),
        (1.5, 0.0, "1.5000"),
        (-1.23456e100, 1e99, "-1.23e+100"),
    ],
)
def test_digits_fit_the_error(value, error, shown):
    assert by_error([value], error) == [shown]


def test_numbers_keep_to_their_column():
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        values = rng.normal(size=4000) * 10.0 ** rng.uniform(-320, 300, 4000)
        errors = np.abs(values) * 10.0 ** rng.uniform(-20, 20, 4000)
    for value, error in zip(values.tolist(), errors.tolist(), strict=True):
        for text in [*by_error([value, error], error), short_number(value)]:
            assert len(text) <= 10


# ---- for a paper ---------------------------------------------------------------------------------


def test_latex_has_what_a_paper_asks_for(fit):
    told = fit.summary().as_latex(caption="Wages & more_", label="tab:wages", notes=False)
    assert r"\caption{Wages \& more\_}" in told and "\\label{tab:wages}\n" in told
    assert told.count("rule\n") == 3 and "Privacy" not in told and "minipage" not in told
    assert r"\usepackage{booktabs}" in told and "Privacy" in fit.summary().as_latex()
    assert fit.summary().to_latex(notes=False) == fit.summary().as_latex(notes=False)


@each("digits", [0, 1, 2, 3])
def test_latex_keeps_to_its_digits(fit, digits):
    """Each number is the nearest with so many decimals to the one that is printed."""
    printed = read_latex(fit.summary().as_latex(notes=False))
    shown = read_latex(fit.summary().as_latex(digits=digits, notes=False))
    assert len(shown) == len(printed) == 4
    for before, after in zip(printed[1:], shown[1:], strict=True):
        for number, rounded in zip(before[1:], after[1:], strict=True):
            assert len(rounded.partition(".")[2]) == min(digits, len(number.partition(".")[2]))
            if "<" not in number:
                assert abs(float(rounded) - float(number)) <= 0.5 * 10.0**-digits + 1e-12


def test_standard_errors_stand_beneath(fit):
    rows = read_latex(fit.summary().as_latex(beneath=True))
    assert rows[0] == ["", "coef"] and [row[0] for row in rows[1::2]] == list(fit.names)
    cells = fit.summary().table.cells
    assert [row[1] for row in rows[1::2]] == [cell[0] for cell in cells]
    assert rows[2::2] == [["", f"({cell[1]})"] for cell in cells]
    other = fit_of(["age", "sex"])
    rows = read_latex(dpfast.compare(fit, other).as_latex(beneath=True))
    places = {row[0]: k for k, row in enumerate(rows)}
    only = rows[places["educ"]], rows[places["educ"] + 1]
    assert only[0][2] == only[1][2] == "" and only[1][1].startswith("(")
    assert rows[places["Records"]][1] == str(fit.n_records)  # has no error, and no row for one
    assert places["Privacy paid"] == places["Records"] + 1


def test_estimates_without_errors_have_none_beneath():
    bare = fit_of(["age", "educ"], inference=False).summary()
    assert bare.as_latex(beneath=True) == bare.as_latex()


@each(
    "asked", [{"label": "a b"}, {"label": "}"}, {"digits": -1}, {"digits": 1.5}, {"beneath": "no"}]
)
def test_what_latex_would_not_take_is_refused(fit, asked):
    with pytest.raises(dpfast.InvalidInput, match=next(iter(asked))):
        fit.summary().as_latex(**asked)
