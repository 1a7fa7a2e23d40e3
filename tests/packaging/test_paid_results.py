"""The command line refuses before it charges, and what was paid for arrives somewhere."""

from __future__ import annotations

import json
import os
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dpfast
from dpfast.cli import main
from dpfast.cli.output import RESERVED, PaidResult
from dpfast.curator.noisy_release import observed

SCHEMA = """
[columns."größe"]
kind = "numeric"
low = -1
high = 1
[columns.y]
kind = "numeric"
low = -2
high = 2
"""

ROBUST = ["--loss", "log-cosh", "--scale", "0.3"]
FIT = ["fit", "data.csv", "--schema", "schema.toml", *ROBUST, "--response", "y"]
PAID = [*FIT, "--mu", "1", "--ledger", "budget"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = [f"{x:.3f},{x + e:.3f}" for x, e in rng.uniform(-1, 1, (3000, 2))]
    Path("data.csv").write_text("größe,y\n" + "\n".join(rows) + "\n", encoding="utf-8")
    Path("schema.toml").write_text(SCHEMA, encoding="utf-8")
    dpfast.Ledger.open("budget", dpfast.GDP(3.0))
    return tmp_path


def spent():
    return len(dpfast.Ledger.open("budget").entries)


def run(arguments, **options):
    """The command as users run it."""
    environment = os.environ | {"PYTHONPATH": str(Path(dpfast.__path__[0]).parent)}
    environment |= options.pop("env", {})
    return subprocess.run(
        [sys.executable, "-m", "dpfast", *arguments],
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=environment,
        **options,
    )


def reports_in(folder):
    return sorted(path for path in folder.iterdir() if path.suffix in (".json", ".part"))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--level", "95"], "level is the coverage"),
        (["--level", "0"], "level is the coverage"),
        (["--level", "nan"], "level is the coverage"),
        (["--out", "missing/fit.json"], "Nothing was spent"),
        (["--out", "."], "not an ordinary file"),
        (["--out", "/dev/null"], "not an ordinary file"),
        (["--delimiter", "ab"], "single character"),
        (["--covariates", "absent"], "does not declare covariates[0]"),
        (["--covariates", ""], "no covariate"),
        (["--covariates", "größe,"], "does not declare covariates[1]"),
        (["--loss", "squared"], "loss"),
        (["--method", "magic"], "method"),
        (["--steps", "0"], "steps"),
        (["--scale", "-1"], "scale"),
        (["--radius", "0"], "radius"),
        (["--ridge", "-1"], "ridge"),
        (["--seed", "-1"], "seed"),
    ],
)
def test_a_wrong_option_costs_nothing(folder, capsys, arguments, named):
    assert main([*PAID, *arguments]) == 1
    assert named in capsys.readouterr().err
    assert spent() == 0 and reports_in(folder) == []


def test_a_result_is_its_owners_alone_and_replaces_what_was_there(folder, capsys):
    Path("fit.json").write_text("old")
    os.symlink("fit.json", "link.json")
    assert main([*PAID, "--out", "link.json"]) == 0
    assert os.path.islink("link.json")
    assert json.loads(Path("fit.json").read_text())["names"] == ["intercept", "größe"]
    assert stat.S_IMODE(os.stat("fit.json").st_mode) == 0o600
    assert [path.name for path in reports_in(folder)] == ["fit.json", "link.json"]


def test_a_full_disk_is_noticed_before_the_charge(folder):
    """The file size limit stands for the disk."""
    result = run(
        [*PAID, "--out", "fit.json"],
        stdout=subprocess.PIPE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (RESERVED // 2,) * 2),
    )
    assert result.returncode == 1 and "Nothing was spent" in result.stderr
    assert "Traceback" not in result.stderr
    assert spent() == 0 and reports_in(folder) == []


def test_a_disk_that_fills_up_during_the_fit_prints_the_result(folder, capsys, monkeypatch):
    def full(path, report):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dpfast.cli.output._fill", full)
    assert main([*PAID, "--out", "fit.json"]) == 4
    captured = capsys.readouterr()
    assert json.loads(captured.out)["names"] == ["intercept", "größe"]
    assert "printed instead" in captured.err and "No space left" in captured.err
    assert spent() == 1 and reports_in(folder) == []


def test_a_failed_rename_names_the_file_that_holds_the_result(folder, capsys, monkeypatch):
    def refused(source, target):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refused)
    assert main([*PAID, "--out", "fit.json"]) == 4
    (kept,) = reports_in(folder)
    captured = capsys.readouterr()
    assert str(kept) in captured.err
    assert json.loads(kept.read_text()) == json.loads(captured.out)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def closed_pipe():
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.mark.parametrize(
    "out",
    [[], ["--out", "fit.json"], pytest.param(["--json"], marks=pytest.mark.slow)],
    ids=["", "out", "json"],
)
@pytest.mark.parametrize("where", ["closed pipe", "full device"])
@pytest.mark.values
def test_what_cannot_be_printed_is_kept(folder, out, where):
    stdout = closed_pipe() if where == "closed pipe" else os.open("/dev/full", os.O_WRONLY)
    try:
        result = run([*PAID, *out], stdout=stdout)
    finally:
        os.close(stdout)
    (kept,) = reports_in(folder)
    assert result.returncode == (0 if "--out" in out else 4)
    assert str(kept) in result.stderr
    assert "Traceback" not in result.stderr and "Exception ignored" not in result.stderr
    assert json.loads(kept.read_text())["names"] == ["intercept", "größe"]
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert spent() == 1


