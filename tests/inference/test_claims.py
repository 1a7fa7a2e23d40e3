"""Claims behind a result: those of its receipts, with the statements of the pages of proofs."""

from __future__ import annotations

import json
import re
import runpy
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import dpfast
from dpfast.inference.claims import (
    INSTEAD,
    JOINT,
    NOISE,
    QUERIES,
    STAGES,
    claim_tree,
    stated,
)
from dpfast.inference.guarantees import (
    MEANS_RELATION,
    NOT_PRIVATE,
    Guarantee,
    group_relation,
)
from dpfast.inference.rendering.page import page
from dpfast.inference.rendering.transcript import BEGIN, END
from tests.audit.calls import examples
from tests.watching import watched

GENUINE = dpfast.privacy.EntropyNoise()
PACKAGE = Path(dpfast.__file__).parent


def of_charges(*labels: str, total=None, **options) -> Guarantee:
    """Return a guarantee whose charges have these names."""
    entries = [(label, 0.1) for label in labels]
    return Guarantee.of(total or dpfast.GDP(1.0), GENUINE, 500, entries, **options)


def test_every_claim_that_is_named_is_stated():
    named = {claim for _, claims in QUERIES.values() for claim in claims}
    named |= {claim for claims in INSTEAD.values() for claim in claims} | set(NOISE)
    assert named <= stated().keys()
    assert len(stated()) > 100
    for claim in stated().values():
        assert claim.title
        assert claim.statement or claim.number.startswith("E"), claim.number
    for number in named:  # in one sentence, which stands on the page of its proof
        assert len(stated()[number].statement.split()) <= 25, f"{number} says nothing in short"
    assert {stage for stage, _ in QUERIES.values()} <= set(STAGES)
    assert QUERIES.keys() >= JOINT


def test_every_query_that_is_named_is_one_of_the_library():
    source = "\n".join(p.read_text(encoding="utf-8") for p in PACKAGE.rglob("*.py")
                       if p.name != "claims.py")  # fmt: skip
    missing = [
        query for query in QUERIES if f'"{query}"' not in source and "igenvalue" not in query
    ]
    assert not missing


def receipts_of(some) -> dict[tuple[str, str], str]:
    """Return query and claim of every receipt of these calls, and the call that had it."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 2))
    y = X @ [1.0, 0.5] + rng.normal(size=60)
    found = {}
    for example in some:
        try:
            seen = watched(partial(example.call, (X, 1.0 * (y > 0) if example.binary else y)))
        except dpfast.errors.DpfastError:
            continue  # too few records for this call's budget
        for release in seen:
            found.setdefault((release.query, release.claim), f"{example.name} {example.label}")
    return found


def assert_named(receipts) -> None:
    for (query, claim), call in receipts.items():
        assert query in QUERIES, f"{call} asks {query!r}"
        known = (*QUERIES[query][1], *INSTEAD.get(query, ()))
        assert claim in known, f"{call} asks {query!r} by claim {claim}"


def test_receipts_of_public_calls_are_named():
    """One call of each public function, and some more."""
    first = {example.name: example for example in reversed(examples())}
    receipts = receipts_of([*first.values(), *examples()[::40]])
    assert len(receipts) > 20
    assert_named(receipts)


def test_the_page_of_a_call_states_the_claims_of_its_receipts():
    calls = runpy.run_path(str(PACKAGE.parent / "docs" / "calls.py"))
    page_of_call = calls["page"]("a call", 2, [("gradient", "C34"), ("counts by cell", "T1")])
    assert "**T1**, counts by cell. " in page_of_call
    assert "**C34**" in page_of_call and "**K1**" not in page_of_call


@pytest.mark.slow
def test_receipts_of_every_registered_call_are_named():
    assert_named(receipts_of(examples()))


def test_the_tree_has_a_stage_for_each_part_of_an_analysis():
    chain = of_charges("counts", "histogram of distances", "hessian", "histogram of lengths",
                       "gradient + meat").claims().chain  # fmt: skip
    stages = re.findall(r"(?:: |-> )([a-z ]+) [A-Z]", chain)
    assert stages == ["sample", "scaling", "clipping", "histograms", "sums", "joint answers",
                      "noise", "composition"]  # fmt: skip
    assert "C80" in chain and "D6" in chain and "or" not in chain.split()
    persons = of_charges("gradient", relation=MEANS_RELATION).claims()
    assert persons.steps[0].claims == ("C66", "C67", "C72", "C81")
    rows = of_charges("gradient", relation=group_relation(3)).claims()
    assert "persons" in rows.chain
    pair = of_charges("gradient", total=dpfast.ApproxDP(1.0, 1e-6), mu=0.2).claims()
    assert pair.steps[-1].claims == ("C2", "C3", "C87")
    assert dict(of_charges("counts by cell").claims().charges) == {"counts by cell": ("T1",)}


def test_a_charge_of_ones_own_rests_on_composition_alone():
    tree = of_charges("a table of mine").claims()
    assert dict(tree.charges) == {"a table of mine": ()}
    assert [step.stage for step in tree.steps] == ["noise", "composition"]


def test_a_fit_for_comparison_rests_on_nothing():
    assert NOT_PRIVATE.claims().chain == "no promise: "
    assert NOT_PRIVATE.claims().claims == ()


def test_a_tree_can_be_printed_and_stored():
    tree = of_charges("gradient + hessian").claims()
    text = str(tree)
    assert text.startswith("500 records: sums C11, C12, C13, C14 (or C34, C35, K1, K7)")
    assert "Mean score" in text
    assert json.loads(json.dumps(tree.to_dict()))["charges"]["gradient + hessian"]
    assert claim_tree(of_charges("gradient + hessian")) == tree


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    """Return the transcript of a page."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(3000, 2))
    fit = dpfast.fit(X, X @ [1.0, 2.0] + rng.normal(size=3000), privacy=1.0,
                     noise=dpfast.SeededNoise(4))  # fmt: skip
    path = tmp_path_factory.mktemp("claims") / "fit.html"
    fit.report(path)
    text = path.read_text(encoding="utf-8")
    body = text[text.index(BEGIN) + len(BEGIN) :]
    return json.loads(body[: body.index(END)])


def passed(tmp_path, content) -> bool:
    path = tmp_path / "page.html"
    path.write_text(page(content), encoding="utf-8")
    return dpfast.inference.verify_report(path).passed


def test_a_page_names_its_claims_and_verify_recomputes_them(tmp_path, content):
    assert "sums C11, C12, C13, C14" in page(content)
    assert passed(tmp_path, content)
    changed = content | {"claims": content["claims"].replace("C14", "C46")}
    assert not passed(tmp_path, changed)


def test_a_page_of_before_claims_were_named_still_passes(tmp_path, content):
    assert passed(tmp_path, {key: content[key] for key in content if key != "claims"})


def test_of_another_version_the_claims_have_to_exist(tmp_path, content):
    older = content | {"version": "0.9", "claims": "3,000 records: sums C13"}
    assert passed(tmp_path, older)
    assert not passed(tmp_path, older | {"claims": "3,000 records: sums C999"})


@pytest.mark.slow
def test_every_public_call_has_a_page_of_its_claims():
    calls = runpy.run_path(str(PACKAGE.parent / "docs" / "calls.py"))
    assert set(calls["receipts"]()) == {example.name for example in examples()}
