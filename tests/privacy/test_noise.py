"""The noise sources: claim C23 of PROOFS.md (bits are used once, and never by two processes)."""

from __future__ import annotations

import ast
import copy
import ctypes
import os
import pickle
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import dpfast
from dpfast.errors import InvalidInput
from dpfast.kernels.sampler import ExactSampler
from dpfast.privacy import EntropyNoise, NoiseSource, SeededNoise
from tests.loops import each
from tests.test_architecture import tree_of

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")


def in_child(function):
    """Run ``function`` in a forked child and return the bytes it returns."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.write(write, function())
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    parts = []
    while part := os.read(read, 65536):
        parts.append(part)
    os.close(read)
    assert os.waitpid(child, 0)[1] == 0
    return b"".join(parts)


@pytest.mark.serial
@needs_fork
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_does_not_repeat_its_parents_noise():
    noise = EntropyNoise()
    noise.normals(3, 40)  # the buffer now holds bytes that parent and child would share
    child = in_child(lambda: noise.normals(20, 40).tobytes())
    assert noise.normals(20, 40).tobytes() != child
    children = {in_child(lambda: noise.normals(4, 40).tobytes()) for _ in range(8)}
    assert len(children) == 8


@pytest.mark.serial
@needs_fork
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_the_kernel_wipes_the_buffer_of_a_child_even_if_the_process_id_does_not_betray_it():
    """A child made behind Python's back, which could even have the parent's process id."""
    calls = []

    def supply(size):
        calls.append(size)
        return os.urandom(size)

    sampler = ExactSampler(supply)
    sampler.normals(1, 20)
    assert len(calls) == 1
    libc = ctypes.CDLL(None)
    child = libc.fork()
    if child == 0:
        sampler.normals(1, 20)
        os._exit(len(calls))  # 2: it asked for bytes of its own
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    sampler.normals(1, 20)
    assert len(calls) == 1  # the parent goes on with its buffer


def test_used_bytes_are_erased_and_the_suppliers_copy_too():
    handed_over = []

    def supply(size):
        data = os.urandom(size)
        handed_over.append((id(data), size))
        return data

    sampler = ExactSampler(supply)
    sampler.normals(20, 20)
    address, size = handed_over[0]
    # the bytes object is gone; its memory (if not reused) was zeroed before it was freed
    header = bytes.__basicsize__ - 1
    remains = ctypes.string_at(address + header, size)
    assert remains.count(0) > 0.9 * size


PAGES = """
import ctypes, os, threading, time
from dpfast.kernels.sampler import ExactSampler

def pages():  # private pages that a fork wipes
    found, start = [], 0
    for line in open("/proc/self/smaps"):
        if "-" in line.split()[0]:
            start, end = (int(part, 16) for part in line.split()[0].split("-"))
        elif line.startswith("VmFlags:") and "wf" in line.split():
            found += range(start, end, 4096)
    return found

for _ in range(3):  # the page of a supplier's bytes goes with its sampler
    sampler = ExactSampler(os.urandom)
    sampler.normals(20, 20)
    (page,) = pages()
    assert ctypes.string_at(page, 4096).count(0) < 2000
    del sampler
    assert not pages()

def draw():
    for _ in range(3):
        ExactSampler().normals(20, 20)  # one page for all sources of a thread
    used.append(ExactSampler().consumed)
    inside.append(len(pages()))

used, inside = [], []
draw()
thread = threading.Thread(target=draw)
thread.start()
thread.join()
for _ in range(1000):  # the system ends a thread a little later than it is joined
    if len(pages()) == 1:
        break
    time.sleep(0.01)
assert inside == [1, 2] and len(pages()) == 1, (inside, pages())
assert all(used), used
print("done")
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps"), reason="Linux tells of its pages")
def test_each_thread_holds_one_page_and_gives_it_back():
    done = subprocess.run([sys.executable, "-c", PAGES], capture_output=True, text=True)
    assert done.stdout == "done\n", done.stderr


PAGE_OF_THE_THREAD = """
import ctypes, os
from dpfast.kernels.sampler import ExactSampler

libc = ctypes.CDLL(None)
sampler = ExactSampler()
sampler.normals(1000, 20)  # 8,000 bytes: the 160 of the child are fewer however they fall
read, write = os.pipe()
child = libc.fork()
if child == 0:  # nothing is left of the parent's page, so that the count starts again
    drawn = sampler.normals(20, 44).tobytes()
    os.write(write, drawn + sampler.consumed.to_bytes(8, "little"))
    os._exit(0)
os.waitpid(child, 0)
given = os.read(read, 4096)
own = sampler.normals(20, 44).tobytes()
assert given[:-8] != own and not {given[i:i + 8] for i in range(0, 160, 8)} & {
    own[i:i + 8] for i in range(0, 160, 8)
}
assert int.from_bytes(given[-8:], "little") < sampler.consumed
print("done")
"""


