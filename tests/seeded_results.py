"""Compute some 150 seeded results and compare their bits with those of another version of the code.

python -m tests.seeded_results write FILE      store a digest of each result
python -m tests.seeded_results compare FILE    name the results whose numbers differ

A change of names or words changes no number.  Digests are of numbers alone: names,
messages and the order of attributes do not matter.  They hold on one machine with the same versions
of NumPy and SciPy, so that a file of them is written and compared there, and not stored.
"""

from __future__ import annotations

import hashlib
import json
import struct
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import dpfast
from dpfast import effects, tables
from dpfast.curator import noisy_release
from dpfast.inference.results import Fit
from tests.audit.calls import examples
from tests.audit.calls.example import Example

#: One registered call in so many is computed.
THINNING = 8
N = 3000


class Seeded:
    """Replace the noise of every curator by seeded noise, and change nothing else."""

    def source(self, noise: Any) -> Any:
        return dpfast.SeededNoise(11)

    def release(self, question: Any, release: Any, draw: Callable[[], Any]) -> Any:
        return draw()

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def table() -> dict[str, Any]:
    """Make a table with columns of most kinds."""
    rng = np.random.default_rng(5)
    x, z, age = rng.normal(size=N), rng.normal(size=N), rng.integers(18, 80, N).astype(float)
    line = 0.5 * x - 0.2 * z + 0.01 * (age - 48.0)
    return {
        "x": x, "z": z, "age": age, "g": rng.choice(["a", "b", "c"], N), "id": np.arange(N) // 3,
        "d": (rng.random(N) < 1.0 / (1.0 + np.exp(-x))).astype(float),
        "w": rng.uniform(1.0, 3.0, N),
        "y": line + rng.normal(size=N), "event": (rng.random(N) < 0.7).astype(float),
        "label": (line + rng.logistic(size=N) > 0.0).astype(float),
        "count": rng.poisson(np.exp(0.3 * line)).astype(float),
        "cost": np.exp(line) * rng.gamma(2.0, 0.5, N), "t": rng.exponential(np.exp(-0.3 * x)),
        "endogenous": z + x + rng.normal(size=N),
    }  # fmt: skip


def calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield labelled calls as users make them, with nothing declared."""
    data = table()
    X = np.column_stack([data["x"], data["z"], data["age"]])
    responses = {
        "least-squares": "y", "log-cosh": "y", "huber": "y", "logistic": "label", "probit": "label",
        "poisson": "count", "gamma": "cost",
    }  # fmt: skip
    for loss, response in responses.items():
        y = data[response]
        yield f"fit {loss}", lambda y=y, loss=loss: dpfast.fit(X, y, loss, privacy=2.0)
        yield (
            f"fit {loss} float32",
            lambda y=y, loss=loss: dpfast.fit(X.astype(np.float32), y, loss, privacy=2.0),
        )
        yield (
            f"fit {loss} weights",
            lambda y=y, loss=loss: dpfast.fit(
                dpfast.records(X, y, sample_weight=data["w"], largest_weight=3.0),
                None, loss, privacy=2.0,
            ),
        )  # fmt: skip
        yield (
            f"fit {loss} persons",
            lambda y=y, loss=loss: dpfast.fit(
                dpfast.records(X, y, group=data["id"], group_size=3), None, loss, privacy=6.0
            ),
        )
        yield (
            f"formula {loss}",
            lambda r=response, loss=loss: dpfast.fit(
                f"{r} ~ x + I(x**2) + z + C(g, levels=['a', 'b', 'c'])", data, loss, privacy=3.0
            ),
        )
    big = np.random.default_rng(6).normal(size=(60_000, 3))
    wide = big @ [1.0, -0.5, 0.2] + np.random.default_rng(7).normal(size=60_000)
    yield "fit, a sample", lambda: dpfast.fit(big, wide, "least-squares", privacy=1.0)
    yield "fit, a sample, logistic", lambda: dpfast.fit(big, wide > 0.0, "logistic", privacy=1.0)
    yield "quantiles", lambda: dpfast.fit_quantiles(X, data["y"], [0.25, 0.5], privacy=3.0)
    yield from regressions(X, data)
    yield from releases(X, data)
    yield "two_stage", lambda: effects.two_stage("y ~ endogenous | z", data, privacy=9.0)
    yield (
        "cox",
        lambda: effects.cox("t ~ x + z", data, event="event", cuts=[0.3, 0.6, 1.0], privacy=5.0),
    )
    yield (
        "treatment_effect",
        lambda: effects.treatment_effect(X[:, :2], data["d"], data["y"], privacy=9.0),
    )
    schema = dpfast.Schema(
        {
            "g": dpfast.Categorical(("a", "b", "c")), "y": dpfast.Numeric(-5.0, 5.0),
            "x": dpfast.Numeric(-4.0, 4.0), "label": dpfast.Binary(1, 0),
        }
    )  # fmt: skip
    yield from econometrics(X, data, schema)
    yield "counts", lambda: tables.counts(data, "g", schema=schema, privacy=1.0)
    yield "means", lambda: tables.means(data, ["y", "label"], "g", schema=schema, privacy=1.0)
    yield "table quantiles", lambda: tables.quantiles(data, "y", "g", schema=schema, privacy=1.0)
    yield "fits", lambda: tables.fits("y ~ x", data, "g", schema=schema, privacy=5.0)
    yield (
        "absorbed",
        lambda: tables.absorbed("y ~ x | g", data, schema=schema, privacy=5.0),
    )
    yield (
        "minimize",
        lambda: dpfast.minimize(X, data["y"], dpfast.Objective("tukey", scale=1.0), privacy=5.0),
    )
    yield (
        "private_quantiles",
        lambda: dpfast.private_quantiles(data["age"], [0.5], low=0, high=99, privacy=1.0),
    )
    yield "plan", lambda: dpfast.plan(n=5000, p=4, loss="log-cosh", privacy=1.0)
    yield (
        "tune",
        lambda: dpfast.tune(
            lambda theta: (data["y"] - theta[0] * data["x"]) ** 2,
            [(-2.0, 2.0)], n_records=N, clip=4.0, steps=4, privacy=3.0,
        ),
    )  # fmt: skip


def regressions(X: Any, data: dict[str, Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield fits by a method, of too few records, in given units, and those that were stopped."""
    known = dpfast.Objective("log-cosh", scale=1.0, weights=dpfast.models.Mallows(3.0))
    free = dpfast.Objective("huber", scale=dpfast.FreeScale(0.2, 5.0))
    fit, levels = dpfast.fit, dpfast.fit_quantiles
    for loss, kind in ((known, "weights"), (free, "free scale"), ("log-cosh", "private units")):
        for method in ("newton", "gradient-descent"):
            options = {"privacy": 3.0, "method": method}
            yield (
                f"fit {method}, {kind}",
                lambda loss=loss, options=options: fit(X, data["y"], loss, **options),
            )
    few = X[:60], data["y"][:60], "log-cosh"
    yield "fit, few", lambda: fit(*few, privacy=1.0)
    yield "fit, few labels", lambda: fit(X[:60], data["label"][:60], "logistic", privacy=1.0)
    yield "fit, few counts", lambda: fit(X[:60], data["count"][:60], "poisson", privacy=1.0)
    yield "standardize", lambda: dpfast.standardize(X, data["y"], privacy=1.0)
    units = dpfast.standardize(X, data["y"], privacy=1.0, noise=dpfast.SeededNoise(4))
    yield "fit, given units", lambda: fit(X, data["y"], "log-cosh", privacy=1.0, standardize=units)
    by_newton = {"privacy": 5.0, "method": "newton"}
    arguments = (X, data["y"], [0.25, 0.5])
    declared = (*arguments, dpfast.Objective("quantile", scale=1.0))
    yield "quantiles newton", lambda: levels(*declared, **by_newton)
    for step in (1, 2):
        yield (
            f"fit stopped {step}",
            lambda step=step: stopped(fit, step, X, data["y"], "log-cosh", privacy=2.0),
        )
        yield (
            f"fit newton stopped {step}",
            lambda step=step: stopped(fit, step, X, data["y"], known, **by_newton),
        )
    yield "fit, few, stopped", lambda: stopped(fit, 1, *few, privacy=1.0)
    for step in (1, 12, 40):
        yield (
            f"quantiles stopped {step}",
            lambda step=step: stopped(levels, step, *arguments, privacy=3.0),
        )
        yield (
            f"quantiles newton stopped {step}",
            lambda step=step: stopped(levels, step, *declared, **by_newton),
        )


def stopped(door: Callable[..., Any], step: int, *arguments: Any, **options: Any) -> Any:
    """Interrupt a call at this step or a later one; return what it had released by then."""

    def progress(done: int, planned: int) -> None:
        if done >= step:
            raise KeyboardInterrupt

    try:
        return door(*arguments, progress=progress, **options)
    except KeyboardInterrupt as interrupt:
        return interrupt.partial_result  # type: ignore[attr-defined]