def test_a_closed_output_or_a_narrow_encoding_lose_nothing(folder):
    result = run(PAID, stdout=None, preexec_fn=lambda: os.close(1))
    (kept,) = reports_in(folder)
    assert result.returncode == 4 and str(kept) in result.stderr
    kept.unlink()
    narrow = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    result = run(PAID, stdout=subprocess.PIPE, env=narrow)
    (kept,) = reports_in(folder)
    assert result.returncode == 4 and kept.name in result.stderr
    assert json.loads(kept.read_text())["names"] == ["intercept", "größe"]


def test_without_a_working_directory_the_folder_for_temporary_files_serves(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(os, "curdir", str(tmp_path / "absent"))
    monkeypatch.setattr("dpfast.cli.output._print", lambda text: False)
    with PaidResult(None) as delivery:
        assert delivery.deliver("{}\n", lambda: "table") == 4
    (kept,) = tmp_path.iterdir()
    assert kept.read_text() == "{}\n" and str(kept) in capsys.readouterr().err


def test_a_table_that_cannot_be_made_loses_nothing(capsys):
    """What was paid for is printed instead."""

    def table():
        raise ValueError("a cell: 4711")

    with PaidResult(None) as delivery:
        assert delivery.deliver('{"paid": 1}', table) == 0
    out, err = capsys.readouterr()
    assert out == '{"paid": 1}\n' and "ValueError" in err and "4711" not in err


def test_nothing_is_left_behind_when_the_ledger_refuses(folder, capsys):
    assert main([*FIT, "--mu", "9", "--ledger", "budget", "--out", "fit.json"]) == 3
    assert reports_in(folder) == [] and spent() == 0


@pytest.mark.parametrize("wanted", ["data.csv", "schema.toml", "budget", "./budget"])
def test_a_result_does_not_replace_what_the_command_needs(folder, capsys, wanted):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert main([*PAID, "--out", wanted]) == 1
    assert "input of this command" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_an_interrupt_before_the_rename_keeps_the_result(folder, capsys, monkeypatch):
    def interrupted(*paths):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    assert main([*PAID, "--out", "fit.json"]) == 130
    (kept,) = [path for path in folder.iterdir() if path.suffix == ".part"]
    assert len(json.loads(kept.read_text())["params"]) == 2
    assert kept.name in capsys.readouterr().err


class Stopping:
    """Interrupts when so many questions were answered."""

    def __init__(self, most):
        self.left = most

    def release(self, question, release, draw):
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        return draw()


@pytest.mark.parametrize(
    ("command", "most"),
    [(command, most) for command in ("fit", "raw fit") for most in (0, 3, 6)]
    + [("run", 0), ("run", 1)],  # a table of quantiles has two releases
)
def test_an_interrupt_in_a_run_saves_what_was_released(folder, capsys, command, most):
    raw = ["--response", "y", "--covariates", "größe", "--mu", "3", "--ledger", "budget"]
    request = '{"analysis": "quantiles", "column": "y", "mu": 1}'
    arguments = {
        "fit": PAID,
        "raw fit": ["fit", "data.csv", *raw],
        "run": ["run", request, "--data", "data.csv", "--schema", "schema.toml", *raw[-2:]],
    }[command]  # fmt: skip
    head, *rows = Path("data.csv").read_text(encoding="utf-8").splitlines()
    lines = [f"{head},t", *[f"{row},{k % 2}" for k, row in enumerate(rows)]]
    Path("data.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with observed(Stopping(most)):
        assert main([*arguments, "--out", "fit.json"]) == 130
    kept = list(folder.glob("dpfast-result-*.json"))
    assert len(kept) == bool(most) and not (folder / "fit.json").exists()
    if most:
        found = json.loads(kept[0].read_text())
        assert found["unfinished"] and found["privacy"]["total"] and found["never_charged"]
        assert kept[0].name in capsys.readouterr().err


def test_the_table_has_the_level_that_was_asked_for(folder, capsys):
    assert main([*PAID, "--level", "0.5", "--seed", "1"]) == 0
    assert "[0.25" in capsys.readouterr().out


@pytest.mark.parametrize("form", [["--json"], ["--out", "result.json"]])
def test_a_fit_without_intervals_arrives_without_them(folder, capsys, form):
    """Of 20 records only the mean is bought: no interval was, and the estimate was paid for."""
    lines = Path("data.csv").read_text(encoding="utf-8").splitlines()[:21]
    Path("few.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    asked = ["fit", "few.csv", "--formula", "y ~ größe", "--mu", "2.9", "--ledger", "budget"]
    assert main([*asked, *form]) == 0 and spent() == 1
    printed = capsys.readouterr().out
    found = json.loads(printed if "--json" in form else Path("result.json").read_text())
    assert np.isfinite(found["params"][0]) and "conf_int" not in found


# ---- signals that end a process ------------------------------------------------------------------

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU]


class Sent(Stopping):
    """Sends a signal to this process when so many questions were answered, once."""

    def __init__(self, most, number):
        super().__init__(most)
        self.number = number

    def release(self, question, release, draw):
        if not self.left:
            self.left = -1
            os.kill(os.getpid(), self.number)
        self.left -= 1
        return draw()


@pytest.fixture
def handlers():
    """What the process does with each signal is as it was, also after a test that failed."""
    inherited = {number: signal.getsignal(number) for number in SIGNALS}
    before = dict.fromkeys(SIGNALS, signal.SIG_DFL) | {signal.SIGINT: signal.default_int_handler}
    for number, handler in before.items():  # a shell's background jobs inherit others
        signal.signal(number, handler)
    yield before
    now = {number: signal.getsignal(number) for number in SIGNALS}
    for number, handler in inherited.items():
        signal.signal(number, handler)
    assert now == before


@pytest.mark.serial
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_in_a_run_saves_what_was_released(folder, capsys, handlers, number):
    with observed(Sent(3, number)):
        assert main([*PAID, "--out", "fit.json"]) == 128 + number
    (kept,) = reports_in(folder)
    assert kept.name.startswith("dpfast-result-") and str(kept) in capsys.readouterr().err
    assert json.loads(kept.read_text())["unfinished"] is True
    assert spent() == 1


@pytest.mark.serial
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_after_the_last_answer_waits_until_the_result_is_delivered(
    folder, capsys, monkeypatch, handlers, number
):
    fill = dpfast.cli.output._fill

    def signalled(path, report):
        os.kill(os.getpid(), number)
        fill(path, report)
        os.kill(os.getpid(), number)

    monkeypatch.setattr("dpfast.cli.output._fill", signalled)
    assert main([*PAID, "--out", "fit.json"]) == 0
    assert [path.name for path in reports_in(folder)] == ["fit.json"]
    assert json.loads(Path("fit.json").read_text())["names"] == ["intercept", "größe"]


@pytest.mark.serial
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_room_is_made_leaves_no_file_and_costs_nothing(
    folder, capsys, monkeypatch, handlers, number
):
    monkeypatch.setattr(os, "fsync", lambda descriptor: os.kill(os.getpid(), number))
    assert main([*PAID, "--out", "fit.json"]) == 128 + number
    assert reports_in(folder) == [] and spent() == 0


@pytest.mark.serial
def test_a_signal_while_a_reader_takes_nothing_saves_the_result(
    folder, capsys, monkeypatch, handlers
):
    class Full:
        def write(self, text):
            os.kill(os.getpid(), signal.SIGTERM)

        def flush(self):
            pass

    monkeypatch.setattr(sys, "stdout", Full())
    monkeypatch.setattr("dpfast.cli.output.silence", lambda: None)
    assert main(PAID) == 4
    (kept,) = reports_in(folder)
    assert json.loads(kept.read_text())["names"] == ["intercept", "größe"]
    assert kept.name in capsys.readouterr().err


@pytest.mark.serial
def test_what_a_program_chose_to_do_with_a_signal_stays(folder, capsys, handlers):
    """As nohup does, or who calls the command from a program with handlers of its own."""
    seen = []
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    for number in (signal.SIGHUP, signal.SIGTERM):
        with observed(Sent(3, number)):
            assert main([*PAID, "--out", "fit.json"]) == 0
    assert seen == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.serial
def test_importing_and_fitting_change_no_handler(handlers):
    dpfast.fit(np.zeros((50, 1)), np.zeros(50), "log-cosh", privacy=1.0)
