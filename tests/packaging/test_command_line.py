"""The `dpfast` command and its demonstration."""

from __future__ import annotations

import importlib.util
import io
import subprocess
import sys

import numpy as np
import pytest

import dpfast
from dpfast.cli import ProgressBar, main


def test_version(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"dpfast {dpfast.__version__}\n"


def test_without_a_command_it_explains_itself(capsys):
    assert main([]) == 2
    assert "demo" in capsys.readouterr().out


def test_demo_as_a_module(tmp_path):
    result = subprocess.run(
        [sys.executable, "-W", "error", "-m", "dpfast", "demo", "--no-plot"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(dpfast.__path__[0] + "/.."), "PATH": ""},
    )
    assert result.stderr == ""  # no progress bar where nobody watches, no warnings
    for expected in (
        "29,501 persons",
        "are estimated with part of the budget",
        "not private; could not be published",
        "education ",
        'dpfast.fit("log_wage ~ education + experience',
        "epsilon = 1 at delta = 1e-06",
        "noisy Newton steps on standardised",
        "time: private fit",
    ):
        assert expected in result.stdout, expected
    assert list(tmp_path.iterdir()) == []


def test_demo_is_close_to_the_nonprivate_fit(tmp_path, monkeypatch, capsys):
    """At mu = 1 and n = 29,501 the noise is a fraction of the sampling error.

    Distances are 4-dimensional and below 5 private standard errors except with probability
    below 4 * 2 Phi(-5) = 2.3e-6; the seed makes the outcome fixed anyway.
    """
    from dpfast.cli.demo import NAMES, design, run
    from dpfast.datasets import load_census2000

    monkeypatch.chdir(tmp_path)
    private = run(1.0, seed=1, plot=False)
    X, y = design(load_census2000())
    exact = dpfast.nonprivate_fit(dpfast.records(X, y, names=NAMES), None, "least-squares")
    Z = np.column_stack([np.ones(len(X)), X])
    np.testing.assert_allclose(exact.params, np.linalg.lstsq(Z, y, rcond=None)[0], rtol=1e-8)
    assert np.all(np.abs(private.params - exact.params) < 5 * private.bse)
    assert np.all(private.bse < 1.3 * exact.bse)
    assert "none (simulation)" in capsys.readouterr().out


def test_demo_is_reproducible_with_a_seed_only(tmp_path, monkeypatch):
    from dpfast.cli.demo import run

    monkeypatch.chdir(tmp_path)
    assert np.array_equal(run(seed=3, plot=False).params, run(seed=3, plot=False).params)
    assert not np.array_equal(run(plot=False).params, run(plot=False).params)


@pytest.mark.parametrize("mu", ["0", "-1", "nan", "inf"])
def test_a_senseless_budget_is_an_error_message(mu, capsys):
    assert main(["demo", f"--mu={mu}", "--no-plot"]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("dpfast: ")
    assert "Traceback" not in captured.err


@pytest.mark.parametrize(("words", "option"), [
    (["y ~ x", "t.csv"], "--formula"), (["t.csv", "--formula", "y ~ x", "--privacy", "1"], "--mu"),
])  # fmt: skip
def test_a_formula_or_budget_without_its_option_is_named(words, option, capsys):
    with pytest.raises(SystemExit):
        main(["fit", *words])
    assert option in capsys.readouterr().err.splitlines()[-1]


def test_demo_plot(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--seed=1"]) == 0
    output = capsys.readouterr().out
    if importlib.util.find_spec("matplotlib") is None:
        assert "pip install 'dpfast[plot]'" in output
        assert list(tmp_path.iterdir()) == []
    else:
        assert (tmp_path / "demo-census2000.png").stat().st_size > 5_000


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_bar_draws_on_a_terminal_only():
    terminal, pipe = Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        bar = ProgressBar("work", stream, width=4)
        for step in range(1, 9):
            bar(step, 8)
    assert pipe.getvalue() == ""
    drawn = terminal.getvalue()
    assert "\rwork [##..] 4/8" in drawn
    assert drawn.count("\rwork") == 5  # once for each width, not for each step
    assert drawn.endswith("\r\033[K")
