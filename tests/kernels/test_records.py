"""The compiled record kernels against their NumPy twins, and what the proofs need of them."""

import functools
import itertools
import os
import threading

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpfast.kernels import records
from tests.loops import each
from tests.twins import losses as twins, records as reference
from tests.twins.records import GRADIENT, HESSIAN, MAJORIZER, MEAT

HUBER, LOG_COSH, PSEUDO_HUBER, LOGISTIC, SMOOTHED_HUBER, OSTROVSKII_BACH, SMOOTH_ABSOLUTE = range(7)
BOUNDED, MALLOWS, CLIP, SCHWEPPE, MALLOWS_LINEAR = range(5)
LOSSES = [kind.code for kind in twins.CLASSES.values() if kind.lowest_slope == 0.0]
WEIGHTS = list(range(5))
# (loss, weighting) that exist
PAIRS = [(loss, w) for loss in LOSSES for w in WEIGHTS if (loss, w) != (LOGISTIC, SCHWEPPE)]
WANTS = [1, 2, 3, 4, 5, 6, 7, 34, 35, 39]


pytestmark = pytest.mark.one_source


@pytest.fixture(params=records._available_isas(), autouse=True)
def isa(request):
    records._set_isa(request.param)
    yield request.param
    records._set_isa("")


def model(loss, weighting, intercept, radius=1.7, c=1.345, scale=1.3):
    return {
        "loss": loss,
        **twins.typical(loss, c),
        "scale": 1.0 if loss == LOGISTIC else scale,
        "weighting": weighting,
        "radius": radius,
        "intercept": intercept,
    }


def bounds(m):
    """Declared bounds on one record's gradient, Hessian and meat."""
    loss = twins.loss_of(m["loss"], m["c"], m["h"])
    score = m["radius"] if m["weighting"] == CLIP else loss.psi_bound * m["radius"]
    return score, loss.psi_prime_bound * m["radius"] ** 2 / m["scale"], score**2


def draw(n, q, loss, seed=0):
    rng = np.random.default_rng([seed, n, q])
    X = rng.normal(size=(n, q)) * rng.choice([0.3, 1.0, 4.0], size=(n, 1))
    y = (rng.random(n) < 0.5).astype(float) if loss == LOGISTIC else 3.0 * rng.normal(size=n)
    return X, y


def wants(weighting):
    return [want for want in WANTS if weighting not in (CLIP, MALLOWS_LINEAR) or not want & 2]


@functools.cache
def comparison(loss, weighting, intercept, n, q, majorize):
    """A model, data, parameter, the twin's sums, and those of its absolute contributions.

    The twin's sums do not depend on which others are wanted, nor on the kernel's instruction set:
    they are computed once for all of these.
    """
    m = model(loss, weighting, intercept)
    X, y = draw(n, q, loss)
    theta = np.random.default_rng(q).normal(size=q + intercept) / q**0.5
    curvature = 0 if weighting in (CLIP, MALLOWS_LINEAR) else MAJORIZER if majorize else HESSIAN
    want = GRADIENT | curvature | MEAT
    twin, absolute = (
        reference.record_sums(X, y, theta, want=want, divisor=float(n), absolute=sizes, **m)
        for sizes in (False, True)
    )
    return m, X, y, theta, twin, absolute


def wanted(parts, want):
    """Those of the three sums that are asked for."""
    return [part if want & bit else None for part, bit in zip(parts, (1, 2, 4), strict=True)]


def assert_agree(m, X, y, theta, twin, absolute, want):
    """To 1e-12 of the mean absolute contribution, plus the rounding of the linear predictor.

    Two correct ways to round x'theta differ by up to 2 (p + 2) u |x|'|theta|, which moves psi and
    psi' by at most that over the scale (their derivatives are at most 1, and 2/c for psi').  At
    a jump of Huber's psi' there is no such bound; the data avoid it.
    """
    kernel = records.RecordKernel(**m)
    n = len(y)
    ours = kernel.sums(X, y, theta, want, float(n), 1)
    twin = wanted(twin, want)
    q = X.shape[1]
    with np.errstate(all="ignore"):
        size = np.where(np.isfinite(X).all(axis=1), np.abs(X) @ np.abs(theta[-q:] if q else []), 0)
        size = np.nan_to_num(size + np.abs(theta[0]), posinf=0.0)
    predictor = 2.0 * (q + 3) * 2.0**-53 * float(size.max(initial=0.0))
    for ours_part, twin_part, bound, k in zip(ours, twin, bounds(m), range(3), strict=True):
        assert (ours_part is None) == (twin_part is None)
        if twin_part is None:
            continue
        allowed = 1e-12 * absolute[k] + 8.0 * bound * predictor / min(1.0, m["scale"]) + 1e-300
        assert (np.abs(ours_part - twin_part) <= allowed).all()
        if k:
            np.testing.assert_array_equal(ours_part, ours_part.T)


