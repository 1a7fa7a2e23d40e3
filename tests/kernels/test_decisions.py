"""Compiled decisions about released numbers against their twins in plain NumPy."""

from itertools import pairwise

import numpy as np
import pytest

from dpfast.curator import Answer
from dpfast.curator.preconditioned import Linearization
from dpfast.kernels import decisions
from dpfast.models import Gamma, Huber, LeastSquares, LogCosh, Logistic, Poisson, Probit
from dpfast.solvers.pcn import (
    clipping,
    curvature,
    histogram,
    initial,
    precondition,
    search,
)
from dpfast.solvers.pcn.plan import Setting
from dpfast.solvers.pcn.scores import NoisyScore
from tests.twins import decisions as twin

SIZES = (1, 2, 5, 8, 9, 17, 30)  # rotations, LAPACK, loops, BLAS


def close(found, expected, rtol=1e-9, atol=1e-12):
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)


def noisy_shares(rng, per_octave):
    """Noisy shares of lognormal, heavy-tailed or few norms."""
    n = int(rng.choice([50, 1000, 100_000]))
    edges = histogram.bin_edges(per_octave)
    norms = np.abs(rng.standard_t(rng.choice([1.5, 3.0, 30.0]), n)) * np.exp(rng.uniform(-3, 5))
    shares = np.bincount(np.searchsorted(edges[:-1], norms), minlength=len(edges)) / n
    noise = float(np.exp(rng.uniform(-9.0, -1.0)))
    return shares + noise * rng.normal(size=len(shares)), noise


def histograms(seed, per_octave=None):
    rng = np.random.default_rng(seed)
    per_octave = per_octave or int(rng.integers(1, 3))
    arguments = *noisy_shares(rng, per_octave), per_octave, float(np.exp(rng.normal()))
    return (
        histogram.NormHistogram.from_noisy_shares(*arguments),
        twin.NormHistogram.from_noisy_shares(*arguments),
    )


def symmetric(rng, p, definite=True):
    A = rng.normal(size=(p, p))
    return A @ A.T / p + 0.05 * np.eye(p) if definite else A + A.T


@pytest.mark.parametrize("seed", range(60))
def test_the_same_bins_are_detected(seed):
    ours, theirs = histograms(seed)
    for name in theirs._fields:
        close(getattr(ours, name), getattr(theirs, name), rtol=1e-13)
    assert ours.longest == ours.upper[-1]


def test_bins_are_detected_from_any_memory():
    shares, noise = noisy_shares(np.random.default_rng(3), 2)
    strided = np.repeat(shares, 2)[::2]
    assert not strided.flags.c_contiguous
    found = histogram.NormHistogram.from_noisy_shares(strided, noise, 2)
    expected = histogram.NormHistogram.from_noisy_shares(shares, noise, 2)
    for name in twin.NormHistogram._fields:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_edges_of_cells():
    for per_octave in (1, 2, 4):
        edges = histogram.bin_edges(per_octave)
        np.testing.assert_array_equal(edges, twin.bin_edges(per_octave))
        np.testing.assert_array_equal(histogram.cell_edges(per_octave, 1.7), 1.7 * edges[:-1])
        with pytest.raises(ValueError, match="read-only"):
            edges[0] = 1.0


def test_histograms_keep_copies_and_refuse_other_shapes():
    """Bins are the histogram's own, and a wrong shape is refused before memory is read."""
    shares, upper = np.array([0.7, 0.3]), np.array([1.0, 2.0], dtype=np.float32)
    found = histogram.NormHistogram(shares, upper, upper[::-1][::-1], 0.1, np.ones(8), 0.2, False)
    shares[:], found.shares[:] = 5.0, 6.0
    np.testing.assert_array_equal(found.shares, [0.7, 0.3])
    assert (found.octave_noise, found.before_mode, found.counted) == (0.2, False, (1.0, 0.0))
    for wrong in (
        (shares, upper[:1], upper, 0.1), (shares, upper, np.ones(3), 0.1),
        (shares[:0], upper[:0], upper[:0], 0.1), (shares, upper, upper, 0.1, np.ones(7)),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"expected|at least one"):
            histogram.NormHistogram(*wrong)
    for size in (0, 26, 28):
        with pytest.raises(ValueError, match="expected"):
            histogram.NormHistogram.from_noisy_shares(np.ones(size), 0.1, 1)
    for wrong in (None, (shares, upper, upper, 0.1)):
        with pytest.raises(TypeError):
            clipping.choose_clipping_norm(wrong, 0.1, 2)
    with pytest.raises(ValueError, match="expected 27"):
        found.density_ratio(np.ones(3), 0.1, 1, 4.0)


