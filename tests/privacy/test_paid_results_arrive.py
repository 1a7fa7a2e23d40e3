"""What was paid for arrives: a caller's own code that fails after the charge takes nothing along.

What a hook raises comes out as it is and carries the result so far as ``partial_result``; where
only the intervals are lost, the fit arrives and says so.
"""

import inspect
import logging
import pickle

import numpy as np
import pytest

import dpfast
from dpfast import bayesopt
from dpfast.bayesopt import SearchSettings
from dpfast.bayesopt.updates import Plain
from dpfast.errors import InferenceUnavailable
from dpfast.optimize import PrivacyNoise, Trajectory
from dpfast.privacy.noise import NoiseSource
from tests.loops import each
from tests.optimize.test_own_optimiser import Own, fit

N = 60
VALUES = np.random.default_rng(0).uniform(0.0, 1.0, (N, 2))
BOX = [(0.0, 1.0), (0.0, 1.0)]
SEARCH = {"bounds": BOX, "privacy": 1.0, "n_records": N}


class Fault(Exception):
    """A caller's."""


def falling(function, after, error=Fault):
    """The same function, which raises from its call number ``after`` on."""
    calls = iter(range(10**6))

    def hook(*arguments):
        if next(calls) >= after:
            raise error
        return function(*arguments)

    return hook


def losses(theta):
    return ((VALUES - theta) ** 2).sum(axis=1)


def gradients(theta):
    return 2.0 * (theta - VALUES)


class FallingUpdate(Plain):
    def __init__(self, hook):
        super().__init__(0.1)
        self.step = hook(super().step)


class FallingNoise(NoiseSource):
    """A noise source of a caller's own that dries up."""

    def __init__(self, hook):
        own = dpfast.SeededNoise(0)
        for name, method in inspect.getmembers(own, inspect.ismethod):
            if not name.startswith("_"):
                setattr(self, name, hook(method))


def own_run(hook):
    def run(answers, start, budgets, progress=None):
        ask = hook(answers.joint)
        answers.joint = ask
        return Own.run(Own(), answers, start, budgets, progress)

    return Own(run=run, steps=6)


#: For each function that runs a caller's code after its charge, the hooks one by one.
HOOKS = {
    "tune, losses": lambda hook, **options: dpfast.tune(
        hook(losses), **SEARCH, steps=4, **options),
    "tune, update": lambda hook, **options: dpfast.tune(
        losses, **SEARCH, steps=4, search=SearchSettings(update=FallingUpdate(hook)), **options),
    "fit, run": lambda hook, **options: fit(own_run(hook), **options),
}  # fmt: skip


@each("error", [Fault, KeyboardInterrupt, SystemExit, dpfast.BudgetExceeded])
@each("name", HOOKS)
def test_what_a_hook_raises_carries_the_result_so_far(name, error):
    reached = set()
    for after in range(25):
        ledger = dpfast.Ledger(10.0)
        outcome = None
        try:
            HOOKS[name](lambda f, after=after: falling(f, after, error), ledger=ledger)
        except BaseException as raised:
            outcome = raised
        if outcome is None:
            break
        assert type(outcome) is error
        found = getattr(outcome, "partial_result", None)
        if found is None:  # nothing was released yet
            assert not reached
            continue
        assert ledger.entries and any("partial_result" in note for note in outcome.__notes__)
        assert found.to_dict() if hasattr(found, "to_dict") else found._asdict()
        assert pickle.loads(pickle.dumps(found))
        where = getattr(found, "params", getattr(found, "theta", None))
        assert np.isfinite(where).all()
        reached.add(len(found.privacy.entries))
    assert len(reached) >= 3 and after > 3  # failures after one answer, two, ...


def test_a_partial_search_is_the_beginning_of_the_whole_one():
    whole = dpfast.tune(losses, **SEARCH, steps=4, noise=dpfast.SeededNoise(3))
    with pytest.raises(Fault) as raised:
        dpfast.tune(falling(losses, whole.n_evaluations - 1), **SEARCH, steps=4,
                    noise=dpfast.SeededNoise(3))  # fmt: skip
    found = raised.value.partial_result
    assert isinstance(found, bayesopt.Tuning) and len(found.gradients) == 3
    np.testing.assert_array_equal(found.iterates, whole.iterates[:4])
    assert "3" in found.summary() and found.privacy.total == whole.privacy.total