@each(("loss", "weighting"), PAIRS)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.values
def test_agrees_with_the_twin(loss, weighting, intercept):
    for (n, q), want in itertools.product(
        [(1, 1), (2, 3), (37, 5), (129, 11), (70, 24), (40, 57)], wants(weighting)
    ):
        majorize = want & MAJORIZER == MAJORIZER
        assert_agree(*comparison(loss, weighting, intercept, n, q, majorize), want)


HOSTILE = st.sampled_from(
    [0.0, -0.0, 1.0, -2.5, 5e-324, -1e-310, 1e-200, 1e150, -1e160, 1e200, 1e308, np.inf]
)


# every float64 there is, and the worst ones often
ANY = st.one_of(HOSTILE, st.floats())


@settings(max_examples=30, deadline=None)
@given(
    rows=st.lists(st.tuples(ANY, ANY, ANY), min_size=1, max_size=12),
    theta=st.lists(st.sampled_from([0.0, 1.0, -0.5, 1e-3, 1e10]), min_size=3, max_size=3),
    pair=st.sampled_from(PAIRS),
    intercept=st.booleans(),
    radius=st.sampled_from([1.5, 40.0]),
)
def test_hostile_records_keep_their_bounds(rows, theta, pair, intercept, radius):
    loss, weighting = pair
    m = model(loss, weighting, intercept, radius)
    kernel = records.RecordKernel(**m)
    data = np.array(rows)
    X, y = data[:, :2], data[:, 2]
    theta = np.array(theta[: 2 + intercept])
    want = 5 if weighting in (CLIP, MALLOWS_LINEAR) else 7
    for i in range(len(y)):
        single = kernel.sums(X[i : i + 1], y[i : i + 1], theta, want, 1.0)
        usable = np.isfinite(X[i]).all() and np.isfinite(y[i])
        usable = usable and (loss != LOGISTIC or y[i] in (0.0, 1.0))
        for part, bound in zip(single, bounds(m), strict=True):
            if part is not None:
                assert np.linalg.norm(part) <= bound * (1 + 1e-12)
                assert usable or not part.any()
    # together with ordinary neighbours: a bad record must not spoil its block
    X_clean, y_clean = draw(20, 2, loss)
    whole = kernel.sums(np.vstack([X, X_clean]), np.r_[y, y_clean], theta, want, 1.0)
    apart = kernel.sums(X, y, theta, want, 1.0), kernel.sums(X_clean, y_clean, theta, want, 1.0)
    for part, a, b, bound in zip(whole, *apart, bounds(m), strict=True):
        if part is not None:
            np.testing.assert_allclose(part, a + b, rtol=0, atol=1e-12 * bound * len(rows) + 1e-11)


