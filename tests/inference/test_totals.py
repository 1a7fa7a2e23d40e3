"""What a total is made of: the expression of every result, evaluated exactly; every draw is paid.

Swept over the calls of the audit's registry, so that a public function is covered with the calls
that the audit asks for, and over selections, which the registry leaves to tests of their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import partial
from random import SystemRandom
from typing import Any

import numpy as np
import pytest

import dpfast
from dpfast import GDP, ZCDP, ApproxDP, Ledger, PureDP
from dpfast.audit.transcript import Answered, Charged, _charges_observed, _Observer
from dpfast.curator import Curator, StepBudget
from dpfast.curator.noisy_release import Release, observed
from dpfast.data import Records
from dpfast.errors import UnsupportedConversion
from dpfast.inference import Guarantee
from dpfast.inference.composition import (
    Charge,
    Maximum,
    Prepaid,
    Rows,
    Sum,
    amounts,
    composition_of,
    cost,
    inner_totals,
    lines,
    plain,
)
from dpfast.models import Huber, Mallows, Objective
from dpfast.privacy.noise import EntropyNoise, SeededNoise
from dpfast.release.pilot import divided
from dpfast.release.results import ReleaseGuarantee
from tests.audit.calls import examples
from tests.dealing import Dealing
from tests.loops import each
from tests.privacy.test_paid_before import calls as spending_calls

#: Records; searches of the registry are over the first few.
N, FEW = 300, 12  # blocks take at least 256 records
SEARCHES = ("bayesopt", "blackbox", "search")
RNG = np.random.default_rng(5)
X = RNG.normal(size=(N, 2))
Y = X @ [0.5, -0.7] + RNG.standard_t(4, size=N)
BINARY = (np.arange(N) % 2).astype(float)
NEARLY = 1 - Fraction(1, 10**6)

#: Randomness that is no noise of an answer, by the charge that pays for it.
CHOICES = (
    "perturbed minimiser",
    "random blocks",
    "counts",  # of persons: which of their rows is asked about, drawn for nothing (claim C67)
    "clipped moments",  # the same where these are asked first
    "selection",
    "random folds",
)


SHORT = dpfast.optimize.Adaptive(last_share=0.1)


def selections() -> Iterator[tuple[str, Any]]:
    for privacy in (ZCDP(0.5), ApproxDP(1.0, 1e-6)):
        yield f"exponential, {privacy}", partial(
            dpfast.minimize, X, Y, dpfast.Objective("tukey", scale=1.0),
            method=SHORT, select="exponential", privacy=privacy,
        )  # fmt: skip
    for budget in (1.0, ZCDP(0.5), ApproxDP(1.0, 1e-6)):
        yield f"groups, {budget}", partial(
            dpfast.fit, dpfast.records(X, Y, group=np.arange(N) // 3, group_size=3), None,
            dpfast.Objective("huber", scale=1.0), privacy=budget,
        )  # fmt: skip


def registered(turn: int) -> Iterator[tuple[str, Any]]:
    """One in three of the calls of the audit's registry."""
    for number, example in list(enumerate(examples()))[turn::3]:
        n = FEW if any(word in example.name for word in SEARCHES) else N
        data = X[:n].copy(), (BINARY if example.binary else Y)[:n].copy()
        name = f"{number} {example.name.rsplit('.', 1)[-1]}, {example.label}"
        yield name, partial(example.call, data)


def spending() -> Iterator[tuple[str, Any]]:
    """Every public function that spends, with a budget of every kind that it takes."""
    for parameters in spending_calls():
        call, budget = parameters.values
        yield parameters.id, partial(call, privacy=budget)


