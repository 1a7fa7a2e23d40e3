"""Compiled Newton steps of released scores against their twin in plain NumPy."""

import math

import numpy as np
import pytest

from dpfast.curator import Answer, JointAnswer
from dpfast.curator.preconditioned import Linearization
from dpfast.models import Gamma, LogCosh, Logistic, Poisson, Probit
from dpfast.solvers.pcn.curvature import CurvatureModel
from dpfast.solvers.pcn.scores import NoisyScore
from dpfast.solvers.pcn.steps import AveragedNewton
from dpfast.solvers.pcn.stopping import StoppingRule
from tests.twins import decisions, newton

ROUGH, FINE = StoppingRule(10.0, 0.0, 1.0), StoppingRule(1e-4, 1e-3, 10.0)


class Quadratic:
    """Noisy scores of a quadratic, and their covariance: what was asked is kept."""

    def __init__(self, seed, p, noise=0.01, variation=1.0, trusted=1.0, n=1000):
        self.rng, self.noise, self.trusted, self.n = np.random.default_rng(seed), noise, trusted, n
        A = self.rng.normal(size=(p, p)) / p**0.5
        self.H, self.best = 0.3 * A @ A.T + np.eye(p), self.rng.normal(size=p) / p**0.5
        self.variation, self.asked = variation, []

    def score(self, theta, bound, mu, mu_meat=0.0):
        self.asked.append((theta.copy(), bound, mu, mu_meat))
        p, noise = theta.size, self.noise / mu
        error = self.rng.normal(size=(p, p))
        value = self.H @ (self.best - theta) + noise * self.rng.normal(size=p)
        meat = self.variation * self.H + self.noise * (error + error.T)
        meat = Answer(meat, self.noise / (mu_meat or 1.0), None)
        return JointAnswer(Answer(value, noise, None), None, meat, mu)

    def trusted_part(self, step):
        return self.trusted


def both(problem, start, rule, model, inference, mus, **options):
    """Solve by the compiled steps, and by the twin; return both with what they asked and said."""
    found = []
    updates = options.pop("updates", True)
    for solve in (compiled, newton.averaged_newton):
        asked, said = problem(), []
        twin = model if model is None or solve is compiled else decisions.CurvatureModel(*model)
        solution = solve(
            asked, start, 2.5, rule, twin, inference, mus, updates=updates,
            report=lambda theta, done, said=said: said.append((theta, done)), **options,
        )  # fmt: skip
        found.append((solution, asked.asked, said))
    return found


def compiled(problem, start, bound, rule, model, inference, mus, *, updates, report, **options):
    steps = AveragedNewton(problem, start, bound, rule, model, inference, updates)
    return steps.solve(mus, report, **options)


def same(found, expected, path="solution", rtol=1e-6):
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected), path
        for k, pair in enumerate(zip(found, expected, strict=True)):
            same(*pair, f"{path}[{k}]", rtol)
    elif expected is None or isinstance(expected, (int, bool)):
        assert found == expected, path
    else:
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-9, err_msg=path)


def model_of(seed, p, loss, least=1.0, hidden=False, start=False, offset=(0.0, 0.0)):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(p, p)) / p**0.5
    whiten = np.eye(p) + 0.1 * (A + A.T)
    at = Linearization(rng.normal(size=p) / p**0.5, loss)
    slopes, one = rng.normal(size=p), rng.normal(size=p)
    return CurvatureModel(
        # without slopes beside an intercept their direction would be that of roundings
        whiten, np.linalg.inv(whiten), at, (one if p > 1 else None, *offset), least,
        (slopes, float(slopes @ slopes), 0.3, 0.1) if start else None,
        rng.random(p) if hidden else None,
    )  # fmt: skip


def without_vectors(solution):
    """Leave out the direction of a bound: its sign is that of an eigenvector."""
    return solution._replace(overstated=None)