@each(("loss", "weighting"), [pair for pair in PAIRS if pair[1] in (BOUNDED, MALLOWS, SCHWEPPE)])
def test_extreme_finite_rows_are_not_zeroed(loss, weighting):
    """x = 1e200 u with theta orthogonal to u: the Hessian tends to psi'(0) R^2 u u' / scale."""
    m = model(loss, weighting, False)
    u = np.array([0.6, 0.8])
    y = np.array([1.0 if loss == LOGISTIC else 0.0])
    hessian = records.RecordKernel(**m).sums(1e200 * u[None], y, np.zeros(2), 2, 1.0)[1]
    np.testing.assert_allclose(hessian, bounds(m)[1] * np.outer(u, u), rtol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_layouts_give_the_same_bits_and_nothing_is_copied_whole(loss, tmp_path):
    X, y = draw(5000, 6, loss)
    m = model(loss, MALLOWS, True)
    kernel = records.RecordKernel(**m)
    theta = np.linspace(-0.5, 0.5, 7)
    expected = kernel.sums(X, y, theta, 7, 5000.0)
    X.tofile(tmp_path / "x.bin")
    read_only = X.copy()
    read_only.flags.writeable = False
    wide = np.repeat(X, 2, axis=1)
    layouts = [
        np.asfortranarray(X),
        X[::-1].copy()[::-1],
        wide[:, ::2],
        read_only,
        np.memmap(tmp_path / "x.bin", float, "r", shape=X.shape),
    ]
    strided_y = np.repeat(y, 3)[::3]
    for layout in layouts:
        for part, reference_part in zip(
            kernel.sums(layout, strided_y, theta, 7, 5000.0), expected, strict=True
        ):
            np.testing.assert_array_equal(part, reference_part)


@each(("n", "q"), [(30_000, 4), (20_000, 30), (6_000, 90)])
def test_results_do_not_depend_on_threads(n, q):
    X, y = draw(n, q, LOGISTIC)
    kernel = records.RecordKernel(**model(LOGISTIC, MALLOWS, True))
    theta = np.random.default_rng(0).normal(size=q + 1) / q
    expected = kernel.sums(X, y, theta, 7, float(n), 1)
    for threads in (2, 3, 7, 0):
        for part, one in zip(kernel.sums(X, y, theta, 7, float(n), threads), expected, strict=True):
            np.testing.assert_array_equal(part, one)


@each(("loss", "weighting"), [pair for pair in PAIRS if pair[1] != CLIP])
def test_losses_and_their_differences(loss, weighting):
    m = model(loss, weighting, True)
    kernel = records.RecordKernel(**m)
    X, y = draw(300, 4, loss)
    new, old = np.linspace(-1, 1, 5), np.full(5, 0.2)
    n = 300.0
    value = kernel.loss(X, y, new, n)
    assert value == pytest.approx(reference.mean_loss(X, y, new, divisor=n, **m), rel=1e-12)
    change = kernel.loss_difference(X, y, new, old, n)
    twin = reference.loss_difference(X, y, new, old, divisor=n, **m)
    assert change == pytest.approx(twin, rel=1e-10, abs=1e-13)
    assert change == pytest.approx(value - kernel.loss(X, y, old, n), rel=1e-9, abs=1e-12)
    for extreme in (1e200, -1e308, np.inf, np.nan):
        rows = np.full((1, 4), extreme)
        single = kernel.loss_difference(rows, y[:1], new, old, 1.0)
        assert abs(single) <= bounds(m)[0] * np.linalg.norm(new - old) * (1 + 1e-12)


def test_the_gradient_is_the_derivative_of_the_loss():
    for loss, weighting in PAIRS:
        if weighting == CLIP:
            continue
        m = model(loss, weighting, True)
        kernel = records.RecordKernel(**m)
        X, y = draw(200, 3, loss)
        theta = np.array([0.1, -0.2, 0.3, 0.05])
        gradient = kernel.sums(X, y, theta, 1, 200.0)[0]
        for j in range(4):
            h = 1e-6 * np.eye(4)[j]
            numeric = kernel.loss_difference(X, y, theta + h, theta - h, 200.0) / 2e-6
            assert numeric == pytest.approx(gradient[j], abs=1e-8)


@pytest.mark.serial
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_computes_the_same():
    X, y = draw(200_000, 8, LOGISTIC)
    kernel = records.RecordKernel(**model(LOGISTIC, MALLOWS, False))
    theta = np.zeros(8)
    expected = kernel.sums(X, y, theta, 7, 1.0, 2)
    child = os.fork()
    if child == 0:
        again = kernel.sums(X, y, theta, 7, 1.0, 2)
        same = all(np.array_equal(a, b) for a, b in zip(again, expected, strict=True))
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.serial
def test_concurrent_python_threads():
    X, y = draw(50_000, 8, LOGISTIC)
    kernel = records.RecordKernel(**model(LOGISTIC, MALLOWS, False))
    expected = kernel.sums(X, y, np.zeros(8), 7, 1.0, 1)
    wrong = []

    def work():
        for _ in range(20):
            got = kernel.sums(X, y, np.zeros(8), 7, 1.0, 2)
            if not all(np.array_equal(a, b) for a, b in zip(got, expected, strict=True)):
                wrong.append(got)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_depth_bounds_the_error_against_exact_sums():
    from fractions import Fraction

    rng = np.random.default_rng(1)
    n = 3000
    X = np.ones((n, 1))
    # Huber with an enormous corner at theta = 0: contributions are exactly -y
    y = rng.normal(size=n) * 10.0 ** rng.integers(-12, 13, size=n)
    kernel = records.RecordKernel(HUBER, 1e100, 1.0, BOUNDED, 1.0, False)
    for order in (np.arange(n), np.argsort(y), np.argsort(np.abs(y))):
        total = kernel.sums(X[order], y[order], np.zeros(1), 1, 1.0)[0][0]
        exact = -sum(map(Fraction, y))
        depth = records.summation_depth(n, 1, 1)
        allowed = depth * Fraction(2) ** -53 / (1 - depth * Fraction(2) ** -53)
        assert abs(Fraction(total) - exact) <= allowed * sum(map(Fraction, np.abs(y)))


@each(
    ("change", "error"),
    [
        ({"X": np.zeros((3, 2), dtype=np.float16)}, TypeError),
        ({"X": np.zeros(3)}, (TypeError, ValueError)),
        ({"y": np.zeros(2)}, ValueError),
        ({"theta": np.zeros(3)}, ValueError),
        ({"want": 0}, ValueError),
        ({"want": 32}, ValueError),
        ({"want": 64}, ValueError),
        ({"divisor": 0.0}, ValueError),
        ({"divisor": np.nan}, ValueError),
        ({"threads": -1}, ValueError),
    ],
)
def test_shapes_and_types_raise(change, error):
    call = {
        "X": np.zeros((3, 2)),
        "y": np.zeros(3),
        "theta": np.zeros(2),
        "want": 1,
        "divisor": 1.0,
        "threads": 1,
    }
    call.update(change)
    kernel = records.RecordKernel(**model(HUBER, MALLOWS, False))
    with pytest.raises(error):
        kernel.sums(*call.values())


def test_clipping_has_neither_hessian_nor_loss():
    kernel = records.RecordKernel(**model(HUBER, CLIP, False))
    with pytest.raises(ValueError, match="no Hessian"):
        kernel.sums(np.zeros((2, 2)), np.zeros(2), np.zeros(2), 2, 1.0)
    with pytest.raises(ValueError, match="loss"):
        kernel.loss(np.zeros((2, 2)), np.zeros(2), np.zeros(2), 1.0)


@each("p", [1, 4, 16, 24, 25, 60, 200, 1500])
@each("want", [1, 2, 7, 16])
def test_depth_is_nondecreasing_in_n(p, want):
    sizes = np.unique(np.geomspace(1, 10**9, 4000).astype(np.int64))
    depths = [records.summation_depth(int(n), p, want) for n in sizes]
    assert (np.diff(depths) >= 0).all()


@each("p", [1, 4, 16, 24, 25, 60, 200, 1500])
@pytest.mark.parametrize("want", [1, 2, 7, 16])
def test_depth_covers_the_additions_of_every_smaller_plan(p, want):
    """The formula of records.h, against how the records are really cut up."""
    sizes = np.concatenate([np.arange(1, 3000), np.geomspace(3000, 10**9, 3000).astype(np.int64)])
    deepest = 0
    for n in sizes.tolist():
        rows, blocks, chunks = records._plan(n, p, want)
        assert rows * blocks * (chunks - 1) < n <= rows * blocks * chunks
        deepest = max(deepest, rows + 1 + blocks + chunks + 8)
        assert records.summation_depth(n, p, want) >= deepest


@each("loss", LOSSES)
@each("size", [5e-324, 1e-310, 1e-200, 1e-150, 1e-20])
def test_majorizer_tends_to_its_bound_at_zero(loss, size):
    m = model(loss, MALLOWS, False)
    X, theta = np.ones((1, 1)), np.array([size if loss == LOGISTIC else 0.0])
    y = np.array([1.0 if loss == LOGISTIC else size])
    hessian = records.RecordKernel(**m).sums(X, y, theta, 34, 1.0)[1]
    twin = reference.record_sums(X, y, theta, want=34, divisor=1.0, **m)[1]
    expected = bounds(m)[1] / m["radius"] ** 2
    assert hessian[0, 0] == pytest.approx(expected, rel=1e-12)
    assert twin[0, 0] == pytest.approx(expected, rel=1e-12)
