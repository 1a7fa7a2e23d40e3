"""The page on privacy does what it says: its code runs, its numbers and names are right."""

import re
from inspect import signature

import pytest
from scipy.special import ndtr

import dpfast


@pytest.fixture(scope="module")
def page(repository):
    return (repository / "docs" / "privacy.md").read_text(encoding="utf-8")


@pytest.mark.usefixtures("repeated")
@pytest.mark.slow
def test_every_block_of_code_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", page, flags=re.M | re.S)
    assert len(blocks) >= 6
    assert page.count("```python") == len(blocks)
    names = {"__name__": "page"}
    for number, block in enumerate(blocks):
        exec(compile(block, f"docs/privacy.md, block {number}", "exec"), names)
    printed = capsys.readouterr().out
    assert "does not fit" in printed
    assert "passed" in printed
    assert "LEAK" in printed


def test_the_success_probabilities(page):
    for mu, probability in ((1.0, "0.69"), (0.5, "0.60"), (2.0, "0.84")):
        assert f"{ndtr(mu / 2.0):.2f}" == probability
        assert probability in page


def test_what_the_page_names_exists(page, repository):
    for function, options in (
        (dpfast.Objective, ("scale", "weights", "ridge")),
        (dpfast.records, ("names", "largest_weight")),
        (dpfast.fit, ("ledger",)),
    ):
        for option in options:
            assert option in signature(function).parameters
            assert f"`{option}`" in page or f"{option}=" in page
    for setting in ("start", "steps", "schedule"):
        assert setting in dpfast.optimize.Newton.__init__.__kwdefaults__
        assert setting in page
    for claim in re.findall(r"\bC\d+\b", page):
        proofs = (repository / "dpfast" / "privacy" / "PROOFS.md").read_text(encoding="utf-8")
        assert f"### {claim}." in proofs
    assert (repository / "SECURITY.md").exists()