@pytest.mark.parametrize("shares", [np.nan, np.inf, -np.inf, -1.0, 0.0], ids=str)
@pytest.mark.parametrize("noise", [0.0, 1e-3, np.inf, np.nan], ids=str)
def test_any_shares_make_a_histogram(shares, noise):
    """Noise of any size, and what no arithmetic should give, leave every method with a number."""
    for per_octave in (1, 2):
        given = np.zeros(len(histogram.bin_edges(per_octave)))
        given[3::5] = shares
        found = histogram.NormHistogram.from_noisy_shares(given, noise, per_octave)
        numbers = [
            found.longest, found.median(), found.mean_square(2.0), found.mean_of_squares(),
            found.mean_excess(1.0, 0.5), found.share_beyond(0.1), found.clipped_square(1.0, 50.0),
            found.downweighted_share(1.0, 0.5), found.clipped_off(1.0, 1.0, 0.5, 1.0),
            found.choose_weight_radius(2, 1.0, 0.1), found.undetected_square(),
            found.density_ratio(given, noise, per_octave, 4.0), *found.rescaled(2.0).upper,
            *found.tail(np.array([0.0, 1.0, np.nan, np.inf]), 9.0),
            *clipping.choose_clipping_norm(found, 0.1, 2, foreseen=found, n=9.0),
        ]  # fmt: skip
        assert all(isinstance(number, float) for number in numbers)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("n", [40.0, 1e5, np.inf])
def test_tails_and_means_of_histograms(seed, n):
    ours, theirs = histograms(seed)
    first, second = ours.extrapolate_tail(n), theirs.extrapolate_tail(n)
    for one, other in zip(first, second, strict=True):
        close(one, other, atol=1e-9 * max(ours.shares.max(), 1e-300))
    for one, other in zip(ours.extrapolate_tail(n), first, strict=True):  # the same, kept
        np.testing.assert_array_equal(one, other)
    bound = 0.3 * ours.longest
    bounds = ours.longest * np.array([3.0, 1.0, 0.7, 1e-3])
    close(ours.tail(bounds, n), theirs.tail(bounds, n))
    close(ours.clipped_square(bound, n), theirs.clipped_square(bound, n))
    close(ours.mean_square(bound), theirs.mean_square(bound))
    close(ours.undetected_square(), theirs.undetected_square(), rtol=1e-8)
    close(ours.clipped_square(bound, n), theirs.clipped_square(bound, n))  # another n came between
    close(ours.median(), theirs.median())
    close(ours.mean_of_squares(), theirs.mean_of_squares())
    close(ours.share_beyond(bound), theirs.share_beyond(bound))
    close(ours.share_beyond(np.inf), 0.0)
    for scaled, expected in ((ours.rescaled(0.3), theirs.rescaled(0.3)),):
        close(scaled.upper, expected.upper, rtol=1e-15)
        close(scaled.tail(bounds, n), expected.tail(bounds, n))
    for power in (0.0, 0.25, 1.0):
        close(ours.mean_excess(bound, power), theirs.mean_excess(bound, power))
        close(ours.downweighted_share(bound, power), theirs.downweighted_share(bound, power))
        for part in (1e-6, 0.5, 3.0, 1e6):
            arguments = 0.7, bound, power, part * ours.longest
            close(
                ours.clipped_off(*arguments), theirs.clipped_off(*arguments), atol=1e-14 * bound**2
            )
    chosen = ours.choose_weight_radius(5, 1.3, 1e-3), theirs.choose_weight_radius(5, 1.3, 1e-3)
    close(*chosen)


