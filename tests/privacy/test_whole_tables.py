"""What a door does with a whole table of odd values: it pays, and a result arrives.

Of a table without complete records a default fit pays for its counts only (claim C95).

One record may decide whether any is usable, so that raising would be an answer that nobody paid.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import dpfast
from tests.loops import each
from tests.stops import returns_only_the_rest, stopped

N = 600
PERSONS = np.repeat(np.arange(N // 3), 3)
DRAWN = np.random.default_rng(0)
X = DRAWN.normal(size=(N, 3))
Y = X @ [1.0, 0.5, 0.0] + DRAWN.normal(size=N)
ONE = np.where(np.arange(N) == 5, 1.0, np.nan)
TREATED = (X[::3, 0] > 0.0).repeat(3) * 1.0

TABLES = {
    "no row is usable": (X * np.nan, Y),
    "no response is usable": (X, Y * np.nan),
    "a column is infinite": (np.column_stack([X[:, 0] * 0.0 + np.inf, X[:, 1:]]), Y),
    "one row is usable": (X * ONE[:, None], Y),
    "sums overflow": (X * 1e307, Y * 1e307),
    "nothing varies": (X * 0.0, Y * 0.0),
    "denormal": (X * 5e-324, Y * 5e-324),
}

#: Tables with at most one complete record.
INCOMPLETE = list(TABLES)[:4]

#: What else ends after its counts and column scales: weights of zero, labels that are no level and
#: no event, and instruments that vary by nothing, or by more than the largest unit, 1e300.
STOPS = {
    ("sampling weights", "nothing varies"),
    ("absorbed", "sums overflow"),
    ("hazards", "sums overflow"),
    ("instruments", "sums overflow"),
    ("instruments", "nothing varies"),
    ("instruments", "denormal"),
}

#: What ends before its slopes are fitted: no regressor varies within levels, by released matrices.
WITHOUT_SLOPES = {("absorbed", "nothing varies"), ("absorbed", "denormal")}

LOSSES = ["least-squares", "log-cosh", "huber", dpfast.Quantile(0.3)]
LINKED = {
    "logistic": lambda y: np.where(np.isnan(y), np.nan, y > 0.0),
    "probit": lambda y: np.where(np.isnan(y), np.nan, y > 0.0),
    "poisson": np.abs,
    "gamma": np.abs,
}


def doors():
    for loss in [*LOSSES, *LINKED]:
        of = LINKED.get(str(loss), np.asarray)

        def fit(X, y, loss=loss, of=of, **of_records):
            return {"X": dpfast.records(X, of(y), **of_records), "loss": loss}

        yield f"{loss}", dpfast.fit, fit
        yield (
            f"{loss}, persons",
            dpfast.fit,
            lambda X, y, fit=fit: fit(X, y, group=PERSONS, each="person"),
        )
        if loss in LOSSES:
            yield (
                f"{loss}, within persons",
                dpfast.fit,
                lambda X, y, fit=fit: fit(X, y, group=PERSONS, each="person", effects="person"),
            )
        else:
            yield f"{loss}, offset", dpfast.fit, lambda X, y, fit=fit: fit(X, y, offset=X[:, 1])
    yield (
        "sampling weights",
        dpfast.fit,
        lambda X, y: {"X": dpfast.records(X, y, sample_weight=np.abs(X[:, 0]))},
    )
    yield "quantiles", dpfast.fit_quantiles, lambda X, y: {"X": X, "y": y, "taus": [0.25, 0.5]}
    for name, of_records in (("", {}), (", persons", {"group": PERSONS, "each": "person"})):
        yield (
            f"effect{name}",
            dpfast.effects.treatment_effect,
            lambda X, y, some=of_records: {
                "X": dpfast.records(X, y, **some),
                "treatment": TREATED,
            },
        )
    yield from others()


def others():
    """Doors beside the default ones: minimisation, certificates, functionals, searches, tables."""
    pair, logcosh = dpfast.ApproxDP(3.0, 1e-5), dpfast.Objective("log-cosh", scale=1.0, ridge=20.0)
    box = {"domain": dpfast.models.Box(1.0)}
    descent = dpfast.optimize.Adaptive(max_steps=9)

    def gradients(theta, X, y):
        if not (np.abs(X) < 5.0).all():
            raise ValueError("a record it does not like")
        return np.tanh(X @ theta - y)[:, None] * X

    own = dpfast.nonconvex.PerRecordObjective(
        gradients, dimension=3, lipschitz=0.9, smoothness=1.5, vectorized=True
    )
    tukey = dpfast.Objective("tukey", scale=1.0)
    for name, objective, options in (
        ("descent", tukey, {"method": descent}),
        ("shortest", tukey, {"method": descent, "select": "shortest gradient"}),
        ("spider", tukey, {"method": dpfast.papers.Spider(max_steps=5), "kl": (1.0, 2.0)}),
        ("proximal point", tukey, {"method": dpfast.papers.Proximal(rounds=2)}),
        ("own gradients", own, {"method": descent}),
    ):
        yield (
            name,
            dpfast.minimize,
            lambda X, y, given=(objective, options): (
                {"X": X, "y": y, "objective": given[0], **given[1]}
            ),
        )
    yield (
        "certificate",
        dpfast.release.certify,
        lambda X, y: ({"X": X, "y": y, "loss": logcosh, "privacy": dpfast.PureDP(1.0), **box}),
    )
    for way in ("one-shot", "objective-perturbation", "paper"):
        yield (
            way,
            dpfast.release_functional,
            lambda X, y, way=way: (
                {"X": X, "y": y, "loss": logcosh, "direction": "x1", "method": way, "privacy": pair}
                | box
            ),
        )
    yield (
        "parameter",
        dpfast.release_parameter,
        lambda X, y: ({"X": X, "y": y, "loss": logcosh, "privacy": pair, **box}),
    )

    def losses(X, y):
        def told(theta):
            with np.errstate(all="ignore"):
                return (y - X[:, 0] * theta[0]) ** 2

        return {"losses": told, "bounds": [(-1.0, 1.0)], "n_records": N}

    yield "search", dpfast.tune, lambda X, y: losses(X, y) | {"steps": 2}
    yield (
        "choice",
        dpfast.tune,
        lambda X, y: (
            losses(X, y) | {"search": dpfast.bayesopt.SearchSettings(loss_range=(0.0, 4.0))}
        ),
    )
    schema = dpfast.Schema({"y": dpfast.Numeric(-3.0, 3.0), "t": dpfast.Binary(1, 0)})
    for name, function, columns in (
        ("counts", dpfast.tables.counts, {"by": "t"}),
        ("means", dpfast.tables.means, {"columns": "y", "by": "t"}),
        ("medians", dpfast.tables.quantiles, {"column": "y", "by": "t"}),
    ):
        yield (
            name,
            function,
            lambda X, y, columns=columns: (
                {"table": {"y": y, "t": X[:, 1]}, "schema": schema, **columns}
            ),
        )
    within = dpfast.Schema({"t": dpfast.Binary(1, 0)})
    yield (
        "absorbed",
        dpfast.tables.absorbed,
        lambda X, y: (
            {
                "formula": "y ~ a | t",
                "table": {"y": y, "a": X[:, 0], "t": X[:, 1]},
                "schema": within,
            }
        ),
    )
    tenths = dpfast.Schema({"t": dpfast.Categorical(list(range(10)))})
    yield (
        "areas",
        dpfast.tables.small_areas,
        lambda X, y: (
            {
                "formula": "y ~ a",
                "table": {"y": y, "a": X[:, 0], "t": np.arange(len(y)) % 10},
                "by": "t",
                "schema": tenths,
                "privacy": 9.0,
            }
        ),
    )
    yield (
        "instruments",
        dpfast.effects.two_stage,
        lambda X, y: (
            {"formula": "y ~ a | z", "table": {"y": y, "a": X[:, 0], "z": X[:, 1]}, "privacy": 9.0}
        ),
    )
    yield "hazards", dpfast.effects.cox, lambda X, y: (
        {
            "formula": "weeks ~ a", "table": {"weeks": np.abs(y), "a": X[:, 0], "died": X[:, 1]},
            "event": "died", "cuts": [0.5, 1.0],
        }
    )  # fmt: skip


DOORS = {name: call for name, *call in doors()}


@pytest.mark.parametrize("door", DOORS)
@each("table", TABLES)
def test_whatever_a_whole_table_holds_it_is_paid_for_and_a_result_arrives(door, table):
    function, arguments = DOORS[door]
    given = {"privacy": 1.0, "noise": dpfast.SeededNoise(0)} | arguments(*TABLES[table])
    ledger = dpfast.Ledger(given["privacy"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a warning about values would be an answer, too
        found = function(**given, ledger=ledger)
    refused = isinstance(found, dpfast.release.NotCertified)  # of which the certificate is paid
    assert found is not None
    if stopped(found, ledger):  # weights that are all zero leave no record, either
        assert table in INCOMPLETE or (door, table) in STOPS
    elif (door, table) in WITHOUT_SLOPES:
        assert np.isnan(found.params).all()
        returns_only_the_rest(found, ledger)
    else:
        assert refused or not any(ledger.remaining.values())
