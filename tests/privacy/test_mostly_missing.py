"""Data of which hardly anything is usable: n still divides every mean and sets every noise.

Thirty-five of forty records are not finite.  They count in n and contribute exactly zero, so an
exact mean is that of the five others times five fortieths, and no sensitivity, scale or charge
differs from that of forty complete records.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import sparse

import dpfast
from dpfast import ZCDP, Ledger, PureDP, SeededNoise
from dpfast.bayesopt import private_choice, private_clip, tune
from dpfast.curator import Curator, StepBudget
from dpfast.curator.blackbox.vectors import RecordValues
from dpfast.curator.noisy_release import observed
from dpfast.curator.nonconvex.gradients import GradientCurator
from dpfast.curator.shares import Shares
from dpfast.data import Records, as_records, reduction, streams
from dpfast.models import Ball, Bounded, Clip, LogCosh, Mallows, Objective
from dpfast.models.nonconvex import PerRecordObjective
from dpfast.optimize import GradientDescent
from tests.loops import each

N, USABLE = 40, 5
RNG = np.random.default_rng(11)
WHOLE_X = RNG.uniform(-1.0, 1.0, size=(N, 2))
WHOLE_Y = WHOLE_X @ [1.0, -0.5] + RNG.normal(size=N)
PLACES = np.array([3, 11, 12, 30, 38])
MISSING = np.setdiff1d(np.arange(N), PLACES)
X, Y = WHOLE_X.copy(), WHOLE_Y.copy()
X[MISSING[:20], 0] = np.nan  # in X, in y, in both
Y[MISSING[10:]] = np.resize([np.nan, np.inf, -np.inf], len(MISSING) - 10)
FEW_X, FEW_Y = X[PLACES], Y[PLACES]
THETA, OTHER = np.array([0.2, -0.4]), np.array([-0.7, 0.1])


class Seen(NamedTuple):
    """What an observer sees of an answer."""

    query: str
    value: Any
    mu: float
    sensitivity: float
    noise_scale: float


class Notes:
    """An observer that keeps what it sees."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []

    def release(self, question: tuple[Any, ...], release: Any, draw: Any) -> Any:
        query, _, value, mu, sensitivity, scale = release
        self.seen.append(Seen(query, np.array(value, dtype=float), mu, sensitivity, scale))
        return draw()


def noted(call: Callable[..., Any], *data: Any) -> list[Seen]:
    notes = Notes()
    with observed(notes):
        call(*data)
    assert notes.seen
    return notes.seen


def room(X: Any, y: Any, weights: Any = None, **options: Any) -> Curator:
    settings = {"fit_intercept": False, "scale": 0.8} | options
    objective = Objective(LogCosh(), weights or Bounded(1.5), 2, **settings)
    return Curator(as_records(X, y), objective, Ledger(50.0), SeededNoise(0))


def slopes(X: Any, y: Any, own: bool = False) -> GradientCurator:
    objective: Any = Objective(LogCosh(), Bounded(1.5), 2, fit_intercept=False, scale=0.8)
    if own:
        objective = PerRecordObjective(
            lambda theta, X, y: np.tanh(X @ theta - y)[:, None] * X, dimension=2, lipschitz=0.9,
            smoothness=1.5, block_rows=8,
        )  # fmt: skip
    return GradientCurator(as_records(X, y), objective, Ledger(ZCDP(50.0)), SeededNoise(0))


def told(X: Any, y: Any) -> RecordValues:
    values = RecordValues(len(y), Ledger(50.0), SeededNoise(0))
    values.append(X.T, 2)
    values.append(y)
    return values


def told_or_not(X: Any, y: Any) -> RecordValues:
    """Records of which a value is missing have none, that nothing stands for it."""
    usable = np.isfinite(X).all(axis=1) & np.isfinite(y)
    return told(np.where(usable[:, None], X, np.nan), np.where(usable, y, np.nan))


def free(X: Any, y: Any) -> Any:
    keeper = room(X, y, Mallows(1.5), scale=dpfast.FreeScale(0.1, 10.0))
    at = keeper.objective.project(np.array([0.2, -0.4, 1.0]))
    return keeper.joint(at, StepBudget(1.0, 0.5, 0.5))