@pytest.mark.parametrize("seed", range(20))
def test_ratios_of_densities(seed):
    rng = np.random.default_rng(seed)
    per_octave = 1 + seed % 2
    arguments = *noisy_shares(rng, per_octave), per_octave
    ours = histogram.NormHistogram.from_noisy_shares(*arguments)
    theirs = twin.NormHistogram.from_noisy_shares(*arguments)
    narrow = *noisy_shares(rng, per_octave), per_octave, float(rng.choice([1.5, 4.0, 60.0]))
    close(ours.density_ratio(*narrow), theirs.density_ratio(*narrow))


def test_tails_of_distributions():
    """Small ones, too: a test at a level of a thousandth reads them."""
    for at in (0.0, 1e-9, 0.3, 1.0, 3.0, 6.0, 40.0):
        close(decisions.normal_excess(at), twin.normal_excess(at), rtol=1e-7, atol=1e-13)
    for degrees in (1, 2, 3, 4, 9, 10, 57, 500, 3001):
        for part in (0.0, 1e-3, 0.5, 0.9, 1.0, 1.1, 1.6, 4.0, 1e3):
            arguments = degrees, part * degrees
            found, expected = (
                decisions.chi_squared_tail(*arguments),
                twin.chi_squared_tail(*arguments),
            )
            close(found, expected, rtol=1e-9, atol=1e-300)
    assert np.isnan(decisions.chi_squared_tail(3, np.nan))
    assert decisions.chi_squared_tail(3, np.inf) == 0.0
    assert decisions.chi_squared_tail(3, -1.0) == 1.0


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("foresees", [False, True])
def test_clipping_norms(seed, foresees):
    rng = np.random.default_rng(seed)
    (ours, theirs), noise = histograms(seed, 1), float(np.exp(rng.uniform(-9.0, -2.0)))
    longest = float(rng.choice([np.inf, 0.6 * ours.longest, 3.0 * ours.longest]))
    ahead = histograms(seed + 100, 2) if foresees else (None, None)
    n = float(rng.choice([100, 1e4, np.inf]))
    found = clipping.choose_clipping_norm(ours, noise, 5, longest, 0.4, ahead[0], n)
    close(found, twin.choose_clipping_norm(theirs, noise, 5, longest, 0.4, ahead[1], n), atol=1e-9)


@pytest.mark.parametrize("p", SIZES)
def test_whitening(p):
    rng = np.random.default_rng(p)
    for gram in (symmetric(rng, p), symmetric(rng, p, False)):
        answer = Answer(gram, 0.01, None)
        slopes = rng.normal(size=p)
        expected = slopes, float(slopes @ slopes), 0.004, 0.03
        for arguments in ((), (expected,), (expected, 3.0), (expected, 3.0, True), (None, 3.0)):
            ours = precondition.precondition(answer, *arguments)
            theirs = twin.precondition(answer, *arguments)
            close(ours.values, theirs.values)
            close(ours[3:], theirs[3:])
            assert ours.is_clear == (not ours.unclear.any())
            assert ours.shows_records == (ours.trace >= 3.0 * ours.floor)
            # eigenvectors are known up to their signs
            close(ours.whiten @ ours.whiten.T, theirs.whiten @ theirs.whiten.T, rtol=1e-7)
            close(ours.unwhiten @ ours.whiten, np.eye(p), atol=1e-9)


def test_whitening_of_what_is_no_matrix():
    """Values that are not finite give NaN, and shapes that do not fit are refused."""
    for entry in (np.nan, np.inf):
        found = precondition.precondition(Answer(np.full((3, 3), entry), 0.1, None))
        assert np.isnan(found.values).all()
        assert found.is_clear  # no direction is known to be within noise
    slopes = np.ones(2)
    for wrong in (np.ones(3), np.ones((2, 3)), np.ones((0, 0))):
        with pytest.raises(ValueError, match="square"):
            precondition.precondition(Answer(wrong, 0.1, None))
    with pytest.raises(ValueError, match="expected 3"):
        precondition.precondition(Answer(np.eye(3), 0.1, None), (slopes, 2.0, 1.0, 1.0), 1.0, True)


