"""Proofs that Coq checks: current, complete as a table, and not deaf to a changed constant."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from dpfast.models import (
    Huber,
    LogCosh,
    Logistic,
    OstrovskiiBach,
    PseudoHuber,
    Quantile,
    SmoothedHuber,
)
from tests.loops import each
from tests.privacy.test_proof_pages import EVERY
from tests.proofs import check, generate
from tests.proofs.translate import Formula, Untranslatable, number, translate

PROOFS = sorted(Path(check.__file__).parent.glob("*.v"))
needs_coq = pytest.mark.skipif(not check.have_coq(), reason="needs Coq (make proofs installs it)")


def claims() -> set[str]:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in EVERY)
    return set(re.findall(r"^### ([BCDGKRT]\d+)\.", pages, re.MULTILINE))


def test_formulas_of_the_proofs_are_those_of_the_code():
    stored = generate.FILE.read_text(encoding="utf-8")
    assert stored == generate.text(), "write them by python -m tests.proofs.generate"


def test_every_claim_has_one_row():
    rows = check.rows()
    named = [row.claim for row in rows]
    assert sorted(named) == sorted(set(named))
    without = claims() - set(named)
    assert not without, f"give {sorted(without)} a row in {check.TABLE.name}: coq, paper or trusted"
    assert set(named) == claims()
    for row in rows:
        assert row.status in {"coq", "paper", "trusted"}
        assert bool(row.theorems) == (row.status == "coq"), row.claim
        assert row.status != "trusted" or row.remark, row.claim


def test_every_theorem_of_the_table_is_stated():
    for row in check.rows():
        for theorem in row.theorems:
            module, name = theorem.split(".")
            assert module in check.MODULES
            text = (check.HERE / f"{module}.v").read_text(encoding="utf-8")
            assert re.search(rf"^(Theorem|Lemma) {name}\b", text, re.MULTILINE), theorem


@each("path", PROOFS, ids=lambda path: path.name)
def test_nothing_is_admitted(path):
    """Axioms that a theorem rests on are read off by `make proofs`; here, that none is hidden."""
    text = re.sub(r"\(\*.*?\*\)", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert not re.search(r"\b(Admitted|admit|give_up|Parameter|Conjecture|Unset)\b", text)
    assert set(re.findall(r"\bAxiom (\w+)", text)) <= check.STATED, path.name
    assert path.stem in check.MODULES


def test_numbers_are_exact():
    assert number(0.5) == "(1 / 2)"
    assert number(2.0**-53) == "(1 / 2 ^ 53)"
    assert number(3) == "3"
    mantissa, bits = re.fullmatch(r"\((\d+) / 2 \^ (\d+)\)", number(0.1)).groups()
    assert int(mantissa) / 2 ** int(bits) == 0.1


def _with_a_loop(x: float) -> float:
    while x < 1.0:
        x *= 2.0
    return x


def test_what_has_no_formula_is_refused_by_name():
    with pytest.raises(Untranslatable, match="while"):
        translate([Formula(_with_a_loop)])


def test_without_coq_it_says_so(monkeypatch, capsys):
    monkeypatch.setattr(check, "have_coq", lambda: False)
    assert check.main([]) == 1
    assert "not checked" in capsys.readouterr().out


def _formulas_with(monkeypatch, module, name, value) -> str:
    """Return the definitions of a code whose constant is another one."""
    for room in [m for key, m in sys.modules.items() if key.startswith("dpfast.privacy")]:
        if getattr(room, name, None) == getattr(module, name) and room is not module:
            monkeypatch.setattr(room, name, value)
    monkeypatch.setattr(module, name, value)
    return generate.text()


#: A constant of the code, a wrong value that an attack might miss, and the modules that must fail.
PLANTED = [
    ("scaling", "SQUARE_WEIGHT", 1.6652, "Cells"),
    ("tables", "SQUARE_AT", 0.7501, "Cells"),
    ("sensitivity", "SQUARE_MU", 0.8326, "Cells"),
    ("sensitivity", "_UP", 1.0 - 2.0**-50, "Sums"),
    ("sensitivity", "JOINT_MARGIN", 2.99, "Sums"),
    ("mechanisms", "GRID_COST", 1.6518e-06, "Joint"),
    ("portfolio", "CHOICE", 0.26, "Ledger"),
    ("release", "HELD_CELLS", 1 << 25, "Release"),
    ("tables", "_WEIGHT_SQUARE", 0.2501, "Persons"),
]

#: A loss, its constant, a value that is wrong by little, and the module that must fail.
OF_LOSSES = [
    (Logistic, "psi_second_bound", 0.0962, "Losses"),
    (LogCosh, "self_concordance", 1.9999, "Losses"),
    (PseudoHuber, "self_concordance", 1.4999, "Losses"),
    (OstrovskiiBach, "self_concordance", 1.5907, "Losses"),
    (OstrovskiiBach, "psi_second_bound", 1.0790, "Losses"),
    (SmoothedHuber, "psi_bound", 1.4999, "Losses"),
    (Quantile, "psi_prime_bound", 0.2499, "Losses"),
    (Huber, "scale_part", Huber(1.0).scale_part._replace(score_limit=3.3302), "Release"),
]


@pytest.mark.slow
@needs_coq
def test_the_proofs_hold_and_rest_on_nothing_else(tmp_path):
    check.compile_all(tmp_path)
    assert check.assumptions(tmp_path) <= check.AXIOMS | check.STATED


@pytest.mark.slow
@needs_coq
@pytest.mark.parametrize(("room", "name", "value", "module"), PLANTED)
def test_a_wrong_constant_fails_a_proof(tmp_path, monkeypatch, room, name, value, module):
    planted = _formulas_with(monkeypatch, getattr(generate, room), name, value)
    assert planted != generate.FILE.read_text(encoding="utf-8")
    with pytest.raises(check.ProofFailed) as failed:
        check.compile_all(tmp_path, {"Formulas": planted}, module)
    assert failed.value.args[0] == module


@pytest.mark.slow
@needs_coq
@pytest.mark.parametrize(("loss", "name", "value", "module"), OF_LOSSES)
def test_a_wrong_constant_of_a_loss_fails_a_proof(tmp_path, monkeypatch, loss, name, value, module):
    monkeypatch.setattr(loss, name, property(lambda self: value))
    planted = generate.text()
    assert planted != generate.FILE.read_text(encoding="utf-8")
    with pytest.raises(check.ProofFailed) as failed:
        check.compile_all(tmp_path, {"Formulas": planted}, module)
    assert failed.value.args[0] == module


#: Part of a formula, what a slip of the hand makes of it, and the module that fails.
SLIPS = [
    ("cell_counts : R := ((sqrt 2)", "cell_counts : R := ((sqrt (199 / 100))", "Cells"),
    ("let factor := (sqrt 2) in", "let factor := (7 / 5) in", "Sums"),
    ("((1 / 2) * g) (h + q)", "((1 / 2) * g) h", "Joint"),
    ("(sqrt (m / planned))", "(sqrt (m / (planned - 1)))", "Cells"),
    ("KEPT_LENGTH : R := (1 / 2 ^ 23)", "KEPT_LENGTH : R := (1 / 2 ^ 24)", "Rounding"),
    ("((2 * c) * B1)", "(c * B1)", "Release"),
    ("(g + ((6004799503160661 / 2 ^ 52) * h))", "(g + h)", "Losses"),
    ("(sqrt (1 + HISTOGRAM_SQUARE))", "(sqrt 1)", "Persons"),
    ("(2 * (sqrt (1 + PRODUCT)))", "(2 * (sqrt 1))", "Persons"),
    ("(sqrt (2 * (1 + COUNT_SQUARE)))", "(sqrt 2)", "Persons"),
    ("((g + q) + (h / (MAJORIZER_REACH", "(g + (h / (MAJORIZER_REACH", "Losses"),
]  # fmt: skip


@pytest.mark.slow
@needs_coq
@pytest.mark.parametrize(("line", "slip", "module"), SLIPS)
def test_a_wrong_formula_fails_a_proof(tmp_path, line, slip, module):
    text = generate.FILE.read_text(encoding="utf-8")
    assert text.count(line) >= 1
    with pytest.raises(check.ProofFailed) as failed:
        check.compile_all(tmp_path, {"Formulas": text.replace(line, slip, 1)}, module)
    assert failed.value.args[0] == module