#: Queries whose exact value is a mean over the records, or proportional to one.
MEANS: dict[str, Callable[[Any, Any], Any]] = {
    "joint": lambda X, y: room(X, y).joint(THETA, StepBudget(1.0, 0.5, 0.5)),
    "majorizer": lambda X, y: room(X, y).joint(THETA, StepBudget(1.0, 0.5, majorize=True)),
    "Mallows": lambda X, y: room(X, y, Mallows(0.7)).joint(THETA, StepBudget(1.0, 0.5, 0.5)),
    "clipped": lambda X, y: room(X, y, Clip(0.3)).joint(THETA, StepBudget(1.0)),
    "free scale": free,
    "loss difference": lambda X, y: room(X, y).loss_difference(THETA, OTHER, 1.0),
    "smallest": lambda X, y: room(X, y).extreme_eigenvalue(THETA, 1.0, largest=False),
    "largest": lambda X, y: room(X, y).extreme_eigenvalue(THETA, 1.0, largest=True),
    "curvature": lambda X, y: room(X, y).largest_curvature(1.0),
    "gradient": lambda X, y: slopes(X, y).gradient(THETA, 0.5),
    "gradient change": lambda X, y: slopes(X, y).gradient_change(THETA, OTHER, 0.5),
    "gradient norm": lambda X, y: slopes(X, y).gradient_norm(THETA, 0.5),
    "users' gradient": lambda X, y: slopes(X, y, own=True).gradient(THETA, 0.5),
    "users' change": lambda X, y: slopes(X, y, own=True).gradient_change(THETA, OTHER, 0.5),
    "users' clipped gradient": lambda X, y: slopes(X, y, own=True).gradient(THETA, 0.5, 0.1),
    "users' lengths": lambda X, y: slopes(X, y, own=True).gradient_norm_histogram(
        THETA, np.array([0.1, 0.5, 0.9]), 0.5
    ),
    "users' directions": lambda X, y: slopes(X, y, own=True).gradient_directions(THETA, 0.5),
    "loss change": lambda X, y: slopes(X, y).loss_change(THETA, OTHER, 0.5),
    "users' loss change": lambda X, y: slopes(X, y, own=True).loss_change(THETA, OTHER, 0.5, 0.1),
    "users' norm": lambda X, y: slopes(X, y, own=True).gradient_norm(THETA, 0.5),
    "clipped mean": lambda X, y: told_or_not(X, y).mean(np.array([[1.0], [0.5], [-1.0]]), 0.7, 1.0),
    "mean loss": lambda X, y: told(X, y).mean_loss(2, -0.5, 0.5, 1.0),
}


def usable_only(name: str) -> tuple[Any, Any]:
    """The records that count; the largest curvature reads no response, a told mean no covariate."""
    if name in ("curvature", "mean loss"):
        keep = np.isfinite(X).all(axis=1) if name == "curvature" else np.isfinite(Y)
        return X[keep], Y[keep]
    return FEW_X, FEW_Y


@each("name", MEANS)
def test_n_divides_however_few_records_are_usable(name):
    few_X, few_y = usable_only(name)
    part = len(few_y) / N
    assert part <= 0.51
    for here, alone in zip(noted(MEANS[name], X, Y), noted(MEANS[name], few_X, few_y), strict=True):
        expected = alone.value * part
        if name == "users' lengths":  # a gradient of zeros is in the first cell
            expected[0] += 1.0 - part
        assert here.value == pytest.approx(expected, rel=1e-9, abs=1e-12), here.query


@each("name", MEANS)
def test_noise_does_not_follow_how_many_records_are_usable(name):
    complete = [seen._replace(value=None) for seen in noted(MEANS[name], WHOLE_X, WHOLE_Y)]
    for data in ((X, Y), (np.full_like(X, np.nan), np.full_like(Y, np.nan))):
        assert [seen._replace(value=None) for seen in noted(MEANS[name], *data)] == complete


