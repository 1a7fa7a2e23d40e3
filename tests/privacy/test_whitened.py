"""C60 and C80: what is seen of records, histograms of lengths, Grams and clipped scores of it."""

from __future__ import annotations

import itertools
import math
import pickle
from functools import lru_cache

import numpy as np
import pytest
from scipy.special import ndtr

import dpfast
from dpfast.curator import Curator
from dpfast.curator.answers import StepBudget
from dpfast.curator.noisy_release import observed
from dpfast.curator.preconditioned import (
    LeverageWeights,
    Linearization,
    PreconditionedQueries,
    RowClipping,
    compiled,
)
from dpfast.curator.release.one_step import mean_along
from dpfast.data import Records, as_records
from dpfast.data.scaling.maps import TransformedView
from dpfast.data.streams import StreamedRecords
from dpfast.errors import BudgetExceeded
from dpfast.kernels.records import GRADIENT, HESSIAN, MEAT, RecordKernel
from dpfast.models import Gamma, LeastSquares, Mallows, Objective, Probit
from dpfast.privacy.sensitivity import histogram, joint_mu, mean_score
from dpfast.solvers.pcn.histogram import bin_edges
from tests.loops import each
from tests.twins.seen import lengths, seen

HOSTILE = [-np.inf, -1e308, -3.0, -5e-324, 0.0, 0.5, 2.0, 1e160, 1e308, np.nan]
RESPONSES = [-np.inf, -1e300, -1.0, 0.0, 0.5, 1.0, 7.0, 1e300, np.inf, np.nan]
MATRIX = np.array([[1.0, 0.3, 0.0], [-0.2, 2.0, 1e-3], [0.5, 0.0, -7.0]])
THETA = np.array([0.2, -0.4, 0.1])

#: Any two rows of these are far, and two of them in nearly opposite or orthogonal directions.
ROWS = [(1e5, 0.0), (-1e5, 0.0), (0.0, 1e5), (0.0, -1e5), (1e200, 1.0), (1.0, -1e308)]

#: Losses as they are on the road, with a residual scale.
LOSSES = {
    "least-squares": (LeastSquares(), 1.0),
    "log-cosh": (dpfast.LogCosh(), 0.7),
    "huber": (dpfast.Huber(), 5.0),
    "quantile": (dpfast.Quantile(0.9, 0.1), 2.0),
    "logistic": (dpfast.Logistic(), 1.0),
    "poisson": (dpfast.Poisson(), 1.0),
    "gamma": (Gamma(), 1.0),
    "probit": (Probit(), 1.0),
}
QUANTITIES = ("response", "curvature", "score", "score size", "residual")


@pytest.fixture(params=LOSSES)
def loss(request):
    return request.param


def point(name, theta=THETA):
    loss, scale = LOSSES[name]
    return Linearization(np.array(theta), loss, scale)


def whitened(X, y, mu=1e9, rows=None):
    """Of arrays, responses of shape (n,) or with weights and offsets, or of records."""
    records = Records(X, y, None) if rows is None else rows
    objective = Objective(LeastSquares(), Mallows(1.0), records.n_covariates)
    return PreconditionedQueries(
        Curator(records, objective, dpfast.Ledger(mu), dpfast.SeededNoise(0))
    )


def observed_value(ask):
    """The exact value behind an answer."""

    class Watch:
        found = None

        def release(self, question, release, draw):
            if self.found is None:
                self.found = np.array(release.value, copy=True)
            return draw()

    watch = Watch()
    with observed(watch):
        ask()
    return watch.found


@lru_cache(maxsize=4)
def neighbouring(pairs, n, mapped, beside, weigh, prepare):
    """Tables that differ in their first record; what is asked next is often about the same."""
    rng, found = np.random.default_rng(1), []
    X, y = rng.normal(size=(n, 2)), (rng.random(n) < 0.5) * 1.0
    for row, response in pairs:
        X, y = X.copy(), y.copy()
        X[0], y[0] = row, response
        given = y
        if beside:
            given = np.column_stack([y, np.ones(n), np.zeros(n)])
            given[0, 1:] = beside
        rows = whitened(X, given)
        rows = rows.mapped(MATRIX) if mapped else rows
        rows = rows.weighed(weigh) if weigh else rows
        found.append(prepare(rows) if prepare else rows)
    return found


def worst(ask, pairs, n=30, mapped=True, beside=False, weigh=0.0, prepare=None):
    """Largest distance of exact answers about tables that differ in their first record."""
    with np.errstate(all="ignore"):
        rooms = neighbouring(tuple(pairs), n, mapped, beside, weigh, prepare)
        found = [observed_value(lambda rows=rows: ask(rows)) for rows in rooms]
    assert np.isfinite(found).all()
    flat = np.array(found).reshape(len(found), -1)
    return np.sqrt(((flat[:, None] - flat) ** 2).sum(axis=2)).max()


PAIRS = [
    *itertools.product([(cell, 1.0) for cell in HOSTILE], RESPONSES),
    *itertools.product(ROWS, (0.0, 1.0, 1e6)),
]
BESIDE = (False, (1.0, 0.3), (1e300, -2.0), (np.inf, 1e308), (np.nan, 0.0), (0.5, np.inf))


