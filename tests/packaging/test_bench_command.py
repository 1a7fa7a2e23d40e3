"""``dpfast bench`` of an installed wheel: its cases, what it counts as met, and what it writes."""

from __future__ import annotations

import json
import os
import re

import numpy as np
import pytest

from dpfast.cli import bench, main
from dpfast.cli.bench import Case, Measured, Target
from dpfast.cli.bench_report import ONE_THREAD, document, is_met, last_line, row


@pytest.fixture
def one_thread(monkeypatch):
    for name, count in ONE_THREAD.items():
        monkeypatch.setenv(name, count)


@pytest.mark.usefixtures("one_thread")
def test_the_command_prints_a_table_and_writes_pytest_benchmarks_document(tmp_path, capsys):
    path = tmp_path / "bench.json"
    for group in ("embedded", "noise"):
        command = ["bench", "--only", group, "--seconds", "0.2", "--json", str(path)]
        assert main(command) == 0
        lines = capsys.readouterr().out.splitlines()
        assert re.fullmatch(r"[01] of 1 targets met", lines[-1])
        rows = json.loads(path.read_text())["benchmarks"]
        assert [one["param"] for one in rows] == ["dpfast", "NumPy"]
        for one in rows:
            assert one["group"] == group and one["stats"]["rounds"] >= 5
            assert 0 < one["stats"]["min"] <= one["stats"]["median"] <= one["stats"]["max"]
    assert main(["bench", "--only", "nothing"]) == 1
    assert "fits, kernels, noise, embedded" in capsys.readouterr().err


def test_every_case_gives_what_its_peers_give():
    """The sums of kernels agree with NumPy's, and fits without privacy with one another."""
    for case in bench.kernels():
        ours, theirs = (call() for call in case.calls.values())
        n = int(re.search(r", ([\d,]+) x", case.name)[1].replace(",", ""))  # ours is a mean
        np.testing.assert_allclose(n * ours[0], theirs, rtol=1e-9)
    X, y, labels = bench.made_up(2_000, 3)
    for loss, response in (("least-squares", y), ("logistic", labels)):
        peers = bench.fit_peers(loss, X, response)
        estimate, error = peers["NumPy"]()
        assert error.shape == estimate.shape == (4,) and (error > 0).all()
        if "LinearRegression" in peers:
            np.testing.assert_allclose(estimate[1:], peers["LinearRegression"]().coef_, rtol=1e-8)
        if "OLS HC1" in peers:
            np.testing.assert_allclose(error, peers["OLS HC1"](), rtol=1e-8)
        if "Logit" in peers:
            np.testing.assert_allclose(error, peers["Logit"](), rtol=1e-3)


def test_targets_are_met_by_the_least_time_and_only_where_the_peer_is_there():
    targets = (Target(0.5, "A"), Target(1.1, "A"), Target(3.0), Target(2.0), Target(1.0, "B"))
    case = Case("fits", "a case", {}, targets)
    found = Measured(case, {"dpfast": [5.0, 2.5, 9.0], "A": [2.5, 4.0]}, 0.4)
    assert [is_met(found, target) for target in targets] == [False, True, True, False, None]
    assert last_line([found]) == "2 of 4 targets met; 1 need a peer that is not installed"
    assert "0.40 X" in row(found) and "<= 0.5 x A: NOT met" in row(found)
    (first, second) = document([found])["benchmarks"]
    assert first["stats"]["min"] == 2.5 and first["stats"]["rounds"] == 3
    assert first["extra_info"] == {"memory_over_x": 0.4} and second["extra_info"] == {}


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="Linux tells of its pages")
def test_memory_is_what_a_call_touches():
    assert 30e6 <= bench.peak(lambda: np.ones(4_000_000)) < 40e6
    assert bench.peak(lambda: np.empty(40_000_000)) < 4e6
