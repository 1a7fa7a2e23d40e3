"""A query hands out what the mechanism made, bit for bit, and nothing else that knows the records.

In place of each mechanism stands one that makes numbers of its own, whatever it is given.  What a
query answers must be these numbers, or a public function of them that is written down here.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpfast
from dpfast import ZCDP, ApproxDP, Ledger, PureDP
from dpfast.curator import noisy_release
from dpfast.curator.answers import Answer, JointAnswer, Receipt
from dpfast.curator.noisy_release import observed
from dpfast.curator.preconditioned import NO_CLIPPING, Linearization
from dpfast.curator.release.kinds import Kind
from dpfast.curator.release.one_step import mean_along, newton_steps, step_terms
from dpfast.curator.release.perturbation import perturbation_terms
from dpfast.curator.release.releases import CertifiedRelease
from dpfast.curator.release.terms import FunctionalTerms, ParameterTerms, Terms
from dpfast.curator.waves import ScoreWaves
from dpfast.kernels.keys import OCTAVES
from dpfast.models import Ball, LeastSquares
from dpfast.privacy.mechanisms import release_together
from dpfast.privacy.noise import SeededNoise
from dpfast.privacy.release.certified_minimiser import expanded, knee
from dpfast.privacy.release.sensitivity import HELD_CELLS, LogScale
from tests import sources
from tests.privacy import test_paid_before as paid
from tests.privacy.test_paid_before import QUERIES, THETA, Desk, N

CURATORS = Path(dpfast.__file__).parent / "curator"
RICH = {
    dpfast.GDP: dpfast.GDP(10.0), ZCDP: ZCDP(50.0), ApproxDP: ApproxDP(5.0, 1e-3),
    PureDP: PureDP(9.0),
}  # fmt: skip

# ---- queries of what was paid for when it was opened ---------------------------------------------


def opened(desk: Desk, what: str, **options: Any) -> CertifiedRelease:
    curator = desk.curator()
    kind = Kind(curator, Ball(1.5).bind(2))
    release = CertifiedRelease(curator, Terms(what, 1.0, 1e-6, 0.3, 1e-7, **options), kind)
    release.certificate()
    return release


def functionals(desk: Desk) -> Any:
    choice = FunctionalTerms(0.1, 1.0, 2.0, 1.0, 1e3)
    release = opened(desk, "functional", n_functionals=2)
    return release.functionals(np.eye(2), (choice, choice))


def tilted_terms(desk: Desk, budget: ApproxDP) -> Any:
    return perturbation_terms(desk.curator(), 1.5, budget)


def steps(desk: Desk) -> Any:
    terms = step_terms(desk.curator(), Ball(1.5).bind(2), np.eye(2), 1.0)
    assert terms is not None
    return terms


def held_step(desk: Desk) -> Any:
    at = Linearization(THETA, LeastSquares())
    return mean_along(desk.rows(), np.eye(2)[0], 0.7, 1.0, desk.ledger, at)


def counted_scores(desk: Desk) -> Any:
    at, edges = Linearization(THETA, LeastSquares()), np.array([0.5, 1.0])
    return desk.rows_read_again().clipped_and_counted(at, 1.0, 1.0, edges, 0.5)


def scores_of_waves(desk: Desk) -> Any:
    return ScoreWaves(3, 1.0, 1.0).release(
        desk.rows(), Linearization(THETA, LeastSquares()), NO_CLIPPING
    )


OPENED: dict[str, tuple[type, Callable[[Desk], Any]]] = {
    "certified release": (
        ApproxDP,
        lambda desk: QUERIES["certified release"][1](desk).certificate(),
    ),
    "largest eigenvalue": (
        ApproxDP,
        lambda desk: opened(desk, "parameter", certificates=2).largest(
            LogScale(0.1, 10.0, 1e-9, 0.01)
        ),
    ),
    "functionals": (ApproxDP, functionals),
    "parameter": (
        ApproxDP,
        lambda desk: opened(desk, "parameter").parameter(ParameterTerms(0.1, 1.0, 1.0)),
    ),
    "Newton steps": (PureDP, lambda desk: newton_steps(desk.curator(), THETA, steps(desk))),
    "held step": (PureDP, held_step),
    "clipped and counted": (dpfast.GDP, counted_scores),
    "scores of waves": (dpfast.GDP, scores_of_waves),
}
ALL = QUERIES | OPENED

# ---- what is made of what was released, where it is not handed out as it is ----------------------


def of_tilted(desk: Desk, values: list[Any]) -> list[Any]:
    unit = knee(tilted_terms(desk, ApproxDP(1.0, 1e-6)).plan)
    return [expanded(values[0], unit)]


def of_distances(desk: Desk, values: list[Any]) -> list[Any]:
    """The cells in use of one column, in a table of all; those beyond its last one are 0."""
    used = np.asarray(values[0]).reshape(1, 2, -1)
    beyond = OCTAVES - used.shape[2]
    assert beyond > 0
    return [np.concatenate([used, np.zeros((1, 2, beyond))], axis=2)]


AFTERWARDS: dict[str, Callable[[Desk, list[Any]], list[Any]]] = {
    "mean loss": lambda desk, values: [values[0] + 0.5],
    "choice of a column": lambda desk, values: [values],
    "moment of rows": lambda desk, values: [-values[0]],
    "gram and moment": lambda desk, values: [values[1], -values[0]],
    "clipped scores": lambda desk, values: [-values[0], values[1]],
    "clipped and counted": lambda desk, values: [-values[0], values[1]],
    "distances": of_distances,
    "moments by cell": lambda desk, values: [np.asarray(values[0]).reshape(3, 4)],
    "errors of a line": lambda desk, values: [np.asarray(values[0]).reshape(2, 5)],
    "losses of a line": lambda desk, values: [np.asarray(values[0]).reshape(2, 5)],
    "distribution by cell": lambda desk, values: [np.asarray(values[0]).reshape(3, 3)],
    "weighted counts by cell": lambda desk, values: [np.asarray(values[0]).reshape(3, 2)],
    "weighted moments by cell": lambda desk, values: [np.asarray(values[0]).reshape(3, 8)],
    "weighted distribution by cell": lambda desk, values: [np.asarray(values[0]).reshape(2, 3, 3)],
    "tilted minimiser": of_tilted,
    "largest eigenvalue": lambda desk, values: values[1:],  # after the certificate
    "functionals": lambda desk, values: values[1:],
    "parameter": lambda desk, values: values[1:],
    "fallback": lambda desk, values: of_tilted(desk, values[1:]),
    "Newton steps": lambda desk, values: [(np.array(values) + 0.5) * steps(desk).grids],
    "held step": lambda desk, values: [values[0] / HELD_CELLS / N * 0.7],
}

# ---- mechanisms that make numbers of their own ---------------------------------------------------


class Sentinels:
    """In place of all mechanisms; notes what it made and which functions of curators asked."""

    def __init__(self, index: int = 0) -> None:
        self.made: list[Any] = []
        self.asked: set[tuple[str, str]] = set()
        self._index = index
        self._random = np.random.default_rng(7)

    def _note(self, value: Any) -> Any:
        frame: Any = sys._getframe(2)
        while frame is not None:
            path = Path(frame.f_code.co_filename)
            if CURATORS in path.parents:
                name = path.relative_to(CURATORS).as_posix()
                self.asked.add((name, frame.f_code.co_qualname))
            frame = frame.f_back
        self.made.append(value)
        return value

    def release_together(self, values: Any, grids: Any, noise: Any) -> list[Any]:
        return [
            None if exact is None else self._note(self._random.normal(size=np.shape(exact)))
            for exact in values
        ]

    def release_integer(self, value: int, rate: Any, noise: Any) -> int:
        made: int = self._note(1_000_003 + 17 * len(self.made))
        return made

    def release_scaled(self, *arguments: Any) -> float:
        made: float = self._note(float(self._random.normal()))
        return made

    def choose_smallest(self, scores: Any, rate: Any, noise: Any) -> int:
        made: int = self._note(self._index)
        return made

    def release(self, question: Any, release: Any, draw: Any) -> Any:
        """As an observer that lets every mechanism draw."""
        return draw()


class Replayed(Sentinels):
    """An observer that hands out numbers of its own, as a replay does, and lets nothing draw."""

    def release(self, question: Any, release: Any, draw: Any) -> Any:
        if release.query in ("selection", "choice of a point", "choice of a column"):
            return self._note(self._index)
        if isinstance(release, noisy_release.Choice):
            return self._note(1_000_003), (0.25,)
        if release.value.dtype == np.int64:
            return np.array([self._note(1_000_003)])
        return self._note(self._random.normal(size=release.value.shape))


WAYS = {"no observer": Sentinels, "an observer": Sentinels, "a replay": Replayed}


def answered(
    patch: pytest.MonkeyPatch, name: str, way: str = "no observer", index: int = 0
) -> tuple[Any, Desk, Sentinels]:
    """What a query answers when all mechanisms are replaced."""
    currency, ask = ALL[name]
    stub = WAYS[way](index)
    desk = Desk(Ledger(RICH[currency]), SeededNoise(3), [])  # type: ignore[arg-type]
    with patch.context() as inner, nullcontext() if way == "no observer" else observed(stub):
        for mechanism in MECHANISMS:
            inner.setattr(noisy_release, mechanism, getattr(stub, mechanism))
        found = ask(desk)
    return found, desk, stub


MECHANISMS = ("release_together", "release_integer", "release_scaled", "choose_smallest")


def numbers(found: Any) -> Iterator[Any]:
    """The answers in a result, without receipts and what receipts repeat."""
    if isinstance(found, Receipt) or found is None:
        return
    if isinstance(found, Answer):
        assert found.noise_scale == found.receipt.noise_scale
        if found.receipt.query != "none":
            yield found.value
    elif isinstance(found, JointAnswer):
        for part in found[:3]:
            yield from numbers(part)
    elif hasattr(found, "gram"):
        yield from numbers((found.gram, found.moment))
    elif isinstance(found, tuple):
        for part in found:
            yield from numbers(part)
    else:
        yield found


def bits(values: Any) -> list[tuple[Any, bytes]]:
    arrays = [np.asarray(value) for value in values]
    return [(array.shape, array.tobytes()) for array in arrays]


def everything(found: Any) -> Any:
    """All of a result, to the last bit, receipts included."""
    if isinstance(found, tuple):
        return [everything(part) for part in found]
    return found.tobytes() if isinstance(found, np.ndarray) else found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ALL)
def test_a_query_hands_out_what_the_mechanism_made_bit_for_bit(monkeypatch, name, way):
    for index in (0, 1):
        found, desk, stub = answered(monkeypatch, name, way, index)
        made = stub.made
        if name == "functionals" and way != "a replay":
            made = [made[0], np.array(made[1:])]  # one mechanism for each
        assert made, "it released nothing"
        expected = AFTERWARDS.get(name, lambda desk, values: values)(desk, made)
        assert bits(numbers(found)) == bits(expected)


@pytest.mark.parametrize("name", ALL)
def test_of_other_records_a_query_answers_the_same_when_the_mechanisms_do(monkeypatch, name):
    """Receipts, scales and whatever else it returns are the same, too."""
    first = answered(monkeypatch, name)[0]
    random = np.random.default_rng(11)
    monkeypatch.setattr(paid, "X", random.uniform(-0.5, 1.0, size=(N, 2)))
    monkeypatch.setattr(paid, "Y", random.normal(size=N) ** 3)
    assert everything(answered(monkeypatch, name)[0]) == everything(first)


@pytest.mark.parametrize("name", ALL)
def test_noise_in_place_is_that_of_the_mechanism(monkeypatch, name):
    """Compiled releases add to each answer what ``release_together`` adds, to the last bit."""
    currency, ask = ALL[name]
    outcomes = []
    for _ in range(2):
        found = ask(Desk(Ledger(RICH[currency]), SeededNoise(3), []))  # type: ignore[arg-type]
        outcomes.append(everything(found))
        monkeypatch.setattr(  # another function of the same values: the session then calls it
            noisy_release, "release_together", lambda *arguments: release_together(*arguments)
        )
    assert outcomes[0] == outcomes[1]


# ---- no query is forgotten -----------------------------------------------------------------------


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Functions in a module and their qualified names."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield prefix + node.name, node
            yield from functions(node, f"{prefix}{node.name}.<locals>.")
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{prefix}{node.name}.")
        else:
            yield from functions(node, prefix)


def opens_the_door(function: ast.AST) -> bool:
    called = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    names = [f.id if isinstance(f, ast.Name) else getattr(f, "attr", "") for f in called]
    return any(name == "_release" or name.endswith("with_noise") for name in names)


def test_every_function_that_goes_through_the_door_is_asked(monkeypatch):
    queries = {
        (path.relative_to(CURATORS).as_posix(), name)
        for path in CURATORS.rglob("*.py")
        if path.name != "noisy_release.py"
        for name, function in functions(sources.tree(path))
        if opens_the_door(function)
    }
    asked = set().union(*[answered(monkeypatch, name)[2].asked for name in ALL])
    assert len(queries) > 25
    forgotten = queries - asked
    assert forgotten == set()
    words = {word for word in dir(noisy_release) if word.startswith(("release_", "choose_"))}
    mechanisms = {word for word in words if not word.endswith("_with_noise")}
    assert mechanisms == set(MECHANISMS)
