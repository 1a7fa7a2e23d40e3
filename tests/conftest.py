"""Settings shared by all tests."""
# ruff: noqa: E402 - the environment is settled before NumPy is imported

from __future__ import annotations

import gc
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

# Roundings of the BLAS follow its threads and the processor that it is told to be.  Whatever the
# caller's environment says of either, or tells dpfast, every test sees the same: one thread and no
# other setting.  Done before anything loads NumPy; the subprocesses of tests inherit it.
for _name in [*os.environ]:
    if _name.startswith(("OPENBLAS_", "GOTO_", "OMP_", "MKL_", "BLIS_", "VECLIB_", "DPFAST_")):
        del os.environ[_name]
os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tests.slower import listed, name_of
from tests.thinned import in_sixth, thin

try:
    import fcntl
except ImportError:
    fcntl = None

# Temporary folders have names in which tests that search messages for secrets would find them,
# unless they take the path out first: every time, not once in a hundred runs by their number.
SECRETS = "dpfast-0123456789-4711-54-patient-Secret-secret"


def own_root(place: Path) -> Path:
    """A folder of this user alone: the one it always has, or a new one if others have that name."""
    root = place / f"{SECRETS}-{os.geteuid()}"
    with suppress(FileExistsError):
        root.mkdir(mode=0o700)
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        return Path(tempfile.mkdtemp(prefix=SECRETS, dir=place))
    return root


if "PYTEST_DEBUG_TEMPROOT" not in os.environ:
    os.environ["PYTEST_DEBUG_TEMPROOT"] = str(own_root(Path(tempfile.gettempdir())))

# Shared machines stall now and then: a slow example is not a failure.  CI runs are repeatable.
PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("default", **PATIENT)
settings.register_profile("ci", **PATIENT, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


@pytest.fixture(scope="session")
def repository() -> Path:
    """Root of the source tree."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture
def repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entropy that is the same in every run: an example with a real call fails never by chance."""
    from dpfast.kernels.sampler import ExactSampler

    same = np.random.default_rng(0).bytes
    monkeypatch.setattr("dpfast.privacy.noise.os", SimpleNamespace(urandom=same))
    monkeypatch.setattr("dpfast.privacy.noise.ExactSampler", partial(ExactSampler, same))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is collected lives as long as the run: no garbage is looked for among it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)  # nor often among what tests make
        gc.enable()


# ---- every test alone ----------------------------------------------------------------------------

#: Generators that test modules keep, with their states before the first test.
STATES: list[tuple[np.random.BitGenerator, Any]] = []


def kept_generators(module: Any) -> Iterator[np.random.BitGenerator]:
    """Generators, and those of seeded noise, among a module's names and dictionaries."""
    from dpfast import SeededNoise

    for value in vars(module).values():
        for one in value.values() if type(value) is dict else (value,):
            generator = one._generator if isinstance(one, SeededNoise) else one
            if isinstance(generator, np.random.Generator):
                yield generator.bit_generator


def pytest_collection_finish() -> None:
    modules = [module for name, module in sys.modules.items() if name.startswith("tests.")]
    found = {id(one): one for module in modules for one in kept_generators(module)}
    STATES[:] = [(one, one.state) for one in found.values()]


@pytest.fixture(autouse=True)
def same_draws() -> None:
    """Each test draws the same numbers, whatever other tests of its process drew before."""
    for generator, state in STATES:
        generator.state = state


# ---- two processes ------------------------------------------------------------------------------


def turn(item: pytest.Item) -> int:
    """When a test runs: serial ones before the others, or after them."""
    marker = item.get_closest_marker("serial")
    return 1 if marker is None else 2 * len(marker.args)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--sixth", type=int, choices=range(6), help="only a sixth of the tests, by their names"
    )
    parser.addoption("--fast", action="store_true", help="without the tests of tests/slower.txt")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Serial tests come first; cases that are left out of the quick ones are slow.

    A fork copies what its process has mapped, which grows with every test.  Of an interrupt within
    a release of a lock CPython keeps the error as the context of all that are raised later, so
    tests of such come last.
    """
    thin(items)
    items.sort(key=turn)
    sixth = config.getoption("--sixth")
    if sixth is not None:
        leave_out(config, items, [item for item in items if not in_sixth(item.nodeid, sixth)])
    if config.getoption("--fast"):
        slower = listed()
        leave_out(config, items, [item for item in items if name_of(item.nodeid) in slower])


def leave_out(config: pytest.Config, items: list[pytest.Item], left: list[pytest.Item]) -> None:
    items[:] = [item for item in items if item not in set(left)]
    config.hook.pytest_deselected(items=left)


#: Modules whose costly fixture would be made once in each process: one process takes them whole.
WHOLE = {
    "tests/bench/test_literature.py",
    "tests/data/test_cluster.py",
    "tests/packaging/test_architecture_page.py",
    "tests/packaging/test_default_path.py",
    "tests/packaging/test_distribution.py",
    "tests/packaging/test_embedding.py",
    "tests/packaging/test_plots.py",
    "tests/privacy/test_persons_on_the_road.py",
    "tests/privacy/test_planted_links.py",
    "tests/privacy/test_user_loss.py",
    "tests/statistics/test_coverage.py",
}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Test by test.  By file name: xdist's groups are lost with pytest 9.2, whose ids are fixed."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            module = nodeid.split("::")[0]
            return module if module in WHOLE else nodeid

        def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
            """And forget what is done, over which xdist sums at every one of 20,000 tests."""
            super().mark_test_complete(node, item_index, duration)
            done = [
                scope for scope, tests in self.assigned_work[node].items() if all(tests.values())
            ]
            for scope in done:
                del self.assigned_work[node][scope]

    return Scheduling(config, log)


@pytest.fixture(scope="session")
def shared_lock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int | None]:
    """A file that every process of this run has open; None if there is one process only."""
    if fcntl is None or "PYTEST_XDIST_WORKER" not in os.environ:
        yield None
        return
    with open(tmp_path_factory.getbasetemp().parent / "serial.lock", "wb") as file:
        yield file.fileno()


@pytest.fixture(autouse=True)
def alone(request: pytest.FixtureRequest, shared_lock: int | None) -> Iterator[None]:
    """A serial test runs while no other process runs any."""
    if shared_lock is None:
        yield
        return
    serial = request.node.get_closest_marker("serial")
    fcntl.flock(shared_lock, fcntl.LOCK_EX if serial else fcntl.LOCK_SH)
    try:
        yield
    finally:
        fcntl.flock(shared_lock, fcntl.LOCK_UN)
