"""What is rare in data and common in attacks: extreme rows in every block layout, extreme public
constants, odd memory, and the accuracy of the vector functions on their whole range."""

import pickle

import mpmath
import numpy as np
import pytest

from dpfast.kernels import records
from tests.loops import each
from tests.twins import losses as twins, records as reference

HUBER, LOG_COSH, PSEUDO_HUBER, LOGISTIC, SMOOTHED_HUBER, OSTROVSKII_BACH, SMOOTH_ABSOLUTE = range(7)
BOUNDED, MALLOWS, CLIP, SCHWEPPE, MALLOWS_LINEAR = range(5)
LOSSES = [kind.code for kind in twins.CLASSES.values() if kind.lowest_slope == 0.0]
WEIGHTS = list(range(5))
# (loss, weighting) that exist
PAIRS = [(loss, w) for loss in LOSSES for w in WEIGHTS if (loss, w) != (LOGISTIC, SCHWEPPE)]
# one width for each layout of a block: transposed, rows of a few vectors, long rows
WIDTHS = [3, 13, 30, 90]
U = 2.0**-53


pytestmark = pytest.mark.one_source


@pytest.fixture(params=records._available_isas(), autouse=True)
def isa(request):
    records._set_isa(request.param)
    yield request.param
    records._set_isa("")


def model(loss, weighting, intercept=False, radius=2.0, c=1.3, scale=1.7):
    if loss == LOGISTIC:
        scale = 1.0
    return {
        "loss": loss,
        **twins.typical(loss, c),
        "scale": scale,
        "weighting": weighting,
        "radius": radius,
        "intercept": intercept,
    }


def bounds(m):
    loss = twins.loss_of(m["loss"], m["c"], m["h"])
    score = m["radius"] if m["weighting"] == CLIP else loss.psi_bound * m["radius"]
    return score, loss.psi_prime_bound * m["radius"] ** 2 / m["scale"], score**2


def losses_of(weighting):
    return [loss for loss, other in PAIRS if other == weighting]


