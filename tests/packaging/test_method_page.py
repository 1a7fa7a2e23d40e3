"""The page of the method names functions that exist, and shares as the code divides them."""

import math
import re
from pathlib import Path

from dpfast.curator.preconditioned import PreconditionedQueries
from dpfast.solvers.pcn.plan import SHARES, SHARES_OF_FEW, BudgetAllocation

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "method.md").read_text(encoding="utf-8")
CODE = re.findall(r"^```text\n(.*?)^```", PAGE, re.S | re.M)[0]


def test_every_function_of_the_pseudo_code_exists():
    rooms = ("dpfast/solvers/pcn", "*.py"), ("dpfast/scaling", "*.py"), ("csrc/decisions", "*.pxi")
    sources = "".join(
        path.read_text(encoding="utf-8")
        for room, pattern in rooms
        for path in sorted((ROOT / room).glob(pattern))
    )
    queried = set(re.findall(r"queries\.(\w+)\(", CODE))
    assert {"gram", "gram_and_moment", "clipped"} == queried
    assert all(hasattr(PreconditionedQueries, name) for name in queried)
    named = set(re.findall(r"(?<![\w.])([A-Za-z]\w+)\(", CODE))
    named |= set(re.findall(r"# (\w+_\w+|[A-Z]\w+)\b", CODE))
    named.discard("min")
    assert len(named) > 20
    compiled = r"(    )?cdef [^(=\n]*\b_?"  # functions and methods in C, with their type
    missing = [
        name
        for name in named
        if not re.search(rf"^((def|class|    def) |{compiled}){name}\b", sources, re.M)
    ]
    assert not missing


def test_the_pseudo_code_fits_on_a_page_and_every_line_has_a_row():
    assert len(CODE.splitlines()) <= 40
    numbers = {int(number) for number in re.findall(r"^ *(\d+) ", CODE, re.M)}
    assert numbers == set(range(1, max(numbers) + 1))
    rows = re.findall(r"^\| (\d[\d, ]*) \|", PAGE, re.M)
    explained = {int(number) for row in rows for number in row.split(",")}
    loops = {6, 16}
    assert numbers - loops == explained


def test_claims_of_the_page_exist():
    proofs = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "dpfast").rglob("PROOFS*.md")
    )
    for claim in set(re.findall(r"\b[CDRT]\d+\b", PAGE)):
        assert f"### {claim}." in proofs, claim


def test_the_shares_of_the_page_are_those_of_the_plan():
    assert SHARES == {"matrix": 0.05, "vector": 0.012, "histogram": 0.012}
    assert SHARES_OF_FEW == {"matrix": 0.1, "vector": 0.04, "histogram": 0.04}

    def kept(varies, histograms, rounds, n):  # rounds of -1: whitened once
        asked = BudgetAllocation(n, 8, 1.0)
        budgets = asked.budgets((varies, histograms, False), max(rounds, 0), again=rounds >= 0)
        return f"{math.hypot(*budgets.steps[1:]) ** 2:.2f}".removeprefix("0")

    sizes = (2_000, 20_000, 200_000)
    for name, varies, histograms, rounds in (
        ("least squares", False, 0, 0),
        ("least squares, whitened once", False, 0, -1),
        ("logistic, one round", True, 1, 1),
        ("logistic, six rounds", True, 1, 6),
    ):
        row = re.search(rf"^\| {name} \|(.*)\|$", PAGE, re.M).group(1)
        shown = [cell.strip() for cell in row.split("|")]
        assert len(shown) == len(sizes)
        for cell, n in zip(shown, sizes, strict=True):
            assert not cell or cell == kept(varies, histograms, rounds, n)


def test_files_of_the_page_exist():
    table = PAGE.split("## In the code")[1].split("## Relatives")[0]
    for file in re.findall(r"`(\w+\.py)`", table):
        assert (ROOT / "dpfast" / "solvers" / "pcn" / file).is_file(), file