def test_a_partial_fit_is_the_path_so_far_and_says_why():
    whole = fit(Own(steps=6))
    with pytest.raises(Fault) as raised:
        fit(own_run(lambda f: falling(f, 4)))
    found = raised.value.partial_result
    np.testing.assert_array_equal(found.iterates, whole.iterates[:4])
    np.testing.assert_array_equal(found.params, whole.iterates[3])
    assert "Fault was raised" in found.warnings[0] and found.warnings[0] in " ".join(
        found.summary().replace("\n", " ").split()
    )
    with pytest.raises(InferenceUnavailable, match="ended early"):
        found.cov_params()


def test_a_source_of_noise_that_dries_up_leaves_what_it_gave():
    with pytest.raises(Fault) as raised:
        fit(Own(steps=6), noise=FallingNoise(lambda f: falling(f, 3)))
    assert len(raised.value.partial_result.iterates) == 3


def covariance_that(value):
    def noise_covariance(trajectory, curvature):
        if isinstance(value, BaseException):
            raise value
        return value

    return noise_covariance


GOOD = np.eye(4), np.zeros(4)
BROKEN_COVARIANCES = [
    ZeroDivisionError("by hand"), np.linalg.LinAlgError("x"), AttributeError(), RecursionError(),
    None, 7, "x", GOOD, np.eye(4), PrivacyNoise(np.eye(3), np.zeros(4)),
    PrivacyNoise(np.eye(4), np.zeros(3)), PrivacyNoise("x", np.zeros(4)),
    PrivacyNoise(np.eye(4).astype(str), np.zeros(4)), PrivacyNoise(np.eye(4) * 1j, np.zeros(4)),
    PrivacyNoise(np.full((4, 4), None), np.zeros(4)), PrivacyNoise(*GOOD, remarks=7),
    PrivacyNoise(*GOOD, remarks=(7,)), PrivacyNoise(*GOOD, remarks="x"),
]  # fmt: skip


@pytest.mark.parametrize("value", BROKEN_COVARIANCES, ids=lambda value: type(value).__name__)
def test_intervals_that_fail_leave_the_estimate(value, caplog):
    ledger = dpfast.Ledger(1.0)
    with caplog.at_level(logging.ERROR, "dpfast"):
        found = fit(Own(noise_covariance=covariance_that(value)), ledger=ledger)
    np.testing.assert_array_equal(found.params, fit(Own()).params)
    if np.shape(getattr(value, "covariance", None)) == (4, 4) and found.warnings == ():
        assert np.isnan(found.bse).all()  # an object array of None: no numbers, no failure
        return
    (warning,) = found.warnings
    assert "could not be computed" in warning and "by hand" not in warning
    assert "No standard errors" in found.summary() and "bse" not in found.to_dict()
    assert not hasattr(found, "bse") and len(ledger.entries) == 1
    with pytest.raises(InferenceUnavailable, match="could not be computed"):
        found.conf_int()
    assert pickle.loads(pickle.dumps(found)).warnings == found.warnings
    assert caplog.records[0].exc_text


def test_a_run_that_forgot_the_matrices_leaves_the_estimate():
    def run(answers, start, budgets, progress=None):
        return Trajectory(start + 1.0, [start], answers.joint(start, budgets[0]))

    found = fit(Own(run=run))
    assert (found.params == 1.0).all() and "answers.joint" in found.warnings[0]
    assert fit(Own(run=run), inference=False).warnings == ()


class RefusingHandler(logging.Handler):
    def emit(self, record):
        raise Fault


def test_a_handler_of_the_log_that_raises_costs_nothing():
    logger, handler = logging.getLogger("dpfast"), RefusingHandler()
    logger.addHandler(handler)
    try:
        assert fit(Own(noise_covariance=covariance_that(Fault()))).warnings
    finally:
        logger.removeHandler(handler)


class Unwritable(Exception):
    __slots__ = ()

    def __setattr__(self, name, value):
        raise TypeError("frozen")


def test_an_exception_that_takes_no_attribute_comes_out_all_the_same():
    with pytest.raises(Unwritable):
        fit(own_run(lambda f: falling(f, 2, Unwritable)))
