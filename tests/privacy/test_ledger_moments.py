"""A ledger in a file, interrupted or forked at every moment of a charge (claim C10)."""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
import threading
import time
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import pytest

import dpfast.privacy
from dpfast.errors import BudgetExceeded, LedgerClosed
from dpfast.privacy import ZCDP, Ledger
from dpfast.privacy.ledger.process import HERE

fcntl = pytest.importorskip("fcntl")

ROOM = str(Path(dpfast.privacy.__file__).parent)
HALF, QUARTER = ZCDP(0.5), ZCDP(0.25)
PATIENCE = 120  # seconds until something hangs: a busy machine takes its time

pytestmark = [
    pytest.mark.serial,
    pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="open files cannot be listed"),
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),  # it closes itself
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


class InterruptAt:
    """A trace function that interrupts the room at its n-th line, instruction, call or return."""

    def __init__(self, moment):
        self.left = moment

    def __call__(self, frame, event, argument):
        if not frame.f_code.co_filename.startswith(ROOM):
            return None
        frame.f_trace_opcodes = True
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return self


def interrupted(action, moment):
    """Whether the moment came; what the action returns is dropped.

    CPython ends no handler of an exception that a tracer interrupts at its last instructions, where
    no signal falls.  A generator keeps what is then left, so no later exception has it as context.
    """
    return next(_interrupted(action, moment))


def _interrupted(action, moment):
    tracer, before = InterruptAt(moment), sys.gettrace()
    try:
        sys.settrace(tracer)
        action()
    except KeyboardInterrupt:
        stopped = True
    else:
        stopped = False
    finally:
        sys.settrace(before)
    yield stopped


def open_files():
    gc.collect()  # what an earlier test left behind closes at a moment of its own
    return len(os.listdir("/dev/fd"))