def test_c60_the_worst_pair_of_scores_with_their_lengths(loss):
    """In units of noise: no pair is farther apart than what both cost together, and one as far."""
    at, cells, found = point(loss), bin_edges(1)[:-1], []

    class Both:
        def __init__(self):
            self.moved = []

        def release(self, question, release, draw):
            self.moved.append(np.ravel(release.value) / release.noise_scale)
            self.cost = question[1]
            return draw()

    with np.errstate(all="ignore"):
        for rows in neighbouring(tuple(PAIRS), 30, True, False, 0.0, None):
            watch = Both()
            with observed(watch):
                rows.clipped_and_counted(at, 1.7, 0.3, cells, 0.2)
            found.append(np.concatenate(watch.moved))
    flat = np.array(found)
    move = np.sqrt(((flat[:, None] - flat) ** 2).sum(axis=2)).max()
    assert 0.99 * watch.cost <= move <= watch.cost


GRAM_RADIUS = 1.7

#: Rows as long as the radius, in any direction: with the constant 1, unmapped.
AS_LONG = [
    (
        (
            np.sqrt(GRAM_RADIUS**2 - 1.0) * np.cos(turn),
            np.sqrt(GRAM_RADIUS**2 - 1.0) * np.sin(turn),
        ),
        y,
    )
    for turn in np.linspace(0.0, 2.0 * np.pi, 73)
    for y in (-1e300, 1e300)
]


@each("mus", [(0.3, 0.3), (0.2, 0.3), (0.5, 0.3), (0.7, 0.3)])
@each("beside", [*BESIDE, "weighed"])
@each("name", ["least-squares", "logistic"])
def test_c105_a_gram_and_a_moment_cost_less_than_both(mus, beside, name):
    """In units of noise, of rows at the radius, at the cap and at 0; attained by equal weights."""
    mu_gradient, mu_hessian = mus
    at = None if name == "least-squares" else point(name, 0.0 * THETA)
    weigh, beside = (40.0, (1.0, 0.3)) if beside == "weighed" else (0.0, beside)
    small = [((x, 0.5), y) for x in (-3.0, 0.1, 3.0) for y in RESPONSES]
    cap, shift = (0.5, 0.5) if at else (1.3, 0.0)
    pairs = [*PAIRS, *small, *AS_LONG, *[(row, y > 0.0) for row, y in AS_LONG]]
    moved = []

    class Both:
        def release(self, question, release, draw):
            moved[-1].append(np.ravel(release.value) / release.noise_scale)
            self.cost = question[1]
            return draw()

    with np.errstate(all="ignore"):
        for rows in neighbouring(tuple(pairs), 30, False, beside, weigh, None):
            moved.append([])
            with observed(watch := Both()):
                budget = StepBudget(mu_gradient, mu_hessian)
                rows.gram_and_moment(GRAM_RADIUS, cap, budget, at, shift)
    flat = np.array([np.concatenate(parts) for parts in moved])
    move = np.sqrt(((flat[:, None] - flat) ** 2).sum(axis=2)).max()
    assert move <= watch.cost < math.hypot(*mus)
    if not beside and mu_gradient <= mu_hessian:
        assert move >= 0.99 * watch.cost


@each("what", QUANTITIES)
@each("mapped", [True, False])
def test_c60_the_worst_pair_of_a_histogram(loss, what, mapped):
    cells, at = bin_edges(1)[:-1], None if what == "response" else point(loss)
    move = worst(lambda rows: rows.norm_histogram(cells, 0.1, at, what), PAIRS, mapped=mapped)
    assert 0.99 * histogram(30) <= move <= histogram(30)


@pytest.mark.parametrize("beside", BESIDE)
def test_c80_weights_and_offsets_move_one_count(beside):
    """A record counts once or not at all, whatever its weight is."""
    for name in ("log-cosh", "poisson"):
        cells = bin_edges(1)[:-1]
        for what in QUANTITIES[1:]:
            move = worst(
                lambda rows, what=what, name=name, cells=cells: rows.norm_histogram(
                    cells, 0.1, point(name), what
                ),
                PAIRS[::3],
                beside=beside,
            )
            assert move <= histogram(30)


@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.one_in(2)
def test_c80_the_gram_of_a_curvature_without_a_bound_attains_its_sensitivity(loss, mapped):
    """Counts have any curvature; the others' is attained where it is largest."""
    radius, n, moves = 1.7, 30, []
    for theta in (0.0 * THETA, THETA):
        at = point(loss, theta)
        ask = lambda rows, at=at: rows.gram(radius, 0.1, at)  # noqa: E731
        moves.append(worst(ask, PAIRS, n, mapped))
    bound = whitened(np.ones((n, 2)), np.ones(n)).gram(radius, 0.1).receipt.l2_sensitivity
    assert bound == pytest.approx(2.0**0.5 * radius**2 / n, rel=1e-6)
    assert 0.99 * bound <= max(moves) <= bound


@pytest.mark.values
@pytest.mark.parametrize("beside", BESIDE)
def test_c80_no_weight_and_no_offset_takes_a_sum_beyond_its_bound(loss, beside):
    n, at = 30, point(loss)
    held = RowClipping(max_score_bound=0.3)
    rows = whitened(np.ones((n, 2)), np.ones(n)).mapped(MATRIX)
    clipped = rows.clipped(at, 1.7, 0.1).gradient.receipt
    for ask, bound in (
        (lambda rows: rows.gram(1.7, 0.1, at), rows.gram(1.7, 0.1).receipt),
        (lambda rows: rows.moment(1.7, 2.0, 0.1, at, "score"), rows.moment(1.7, 2.0, 0.1).receipt),
        (lambda rows: rows.clipped(at, 1.7, 0.1), clipped),
        (lambda rows: rows.clipped(at, 1.7, 0.1, row_clipping=held), clipped),
    ):
        assert worst(ask, PAIRS[::2], n, beside=beside) <= bound.l2_sensitivity


