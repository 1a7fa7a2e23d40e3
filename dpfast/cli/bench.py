"""``dpfast bench``: how fast this installation is, beside what else is installed.

All calls of one case take turns in one process, on one thread, and the least CPU time of each is
told.  Records are made up here.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import dpfast
from dpfast.arguments import Array
from dpfast.kernels import records
from dpfast.privacy import EntropyNoise, SeededNoise

Calls = dict[str, Callable[[], object]]

OURS = "dpfast"
RADIUS = 2.0  # of the Mallows weights of kernels
FITS = ((1_000, 4), (10_000, 10), (100_000, 10))


class Target(NamedTuple):
    """The most that a call may take: ``limit`` times a peer's time, or that many seconds."""

    limit: float
    peer: str = ""


class Case(NamedTuple):
    """Calls that take turns, ours first, and what is asked of ours."""

    group: str
    name: str
    calls: Calls
    targets: tuple[Target, ...] = ()
    bytes_read: int = 0  # of X; 0: memory is not measured


class Measured(NamedTuple):
    """CPU seconds of each round for each call, and memory of ours over that of X."""

    case: Case
    seconds: dict[str, list[float]]
    memory: float | None


def made_up(n: int, p: int) -> tuple[Array, Array, Array]:
    """Make X, a response of least squares and one of logistic regression."""
    noise = SeededNoise(n)
    X, errors = normal(noise, n * p).reshape(n, p), normal(noise, n)
    predictor = X @ np.full(p, p**-0.5)
    chance = 1.0 / (1.0 + np.exp(-predictor))
    return X, predictor + errors, (noise.words(n) < chance * 2.0**64).astype(float)


def normal(noise: SeededNoise, size: int) -> Array:
    return np.ldexp(noise.normals(size, 30).astype(float), -30)


def optional(name: str) -> Any:
    """Import a peer; None where it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        return None


# ---- fits ------------------------------------------------------------------------------------


def numpy_least_squares(X: Array, y: Array) -> tuple[Array, Array]:
    """Fit least squares with robust (HC1) standard errors by NumPy, without privacy."""
    design = np.column_stack([np.ones(len(X)), X])
    bread = np.linalg.inv(design.T @ design)
    estimate = bread @ (design.T @ y)
    scores = design * (y - design @ estimate)[:, None]
    meat = scores.T @ scores * (len(X) / (len(X) - design.shape[1]))
    return estimate, np.sqrt(np.diag(bread @ meat @ bread))


def numpy_logistic(X: Array, y: Array) -> tuple[Array, Array]:
    """Fit logistic regression by Newton's method in NumPy, without privacy."""
    design = np.column_stack([np.ones(len(X)), X])
    estimate = np.zeros(design.shape[1])
    for _ in range(6):
        chance = 1.0 / (1.0 + np.exp(-(design @ estimate)))
        curvature = (design.T * (chance * (1.0 - chance))) @ design
        estimate = estimate + np.linalg.solve(curvature, design.T @ (y - chance))
    return estimate, np.sqrt(np.diag(np.linalg.inv(curvature)))


def fit_peers(loss: str, X: Array, y: Array) -> Calls:
    """Name what fits the same model without privacy: NumPy, scikit-learn and statsmodels."""
    linear, api = optional("sklearn.linear_model"), optional("statsmodels.api")
    squares = loss == "least-squares"
    by_hand = numpy_least_squares if squares else numpy_logistic
    calls: Calls = {"NumPy": lambda: by_hand(X, y)}
    if linear is not None:
        kind = linear.LinearRegression if squares else linear.LogisticRegression
        calls[kind.__name__] = lambda: kind().fit(X, y)
    if api is not None and squares:
        calls["OLS HC1"] = lambda: api.OLS(y, api.add_constant(X)).fit(cov_type="HC1").bse
    elif api is not None:
        calls["Logit"] = lambda: api.Logit(y, api.add_constant(X)).fit(disp=0).bse
    return calls


#: At most so many times a peer's time, by loss and size.
FIT_TARGETS = {
    ("least-squares", 1_000): (Target(1.4, "OLS HC1"),),
    ("logistic", 1_000): (Target(0.5, "LogisticRegression"),),
    ("least-squares", 10_000): (Target(1.0, "LinearRegression"),),
    ("logistic", 10_000): (Target(1.0, "LogisticRegression"),),
    ("least-squares", 100_000): (Target(0.5, "LinearRegression"),),
    ("logistic", 100_000): (Target(0.5, "LogisticRegression"),),
}


def fits() -> Iterator[Case]:
    """Fits with nothing declared, and intervals."""
    for n, p in FITS:
        X, y, labels = made_up(n, p)
        for loss, response in (("least-squares", y), ("logistic", labels)):

            def fit(X: Array = X, y: Array = response, loss: str = loss) -> object:
                return dpfast.fit(dpfast.records(X, y, threads=1), None, loss, privacy=1.0)

            calls = {OURS: fit, **fit_peers(loss, X, response)}
            yield Case("fits", f"{loss}, {n:,} x {p}", calls, FIT_TARGETS[loss, n], X.nbytes)


# ---- kernels, noise and an embedded call --------------------------------------------------------