@pytest.mark.parametrize("p", [1, 2, 5, 9, 20])
@pytest.mark.parametrize("mus", [(0.5,), (0.1, 0.4), (0.1, 0.4, 0.4, 0.4, 0.4)], ids=len)
@pytest.mark.parametrize("rule", [ROUGH, FINE], ids=["rough", "fine"])
@pytest.mark.parametrize("updates", [False, True])
def test_steps_without_a_model_are_those_of_the_twin(p, mus, rule, updates):
    for inference in (False, True):
        for trusted in (1.0, 0.5):
            ours, theirs = both(
                lambda trusted=trusted: Quadratic(p, p, trusted=trusted), np.zeros(p), rule, None,
                inference, mus, updates=updates,
            )  # fmt: skip
            same(ours, theirs)


@pytest.mark.parametrize("p", [1, 2, 5, 9, 20])
@pytest.mark.parametrize("loss", [Logistic(), Poisson(), Probit(), Gamma(), LogCosh()], ids=repr)
@pytest.mark.parametrize("least", [0.0, 1.0, math.inf])
def test_steps_with_a_model_are_those_of_the_twin(p, loss, least):
    for case in range(4):
        model = model_of(
            p, p, loss, least, hidden=case % 2 == 1, start=case > 1, offset=(0.2 * case, 0.3 * case)
        )
        variation = (0.2, 1.0, 3.0, 1e-6)[case]
        ours, theirs = both(
            lambda variation=variation: Quadratic(p, p, noise=1e-3, variation=variation),
            np.zeros(p), (ROUGH, FINE)[case % 2], model, True, (0.1, 0.4, 0.4, 0.4),
        )  # fmt: skip
        assert (ours[0].overstated is None) == (theirs[0].overstated is None)
        if theirs[0].overstated is not None:
            same(np.abs(ours[0].overstated), np.abs(theirs[0].overstated), rtol=1e-3)
        same((without_vectors(ours[0]), *ours[1:]), (without_vectors(theirs[0]), *theirs[1:]))


@pytest.mark.parametrize("p", [1, 4, 9])
@pytest.mark.parametrize("length", [1e-9, 0.3, 30.0])
@pytest.mark.parametrize("with_model", [False, True])
def test_steps_go_on_from_scores_that_were_released_before(p, length, with_model):
    """A first step that has converged leaves one, with the rest of the budget."""
    start, mus = np.full(p, 0.1), (0.1, 0.3, 0.3, 0.3)
    score = NoisyScore(start.copy(), length * np.eye(p)[0], 1e-3)
    model = model_of(p, p, Logistic()) if with_model else None
    for options in ({"last_score": score}, {"first_score": score}):
        ours, theirs = both(lambda: Quadratic(p, p), start, FINE, model, True, mus, **options)
        same((without_vectors(ours[0]), *ours[1:]), (without_vectors(theirs[0]), *theirs[1:]))
        spent = [mu for _, _, mu, _ in ours[1]]
        assert math.hypot(mus[0], *spent) == pytest.approx(math.hypot(*mus), rel=1e-12)
        assert all(meat in (0.0, 0.5 * mu) for _, _, mu, meat in ours[1])
        assert "last_score" not in options or (len(spent) == 1) == (length < 1.0)


def test_numbers_in_any_memory_are_read_as_they_are():
    p, model = 4, model_of(3, 4, Logistic(), hidden=True, start=True)
    strided = model._replace(
        whiten=np.asfortranarray(model.whiten),
        back=np.repeat(model.back, 2, axis=1)[:, ::2],
        constant_and_offsets=(np.repeat(model.constant_and_offsets[0], 3)[::3], 0.0, 0.0),
        undetermined=model.undetermined[::-1].copy()[::-1],
    )

    class Float32(Quadratic):
        def score(self, *question):
            answer = super().score(*question)
            value = np.repeat(answer.gradient.value, 2)[::2]
            meat = answer.meat._replace(value=np.asfortranarray(answer.meat.value))
            return answer._replace(gradient=answer.gradient._replace(value=value), meat=meat)

    found = [
        compiled(problem(1, p), start, 2.5, FINE, each, True, (0.1, 0.4, 0.4), updates=True,
                 report=lambda theta, done: None)
        for problem, start, each in (
            (Quadratic, np.zeros(p), model), (Float32, np.zeros(2 * p)[::2], strided)
        )
    ]  # fmt: skip
    same(*found, rtol=1e-12)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 1e300])
