"""What is seen of records under a map, against NumPy's way of it and against a Hessian pass.

"fraction" is the time of a pass for the Hessian of the records as they are over that of this pass.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

import dpfast
from bench.harness import compare, interleaved, is_quick
from dpfast.curator.preconditioned import compiled
from dpfast.curator.rotated import mapped
from dpfast.data.scaling.maps import Linearization, TransformedView, zero_and_identity
from dpfast.data.scaling.units import ReleasedScales
from dpfast.kernels.records import GRADIENT, HESSIAN, MEAT, RecordKernel
from tests.twins.seen import lengths, scores, seen

GRID = [(10_000, 10)] if is_quick() else [(10_000, 10), (1_000_000, 20), (200_000, 50)]
EDGES = np.exp2(np.arange(-6.0, 21.0))

#: What is asked of the kernel, with which weighting, and what is seen.
CASES = {
    "score and norm": (GRADIENT, 2, "score"),
    "score, norm and meat": (GRADIENT | MEAT, 2, "score"),
    "curvature": (HESSIAN, 1, "curvature"),
    "lengths": (0, 2, "score"),
}

#: The same by the lengths that were kept of rows under the map, which the sums are mapped by then.
OF_KEPT = {
    "score of kept lengths": (GRADIENT, 2, "score"),
    "score and meat of kept lengths": (GRADIENT | MEAT, 2, "score"),
    "curvature of kept lengths": (HESSIAN, 1, "curvature"),
    "lengths of kept lengths": (0, 2, "score"),
}


@pytest.mark.parametrize("case", [*CASES, *OF_KEPT])
@pytest.mark.parametrize(("n", "q"), GRID)
def test_seen(benchmark, n, q, case):
    rng = np.random.default_rng([n, q])
    X, y = rng.normal(size=(n, q)), (rng.random(n) < 0.5).astype(np.float64)
    want, weighting, what = (CASES | OF_KEPT)[case]
    W = np.eye(q + 1) + 0.05 * rng.normal(size=(q + 1, q + 1))
    at, zero = Linearization(0.1 * rng.normal(size=q + 1), dpfast.Logistic()), np.zeros(q + 1)
    view = TransformedView(W, True, what, at)
    kernel = RecordKernel(0, 1e100, 1.0, weighting, 2.0, False)
    plain = RecordKernel(dpfast.Logistic.code, 1.0, 1.0, 1, 3.0, True)
    units = ReleasedScales(np.zeros(q), np.ones(q), (0.0, 1.0))
    ours = compiled(view, units)
    if case in OF_KEPT:
        keep = np.empty(n)
        compiled(view, units, keep=keep).counts(X, y, EDGES, 1)
        kept = TransformedView(
            zero_and_identity(q + 1)[1], True, what, at._replace(theta=W @ at.theta)
        )
        ours = compiled(kept, units, squares=keep)

    def function():
        if not want:
            return ours.counts(X, y, EDGES, 1)
        found = kernel.sums(X, y, zero, want, float(n), 1, ours)
        return mapped(found, W) if case in OF_KEPT else found

    def twin():
        if not want:
            found = lengths(X, y, view)
            return np.bincount(np.searchsorted(EDGES, found), minlength=len(EDGES) + 1)
        return kernel.sums(*seen(X, y, view), zero, want, float(n), 1)

    def worst():
        pairs = [(function(), twin())] if not want else zip(function(), twin(), strict=True)
        return max(float(np.abs(a - b).max()) for a, b in pairs if a is not None)

    hessian = lambda: plain.sums(X, y, zero, HESSIAN, float(n), 1)  # noqa: E731
    times = interleaved({"function": function, "hessian": hessian}, clock=time.process_time)
    compare(
        benchmark,
        function,
        case=f"seen, {case}",
        n=n,
        p=q,
        reference=twin,
        clock=time.process_time,
        fraction=times["hessian"] / times["function"],
        accuracy=worst(),
    )


@pytest.mark.parametrize(("n", "q"), GRID)
def test_scores_of_persons(benchmark, n, q):
    """Two rows of each person, added up."""
    rng = np.random.default_rng([n, q])
    X, y = rng.normal(size=(n, q)), (rng.random(n) < 0.5).astype(np.float64)
    beside, whose = np.column_stack([y, np.full(n, 0.5), np.zeros(n)]), np.arange(n) // 2
    W = np.eye(q + 1) + 0.05 * rng.normal(size=(q + 1, q + 1))
    view = TransformedView(
        W, True, "score", Linearization(0.1 * rng.normal(size=q + 1), dpfast.Logistic())
    )
    ours, people = compiled(view, ReleasedScales(np.zeros(q), np.ones(q), (0.0, 1.0))), n // 2
    plain = RecordKernel(dpfast.Logistic.code, 1.0, 1.0, 1, 3.0, True)

    def function():
        found, told = np.zeros((people, q + 1)), np.zeros(people, dtype=bool)
        ours.add_scores(X, beside, whose, 0, 1e3, found, told)
        return found

    def twin():
        return scores(X, beside, whose, people, 1e3, view)[0]

    zero = np.zeros(q + 1)
    hessian = lambda: plain.sums(X, y, zero, HESSIAN, float(n), 1)  # noqa: E731
    times = interleaved({"function": function, "hessian": hessian}, clock=time.process_time)
    compare(
        benchmark,
        function,
        case="seen, scores of persons",
        n=n,
        p=q,
        reference=twin,
        clock=time.process_time,
        fraction=times["hessian"] / times["function"],
        accuracy=float(np.abs(function() - twin()).max() / 2.0**44),
    )