class Recorder:
    """Everything that a call charged, drew and handed out, in order; and what it returned.

    What a call draws of its own is the stream of ``seed``, so that a failure can be had again.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
        self.observer = _Observer(None)
        self.order: list[Any] = []
        seeded = SeededNoise(seed)
        for name in ("normals", "discrete_laplace", "words"):
            drawn = self.noting(getattr(SeededNoise, name))
            monkeypatch.setattr(SeededNoise, name, drawn)
            monkeypatch.setattr(EntropyNoise, name, self.instead(drawn, seeded))

    @staticmethod
    def instead(drawn: Any, seeded: SeededNoise) -> Any:
        return lambda _, *arguments: drawn(seeded, *arguments)

    def noting(self, original: Any) -> Any:
        def drawn(*arguments: Any) -> Any:
            if not self.observer._releasing:
                self.order.append("draw")
            return original(*arguments)

        return drawn

    def run(self, call: Any) -> Any:
        recorder, charge, release = self, self.observer.charge, self.observer.release

        def charged(*arguments: Any) -> None:
            charge(*arguments)
            recorder.order.append(recorder.observer.events[-1])

        def released(*arguments: Any) -> Any:
            answer = release(*arguments)
            recorder.order.append(recorder.observer.events[-1])
            return answer

        self.observer.release = released  # type: ignore[method-assign]
        with observed(self.observer), _charges_observed(charged):
            try:
                return call()
            except dpfast.BudgetExceeded:  # refused: nothing may have been drawn
                assert "draw" not in self.order
                return None


def guarantees(value: Any, depth: int = 0) -> Iterator[Any]:
    """Every guarantee in what a call returned."""
    if isinstance(value, Guarantee | ReleaseGuarantee):
        yield value
    elif isinstance(value, list | tuple) and depth < 4:
        for part in value:
            yield from guarantees(part, depth + 1)
        if hasattr(value, "privacy"):
            yield from guarantees(value.privacy)
    elif hasattr(value, "privacy"):
        yield from guarantees(value.privacy)


def check_paid(order: list[Any]) -> None:
    """Each answer and each other draw comes after a charge of its own that covers it."""
    last: Charged | None = None
    served: list[str] = []
    for event in order:
        if isinstance(event, Charged):
            if event.outcome == "charged":
                last, served = event, []
            continue
        assert last is not None, "something was drawn before anything was charged"
        if isinstance(event, Answered):
            query, price = event.release.query, event.question[1]
            if isinstance(last.spend, GDP):
                assert last.label == event.question[0]
                assert price <= last.spend.mu
            else:  # one charge for a few questions, which its label names
                assert query in last.label
            at_most = 1
            served.append(query)
            assert served.count(query) <= at_most, f"{last.label!r} paid for {query!r} once"
        else:
            assert any(kind in last.label for kind in CHOICES), last.label


#: What stops as soon as released numbers say so; its total is an upper bound (claim K4).
FRUGAL = ("spider", "line search", "Backtracking")


def check_accounted(name: str, privacy: Any) -> None:
    """The expression of a result is its total, and every part that was set aside covers its own."""
    for share in privacy.spent_share():
        assert share <= 1, name
        assert share >= NEARLY or any(word in name for word in FRUGAL), (name, float(share))
    assert "\n".join(lines(privacy.composition)) in privacy.explain(), name
    assert privacy.to_dict()["composition"] == plain(privacy.composition), name
    for aside, part in inner_totals(privacy.composition):
        # a part in (epsilon, delta) is spent as the Gaussian DP within it
        whole = GDP.within(aside) if isinstance(aside, ApproxDP) else aside
        kind = type(whole)
        for spent, limit in zip(cost(part, kind), amounts(whole, kind), strict=True):
            assert spent <= limit, name


def sweep(monkeypatch: pytest.MonkeyPatch, named: Iterable[tuple[str, Any]], seed: int = 0) -> int:
    """Number of guarantees that were checked; what fails says of which call, with which seed."""
    seen = 0
    for name, call in named:
        try:
            with monkeypatch.context() as patch:
                recorder = Recorder(patch, seed)
                result = recorder.run(call)
            assert any(isinstance(event, Charged) for event in recorder.order), name
            check_paid(recorder.order)
            for privacy in guarantees(result):
                seen += 1
                check_accounted(name, privacy)
        except Exception as error:
            error.add_note(f"{name}, seed {seed}")
            raise
    return seen


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("turn", "fresh"),
    [(0, False), *[pytest.param(k, True, marks=pytest.mark.slow) for k in range(3)]],
)
def test_every_result_of_the_registry_is_accounted_for_and_every_draw_is_paid(
    monkeypatch, turn, fresh
):
    """The quick calls have one seed; slow ones another every time, which a failure tells."""
    seed = SystemRandom().randrange(2**32) if fresh else 0
    assert sweep(monkeypatch, registered(turn), seed) > 80


@pytest.mark.filterwarnings("ignore")
def test_so_is_every_function_that_spends_with_a_budget_of_every_kind(monkeypatch):
    assert sweep(monkeypatch, [*spending(), *selections()]) > 70


# ---- the recorder and the expressions see what they are for --------------------------------------


def answered(label: str, query: str, mu: float) -> Answered:
    release = Release(query, "C1", np.zeros(1), mu, 1.0, 1.0)
    return Answered((label, mu, None), release, None)


PAID = Charged(0, GDP(0.5), "gradient + hessian", "charged")
UNPAID = {
    "a draw before any charge": ["draw", PAID],
    "an answer before any charge": [answered("gradient", "gradient", 0.1), PAID],
    "a charge that was refused": [PAID._replace(outcome="refused"), answered("a", "a", 0.1)],
    "an answer that costs more": [PAID, answered("gradient + hessian", "gradient", 0.6)],
    "an answer of another charge": [PAID, answered("meat", "meat", 0.1)],
    "two answers for one charge": [PAID, *[answered(PAID.label, "gradient", 0.5)] * 2],
    "a choice nobody pays for": [PAID, "draw"],
}


@each("name", UNPAID)
def test_the_recorder_sees(name):
    with pytest.raises(AssertionError):
        check_paid(UNPAID[name])
    check_paid([PAID, *(answered(PAID.label, query, 0.5) for query in ("gradient", "hessian"))])


def blocks_of(mus: list[float]) -> Ledger:
    ledger = Ledger(GDP(1.0))
    room = Curator(
        Records(X, Y, None), Objective(Huber(1.345), Mallows(1.5), 2, scale=1.0), ledger,
        EntropyNoise(),
    )  # fmt: skip
    dealing = Dealing(room, 0.75)
    for mu in mus:
        dealing.block(64).joint(np.zeros(3), StepBudget(mu, 0.0, 0.0))
    room.joint(np.zeros(3), StepBudget(0.5, 0.0, 0.0))
    return ledger


def test_blocks_side_by_side_are_a_maximum():
    expression = composition_of(blocks_of([0.5, 0.25, 0.125]))
    blocks, gradient = expression.parts
    assert isinstance(blocks, Prepaid) and isinstance(blocks.part, Maximum)
    assert 0.249 < cost(blocks.part, GDP)[0] < 0.251
    assert blocks.spend == GDP(0.75) and gradient.label == "gradient"
    assert cost(expression, GDP)[0] == Fraction(9, 16) + Fraction(repr(gradient.spend.mu)) ** 2
    text = "\n".join(lines(expression))
    assert "the largest of 3 blocks of disjoint records" in text


def test_a_part_that_is_set_aside_counts_in_full():
    ledger = Ledger(ZCDP(1.0))
    child = ledger.child(ZCDP(0.75), "descent")
    child.charge(GDP(0.5), "gradient")
    ledger.charge(PureDP(0.5), "selection")
    expression = composition_of(ledger)
    assert cost(expression, ZCDP) == (Fraction(7, 8),)
    assert list(inner_totals(expression)) == [(ZCDP(0.75), composition_of(child))]
    assert composition_of(child) == Sum((Charge("gradient", ZCDP(0.125)),))


def test_no_part_that_is_set_aside_is_overlooked_however_deep():
    def aside(mu, part):
        return Prepaid("a part", GDP(mu), part)

    charge = Charge("gradient", GDP(0.5))
    inner, blocks = aside(0.6, charge), aside(0.7, Maximum("blocks", (charge, aside(0.4, charge))))
    outer = aside(0.9, Sum((inner, charge)))
    found = [spend.mu for spend, _ in inner_totals(Rows(2, Sum((outer, Rows(3, blocks), charge))))]
    assert found == [0.9, 0.6, 0.7, 0.4]


def test_rows_of_one_person_count_as_often_as_there_are_some():
    assert cost(Rows(3, Charge("gradient", GDP(0.5))), GDP) == (Fraction(9, 4),)
    with pytest.raises(UnsupportedConversion):
        cost(Rows(3, Charge("gradient", GDP(0.5))), ZCDP)


@pytest.mark.parametrize("total", [ApproxDP(6.0, 1e-3), ApproxDP(1.1, 1e-6), ApproxDP(0.3, 3e-9)])
def test_a_divided_total_is_not_exceeded_by_a_last_bit(total):
    for share in np.linspace(0.01, 0.99, 99).tolist():
        parts = divided(total, share)
        spent = cost(Sum(tuple([Charge("part", part) for part in parts])), ApproxDP)
        for whole, sum_of_parts in zip(amounts(total, ApproxDP), spent, strict=True):
            assert NEARLY * whole <= sum_of_parts <= whole


def test_a_cross_validation_is_the_sum_of_its_fits_and_a_score():
    pytest.importorskip("sklearn")
    from dpfast.estimators import DPHuberRegressor, cross_validate

    model = DPHuberRegressor(0.5, scale=1.0, score_privacy=0.25, inference=False)
    found = cross_validate(model, X, Y, folds=4)
    check_accounted("cross_validate", found.privacy)
    assert cost(found.privacy.composition, GDP) == (3 * Fraction(1, 4) + Fraction(1, 16),)
    for fit in found.fits:
        check_accounted("a fit without one fold", fit.privacy)


def test_a_release_says_what_its_pair_was_spent_on():
    found = dpfast.release_functional(
        X, Y, dpfast.Objective("log-cosh", scale=3.0, ridge=9.0), "x1",
        domain=dpfast.models.Ball(1.5), privacy=ApproxDP(6.0, 1e-3), inference=0.3,
    )  # fmt: skip
    told = found.privacy.explain()
    assert found.privacy.total.explain() in told
    assert "for a private sandwich covariance, of which:" in told
    assert json.loads(json.dumps(found.privacy.to_dict()))["epsilon"] == 6.0
    pure = dpfast.release.certify(
        X, Y, dpfast.Objective("log-cosh", scale=3.0), privacy=PureDP(1.0),
        domain=dpfast.models.Ball(1.5), noise=SeededNoise(0),
    ).privacy  # fmt: skip
    assert pure.total == PureDP(1.0) and "epsilon=1 for certificate" in pure.explain()
    assert "simulation" in pure.explain()


def test_an_expression_is_told_in_words():
    grouped = dpfast.fit(
        dpfast.records(X, Y, group=np.arange(N) // 3, group_size=3), None,
        dpfast.Objective("huber", scale=1.0), privacy=1.0, method="newton",
    )  # fmt: skip
    told = grouped.privacy.explain()
    assert "What was spent on it (squares of mu add up):" in told
    assert "3 times the root of this, for the rows of one person" in told
    assert "not spent" not in told
    chosen = dpfast.minimize(
        X, Y, dpfast.Objective("tukey", scale=1.0), method=SHORT,
        select="exponential", privacy=ZCDP(0.5),
    )  # fmt: skip
    told = chosen.privacy.explain()
    assert "rho=0.4455 for descent, of which:" in told
    assert "for selection" in told
    frugal = Guarantee.of(GDP(1.0), EntropyNoise(), N, [("gradient", 0.5)])
    assert frugal.spent_share() == (Fraction(1, 4),)
    assert "0.75 of the total was promised, but not spent" in frugal.explain()
    assert (
        dpfast.nonprivate_fit(X, Y, dpfast.Objective("huber", scale=1.0)).privacy.spent_share()
        == ()
    )
