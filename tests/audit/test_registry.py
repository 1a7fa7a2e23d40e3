"""No public callable that takes records escapes the audit; all that are registered pass it."""

from contextlib import suppress

import numpy as np
import pytest

import dpfast
from dpfast.audit import neighbours, replay
from dpfast.audit.transcript import Chosen, perform
from dpfast.curator.preconditioned import PreconditionedQueries
from tests.audit import calls, registry
from tests.audit.remembered import runs_shared
from tests.loops import each

CALLABLES = registry.callables()
EXAMPLES = calls.examples()
REGISTERED = {example.name for example in EXAMPLES}
RNG = np.random.default_rng(3)
N = 12
X = RNG.normal(size=(N, 2))
Y = X @ [1.0, -0.5] + RNG.normal(size=N)
PAIRS = {False: neighbours(X, Y), True: neighbours(X, (Y > 0).astype(float))}
LONG = {False: neighbours(X, Y, length=1.1), True: neighbours(X, (Y > 0).astype(float), length=1.1)}

#: Enough to show any of the leaks planted in test_replay; `slow` tries all kinds on all examples.
QUICK = ("antipodal", "orthogonal", "huge", "nan", "undeclared label")


def dealt(k, count):
    """Kinds for call k of a function: one or two in turn, where its calls are enough for all."""
    if count >= len(QUICK):
        return (QUICK[k % 5],)
    return QUICK if count < 3 else (QUICK[2 * k % 5], QUICK[(2 * k + 1) % 5])


@each("name", CALLABLES)
def test_every_callable_is_registered_or_exempt(name):
    reason = registry.reason_for_exemption(name)
    registered = name in REGISTERED
    assert registered or reason, (
        f"{name} may see records: add calls of it to tests/audit/calls, so that replay audits "
        "it, or a line to EXEMPT in tests/audit/registry.py that says why that would show nothing"
    )


def test_what_is_registered_exists_and_is_not_exempt():
    for name in REGISTERED:
        assert name in CALLABLES, f"{name} does not exist (any more)"
        assert registry.reason_for_exemption(name) is None


def test_exemptions_name_things_that_exist_and_have_reasons():
    import importlib

    for name, reason in registry.EXEMPT.items():
        assert len(reason) > 5
        thing, rest = None, name.split(".")
        for end in range(len(rest), 0, -1):
            try:
                thing = importlib.import_module(".".join(rest[:end]))
            except ModuleNotFoundError:
                continue
            for attribute in rest[end:]:
                thing = getattr(thing, attribute)
            break
        assert thing is not None, name


def test_the_enumeration_sees_what_it_should():
    assert "dpfast.regression.fit.fit" in CALLABLES
    assert "dpfast.regression.nonprivate.nonprivate_fit" in CALLABLES
    assert "dpfast.curator.curator.Curator.joint" in CALLABLES
    assert "dpfast.data.source.as_records" in CALLABLES
    assert "dpfast.kernels.records.RecordKernel.sums" in CALLABLES
    exported = {getattr(dpfast, name) for name in dpfast.__all__ if name != "__version__"}
    assert dpfast.fit in exported


def test_a_new_function_would_be_seen(monkeypatch):
    def publish(X, budget):
        """Nothing."""

    class Room:
        def __init__(self, records):
            """Nothing."""

        def ask(self, theta):
            """Nothing."""

        @property
        def mean(self):
            """Nothing."""

    for thing in (publish, Room):
        thing.__module__ = "dpfast.regression.fit"
        monkeypatch.setattr(dpfast.regression.fit, thing.__name__, thing, raising=False)
    new = set(registry.callables()) - set(CALLABLES)
    home = "dpfast.regression.fit"
    assert new == {f"{home}.publish"} | {f"{home}.Room.{m}" for m in ("__init__", "ask", "mean")}
    assert all(registry.reason_for_exemption(name) is None for name in new)


def test_names_that_say_so_are_exempt():
    assert "says so" in registry.reason_for_exemption("dpfast.x.nonprivate_anything")
    assert registry.reason_for_exemption("dpfast.x.anything") is None


def audit(example, pairs):
    with runs_shared():
        for kind, pair in pairs.items():
            report = replay(example.call, *pair, budget=example.budget)
            assert report.passed, f"{example.name} ({example.label}), {kind}: {report}"