@pytest.mark.parametrize("p", SIZES)
def test_steps_of_rounds(p):
    rng = np.random.default_rng(p)
    for scale, noise in ((1.0, 0.1), (1e3, 0.1), (0.01, 1.0), (0.0, 1.0)):
        whitening = precondition.precondition(Answer(symmetric(rng, p), 0.01, None))
        score = NoisyScore(rng.normal(size=p), scale * rng.normal(size=p), noise)
        maps = whitening.whiten, whitening.unwhiten
        for variance in (0.0, 100.0):
            found = decisions.round_step(score.score, noise, *maps, variance, search.TRUST_REGION)
            for one, other in zip(found, twin.round_step(score, whitening, variance), strict=True):
                close(one, other)
        for matrix in maps:
            close(decisions.matrix_vector(matrix, score.score), matrix @ score.score)
            close(decisions.matrix_vector(matrix.T, score.score), matrix.T @ score.score)
    unit, ones, noises = decisions.white(whitening.values, whitening.floor)
    np.testing.assert_array_equal(unit, np.eye(p))
    np.testing.assert_array_equal(ones, np.ones(p))
    close(noises, whitening.noise / whitening.values)
    for call in (
        lambda: decisions.round_step(np.ones(p + 1), 0.1, *maps, 0.0, 1.5),
        lambda: decisions.matrix_vector(maps[0], np.ones(p + 1)),
        lambda: decisions.shrunken_coefficients(np.ones(p + 1), 0.1, maps[0]),
    ):
        with pytest.raises(ValueError, match="expected"):
            call()


@pytest.mark.parametrize("p", SIZES)
@pytest.mark.parametrize(
    "loss", [Logistic(), Poisson(), Poisson(3.0), Probit(), Gamma()],
    ids=["logistic", "poisson", "capped", "probit", "gamma"],
)  # fmt: skip
def test_coefficients_from_a_moment(loss, p):
    rng = np.random.default_rng(p)
    whitening = precondition.precondition(Answer(symmetric(rng, p), 0.01, None))
    for scale, noise in ((0.1, 0.01), (10.0, 0.01), (0.1, 3.0), (0.0, 0.1)):
        moment = Answer(scale * rng.normal(size=p), noise, None)
        found = initial.shrunken_coefficients(moment, whitening)
        for one, other in zip(found, twin.shrunken_coefficients(moment, whitening), strict=True):
            close(one, other)
        for intercept in (True, False):
            for offset in ((0.0, 0.0), (0.3, 0.7)):
                setting = Setting(loss, None, intercept, offset=offset)
                arguments = moment, whitening, setting, 1.0, 500
                found = initial.coefficients_through_link(*arguments)
                expected = twin.coefficients_through_link(*arguments)
                for one, other in zip(found, expected, strict=True):
                    close(one, other)


@pytest.mark.parametrize(
    "loss",
    [
        Logistic(),
        Poisson(),
        Poisson(3.0),
        Probit(),
        Gamma(),
        LogCosh(),
        Huber(1.345),
        LeastSquares(),
    ],
)
def test_expected_curvatures(loss):
    rng = np.random.default_rng(5)
    theta, intercept = 0.4 * rng.normal(size=6), rng.normal(size=6)
    for level in (None, intercept, np.repeat(intercept, 2)[::2]):
        for offset in ((0.0, 0.0), (0.3, 0.8)):
            at = Linearization(theta, loss)
            ours = curvature.gaussian_design_curvature(at, level, *offset)
            theirs = twin.gaussian_design_curvature(at, level, *offset)
            for one, other in zip(ours, theirs, strict=True):
                close(one, other)
            close(curvature.gaussian_design_hessian(*ours), twin.gaussian_design_hessian(*theirs))


def path(rng, p, noise=0.01):
    H, points = symmetric(rng, p), [rng.normal(size=p) for _ in range(4)]
    return [NoisyScore(at, -H @ at + noise * rng.normal(size=p), noise) for at in points]


@pytest.mark.parametrize("p", SIZES)
@pytest.mark.parametrize("known", [False, True])
def test_updated_curvatures(p, known):
    rng = np.random.default_rng(10 + p)
    scores = path(rng, p)
    H = symmetric(rng, p) if known else None
    for pair in pairwise(scores):
        found, expected = decisions.bfgs_update(H, *pair), twin.bfgs_update(H, *pair)
        assert (found is None) == (expected is H)
        if found is not None:
            close(found, expected)


