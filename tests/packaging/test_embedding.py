"""Another package can `cimport` the kernels, as the example in tests/packaging/embedding does."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import dpfast
from dpfast.kernels import records
from tests.twins import records as reference

HERE = Path(__file__).parent / "embedding"
pytestmark = pytest.mark.slow  # seconds of compiling


@pytest.fixture(scope="module")
def embedding(tmp_path_factory):
    """The example, built away from the sources of dpfast."""
    for tool in ("setuptools", "Cython"):
        if importlib.util.find_spec(tool) is None:
            pytest.skip(f"building needs {tool}")
    folder = tmp_path_factory.mktemp("embedding")
    for source in HERE.iterdir():
        if source.is_file():
            shutil.copy(source, folder)
    # only what is installed: the package itself, without csrc
    (folder / "installed").mkdir()
    (folder / "installed" / "dpfast").symlink_to(Path(dpfast.__file__).parent)
    built = subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--inplace"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder / "installed"), "CFLAGS": "-O1"},
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    (library,) = (*folder.glob("embedding*.so"), *folder.glob("embedding*.pyd"))
    spec = importlib.util.spec_from_file_location("embedding", library)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def data(n=4000, p=6):
    rng = np.random.default_rng(p)
    X = rng.normal(size=(n, p))
    return X, X @ np.linspace(-1.0, 1.0, p) + rng.standard_t(3, size=n)


def expected_step(X, y, theta):
    arguments = {
        "loss": 0, "c": 1.345, "scale": 1.0, "weighting": 1, "radius": 3.0, "intercept": False,
    }  # fmt: skip
    n = float(len(y))
    gradient, hessian, _ = reference.record_sums(X, y, theta, want=3, divisor=n, **arguments)
    after = theta - np.linalg.solve(hessian, gradient)
    losses = [reference.mean_loss(X, y, at, divisor=n, **arguments) for at in (theta, after)]
    return after, losses


def test_a_step_from_outside_is_the_step_of_the_twin(embedding):
    X, y = data()
    theta = np.linspace(-0.8, 0.8, 6)
    after, losses = expected_step(X, y, theta)
    found = embedding.newton_step(X, y, theta, 0)
    np.testing.assert_allclose(theta, after, rtol=1e-11)
    np.testing.assert_allclose(found, losses, rtol=1e-12)
    assert found[1] < found[0]


def test_records_in_single_precision(embedding):
    X, y = data()
    narrow, theta, found = X.astype(np.float32), np.linspace(-1.0, 1.0, 6), np.empty(6)
    embedding.gradient_of_floats(narrow, y, theta, found)
    kernel = records.RecordKernel(0, 1.345, 1.0, 1, 3.0, False)
    expected, _, _ = kernel.sums(narrow.astype(float), y, theta, 1, float(len(y)), 1)
    np.testing.assert_array_equal(found, expected)


def test_from_many_threads_at_once(embedding):
    """Every thread gets the same bits as one alone, whoever holds the pool."""
    X, y = data(n=60_000)
    alone = np.zeros(6)
    embedding.newton_step(X, y, alone, 1)
    moved = [np.zeros(6) for _ in range(6)]

    def step(theta):
        for _ in range(5):
            theta[:] = 0.0
            embedding.newton_step(X, y, theta, 2)

    threads = [threading.Thread(target=step, args=(theta,)) for theta in moved]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for theta in moved:
        np.testing.assert_array_equal(theta, alone)


@pytest.mark.parametrize(
    ("loss", "weighting", "radius", "want"),
    [
        (0, 1, 2.0, 3), (10, 1, 2.0, 5), (0, 2, 2.0, 1), (7, 1, 2.0, 1), (8, 1, 2.0, 1),
        (3, 3, 2.0, 1), (0, 2, 2.0, 3), (10, 1, 2.0, 2), (0, 4, 2.0, 2), (0, 1, 0.0, 1),
        (0, 1, float("nan"), 1), (0, 5, 2.0, 1), (0, 1, 2.0, 0), (0, 1, 2.0, 8),
    ],
)  # fmt: skip
def test_what_python_refuses_is_refused(embedding, loss, weighting, radius, want):
    X, zeros = np.zeros((1, 1)), np.zeros(1)
    try:
        kernel = records.RecordKernel(loss, 1.0, 1.0, weighting, radius, False)
        kernel.sums(X, zeros, zeros, want, 1.0)
        expected = 0
    except ValueError:
        expected = -2
    assert embedding.status_of(loss, weighting, radius, want) == expected