@needs_fork
def test_a_child_made_behind_pythons_back_has_a_page_of_its_own():
    code = [sys.executable, "-c", PAGE_OF_THE_THREAD]
    done = subprocess.run(code, capture_output=True, text=True)
    assert done.stdout == "done\n", done.stderr


@pytest.mark.serial
def test_threads_never_share_bytes():
    """Bytes used twice would give two equal runs of samples (two in a row: P < 1e-17 if not)."""
    noise = EntropyNoise()
    found, barrier = [], threading.Barrier(4)

    def draw():
        barrier.wait()
        found.extend(noise.normals(8, 44).tobytes() for _ in range(1000))

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4000
    rows = np.frombuffer(b"".join(found), dtype=np.int64).reshape(-1, 8)
    pairs = np.stack([rows[:, :-1].ravel(), rows[:, 1:].ravel()], axis=1)
    assert len(np.unique(pairs, axis=0)) == len(pairs)


def test_entropy_noise_copies_share_nothing():
    noise = EntropyNoise()
    for twin in (copy.copy(noise), copy.deepcopy(noise), pickle.loads(pickle.dumps(noise))):
        assert isinstance(twin, EntropyNoise)
        assert twin.normals(10, 40).tolist() != noise.normals(10, 40).tolist()
    with pytest.raises(TypeError, match="not copied"):
        pickle.dumps(ExactSampler(os.urandom))


def test_guarantees():
    assert EntropyNoise().guarantee == "GDP"
    assert SeededNoise(0).guarantee == "none (simulation)"
    assert NoiseSource().guarantee == "none (simulation)"
    for method in ("normals", "discrete_laplace"):
        with pytest.raises(NotImplementedError):
            getattr(NoiseSource(), method)(*((1, 20) if method == "normals" else (1, 1, 2)))


def test_seeds_are_reproducible_and_used_in_full():
    assert SeededNoise(5).normals(9, 30).tolist() == SeededNoise(5).normals(9, 30).tolist()
    seeds = [0, 1, 255, 256, 2**31, 2**32, 2**32 + 1, 2**63, 2**64, 2**64 + 1, 2**128, 2**200 + 3]
    draws = {SeededNoise(seed).normals(4, 40).tobytes() for seed in seeds}
    assert len(draws) == len(seeds)
    sequence = np.random.SeedSequence(3).spawn(2)
    assert (
        SeededNoise(sequence[0]).normals(4, 40).tolist()
        != SeededNoise(sequence[1]).normals(4, 40).tolist()
    )
    seven = SeededNoise(7).normals(3, 20).tolist()
    assert SeededNoise(np.int64(7)).normals(3, 20).tolist() == seven


@each("seed", [-1, 1.0, "1", None, True, [1, 2]])
def test_bad_seeds(seed):
    with pytest.raises(InvalidInput, match="seed must be"):
        SeededNoise(seed)


def test_seeded_noise_has_the_same_law_on_the_same_grid():
    z = SeededNoise(1).normals(200_000, 20) / 2**20
    assert abs(z.mean()) < 0.012  # 5.4 standard deviations
    assert abs(z.std() - 1) < 0.0085
    j = SeededNoise(2).discrete_laplace(200_000, 1, 2)
    ratio = np.exp(-0.5)
    assert abs((j == 0).mean() - (1 - ratio) / (1 + ratio)) < 0.006
    assert abs(j.mean()) < 0.035


def test_only_the_noise_module_draws_randomness():
    """Rule 1 of the house, by reading every module of the package."""
    package = Path(dpfast.__file__).parent
    banned = {"random", "secrets", "uuid"}
    offenders = []
    for path in sorted(package.rglob("*.py")):
        if path == package / "privacy" / "noise.py":
            continue
        for node in ast.walk(tree_of(path)):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name.split(".")[0] for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [(node.module or "").split(".")[0]]
                if node.module == "numpy" and any(a.name == "random" for a in node.names):
                    names.append("random")
            elif isinstance(node, ast.Attribute) and node.attr in {"random", "urandom"}:
                names = ["random"]
            offenders += [f"{path.name}:{node.lineno}" for name in names if name in banned]
    assert offenders == []


def test_only_the_pages_of_bytes_ask_the_system_for_them(repository):
    """Rule 1 of the house for C and Cython: one file asks, and the sampler alone includes it."""
    words = re.compile(r"getrandom|getentropy|arc4random|\bs?rand(om)?(_r)?\(|/dev/u?random|rdrand")
    sources = [
        path
        for kind in ("c", "h", "pyx", "pxi", "pxd")
        for path in (repository / "csrc").rglob(f"*.{kind}")
        if not (path.parent.name == "csrc" and path.with_suffix(".pyx").exists() and kind == "c")
    ]
    texts = {path.name: path.read_text() for path in sources}
    assert [name for name, text in texts.items() if words.search(text)] == ["entropy.c"]
    using = sorted(name for name, text in texts.items() if "entropy.h" in text)
    assert using == ["entropy.c", "sampler.pyx"]
