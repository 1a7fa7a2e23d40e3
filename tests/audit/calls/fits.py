"""Calls of fits, on records of every kind, and of quantiles."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import product
from typing import Any

import numpy as np

from dpfast import Objective, records
from dpfast.models import (
    Bounded,
    Clip,
    FreeScale,
    Loss,
    MallowsLinear,
    Schweppe,
)
from dpfast.models.poisson import Poisson
from dpfast.models.quantile import Quantile
from dpfast.optimize import (
    Geometric,
    GradientDescent,
    Newton,
    Uniform,
)
from dpfast.optimize.damping import (
    AveragingTail,
    Backtracking,
    Damped,
    DecrementSwitch,
    GradientSwitch,
    SelfConcordant,
)
from dpfast.privacy.budget import GDP, ZCDP, ApproxDP
from dpfast.privacy.ledger import Ledger
from dpfast.regression.fit import fit
from tests.audit.calls.example import (
    BINARY,
    CURVED,
    LOSSES,
    REDESCENDING,
    SCALED,
    WEIGHTS,
    Example,
)

__all__ = [
    "fits",
    "formulas",
    "levels",
    "many",
    "persons",
    "quantiles",
    "sparse",
    "standardised",
    "stored",
    "weighted",
]

METHODS: tuple[type[Newton | GradientDescent], ...] = (Newton, GradientDescent)


def _objective(loss: str | Loss, scale: Any = 0.8, **terms: Any) -> str | Loss | Objective:
    """The loss with its terms; alone where it has none, and some losses take none."""
    terms = {name: value for name, value in terms.items() if value is not None}
    scale = None if loss in BINARY else scale
    return Objective(loss, scale=scale, **terms) if terms or scale is not None else loss


def _fit(
    label: str,
    loss: str | Loss,
    *,
    scale: Any = 0.8,
    weights: Any = None,
    ridge: float | None = None,
    fit_intercept: bool | None = None,
    beside: dict[str, Any] | None = None,
    **options: Any,
) -> Example:
    budget = options.setdefault("privacy", GDP(1.0))
    binary = loss in BINARY
    terms = {"weights": weights, "ridge": ridge, "fit_intercept": fit_intercept}
    objective = _objective(loss, scale, **terms)

    def call(data: Any) -> Any:
        own = dict(options)
        if "ledger" in own:  # state belongs inside the call
            own["ledger"] = Ledger(own["ledger"])
        X, y = (records(*data, **beside), None) if beside else data
        result = fit(X, y, objective, **own)
        # What is derived from a result is published as often as the result.
        return result, result.summary(), result.to_dict(), repr(result)

    return Example("dpfast.regression.fit.fit", f"{loss}, {label}", call, binary, budget)


def fits() -> Iterator[Example]:
    for loss, weights, method, inference in product(LOSSES, WEIGHTS, METHODS, (True, False)):
        if isinstance(weights, Clip) and (method is Newton or inference):
            continue  # clipped scores have no Hessian
        label = f"{weights}, {method.name}, inference={inference}"
        yield _fit(label, loss, weights=weights, method=method(steps=4), inference=inference)
    for loss in LOSSES:
        yield _fit("defaults", loss)
        yield _fit("no intercept, ridge", loss, fit_intercept=False, ridge=0.1)
        near, far = [0.3, -0.1, 2.0], [1e3, -1e6, 1e3]
        even = Newton(schedule=Uniform(), start=near)
        yield _fit("uniform schedule, start", loss, method=even)
        yield _fit("far start", loss, method=Newton(start=far, steps=3))
    for inference in (True, False):
        coded = {"scale": None, "standardize": False, "inference": inference}
        yield _fit(f"inference={inference}", "least-squares", **coded)
    for loss in ("huber", "least-squares"):
        own = {"standardize": False, "privacy": GDP(40.0)}  # the response's location is bought
        yield _fit("own units", loss, scale=None, **own)
    no_intercept = {"scale": None, "fit_intercept": False, "privacy": GDP(40.0)}
    yield _fit("no intercept, units bought", "least-squares", **no_intercept)
    yield _fit("stopped", "huber", method=GradientDescent(stop=50.0, steps=6))
    yield _fit("stopped Newton", "log-cosh", method=Newton(stop=50.0, steps=6))
    yield _fit("averaged", "huber", method=GradientDescent(average=0.5, steps=6))
    yield _fit("long steps", "huber", method=GradientDescent(step_size=1e6, steps=6))
    for loss in LOSSES:
        yield _fit("no inference", loss, inference=False)
    yield _fit("one Newton step", "log-cosh", method=Newton(newton_steps=1, steps=2))
    steep = Newton(schedule=Geometric(10.0, 0.05), steps=5)
    yield _fit("steep schedule", "log-cosh", method=steep)
    for loss in CURVED:
        for kept in (None, Schweppe(1.5), Bounded(1.5)):
            yield _fit(repr(kept), loss, weights=kept, method=Newton(steps=4))
        first = MallowsLinear(1.5)
        plain = GradientDescent(steps=4)
        yield _fit("first power", loss, weights=first, inference=False, method=plain)
    schweppe = Schweppe(1.5)
    yield _fit("Schweppe", "huber", weights=schweppe, method=GradientDescent(steps=4))
    yield _fit("Schweppe", "log-cosh", weights=schweppe, method=Newton(step=SelfConcordant()))
    for counts in (Poisson(2.0), Poisson(20.0, 1.5)):
        yield _fit("counts", counts, scale=None)
        newton, descent = Newton(steps=4), GradientDescent(steps=4)
        yield _fit("newton", counts, scale=None, method=newton, weights=Bounded(1.5))
        yield _fit("descent", counts, scale=None, method=descent, fit_intercept=False)
    for loss in REDESCENDING:
        yield _fit("redescending", loss, inference=False, method=GradientDescent(steps=4))
    yield _fit("names, threads", "log-cosh", beside={"names": ["a", "b"], "threads": 2})
    yield _fit("shared ledger", "log-cosh", ledger=GDP(2.0))
    yield _fit("shared ledger too small", "log-cosh", ledger=GDP(0.5))
    free = FreeScale(0.05, 20.0)
    for joint, (loss, weights) in product((True, False), product(SCALED, WEIGHTS[:3])):
        walk = Newton(steps=4) if joint else GradientDescent(steps=4)
        label = f"free scale, {weights}, {walk.name}"
        yield _fit(label, loss, scale=free, weights=weights, method=walk)
    for loss in SCALED:
        yield _fit("free scale, defaults", loss, scale=free)
    low = FreeScale(1e-6, 1e6, 1e-6)
    yield _fit("free scale, far start", "huber", scale=low, method=Newton(steps=3))
    bounded = Bounded(1.5)
    for newton in (
        Newton(gradient_steps=2, steps=5),
        Newton(early_ridge=0.3, steps=5),
        Newton(max_step=0.01, floor=0.2, steps=5),
        Newton(step=Damped(0.5), steps=5),
        Newton(step=AveragingTail(0.5, 2), steps=5),
        Newton(step=SelfConcordant(), steps=5),
        Newton(step=DecrementSwitch(), steps=5),
        Newton(step=GradientSwitch(), steps=5),
        Newton(step=Backtracking(3), steps=5),
    ):
        label = f"Newton({', '.join(newton.settings())})"
        yield _fit(label, "log-cosh", method=newton, weights=bounded)
    for loss in LOSSES:
        estimated = GradientDescent(step_size="estimated", steps=3)
        yield _fit("estimated step", loss, method=estimated)
    for budget in (GDP(0.1), ZCDP(0.5), ApproxDP(1.0, 1e-6), GDP(50.0)):
        yield _fit(repr(budget), "log-cosh", privacy=budget)


def levels() -> Iterator[Example]:
    from dpfast.regression.quantiles.fitting import fit_quantiles

    ways: tuple[tuple[float | None, tuple[float, ...], bool], ...] = (
        (0.8, (0.25, 0.5, 0.75), False),
        (0.8, (0.9,), False),
        (None, (0.4, 0.6), False),
        (0.8, (0.3, 0.6), True),
        (None, (0.4, 0.6), True),
    )
    for scale, taus, weighted in ways:

        def call(data: Any, scale: Any = scale, taus: Any = taus, weighted: bool = weighted) -> Any:
            X, y = data
            budget = GDP(1.0 if scale else 4.0)
            beside: dict[str, Any] = {}
            if weighted:
                with np.errstate(all="ignore"):
                    beside = {"sample_weight": 1.5 * X[:, 0] + 1.0, "offset": 0.5 * X[:, 1]}
                beside["largest_weight"] = 2.0
            loss = Objective("quantile", scale=scale) if scale else "quantile"
            found = fit_quantiles(
                records(X, y, threads=2, **beside), None, taus, loss, privacy=budget
            )
            return (
                found,
                found.summary(),
                found.to_dict(),
                repr(found),
                found.predict(np.zeros((2, 2))),
            )

        name = "dpfast.regression.quantiles.fitting.fit_quantiles"
        label = f"{taus}, scale={scale}{', weighted' if weighted else ''}"
        yield Example(name, label, call, False, GDP(1.0 if scale else 4.0))
    for tau in (0.5, 0.9):
        loss = Quantile(tau)

        def own(data: Any, loss: Quantile = loss) -> Any:
            result = fit(data[0], data[1], loss, privacy=GDP(4.0))
            return result, result.summary()

        yield Example("dpfast.regression.fit.fit", f"{loss}, raw columns", own, False, GDP(4.0))


def weighted() -> Iterator[Example]:
    """Records with weights and offsets of their own, functions of the record each."""
    name, steps = "dpfast.regression.fit.fit", Newton(steps=3)
    ways: tuple[tuple[str, str, dict[str, Any], dict[str, Any]], ...] = (
        ("huber", "Newton", {}, {"method": steps}),
        ("log-cosh", "defaults", {}, {}),
        ("log-cosh", "free scale", {"scale": FreeScale(0.05, 20.0)}, {}),
        ("log-cosh", "units bought", {"scale": None}, {"privacy": GDP(40.0)}),
        ("huber", "estimated step", {}, {"method": GradientDescent(
            step_size="estimated", steps=3)}),
        ("huber", "clipped", {"weights": Clip(0.8)}, {"inference": False,
                                                      "method": GradientDescent(steps=3)}),
        ("least-squares", "units bought", {"scale": None}, {"privacy": GDP(40.0)}),
        ("logistic", "Newton", {}, {"method": steps}),
        ("logistic", "defaults", {}, {}),
    )  # fmt: skip
    for loss, label, terms, options in ways:
        objective = _objective(loss, **terms)

        def call(data: Any, loss: Any = objective, options: dict[str, Any] = options) -> Any:
            X, y = data
            with np.errstate(all="ignore"):
                weight, offset = 1.5 * X[:, 0] + 1.0, 0.5 * X[:, 1] - 0.2 * X[:, 0]
            beside = {"sample_weight": weight, "largest_weight": 2.0, "offset": offset}
            result = fit(records(X, y, **beside), None, loss, **({"privacy": GDP(1.0)} | options))
            return result, result.summary()

        binary = loss in BINARY
        yield Example(
            name, f"{loss}, weighted, {label}", call, binary, options.get("privacy", GDP(1.0))
        )


def persons() -> Iterator[Example]:
    """Persons who count with the mean of their rows, here of at most three each."""
    name = "dpfast.regression.fit.fit"
    ways: tuple[tuple[str, str, float | None, dict[str, Any]], ...] = (
        ("huber", "Newton", 0.8, {"method": Newton(steps=3)}),
        ("log-cosh", "defaults", 0.8, {}),
        ("log-cosh", "units bought", None, {"privacy": GDP(40.0)}),
        ("logistic", "defaults", None, {}),
        ("logistic", "units bought", None, {"privacy": GDP(40.0), "standardize": True}),
    )
    for loss, label, scale, options in ways:
        objective = _objective(loss, scale)

        def call(data: Any, loss: Any = objective, options: dict[str, Any] = options) -> Any:
            X, y = data
            given: dict[str, Any] = {"group": np.arange(len(y)) // 3, "each": "person"}
            result = fit(records(X, y, **given), None, loss, **({"privacy": GDP(1.0)} | options))
            return result, result.summary()

        binary = loss in BINARY
        yield Example(
            name, f"{loss}, persons, {label}", call, binary, options.get("privacy", GDP(1.0))
        )


def formulas() -> Iterator[Example]:
    from dpfast.data.schema import Binary, Numeric, Schema
    from dpfast.regression.fit import fit

    if find_spec("formulaic") is None:
        return
    columns = {"a": Numeric(-1.0, 1.0), "b": Numeric(-2.0, 2.0, centre=1.0, unit=0.5)}
    for loss, response in (("log-cosh", Numeric(-3.0, 3.0)), ("logistic", Binary(1, 0))):
        schema = Schema(columns | {"y": response})
        objective = _objective(loss)

        def call(data: Any, loss: Any = objective, schema: Schema = schema) -> Any:
            X, y = data
            table = {"a": X[:, 0], "b": X[:, 1], "y": y}
            formula = "y ~ a*b + I(a**2) + exp(b)"
            method = Newton(steps=3)
            return fit(formula, table, loss, schema=schema, privacy=GDP(1.0), method=method)

        name = "dpfast.regression.fit.fit"
        yield Example(name, f"{loss}, formula", call, loss in BINARY, GDP(1.0))


def many() -> Iterator[Example]:
    """Call with two responses, and with folds, in which a record occurs once."""
    from dpfast.regression.many import fit_many

    def responses(data: Any) -> Any:
        X, y = data
        return fit_many(X, np.column_stack([y, -y]), privacy_each=GDP(4.0))

    def folds(data: Any) -> Any:
        rows = [np.arange(0, len(data[0]), 2), np.arange(1, len(data[0]), 2)]
        return fit_many(*data, "log-cosh", privacy_each=GDP(4.0), resamples=rows)

    name, total = "dpfast.regression.many.fit_many", GDP(4.0 * 2.0**0.5 * (1.0 + 1e-12))
    yield Example(name, "two responses", responses, False, total)
    yield Example(name, "folds", folds, False, total)


def sparse() -> Iterator[Example]:
    """Call that selects a column for the response, and one for a coefficient of interest."""
    from dpfast.regression.sparse import fit_sparse

    def selected(data: Any) -> Any:
        options: Any = {"n_nonzero_coefs": 1, "of_interest": ["x1"]}
        return fit_sparse(*data, privacy=GDP(900.0), **options)

    name = "dpfast.regression.sparse.fit_sparse"
    yield Example(name, "two columns", selected, False, GDP(900.0))


def quantiles() -> Iterator[Example]:
    from dpfast.quantiles import private_quantiles

    def quantiles(data: Any) -> Any:
        return private_quantiles(data[1], (0.2, 0.6), low=-2.0, high=2.0, privacy=1.0, steps=5)

    yield Example("dpfast.quantiles.private_quantiles", "", quantiles, False, GDP(1.0))


def standardised() -> Iterator[Example]:
    from dpfast.scaling.standardize import standardize

    def bought(data: Any, loss: str = "log-cosh", **options: Any) -> Any:
        X, y = data
        units = standardize(X, y, privacy=GDP(30.0), **options)
        scale = None if loss in BINARY else 0.8
        found = fit(units.encode(X, y), None, Objective(loss, scale=scale), privacy=GDP(40.0))
        return repr(units), units.centres, units.spreads, found, found.natural.summary()

    def binary(data: Any) -> Any:
        return bought(data, "logistic", response=False)

    name = "dpfast.regression.fit.fit"
    for loss in ("log-cosh", "huber", "least-squares", "logistic"):

        def raw(data: Any, loss: str = loss) -> Any:
            return fit(data[0], data[1], loss, privacy=GDP(40.0), standardize=True).summary()

        yield Example(name, f"{loss}, standardised", raw, loss in BINARY, GDP(40.0))
    name = "dpfast.scaling.standardize.standardize"
    yield Example(name, "", bought, False, GDP(50.01))
    yield Example(name, "logistic", binary, True, GDP(50.01))


def stored() -> Iterator[Example]:
    """Records that are converted block by block."""
    from scipy import sparse

    from dpfast.data.files.parquet import open_parquet

    def compressed(data: Any) -> Any:
        X = sparse.csr_matrix(data[0])
        return fit(X, data[1], Objective("huber", scale=0.8), method=Newton(steps=3), privacy=1.0)

    def mapped(data: Any) -> Any:
        with tempfile.TemporaryFile() as file, np.errstate(all="ignore"):
            data[0].astype("f4").tofile(file)
            X = np.memmap(file, dtype="f4", mode="r", shape=data[0].shape)
            return fit(
                X, data[1], Objective("huber", scale=0.8), method=Newton(steps=3), privacy=1.0
            )

    def parquet(data: Any) -> Any:
        from pyarrow import parquet, table

        columns = {"a": data[0][:, 0], "b": data[0][:, 1], "y": data[1]}
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/data.parquet"
            parquet.write_table(table(columns), path, row_group_size=5)
            records = open_parquet(path, covariates=["a", "b"], response="y")
            return fit(
                records, None, Objective("huber", scale=0.8), method=Newton(steps=3), privacy=1.0
            )

    name = "dpfast.regression.fit.fit"
    yield Example(name, "compressed rows", compressed, False, GDP(1.0))
    yield Example(name, "memmap of float32", mapped, False, GDP(1.0))
    if find_spec("pyarrow") is not None:
        yield Example(name, "Parquet", parquet, False, GDP(1.0))
