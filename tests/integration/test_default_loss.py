"""Where no loss is named, every door fits least squares; what that has not names a robust loss."""

import inspect
import json

import numpy as np
import pytest

import dpfast
from dpfast.cli import main
from dpfast.errors import InvalidInput
from dpfast.studies.requests import ANALYSES
from tests.loops import each

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3000, 2))
Y = 1.0 + X @ [2.0, -1.0] + RNG.exponential(size=3000)
TABLE = {"y": Y, "a": X[:, 0], "b": X[:, 1]}
DOORS = (
    dpfast.fit, dpfast.nonprivate_fit, dpfast.plan, dpfast.Study.fit,
    dpfast.tables.fits, dpfast.Study.fits,
)  # fmt: skip


def seeded():
    return dpfast.SeededNoise(0)


@each("door", DOORS)
def test_the_default_is_least_squares(door):
    assert inspect.signature(door).parameters["loss"].default == "least-squares"


def test_requests_and_commands_fit_what_the_function_fits(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    expected = dpfast.fit("y ~ a + b", TABLE, "least-squares", privacy=1.0, noise=seeded())
    np.testing.assert_array_equal(
        dpfast.fit("y ~ a + b", TABLE, privacy=1.0, noise=seeded()).params, expected.params
    )
    assert {loss for _, loss in (fields.get("loss", (None, "least-squares"))
                                 for fields in ANALYSES.values())} == {"least-squares"}  # fmt: skip
    answer = dpfast.Study(TABLE, privacy=1.0, noise=seeded()).fit("y ~ a + b", mu=1.0)
    assert answer.model == expected.model
    np.savez("t.npz", **TABLE)
    command = ["fit", "t.npz", "--formula", "y ~ a + b", "--mu", "1", "--seed", "0", "--json"]
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["params"] == expected.params.tolist()


def test_without_privacy_it_is_ordinary_least_squares():
    exact = np.linalg.lstsq(np.column_stack([np.ones(len(Y)), X]), Y, rcond=None)[0]
    np.testing.assert_allclose(dpfast.nonprivate_fit("y ~ a + b", TABLE).params, exact, rtol=1e-8)


ROBUST = {"method": {}, "weights": {"weights": dpfast.Mallows(2.0)}, "ridge": {"ridge": 0.1},
          "scale": {"scale": 1.0}}  # fmt: skip


@each("option", ROBUST)
def test_what_only_a_robust_loss_has_is_refused_with_what_to_type(option):
    ledger, terms = dpfast.Ledger(1.0), ROBUST[option]
    method = "newton" if option == "method" else "auto"
    typed = 'loss="log-cosh"'
    if option != "method":
        typed = f'dpfast.Objective("log-cosh", {option}=...)'
    with pytest.raises(InvalidInput, match="name a robust loss") as refusal:
        dpfast.fit(
            X, Y, dpfast.Objective("least-squares", **terms) if terms else "least-squares",
            privacy=1.0, ledger=ledger, method=method,
        )  # fmt: skip
    assert typed in str(refusal.value) and ledger.spent.mu == 0.0
    known = dpfast.Objective("log-cosh", **{"scale": 1.0} | terms)
    found = dpfast.fit(X, Y, known, privacy=1.0, noise=seeded(), method=method)
    assert found.names[1:] == ("x1", "x2")


@each("typed", [["--scale", "1"], ["--ridge", "0.1"], ["--radius", "2"], ["--method", "newton"]])
def test_the_command_line_says_it_in_its_own_words(tmp_path, monkeypatch, capsys, typed):
    monkeypatch.chdir(tmp_path)
    np.savez("t.npz", **TABLE)
    command = ["fit", "t.npz", "--formula", "y ~ a + b", "--mu", "1"]
    assert main([*command, *typed]) == 1
    assert "name a robust loss: --loss log-cosh." in capsys.readouterr().err