@each("name", MEANS)
def test_values_do_not_depend_on_the_order_of_the_records(name):
    order = np.random.default_rng(0).permutation(N)
    for here, moved in zip(
        noted(MEANS[name], X, Y), noted(MEANS[name], X[order], Y[order]), strict=True
    ):
        assert here.value == pytest.approx(moved.value, rel=1e-9, abs=1e-12)
        assert here._replace(value=None) == moved._replace(value=None)


def test_shares_are_of_all_values():
    """``mean(1{x <= t} - p)``: a value that is NaN contributes zero to a sum over n."""
    values = np.full(N, np.nan)
    values[PLACES] = [-1.0, 0.5, 2.0, np.inf, -np.inf]
    (seen,) = noted(lambda: Shares(values, Ledger(5.0), SeededNoise(0)).excess(0.0, 0.3, 1.0))
    assert seen.value == pytest.approx((2 - 0.3 * USABLE) / N)
    (whole,) = noted(lambda: Shares(np.zeros(N), Ledger(5.0), SeededNoise(0)).excess(0.0, 0.3, 1.0))
    assert seen[2:] == whole[2:]


# ---- whole analyses ------------------------------------------------------------------------------

BOX = [(-1.0, 1.0)] * 2


def losses(X: Any, y: Any) -> Callable[[Any], Any]:
    return lambda theta: (y - X @ theta) ** 2


ANALYSES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "fit": lambda X, y, noise: dpfast.fit(X, y, dpfast.Objective("log-cosh", scale=0.8),
    privacy=1.0, method=dpfast.optimize.Newton(steps=4), noise=noise),
    "gradient descent": lambda X, y, noise: dpfast.fit(X, y, dpfast.Objective("huber", scale=0.8),
    privacy=1.0, method=dpfast.optimize.GradientDescent(steps=4), noise=noise),
    "estimated step": lambda X, y, noise: dpfast.fit(X, y, dpfast.Objective("huber", scale=0.8),
    privacy=1.0, method=GradientDescent(step_size="estimated", steps=3), noise=noise),
    "certificate": lambda X, y, noise: dpfast.release.certify(X, y, dpfast.Objective("log-cosh",
    scale=0.8), privacy=PureDP(1.0), domain=Ball(1.5), noise=noise),
    "quantiles": lambda X, y, noise: dpfast.private_quantiles(
        y, (0.3, 0.7), low=-2.0, high=2.0, privacy=1.0, steps=4, noise=noise
    ),
    "tune": lambda X, y, noise: tune(
        losses(X, y), BOX, privacy=1.0, n_records=len(y), clip=1.0, steps=2, noise=noise
    ),
    "clip": lambda X, y, noise: private_clip(
        losses(X, y), BOX, privacy=1.0, n_records=len(y), noise=noise
    ),
    "choice": lambda X, y, noise: private_choice(
        losses(X, y), [np.zeros(2), np.ones(2)], privacy=1.0, n_records=len(y),
        loss_range=(0.0, 4.0), noise=noise,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ANALYSES)
@pytest.mark.filterwarnings("ignore::dpfast.errors.DpfastWarning")
def test_charges_and_noise_of_an_analysis_are_those_of_complete_data(name):
    def costs(X: Any, y: Any) -> list[tuple[Any, ...]]:
        seen = noted(partial(ANALYSES[name], X, y, SeededNoise(1)))
        return [(found.query, *found[2:]) for found in seen]

    assert costs(X, Y) == costs(WHOLE_X, WHOLE_Y)
    none = np.full_like(X, np.nan), np.full_like(Y, np.nan)
    assert costs(*none) == costs(WHOLE_X, WHOLE_Y)


# ---- the order of records and of additions -------------------------------------------------------

DATA_SETS = {
    "whole": (WHOLE_X, WHOLE_Y),
    "mostly missing": (X, Y),
    "reversed": (X[::-1].copy(), Y[::-1].copy()),
    "nothing": (np.full_like(X, np.nan), np.full_like(Y, np.nan)),
    "first missing": (np.where(np.arange(N)[:, None] < 9, np.nan, WHOLE_X), WHOLE_Y),
}