@pytest.mark.values
@pytest.mark.parametrize("weigh", [1e-2, 40.0, 1e200])
def test_c80_weights_that_are_seen_need_no_bound(loss, weigh):
    """They count before rows and scores are held: the constants of equal weights, attained."""
    n, at, cells = 30, point(loss), bin_edges(1)[:-1]
    rows = whitened(np.ones((n, 2)), np.ones(n)).mapped(MATRIX)
    clipped = rows.clipped(at, 1.7, 0.1).gradient.receipt
    asks = (
        (lambda rows: rows.gram(1.7, 0.1, at), rows.gram(1.7, 0.1).receipt),
        (lambda rows: rows.clipped(at, 1.7, 0.1), clipped),
        (
            lambda rows: rows.clipped(at, 1.7, 0.1, row_clipping=RowClipping(max_score_bound=40.0)),
            clipped,
        ),
        (lambda rows: rows.moment(1.7, 2.0, 0.1), rows.moment(1.7, 2.0, 0.1).receipt),
        (
            lambda rows: rows.norm_histogram(cells, 0.1, at, "score"),
            rows.norm_histogram(cells, 0.1).receipt,
        ),
        (
            lambda rows: rows.norm_histogram(cells, 0.1, what="weight"),
            rows.norm_histogram(cells, 0.1).receipt,
        ),
    )
    small = [((x, 0.5), y) for x in (-3.0, 0.1, 3.0, 300.0) for y in RESPONSES]
    for beside in BESIDE[1:]:
        pairs = [*PAIRS, *small] if beside == (1.0, 0.3) else PAIRS[::4]
        parts = [
            worst(ask, pairs, n, beside=beside, weigh=weigh) / receipt.l2_sensitivity
            for ask, receipt in asks
        ]
        assert max(parts) <= 1.0
        if weigh == 40.0 and beside == (1.0, 0.3):
            assert min(parts[:3]) >= 0.99


@pytest.mark.parametrize(("what", "shift"), [("response", 0.0), ("response", 0.5), ("score", 0.0)])
@pytest.mark.one_in(2)
def test_c80_a_moment_attains_its_sensitivity(what, shift):
    n, radius, cap = 30, 2.0, 0.5
    bound = whitened(np.ones((n, 2)), np.ones(n)).moment(radius, cap, 0.1).receipt.l2_sensitivity
    assert bound == pytest.approx(2.0 * cap * radius / n, rel=1e-6)
    moves = []
    for name in LOSSES:
        at = point(name)
        # rows of about the radius, where a weighted row is longest
        pairs = [((t, 0.0), y) for t in np.linspace(0.72, 0.78, 7) for y in RESPONSES]
        ask = lambda rows, at=at: rows.moment(radius, cap, 0.1, at, what, shift)  # noqa: E731
        moves.append(worst(ask, [*pairs, *PAIRS], n))
    assert 0.99 * bound <= max(moves) <= bound


def holds():
    at = point("least-squares")
    return {
        "free": RowClipping(),
        "discount": RowClipping(LeverageWeights(at, 1.5, 0.5, np.linalg.inv(MATRIX))),
        "discounted away": RowClipping(LeverageWeights(at, 1.5, 1.0, np.linalg.inv(MATRIX))),
        "reach": RowClipping(max_score_bound=0.8),
    }


@pytest.mark.parametrize("held", holds())
@pytest.mark.one_in(2)
def test_c80_clipped_scores_attain_their_sensitivity(loss, held):
    n, bound = 30, 1.7
    if held == "discounted away":  # of long rows next to nothing is left
        bound = 0.02
    at, held = point(loss), holds()[held]
    small = [((x, 0.5), y) for x in (-3.0, 0.1, 3.0, 300.0) for y in RESPONSES]
    ask = lambda rows: rows.clipped(at, bound, 0.1, row_clipping=held)  # noqa: E731
    if held.max_score_bound < bound:  # what is foreseen of a score is no more
        bound = 0.1
    move = worst(ask, [*small, *PAIRS], n)
    answer = (
        whitened(np.ones((n, 2)), np.ones(n))
        .mapped(MATRIX)
        .clipped(at, bound, 0.1, row_clipping=held)
    )
    sensitivity = answer.gradient.receipt.l2_sensitivity
    assert sensitivity == pytest.approx(2.0 * bound / n, rel=1e-6)
    assert 0.99 * sensitivity <= move <= sensitivity


def test_c60_the_meat_of_clipped_scores_is_free():
    """Squared distances in units of noise: 2e5 random pairs in the ball, the worst ones too."""
    assert joint_mu("independent", 1.0, 0.0, 0.5) == pytest.approx(1.0, rel=1e-12)
    assert joint_mu("independent", 1.0, 0.0, 0.6) > 1.001
    rng = np.random.default_rng(3)
    s, t = rng.normal(size=(2, 200_000, 3))
    s /= np.linalg.norm(s, axis=1)[:, None]
    t /= np.linalg.norm(t, axis=1)[:, None]
    t *= rng.random((len(t), 1)) ** rng.choice([0.01, 1.0], (len(t), 1))
    inner = np.einsum("ij,ij->i", s, t)
    scores = 1.0 + np.einsum("ij,ij->i", t, t) - 2.0 * inner
    outer = 1.0 + np.einsum("ij,ij->i", t, t) ** 2 - 2.0 * inner**2
    assert np.max(scores / 4.0 + 0.25 * outer / 2.0) <= 1.0 + 1e-12  # mu_meat = mu/2
    assert scores.max() / 4.0 > 0.99  # opposite scores: attained
    rows = whitened(np.zeros((50, 1)), np.zeros(50), mu=1.0 + 1e-9)
    rows.clipped(Linearization(np.zeros(2), LeastSquares()), 1.0, 1.0, 0.5)
    with pytest.raises(BudgetExceeded):
        rows.gram(1.0, 1e-3)