def assert_nothing_is_held(path):
    """No lock of the file, and none of the process: another thread gets both."""
    with open(path, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    thread = threading.Thread(target=lambda: Ledger.open(path).entries, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive()


@contextmanager
def fail_after(seconds):
    """A wait that never ends fails instead."""

    def give_up(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def spend_the_rest(ledger):
    """What the handle grants until it refuses, exactly."""
    granted = Fraction(0)
    while True:
        try:
            ledger.charge(QUARTER, "rest")
        except BudgetExceeded:
            return granted
        granted += Fraction(1, 4)


ACTIONS = {
    "charge": lambda ledger: ledger.charge(HALF, "x"),
    "spent": lambda ledger: ledger.spent,
    "entries": lambda ledger: ledger.entries,
    "refused charge": lambda ledger: ledger.charge(ZCDP(0.8), "x"),
}


def test_a_charge_swallows_no_exception(tmp_path):
    """As of a lock released twice: an interrupt could leave it as the context of later ones."""
    ledger, raised = Ledger.open(tmp_path / "ledger", ZCDP(1.0)), []

    def watch(frame, event, argument):
        if event == "exception":
            raised.append((frame.f_code.co_name, argument[0]))
        return watch if frame.f_code.co_filename.startswith(ROOM) else None

    before = sys.gettrace()
    try:
        sys.settrace(watch)
        for name in ("charge", "spent", "entries"):
            ACTIONS[name](ledger)
    finally:
        sys.settrace(before)
    assert not raised


@pytest.mark.serial("last")
@pytest.mark.parametrize("name", ACTIONS)
def test_an_interrupt_at_any_moment_undercounts_nothing_and_holds_nothing(
    tmp_path, monkeypatch, name
):
    """One in 29 instructions, lines, calls or returns; the next test takes them all."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    assert interrupt_everywhere(tmp_path, ACTIONS[name], range(1, 10_000, 29)) > 22


@pytest.mark.slow
@pytest.mark.parametrize("name", ACTIONS)
def test_an_interrupt_at_every_moment(tmp_path, monkeypatch, name):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    assert interrupt_everywhere(tmp_path, ACTIONS[name], range(1, 10_000)) > 300


@pytest.fixture(scope="module", autouse=True)
def _what_other_tests_made_is_not_collected_again():
    """A collection of all that a whole run has made takes half a second."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def interrupt_everywhere(folder, action, moments):
    """How many moments there were.  Before each, another handle spent a quarter."""
    for count, moment in enumerate(moments):
        path = folder / f"{moment}"
        ledger = Ledger.open(path, ZCDP(1.0))
        Ledger.open(path).charge(QUARTER, "other")
        files = open_files()
        try:
            stopped = interrupted(lambda ledger=ledger: action(ledger), moment)
        except BudgetExceeded:
            stopped = False
        assert open_files() == files
        with fail_after(PATIENCE):
            fresh = Ledger.open(path)
            assert ledger.entries == fresh.entries
            assert ledger.spent == fresh.spent
            recorded = sum(Fraction(entry.charged.rho) for entry in fresh.entries)
            assert recorded in (Fraction(1, 4), Fraction(3, 4))
            assert stopped or action is not ACTIONS["charge"] or recorded == Fraction(3, 4)
            assert recorded + spend_the_rest(ledger) == 1
            assert ledger.remaining.rho == Ledger.open(path).remaining.rho == 0.0
        assert_nothing_is_held(path)
        path.unlink()
        if not stopped:
            return count
    raise AssertionError("no end")


@pytest.mark.serial("last")
def test_an_interrupt_while_a_ledger_is_created_leaves_it_creatable(tmp_path, monkeypatch):
    """Nothing, an empty file or the whole header."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    for moment in range(1, 10_000, 17):
        path = tmp_path / f"{moment}"
        stopped = interrupted(lambda path=path: Ledger.open(path, ZCDP(1.0)), moment)
        with fail_after(PATIENCE):
            Ledger.open(path, ZCDP(1.0)).charge(HALF, "x")
        assert_nothing_is_held(path)
        if not stopped:
            assert moment > 100
            return
    raise AssertionError("no end")


def test_signals_at_any_moment_undercount_nothing_and_hold_nothing(tmp_path):
    """As a user presses Ctrl-C: 200 real signals, at random times of a charge."""
    path = tmp_path / "ledger"
    ledger = Ledger.open(path, ZCDP(1000.0))
    rng, granted, stopped, armed = random.Random(0), 0, 0, False

    def interrupt(*_):  # once: a second one would meet the handler of the first
        nonlocal armed
        if armed:
            armed = False
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    files = open_files()
    gc.disable()  # an interrupt in a callback of the collector would be lost
    try:
        for i in range(200):
            try:
                armed = True
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, 1e-3))
                ledger.charge(ZCDP(1.0), f"{i}")
                granted += 1
                armed = False
            except KeyboardInterrupt:
                stopped += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
        gc.enable()
    assert open_files() == files
    with fail_after(PATIENCE):
        fresh = Ledger.open(path)
        assert ledger.entries == fresh.entries
        assert granted <= len(fresh.entries) <= granted + stopped
    assert_nothing_is_held(path)


# ---- forks --------------------------------------------------------------------------------------


@pytest.fixture
def busy(tmp_path, monkeypatch):
    """A ledger that another thread is charging nearly all the time, and how often it did."""
    after = Ledger._after

    def slow(self, *arguments):
        result = after(self, *arguments)
        time.sleep(5e-4)
        return result

    monkeypatch.setattr(Ledger, "_after", slow)
    ledger = Ledger.open(tmp_path / "ledger", ZCDP(1e6))
    stop, count = threading.Event(), []

    def spend():
        while not stop.is_set():
            ledger.charge(ZCDP(1.0), "thread")
            count.append(1)
            time.sleep(1e-4)

    thread = threading.Thread(target=spend, daemon=True)
    thread.start()
    yield ledger, count
    stop.set()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def wait_for(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("own_handle", [False, True])
def test_forks_while_another_thread_charges_do_not_hang(busy, own_handle):
    """20 children charge and look; nothing is lost and nothing is counted twice."""
    ledger, count = busy
    for _ in range(20):
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(PATIENCE)  # ends a child that waits
            code = 1
            try:
                own = Ledger.open(ledger._path) if own_handle else ledger
                own.charge(ZCDP(1.0), "child")
                code = 0 if own.spent.rho >= 1.0 else 2
            finally:
                os._exit(code)
        assert wait_for(child) == 0
    returned = len(count)  # before the look at the ledger: the thread goes on meanwhile
    labels = [entry.label for entry in ledger.entries]
    assert labels.count("child") == 20
    assert labels.count("thread") >= returned


def test_a_sleeping_child_blocks_nobody(busy):
    """It must not hold the lock of the charge during which it was forked."""
    ledger, _ = busy
    for _ in range(5):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(writing)
            os.read(reading, 1)  # until the parent is done
            os._exit(0)
        os.close(reading)
        try:
            with fail_after(PATIENCE):
                ledger.charge(ZCDP(1.0), "parent")
                assert Ledger.open(ledger._path).spent.rho >= 1.0
        finally:
            os.close(writing)
            assert wait_for(child) == 0


# ---- signal handlers that use a ledger, or fork, in the middle of a charge -----------------------


class CallAt(InterruptAt):
    """Calls something at the n-th moment, as a signal handler would be."""

    def __init__(self, moment, call):
        super().__init__(moment)
        self.call = call

    def __call__(self, frame, event, argument):
        try:
            return super().__call__(frame, event, argument)
        except KeyboardInterrupt:
            sys.settrace(None)
            self.call()
            return None


def charge_with(ledger, moment, call):
    """Charge a half; whether the moment came."""
    tracer, before = CallAt(moment, call), sys.gettrace()
    try:
        sys.settrace(tracer)
        ledger.charge(HALF, "x")
    finally:
        sys.settrace(before)
    return tracer.left <= 0


def test_a_handler_in_the_middle_of_a_charge_does_not_hang(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    refused = 0
    for moment in range(1, 10_000, 7):
        path = tmp_path / f"{moment}"
        ledger, answers = Ledger.open(path, ZCDP(1.0)), []

        def handler(ledger=ledger, answers=answers):
            answers.append(ledger.spent.rho)
            try:
                ledger.charge(QUARTER, "handler")
            except LedgerClosed:
                answers.append("refused")

        with fail_after(PATIENCE):
            came = charge_with(ledger, moment, handler)
            refused += "refused" in answers
            spent = 0.5 + 0.25 * (came and "refused" not in answers)
            assert ledger.spent.rho == Ledger.open(path).spent.rho == spent
        assert_nothing_is_held(path)
        if not came:
            assert refused > 20
            return
    raise AssertionError("no end")


def test_a_handler_in_the_middle_of_a_charge_in_memory_is_refused_and_does_not_hang():
    refused = 0
    for moment in range(1, 1000):
        ledger, answers = Ledger(ZCDP(1.0)), []

        def handler(ledger=ledger, answers=answers):
            try:
                ledger.charge(QUARTER, "handler")
                answers.append("granted")
            except LedgerClosed:
                pass

        with fail_after(10):
            came = charge_with(ledger, moment, handler)
        refused += came and not answers
        assert ledger.spent.rho == 0.5 + 0.25 * len(answers)
        assert len(ledger.entries) == 1 + len(answers)
        with fail_after(10):
            ledger.charge(QUARTER, "afterwards")
        if not came:
            assert refused > 20
            return
    raise AssertionError("no end")


def test_a_lock_that_another_process_holds_delays_nothing_else(tmp_path):
    """Neither a fork nor another ledger waits; the charge goes on once the lock is given back."""
    held, other = (Ledger.open(tmp_path / name, ZCDP(1.0)) for name in ("held", "other"))
    begun = threading.Event()

    def wait():
        begun.set()
        held.charge(HALF, "waits")

    with open(held._path, "rb") as file:  # another description of it, as another process has
        fcntl.flock(file, fcntl.LOCK_EX)
        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        begun.wait(10)
        with fail_after(10):
            time.sleep(0.02)
            other.charge(HALF, "does not wait")
            child = os.fork()
            if child == 0:
                os._exit(0)
            assert wait_for(child) == 0
            assert thread.is_alive()
    thread.join(10)
    assert not thread.is_alive()
    assert held.spent == other.spent == HALF


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_a_process_number_does_not_stand_for_a_process(tmp_path, monkeypatch, kind):
    """A child in a process namespace of its own may have its parent's number."""
    from dpfast.privacy.ledger.paid import ChargedAnswers

    monkeypatch.setattr(os, "getpid", lambda: 1)
    ledger = Ledger.open(tmp_path / "ledger", ZCDP(1.0)) if kind == "file" else Ledger(ZCDP(1.0))
    paid, children = ChargedAnswers(["mean"], "asked."), []

    def refused(action):
        try:
            action()
        except LedgerClosed:
            return True
        return False

    came = False
    if kind == "memory":
        children.append(os.fork())
        if children == [0]:
            both = refused(lambda: ledger.charge(HALF, "x")), refused(lambda: paid._take("mean"))
            os._exit(0 if all(both) else 1)
    else:

        def charge():
            nonlocal came
            came = charge_with(ledger, 400, lambda: children.append(os.fork()))

        closed = refused(charge)
        if children == [0]:
            os._exit(0 if closed else 1)
        assert came and not closed
    assert wait_for(children[0]) == 0


def test_a_fork_that_python_was_not_told_about_is_another_process(monkeypatch):
    ledger = Ledger(ZCDP(1.0))
    number = os.getpid()
    monkeypatch.setattr(HERE, "token", HERE.token)  # put back at the end
    monkeypatch.setattr(HERE, "number", number)
    monkeypatch.setattr(os, "getpid", lambda: number + 1)
    for _ in range(2):
        with pytest.raises(LedgerClosed):
            ledger.charge(HALF, "x")


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_a_fork_in_the_middle_of_a_charge_grants_it_once(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    step, late = (97, 0) if kind == "file" else (19, 0)
    for moment in range(1, 10_000, step):
        path = tmp_path / f"{moment}"
        ledger = Ledger.open(path, ZCDP(1.0)) if kind == "file" else Ledger(ZCDP(1.0))
        children = []
        with fail_after(PATIENCE):
            try:
                came = charge_with(ledger, moment, lambda c=children: c.append(os.fork()))
            except LedgerClosed:
                assert children == [0]
                os._exit(0)
            except BaseException:
                if children == [0]:
                    os._exit(3)
                raise
            if children == [0]:
                os._exit(1)  # granted
            granted = wait_for(children[0]) if came else 0
            assert granted in (0, 1)
            spent = ledger.spent.rho
            if spent == 0.5 and granted:  # after the last look at the process: charge() is over
                late += 1
            else:
                assert not came or not late
                assert spent >= 0.5 * (1 + granted)
            if kind == "file":
                assert Ledger.open(path).spent.rho == spent
                assert_nothing_is_held(path)
        if not came:
            assert late <= 3
            return
    raise AssertionError("no end")
