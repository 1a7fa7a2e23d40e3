"""Threads of a sum that does not say how many: environment, affinity and quota."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import dpfast
from dpfast.kernels.process_threads import VARIABLE, asked_threads, quota_threads

CPUS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def system(root, groups, files):
    """A tree of files as /proc and /sys/fs/cgroup show it."""
    for name, text in {"proc/self/cgroup": groups, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return str(root)


V1, V2 = "4:memory:/m\n3:cpu,cpuacct:/docker/abc\n0::/", "0::/user.slice/job"


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/", {"cpu.max": "150000 100000"}, 2),  # a container, rounded up
        ("0::/", {"cpu.max": "100000 100000"}, 1),
        ("0::/", {"cpu.max": "max 100000"}, 0),
        (V2, {"user.slice/job/cpu.max": "max 100000", "user.slice/cpu.max": "300000 100000"}, 3),
        (V2, {"user.slice/job/cpu.max": "1000 100000", "user.slice/cpu.max": "300000 100000"}, 1),
        (V1, {"cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "250000",
              "cpu,cpuacct/docker/abc/cpu.cfs_period_us": "100000"}, 3),
        # its own group at the top of the tree, and the link that is named after one controller
        (V1, {"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}, 1),
        (V1, {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 0),
        (V1, {"cpu/cpu.cfs_quota_us": "100000"}, 0),
        ("0::/", {"cpu.max": ""}, 0),
        ("0::/", {"cpu.max": "1 0"}, 0),
        ("0::/", {"cpu.max": "nan 100000"}, 0),
        ("0::/", {"cpu.max": "1e300 1e-300"}, 0),
        ("", {}, 0),
        ("no such format", {}, 0),
        ("0::/../outside", {"cpu.max": "100000 100000"}, 1),
    ],
)  # fmt: skip
def test_quotas_of_both_versions(tmp_path, groups, files, expected):
    files = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    assert quota_threads(system(tmp_path, groups, files)) == expected


def test_a_system_without_control_groups(tmp_path):
    assert quota_threads(str(tmp_path)) == 0


#: Children of one interpreter, each with a quota and what the environment asks for.
DEFAULTS = """
import json, os, sys
import numpy
for given in json.loads(sys.argv[1]):
    child = os.fork()
    if not child:
        os.environ.update(given)
        from dpfast.kernels import process_threads
        process_threads.quota_threads = lambda: int(os.environ.get("QUOTA", 0))
        from dpfast.kernels import records
        print(records.default_threads(), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_the_default_of_a_process():
    cases = [
        ({}, CPUS),
        ({"QUOTA": "1"}, 1),
        ({"QUOTA": "1000"}, CPUS),
        ({VARIABLE: "5"}, 5),
        ({VARIABLE: "5", "QUOTA": "1"}, 5),
        ({VARIABLE: ""}, CPUS),
        ({VARIABLE: "many"}, CPUS),  # importing refuses nothing
    ]
    given = [environment for environment, _ in cases]
    done = subprocess.run(
        [sys.executable, "-c", DEFAULTS, json.dumps(given)],
        env={name: text for name, text in os.environ.items() if name != VARIABLE},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == [str(expected) for _, expected in cases], done.stderr


@pytest.mark.parametrize("text", ["many", "0", "-1", "1.5", "65537", "9" * 400, "²", " 2", "1_0"])
def test_a_malformed_number_is_refused_before_the_charge(monkeypatch, text):
    monkeypatch.setenv(VARIABLE, text)
    assert asked_threads() == 0
    X, y, ledger = np.ones((20, 1)), np.arange(20.0), dpfast.Ledger(1.0)
    loss = dpfast.Objective("huber", scale=1.0)
    options = {"privacy": 1.0, "noise": dpfast.SeededNoise(0), "ledger": ledger}
    with pytest.raises(dpfast.InvalidInput, match=f"{VARIABLE} must be a whole number"):
        dpfast.fit(X, y, loss, **options)
    assert not ledger.entries
    dpfast.fit(
        dpfast.records(X, y, threads=1), None, loss, **options
    )  # says how many: the variable does not matter