#: Of a function with so many calls one in five is quick, of either parity.
MANY = 40

#: Up to eight calls of one function with their kinds of neighbours, audited in one test.
PARTS = {
    f"{name}: {k}": part
    for name in sorted(REGISTERED)
    for of_all in [[example for example in EXAMPLES if example.name == name]]
    for of_name in [[e for k, e in enumerate(of_all) if len(of_all) < MANY or k % 5 == 0]]
    for with_kinds in [[(e, dealt(k, len(of_name))) for k, e in enumerate(of_name)]]
    for k, part in enumerate(with_kinds[i : i + 8] for i in range(0, len(of_name), 8))
}


def test_every_function_meets_every_kind():
    met = {name: set() for name in REGISTERED}
    for part in PARTS.values():
        for example, kinds in part:
            met[example.name].update(kinds)
    assert all(kinds == set(QUICK) for kinds in met.values())


@pytest.mark.parametrize("examples", PARTS.values(), ids=PARTS)
def test_registered_calls_leak_nothing(examples):
    @each(("example", "kinds"), examples, ids=lambda pair: f"{pair[0].name}: {pair[0].label}")
    def leaks_nothing(example, kinds):
        audit(example, {kind: PAIRS[example.binary][kind] for kind in kinds})

    leaks_nothing()


@pytest.mark.parametrize("size", [1e-310, pytest.param(1.7e308, marks=pytest.mark.slow)])
def test_registered_calls_raise_nothing_where_numpy_is_told_to_raise(size):
    """Attack: an exception after the charge, of sums that underflow or overflow."""

    @each("example", EXAMPLES, ids=lambda example: f"{example.name}: {example.label}")
    def raises_nothing(example):
        y = (Y > 0).astype(float) if example.binary else np.sign(Y) * size
        told = dpfast.errors.DpfastError, dpfast.errors.DpfastWarning  # of public numbers
        with np.errstate(all="raise"), suppress(*told):
            example.call((np.sign(X) * size, y))

    raises_nothing()


SAMPLES = list(calls.samples())


@pytest.mark.parametrize("sized", SAMPLES, ids=lambda sized: sized.example.label)
def test_registered_calls_leak_nothing_where_a_secret_sample_is_drawn(sized, monkeypatch):
    """At their own size, of a record that is in every sample: of others nothing would move."""
    X, y = sized.table()
    example, asked, ask = sized.example, set(), PreconditionedQueries._release_means

    def noted(rows, *arguments):
        found = ask(rows, *arguments)
        asked.add(calls.seen(rows))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(PreconditionedQueries, "_release_means", noted)
        events = perform(example.call, (X, y), None).events
    drawn = [event.value for event in events if isinstance(event, Chosen)]
    assert len(drawn) == sized.draws and sized.shows(asked)
    slots = np.array([words.view(np.uint8)[: sized.n] for words in drawn if len(words) < sized.n])
    inside = int(slots.max(axis=0).argmin())
    with runs_shared():
        for kind in ("antipodal", "orthogonal", "zero"):
            pair = neighbours(X, y, kind, index=inside, length=1e3)
            report = replay(example.call, *pair, budget=example.budget)
            assert report.passed, f"{kind}: {report}"
            # of units, which are bought of the sample
            assert report.worst["counts"].ratio > 0.0, kind
            assert kind != "zero" or report.worst_joint > 0.4


def test_what_is_drawn_past_the_observer_is_found(monkeypatch):
    """Attack: the sample of every run is another one."""
    sized = SAMPLES[0]
    own = dpfast.SeededNoise(0)
    monkeypatch.setattr("dpfast.curator.blocks.source_of_noise", lambda source: own)
    report = replay(sized.example.call, *neighbours(*sized.table(), "huge"))
    assert "a sample or randomness of its own" in report.leaks[0]
    assert "exact value of event" in report.leaks[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(REGISTERED))
def test_registered_calls_leak_nothing_for_any_kind(name):
    @each("example", [e for e in EXAMPLES if e.name == name], ids=lambda e: e.label)
    def leaks_nothing(example):
        audit(example, PAIRS[example.binary])
        audit(example, LONG[example.binary])

    leaks_nothing()