@pytest.mark.parametrize("with_model", [False, True])
def test_steps_end_whatever_was_released(wrong, with_model):
    """With numbers, or with an error of linear algebra, and after the questions that were paid."""

    class Odd(Quadratic):
        def score(self, *question):
            answer = super().score(*question)
            if len(self.asked) == 2:
                answer.gradient.value[0] = answer.meat.value[0, 0] = wrong
            return answer

    model = model_of(3, 3, Logistic()) if with_model else None
    problem, said = Odd(0, 3), []
    try:
        found = compiled(problem, np.zeros(3), 2.5, ROUGH, model, True, (0.1, 0.2, 0.3, 0.4),
                         updates=True, report=lambda *step: said.append(step))  # fmt: skip
    except np.linalg.LinAlgError:
        assert with_model
    else:
        assert found.steps == len(said) == len(problem.asked)
        assert found.theta.shape == (3,)
        assert math.hypot(*[mu for _, _, mu, _ in problem.asked]) == pytest.approx(0.3**0.5)


def test_a_singular_curvature_is_an_error_of_linear_algebra():
    for p in (3, 20):
        model = model_of(1, p, Logistic())._replace(start=(np.zeros(p), 1e-300, np.inf, np.inf))
        steps = AveragedNewton(Quadratic(0, p), np.zeros(p), 1.0, ROUGH, model, False)
        with pytest.raises(np.linalg.LinAlgError):
            steps.solve((0.4, 0.4), lambda theta, done: None)


def test_numbers_of_another_length_are_refused():
    class Short(Quadratic):
        def score(self, *question):
            answer = super().score(*question)
            return answer._replace(gradient=Answer(np.ones(2), 0.1, None))

    with pytest.raises(ValueError, match="expected 3 numbers"):
        AveragedNewton(Short(0, 3), np.zeros(3), 1.0, ROUGH, None, False).solve((0.4,), print)
    short = NoisyScore(np.zeros(3), np.ones(4), 0.1)
    steps = AveragedNewton(Quadratic(0, 3), np.zeros(3), 1.0, ROUGH, None, False)
    with pytest.raises(ValueError, match="expected 3 numbers"):
        steps.solve((0.4, 0.4), lambda theta, done: None, first_score=short)


def test_steps_are_taken_once():
    """A second time, or from within a question, they have no memory of their own."""
    steps = AveragedNewton(Quadratic(0, 2), np.zeros(2), 1.0, ROUGH, None, False)
    with pytest.raises(RuntimeError, match="make another"):
        steps.solve((0.4, 0.4), lambda theta, done: steps.solve((0.4,), print))


def test_an_error_of_a_question_or_a_report_arrives():
    class Refused(Quadratic):
        def score(self, *question):
            raise KeyError("refused")

    def stop(theta, done):
        raise KeyboardInterrupt

    with pytest.raises(KeyError, match="refused"):
        AveragedNewton(Refused(0, 2), np.zeros(2), 1.0, ROUGH, None, False).solve((0.4,), print)
    with pytest.raises(KeyboardInterrupt):
        AveragedNewton(Quadratic(0, 2), np.zeros(2), 1.0, ROUGH, None, False).solve((0.4,), stop)


def test_what_was_handed_out_may_be_changed():
    """Points and scores that were kept elsewhere are copies of the solver's."""

    class Changed(Quadratic):
        def score(self, theta, *question):
            answer = super().score(theta, *question)
            self.last = theta, answer
            return answer

        def trusted_part(self, step):
            step[:] = np.nan
            self.last[0][:], self.last[1].gradient.value[:] = np.nan, np.nan
            return 1.0

    solutions = [
        compiled(kind(0, 3), np.zeros(3), 2.5, FINE, None, False, (0.1, 0.4, 0.4), updates=True,
                 report=lambda theta, done: None)
        for kind in (Quadratic, Changed)
    ]  # fmt: skip
    same(solutions[1].theta, solutions[0].theta, rtol=0.0)