def releases(X: Any, data: dict[str, Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield releases of functionals by each method."""
    objective, pair = dpfast.Objective("log-cosh", scale=1.0), dpfast.ApproxDP(3.0, 1e-6)
    ball = dpfast.models.Ball(3.0, intercept=True)
    scaled = X / [1.0, 1.0, 60.0]

    def release(loss: Any, **options: Any) -> Any:
        return dpfast.release_functional(scaled, data["y"], loss, "x1", privacy=pair, **options)

    for method in ("auto", "one-shot", "fit"):
        yield f"release {method}", lambda m=method: release("log-cosh", method=m)
    for method in ("auto", "one-shot", "fit", "objective-perturbation"):
        yield (
            f"release {method}, a domain",
            lambda m=method: release(objective, method=m, domain=ball),
        )
    yield "release, inference", lambda: release(objective, domain=ball, inference=0.3)


def econometrics(
    X: Any, data: dict[str, Any], schema: dpfast.Schema
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield treatment effects, hazards and fits by level under other options."""
    two, treated, y = X[:, :2], data["d"], data["y"]
    options: list[tuple[str, dict[str, Any]]] = [
        ("known", {"propensity": 0.5}),
        ("difference", {"method": "difference"}),
        ("known difference", {"method": "difference", "propensity": 0.5}),
        ("treated, clipped", {"average": "treated", "clip": 8.0}),
        ("own units", {"standardize": False}),
    ]
    for kind, chosen in options:
        yield (
            f"treatment_effect, {kind}",
            lambda chosen=chosen: effects.treatment_effect(two, treated, y, privacy=9.0, **chosen),
        )
    yield (
        "treatment_effect, persons",
        lambda: effects.treatment_effect(
            dpfast.records(two, y, group=data["id"], each="person"), treated, privacy=9.0
        ),
    )
    weeks = data | {"t": np.ceil(10.0 * data["t"]) / 10.0}
    yield (
        "cox, a unit",
        lambda: effects.cox("t ~ x", weeks, event="event", cuts=[0.5, 1.0], unit=0.1, privacy=5.0),
    )
    yield (
        "two_stage, exogenous",
        lambda: effects.two_stage("y ~ endogenous + age | z + x + age", data, privacy=9.0),
    )
    by_group: dict[str, Any] = {"schema": schema, "privacy": 5.0}
    yield "fits, logistic", lambda: tables.fits("label ~ x", data, "g", "logistic", **by_group)
    tenths = dpfast.Schema({"tenth": dpfast.Categorical(list(range(10)))})
    in_tenths = data | {"tenth": np.arange(len(data["y"])) % 10}
    yield (
        "small areas",
        lambda: tables.small_areas("y ~ x", in_tenths, "tenth", schema=tenths, privacy=5.0),
    )
    yield "absorbed, two", lambda: tables.absorbed("y ~ x + z | g", data, **by_group)


def numbers(thing: Any, leaves: set[bytes], visited: set[int], depth: int = 0) -> None:
    """Collect the bytes of all numbers that an object leads to."""
    if isinstance(thing, (float, int, np.number)):
        with suppress(OverflowError):
            leaves.add(struct.pack("<d", thing))
    elif isinstance(thing, np.ndarray):
        if thing.dtype.kind in "fiu":
            leaves.add(np.ascontiguousarray(thing, dtype="<f8").tobytes())
        elif thing.dtype.kind == "O":
            numbers(thing.tolist(), leaves, visited, depth)
    elif depth < 12 and id(thing) not in visited and not isinstance(thing, (str, bytes, type)):
        visited.add(id(thing))
        if isinstance(thing, Fit):
            thing.__getstate__()  # makes the parts that nobody has read yet
        parts: Any = ()
        if isinstance(thing, Mapping):
            parts = thing.values()
        elif isinstance(thing, (tuple, list, set, frozenset)):
            parts = thing
        elif type(thing).__module__.startswith("dpfast"):
            parts = [getattr(thing, name, None) for name in _attributes(thing)]
        for part in parts:
            numbers(part, leaves, visited, depth + 1)


def _attributes(thing: Any) -> list[str]:
    """Name what an object keeps, in its dictionary and in slots."""
    slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    return [*slots, *getattr(thing, "__dict__", {})]


def digest(call: Callable[[], Any]) -> str:
    """Run a call under seeded noise; return a digest of its numbers, or the kind of its error."""
    with noisy_release.observed(Seeded()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = call()
        except dpfast.DpfastError as error:
            return type(error).__name__
    leaves: set[bytes] = set()
    numbers(result, leaves, set())
    return hashlib.sha256(b"".join(sorted(leaves))).hexdigest()[:16]


def results() -> dict[str, str]:
    """Compute every digest, by label."""
    digests = {label: digest(call) for label, call in calls()}
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 2))
    y = X @ [1.0, -0.5] + rng.normal(size=40)
    chosen: list[Example] = examples()[::THINNING]
    for k, example in enumerate(chosen):
        data = (X, (y > 0.0).astype(float) if example.binary else y)
        label = f"{k}: {example.name.rpartition('.')[2]}, {example.label}"
        digests[label] = digest(lambda example=example, data=data: example.call(data))
    return digests


def main(arguments: list[str]) -> int:
    """Write the digests to a file, or compare them with those of a file."""
    if len(arguments) != 2 or arguments[0] not in ("write", "compare"):
        print(__doc__)
        return 2
    path, now = Path(arguments[1]), results()
    if arguments[0] == "write":
        path.write_text(json.dumps(now, indent=0))
        print(f"{len(now)} results")
        return 0
    before = json.loads(path.read_text())
    other = [label for label in {**before, **now} if before.get(label) != now.get(label)]
    print(*other, f"{len(now)} results, {len(other)} differ", sep="\n")
    return int(bool(other))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
