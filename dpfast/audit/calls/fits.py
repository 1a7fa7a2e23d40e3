"""Calls of fits, on records of every kind, and of quantiles."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import product
from typing import Any

import numpy as np

from dpfast.audit.calls.example import (
    BINARY,
    CURVED,
    LOSSES,
    REDESCENDING,
    SCALED,
    WEIGHTS,
    Example,
)
from dpfast.models import (
    Bounded,
    Clip,
    FreeScale,
    MallowsLinear,
    Schweppe,
)
from dpfast.optimize import DoubleNoise, Geometric, GradientDescent, Newton, Uniform
from dpfast.optimize.damping import (
    AveragingTail,
    Backtracking,
    Damped,
    DecrementSwitch,
    SelfConcordant,
)
from dpfast.privacy.budget import GDP, ZCDP, ApproxDP
from dpfast.privacy.ledger import Ledger
from dpfast.regression.fit import fit

__all__ = ["fits", "formulas", "quantiles", "stored"]

METHODS = ("newton", "gradient-descent")


def _fit(label: str, loss: str, **options: Any) -> Example:
    budget = options.setdefault("privacy", GDP(1.0))
    binary = loss in BINARY
    if not binary:
        options.setdefault("scale", 0.8)

    def call(data: Any) -> Any:
        own = dict(options)
        if "ledger" in own:  # state belongs inside the call
            own["ledger"] = Ledger(own["ledger"])
        result = fit(data[0], data[1], loss, **own)
        # What is derived from a result is published as often as the result.
        return result, result.summary(), result.to_dict(), repr(result)

    return Example("dpfast.regression.fit.fit", f"{loss}, {label}", call, binary, budget)


def fits() -> Iterator[Example]:
    for loss, weights, method, inference in product(LOSSES, WEIGHTS, METHODS, (True, False)):
        if isinstance(weights, Clip) and (method == "newton" or inference):
            continue  # clipped scores have no Hessian
        label = f"{weights}, {method}, inference={inference}"
        yield _fit(label, loss, weights=weights, method=method, inference=inference, steps=4)
    for loss in LOSSES:
        yield _fit("defaults", loss)
        yield _fit("no intercept, ridge", loss, fit_intercept=False, ridge=0.1)
        yield _fit("uniform schedule, start", loss, schedule=Uniform(), start=[0.3, -0.1, 2.0])
        yield _fit("far start", loss, start=[1e3, -1e6, 1e3], steps=3)
    yield _fit("averaged", "huber", method=GradientDescent(average=0.5), steps=6)
    yield _fit("long steps", "huber", method=GradientDescent(step_size=1e6), steps=6)
    for loss in LOSSES:
        yield _fit("no inference", loss, inference=False)
    yield _fit("one Newton step", "log-cosh", method=Newton(newton_steps=1), steps=2)
    yield _fit("steep schedule", "log-cosh", schedule=Geometric(10.0, 0.05), steps=5)
    for loss in CURVED:
        for kept in (None, Schweppe(1.5), Bounded(1.5)):
            yield _fit(repr(kept), loss, weights=kept, steps=4)
        yield _fit("first power", loss, weights=MallowsLinear(1.5), inference=False, steps=4)
    schweppe = Schweppe(1.5)
    yield _fit("Schweppe", "huber", weights=schweppe, method="gradient-descent", steps=4)
    yield _fit("Schweppe", "log-cosh", weights=schweppe, method=Newton(step=SelfConcordant()))
    for loss in REDESCENDING:
        yield _fit("redescending", loss, inference=False, steps=4)
    yield _fit("names, threads", "log-cosh", names=["a", "b"], threads=2)
    yield _fit("shared ledger", "log-cosh", ledger=GDP(2.0))
    yield _fit("shared ledger too small", "log-cosh", ledger=GDP(0.5))
    for loss, weights, method in product(SCALED, WEIGHTS[:3], METHODS):
        free = FreeScale(0.05, 20.0)
        yield _fit(f"free scale, {weights}, {method}", loss, scale=free, weights=weights,
                   method=method, steps=4)  # fmt: skip
    yield _fit("free scale, far start", "huber", scale=FreeScale(1e-6, 1e6, 1e-6), steps=3)
    bounded = Bounded(1.5)
    for newton in (
        Newton(gradient_steps=2),
        Newton(early_ridge=0.3),
        Newton(max_step=0.01, floor=0.2),
        Newton(step=Damped(0.5)),
        Newton(step=AveragingTail(0.5, 2)),
        Newton(step=SelfConcordant()),
        Newton(step=DecrementSwitch()),
        Newton(step=Backtracking(3)),
    ):
        yield _fit(repr(newton), "log-cosh", method=newton, weights=bounded, steps=5)
    for double in (
        DoubleNoise(),
        DoubleNoise(damping=1e-3, max_step=0.5),
        DoubleNoise(newton_steps=5),
    ):
        yield _fit(repr(double), "log-cosh", method=double, steps=5)
    for loss in LOSSES:
        yield _fit("double noise", loss, method="double-noise", steps=3, ridge=0.1)
        yield _fit("estimated step", loss, method=GradientDescent(step_size="estimated"), steps=3)
    for budget in (GDP(0.1), ZCDP(0.5), ApproxDP(1.0, 1e-6), GDP(50.0)):
        yield _fit(repr(budget), "log-cosh", privacy=budget)


def formulas() -> Iterator[Example]:
    from dpfast.data.schema import Binary, Numeric, Schema
    from dpfast.regression.formula import fit_formula

    if find_spec("formulaic") is None:
        return
    columns = {"a": Numeric(-1.0, 1.0), "b": Numeric(-2.0, 2.0, centre=1.0, unit=0.5)}
    for loss, response in (("log-cosh", Numeric(-3.0, 3.0)), ("logistic", Binary(1, 0))):
        schema = Schema(columns | {"y": response})
        scale = {} if loss in BINARY else {"scale": 0.8}

        def call(data: Any, loss: str = loss, options: Any = (schema, scale)) -> Any:
            X, y = data
            table = {"a": X[:, 0], "b": X[:, 1], "y": y}
            formula = "y ~ a*b + I(a**2) + exp(b)"
            own = {"schema": options[0], "privacy": GDP(1.0), "steps": 3} | options[1]
            return fit_formula(formula, table, loss, **own)

        name = "dpfast.regression.formula.fit_formula"
        yield Example(name, loss, call, loss in BINARY, GDP(1.0))


def quantiles() -> Iterator[Example]:
    from dpfast.data.schema import Numeric, Schema
    from dpfast.quantiles import private_quantiles, with_private_scaling

    def quantiles(data: Any) -> Any:
        return private_quantiles(data[1], (0.2, 0.6), low=-2.0, high=2.0, privacy=1.0, steps=5)

    def scaling(data: Any) -> Any:
        schema = Schema({"a": Numeric(-1.0, 1.0), "b": Numeric(-2.0, 2.0)})
        table = {"a": data[0][:, 0], "b": data[0][:, 1]}
        return with_private_scaling(schema, table, ["a", "b"], privacy=1.0)

    yield Example("dpfast.quantiles.private_quantiles", "", quantiles, False, GDP(1.0))
    yield Example("dpfast.quantiles.with_private_scaling", "", scaling, False, GDP(1.0))


def stored() -> Iterator[Example]:
    """Records that are converted block by block."""
    from scipy import sparse

    from dpfast.data.files.parquet import open_parquet

    def compressed(data: Any) -> Any:
        return fit(sparse.csr_matrix(data[0]), data[1], "huber", scale=0.8, privacy=1.0, steps=3)

    def mapped(data: Any) -> Any:
        with tempfile.TemporaryFile() as file, np.errstate(all="ignore"):
            data[0].astype("f4").tofile(file)
            X = np.memmap(file, dtype="f4", mode="r", shape=data[0].shape)
            return fit(X, data[1], "huber", scale=0.8, privacy=1.0, steps=3)

    def parquet(data: Any) -> Any:
        from pyarrow import parquet, table

        columns = {"a": data[0][:, 0], "b": data[0][:, 1], "y": data[1]}
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/data.parquet"
            parquet.write_table(table(columns), path, row_group_size=5)
            records = open_parquet(path, covariates=["a", "b"], response="y")
            return fit(records, None, "huber", scale=0.8, privacy=1.0, steps=3)

    name = "dpfast.regression.fit.fit"
    yield Example(name, "compressed rows", compressed, False, GDP(1.0))
    yield Example(name, "memmap of float32", mapped, False, GDP(1.0))
    if find_spec("pyarrow") is not None:
        yield Example(name, "Parquet", parquet, False, GDP(1.0))
