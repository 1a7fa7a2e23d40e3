"""Optimisers of a caller's own: what they can do, and what they cannot."""

import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dpfast
from dpfast.curator import Answer, Curator, StepBudget
from dpfast.data import as_records
from dpfast.models import Clip, LogCosh, Mallows, Objective
from dpfast.models.names import LOSSES
from dpfast.models.weighting import Weighting
from dpfast.optimize import Budgets, GradientDescent, Method, Trajectory, Uniform
from dpfast.optimize.damping import Backtracking
from dpfast.optimize.protocol import answers_only, public_copy
from dpfast.privacy.ledger import Ledger
from tests.loops import each

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
NAMES: dict = {}
exec(re.search(r"^```python\n(.*?class HeavyBall.*?)^```", PAGE, flags=re.M | re.S)[1], NAMES)
HeavyBall = NAMES["HeavyBall"]
LOG_COSH = dpfast.Objective("log-cosh", scale=1.0)
EXACT = dpfast.Objective("log-cosh", dpfast.Mallows(2.0), scale=1.0)  # the weights of a method


def data(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, 0.5 + X @ np.array([1.0, -0.5, 0.5]) + rng.normal(size=n)


def fit(method, *, mu=0.5, seed=0, loss=LOG_COSH, **options):
    X, y = data()
    options = {"noise": dpfast.SeededNoise(seed), **options}
    return dpfast.fit(X, y, loss, privacy=mu, method=method, **options)


class Own(HeavyBall):
    """The example with one thing changed."""

    def __init__(self, **changes):
        super().__init__()
        for name, change in changes.items():
            setattr(self, name, change)


@pytest.mark.slow
def test_the_example_of_contributing_has_valid_intervals():
    """Errors about the exact fit, in units of the privacy part of the standard error.

    200 fits of 4 coefficients: the mean square is 1 up to a relative standard deviation of 5% and
    the error of the linear recursion; outside [0.7, 1.4] with probability below 1e-6.
    """
    X, y = data()
    exact = dpfast.nonprivate_fit(X, y, EXACT)
    squares = []
    for seed in range(200):
        found = fit(HeavyBall(), seed=seed)
        squares.append((found.params - exact.params) ** 2 / (found.bse**2 - exact.bse**2))
    assert 0.7 < np.median(np.mean(squares, axis=1)) / 0.839 < 1.4  # median of chi2(4)/4
    spent = math.fsum(mu**2 for _, mu in found.privacy.entries)
    assert 0.25 * (1.0 - 1e-6) < spent <= 0.25
    assert found.warnings == ()


def test_a_large_budget_recovers_the_exact_fit_and_its_errors():
    X, y = data()
    exact = dpfast.nonprivate_fit(X, y, EXACT)
    found = fit(Own(steps=300), mu=1e5)
    np.testing.assert_allclose(found.params, exact.params, atol=1e-3)
    np.testing.assert_allclose(found.bse, exact.bse, rtol=1e-2)


class Counting(dpfast.SeededNoise):
    """Says how often it was asked."""

    draws = 0

    def normals(self, *arguments):
        self.draws += 1
        return super().normals(*arguments)


def test_one_that_asks_for_more_than_the_total_is_refused_before_the_draw():
    seen = {}

    def run(answers, start, budgets, progress=None, steering_mu=0.0):
        for budget in budgets:
            answers.joint(start, budget)
        seen["draws"] = noise.draws
        answers.joint(start, budgets[-1])
        raise AssertionError("the extra question was answered")

    noise, shared = Counting(0), dpfast.Ledger(1.0)
    with pytest.raises(dpfast.BudgetExceeded):
        fit(Own(run=run, steps=5), mu=0.5, noise=noise, ledger=shared)
    assert noise.draws == seen["draws"] == 5
    assert [entry.spend.mu for entry in shared.entries] == [0.5]


@each(
    "change",
    [
        {"run": lambda *_: None},
        {"run": lambda answers, start, *_: start},
        {"run": lambda answers, start, budgets, *_: Trajectory(start, [start], None)},
        {
            "run": lambda answers, start, budgets, *_: Trajectory(
                start[:1], [start], answers.joint(start, budgets[-1])
            )
        },
        {
            "run": lambda answers, start, budgets, *_: Trajectory(
                start, None, answers.joint(start, budgets[-1])
            )
        },
        {"curvatures": lambda *_: ("none",)},
        {"curvatures": lambda *public: ("curvature",) * public[-1]},
        {"plan": lambda *_: [StepBudget(0.5)]},
        {"plan": lambda *_: Budgets([StepBudget("much")], 1.0, inference=True)},
        {"steps": 0},
        {"steps": 2.5},
        {"schedule": "late"},
        {"start": [0.0]},
        {"start": [math.nan] * 4},
        {"defaults": lambda *_: (0, Uniform())},
        {"defaults": lambda *_: (5, "most of it last, please")},
    ],
)
def test_nonsense_is_refused_by_name(change):
    with pytest.raises(dpfast.InvalidInput):
        fit(Own(**change))


STEPWISE = [dpfast.optimize.Newton, GradientDescent]


@each("optimiser", [*STEPWISE, Method])
@each(
    "setting",
    [
        {"steps": 0}, {"steps": 2.5}, {"steps": True}, {"steps": "x"}, {"schedule": "late"},
        {"schedule": 3}, {"start": "x"}, {"start": 0.0}, {"start": [[0.0]]}, {"start": [math.nan]},
    ],
)  # fmt: skip
def test_a_setting_that_every_optimiser_has_is_checked_where_it_is_made(optimiser, setting):
    with pytest.raises(dpfast.InvalidInput, match=next(iter(setting))):
        optimiser(**setting)


@pytest.mark.parametrize("optimiser", STEPWISE)
def test_settings_are_followed_and_are_not_changed_by_a_fit(optimiser):
    start = [0.5, 0.5, 0.5, 0.5]
    method = optimiser(steps=3, schedule="uniform", start=start)
    said, known = repr(method), "steps=3, schedule='uniform', start=<4 numbers>)"
    found = fit(method, inference=False)
    assert found.iterates.shape[0] == 4 and "3 steps, Uniform()" in found.method
    np.testing.assert_array_equal(found.iterates[0, :4], start)
    assert repr(method) == said and said.endswith(known)


@each("share", [-0.5, 1.0, math.nan, "half"])
def test_a_share_that_is_none_is_refused_before_anything_is_spent(share):
    class Greedy(HeavyBall):
        steering_share = share

    ledger = dpfast.Ledger(1.0)
    with pytest.raises(dpfast.InvalidInput):
        fit(Greedy(), ledger=ledger)
    assert not ledger.entries


def test_needs_are_refused_by_name_and_before_anything_is_spent():
    class Picky(HeavyBall):
        needs = frozenset({"curvature"})

    class Odd(HeavyBall):
        needs = frozenset({"luck"})

    class Searching(HeavyBall):
        needs = Backtracking(3).needs

    class Scaled(HeavyBall):
        needs = frozenset({"free scale"})

    ledger = dpfast.Ledger(1.0)
    clipped = dpfast.Objective("log-cosh", Clip(1.0), scale=1.0)
    with pytest.raises(dpfast.InvalidInput, match=r"Picky.* needs"):
        fit(Picky(), loss=clipped, inference=False, ledger=ledger)
    with pytest.raises(dpfast.InvalidInput, match="needs are of"):
        fit(Odd(), ledger=ledger)
    with pytest.raises(dpfast.InvalidInput, match="needs a free scale"):
        fit(Scaled(), ledger=ledger)
    free = dpfast.Objective("log-cosh", scale=dpfast.FreeScale(0.5, 2.0))
    with pytest.raises(dpfast.InvalidInput, match=r"Searching.* needs a loss difference"):
        fit(Searching(), loss=free, ledger=ledger)
    assert not ledger.entries


def asked(mu=1.0, objective=None):
    X, y = data()
    objective = objective or Objective(LogCosh(), Mallows(2.0), 3, scale=1.0)
    curator = Curator(as_records(X, y, None), objective, Ledger(mu), dpfast.SeededNoise(0), 1)
    return curator, answers_only(curator)


def test_what_is_not_paid_for_is_out_of_reach():
    curator, answers = asked()
    assert [name for name in dir(curator) if name.startswith("nonprivate_")]
    offered = {name for name in dir(answers) if not name.startswith("__")}
    assert offered == {
        "depth", "extreme_eigenvalue", "joint", "largest_curvature", "loss_difference", "n",
        "objective", "plan",
    }  # fmt: skip
    for name in offered:
        assert getattr(getattr(answers, name), "__self__", None) is not curator


@pytest.mark.slow
def test_a_type_checker_says_so(tmp_path):
    pytest.importorskip("mypy")
    script = tmp_path / "own.py"
    script.write_text(
        "from dpfast.optimize import Answers\n\n\n"
        "def run(answers: Answers) -> object:\n    return answers.nonprivate_sums\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-incremental", str(script)],
        capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert '"Answers" has no attribute "nonprivate_sums"' in done.stdout, done.stdout


def test_what_an_optimiser_writes_reaches_no_curator():
    """A lowered bound would lower the noise; every answer must be as if nothing was written."""
    first, second = asked()[0], asked()
    answers, theta, budget = second[1], np.zeros(4), StepBudget(0.5, 0.5)
    for name in ("score_bound", "score_diameter", "curvature_bound", "dimension", "scale"):
        setattr(answers.objective, name, 1)
    answers.objective.loss.c = answers.objective.weighting.radius = 1e-3
    wanted, found = first.joint(theta, budget), answers.joint(theta, budget)
    for one, other in zip(wanted[:3], found[:3], strict=True):
        assert one.receipt == other.receipt
        np.testing.assert_array_equal(one.value, other.value)
    # these read the bounds when they are asked, where a joint answer was planned before
    for ask in (
        lambda of: of.largest_curvature(0.3),
        lambda of: of.extreme_eigenvalue(theta, 0.3, largest=False),
        lambda of: of.loss_difference(theta + 1.0, theta, 0.3),
    ):
        wanted, found = ask(first), ask(answers)
        assert wanted.receipt == found.receipt
        np.testing.assert_array_equal(wanted.value, found.value)
    shown = public_copy(first.objective)
    assert vars(shown).keys() == vars(first.objective).keys()
    assert shown.loss is not first.objective.loss


WEIGHTINGS = Weighting.__subclasses__()


class Scribbler(HeavyBall):
    """Keeps a setting that a caller passed, writes on it once it runs, and asks."""

    def __init__(self, thing, change):
        super().__init__()
        self.thing, self.change, self.found = thing, change, []

    def run(self, answers, start, budgets, progress=None):
        for name in ("c", "h", "radius"):
            if name in vars(self.thing):
                setattr(self.thing, name, getattr(self.thing, name) * self.change)
        half = budgets[0]._replace(gradient=0.05, hessian=0.0, meat=0.0)
        self.found += [answers.joint(start, half), answers.joint(start + 1.0, half)]
        if answers.objective.has_curvature:
            self.found.append(answers.extreme_eigenvalue(start, 0.05, largest=True))
        final = answers.joint(start, budgets[-1])
        return Trajectory(start, [start], final=final)


SETTINGS = {
    **{name: (lambda kind=kind: (kind(), Mallows(1.5))) for name, kind in LOSSES.items()},
    "poisson": lambda: (dpfast.Poisson(2.0), Mallows(1.5)),
    "custom": lambda: (
        dpfast.CustomLoss(
            lambda r: r * r / 2, lambda r: r, lambda r: 1.0, psi_bound=1.0, psi_prime_bound=1.0
        ),
        Mallows(1.5),
    ),
    **{kind.__name__: (lambda kind=kind: (LogCosh(), kind(1.5))) for kind in WEIGHTINGS},
}


@pytest.mark.values
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("which", [0, 1])
def test_what_is_written_on_a_setting_while_a_fit_runs_reaches_no_curator(setting, which):
    """Bounds and kernels are made at different times: larger constants would be noise not drawn."""
    X, y = data(60)
    X, y = 100.0 * X, 1e3 * y if setting != "logistic" else (y > 0.0) * 1.0
    runs = []
    for change in (1.0, 1e3):
        parts = SETTINGS[setting]()
        method = Scribbler(parts[which], change)
        dpfast.fit(
            X, y,
            dpfast.Objective(parts[0], weights=parts[1],
            scale=1.0 if parts[0].needs_scale else None),
            method=method, inference=False, privacy=1.0, noise=dpfast.SeededNoise(0),
        )  # fmt: skip
        runs.append(method.found)
    assert len(runs[0]) >= 2
    assert repr(runs[0]) == repr(runs[1])


def test_an_objective_of_records_has_settings_of_its_own():
    """The caller's are written on by whoever has them."""
    loss, weights = dpfast.Huber(), Mallows(1.5)
    own = dpfast.Objective(loss, weights=weights, scale=1.0, n_covariates=2)
    assert own.loss is not loss and own.weighting is not weights


class Liar(float):
    """A number that equals and precedes everything."""

    def __eq__(self, other):
        return True

    def __lt__(self, other):
        return True

    __gt__ = __le__ = __ge__ = __lt__

    def __hash__(self):
        return hash(0.5)

    def __mul__(self, other):
        return 0.0

    __rmul__ = __pow__ = __mul__


def test_numbers_of_a_callers_own_kind_do_not_reach_the_ledger():
    curator, answers = asked(mu=1.0)
    theta = np.zeros(4)
    with pytest.raises(dpfast.BudgetExceeded):
        answers.joint(theta, StepBudget(Liar(40.0)))
    with pytest.raises(dpfast.BudgetExceeded):
        answers.largest_curvature(Liar(40.0))
    assert not curator.ledger.entries
    honest = answers.joint(theta, StepBudget(0.5))
    assert honest.gradient.receipt == asked()[0].joint(theta, StepBudget(0.5)).gradient.receipt
    assert type(honest.gradient.receipt.mu) is float


class Greedy(HeavyBall):
    """Plans to spend numbers of a kind of its own."""

    def plan(self, objective, n, mu, inference):
        return Budgets([StepBudget(Liar(40.0))], mu, inference=inference)


def test_numbers_that_were_planned_are_plain_before_they_are_recognised():
    noise = Counting(0)
    with pytest.raises((dpfast.BudgetExceeded, dpfast.errors.InvalidBudget)):
        fit(Greedy(), inference=False, noise=noise)
    assert noise.draws == 0


class AsItGoes(HeavyBall):
    """Decides on each answer what to ask for next; of its plan there is the total alone."""

    def plan(self, objective, n, mu, inference):
        return Budgets((), mu, inference=inference, most_steps=9, description="as it goes")

    def run(self, answers, start, budgets, progress=None):
        assert not len(budgets) and not budgets.inference and budgets.steering_mu == 0.0
        theta, iterates, left = start, [start], budgets.mu**2
        while left > 1e-3 * budgets.mu**2:
            share = left / (3.0 if np.linalg.norm(theta) < 0.5 else 2.0)
            left -= share
            answer = answers.joint(theta, StepBudget(share**0.5))
            theta = theta - answer.gradient.value / answers.objective.smoothness
            iterates.append(theta)
        return Trajectory(theta, iterates, answer)


def test_an_own_plan_may_be_the_total_alone():
    said = []
    found = fit(AsItGoes(), inference=False, progress=lambda *told: said.append(told))
    assert found.method.startswith("as it goes") and said == [(0, 9)]
    assert 0.24 < math.fsum(mu**2 for _, mu in found.privacy.entries) <= 0.25


@each(
    "question",
    [
        lambda ask: ask.joint(np.zeros(3), StepBudget(0.5)),
        lambda ask: ask.joint(np.zeros((4, 1)), StepBudget(0.5)),
        lambda ask: ask.joint(["one", "two", "three", "four"], StepBudget(0.5)),
        lambda ask: ask.joint(np.zeros(4), StepBudget(math.nan)),
        lambda ask: ask.joint(np.zeros(4), StepBudget(-0.5)),
        lambda ask: ask.joint(np.zeros(4), StepBudget(0.5, -0.5)),
        lambda ask: ask.loss_difference(np.zeros(4), np.ones(3), 0.5),
        lambda ask: ask.largest_curvature(math.nan),
        lambda ask: ask.extreme_eigenvalue(np.zeros(4), -1.0, largest=True),
    ],
)
def test_impossible_questions_are_refused_while_nothing_is_spent(question):
    curator, answers = asked()
    with pytest.raises((dpfast.InvalidInput, dpfast.errors.InvalidBudget)):
        question(answers)
    assert not curator.ledger.entries


@each("value", [math.nan, math.inf, 1e308, -1e308])
def test_any_parameter_gets_an_answer_with_the_same_noise(value):
    _, answers = asked()
    answer: Answer = answers.joint(np.full(4, value), StepBudget(0.5, 0.5)).gradient
    assert np.isfinite(answer.value).all()
    assert answer.receipt == asked()[1].joint(np.zeros(4), StepBudget(0.5, 0.5)).gradient.receipt


def test_a_parameter_that_is_changed_afterwards_was_copied():
    curator, _ = asked()
    theta = np.zeros(4)
    seen = []
    ask = curator.joint
    curator.joint = lambda point, budget: seen.append(point) or ask(point, budget)
    answers_only(curator).joint(theta, StepBudget(0.5))
    theta += 1.0
    assert not seen[0].any()
    assert type(seen[0]) is np.ndarray


def test_the_librarys_own_optimisers_are_methods():
    for method in (dpfast.optimize.Newton(), GradientDescent()):
        assert isinstance(method, Method)
