"""What the kernels see of records under a map, beside NumPy's way of saying it (the twin)."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest

import dpfast
from dpfast.curator.preconditioned import compiled
from dpfast.data.scaling.maps import (
    NO_CLIPPING,
    LeverageWeights,
    Linearization,
    RowClipping,
    TransformedView,
    zero_and_identity,
)
from dpfast.data.scaling.units import ReleasedScales
from dpfast.kernels import records as kernels
from dpfast.kernels.records import GRADIENT, HESSIAN, MEAT, SQUARES, VIEW, RecordKernel, RecordView
from dpfast.models import Gamma, LeastSquares, Probit
from tests.twins.seen import count_lengths, lengths, scores, seen

LOSSES = {
    "least-squares": (LeastSquares(), 1.0),
    "log-cosh": (dpfast.LogCosh(), 0.7),
    "huber": (dpfast.Huber(), 5.0),
    "pseudo-huber": (dpfast.models.PseudoHuber(), 2.0),
    "quantile": (dpfast.Quantile(0.9, 0.1), 2.0),
    "logistic": (dpfast.Logistic(), 1.0),
    "poisson": (dpfast.Poisson(), 1.0),
    "gamma": (Gamma(), 1.0),
    "probit": (Probit(), 1.0),
    "poisson of small means": (dpfast.Poisson(1.5, 2.0), 1.0),
}

#: Squares with Mallows weights, and held to a norm of 0.9.
WEIGHTED = RecordKernel(0, 2.0, 1.0, 1, 1.3, False)
CLIPPED = RecordKernel(0, 1e100, 1.0, 2, 0.9, False)
MALLOWS = RecordKernel(0, 1e100, 1.0, 1, 1.3, False)
ASKED = [(WEIGHTED, GRADIENT | HESSIAN), (WEIGHTED, HESSIAN), (WEIGHTED, GRADIENT)]
ASKED += [(CLIPPED, GRADIENT | MEAT), (CLIPPED, GRADIENT)]

EDGES = np.exp2(np.arange(-12, 40) / 2.0)

#: Columnar blocks and blocks of rows, whole and broken ones.
SIZES = [(1, 1), (7, 2), (300, 3), (515, 19), (333, 23), (200, 24), (150, 40), (40, 100)]


pytestmark = pytest.mark.one_source


@pytest.fixture(params=kernels._available_isas())
def isa(request):
    kernels._set_isa(request.param)
    yield request.param
    kernels._set_isa("")


def table(n, q, rng, *, beside=False, dtype=np.float64, order="C"):
    """Records of which some cannot count, whatever is asked."""
    X = np.asarray(rng.normal(size=(n, q)).astype(dtype), order=order)
    y = (rng.random(n) < 0.5) * 1.0
    if n > 20:
        X[3, 0], X[5, -1], y[7], y[9], X[11, 0] = np.nan, np.inf, np.nan, 0.5, 1e30
        y[18], y[19] = np.inf, -np.inf
    if beside:
        y = np.column_stack([y, rng.uniform(0.1, 1.5, n), rng.normal(size=n)])
        if n > 20:
            y[13, 1], y[15, 1], y[17, 2] = 0.0, np.nan, np.inf
    return X, y


def views(name, W, theta):
    loss, scale = LOSSES[name]
    at = Linearization(theta, loss, scale)
    yield TransformedView(W, True, "response", at, 0.25)
    for what in ("curvature", "score", "score size", "residual"):
        yield TransformedView(W, True, what, at)
    yield TransformedView(W, True, "score", at, row_clipping=RowClipping(max_score_bound=0.3))
    if loss.link == "identity":
        far = Linearization(0.5 * theta, loss, 1.5 * scale)
        discount = LeverageWeights(far, 0.8, 0.75, np.linalg.inv(W))
        yield TransformedView(W, True, "score", at, row_clipping=RowClipping(discount))


def raw_views(name, W, theta, intercept=True):
    """Views whose predictors are those of the design row, not of the mapped one."""
    loss, scale = LOSSES[name]
    at = Linearization(theta, loss, scale, raw=True)
    for what in ("curvature", "score", "score size", "residual"):
        yield TransformedView(W, intercept, what, at)
    yield TransformedView(W, intercept, "score", at, row_clipping=RowClipping(max_score_bound=0.3))


def assert_alike(X, y, view, units=None):
    """Sums and counts of the kernels, and those of what NumPy makes of the records."""
    kernel_view = compiled(view, units)
    if units is not None:
        X, y, raw = *units.coded(np.asarray(X, np.float64), y), (X, y)
    else:
        raw = X, y
    found = lengths(X, y, view)
    cells = np.searchsorted(EDGES, found[~np.isnan(found)])
    counts = kernel_view.counts(*raw, EDGES, 1)
    expected = np.bincount(cells, minlength=len(EDGES) + 1)
    assert abs(counts - expected).sum() <= 2  # a length may be within a rounding of an edge
    assert counts.sum() == expected.sum()
    for kernel, want in ASKED[::4]:
        asked = *raw, np.zeros(view.matrix.shape[1]), want, len(X), 1, kernel_view
        assert_counted_in_the_same_pass(kernel, asked, counts)
    if view.what in ("score size", "residual"):
        return
    rows, numbers = seen(X, y, view)
    zero = np.zeros(rows.shape[1])
    for kernel, want in ASKED:
        there = kernel.sums(rows, numbers, zero, want, len(X), 1)
        for a, b in zip(there, kernel.sums(*raw, zero, want, len(X), 1, kernel_view), strict=True):
            if a is not None:
                np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-9 * max(1.0, abs(a).max()))


def assert_counted_in_the_same_pass(kernel, asked, counts):
    """The bits of sums and counts that are asked apart."""
    *sums, cells = kernel.sums(*asked, EDGES)
    assert cells.tolist() == counts.tolist()
    for a, b in zip(sums, kernel.sums(*asked), strict=True):
        assert a is b is None or a.tobytes() == b.tobytes()


@pytest.mark.values
@pytest.mark.parametrize(("n", "q"), SIZES)
@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("losses", [[*LOSSES][:5], [*LOSSES][5:]], ids=["first", "last"])
def test_sums_and_counts_are_those_of_the_twin(isa, n, q, beside, losses):
    rng = np.random.default_rng([n, q])
    W, theta = rng.normal(size=(q + 1, q + 1)) / (q + 1) ** 0.5, 0.3 * rng.normal(size=q + 1)
    X, y = table(n, q, rng, beside=beside)
    for name in losses:
        for view in views(name, W, theta):
            assert_alike(X, y, view)
    assert_alike(X, y, TransformedView(W, True))  # without a loss: less the offset


@pytest.mark.values
@pytest.mark.parametrize(("n", "q"), SIZES)
@pytest.mark.parametrize("intercept", [True, False])
def test_predictors_of_design_rows_are_those_of_the_twin(isa, n, q, intercept):
    """Maps to fewer columns than the design has, and to more; parameters are of the design."""
    rng = np.random.default_rng([n, q])
    theta = 0.3 * rng.normal(size=q + intercept)
    X, y = table(n, q, rng, beside=q % 2 == 1)
    for columns in {1, max(1, q - 1), q + 3}:
        W = rng.normal(size=(q + intercept, columns)) / (q + 1) ** 0.5
        for name in ("least-squares", "logistic", "log-cosh"):
            for view in raw_views(name, W, theta, intercept):
                assert_alike(X, y, view)
    identity = zero_and_identity(q + intercept)[1]
    for view in raw_views("least-squares", identity, theta, intercept):
        assert_alike(X, y, view)


@pytest.mark.parametrize(("q", "columns"), [(2, 2), (30, 2), (30, 25)])
def test_predictors_of_design_rows_are_of_one_record(isa, q, columns):
    """Bits do not depend on place or neighbours; entries that are not finite count as missing."""
    rng = np.random.default_rng(q)
    W, theta = rng.normal(size=(q + 1, columns)), rng.normal(size=q + 1)
    zero = np.zeros(columns)
    W[-1], theta[-1] = 1e-300, 2.0
    at = Linearization(theta, LeastSquares(), raw=True)
    view = compiled(TransformedView(W, True, "score", at))
    row, sums = rng.normal(size=q), set()
    for n in (1, 8, 9, 129, 300):
        for slot in {0, n // 2, n - 1}:
            X, y = rng.normal(size=(n, q)), np.full(n, np.nan)
            X[slot], y[slot] = row, 1.0
            found = CLIPPED.sums(X, y, zero, GRADIENT | MEAT, 1.0, 1, view)
            sums.add(found[0].tobytes() + found[2].tobytes())
    assert len(sums) == 1
    for wrong in (np.nan, np.inf, -np.inf, 1.7e308):  # of the last the predictor alone is infinite
        X, missing = np.tile(row, (3, 1)), np.array([1.0, np.nan, 1.0])
        without = CLIPPED.sums(X, missing, zero, GRADIENT, 1.0, 1, view)
        X[1, -1] = wrong
        found = CLIPPED.sums(X, np.ones(3), zero, GRADIENT, 1.0, 1, view)
        np.testing.assert_allclose(found[0], without[0], rtol=1e-14)  # sums may round otherwise


@pytest.mark.values
@pytest.mark.parametrize(("n", "q"), SIZES)
def test_scores_of_groups_are_those_of_the_twin(isa, n, q):
    """Of all groups, and of some of them; and lengths of rows that count in parts."""
    rng = np.random.default_rng([n, q])
    W, theta = rng.normal(size=(q + 1, q + 1)) / (q + 1) ** 0.5, 0.3 * rng.normal(size=q + 1)
    X, y = table(n, q, rng, beside=True)
    groups, whole = n // 3 + 1, 2.0**40
    whose = rng.integers(-1, groups, n)
    for name in ("least-squares", "quantile", "logistic"):
        for view in (one for one in views(name, W, theta) if one.what == "score"):
            wanted, who = scores(X, y, whose, groups, 0.4, view)
            found, told = np.zeros((groups, q + 1)), np.zeros(groups, dtype=bool)
            for first in range(0, groups, 5):  # whole numbers, off by what 1 + 1e-10 rounds to
                some = slice(first, first + 5)
                compiled(view).add_scores(X, y, whose, first, 0.4, found[some], told[some])
            assert np.array_equal(told, who)
            np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10 * 2.0**44)
            assert np.array_equal(found, np.rint(found))
        for view in views(name, W, theta):
            counts = compiled(view).counts(X, y, EDGES, 1, whole)
            expected = count_lengths(X, y, EDGES, view, whole)
            assert counts.sum() == expected.sum()
            assert abs(counts - expected).sum() <= 2.0 * whole


@pytest.mark.parametrize("q", [1, 4, 30])
def test_rows_of_any_size_have_scores(isa, q):
    """Maps that under- and overflow: of the norm that they are held to, or none at all."""
    rng = np.random.default_rng(q)
    X, y = rng.normal(size=(64, q)), np.column_stack([np.full(64, 1e3), np.ones(64), np.zeros(64)])
    whose, at = np.arange(64), Linearization(np.zeros(q + 1), LeastSquares())
    for size in (1e-200, 1e-120, 1.0, 1e120, 1e200, 1e307):
        view = TransformedView(size * np.eye(q + 1), True, "score", at)
        rows = X.copy()
        rows[3, 0] = 1e5  # infinite, if maps are large enough
        found, told = np.zeros((64, q + 1)), np.zeros(64, dtype=bool)
        compiled(view).add_scores(rows, y, whose, 0, 1e-3 * size, found, told)
        assert told.all() if size < 1e300 else not told[3] and told.sum() == 63
        np.testing.assert_allclose(np.linalg.norm(found[told], axis=1), 2.0**44, rtol=1e-9)


@pytest.mark.parametrize("q", [4, 30])
def test_scores_have_the_same_bits_wherever_rows_stand(isa, q):
    """Under a map and without one, in any order, of entries that lie anywhere."""
    rng = np.random.default_rng(q)
    X, y = table(1000, q, rng, beside=True, dtype=np.float32)
    theta, whose = rng.normal(size=q + 1), rng.integers(0, 40, 1000)
    order = rng.permutation(1000)
    for W in (rng.normal(size=(q + 1, q + 1)), np.eye(q + 1)):
        matrix = zero_and_identity(q + 1)[1] if np.array_equal(W, np.eye(q + 1)) else W
        found = set()
        for rows, kept in (
            (X, slice(None)),
            (np.asfortranarray(X, dtype=np.float64), order),
            (np.repeat(X.astype(np.float64), 2, axis=1)[:, ::2], order[::-1]),
        ):
            sums, told = np.zeros((40, q + 1)), np.zeros(40, dtype=bool)
            view = compiled(
                TransformedView(matrix, True, "score", Linearization(theta, *LOSSES["logistic"]))
            )
            view.add_scores(rows[kept], y[kept], whose[kept], 0, 2.0, sums, told)
            found.add(sums.tobytes())
        assert len(found) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.ones(9)}, "weights"),
        ({"group_of_row": np.zeros(9, dtype=np.int32)}, "intp"),
        ({"group_of_row": np.zeros(8, dtype=np.intp)}, "group_of_row"),
        ({"group_of_row": np.zeros(18, dtype=np.intp)[::2]}, "contiguous"),
        ({"longest": 0.0}, "positive"),
        ({"scores": np.zeros((3, 2))}, "shape"),
        ({"scores": np.zeros((3, 6))[:, ::2]}, "contiguous"),
        ({"has_row": np.zeros(3)}, "booleans"),
        ({"has_row": np.zeros(4, dtype=bool)}, "booleans"),
    ],
)
def test_scores_of_anything_else_are_refused(change, message):
    given = {
        "X": np.ones((9, 2)), "y": np.ones((9, 3)), "group_of_row": np.zeros(9, dtype=np.intp),
        "first": 0, "longest": 1.0, "scores": np.zeros((3, 3)), "has_row": np.zeros(3, dtype=bool),
    }  # fmt: skip
    view = RecordView((3, 3), "score", -2)
    view.add_scores(**given)
    with pytest.raises(ValueError, match=message):
        view.add_scores(**{**given, **change})


@pytest.mark.parametrize("layout", ["columns", "float32", "strided", "unaligned"])
@pytest.mark.parametrize(("n", "q"), [(300, 3), (150, 30)])
def test_where_the_entries_lie_does_not_matter(isa, layout, n, q):
    rng = np.random.default_rng(n)
    W, theta = rng.normal(size=(q + 1, q + 1)) / (q + 1) ** 0.5, 0.3 * rng.normal(size=q + 1)
    X, y = table(n, q, rng, dtype=np.float32 if layout == "float32" else np.float64)
    plain = np.ascontiguousarray(X, dtype=np.float64)
    if layout == "columns":
        X = np.asfortranarray(X)
    elif layout == "strided":
        X = np.repeat(X, 2, axis=1)[:, ::2]
    elif layout == "unaligned":
        packed = np.zeros(n, dtype=np.dtype([("flag", "u1"), ("x", "f8", (q,))]))
        packed["x"] = X
        X = packed["x"]
    view, zero = compiled(next(views("log-cosh", W, theta))), np.zeros(q + 1)
    for kernel, want in ASKED:
        here, there = (kernel.sums(x, y, zero, want, 1.0, 1, view) for x in (X, plain))
        assert all(np.array_equal(a, b) for a, b in zip(here, there, strict=True))
    assert np.array_equal(view.counts(X, y, EDGES), view.counts(plain, y, EDGES))


@pytest.mark.parametrize("q", [3, 30])
def test_units_are_put_in_on_the_way(isa, q):
    """Days of the epoch, and columns of any size."""
    rng = np.random.default_rng(q)
    X, y = table(300, q, rng)
    centres, spreads = np.zeros(q), 2.0 ** rng.integers(-30, 30, q)
    centres[:2], spreads[:2] = (1.7e9, -3e-9), (2.0**17, 2.0**-28)
    W, theta = rng.normal(size=(q + 1, q + 1)) / (q + 1) ** 0.5, 0.3 * rng.normal(size=q + 1)
    units = ReleasedScales(centres, spreads, (0.25, 2.0))
    for name in ("least-squares", "log-cosh"):
        for view in views(name, W, theta):
            assert_alike(X * spreads + centres, y, view, units)


@pytest.mark.parametrize("q", [4, 22, 40])
@pytest.mark.values
def test_neither_threads_nor_other_records_change_a_bit(isa, q):
    """A record alone in a sum: the same bits wherever it stands, among any others that count for
    nothing."""
    rng = np.random.default_rng(q)
    W, theta = rng.normal(size=(q + 1, q + 1)), rng.normal(size=q + 1)
    zero = np.zeros(q + 1)
    big = rng.normal(size=(20_000, q)), rng.normal(size=20_000)
    for name, what in itertools.product(("least-squares", "logistic"), ("curvature", "score")):
        view = compiled(TransformedView(W, True, what, Linearization(theta, *LOSSES[name])))
        for kernel, want in ASKED:
            one = kernel.sums(*big, zero, want, 1.0, 1, view)
            for threads in (2, 3):
                other = kernel.sums(*big, zero, want, 1.0, threads, view)
                assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
        row, found = rng.normal(size=q), set()
        for n in (1, 2, 5, 8, 9, 37, 128, 129, 300):
            for slot in {0, n // 2, n - 1}:
                X, y = rng.normal(size=(n, q)), np.full(n, np.nan)
                X[slot], y[slot] = row, 1.0
                sums = CLIPPED.sums(X, y, zero, GRADIENT | MEAT, 1.0, 1, view)
                found.add(sums[0].tobytes() + sums[2].tobytes())
        assert len(found) == 1


@pytest.mark.parametrize(
    "edges", [[], [0.0], [1.0, 1.1, 1.2, 1.9, 2.0], [-1.0, 0.0, 5e-324, 1e300]]
)
def test_a_length_is_in_the_cell_that_ends_at_the_first_edge_it_does_not_exceed(isa, edges):
    """Wherever edges lie: several to an exponent, at zero, none at all."""
    lengths = np.array([0.0, 5e-324, 1e-310, 0.5, 1.0, 1.1, 1.15, 1.95, 2.0, 2.1, 1e300, 1.7e308])
    X, y = np.empty((3 * len(lengths), 0)), np.tile(lengths, 3)
    y[-3:] = np.nan, np.inf, -1.15  # of no length, and of one of its own
    edges = np.array(edges)
    view = RecordView(np.eye(1), "residual", -2)
    found = view.counts(X, y, edges, 1)
    cells = np.searchsorted(edges, np.abs(y[np.isfinite(y)]))
    assert found.tolist() == np.bincount(cells, minlength=len(edges) + 1).tolist()


HOSTILE = [0.0, 5e-324, 1e-300, 1.0, -1e10, 1e154, 1.7e308, np.inf, -np.inf, np.nan]


def hostile_records(scale):
    """All pairs of entries, and all of an entry and a response; others by the scale."""
    at = int(np.log2(scale)) if np.isfinite(scale) else 1
    for (i, first), (j, second) in itertools.product(enumerate(HOSTILE), enumerate(HOSTILE)):
        yield (first, second), (0.0, 1.0, 1e300, np.nan)[(i + j + at) % 4]


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1.0, 1e150, np.inf])
@pytest.mark.values
def test_no_record_contributes_more_than_the_bound(isa, name, scale):
    """Whatever the record, the map and the parameter are."""
    rng = np.random.default_rng(1)
    loss, sigma = LOSSES[name]
    zero = np.zeros(3)
    for entries, y in hostile_records(scale):
        X, W = np.array([entries]), scale * rng.normal(size=(3, 3))
        for what in ("curvature", "score"):
            at = Linearization(rng.normal(size=3) * 10.0 ** rng.integers(-300, 300), loss, sigma)
            with np.errstate(all="ignore"):
                view = compiled(
                    TransformedView(
                        W,
                        True,
                        what,
                        at,
                        row_clipping=RowClipping(max_score_bound=2.0 if y else np.inf),
                    )
                )
                responses = np.array([y])
                score, _, meat = CLIPPED.sums(X, responses, zero, GRADIENT | MEAT, 1.0, 1, view)
                gradient, gram, _ = WEIGHTED.sums(
                    X, responses, zero, GRADIENT | HESSIAN, 1.0, 1, view
                )
            assert np.linalg.norm(score) <= 0.9 * (1.0 + 1e-12)
            assert np.linalg.norm(meat) <= 0.81 * (1.0 + 1e-12)
            assert np.linalg.norm(gradient) <= 2.6 * (1.0 + 1e-12)
            assert np.linalg.norm(gram) <= 1.69 * (1.0 + 1e-12)
            assert view.counts(X, responses, EDGES, 1).sum() in (0, 1)


def kept_views(view, X, y, units=None):
    """A view under a map that keeps squared lengths, these, and the view that needs no map."""
    keep = np.empty(len(X))
    mapped = compiled(view, units, keep=keep)
    mapped.counts(X, y, EDGES, 1)
    at = view.at._replace(theta=view.matrix @ view.at.theta)
    plain = view._replace(matrix=zero_and_identity(len(at.theta))[1], at=at)
    return mapped, keep, compiled(plain, units, squares=keep)


def test_lengths_are_counted_beside_sums_of_a_view_only():
    X, y, zero = np.zeros((3, 2)), np.zeros(3), np.zeros(2)
    with pytest.raises(ValueError, match="lengths are those of a view"):
        CLIPPED.sums(X, y, zero, GRADIENT, 3.0, 1, None, EDGES)
    view = compiled(TransformedView(np.eye(3), True))
    with pytest.raises(ValueError, match="edges must be contiguous"):
        CLIPPED.sums(X, y, np.zeros(3), GRADIENT, 3.0, 1, view, EDGES[::2])


@pytest.mark.parametrize(("n", "q"), SIZES)
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.values
def test_without_a_map_sums_of_kept_lengths_are_those_of_rows(isa, n, q, name):
    """NumPy's rows under the map; the kernel's multiples of (1, z), mapped by NumPy afterwards."""
    rng = np.random.default_rng([n, q])
    W, theta = np.eye(q + 1) + 0.1 * rng.normal(size=(q + 1, q + 1)), 0.3 * rng.normal(size=q + 1)
    units = ReleasedScales(rng.normal(size=q), rng.uniform(0.5, 2.0, q), (0.0, 1.0))
    loss, scale = LOSSES[name]
    at = Linearization(theta, loss, scale)
    X, y = table(n, q, rng)
    Z, coded = units.coded(X, y)
    zero = np.zeros(q + 1)
    with np.errstate(all="ignore"):
        rows = np.column_stack([np.ones(n), Z]) @ W
    usable = np.isfinite(Z).all(axis=1)
    views = [
        TransformedView(W, True, what, at, row_clipping=held)
        for what in ("score", "curvature", "score size", "residual")
        for held in (NO_CLIPPING, RowClipping(max_score_bound=0.3))
        if what == "score" or held is NO_CLIPPING
    ]
    for view in views:
        mapped, keep, plain = kept_views(view, X, y, units)
        exact = (rows[usable] ** 2).sum(axis=1)
        assert (keep[usable] >= exact).all() and (keep[usable] <= exact * (1.0 + 2.0**-22)).all()
        assert np.isinf(keep[~usable]).all()
        counts = plain.counts(X, y, EDGES, 1)
        assert abs(counts - mapped.counts(X, y, EDGES, 1)).sum() <= 2  # one near an edge
        kernel = CLIPPED if view.what == "score" else MALLOWS
        wants = {"score": (GRADIENT, GRADIENT | MEAT), "curvature": (HESSIAN,)}
        for want in wants.get(view.what, ()):
            twin = kernel.sums(*seen(Z, coded, view), zero, want, n, 1)
            first = kernel.sums(X, y, zero, want, n, 1, mapped)
            g, h, m = kernel.sums(X, y, zero, want, n, 1, plain)
            assert_counted_in_the_same_pass(kernel, (X, y, zero, want, n, 1, plain), counts)
            back = (
                None if g is None else W.T @ g,
                None if h is None else W.T @ h @ W,
                None if m is None else W.T @ m @ W,
            )
            for a, b, c in zip(twin, first, back, strict=True):
                assert (a is None) == (c is None)
                if a is not None:
                    np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-9 * max(1.0, abs(a).max()))
                    np.testing.assert_allclose(c, a, rtol=1e-6, atol=1e-6 * max(1.0, abs(a).max()))


@pytest.mark.parametrize("q", [4, 19, 30])
def test_kept_lengths_and_their_sums_are_the_same_bits_however_they_lie(isa, q):
    """Layouts, threads, and other records."""
    rng = np.random.default_rng(q)
    W, theta = np.eye(q + 1) + 0.1 * rng.normal(size=(q + 1, q + 1)), rng.normal(size=q + 1)
    X, y = table(20_000, q, rng, dtype=np.float32)
    wide, zero = X.astype(np.float64), np.zeros(q + 1)
    view = TransformedView(W, True, "score", Linearization(theta, *LOSSES["logistic"]))
    _, keep, plain = kept_views(view, wide, y)
    for other in (X, np.asfortranarray(wide), np.repeat(wide, 2, axis=1)[:, ::2]):
        _, again, also = kept_views(view, other, y)
        assert np.array_equal(keep, again)
        for threads in (1, 2):
            pair = [
                CLIPPED.sums(x, y, zero, GRADIENT | MEAT, 1.0, threads, v)
                for x, v in ((wide, plain), (other, also))
            ]
            assert all(np.array_equal(a, b) for a, b in zip(*pair, strict=True) if a is not None)
    row, found = rng.normal(size=q), set()
    for n in (1, 2, 5, 8, 9, 37, 128, 129, 300):
        for slot in {0, n // 2, n - 1}:
            X, y = rng.normal(size=(n, q)), np.full(n, np.nan)
            X[slot], y[slot] = row, 1.0
            X[slot - 1 if n > 1 else slot, 0] = np.nan if n > 1 else row[0]
            _, keep, plain = kept_views(view, X, y)
            sums = [CLIPPED.sums(X, y, zero, want, 1.0, 1, plain) for want in (1, 5)]
            found.add(b"".join(part.tobytes() for one in sums for part in one if part is not None))
            found.add(keep[slot].tobytes())
    assert len(found) == 2


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("scale", [1e-40, 1.0, 1e40])
@pytest.mark.values
def test_no_record_contributes_more_than_the_bound_by_a_kept_length(isa, name, scale):
    """Whatever the record is, what it contributes is no longer under the map, nor infinite."""
    rng = np.random.default_rng(1)
    loss, sigma = LOSSES[name]
    zero, turned = np.zeros(3), np.linalg.qr(rng.normal(size=(3, 3)))[0]
    W = scale * turned @ np.diag([1.0, 30.0, 0.3])
    for entries, response in hostile_records(scale):
        X, y = np.array([entries]), np.array([response])
        at = Linearization(rng.normal(size=3) * 10.0 ** rng.integers(-300, 300), loss, sigma)
        for what, reach in (("score", np.inf), ("score", 2.0), ("curvature", np.inf)):
            with np.errstate(all="ignore"):
                view = TransformedView(
                    W, True, what, at, row_clipping=RowClipping(max_score_bound=reach)
                )
                _, _, plain = kept_views(view, X, y)
            kernel, want = (CLIPPED, GRADIENT | MEAT) if what == "score" else (MALLOWS, HESSIAN)
            g, h, m = kernel.sums(X, y, zero, want, 1.0, 1, plain)
            assert plain.counts(X, y, EDGES, 1).sum() in (0, 1)
            if what == "score":
                assert np.linalg.norm(W.T @ g) <= 0.9 * (1.0 + 1e-12)
                assert np.linalg.norm(W.T @ m @ W) <= 0.81 * (1.0 + 1e-12)
                squares = np.trace(W.T @ m @ W), float(np.sum((W.T @ g) ** 2))
                assert abs(squares[0] - squares[1]) <= 0.81e-12  # of the same multiplier
            else:
                assert np.linalg.norm(W.T @ h @ W) <= 1.69 * (1.0 + 1e-12)


def test_lengths_are_kept_of_the_records_that_are_asked_about():
    rng = np.random.default_rng(2)
    X, y, W = rng.normal(size=(40, 2)), np.ones(40), np.eye(3) + 0.1
    at = Linearization(np.zeros(3), *LOSSES["logistic"])
    mapped, keep, plain = kept_views(TransformedView(W, True, "score", at), X, y)
    _, _, curved = kept_views(TransformedView(W, True, "curvature", at), X, y)
    beside, zero = np.column_stack([y, y, y]), np.zeros(3)
    with pytest.raises(TypeError, match="are not copied"):
        pickle.dumps(plain)
    for wrong in (
        lambda: plain.counts(X[:30], y[:30], EDGES),
        lambda: mapped.counts(X, beside, EDGES),
        lambda: CLIPPED.sums(X, beside, zero, GRADIENT, 1.0, 1, plain),
        lambda: MALLOWS.sums(X, y, zero, GRADIENT, 1.0, 1, plain),
        lambda: CLIPPED.sums(X, y, zero, GRADIENT, 1.0, 1, curved),
        lambda: MALLOWS.sums(X, y, zero, GRADIENT | HESSIAN, 1.0, 1, curved),
        lambda: RecordView(W, "score", 3, squares=keep),
        lambda: RecordView((3, 3), "score", 3, squares=keep, keep=keep),
        lambda: RecordView(W, "score", 3, keep=keep, weigh=1.0),
        lambda: RecordView((3, 5)),
        lambda: RecordView(W, "score", 3, keep=keep, back=(W, np.zeros(3), 1.0, 1.0, 0.5)),
    ):
        with pytest.raises(ValueError):
            wrong()


@pytest.mark.parametrize(("n", "q"), SIZES)
@pytest.mark.values
def test_rows_without_a_map_are_those_under_an_identity(isa, n, q):
    rng = np.random.default_rng([n, q])
    for intercept in (True, False):
        p = q + intercept
        X, y = table(n, q, rng, beside=True)
        theta = 0.3 * rng.normal(size=p)
        for view in views("log-cosh", zero_and_identity(p)[1], theta):
            assert_alike(X, y, view._replace(intercept=intercept))


def test_what_is_not_a_view_is_refused():
    W, X, y = np.eye(3), np.ones((4, 2)), np.ones(4)
    assert LeastSquares()._kernel_parameters[0] == SQUARES
    assert kernels.summation_depth(10**6, 20, GRADIENT | VIEW) >= 128
    for wrong in (
        lambda: RecordView(W, "everything"),
        lambda: RecordView(W, "score"),
        lambda: RecordView(W, "score", 99),
        lambda: RecordView(W, "score", 3, theta=np.zeros(2)),
        lambda: RecordView(W, centres=np.zeros(3)),
        lambda: RecordView(np.asfortranarray(np.arange(9.0).reshape(3, 3))),
        lambda: RecordView(W, "score", 0, scale=0.0),
        lambda: RecordView(W, "score", 3, predictor=np.zeros(2)),
        lambda: RecordView((3, 3), "score", 3, predictor=np.zeros(3)),
        lambda: RecordView(
            W, "score", 3, back=(W, np.zeros(3), 1.0, 1.0, 0.5), predictor=np.zeros(3)
        ),
        lambda: RecordView(np.ones((0, 3))),
        lambda: RecordView(W).counts(np.ones((4, 3)), y, EDGES),
        lambda: CLIPPED.sums(np.ones((4, 3)), y, np.zeros(3), GRADIENT, 1.0, 1, RecordView(W)),
        lambda: RecordKernel(0, 1.0, 1.0, 1, 2.0, True).sums(
            X, y, np.zeros(3), GRADIENT, 1.0, 1, RecordView(W)
        ),
        lambda: RecordKernel(0, 1.0, 1.0, 3, 2.0, False).sums(
            X, y, np.zeros(3), GRADIENT, 1.0, 1, RecordView(W)
        ),
    ):
        with pytest.raises(ValueError):
            wrong()


def test_zeros_at_the_head_of_a_map_are_skipped_and_change_no_bit(isa):
    """A triangular map: what is skipped would have added zeros."""
    rng = np.random.default_rng(4)
    for n, q in SIZES[2:]:
        X, y = table(n, q, rng)
        W = np.tril(rng.normal(size=(q + 1, q + 1)) / q**0.5)
        theta = rng.normal(size=q + 1) / q**0.5
        for view in views("logistic", W, theta):
            assert_alike(X, y, view)
        tiny = W + np.triu(np.full(W.shape, 1e-320), 1)  # nothing that counts, and no zeros
        for what in ("score", "curvature"):
            pair = [
                WEIGHTED.sums(
                    X, y, np.zeros(q + 1), GRADIENT, 1.0, 1,
                    compiled(
                        TransformedView(
                            matrix, True, what, Linearization(theta, *LOSSES["logistic"])
                        )
                    ),
                )[0]
                for matrix in (W, tiny)
            ]  # fmt: skip
            assert np.array_equal(*pair)