def mapped(folder: Any, X: Any, y: Any) -> Records:
    path = folder / "X.bin"
    X.astype("f4").tofile(path)
    memory = np.memmap(path, dtype="f4", mode="r", shape=X.shape)
    file = folder / "y.bin"
    y.astype("f4").tofile(file)
    return as_records(memory, np.memmap(file, dtype="f4", mode="r", shape=y.shape))


@pytest.mark.parametrize("kind", ["memmap", "compressed rows"])
def test_blocks_do_not_follow_values(monkeypatch, tmp_path, kind):
    """Sizes, order and number of the blocks that are read are those that were announced."""
    monkeypatch.setattr(streams, "BLOCK_BYTES", 8 * 3 * 9)  # nine rows
    for name, (X, y) in DATA_SETS.items():
        records = mapped(tmp_path, X, y) if kind == "memmap" else as_records(
            sparse.csr_matrix(X), y
        )  # fmt: skip
        assert records.block_sizes == (9, 9, 9, 9, 4), name
        read = [y for _, y in records.blocks()]
        assert tuple(map(len, read)) == records.block_sizes, name
        stored = y.astype("f4") if kind == "memmap" else y
        assert np.array_equal(np.concatenate(read), stored, equal_nan=True), name
        assert records.total(lambda X, y: 1) == 5


def test_a_users_function_sees_every_record_in_its_place():
    """The same calls with the same shapes whatever the values; usable rows as they are."""
    shapes = {}
    for name, (X, y) in DATA_SETS.items():
        calls: list[tuple[Any, Any]] = []

        def gradients(theta: Any, X: Any, y: Any, calls: Any = calls) -> Any:
            calls.append((X.copy(), y.copy()))
            return np.zeros_like(X)

        objective = PerRecordObjective(
            gradients, dimension=2, lipschitz=1.0, smoothness=1.0, block_rows=8, vectorized=True
        )
        keeper = GradientCurator(as_records(X, y), objective, Ledger(ZCDP(5.0)), SeededNoise(0))
        keeper.gradient(THETA, 0.5)
        shapes[name] = [(X.shape, y.shape) for X, y in calls]
        usable = np.isfinite(X).all(axis=1) & np.isfinite(y)
        shown_X, shown_y = (np.concatenate(part) for part in zip(*calls, strict=True))
        assert np.array_equal(shown_X[usable], X[usable])
        assert np.array_equal(shown_y[usable], y[usable])
    assert len(set(map(tuple, shapes.values()))) == 1


@each("count", [2, 7, 16, 17, 40])
def test_parts_are_added_in_their_places(count):
    """Bit for bit the order of the blocks, with parts that cancel: sizes of parts are values."""
    rng = np.random.default_rng(count)
    for _ in range(20):
        parts = rng.normal(size=count) * 10.0 ** rng.integers(-8, 17, size=count)
        groups = [parts[i : i + reduction.FAN_IN] for i in range(0, count, reduction.FAN_IN)]
        sums = []
        for group in groups:
            total = group[0]
            for part in group[1:]:
                total = total + part
            sums.append(total)
        expected = sums[0]
        for part in sums[1:]:
            expected = expected + part
        assert reduction.tree_sum(np.array([part]) for part in parts)[0] == expected
        assert reduction.tree_sum((np.array([part]), None) for part in parts)[0][0] == expected


def test_told_values_are_added_in_their_places():
    """Bit for bit: not sorted, and in blocks of a fixed size."""
    rng = np.random.default_rng(0)
    n = 2 * 4096 + 77
    values = rng.normal(size=n) * 10.0 ** rng.integers(-12, 1, size=n)
    values[rng.random(n) < 0.9] = np.nan
    values[:4096] = np.nan
    room = RecordValues(n, Ledger(1.0), SeededNoise(0))
    room.append(values)
    clipped = np.where(np.isfinite(values), np.clip(values, -1.0, 1.0), 0.0)
    expected = 0.0
    for start in range(0, n, 4096):
        expected += float(np.sum(clipped[start : start + 4096]))
    assert room._mean_loss(0, 0.0, 1.0) == expected / n