def test_a_change_within_its_noise_updates_nothing():
    scores = path(np.random.default_rng(4), 3, noise=5.0)
    H = np.eye(3)
    assert decisions.bfgs_update(H, *scores[:2]) is None


@pytest.mark.parametrize("p", SIZES)
@pytest.mark.parametrize("of_step", [False, True])
def test_information_bounds(p, of_step):
    rng = np.random.default_rng(20 + p)
    H, meat = symmetric(rng, p), symmetric(rng, p)
    for hidden in (None, rng.random(p)):
        arguments = H, meat, 0.03, 1.0, hidden, of_step
        found = decisions.information_bound(*arguments)
        expected = twin.information_bound(*arguments)
        for one, other in zip(found[1:], expected[1:], strict=True):
            close(one, other, rtol=1e-7)
        ours = decisions.apply_information_bound(H, *found)
        theirs = twin.apply_information_bound(H, *expected)
        close(ours[0], theirs[0], rtol=1e-6, atol=1e-9)
        close(ours[1], theirs[1], rtol=1e-6, atol=1e-9)
        assert ours[2] == theirs[2]


@pytest.mark.parametrize("p", SIZES)
def test_limits_of_steps(p):
    scores = path(np.random.default_rng(30 + p), p)
    for step in (scores[0].theta, -scores[0].theta, scores[1].score, 1e-3 * scores[1].score):
        close(search.cutting_plane(step, scores), twin.cutting_plane(step, scores))
        close(search.trust_region(step, 2.0), twin.trust_region(step, 2.0))


@pytest.mark.parametrize("loss", [Logistic(), Poisson(), Poisson(3.0), Probit(), Gamma()], ids=repr)
def test_mean_responses(loss):
    for level in (-40.0, -3.0, 0.2, 5.0, 800.0):
        for spread in (0.0, 0.7, 4.0):
            found = initial.normal_response(loss, level, spread)
            close(found, twin.mean_response(loss, level, spread), atol=1e-300)


def test_another_loss_has_no_mean_response():
    with pytest.raises(ValueError, match="no link has the code"):
        initial.normal_response(LogCosh(), 0.0, 1.0)


@pytest.mark.parametrize("p", SIZES)
def test_covariances_of_estimates(p):
    rng = np.random.default_rng(50 + p)
    for mean in (symmetric(rng, p), symmetric(rng, p, False)):
        variances, vectors, average, missing = decisions.score_variances(mean)
        expected = np.maximum(np.linalg.eigvalsh(mean), 0.0)
        close(variances, expected, rtol=1e-7)
        close(average, expected.mean())
        close(missing, np.maximum(np.median(expected) - expected, 0.0).sum(), atol=1e-9)
        for one_sided in (False, True):
            for removed in (0.0, 0.3, 20.0):
                found = decisions.with_removed_variance(variances, vectors, removed, one_sided)
                close(found, twin.with_removed_variance(mean, removed, one_sided), rtol=1e-7)
    theta, one, known = rng.normal(size=p), rng.normal(size=p), rng.random(p)
    for intercept in (None, one):
        signal = twin.slope_moments(theta, intercept)[1]
        close(decisions.slope_signal(theta, intercept), signal, atol=1e-9)
        maps = rng.normal(size=(p, p))
        found = decisions.predictor_moments(theta, intercept, maps)
        close(found, twin.predictor_moments(theta, intercept, maps), atol=1e-7)
    for noises in ([0.3], [0.5, 0.2, 1.0, 0.1]):
        for pilot in (rng.random(p), np.full(p, np.inf)):
            arguments = known, noises, 1.3, pilot, 0.4
            close(decisions.bias_variance(*arguments), twin.bias_variance(*arguments))


