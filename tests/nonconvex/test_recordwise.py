"""Claim K6: whatever a user's function does, a record moves the sums by its declared bounds."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import dpfast
from bench.figures.paper2.examples import one_hidden_layer, phase_retrieval
from dpfast.curator.nonconvex.gradients import GradientCurator
from dpfast.curator.nonconvex.recordwise import RecordGradients
from dpfast.data import as_records
from dpfast.models.nonconvex import PerRecordObjective

HOSTILE = [0.0, 1.0, 5e-324, 1e-200, 1e200, -1e308, np.inf, np.nan]
ANY = st.one_of(st.sampled_from(HOSTILE), st.floats())


def rows_of(function, X, y, **options):
    settings_ = {"dimension": 2, "lipschitz": 0.7, "smoothness": 2.0} | options
    objective = PerRecordObjective(function, **settings_)
    return RecordGradients(objective, as_records(X, y))


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(st.tuples(ANY, ANY, ANY), min_size=1, max_size=6),
    limit=st.sampled_from([1e-200, 1e-6, 0.7, 1e300]),
)
def test_k6_no_function_exceeds_its_declared_bounds(rows, limit):
    data = np.array(rows)
    X, y = data[:, :2], data[:, 2]

    def gradients(theta, X, y):
        return X * theta

    whole = rows_of(gradients, X, y)
    new, old = np.array([3.0, -1e10]), np.array([1.0, 1e150])
    for i in range(len(y)):
        single = rows_of(gradients, X[i : i + 1], y[i : i + 1])
        gradient = single.gradient(new, 1.0)
        assert np.linalg.norm(gradient) <= 0.7 * (1 + 1e-12)
        change = single.gradient_change(new, old, limit, 1.0)
        assert np.linalg.norm(change / limit) <= 1 + 1e-12
    assert np.isfinite(whole.gradient(new, 1.0)).all()


@pytest.mark.parametrize("vectorized", [False, True])
def test_k6_what_a_function_writes_on_its_objective_changes_no_bound(vectorized):
    """It may keep the objective it is part of, whose constants the records are held to."""

    def gradients(theta, X, y):
        objective.lipschitz = objective.smoothness = 1e9
        return 1e6 * X

    X, y = np.eye(2), np.zeros(2)
    objective = PerRecordObjective(
        gradients, dimension=2, lipschitz=0.7, smoothness=2.0, vectorized=vectorized
    )
    keeper = GradientCurator(as_records(X, y), objective, dpfast.Ledger(1e3), dpfast.SeededNoise(0))
    for _ in range(2):  # the first call writes
        assert np.linalg.norm(keeper._gradient(np.zeros(2))) <= 0.7
    assert objective.lipschitz == 1e9 and keeper.lipschitz == 0.7


def test_k6_what_the_function_raises_on_one_record_does_not_show():
    X = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0], [0.5, 0.5]])
    y = np.zeros(4)

    def moody(theta, X, y):
        if (X > 1.5).any():
            raise ValueError("a record I do not like")
        return 0.1 * X

    def shapeless(theta, X, y):
        return np.zeros(3) if (X > 1.5).any() else 0.1 * X

    def stringy(theta, X, y):
        return "no" if (X > 1.5).any() else 0.1 * X

    def quiet(theta, X, y):
        return np.where((X > 1.5).any(axis=1)[:, None], np.nan, 0.1 * X)

    expected = 0.1 * X[[0, 1, 3]].sum(axis=0)
    for function in (moody, shapeless, stringy, quiet):
        for options in ({}, {"vectorized": True}, {"vectorized": True, "block_rows": 3}):
            rows = rows_of(function, X, y, **options)
            np.testing.assert_allclose(rows.gradient(np.zeros(2), 1.0), expected, rtol=1e-15)
            assert not rows.gradient_change(np.ones(2), np.zeros(2), 1.0, 1.0).any()


def test_k6_rows_of_records_that_are_not_finite_are_zero():
    X = np.array([[np.nan, 1.0], [1.0, 1.0], [np.inf, 0.0], [1.0, 1.0]])
    y = np.array([0.0, np.nan, 0.0, 0.0])

    def constant(theta, X, y):
        return np.full((len(X), 2), 0.3)

    rows = rows_of(constant, X, y)
    np.testing.assert_allclose(rows.gradient(np.zeros(2), 1.0), [0.3, 0.3], rtol=1e-15)


def test_k6_sums_stay_within_their_depth():
    """C11 with the depth announced, against exact sums."""
    from fractions import Fraction

    rng = np.random.default_rng(0)
    n = 3000
    X, y = rng.normal(size=(n, 2)), np.zeros(n)

    def gradients(theta, X, y):
        return 0.1 * X

    for block in (1, 7, 4096):
        rows = rows_of(gradients, X, y, block_rows=block)
        assert rows.depth() == min(block, n) + -(-n // block) + 8
        contributions = np.array(
            [
                rows_of(gradients, X[i : i + 1], y[i : i + 1]).gradient(np.zeros(2), 1.0)
                for i in range(200)
            ]
        )
        part = rows_of(gradients, X[:200], y[:200], block_rows=block)
        computed = part.gradient(np.zeros(2), 1.0)
        exact = [sum(Fraction(v) for v in column) for column in contributions.T]
        gamma = Fraction(part.depth(), 2**53)
        for a, b, column in zip(computed, exact, contributions.T, strict=True):
            assert abs(Fraction(a) - b) <= 2 * gamma * sum(abs(Fraction(v)) for v in column)


def test_functions_cannot_change_the_records_or_warn():
    X, y = np.ones((5, 2)), np.ones(5)

    def vandal(theta, X, y):
        theta[:] = 7.0
        X[:] = np.nan
        y[:] = 7.0
        return np.ones((len(y), 2)) / 0.0 * 0.0 + np.array(1e308) * 10.0

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows_of(vandal, X, y).gradient(np.zeros(2), 1.0)
    assert (X == 1.0).all()
    assert (y == 1.0).all()


def test_mistakes_are_found_on_made_up_records_before_anything_is_spent():
    ledger = dpfast.Ledger(1.0)
    X, y = np.ones((10, 2)), np.ones(10)

    def wrong_shape(theta, X, y):
        return np.zeros((2, len(y)))

    def broken(theta, X, y):
        return undefined_name  # noqa: F821

    options = {"privacy": 1.0, "ledger": ledger}
    for function, error in ((wrong_shape, dpfast.InvalidInput), (broken, NameError)):
        objective = PerRecordObjective(function, dimension=3, lipschitz=1.0, smoothness=1.0)
        with pytest.raises(error):
            dpfast.minimize(X, y, objective, **options)
    for wrong in (
        {"lipschitz": 0.0},
        {"smoothness": np.nan},
        {"dimension": 0},
        {"block_rows": 1.5},
    ):
        good = {"dimension": 2, "lipschitz": 1.0, "smoothness": 1.0}
        with pytest.raises(dpfast.InvalidInput):
            PerRecordObjective(wrong_shape, **(good | wrong))
    assert not ledger.entries


def compiled_rows_of(function, X, y, **options):
    """As for many records: compiled, whatever their number."""
    pytest.importorskip("numba")
    rows = rows_of(function, X, y, **options)
    rows._compiled = compiled(function)
    assert rows._compiled is not None
    return rows


@cache
def compiled(function):
    objective = PerRecordObjective(function, dimension=2, lipschitz=1.0, smoothness=1.0)
    return objective.compiled(2)


def centred(theta, X, y):
    """Mixes the records: one of them moves the rows of all."""
    return np.tanh(X - X.mean(axis=0))


def unlike(theta, X, y):
    """Raises on one record, and answers for one record in another shape than for many."""
    if (X > 4.0).any():
        raise ValueError("patient 4711")
    return np.squeeze(np.tanh(X)) if len(X) > 1 else np.tanh(X)[:, 0]


def strict(theta, X, y):
    """Raises on a large entry, reaches outside of an array on a negative one, and writes."""
    if X[0, 0] > 4.0:
        raise ValueError("patient 4711")
    table = np.array([0.2, 0.3, 0.4])[:2]  # behind it is a number
    found = X * theta * table[2 if X[0, 0] < 0 else 0]
    theta[:] = 7.0
    X[:] = 7.0
    return found


def exiting(theta, X, y):
    if (X > 4.0).any():
        raise SystemExit("patient 4711")
    if (X < 0.0).any():
        raise MemoryError
    return 0.2 * X


@pytest.mark.parametrize(
    ("make", "function"),
    [(rows_of, function) for function in (centred, unlike, strict, exiting)]
    + [(compiled_rows_of, strict)],
)
def test_k6_by_default_a_record_moves_the_sums_by_its_bound_whatever_the_function(make, function):
    """One record of fifty replaced; vectorised, ``unlike`` moves the mean 25 times as far."""
    if function is unlike:
        with pytest.raises(dpfast.InvalidInput):  # found out before anything is spent
            PerRecordObjective(unlike, dimension=2, lipschitz=0.7, smoothness=2.0).rehearse(2)
    X, y = np.full((50, 2), 1.0), np.zeros(50)
    bound = 2.0 * 0.7 / 50
    answers = []
    for other in (1.0, 5.0, -3.0, np.nan, 1e300):
        neighbour = X.copy()
        neighbour[7] = other
        rows = make(function, neighbour, y)
        answers.append(rows.gradient(np.ones(2), 50.0))
        # a record on which the function raises contributes exactly zero
        if function in (strict, exiting) and other in (5.0, -3.0):
            alone = make(function, neighbour[7:8], y[:1])
            assert not alone.gradient(np.ones(2), 1.0).any()
            assert answers[-1] == pytest.approx(answers[0] * 49 / 50, rel=1e-14)
    for a in answers:
        for b in answers:
            assert np.linalg.norm(a - b) <= bound * (1 + 1e-12)


def raising_rows(theta, X, y):
    """Row by row, as vouched for, but single rows come in another shape."""
    if (X > 4.0).any():
        raise ValueError
    return np.squeeze(np.tanh(X))


@pytest.mark.parametrize("which", [[0], [7], [49], [0, 1, 30], list(range(0, 50, 2))])
def test_k6_vectorised_a_record_that_raises_leaves_the_others_alone(which):
    X, y = np.random.default_rng(0).uniform(size=(50, 2)), np.zeros(50)
    X[which] = 5.0
    kept = np.ones((50, 1))
    kept[which] = 0.0
    for block in (50, 16):
        rows = rows_of(raising_rows, X, y, vectorized=True, block_rows=block, lipschitz=9.0)
        expected = (kept * np.tanh(X)).sum(axis=0)
        np.testing.assert_allclose(rows.gradient(np.zeros(2), 1.0), expected, rtol=1e-14)


@pytest.mark.parametrize("vectorized", [False, True])
def test_k6_the_function_never_sees_what_is_not_finite(vectorized):
    """In its place it sees zeros, if anything: a NaN could reach every row through a maximum."""
    seen = []

    def nosy(theta, X, y):
        seen.append(np.isfinite(X).all() and np.isfinite(y).all())
        return np.full((len(y), 2), 0.3)

    X, y = np.ones((6, 2)), np.ones(6)
    X[1, 0], X[2, 1], y[4] = np.nan, -np.inf, np.inf
    found = rows_of(nosy, X, y, vectorized=vectorized).gradient(np.zeros(2), 1.0)
    assert all(seen)
    np.testing.assert_allclose(found, [0.9, 0.9], rtol=1e-15)


def slopes(theta, X, y):
    return (np.tanh(X @ theta) - y).reshape(-1, 1) * X


@pytest.mark.slow
def test_k6_compiled_rows_are_those_of_python_and_of_the_vectorised_call():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 2)), rng.normal(size=300)
    X[3] = np.nan
    X = np.asfortranarray(X)
    theta = np.array([0.3, -2.0])
    one = rows_of(slopes, X, y).gradient(theta, 1.0)
    for found in (
        compiled_rows_of(slopes, X, y).gradient(theta, 1.0),
        compiled_rows_of(slopes, X.astype(np.float64)[:, ::-1][:, ::-1], y).gradient(theta, 1.0),
        rows_of(slopes, X, y, vectorized=True).gradient(theta, 1.0),
    ):
        np.testing.assert_allclose(found, one, rtol=1e-12)


def test_k6_compiled_functions_cannot_change_what_others_see():
    X, y = np.full((5, 2), 0.1), np.zeros(5)
    rows = compiled_rows_of(strict, X, y)  # compiled once, for what it raises and what it writes
    np.testing.assert_allclose(rows.gradient(np.ones(2), 1.0), [0.1, 0.1], rtol=1e-14)
    np.testing.assert_allclose(rows.gradient(np.ones(2), 1.0), [0.1, 0.1], rtol=1e-14)
    assert (X == 0.1).all()


SCALE = (1.0,)


@pytest.mark.slow
def test_what_numba_cannot_compile_or_compiles_differently_is_called_from_python(monkeypatch):
    from dpfast.models import nonconvex

    pytest.importorskip("numba")

    def opens_a_file(theta, X, y):
        with open("/dev/null") as file:
            return X * len(file.read())

    class Gradients:
        def __call__(self, theta, X, y):
            return X

    def scaled(theta, X, y):
        return X * SCALE[0]

    for function in (opens_a_file, Gradients()):
        objective = PerRecordObjective(function, dimension=2, lipschitz=1.0, smoothness=1.0)
        assert objective.compiled(2) is None
    objective = PerRecordObjective(scaled, dimension=2, lipschitz=1.0, smoothness=1.0)
    loop = nonconvex.compiled_gradients(scaled)
    assert loop is not None
    monkeypatch.setitem(globals(), "SCALE", (2.0,))
    monkeypatch.setattr(nonconvex, "compiled_gradients", lambda function: loop)
    assert objective.compiled(2) is None  # it multiplies by 1, as when it was compiled


@pytest.mark.slow  # Numba takes its time
def test_many_records_are_compiled_and_few_are_not(monkeypatch):
    from dpfast.curator.nonconvex import recordwise

    pytest.importorskip("numba")
    monkeypatch.setattr(recordwise, "MIN_COMPILED_RECORDS", 6)
    X, y = np.ones((6, 2)), np.zeros(6)
    assert rows_of(slopes, X[:5], y[:5])._compiled is None
    assert rows_of(slopes, X, y, vectorized=True)._compiled is None
    assert rows_of(slopes, X, y)._compiled is not None


@pytest.mark.serial
def test_warnings_of_the_function_are_silent_and_those_of_others_are_not():
    """In this thread only: a filter of all threads would swallow what others warn about."""
    import threading

    entered, told = threading.Event(), threading.Event()

    def chatty(theta, X, y):
        entered.set()
        told.wait(120.0)
        warnings.warn(f"patient {X[0, 0]}", stacklevel=1)
        np.mean(np.empty(0))
        return 0.1 * X / np.zeros(1)

    X, y = np.ones((2, 2)), np.ones(2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        worker = threading.Thread(target=lambda: rows_of(chatty, X, y).gradient(np.zeros(2), 1.0))
        worker.start()
        assert entered.wait(120.0)
        warnings.warn("of another thread", stacklevel=1)
        told.set()
        worker.join()
        warnings.warn("afterwards", stacklevel=1)
    assert [str(one.message) for one in caught] == ["of another thread", "afterwards"]


def test_the_guarantee_names_what_the_caller_vouches_for():
    import json

    X, y = np.random.default_rng(0).normal(size=(200, 2)), np.zeros(200)

    def minimise(objective):
        few = dpfast.optimize.Adaptive(max_steps=3)
        noise = dpfast.SeededNoise(0)
        return dpfast.minimize(X, y, objective, privacy=1.0, method=few, noise=noise)

    def objective(**options):
        return PerRecordObjective(slopes, dimension=2, lipschitz=1.0, smoothness=1.0, **options)

    result = minimise(objective(vectorized=True))
    words = "row i of what slopes returns, or that it raises, depends on row i of the data only"
    memory = "slopes keeps nothing from one call to the next"
    assert result.privacy.vouched == (words, memory)
    assert json.loads(json.dumps(result.to_dict()))["privacy"]["vouched"] == [words, memory]
    for text in (str(result.privacy), result.privacy.explain(), repr(result.privacy)):
        assert words in text
    assert words in " ".join(result.summary().split())
    assert "if the caller is right" in repr(result)
    assert repr(objective(vectorized=True)).endswith("smoothness=1, vectorized=True)")
    result = minimise(objective())
    assert result.privacy.vouched == (memory,)
    assert memory in " ".join(result.summary().split())
    assert repr(objective()).endswith("smoothness=1)")
    with pytest.raises(dpfast.InvalidInput, match="vectorized"):
        objective(vectorized="no")


@pytest.mark.parametrize(
    "objective",
    [
        phase_retrieval(3, radius=2.0),
        one_hidden_layer(3, 2, radius=2.0, lipschitz=3.0, smoothness=5.0),
    ],
    ids=lambda objective: objective.name,
)
def test_gradients_of_the_examples_are_derivatives(objective):
    rng = np.random.default_rng(1)
    X, y = 2.0 * rng.normal(size=(30, 3)), rng.normal(size=30)
    X[0] = 1e308
    room = GradientCurator(as_records(X, y), objective, dpfast.Ledger(1.0), dpfast.SeededNoise(0))
    theta = 0.3 * rng.normal(size=objective.dimension)
    gradient = room.nonprivate_gradient(theta)
    h = 1e-6
    for j in range(objective.dimension):
        e = h * np.eye(objective.dimension)[j]
        slope = (room.nonprivate_loss(theta + e) - room.nonprivate_loss(theta - e)) / (2 * h)
        assert slope == pytest.approx(gradient[j], abs=2e-8)


def test_constants_of_phase_retrieval_hold_on_the_unit_ball():
    objective = phase_retrieval(3, radius=2.0)
    rng = np.random.default_rng(0)
    X, y = 3.0 * rng.normal(size=(400, 3)), 3.0 * rng.normal(size=400)
    for _ in range(50):
        a, b = rng.normal(size=(2, 3))
        a, b = a / max(1.0, np.linalg.norm(a)), b / max(1.0, np.linalg.norm(b))
        first, second = objective.gradients(a, X, y), objective.gradients(b, X, y)
        assert np.linalg.norm(first, axis=1).max() <= objective.lipschitz
        change = np.linalg.norm(first - second, axis=1).max()
        assert change <= objective.smoothness * np.linalg.norm(a - b)
