"""Interrupted at every charge: whatever was released comes with the exception.

All calls that the audit replays, and those it leaves out, are run with an observer at the door
that raises when the next question is about to be answered: its charge was made, and nothing of it
is drawn.
"""

import ast
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import dpfast
from dpfast.curator.answers import TAPE, Tape
from dpfast.curator.noisy_release import observed
from dpfast.errors import DpfastError, InvalidInput
from dpfast.fit_requests.partial import PartialResult
from dpfast.release import Certificate
from tests import sources
from tests.audit import calls
from tests.loops import each

RNG = np.random.default_rng(11)
N = 400
X = RNG.normal(size=(N, 2))
Y = X @ [1.0, -0.5] + RNG.normal(size=N)
LABELS = (Y > 0.0).astype(float)


class Interrupted:
    """Lets so many questions be answered, and none after.

    ``fresh``: whether the call that was interrupted had not been answered anything, as the second
    of two calls in an example.
    """

    def __init__(self, most=10**9):
        self.most, self.questions, self.fresh = most, [], None

    def release(self, question, release, draw):
        if not (self.questions and self.questions[-1] is question):
            if len(self.questions) >= self.most:
                self.fresh = not TAPE.get().answers
                raise KeyboardInterrupt
            self.questions.append(question)
        return draw()


def squares(theta):
    return (Y - X @ theta) ** 2


def estimator(kind, **options):
    return getattr(dpfast.estimators, kind)(privacy=1.0, score_privacy=0.5, **options)


MODEL = estimator("DPHuberRegressor", scale=1.0).fit(X, Y)


def seeded():
    """As many questions in every run."""
    return dpfast.SeededNoise(5)


#: What the audit does not replay, and what spends on units at this n.
OWN = {
    "least squares": lambda X, y: dpfast.fit(X, y, "least-squares", privacy=4.0, noise=seeded()),
    "nothing declared": lambda X, y: dpfast.fit(X, y, "log-cosh", privacy=4.0, noise=seeded()),
    "a pilot": lambda X, y: dpfast.fit(X, y, dpfast.Quantile(0.5), privacy=4.0, noise=seeded()),
    "logistic": lambda X, y: dpfast.fit(X, LABELS, "logistic", privacy=4.0, noise=seeded()),
    "counts": lambda X, y: dpfast.fit(X, LABELS, dpfast.Poisson(2.0), privacy=4.0, noise=seeded()),
    "quantiles": lambda X, y: dpfast.fit_quantiles(X, y, privacy=4.0, noise=seeded()),
    "the mean alone": lambda X, y: dpfast.fit(X, y, "log-cosh", privacy=0.2, noise=seeded()),
    "an effect": lambda X, y: dpfast.effects.treatment_effect(
        X, LABELS, y, privacy=4.0, noise=seeded()),
    "cross-validation": lambda X, y: dpfast.estimators.cross_validate(
        estimator("DPHuberRegressor", scale=1.0), X, y, folds=3),
    "cross-validation of labels": lambda X, y: dpfast.estimators.cross_validate(
        estimator("DPLogisticRegression"), X, LABELS, folds=2),
    "a score": lambda X, y: [MODEL.score(X, y), MODEL.score(X, y)],
}  # fmt: skip


def interrupted(call, data, most):
    """What is raised after so many answered questions; None if the call came to its end."""
    watch = Interrupted(most)
    try:
        with observed(watch), np.errstate(all="ignore"):
            call(data)
    except KeyboardInterrupt as raised:
        return raised, watch
    except DpfastError:  # refused, at this n
        assert watch.questions == []
    return None, watch


def sweep(call, data, *, several=False, every=1, turn=0, count=None):
    """Interrupt at every charge; how many there were.

    ``several``: calls, one after another.  ``every``: of the charges between the second and the
    last one in so many, which of them says ``turn``.  ``count``: how many there are, if known.
    """
    if count is None:
        count = len(interrupted(call, data, 10**9)[1].questions) if every > 1 else 10**6
    for most in range(10**6):
        if 1 < most < count - 1 and (most + turn) % every:
            continue
        raised, watch = interrupted(call, data, most)
        if raised is None:
            return len(watch.questions)
        found = getattr(raised, "partial_result", None)
        if most and not (several and watch.fresh):
            assert found is not None, f"nothing is kept of {most} answers"
        if found is not None:
            check(found, raised)


