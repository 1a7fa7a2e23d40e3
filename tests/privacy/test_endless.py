"""Nothing public is endless or enormous: every number a caller may pass is done soon, or refused.

A call with one number far too large or small may take what it takes in processor time and in
memory below a limit.  What is longer is refused, and before the charge.
"""

from __future__ import annotations

import os
import resource
import signal
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import dpfast
from tests.loops import each
from tests.privacy.test_errors_are_ours import PUBLIC, RIGHT_CALLS, arguments
from tests.privacy.test_refused_first import CALLS, OWN_FUNCTIONS, PAIR, X, Y, rich_ledger

#: Processor seconds of a call, and what it may take of memory beside what there is.
SECONDS, BYTES = 20.0, 2 << 30

#: Numbers that stand for how many or how often, and for rates, sizes and shares.
HUGE = [10**9, 2**53, 10**400, 1e9, 1e300]
TINY = [1e-5, 1e-9, 1e-300]


class TooLong(Exception):
    pass


@contextmanager
def limits(seconds=SECONDS):
    """A limit of processor time, whatever else the machine does, and of memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)

    def late(*_):
        raise TooLong

    handler = signal.signal(signal.SIGPROF, late)
    resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf("SC_PAGESIZE") + BYTES, before[1]))
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        resource.setrlimit(resource.RLIMIT_AS, before)
        signal.signal(signal.SIGPROF, handler)


def outcome(function, given, seconds=SECONDS):
    """None, or the error of a call; what is too long or too much is raised."""
    with warnings.catch_warnings(), limits(seconds):
        warnings.simplefilter("ignore")
        try:
            function(**given)
        except (TooLong, MemoryError):
            raise
        except Exception as error:
            return error
    return None


NAMES = [*CALLS, *PUBLIC]

# the limits are of this process alone, and of its processor time: others do not disturb
pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="limits of Linux")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.one_in(6)
def test_a_number_far_too_large_or_small_is_done_soon_or_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    function, right = CALLS[name] if name in CALLS else (PUBLIC[name], RIGHT_CALLS[name])
    for parameter in arguments(function):
        if parameter.name in OWN_FUNCTIONS:
            continue
        for value in (*HUGE, *TINY):
            given = {**right, parameter.name: value}
            ledger = rich_ledger(right["privacy"]) if name in CALLS else None
            if ledger is not None and parameter.name != "ledger":
                given = {**right, "ledger": ledger, parameter.name: value}
            try:
                error = outcome(function, given)
            except (TooLong, MemoryError) as much:
                pytest.fail(f"{name}({parameter.name}={value!r:.30}): {much!r}")
            assert error is None or isinstance(error, dpfast.DpfastError | OSError | ImportError)
            if error is not None and ledger is not None:
                assert not ledger.entries, (name, parameter.name, value, error)


# ---- what was found ------------------------------------------------------------------------------


@pytest.mark.serial
def test_a_sweep_notices_what_is_too_long_or_too_much():
    def busy(kind):
        while kind == "endless":
            pass
        np.ones(BYTES)

    for kind, error in (("endless", TooLong), ("enormous", MemoryError)):
        with pytest.raises(error):
            outcome(busy, {"kind": kind}, seconds=0.2)


@pytest.mark.parametrize(
    "call",
    [
        lambda: dpfast.plan(n=10**400, p=3, privacy=1.0),
        lambda: dpfast.plan(n=100, p=10**9, privacy=1.0),
        lambda: dpfast.plan(n=100, privacy=1.0, pilot=3),
        lambda: dpfast.plan(n=100, privacy=1.0, pilot=(X,), loss=dpfast.Objective("log-cosh",
        scale=1.0)),
        lambda: dpfast.plan(n=100, p=3, privacy=1.0, loss=dpfast.Objective("log-cosh",
        scale=1.0)).curve(n=[np.inf]),
        lambda: dpfast.plan(n=100, p=3, privacy=1.0, loss=dpfast.Objective("log-cosh",
        scale=1.0)).curve(mu=[-1.0]),
        lambda: dpfast.release.plan_release(10**6, (np.ones((3, 900)), np.ones(3)), privacy=PAIR,
        domain=dpfast.models.Ball(1.0), runs=1, loss=dpfast.Objective("log-cosh", scale=1.0)),
        lambda: dpfast.nonprivate_fit(X, Y, dpfast.Objective("log-cosh", scale=1.0), tolerance="a"),
        lambda: dpfast.nonprivate_fit(X, Y, dpfast.Objective("log-cosh", scale=1.0), max_steps=0.5),
        lambda: dpfast.effects.treatment_effect(
            X[:1], [1.0], Y[:1], privacy=1.0, standardize=False
        ),
    ],
)  # fmt: skip
@pytest.mark.one_in(2)
def test_what_was_endless_enormous_or_foreign_is_refused(call):
    with limits(), pytest.raises((dpfast.InvalidInput, dpfast.errors.InvalidBudget)):
        call()


def test_a_page_in_a_missing_folder_says_what_to_do(tmp_path):
    fit = dpfast.fit(X, Y, dpfast.Objective("log-cosh", scale=1.0), privacy=5.0)
    with pytest.raises(FileNotFoundError, match="Pass the path of a file in a folder that exists"):
        fit.report(tmp_path / "missing" / "fit.html")


@each("spread", [1e-320, 1e-300, 1e-250, 1e251, 1e280, 1e300, 1e307])
@each("name", ["DPHuberRegressor", "DPQuantileRegressor", "DPLinearRegression"])
def test_scores_are_paid_at_any_spread_that_is_bought(name, spread):
    """Their noise is in parts of a bound that was released after the charge."""
    pytest.importorskip("sklearn")
    from dpfast import estimators

    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = X @ [1.0, 0.5] + rng.normal(size=400)
    ledger, given = dpfast.Ledger(dpfast.GDP(100.0)), {"privacy": 5.0, "score_privacy": 1.0}
    model = getattr(estimators, name)(**given, ledger=ledger)
    found = estimators.cross_validate(model, X, y * spread, folds=2)
    assert len(ledger.entries) == 1 and np.isfinite(found.scores).all()
    with np.errstate(all="ignore"):
        assert np.isfinite(model.fit(X, y * spread).score(X, y * spread))
