"""Calls of tables by cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dpfast.data.schema import Binary, Categorical, Numeric, Schema
from dpfast.data.source import records
from dpfast.privacy.budget import GDP, ZCDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import SeededNoise
from dpfast.regression.fit import fit
from dpfast.regression.goodness import goodness_of_fit
from dpfast.tables.absorbed import absorbed
from dpfast.tables.distribution import distribution, quantiles
from dpfast.tables.estimates import counts, means
from dpfast.tables.small_areas import small_areas
from dpfast.tables.subgroups import fits
from tests.audit.calls.example import Example

__all__ = ["tables"]

SCHEMA = Schema(
    {
        "a": Numeric(-1.0, 1.0),
        "y": Numeric(-3.0, 3.0),
        "sign": Binary(1, 0),
        "third": Categorical((0, 1, 2), other=2),
    }
)

SIGNS, THIRDS = Schema({"sign": SCHEMA["sign"]}), Schema({"third": SCHEMA["third"]})

TWELFTHS = Schema({"twelfth": Categorical(tuple(range(12)))})


def _table(data: Any) -> dict[str, Any]:
    X, y = data
    with np.errstate(all="ignore"):
        third = np.where(np.abs(X[:, 0]) < 1e3, np.floor(3.0 * X[:, 0] % 3.0), np.nan)
        sign = np.where(np.isfinite(X[:, 1]), X[:, 1] > 0.0, np.nan)
        weight = np.abs(X[:, 1])
    return {"a": X[:, 0], "y": y, "sign": sign, "third": third, "weight": weight}


def _twelve(data: Any) -> dict[str, Any]:
    X, _ = data
    with np.errstate(all="ignore"):
        return _table(data) | {
            "twelfth": np.where(np.abs(X[:, 1]) < 1e3, np.floor(12.0 * X[:, 1] % 12.0), np.nan)
        }


def tables() -> Iterator[Example]:
    asked: tuple[tuple[str, Callable[..., Any], tuple[Any, ...], dict[str, Any]], ...] = (
        ("one grouping", counts, ("third",), {}),
        ("two groupings", counts, (("sign", "third"),), {"least": 3.0}),
        ("one column", means, ("y", "sign"), {}),
        ("all records", means, (["y", "sign"],), {}),
        ("two columns", means, (["a", "sign"], "third"), {}),
        ("zCDP, shared ledger", means, ("a", "third"), {"privacy": ZCDP(0.5), "ledger": ZCDP(1.0)}),
        ("medians", quantiles, ("y", "sign"), {"bins": 8}),
        ("a distribution", distribution, ("y", "third"), {"bins": [-1.0, 0.0, 2.0]}),
        ("two of all records", quantiles, ("a", None, (0.2, 0.9)), {"bins": 6, "level": 0.9}),
    )
    weights = {"sample_weight": "weight", "largest_weight": 2.0}
    weighted: tuple[tuple[str, Callable[..., Any], tuple[Any, ...], dict[str, Any]], ...] = (
        ("weighted counts", counts, ("third",), {"rows": weights}),
        ("weighted means", means, (["a", "y"], "sign"), {"rows": weights}),
        ("weighted medians", quantiles, ("y", "sign"), {"bins": 8, "rows": weights}),
        ("an estimated bound", means, ("y", "third"), {"rows": {"sample_weight": "weight"}}),
    )
    for label, function, arguments, options in (*asked, *weighted):

        def call(
            data: Any, function: Any = function, arguments: Any = arguments, options: Any = options
        ) -> Any:
            own = {"privacy": GDP(1.0)} | options
            if "ledger" in own:  # state belongs inside the call
                own["ledger"] = Ledger(own["ledger"])
            given, table = own.pop("rows", None), _table(data)
            rows = table if given is None else records(table, **given)
            found = function(rows, *arguments, schema=SCHEMA, **own)
            return found, found.summary(), found.to_dict(), repr(found)

        budget = options.get("privacy", GDP(1.0))
        yield Example(f"{function.__module__}.{function.__name__}", label, call, False, budget)
    for loss in ("least-squares", "log-cosh"):

        def by_level(data: Any, loss: str = loss) -> Any:
            budget = GDP(60.0)
            found = fits("y ~ a", _table(data), "sign", loss, schema=SIGNS, privacy=budget)
            return found, found.summary(), found.to_dict(), repr(found)

        # a replay adds up what stands side by side: two fits, where claim T6, which tests/tables
        # attacks with records that change their level, counts one
        added = GDP(60.0 * 2.0**0.5)
        yield Example("dpfast.tables.subgroups.fits", loss, by_level, False, added)

    def within(data: Any) -> Any:
        found = absorbed("y ~ a | third", _table(data), schema=THIRDS, privacy=GDP(60.0))
        return found, found.summary(), found.to_dict(), repr(found)

    yield Example("dpfast.tables.absorbed.absorbed", "three levels", within, False, GDP(60.0))

    rows = np.random.default_rng(0).normal(size=(400, 3))
    line = fit(rows[:, :2], rows[:, 2], privacy=GDP(9.0), noise=SeededNoise(0))

    def errors(data: Any) -> Any:
        found = goodness_of_fit(line, *data, privacy=GDP(9.0))
        return found, found.summary(), found.to_dict(), repr(found)

    yield Example("dpfast.regression.goodness.goodness_of_fit", "a line", errors, False, GDP(9.0))

    def by_area(data: Any) -> Any:
        found = small_areas("y ~ a", _twelve(data), "twelfth", schema=TWELFTHS, privacy=GDP(140.0))
        return found, found.summary(), found.to_dict(), repr(found)

    yield Example(
        "dpfast.tables.small_areas.small_areas", "twelve areas", by_area, False, GDP(140.0)
    )