def numpy_gradient(X: Array, y: Array, theta: Array) -> Array:
    """Sum the gradients of the logistic loss with Mallows weights by NumPy."""
    weights = np.minimum(1.0, RADIUS**2 / np.einsum("ij,ij->i", X, X))
    return X.T @ ((1.0 / (1.0 + np.exp(-(X @ theta))) - y) * weights)


def kernels() -> Iterator[Case]:
    """One gradient over many records."""
    kernel = records.RecordKernel(3, 1.0, 1.0, 1, RADIUS, False)
    for n, p in ((100_000, 10), (500_000, 20)):
        X, _, y = made_up(n, p)
        theta = np.full(p, p**-0.5)

        def gradient(X: Array = X, y: Array = y, theta: Array = theta) -> object:
            return kernel.sums(X, y, theta, records.GRADIENT, float(len(y)), 1)

        def twin(X: Array = X, y: Array = y, theta: Array = theta) -> object:
            return numpy_gradient(X, y, theta)

        calls: Calls = {OURS: gradient, "NumPy": twin}
        yield Case("kernels", f"logistic gradient, {n:,} x {p}", calls, (Target(0.3, "NumPy"),))


def noise() -> Iterator[Case]:
    """Exact normals from the operating system's entropy, beside a seeded generator's."""
    source, generator, size = EntropyNoise(), SeededNoise(0), 10_000  # PCG64 of NumPy
    calls: Calls = {
        OURS: lambda: source.normals(size, 22),
        "NumPy": lambda: generator.normals(size, 22),
    }
    yield Case("noise", f"{size:,} exact normals", calls, (Target(100e-9 * size),))


def c_function(module: Any, name: str, *types: Any) -> Callable[..., int]:
    """Return a function that a .pxd file declares, as other compiled modules call it."""
    capsule = module.__pyx_capi__[name]
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = (
        ctypes.c_char_p,
        [ctypes.py_object],
    )
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address = api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))
    found: Callable[..., int] = ctypes.CFUNCTYPE(ctypes.c_int, *types)(address)
    return found


def embedded() -> Iterator[Case]:
    """Call ``weighted_sums`` of records.pxd on pointers, without the interpreter."""
    X, _, y = made_up(1_000, 5)
    theta, gradient = np.full(5, 5**-0.5), np.zeros(5)
    integer, double, size, pointer = (
        ctypes.c_int,
        ctypes.c_double,
        ctypes.c_ssize_t,
        ctypes.c_void_p,
    )
    call = c_function(
        records, "weighted_sums", integer, integer, integer, double, double, double, double,
        pointer, size, size, size, integer, pointer, pointer, integer, double, integer,
        pointer, pointer, pointer,
    )  # fmt: skip
    arguments = (
        3, 1, 0, 1.0, 0.0, 1.0, RADIUS, X.ctypes.data, 1_000, 5, 40, 8, y.ctypes.data,
        theta.ctypes.data, records.GRADIENT, 1_000.0, 1, gradient.ctypes.data, None, None,
    )  # fmt: skip
    if call(*arguments) != 0 or not np.allclose(1e3 * gradient, numpy_gradient(X, y, theta)):
        raise RuntimeError("weighted_sums of records.pxd does not give NumPy's gradient")
    calls: Calls = {OURS: lambda: call(*arguments), "NumPy": lambda: numpy_gradient(X, y, theta)}
    yield Case("embedded", "weighted_sums (.pxd), 1,000 x 5", calls, (Target(8e-6),))


GROUPS = {"fits": fits, "kernels": kernels, "noise": noise, "embedded": embedded}


# ---- measuring -------------------------------------------------------------------------------


def once(call: Callable[[], object], repeats: int = 1) -> float:
    """Measure the CPU seconds of a call."""
    start = time.process_time()
    for _ in range(repeats):
        call()
    return (time.process_time() - start) / repeats


def measure(case: Case, seconds: float) -> Measured:
    """Let the calls take turns for so many seconds, at least five rounds."""
    repeats = {}
    for name, call in case.calls.items():
        call()  # imports, caches
        repeats[name] = max(1, int(2e-3 / max(once(call), 1e-9)))
    found: dict[str, list[float]] = {name: [] for name in case.calls}
    end = time.perf_counter() + seconds
    while len(found[OURS]) < 5 or time.perf_counter() < end:
        for name, call in case.calls.items():
            found[name].append(once(call, repeats[name]))
    most = peak(case.calls[OURS]) if case.bytes_read else None
    memory = None if most is None else most / case.bytes_read
    return Measured(case, found, memory)


def peak(call: Callable[[], object]) -> int | None:
    """Measure by how many bytes the resident memory rises in a call; None where it is not told."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak starts again
        before = resident("VmRSS")
        call()
        return max(0, resident("VmHWM") - before)
    except OSError:
        return None


def resident(field: str) -> int:
    """Read a number of kB of this process, in bytes."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return 1024 * int(line.split()[1])
    raise OSError(f"the system does not tell {field}")


def measure_all(groups: list[str], seconds: float) -> Iterator[Measured]:
    """Measure the cases of groups, in order, in so many seconds about."""
    cases = {"fits": 6, "kernels": 2, "noise": 1, "embedded": 1}
    each = seconds / sum(cases[group] for group in groups)
    for group in groups:
        for case in GROUPS[group]():
            yield measure(case, each)