# ---- what is asked is what is answered -----------------------------------------------------------


def formulas(name, y, eta):
    """Score, curvature and foreseen score, from first principles."""
    loss, s = LOSSES[name]
    r = (y - eta) / s
    if name == "least-squares":
        return y - eta, 1.0 + 0 * eta, 1.0 + 0 * eta
    if name == "log-cosh":
        c = loss.c
        return s * c * np.tanh(r / c), np.cosh(r / c) ** -2.0, c + 0 * eta
    if name == "huber":
        return s * np.clip(r, -loss.c, loss.c), (np.abs(r) <= loss.c) * 1.0, loss.c + 0 * eta
    if name == "quantile":
        p = 1.0 / (1.0 + np.exp(-r / 0.1))
        return s * (p - 0.1), p * (1.0 - p) / 0.1, 0.9 + 0 * eta
    if name == "logistic":
        p = 1.0 / (1.0 + np.exp(-eta))
        return y - p, p * (1.0 - p), np.maximum(p, 1.0 - p)
    if name == "gamma":
        return y / np.exp(eta) - 1.0, y / np.exp(eta), 1.0 + 0 * eta
    if name == "probit":
        density, sign = np.exp(-0.5 * eta**2) / np.sqrt(2.0 * np.pi), 2.0 * y - 1.0
        psi = sign * density / ndtr(sign * eta)
        return psi, psi * (psi + eta), density / ndtr(-np.abs(eta))
    return y - np.exp(eta), np.exp(eta), np.exp(eta / 2.0)


def table(how, n=50):
    """Records, their design, responses, weights and offsets."""
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(n, 2)), (rng.random(n) < 0.4) * 1.0
    weights, offsets = np.ones(n), np.zeros(n)
    given = y
    if "beside" in how:
        weights, offsets = rng.uniform(0.1, 1.0, n), rng.normal(size=n)
        given = np.column_stack([y, weights, offsets])
    records = Records(X, given, None)
    if "file" in how:
        sparse = pytest.importorskip("scipy.sparse")
        from dpfast.data.record_weights.joined import WeightLayout, weighted_records

        records = as_records(sparse.csr_matrix(X), y)
        if "beside" in how:
            records = weighted_records(records, WeightLayout(1.0, 1.0, True), weights, offsets)
    return records, np.column_stack([np.ones(n), X]), y, weights, offsets


HOW = ("arrays", "arrays beside", "arrays weighed", "file", "file beside")


@each("mapped", [0, 1, 2])
@each("how", HOW)
def test_c80_answers_are_about_what_they_say(loss, how, mapped):
    """In memory, or in a file; an offset joins the predictor once; weights may be seen."""
    weigh = 2.5 * ("weighed" in how)
    records, a, y, w, offsets = table(how.replace("weighed", "beside"))
    rows, back, given = whitened(None, None, rows=records), np.eye(3), w
    rows, v, w = (rows.weighed(weigh), weigh * w, 0.0 * w + 1.0) if weigh else (rows, 1.0, w)
    for _ in range(mapped):
        rows, back = rows.mapped(MATRIX), back @ MATRIX
    a, n, at, radius = a @ back, len(y), point(loss), 1.4
    psi, curvature, foreseen = [v * part for part in formulas(loss, y, a @ THETA + offsets)]
    long = np.linalg.norm(a, axis=1)

    gram = observed_value(lambda: rows.gram(radius, 0.1, at))
    held = w * np.minimum(curvature, radius**2 / long**2)
    np.testing.assert_allclose(gram, (a * held[:, None]).T @ a / n, rtol=1e-9, atol=1e-12)

    moment = observed_value(lambda: rows.moment(radius, 0.3, 0.1, at, "response", 0.5))
    one = w * v**0.5 * np.minimum(1.0, radius**2 / (v * long**2))
    one = one * np.clip(v**0.5 * (y - 0.5), -0.3, 0.3)
    np.testing.assert_allclose(-moment, one @ a / n, rtol=1e-9, atol=1e-12)

    both, budget = [], StepBudget(1e5, 1e5)
    both += rows.gram_and_moment(radius, 0.3, budget, at, 0.5)
    np.testing.assert_allclose(both[1].value, one @ a / n, rtol=1e-6, atol=1e-5)
    held = w * np.minimum(v, radius**2 / long**2)
    np.testing.assert_allclose(both[0].value, (a * held[:, None]).T @ a / n, rtol=1e-6, atol=1e-5)

    for held in (
        RowClipping(),
        RowClipping(max_score_bound=0.7),
        RowClipping(LeverageWeights(at, 0.6, 0.5, MATRIX)),
    ):
        factor = np.ones(n)
        if held.max_score_bound < np.inf:
            factor = np.minimum(1.0, 0.7 / (long * foreseen))
        elif held.leverage_weights is not None:
            size = np.linalg.norm(a @ MATRIX, axis=1) * np.sqrt(curvature)
            factor = np.minimum(1.0, 0.6 / np.maximum(size, 1e-300))
        clipped = observed_value(lambda held=held: rows.clipped(at, 0.9, 0.1, row_clipping=held))
        scores = a * (psi * factor)[:, None]
        norms = np.maximum(np.linalg.norm(scores, axis=1), 1e-300)
        scores *= (w * np.minimum(1.0, 0.9 / norms))[:, None]
        np.testing.assert_allclose(-clipped, scores.mean(axis=0), rtol=1e-9, atol=1e-12)
        shares = observed_value(
            lambda held=held: rows.norm_histogram(bin_edges(2)[:-1], 0.1, at, "score", held)
        )
        cells = np.searchsorted(bin_edges(2)[:-1], norms)
        assert (np.round(n * shares) == np.bincount(cells, minlength=len(shares))).all()

    of = {"curvature": long * np.sqrt(curvature), "score size": long * foreseen}
    of |= {"residual": np.abs(y - a @ THETA - offsets), "response": long * v**0.5}
    of["weight"] = given * (weigh or 1.0)
    for what, sizes in of.items():
        shares = observed_value(
            lambda what=what: rows.norm_histogram(bin_edges(2)[:-1], 0.1, at, what)
        )
        cells = np.searchsorted(bin_edges(2)[:-1], sizes)
        assert (np.round(n * shares) == np.bincount(cells, minlength=len(shares))).all()