@pytest.mark.parametrize("p", SIZES)
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_coordinates_of_steps(p, known, intercept):
    rng = np.random.default_rng(80 + p)
    maps = [rng.normal(size=(p, p)) for _ in range(3)]
    theta, one = rng.normal(size=p), rng.normal(size=p) if intercept else None
    root = np.eye(p) + symmetric(rng, p) if known else None
    arguments = theta, root, *maps, one
    found = decisions.step_coordinates(*arguments)
    for ours, theirs in zip(found, twin.step_coordinates(*arguments), strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            close(ours, theirs, rtol=1e-6, atol=1e-8)
    strided = [np.asfortranarray(maps[0]), np.repeat(maps[1], 2, axis=0)[::2], maps[2][::-1][::-1]]
    again = decisions.step_coordinates(theta, root, *strided, one)
    for ours, theirs in zip(found, again, strict=True):
        assert (ours is None and theirs is None) or np.array_equal(ours, theirs)
    assert found[2].flags.f_contiguous


def test_a_singular_curvature_has_no_coordinates():
    eye, one = np.eye(3), np.ones(3)
    with pytest.raises(np.linalg.LinAlgError):
        decisions.step_coordinates(one, np.zeros((3, 3)), eye, eye, eye, None)
    for k, wrong in (
        (1, np.eye(2)),
        (2, np.eye(2)),
        (3, np.ones(3)),
        (4, eye[:2]),
        (5, np.ones(2)),
    ):
        arguments = [one, eye, eye, eye, eye, one]
        arguments[k] = wrong
        with pytest.raises(ValueError, match=r"expected|must be"):
            decisions.step_coordinates(*arguments)


@pytest.mark.parametrize("p", SIZES)
def test_what_is_known_of_a_curvature(p):
    rng = np.random.default_rng(100 + p)
    values = rng.normal(size=p)
    for noise in (0.3, np.abs(rng.normal(size=p))):
        known = decisions.known_part(values, noise, 0.2)
        close(known, twin.known_part(values, noise, 0.2))
        for floor in (-np.inf, 0.2, 5.0):
            hidden = (known <= 0.0) | (values <= floor)
            assert decisions.count_hidden(known, values, floor) == hidden.sum()
    values[0] = np.nan
    close(decisions.known_part(values, 0.3, 0.2), twin.known_part(values, 0.3, 0.2))


@pytest.mark.parametrize("p", SIZES)
def test_scores_that_vary_more_along_a_direction(p):
    rng = np.random.default_rng(110 + p)
    for H in (None, symmetric(rng, p)):
        for noise in (0.0, 1e-3, 0.5):
            for long in (0.0, 30.0):
                meat = symmetric(rng, p) + long * np.outer(*[rng.normal(size=p)] * 2)
                found = decisions.excess_variation(H, meat, noise, 2.0)
                expected = twin.excess_variation(H, meat, noise, 2.0)
                assert (found is None) == (expected is None)
                if found is not None:
                    close(found[0], expected[0], rtol=1e-6)
                    close(np.abs(found[1]), np.abs(expected[1]), rtol=1e-4, atol=1e-6)
    assert p < 2 or decisions.excess_variation(None, np.full((p, p), np.nan), 0.1, 2.0) is None


@pytest.mark.parametrize("p", SIZES)
def test_what_slopes_explain(p):
    rng = np.random.default_rng(60 + p)
    rows, theta = rng.normal(size=(p, p)), rng.normal(size=p)
    found = decisions.explained_by_slopes(rows, theta)
    close(found, twin.explained_by_slopes(rows, theta), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("q", [1, 3, 8])
def test_columns_of_zero_and_one(q):
    rng = np.random.default_rng(70 + q)
    X = np.column_stack([np.ones(400), rng.normal(size=(400, q))])
    X[:, 1::2] = rng.random(size=(400, (q + 1) // 2)) < rng.uniform(0.1, 0.9, (q + 1) // 2)
    mapping = symmetric(rng, q + 1)
    moments, natural = (X @ mapping).T @ (X @ mapping) / 400.0, np.linalg.inv(mapping).T
    found, shares, known = decisions.indicators(moments, natural, 0.25)
    assert found == twin.indicators(moments, natural, 0.25)[0] == [*range(0, q, 2)]
    close(shares, X[:, 1::2].mean(axis=0), rtol=1e-6)
    assert known == pytest.approx(1.0)
    natural[1, 0] = np.nan
    assert decisions.indicators(moments, natural, 0.25)[0] == [*range(2, q, 2)]
