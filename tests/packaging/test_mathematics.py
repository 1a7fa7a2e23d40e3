"""Formulas of the pages are those of the text: what is typeset, and what is left alone."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from tests.loops import each

ROOT = Path(__file__).parents[2]


def _load():
    path = ROOT / "docs" / "mathematics.py"
    spec = importlib.util.spec_from_file_location("docs_mathematics", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


mathematics = _load()


def bare(tex):
    return re.sub(r"\s+", "", tex)


@each(
    ("text", "tex"),
    [
        ("mu", r"\mu"),
        ("x_i", "x_{i}"),
        ("G0", "G_{0}"),
        ("sqrt(2) D/s", r"\sqrt{2}D/s"),
        ("2^-53", "2^{-53}"),
        ("1e-9", "10^{-9}"),
        ("2.5e-11 n", r"2.5\cdot10^{-11}n"),
        ("-2e - m^2", "-2e-m^{2}"),
        ("x'^2 + h''", "x'^{2}+h''"),
        ("(x^2)'", "(x^{2})'"),
        ("x^2'", "{x^{2}}'"),
        ("H~^-1/2 w", r"\tilde{H}^{-1/2}w"),
        ("(1 + u)^(k + 1)", "(1+u)^{k+1}"),
        ("||v(X) - v(X')|| <= D", r"\lVertv(X)-v(X')\rVert\leD"),
        ("| ||a|| - |b| |", r"\lvert\lVerta\rVert-\lvertb\rvert\rvert"),
        ("sum_{i<j} M_ij^2", r"\sum_{i<j}M_{ij}^{2}"),
        ("floor(2^k Z)", r"\lfloor2^{k}Z\rfloor"),
        ("T(P, Q) >= G_mu", r"T(P,Q)\geG_{\mu}"),
        ("[0, inf)", r"[0,\infty)"),
        ("lambda_min(A) -> 0", r"\lambda_{\mathrm{min}}(A)\to0"),
        ("noise_scale >= 2 D", r"\mathtt{noise\_scale}\ge2D"),
        ("e tolerance", r"e\,\mathrm{tolerance}"),
        ("<g, v> <= b L", r"\langleg,v\rangle\lebL"),
        ("bL + xx'", "bL+xx'"),
        ("f^(5)/1920", "f^{(5)}/1920"),
        ("int_0^inf exp(-t s) ds", r"\int_{0}^{\infty}\exp(-ts)\,ds"),
        ("exp(e) phi(y) = phi(x)", r"\exp(e)\varphi(y)=\varphi(x)"),
    ],
)
def test_formulas(text, tex):
    assert bare(mathematics.tex(text)) == bare(tex)


def test_long_formulas_have_places_where_a_line_may_end():
    text = "exp(e) Phi(x + y) - delta <= (s^2 - t^2)/(2 r) = (a - b)^2/(8 s) <= a (a - 1) e^2/2"
    lines = mathematics.pieces(text)
    assert [bare(line)[:3] for line in lines[1:]] == [r"\le", "=(a", r"\le"]
    assert " ".join(lines) == mathematics.tex(text)
    assert mathematics.pieces("k >= 1") == [r"k \ge 1"]


@each(
    "text",
    ["gaussian_scale", "gaussian_scale(D, mu)", "dpfast.fit", "mechanisms.py: gaussian_scale",
     "tests/privacy", "loss='huber'", "privacy=1.0", "dpfast plan --mu 1", "x == y", "a ** b",
     "test_room.py::test_it", "exp", "tolerance", "UnsupportedConversion", "(x", "x)", "x^", "|x"],
)  # fmt: skip
def test_code_is_left_alone(text):
    with pytest.raises(mathematics.NoFormula):
        mathematics.tex(text)


@each(
    ("text", "said"),
    [
        ("is mu-GDP", ["is ", r"$\mu$", "-GDP"]),
        ("T <= 1 iff k <= 1.", [r"$T\le1$", " iff ", r"$k\le1$", "."]),
        ("a hostile row of A is not a formula", ["a hostile row of A is not a formula"]),
        ("see theta~(P’) and F_P", ["see ", r"$\tilde{\theta}(P')$", " and ", "$F_{P}$"]),
    ],
)
def test_prose(text, said):
    found = mathematics.in_prose(text)
    assert [f"${bare(piece)}$" if formula else piece for formula, piece in found] == said


def test_the_proofs_are_typeset():
    """Most of what stands between backticks; nothing breaks, and every brace has its other."""
    pages = sorted((ROOT / "dpfast" / "privacy").rglob("PROOFS*.md"))
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    spans = [span for span in re.findall(r"`([^`]+)`", text) if not re.search(r"\.py|test_", span)]
    formulas, code = [], []
    for span in dict.fromkeys(spans):
        try:
            formulas.append(mathematics.tex(span))
        except mathematics.NoFormula:
            code.append(span)
    assert len(formulas) > 1_000
    assert len(code) < 0.2 * len(formulas)
    for formula in formulas:
        depth = 0
        for sign in re.findall(r"(?<!\\)[{}]", formula):
            depth += 1 if sign == "{" else -1
            assert depth >= 0, formula
        assert depth == 0, formula