def test_c80_turned_rows_are_turned_back(loss, monkeypatch):
    """Answers are those about rows that are not; at noise that is next to nothing."""
    records, *_ = table("arrays beside")
    at, found = point(loss), []
    for turned in (0, 10**9):
        monkeypatch.setattr("dpfast.curator.preconditioned.MIN_ROTATED_ENTRIES", turned)
        rows = whitened(None, None, 1e9, rows=records).mapped(MATRIX).mapped(MATRIX.T + 1.0)
        assert (rows._rotated is None) == bool(turned)
        asked = [rows.gram(1.4, 1e5, at).value, rows.moment(1.4, 0.3, 1e5, at).value]
        both = rows.gram_and_moment(1.4, 0.3, StepBudget(1e5, 1e5), at)
        asked += [answer.value for answer in both]
        for held in (
            RowClipping(),
            RowClipping(max_score_bound=0.7),
            RowClipping(LeverageWeights(at, 0.6, 0.5, MATRIX)),
        ):
            score, _, meat, _ = rows.clipped(at, 0.9, 1e5, 4e4, held)
            asked += [
                score.value,
                meat.value,
                rows.norm_histogram(bin_edges(2)[:-1], 1e5, at, "score", held).value,
            ]
        asked += [
            rows.norm_histogram(bin_edges(2)[:-1], 1e5, at, what).value
            for what in ("curvature", "residual")
        ]
        asked.append(
            rows.norm_histogram(bin_edges(2)[:-1], 1e5, at, "score", direction=THETA).value
        )
        asked.append(np.array(mean_along(rows, THETA, 1.0, 1e3, rows._curator.ledger, at)))
        found.append(asked)
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def keep(rows):
    """Rows whose lengths are kept, which some query has asked for."""
    rows.norm_histogram(bin_edges(1)[:-1], 1e-3, point("log-cosh"), "score size")
    assert rows._rotated.squares is not None
    return rows


@pytest.fixture
def kept(monkeypatch):
    """However few the records are."""
    monkeypatch.setattr("dpfast.curator.preconditioned.MIN_ROTATED_ENTRIES", 0)


@pytest.mark.parametrize("reach", [np.inf, 0.8])
@pytest.mark.one_in(2)
def test_c94_sums_of_kept_lengths_attain_their_sensitivity(loss, reach, kept):
    n, at, held = 30, point(loss), RowClipping(max_score_bound=reach)
    bound = 1.7 if reach == np.inf else 0.1  # what is foreseen of a score is no more
    small = [((x, 0.5), y) for x in (-3.0, 0.1, 3.0, 300.0) for y in RESPONSES]
    pairs = [*small, *PAIRS, *[((x, 1.0), y) for x in (1e90, -1e90) for y in RESPONSES]]
    rows = keep(whitened(np.ones((n, 2)), np.ones(n)).mapped(MATRIX))
    answer, gram = rows.clipped(at, bound, 0.1, 0.05, held), rows.gram(bound, 0.1, at)
    move = worst(
        lambda rows: rows.clipped(at, bound, 0.1, row_clipping=held), pairs, n, prepare=keep
    )
    sensitivity = answer.gradient.receipt.l2_sensitivity
    assert 2.0 * bound / n < sensitivity <= 2.0 * bound / n * (1.0 + 1e-9)
    assert 0.99 * sensitivity <= move <= sensitivity
    moves = [
        worst(lambda rows, there=there: rows.gram(bound, 0.1, there), pairs, n, prepare=keep)
        for there in (at, point(loss, 0.0 * THETA))
    ]
    assert 0.99 * gram.receipt.l2_sensitivity <= max(moves) <= gram.receipt.l2_sensitivity