def check(found, raised):
    assert any(note.startswith("What was released") for note in raised.__notes__)
    assert found.privacy.total is not None
    assert pickle.loads(pickle.dumps(found)) is not None
    if isinstance(found, PartialResult):
        assert found.answers and all(np.isfinite(a.value).all() for a in found.answers)


EXAMPLES = [made for made in calls.examples() if not made.name.startswith("dpfast.curator")]


#: Of a function with so many calls two in five are quick.
MANY = 40


@pytest.mark.parametrize("everything", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", sorted({example.name for example in EXAMPLES}))
def test_every_call_of_the_audit_interrupted_at_every_charge(name, everything):
    """At every thirtieth of a call, and all of them among calls that ask alike."""
    n_charges = 0
    everything |= sum(example.name == name for example in EXAMPLES) < MANY
    for turn, example in enumerate(EXAMPLES):
        if example.name == name and (everything or turn % 5 == 0):
            known = []  # more records are another case where other questions are asked
            for n in (12, N) if name == "dpfast.regression.fit.fit" and turn % 3 == 0 else (12,):
                data = X[:n], (LABELS if example.binary else Y)[:n]
                questions = [
                    asked[0] for asked in interrupted(example.call, data, 10**9)[1].questions
                ]
                if questions not in known:
                    n_charges += sweep(
                        example.call,
                        data,
                        several=name.endswith("standardize"),
                        every=30,
                        turn=turn,
                        count=len(questions),
                    )
                known.append(questions)
    assert n_charges


@pytest.mark.parametrize("turn", [0, *[pytest.param(k, marks=pytest.mark.slow) for k in (1, 2, 3)]])
@pytest.mark.parametrize("name", OWN)
@pytest.mark.one_in(2)
def test_every_other_call_interrupted_at_every_charge(name, turn):
    """One in four of those between the second and the last; the slow turns have the others."""
    several = name == "a score"
    assert sweep(lambda data: OWN[name](*data), (X, Y), several=several, every=4, turn=turn)


# ---- what is in it -------------------------------------------------------------------------------


def after(most, call):
    """What is kept of so many answers."""
    raised, _ = interrupted(lambda _: call(), None, most)
    return raised.partial_result


def number_of_answers(call):
    return len(interrupted(lambda _: call(), None, 10**9)[1].questions)


@pytest.mark.parametrize("name", ["least squares", "nothing declared", "logistic", "quantiles"])
@pytest.mark.one_in(2)
def test_units_come_with_the_exception_and_are_handed_back(name):
    """As soon as they are complete, and as a fit that ended has them; free then."""
    whole = OWN[name](X, Y)
    y, loss = (LABELS, "logistic") if name == "logistic" else (Y, "log-cosh")
    kept = [after(k, lambda: OWN[name](X, Y)) for k in range(1, number_of_answers(
        lambda: OWN[name](X, Y)))]  # fmt: skip
    units = [one.fits[0].units if hasattr(one, "fits") else one.units for one in kept]
    first = next(k for k, one in enumerate(units) if one is not None)
    assert 1 < first < len(kept) - 1 and all(one is not None for one in units[first:])
    found = units[first]
    own = whole.fits[0] if name == "quantiles" else whole
    assert own.units.names == own.coded.units.names == ("x1", "x2")
    ledger = dpfast.Ledger(3.0)
    again = dpfast.fit(X, y, loss, privacy=3.0, standardize=found, ledger=ledger)
    assert again.units is found and len(ledger.entries) == 1
    assert not {label for label, _ in again.privacy.entries} & {"counts", "histogram of distances"}
    bought = dpfast.fit(X, y, loss, privacy=3.0, noise=dpfast.SeededNoise(0), standardize=True)
    assert {"counts", "histogram of distances"} & {label for label, _ in bought.privacy.entries}


def test_standardize_keeps_the_units_as_soon_as_every_column_was_measured():
    def call(noise=None):
        return dpfast.standardize(X, Y, privacy=4.0, noise=noise or seeded())

    kept = [after(k, call).units for k in range(1, number_of_answers(call))]
    assert kept[0] is None and kept[-1] is not None
    first = next(k for k, units in enumerate(kept) if units is not None)
    assert all(units is not None for units in kept[first:])
    ledger = dpfast.Ledger(3.0)
    again = dpfast.fit(X, Y, "log-cosh", privacy=3.0, standardize=kept[first], ledger=ledger)
    assert again.units is kept[first] and len(ledger.entries) == 1


@each("name", ["least squares", "nothing declared", "logistic", "quantiles"])
def test_a_path_is_gone_on_with_from_where_it_was(name):
    found = after(number_of_answers(lambda: OWN[name](X, Y)) - 1, lambda: OWN[name](X, Y))
    one = found.fits[-1] if name == "quantiles" else found
    assert "ended early" in one.warnings[0] and one.coded.units is one.units
    loss = {"logistic": "logistic", "quantiles": dpfast.Quantile(0.5)}.get(name, "log-cosh")
    y, start = LABELS if name == "logistic" else Y, one.coded.params[:3]
    method = dpfast.optimize.Newton(start=start)
    scale = one.units.response[1] if name == "quantiles" else None  # a method buys none of theirs
    again = dpfast.fit(
        X, y, dpfast.Objective(loss, scale=scale), privacy=4.0, standardize=one.units, method=method
    )
    np.testing.assert_allclose(again.coded.iterates[0][:3], start)


def test_what_was_reserved_and_never_asked_is_named_and_stays_spent():
    ledger = dpfast.Ledger(4.0)
    found = after(3, lambda: dpfast.fit(X, Y, "log-cosh", privacy=4.0, ledger=ledger))
    spent = sum(mu**2 for _, mu in found.privacy.entries)
    left = found.privacy.unspent
    assert left.mu**2 == pytest.approx(16.0 - spent) and 3.0 < left.mu < 4.0
    assert ledger.spent == dpfast.GDP(4.0) == found.privacy.total
    raised, _ = interrupted(OWN_FIT, (X, Y), 3)
    assert "went to no mechanism and stays spent" in raised.__notes__[0]
    effect = after(20, lambda: OWN["an effect"](X, Y))  # its folds have ledgers of their own
    assert 0.0 < effect.privacy.unspent.mu < 4.0 and effect.units is not None
    whole = OWN["an effect"](X, Y).privacy
    assert whole.unspent.mu < effect.privacy.unspent.mu


def OWN_FIT(data):
    return dpfast.fit(*data, "log-cosh", privacy=4.0)


def test_folds_that_were_finished_arrive_with_what_the_next_one_released():
    whole = OWN["cross-validation"](X, Y)
    found = after(9, lambda: OWN["cross-validation"](X, Y))
    assert len(found.scores) <= len(found.fits) < 3 and found.unfinished is not None
    assert found.privacy.total == whole.privacy.total
    assert found.privacy.unspent.mu > whole.privacy.unspent.mu
    assert str(found)


def test_points_of_a_descent_arrive_and_are_a_start():
    def run(**options):
        return dpfast.minimize(X, Y, dpfast.Objective("tukey", scale=1.0), privacy=1.0, **options)

    found = after(4, run)
    assert "ended early" in found.warnings[0] and np.isfinite(found.params).all()
    assert len(found.iterates) > 1 and (found.params == found.iterates[-1]).all()
    assert (run(start=found.params).iterates[0] == found.params).all()


def test_a_test_and_release_gives_back_its_verdict_at_most():
    budget, box = dpfast.ApproxDP(6.0, 1e-3), dpfast.models.Box(1.0)
    given = {"privacy": budget, "domain": box}
    loss = dpfast.Objective("log-cosh", scale=1.0, ridge=5.0)
    for call in (
        lambda data: dpfast.release_functional(*data, loss, "x1", method="paper", **given),
        lambda data: dpfast.release_parameter(*data, loss, **given),
    ):
        for most in range(1, 5):
            raised, _ = interrupted(call, (X, Y), most)
            if raised is None:
                break
            assert type(raised.partial_result) is Certificate
            assert raised.partial_result.privacy.unspent is not None
        assert most > 1


class Short(dpfast.optimize.Newton):
    """Of memory, in its run."""

    def run(self, answers, start, budgets, progress=None):
        answers.joint(start, budgets[0])
        raise MemoryError


def test_a_shortage_of_memory_is_an_exception_as_any():
    with pytest.raises(MemoryError) as raised:
        dpfast.fit(X, Y, dpfast.Objective("log-cosh", scale=1.0), privacy=1.0, method=Short())
    assert len(raised.value.partial_result.iterates) == 1


def test_answers_are_copies_and_only_so_many_numbers_are_kept(monkeypatch):
    from dpfast.curator import answers

    monkeypatch.setattr(answers, "MAX_TAPE_NUMBERS", 100)
    tape = Tape()
    receipt, value = answers.Receipt("a mean", "C9", 0.1, 1.0, 2.0), np.zeros(30)
    for k in range(9):
        tape.keep(("label", 0.1, np.full(3, float(k))), [answers.Answer(value, 2.0, receipt)])
    value[:] = 1.0
    assert 2 <= len(tape.answers) <= 3
    assert not tape.answers[-1].value.any() and tape.answers[-1].at[0][0] == 8.0


def test_a_call_inside_of_another_keeps_its_own_answers():
    def own_run(answers, start, budgets, progress=None):
        dpfast.private_quantiles(X[:, 0], [0.5], low=-1.0, high=1.0, privacy=1.0, steps=4)
        raise KeyboardInterrupt

    class Nested(dpfast.optimize.Newton):
        run = staticmethod(own_run)

    with pytest.raises(KeyboardInterrupt) as raised:
        dpfast.fit(X, Y, dpfast.Objective("log-cosh", scale=1.0), privacy=1.0, method=Nested())
    assert not hasattr(raised.value, "partial_result") and TAPE.get() is None


@each(
    ("options", "told"),
    [
        ({"standardize": "units"}, "standardize must be"),
        ({"loss": dpfast.Objective("log-cosh", fit_intercept=False)}, "centre the columns"),
        ({"loss": "logistic"}, "response=False"),
        ({"X": X[:, :1]}, "columns must be those"),
    ],
)
def test_units_that_do_not_fit_are_refused_before_the_charge(options, told):
    ledger = dpfast.Ledger(9.0)
    given = {
        "X": X, "y": Y, "loss": "log-cosh", "privacy": 1.0, "ledger": ledger,
        "standardize": dpfast.standardize(X, Y, privacy=4.0),
    } | options  # fmt: skip
    with pytest.raises(InvalidInput, match=told):
        dpfast.fit(**given)
    assert ledger.entries == ()


# ---- the next function ---------------------------------------------------------------------------

#: Where charges stand outside of a KeepReleased, and why.
ELSEWHERE = {
    "bayesopt/tuner.py": "nothing is drawn when a search is made; its steps are kept",
    "bayesopt/tuned_losses.py": "as in bayesopt/tuner.py: the clip is estimated within tune",
    "bayesopt/portfolio.py": "nothing is drawn when it is made; tune keeps its run",
    "fit_requests/account.py": "what charges",
    "release/certified.py": "Opened, whose callers keep the certificate",
    "bayesopt/spending.py": "Spending.begin, which its callers keep",
}


CHARGES = re.compile(r"account(\(.*\))?\.charge(_after)?$|^own\.begin$", re.IGNORECASE | re.DOTALL)


def test_whatever_charges_a_shared_ledger_keeps_what_it_pays_for():
    charging = 0
    for path in sorted(Path(dpfast.__file__).parent.rglob("*.py")):
        place = path.relative_to(Path(dpfast.__file__).parent).as_posix()
        tree = sources.tree(path)
        kept = {
            id(call)
            for block in ast.walk(tree)
            if isinstance(block, ast.With)
            and any(ast.unparse(item.context_expr).startswith("KeepReleased(")
                    for item in block.items)
            for call in ast.walk(block)
        }  # fmt: skip
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and CHARGES.search(ast.unparse(call.func)):
                charging += 1
                assert id(call) in kept or place in ELSEWHERE, f"{place}: line {call.lineno}"
    assert 5 < charging < 12  # most calls charge in the one planned run