def polluted(n, q, loss, seed=0):
    """Ordinary records with one of every kind of extreme among them, spread over the blocks."""
    rng = np.random.default_rng([seed, n, q])
    X = rng.normal(size=(n, q)) / np.sqrt(q) * 2.0
    y = (rng.random(n) < 0.5).astype(float) if loss == LOGISTIC else 3.0 * rng.normal(size=n)
    at = iter(rng.permutation(n))
    X[next(at)] *= 1e200
    X[next(at)] = 1e308 * np.sign(rng.normal(size=q))
    X[next(at)] *= 1e-200
    X[next(at)] *= 1e-310
    X[next(at)] = 0.0
    X[next(at)] = -0.0
    X[next(at), 0] = np.nan
    X[next(at), -1] = np.inf
    X[next(at)] = -np.inf
    y[next(at)] = np.nan
    y[next(at)] = -np.inf
    y[next(at)] = 0.5 if loss == LOGISTIC else 1e308
    y[next(at)] = -1e-320
    X[next(at), q // 2] = 1e160  # its square overflows, the others are ordinary
    return X, y


@pytest.mark.parametrize("q", WIDTHS)
@each("weighting", WEIGHTS)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.values
def test_extreme_records_leave_the_others_alone(q, weighting, intercept, half):
    """Agreement with the twin to 1e-12 of the bounds, which no record exceeds.

    Every other loss, which are others of the next weighting.
    """
    n = 300
    for loss in losses_of(weighting)[(weighting + half) % 2 :: 2]:
        m = model(loss, weighting, intercept)
        X, y = polluted(n, q, loss)
        theta = np.random.default_rng(q).normal(size=q + intercept) / np.sqrt(q)
        kernel = records.RecordKernel(**m)
        for want in [1, 5] if weighting in (CLIP, MALLOWS_LINEAR) else [1, 2, 7, 39]:
            ours = kernel.sums(X, y, theta, want, float(n))
            twin = reference.record_sums(X, y, theta, want=want, divisor=float(n), **m)
            for a, b, bound in zip(ours, twin, bounds(m), strict=True):
                assert (a is None) == (b is None)
                if a is not None:
                    np.testing.assert_allclose(a, b, rtol=0.0, atol=1e-12 * bound)
        if weighting != CLIP:
            new = theta + 0.1
            ours = kernel.loss_difference(X, y, new, theta, float(n))
            twin = reference.loss_difference(X, y, new, theta, divisor=float(n), **m)
            assert ours == pytest.approx(twin, rel=0.0, abs=1e-12 * bounds(m)[0] * 5.0)


@each("q", WIDTHS)
@each("weighting", WEIGHTS)
def test_unusable_records_contribute_exactly_zero(q, weighting):
    for loss in losses_of(weighting):
        kernel = records.RecordKernel(**model(loss, weighting, True))
        X, y = polluted(100, q, loss)
        usable = np.isfinite(X).all(axis=1) & np.isfinite(y)
        if loss == LOGISTIC:
            usable &= (y == 0.0) | (y == 1.0)
        theta = np.full(q + 1, 0.1)
        want = 5 if weighting in (CLIP, MALLOWS_LINEAR) else 7
        for part in kernel.sums(X[~usable], y[~usable], theta, want, 1.0):
            assert part is None or not part.any()
        if weighting != CLIP:
            assert kernel.loss(X[~usable], y[~usable], theta, 1.0) == 0.0
            assert kernel.loss_difference(X[~usable], y[~usable], theta, -theta, 1.0) == 0.0


@each("radius", [1e-100, 1e-30, 1.5, 1e30, 1e100])
@each("c", [1e-40, 1.0, 1e40])
@pytest.mark.parametrize("weighting", WEIGHTS)
@pytest.mark.values
def test_bounds_hold_for_extreme_constants_and_lengths(radius, c, weighting):
    rng = np.random.default_rng(5)
    lengths = 10.0 ** np.r_[np.arange(-320, 309, 17), 308]
    for loss in (HUBER, LOG_COSH, PSEUDO_HUBER, SMOOTHED_HUBER, OSTROVSKII_BACH):
        m = model(loss, weighting, radius=radius, c=c)
        if bounds(m)[0] > 1e140:
            continue
        kernel = records.RecordKernel(**m)
        want = 5 if weighting in (CLIP, MALLOWS_LINEAR) else 7
        for length in lengths:
            direction = rng.normal(size=3)
            with np.errstate(under="ignore"):
                x = length * (direction / np.linalg.norm(direction))[None]
            y = np.array([c * 10.0 ** rng.uniform(-3, 3)])
            for part, bound in zip(
                kernel.sums(x, y, np.zeros(3), want, 1.0), bounds(m), strict=True
            ):
                if part is not None:
                    # norms of representable numbers can overflow or underflow: scale first
                    assert np.linalg.norm(part / bound) <= 1 + 1e-12
    # the bound is attained: the loss's steepest point at a row on the boundary of the weights
    m = model(HUBER, weighting, radius=radius, c=c)
    x = np.array([[1e150 * 0.6, 1e150 * 0.8]])
    gradient = records.RecordKernel(**m).sums(
        x if weighting not in (MALLOWS, SCHWEPPE) else x / 1e150 * radius,
        np.array([1e3 * c]),
        np.zeros(2),
        1,
        1.0,
    )[0]
    assert np.linalg.norm(gradient / bounds(m)[0]) == pytest.approx(1.0, rel=1e-12)


def test_long_rows_keep_their_bounds():
    """The rounding of ||x||^2 over many columns stays far below 1e-12."""
    rng = np.random.default_rng(3)
    for q in (5_000, 100_000):
        x = rng.uniform(0.5, 1.0, size=(1, q))
        for weighting, loss in (
            (BOUNDED, HUBER),
            (MALLOWS, LOGISTIC),
            (CLIP, LOG_COSH),
            (SCHWEPPE, OSTROVSKII_BACH),
            (MALLOWS_LINEAR, SMOOTH_ABSOLUTE),
        ):
            m = model(loss, weighting, radius=2.0)
            y = np.array([1.0 if loss == LOGISTIC else 1e9])
            gradient = records.RecordKernel(**m).sums(x, y, np.zeros(q), 1, 1.0)[0]
            norm = float(np.sqrt(np.sum(gradient.astype(np.longdouble) ** 2)))
            assert norm <= bounds(m)[0] * (1 + 1e-12)


def test_clipping_sees_rows_whose_squared_norm_underflows():
    m = model(HUBER, CLIP, radius=1e-100, c=1e100)
    x = np.array([[3e-170, 4e-170]])
    gradient = records.RecordKernel(**m).sums(x, np.array([1e200]), np.zeros(2), 1, 1.0)[0]
    np.testing.assert_allclose(gradient, [-0.6e-100, -0.8e-100], rtol=1e-12)


def relative_error(ours, exact):
    exact = [mpmath.mpf(value) for value in exact]
    return max(
        float(abs(mpmath.mpf(a) - b) / abs(b))
        for a, b in zip(ours, exact, strict=True)
        if abs(b) > 1e-300
    )


def per_record(kernel, t, y, want):
    """Gradient or Hessian of one-column records x = 1 with predictor t, one at a time."""
    x = np.ones((1, 1))
    out = []
    for ti, yi in zip(t, y, strict=True):
        part = kernel.sums(x, np.array([yi]), np.array([ti]), want, 1.0)[want // 2]
        out.append(float(part.ravel()[0]))
    return out


SWEEP = np.r_[0.0, 10.0 ** np.linspace(-300, 2.8, 120), np.linspace(0.01, 40.0, 160)]


def test_logistic_is_accurate_on_its_whole_range():
    mpmath.mp.dps = 40
    kernel = records.RecordKernel(**model(LOGISTIC, BOUNDED, radius=1.0))
    t = np.r_[SWEEP, -SWEEP]
    zeros = np.zeros_like(t)
    exact = [1 / (1 + mpmath.exp(-mpmath.mpf(v))) for v in t]
    assert relative_error(per_record(kernel, t, zeros, 1), exact) < 4 * U * 2
    slope = [p * (1 / (1 + mpmath.exp(mpmath.mpf(v)))) for p, v in zip(exact, t, strict=True)]
    assert relative_error(per_record(kernel, t, zeros, 2), slope) < 6 * U * 2
    loss = [mpmath.log1p(mpmath.exp(mpmath.mpf(v))) for v in t]
    one = np.ones((1, 1))
    ours = [kernel.loss(one, np.zeros(1), np.array([v]), 1.0) for v in t]
    assert relative_error(ours, loss) < 4 * U * 2


@pytest.mark.parametrize(
    "loss",
    [LOG_COSH, PSEUDO_HUBER, SMOOTHED_HUBER, OSTROVSKII_BACH, SMOOTH_ABSOLUTE],
)
@pytest.mark.values
def test_smooth_losses_are_accurate_on_their_whole_range(loss):
    mpmath.mp.dps = 40
    kernel = records.RecordKernel(**model(loss, BOUNDED, radius=1.0, c=1.0, scale=1.0))
    t = np.r_[SWEEP, -SWEEP]
    zeros = np.zeros_like(t)
    exact_t = [mpmath.mpf(v) for v in t]
    if loss == LOG_COSH:
        psi = [mpmath.tanh(v) for v in exact_t]
        slope = [mpmath.sech(v) ** 2 for v in exact_t]
        value = [mpmath.log1p(2 * mpmath.sinh(v / 2) ** 2) for v in exact_t]
    elif loss == OSTROVSKII_BACH:
        root = [mpmath.sqrt(1 + 4 * v**2) for v in exact_t]
        psi = [2 * v / (1 + s) for v, s in zip(exact_t, root, strict=True)]
        slope = [2 / (s * (1 + s)) for s in root]
        z = [2 * v**2 / (1 + s) for v, s in zip(exact_t, root, strict=True)]
        value = [v - mpmath.log1p(v) / 2 for v in z]
    elif loss == SMOOTH_ABSOLUTE:
        psi = [mpmath.tanh(v / 2) for v in exact_t]
        slope = [mpmath.sech(v / 2) ** 2 / 2 for v in exact_t]
        value = [2 * mpmath.log(2 * mpmath.cosh(v / 2)) for v in exact_t]
    elif loss == SMOOTHED_HUBER:
        h = mpmath.mpf(0.7)
        at = [min(max((abs(v) - 1) / h, 0), 1) for v in exact_t]
        psi = [
            mpmath.sign(v) * (min(abs(v), 1) + h * (s - s**3 + s**4 / 2))
            for v, s in zip(exact_t, at, strict=True)
        ]
        # near the end of the corner psi' is the square of a small difference
        slope = [(1 - s) ** 2 * (1 + 2 * s) if s < 0.9 else mpmath.mpf(0) for s in at]
        value = [
            min(abs(v), 1) ** 2 / 2
            + h * s
            + h**2 * (s**2 / 2 - s**4 / 4 + s**5 / 10)
            + max(abs(v) - 1 - h, 0) * (1 + h / 2)
            for v, s in zip(exact_t, at, strict=True)
        ]
    else:
        psi = [v / mpmath.sqrt(1 + v**2) for v in exact_t]
        slope = [(1 + v**2) ** mpmath.mpf("-1.5") for v in exact_t]
        value = [v**2 / (1 + mpmath.sqrt(1 + v**2)) for v in exact_t]
    assert relative_error(per_record(kernel, t, zeros, 1), psi) < 5 * U * 2
    assert relative_error(per_record(kernel, t, zeros, 2), slope) < 8 * U * 2
    one = np.ones((1, 1))
    ours = [kernel.loss(one, np.zeros(1), np.array([v]), 1.0) for v in t]
    large = [(a, b) for a, b in zip(ours, value, strict=True) if b > mpmath.mpf("1e-200")]
    assert relative_error(*zip(*large, strict=True)) < 8 * U * 2


def test_smoothed_quantile_is_accurate_on_its_whole_range():
    """psi is a difference of numbers below one, and accurate relative to those."""
    mpmath.mp.dps = 40
    kernel = records.RecordKernel(**model(twins.QUANTILE, BOUNDED, radius=1.0, c=1.0, scale=1.0))
    tau = mpmath.mpf(0.7)
    t = np.r_[SWEEP, -SWEEP]
    zeros = np.zeros_like(t)
    exact_t = [mpmath.mpf(v) for v in t]
    for found, v in zip(per_record(kernel, t, zeros, 1), exact_t, strict=True):
        assert abs(found - (1 - tau - 1 / (1 + mpmath.exp(v)))) < 3 * U
    slope = [mpmath.sech(v / 2) ** 2 / 4 for v in exact_t]
    assert relative_error(per_record(kernel, t, zeros, 2), slope) < 8 * U * 2
    value = [mpmath.log1p(mpmath.exp(v)) - tau * v for v in exact_t]
    one = np.ones((1, 1))
    ours = [kernel.loss(one, np.zeros(1), np.array([v]), 1.0) for v in t]
    assert relative_error(ours, value) < 8 * U * 2


@each("loss", LOSSES)
def test_infinite_predictors_saturate(loss):
    kernel = records.RecordKernel(**model(loss, BOUNDED, c=1.3, scale=1.0))
    slopes = twins.asymptote_slopes(loss, **twins.typical(loss, 1.3))
    for sign, psi_max in zip((1.0, -1.0), slopes, strict=True):
        y = np.array([0.0 if sign > 0 else 1.0])
        x = np.array([[2.0]])
        gradient, hessian, meat = kernel.sums(x, y, np.array([sign * np.inf]), 7, 1.0)
        assert gradient[0] == sign * psi_max * 2.0
        assert hessian[0, 0] == 0.0
        assert meat[0, 0] == (psi_max * 2.0) ** 2
    assert kernel.sums(np.zeros((1, 1)), y, np.array([np.inf]), 1, 1.0)[0][0] == 0.0  # t is NaN


@each("q", WIDTHS)
def test_any_memory_layout(q):
    """Fortran order, any strides, unaligned, repeated rows; each against a plain copy."""
    n = 517
    rng = np.random.default_rng(q)
    X, y = rng.normal(size=(n, q)), rng.normal(size=n)
    theta = rng.normal(size=q + 1) / q
    kernel = records.RecordKernel(**model(LOG_COSH, MALLOWS, True))
    unaligned = np.frombuffer(b"x" + X.tobytes(), dtype=np.uint8)[1:].view(np.float64)
    unaligned = unaligned.reshape(n, q)
    odd_y = np.frombuffer(b"x" + y.tobytes(), dtype=np.uint8)[1:].view(np.float64)
    assert not unaligned.flags.aligned
    record = np.zeros(n, dtype=[("tag", "u1"), ("x", "f8", (q,))])
    record["x"] = X
    layouts = [
        np.asfortranarray(X),
        np.ascontiguousarray(X[::-1])[::-1],
        np.ascontiguousarray(X[:, ::-1])[:, ::-1],
        np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
        unaligned,
        record["x"],
    ]
    for want in (1, 7):
        expected = kernel.sums(X, y, theta, want, float(n))
        for layout in layouts:
            for responses in (y, odd_y, y[::-1].copy()[::-1]):
                got = kernel.sums(layout, responses, theta, want, float(n))
                for a, b in zip(got, expected, strict=True):
                    np.testing.assert_array_equal(a, b)
    same = np.lib.stride_tricks.as_strided(X, (n, q), (0, 8))
    got, expected = (kernel.sums(a, y, theta, 7, 1.0) for a in (same, same.copy()))
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_empty_data_and_an_intercept_alone():
    kernel = records.RecordKernel(**model(HUBER, MALLOWS, True))
    for part in kernel.sums(np.zeros((0, 2)), np.zeros(0), np.zeros(3), 7, 1.0):
        assert not part.any()
    y = np.array([1.0, -0.5, 0.25])
    gradient, hessian, _ = kernel.sums(np.zeros((3, 0)), y, np.zeros(1), 7, 3.0)
    assert gradient[0] == pytest.approx(-y.mean() / 1.7, rel=1e-15)
    assert hessian[0, 0] == pytest.approx(1 / 1.7, rel=1e-15)


def test_kernels_pickle():
    kernel = records.RecordKernel(**model(LOG_COSH, MALLOWS, True))
    again = pickle.loads(pickle.dumps(kernel))
    X, y = np.eye(4), np.arange(4.0)
    for a, b in zip(
        kernel.sums(X, y, np.ones(5), 7, 1.0), again.sums(X, y, np.ones(5), 7, 1.0), strict=True
    ):
        np.testing.assert_array_equal(a, b)


@each(
    "change",
    [
        {"loss": 9},
        {"loss": 7},
        {"weighting": -1},
        {"weighting": 5},
        {"loss": SMOOTHED_HUBER, "h": 0.0},
        {"loss": LOGISTIC, "weighting": SCHWEPPE},
        {"radius": np.nan},
        {"radius": 0.0},
        {"c": np.inf},
        {"scale": -1.0},
        {"c": 1e80, "radius": 1e80},
        {"weighting": BOUNDED, "intercept": True, "radius": 1.0},
    ],
)
def test_constants_are_checked(change):
    with pytest.raises(ValueError, match=r"got|logistic"):
        records.RecordKernel(**(model(HUBER, MALLOWS) | change))