def test_c94_sums_of_kept_lengths_are_those_of_rows(loss, monkeypatch):
    """Of all that is asked, and of records that cannot count."""
    records, *_ = table("arrays")
    records.X[3, 0], records.X[4, 1], records.y[5] = np.nan, np.inf, np.nan
    records.X[6] = 1e120, 1.0  # beyond what is kept: counts for nothing in either
    records.y[6] = np.nan
    at, found = point(loss), []
    for turned in (0, 10**9):
        monkeypatch.setattr("dpfast.curator.preconditioned.MIN_ROTATED_ENTRIES", turned)
        rows = whitened(None, None, 1e9, rows=records).mapped(MATRIX).mapped(MATRIX.T + 1.0)
        asks = [
            lambda what=what, held=held, rows=rows: rows.norm_histogram(
                bin_edges(2)[:-1], 0.1, at, what, held
            )
            for what in QUANTITIES[1:]
            for held in (RowClipping(), RowClipping(max_score_bound=0.7))
        ]
        asks += [
            lambda rows=rows, held=held: rows.clipped(at, 0.9, 0.1, row_clipping=held)
            for held in (RowClipping(), RowClipping(max_score_bound=0.7))
        ]
        asks += [lambda rows=rows: rows.gram(1.4, 0.1, at)]
        first = [observed_value(ask) for ask in asks]
        assert (rows._rotated is not None and rows._rotated.squares is not None) == (turned == 0)
        again = [observed_value(ask) for ask in asks]  # by lengths alone
        meat = rows.clipped(at, 0.9, 1e5, 4e4).meat.value
        found.append([*again, meat])
        for one, other in zip(first, again, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)
    turn = whitened(None, None, rows=records)
    monkeypatch.setattr("dpfast.curator.preconditioned.MIN_ROTATED_ENTRIES", 0)
    turn = turn.mapped(MATRIX).mapped(MATRIX.T + 1.0)._rotated._rotation
    counts = 2 * len(QUANTITIES[1:])
    for one, other in zip(found[0][:counts], found[1][:counts], strict=True):
        assert np.array_equal(one, other)
    for k in (counts, counts + 1):  # what is released of turned rows is turned back afterwards
        np.testing.assert_allclose(turn @ found[0][k], found[1][k], rtol=1e-6, atol=1e-7)
    back = turn @ found[0][-2] @ turn.T
    np.testing.assert_allclose(back, found[1][-2], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(found[0][-1], found[1][-1], atol=1e-5)


def test_c94_an_uneven_map_is_allowed_for_or_made(kept):
    """Depth times the map's longest over its shortest, squared of matrices; where that would be
    much, or lengths are of another size, rows are made."""
    records, *_ = table("arrays")
    rows, at = whitened(None, None, rows=records), point("log-cosh")
    for stretch in (1.0, 30.0, 1e3):
        some = keep(rows.mapped(np.diag([1.0, stretch, 1.0])))
        plain, depth = some._layout._replace(mapped=False), some._rotated.unmapped.depth
        for want in (GRADIENT, HESSIAN, MEAT, GRADIENT | MEAT):
            allowed = stretch**2 * (plain.depth(want) + 2 * math.ceil(3**1.5) + 4)
            assert allowed <= depth(want) <= 1.1 * (allowed + 1e3)
        score = some.clipped(at, 1.7, 0.1, 0.05).gradient.receipt
        assert score.l2_sensitivity == mean_score(3.4, 50, depth=depth(GRADIENT | MEAT))
    for matrix in (np.diag([1.0, 2.0**30, 1.0]), 1e60 * np.eye(3), np.zeros((3, 3)), MATRIX[:, :2]):
        some = rows.mapped(matrix)
        some.norm_histogram(
            bin_edges(1)[:-1], 0.1, point("log-cosh", np.zeros(matrix.shape[1])), "score"
        )
        assert some._rotated is None or some._rotated.squares is some._rotated.unmapped is None
    some = keep(rows.mapped(MATRIX))
    assert some._rotated.layout(some._view("score", at), 1e10, 0.0) is some._rotated.unmapped
    assert some._rotated.layout(some._view("score", at), 1e60, 0.0) is some._layout
    assert some._rotated.layout(some._view("score", at), 1.0, 2.0) is some._layout
    discount = RowClipping(LeverageWeights(at, 0.6, 0.5, MATRIX))
    assert (
        some._rotated.layout(some._view("score", at, row_clipping=discount), 1.0, 0.0)
        is some._layout
    )
    assert some.mapped(MATRIX)._rotated.squares is None
    beside, *_ = table("arrays beside")
    assert whitened(None, None, rows=beside).mapped(MATRIX)._rotated.unmapped is None


@pytest.mark.pairs
@pytest.mark.parametrize("layout", ["rows", "columns", "float32", "strided"])
@pytest.mark.parametrize("what", QUANTITIES)
def test_c80_other_rows_keep_their_bits(loss, layout, what):
    rng = np.random.default_rng(4)
    held = (
        RowClipping(max_score_bound=0.7)
        if what == "score" and loss == "logistic"
        else RowClipping()
    )
    for n in (2, 5, 64, 1001):
        X = rng.normal(size=(n, 6))
        if layout == "columns":
            X = np.asfortranarray(X)
        elif layout == "float32":
            X = X.astype(np.float32)
        elif layout == "strided":
            X = rng.normal(size=(n, 12))[:, ::2]
        y, matrix = (rng.random(n) < 0.5) * 1.0, rng.normal(size=(7, 7))
        at = Linearization(rng.normal(size=7), *LOSSES[loss])
        views = [
            TransformedView(matrix, True, what, at, 0.0, held),
            TransformedView(None, True, what, at, 0.0, held),
        ]
        with np.errstate(over="ignore"):
            for hostile, view in itertools.product((np.nan, np.inf, 1e300, 0.0), views):
                changed = X.copy(order="K")
                if layout == "strided":
                    changed = np.repeat(X, 2, axis=1)[:, ::2]
                changed[n // 2] = hostile
                others = np.arange(n) != n // 2
                found = [(*seen(x, y, view), lengths(x, y, view)) for x in (X, changed)]
                for before, after in zip(*found, strict=True):
                    assert np.array_equal(before[others], after[others], equal_nan=True)


@pytest.mark.values
@pytest.mark.parametrize("layout", ["rows", "columns", "float32"])
@pytest.mark.parametrize(("q", "p"), [(1, 1), (2, 3), (5, 1), (5, 5), (12, 13), (17, 17), (40, 7)])
@pytest.mark.parametrize("intercept", [True, False])
def test_c47_a_mapped_row_is_the_same_bits_in_every_slot(q, p, layout, intercept):
    """In tables of any length, among any others; so are its length and that of its score."""
    rng = np.random.default_rng(q)
    row = rng.normal(size=q).astype(np.float32)
    matrix, theta = rng.normal(size=(q + intercept, p)), 1e16 * rng.normal(size=p)
    at, back = Linearization(theta, LeastSquares()), rng.normal(size=(p, p))
    views = [
        TransformedView(matrix, intercept),
        TransformedView(matrix, intercept, "score", at),
        TransformedView(
            matrix, intercept, "score", Linearization(theta / 1e16, dpfast.LogCosh(), 0.7)
        ),
        TransformedView(
            matrix, intercept, "curvature", Linearization(theta / 1e16, dpfast.LogCosh(), 0.7)
        ),
        TransformedView(
            matrix,
            intercept,
            "score",
            at,
            row_clipping=RowClipping(LeverageWeights(at, 0.9, 0.5, back)),
        ),
    ]
    found = set()
    for n in (1, 2, 3, 37, 300, 4095, 4096, 4097, 4133, 9000):
        slots = list({0, 1, n // 3, n // 2, n - 2, n - 1} & set(range(n)))
        X, y = rng.normal(size=(n, q)).astype(np.float32), np.full(n, np.nan)
        X[slots], y[slots] = row, 3.0
        X = X if layout == "float32" else X.astype(np.float64)
        X = np.asfortranarray(X) if layout == "columns" else X
        for k, view in enumerate(views):
            (rows, responses), far = seen(X, y, view), lengths(X, y, view)
            found |= {(k, rows[slot].tobytes(), responses[slot], far[slot]) for slot in slots}
    assert len(found) == len(views)


@pytest.mark.parametrize("loss", ["least-squares", "log-cosh", "logistic"])
def test_a_record_that_is_not_finite_counts_in_no_answer(loss):
    """Nor one with a response that the loss cannot have, with no weight or with a bad offset."""
    X, y = np.ones((20, 2)), np.column_stack([np.ones(20), np.ones(20), np.zeros(20)])
    usable = np.ones(20, dtype=bool)
    X[3, 1], X[4, 0], y[5, 0], y[6, 0] = np.nan, np.inf, -np.inf, np.nan
    usable[3:7] = False
    if loss == "logistic":
        y[7, 0], y[8, 0], usable[7:9] = 2.0, 0.5, False
    at, cells, kept = point(loss), bin_edges(1)[:-1], usable.sum()
    table = [whitened(X, y), whitened(X[usable], y[usable])]
    # without a zero in the matrix an infinite entry stays one, longer than all edges
    for matrix in (None, MATRIX, MATRIX + 9.0):
        rows, rest = [one if matrix is None else one.mapped(matrix) for one in table]
        for what in QUANTITIES[1:]:
            shares = observed_value(
                lambda what=what, rows=rows: rows.norm_histogram(cells, 1.0, at, what)
            )
            assert shares.sum() * 20 == pytest.approx(kept)
        for ask in (
            lambda rows: rows.gram(1e3, 0.1, at),
            lambda rows: rows.moment(1.0, 2.0, 0.1, at, "score"),
            lambda rows: rows.moment(1.0, 2.0, 0.1, at, "response", 0.5),
            lambda rows: rows.gram_and_moment(1.0, 2.0, StepBudget(0.1, 0.2), at, 0.5),
            lambda rows: rows.clipped(at, 1.0, 0.1),
        ):
            found = observed_value(lambda ask=ask, rows=rows: ask(rows))
            alone = observed_value(lambda ask=ask, rest=rest: ask(rest))
            np.testing.assert_allclose(20 * found, kept * alone, rtol=1e-9, atol=1e-12)
        if matrix is not None:  # however a product treats zero times infinity
            _, response = seen(X, y, TransformedView(matrix, True, "response"))
            assert np.isnan(response[3:5, 0]).all()
    shares = observed_value(lambda: table[0].norm_histogram(cells, 1.0))
    assert shares.sum() * 20 == pytest.approx(16.0)  # whatever the loss


@each("matrix", [np.inf, np.nan, 1e308, 0.0])
def test_released_numbers_of_any_size_leave_finite_answers(loss, matrix):
    rng = np.random.default_rng(6)
    rows = whitened(rng.normal(size=(20, 2)), np.ones(20)).mapped(np.full((3, 3), matrix))
    with np.errstate(all="ignore"):
        for theta in ([1e308] * 3, [np.inf] * 3, [np.nan] * 3, [5e-324] * 3):
            at = point(loss, theta)
            held = RowClipping(LeverageWeights(at, 1.0, 1.0, np.full((3, 3), 1e308)))
            for ask in (
                lambda at=at: rows.gram(1.0, 0.1, at),
                lambda at=at: rows.moment(1.0, 1.0, 0.1, at, "score"),
                lambda at=at, held=held: rows.clipped(at, 1.0, 0.1, 0.05, held),
                lambda at=at: rows.norm_histogram(bin_edges(1)[:-1], 0.1, at, "score"),
            ):
                assert np.isfinite(observed_value(ask)).all()


# ---- where records are, and who pays -------------------------------------------------------------


def test_what_is_seen_on_other_machines_can_be_sent_there(loss):
    X, y, edges = np.ones((9, 2)), np.ones(9), bin_edges(1)[:-1]
    view = compiled(TransformedView(MATRIX, True, "score", point(loss), 0.0, holds()["discount"]))
    kernel = RecordKernel(*Objective(LeastSquares(), Mallows(2.0), 3, fit_intercept=False)
                          .kernel_arguments())  # fmt: skip
    sent, also, counts = pickle.loads(pickle.dumps((kernel.sums, view, view.counts)))
    here = kernel.sums(X, y, np.zeros(3), GRADIENT | MEAT, 1.0, 1, view)
    there = sent(X, y, np.zeros(3), GRADIENT | MEAT, 1.0, 1, also)
    assert np.array_equal(here[0], there[0]) and np.array_equal(here[2], there[2])
    assert np.array_equal(counts(X, y, edges), view.counts(X, y, edges))


@pytest.mark.parametrize("again", [True, False])
def test_scores_and_their_lengths_are_of_one_reading(loss, again):
    """The answers of both, bit for bit, at what both cost; read once where records are read."""
    rng, edges, far = np.random.default_rng(3), bin_edges(1)[:-1], RowClipping(max_score_bound=0.7)
    X, y = rng.normal(size=(40, 2)), 1.0 * rng.poisson(1.0, size=40)
    at, objective = point(loss), Objective(LeastSquares(), Mallows(1.0), 2)
    rows, ledgers, reads = [], [], []
    for _ in range(2):
        records = as_records(X, y)
        if again:
            blocks = [(X[:20], y[:20]), (X[20:], y[20:])]
            records = StreamedRecords(blocks.__getitem__, [20, 20], 2, None)
        ledgers.append(dpfast.Ledger(dpfast.GDP(1.0)))
        reads.append(records)
        curator = Curator(records, objective, ledgers[-1], dpfast.SeededNoise(4))
        rows.append(PreconditionedQueries(curator).mapped(MATRIX))
    apart = (
        rows[0].clipped(at, 1.5, 0.3, row_clipping=far).gradient,
        rows[0].norm_histogram(edges, 0.2, at, "score", far),
    )
    together = rows[1].clipped_and_counted(at, 1.5, 0.3, edges, 0.2, far)
    for one, other in zip(apart, together, strict=True):
        assert one.value.tobytes() == other.value.tobytes() and one.receipt == other.receipt
    assert [records.reads for records in reads] == ([2, 1] if again else [None, None])
    ((label, cost, _),) = ledgers[1]._entries
    assert label == "gradient + histogram of lengths"
    assert math.hypot(0.3, 0.2) <= cost.mu <= math.hypot(0.3, 0.2) * (1.0 + 1e-14)


ASKED = {
    "gram": (2.0, 0.1),
    "curvature": (2.0, 0.1, point("poisson")),
    "moment": (2.0, 3.0, 0.1),
    "norm_histogram": (bin_edges(1)[:-1], 0.1),
    "clipped": (point("poisson"), 1.5, 0.1),
}
BOTH = "clipped_and_counted", (point("poisson"), 1.5, 0.1, bin_edges(1)[:-1], 0.1)


def reserved_cost(rows, ask):
    return getattr(rows, "gram" if ask == "curvature" else ask)(*(ASKED | dict([BOTH]))[ask])


@pytest.mark.parametrize("ask", [*ASKED, BOTH[0]])
@pytest.mark.parametrize("mapped", [True, False])
def test_an_answer_that_cannot_be_paid_reads_nothing(ask, mapped, monkeypatch):
    rows = whitened(np.ones((20, 2)), np.ones(20), mu=1e-3)
    rows = rows.mapped(MATRIX) if mapped else rows

    def never(*arguments, **options):
        raise AssertionError("the records were read")

    monkeypatch.setattr("dpfast.data.records.Records.total", never)
    with pytest.raises(BudgetExceeded):
        reserved_cost(rows, ask)


@each("ask", ASKED)
def test_answers_carry_the_noise_of_their_receipts(ask):
    """Seeded; 20 answers, from which the next map follows, about their exact values: at least 60
    normal deviates, whose mean square leaves (0.35, 2.2) less than once in a million runs."""
    rng = np.random.default_rng(8)
    rows = whitened(rng.normal(size=(200, 2)), 1.0 * rng.poisson(1.0, size=200))
    found = []

    def asked():
        answer = reserved_cost(rows, ask)
        found.append(answer.gradient if ask == "clipped" else answer)

    sign = -1.0 if ask in ("moment", "clipped") else 1.0
    squares = []
    for _ in range(20):
        exact = sign * observed_value(asked)
        value = found[-1].value
        if ask in ("gram", "curvature"):
            exact, value = np.diag(exact) if exact.ndim == 2 else exact[:3], np.diag(value)
        squares.append(((value - exact) / found[-1].noise_scale) ** 2)
    assert np.size(squares) >= 60 and 0.35 < np.mean(squares) < 2.2
