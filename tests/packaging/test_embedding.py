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
from dpfast.kernels.acquisition import AcquisitionKernel
from dpfast.kernels.certificates import RecursionTable
from dpfast.kernels.sampler import ExactSampler
from tests.twins import records as reference

HERE = Path(__file__).parent / "embedding"
pytestmark = pytest.mark.slow  # seconds of compiling


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The examples, built away from the sources of dpfast."""
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
    result = subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--inplace"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder / "installed"), "CFLAGS": "-O1"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


def loaded(folder, name):
    (library,) = (*folder.glob(f"{name}.*.so"), *folder.glob(f"{name}.*.pyd"))
    spec = importlib.util.spec_from_file_location(name, library)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def embedding(built):
    return loaded(built, "embedding")


@pytest.fixture(scope="module")
def others(built):
    return loaded(built, "others")


def supplied():
    """The same bytes every time."""
    return np.random.default_rng(3).bytes


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


def newton_of(language, request):
    if language == "cython":
        return loaded(request.getfixturevalue("built"), "steps").newton
    pytest.importorskip("numba")
    sys.path.insert(0, str(HERE))
    try:
        from with_numba import newton
    finally:
        sys.path.remove(str(HERE))
    return newton


@pytest.mark.parametrize("language", ["cython", "numba"])
def test_twenty_lines_solve_with_weights_and_offsets_and_the_twin_agrees(language, request):
    newton = newton_of(language, request)
    source = HERE / {"cython": "steps.pyx", "numba": "with_numba.py"}[language]
    assert sum(map(bool, source.read_text().splitlines())) <= 22
    rng = np.random.default_rng(5)
    X = rng.normal(size=(3000, 3))
    y = (rng.random(3000) < 1.0 / (1.0 + np.exp(-X @ [1.0, -0.5, 0.0]))).astype(float)
    weight, offset = rng.uniform(-0.2, 2.5, 3000), rng.normal(size=3000)
    theta = newton(X, y, weight, offset, 12)
    columns = np.column_stack([y, weight, offset])
    gradient, _, _ = reference.record_sums(
        X, columns, theta, want=1, divisor=3000.0, loss=3, c=1.0, scale=1.0, weighting=1,
        radius=3.0, intercept=True, largest_weight=2.0,
    )  # fmt: skip
    assert np.linalg.norm(gradient) < 1e-12
    assert np.linalg.norm(theta) > 0.3


def test_keys_and_noise_from_outside_are_those_of_the_library(others):
    x = np.array([-1.5, 0.0, -0.0, 1.0, 1.9, 2.0, 1e300, np.nan, np.inf])
    keys = [others.key_of(value) for value in x[:7]]
    assert keys == sorted(keys[:1]) + keys[1:] and keys[1] == keys[2] == 0
    assert others.key_of(1.5) == -keys[0] and others.key_of(1.0) == 1023 << 52
    found, noise = others.noisy_counts(
        np.repeat(x, 2)[::2], 1022 << 52, 52, 4, ExactSampler(supplied()), 2.0**-20
    )
    exact = np.round(np.array(found) * 2.0**20) - noise
    assert (exact == np.array([0, 2, 1, 0]) * 2**20).all()
    assert noise == ExactSampler(supplied()).normals(4, 16).tolist()
    assert others.laplace(ExactSampler(supplied()), 50) == (
        ExactSampler(supplied()).discrete_laplace(50, 1, 3).tolist()
    )
    with pytest.raises(TypeError):
        others.laplace(object(), 1)


def test_certificates_from_outside_are_those_of_the_library(others):
    constants = (1, 0.5, 0.0, 0.25, 0.0, 2.0, 100.0, 1e-9, 1.01)
    own = RecursionTable(*constants)
    table = np.zeros(5 * len(own.nodes))
    count, x = others.certificate(table, 60.0, constants)
    assert (count, x) == (own.count(60.0), own.inverse(own.count(60.0)))
    np.testing.assert_array_equal(table[: len(own.nodes)], own.nodes)
    assert others.certificate(table, 60.0, (2, *constants[1:])) is None
    assert others.certificate(table, 60.0, (*constants[:3], float("nan"), *constants[4:])) is None


def test_a_surrogate_from_outside_is_that_of_the_library(others):
    rng = np.random.default_rng(0)
    kernel = AcquisitionKernel(1, np.full(3, 0.7), 1.0, 0.0, 0.01, np.zeros(3), np.ones(3))
    kernel.condition(rng.random((6, 3)))
    Z, theta, gradient = rng.random((2, 3)), rng.random(3), np.zeros((2, 3))
    value, expected = kernel.value_and_gradient(Z, theta)
    assert others.surrogate(kernel, Z, theta, gradient) == value
    np.testing.assert_array_equal(gradient, expected)
