"""Compiled losses on disk: no code of another loss, no code of somebody else."""

from __future__ import annotations

import ast
import ctypes
import math
import os
import re
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

numba = pytest.importorskip("numba")
from numba.extending import overload  # noqa: E402

from dpfast.kernels import code_cache, code_key as keys, machine_code, user_loss  # noqa: E402
from dpfast.kernels.code_key import code_key  # noqa: E402
from dpfast.kernels.user_loss import CompiledLoss  # noqa: E402

R = np.array([-math.inf, -3.7, -0.2, 0.0, 1e-3, 0.9, 25.0, math.inf])
KEY = "0" * 64

MODULE = types.ModuleType("a_module_of_the_user")
MODULE.LEVEL = 0.25

SOURCE = """
import math
import numba
import numpy as np

LEVEL = {level}

@numba.njit(error_model="numpy"{options})
def helper(r, c={default}):
    return {helper} + c

def make(closed):
    def psi(r):
        return {constant} * math.tanh(r) + LEVEL + closed + helper(r) + module.LEVEL
    return psi

psi = make({closed})
def rho(r): return r
def one(r): return 1.0
"""
USUAL = {
    "level": "0.5",
    "options": "",
    "helper": "r / (1.0 + abs(r))",
    "constant": "1.0",
    "closed": "0.1",
    "default": "0.2",
}
CHANGES = {
    "a global": {"level": "0.75"},
    "a helper's options": {"options": ", fastmath=True"},
    "a helper": {"helper": "r / (2.0 + abs(r))"},
    "a global that a helper reads": {"level": "1.5", "helper": "LEVEL"},
    "a constant": {"constant": "2.0"},
    "a value closed over": {"closed": "0.7"},
    "a helper's default": {"default": "0.4"},
    "a function": {"constant": "math.exp(0.5) * math.exp(0.5)"},
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    return tmp_path / "dpfast"


@pytest.fixture
def compilations(monkeypatch):
    """Names of the functions that Numba was asked to compile."""
    seen, compile_it = [], user_loss._compile
    monkeypatch.setattr(user_loss, "_compile", lambda *f: seen.append(f[1]) or compile_it(*f))
    return seen


def made(**changes):
    """Functions of a user, in a module of their own."""
    names = {"module": MODULE, "__name__": "user"}
    exec(compile(SOURCE.format(**(USUAL | changes)), "user.py", "exec"), names)
    return names["rho"], names["psi"], names["one"]


def run(address, *outputs):
    pointer = ctypes.POINTER(ctypes.c_double)
    signature = ctypes.CFUNCTYPE(None, *[pointer] * (1 + outputs[0]), ctypes.c_size_t)
    arrays = [R.copy(), *(np.empty_like(R) for _ in range(outputs[0]))]
    signature(address)(*(a.ctypes.data_as(pointer) for a in arrays), len(R))
    return arrays[1:]


def psi_of(compiled):
    psi, alone = run(compiled.slopes_address, 2)[0], run(compiled.psi_address, 1)[0]
    np.testing.assert_allclose(alone, psi, rtol=1e-14, atol=1e-15)
    return psi


def right(functions):
    with np.errstate(all="ignore"):
        return np.array([functions[1](float(r)) for r in R])


def assert_right(compiled, functions):
    np.testing.assert_allclose(psi_of(compiled), right(functions), rtol=1e-14, atol=1e-15)


# ---- the right code ------------------------------------------------------------------------------


def test_whatever_changes_the_code_changes_the_answer(compilations):
    """Old code for a changed loss would be a wrong answer nobody notices."""
    kinds = [made(), *(made(**changes) for changes in CHANGES.values())]
    for functions in kinds:
        assert_right(CompiledLoss(*functions), functions)
    for functions in kinds:  # from disk
        assert_right(CompiledLoss(*functions), functions)
    again = made(**CHANGES["a helper"])  # other objects
    assert_right(CompiledLoss(*again), again)
    assert len(compilations) == len(kinds)


def test_a_global_changed_in_place(compilations):
    """Also where Numba has compiled a helper with the global's old value."""
    functions = made(helper="LEVEL * r")
    names = functions[1].__globals__
    names["helper"](1.0)
    first = CompiledLoss(*functions)
    names["LEVEL"] = 3.0
    assert names["helper"](1.0) == 0.7  # Numba does not notice
    second = CompiledLoss(*functions)
    expected = made(level="3.0", helper="LEVEL * r")
    assert_right(second, expected)
    assert_right(CompiledLoss(*expected), expected)
    assert len(compilations) == 2
    assert not np.array_equal(psi_of(first), psi_of(second), equal_nan=True)


def test_an_attribute_of_a_module(compilations, monkeypatch):
    functions = made()
    CompiledLoss(*functions)
    monkeypatch.setattr(MODULE, "LEVEL", 5.0)
    assert_right(CompiledLoss(*functions), functions)
    assert len(compilations) == 2


def test_each_of_the_three_functions_counts():
    rho, psi, one = made()
    assert len({code_key(f) for f in ((rho, psi, one), (psi, rho, one), (rho, one, psi))}) == 3


def test_code_from_disk_is_the_code(compilations):
    """Bit by bit, and beside code of the same names."""
    kinds = [made(constant=repr(0.1 * i)) for i in range(3)]
    compiled = [CompiledLoss(*functions) for functions in kinds]
    loaded = [CompiledLoss(*functions) for functions in kinds]
    assert len(compilations) == 3
    for one, two, functions in zip(compiled, loaded, kinds, strict=True):
        assert psi_of(one).tobytes() == psi_of(two).tobytes()
        np.testing.assert_array_equal(run(one.values_address, 1)[0], R)
        assert_right(two, functions)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (0.0, -0.0),
        (1, 1.0),
        (1, True),
        (1.0, np.float64(1.0)),
        (np.float32(1.0), np.float64(1.0)),
        ((1.0, 2.0), (2.0, 1.0)),
        ("a", b"a"),
        ((), None),
        (math.sin, math.cos),
        (math.exp, np.exp),
        (0.1, 0.1 + 2**-56),
    ],
)
def test_values_that_make_other_code_have_other_keys(one, other):
    def reads(value):
        def read(r):
            return value

        return (read,)

    assert code_key(reads(one)) == code_key(reads(one)) is not None
    assert code_key(reads(one)) != code_key(reads(other))


def test_the_signature_counts():
    def plain(r, a=1.0):
        return a

    def keyword(r, *, a=1.0):
        return a

    found = {code_key((plain,)), code_key((keyword,))}
    plain.__defaults__, keyword.__kwdefaults__ = (2.0,), {"a": 2.0}
    found |= {code_key((plain,)), code_key((keyword,))}
    assert len(found - {None}) == 4


def test_the_compiler_counts(monkeypatch):
    functions = made()
    found = {code_key(functions)}
    for change in (
        lambda: monkeypatch.setattr(keys, "version", lambda name: "0.1"),
        lambda: monkeypatch.setattr(sys, "version", "3.99"),
        lambda: monkeypatch.setattr(
            "dpfast.kernels.machine_code.target", lambda: ("x86_64", "z80", "")
        ),
        lambda: monkeypatch.setattr(keys, "OWN_SOURCES", ("code_key.py",)),
        lambda: monkeypatch.setenv("NUMBA_OPT", "0"),
    ):
        change()
        keys._installation.cache_clear()
        found.add(code_key(functions))
        monkeypatch.undo()
    keys._installation.cache_clear()
    assert None not in found
    assert len(found) == 6


def test_whatever_makes_the_code_is_in_the_key():
    """Every module that the compilation reads; code of before is not found when one changes."""
    folder = Path(user_loss.__file__).parent
    found, ahead = set(), ["user_loss"]
    while ahead:
        name = ahead.pop()
        if name in found:
            continue
        found.add(name)
        for node in ast.walk(ast.parse((folder / f"{name}.py").read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "dpfast.kernels":
                ahead += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module.startswith("dpfast.kernels."):
                ahead.append(node.module.rpartition(".")[2])
    assert {f"{name}.py" for name in found - {"code_cache"}} == set(keys.OWN_SOURCES)


def test_loops_are_left_plain_until_they_are_made_for_this_machine():
    """What holds Numba back is found and removed; divisions by constants alone are rewritten."""
    functions = made(helper="(r / 1.3) / (1.0 + abs(r))")
    for part in user_loss._compile(*functions):
        before = after = part.inspect_llvm()
        for pattern, replacement in machine_code.REWRITINGS:
            after = pattern.sub(replacement, after)
        assert before.count("asm sideeffect") == 1
        assert not re.search(r"<\d+ x double>", before)
        assert "asm" not in after
        for flag, divisor in re.findall("= fdiv (arcp )?double .*, (.*)", after):
            assert bool(flag) == (not divisor.startswith("%"))


# ---- what is not known for certain ---------------------------------------------------------------


@numba.njit("float64(float64)")
def fixed(r):
    return r


@numba.njit(locals={"x": numba.float32})
def narrowed(r):
    x = r
    return x


@numba.njit
def recursive(r):
    return r if r < 1.0 else recursive(r - 1.0)


def foreign(r):
    raise NotImplementedError


@overload(foreign)
def _foreign(r):
    return lambda r: r


MODULE.helper = numba.njit(lambda r: r)
TABLE = np.ones(3)
LIST = [1.0]


class Number(float):
    pass


SUBCLASS = Number(1.0)


def inner_function(r):
    def inner(x):
        return x + r

    return inner(r)


def imports(r):
    import math as m

    return m.exp(r)


def alias(r):
    m = math
    return m.exp(r)


def either(r):
    return (math if r > 0 else r).real


UNKNOWN = {
    "helper of a module": lambda r: MODULE.helper(r),
    "fixed signature": lambda r: fixed(r),
    "declared locals": lambda r: narrowed(r),
    "recursion": lambda r: recursive(r),
    "extension of Numba": lambda r: foreign(r),
    "array": lambda r: TABLE[0] * r,
    "list": lambda r: LIST[0] * r,
    "subclass": lambda r: SUBCLASS * r,
    "attribute": lambda r: r.real,
    "method": lambda r: np.float64(r).conjugate(),
    "random number": lambda r: np.random.normal(r),  # noqa: NPY002
    "class": lambda r: Number(r),
    "no such name": lambda r: no_such_name(r),  # noqa: F821
    "function in a function": inner_function,
    "import": imports,
    "module in a variable": alias,
    "module or value": either,
    "no Python function": math.exp,
}


@pytest.mark.parametrize("function", UNKNOWN.values(), ids=UNKNOWN)
def test_what_is_not_known_for_certain_has_no_key(function):
    assert code_key((function,)) is None
    assert code_key((lambda r: r, function)) is None


def test_a_library_function_that_is_told_to_numba_anew(monkeypatch):
    monkeypatch.setattr(keys, "LIBRARIES", (*keys.LIBRARIES, sys.modules[__name__]))
    assert code_key((lambda r: foreign(r),)) is None


def test_no_key_no_file(folder, compilations):
    functions = (made()[0], UNKNOWN["helper of a module"], made()[2])
    for _ in range(2):
        assert_right(CompiledLoss(*functions), functions)
    assert len(compilations) == 2
    assert not folder.exists()


def test_code_that_calls_more_than_elementary_functions_is_not_kept(folder, compilations):
    functions = (made()[0], lambda r: math.gamma(1.5 + 0.4 * math.tanh(r)), made()[2])
    assert code_key(functions) is not None
    for _ in range(2):
        assert_right(CompiledLoss(*functions), functions)
    assert len(compilations) == 2
    assert not folder.exists()


def test_the_cache_can_be_declined(folder, compilations):
    functions = made()
    for _ in range(2):
        assert_right(CompiledLoss(*functions, cache=False), functions)
    assert len(compilations) == 2
    assert not folder.exists()


# ---- the folder ----------------------------------------------------------------------------------


def test_stored_is_loaded(folder):
    assert code_cache.load(KEY) is None
    code_cache.store(KEY, b"code")
    assert code_cache.load(KEY) == b"code"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in folder.iterdir()] == [KEY]
    assert (folder / KEY).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o722])
def test_a_folder_that_others_may_write_to_is_not_used(folder, mode):
    code_cache.store(KEY, b"code")
    folder.chmod(mode)
    assert code_cache.load(KEY) is None
    code_cache.store("1" * 64, b"code")
    assert not (folder / ("1" * 64)).exists()


def test_a_folder_of_somebody_else_is_not_used(folder, monkeypatch):
    code_cache.store(KEY, b"code")
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    assert code_cache.load(KEY) is None
    code_cache.store("1" * 64, b"code")
    assert not (folder / ("1" * 64)).exists()


def test_a_folder_that_is_a_link_is_not_used(folder, tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    code_cache.store(KEY, b"code")
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_file_that_others_may_write_to_or_link_is_not_used(folder, tmp_path):
    code_cache.store(KEY, b"code")
    content = (folder / KEY).read_bytes()
    (folder / KEY).chmod(0o620)
    assert code_cache.load(KEY) is None
    (folder / KEY).unlink()
    (tmp_path / "elsewhere").write_bytes(content)
    (folder / KEY).symlink_to(tmp_path / "elsewhere")
    assert code_cache.load(KEY) is None


def test_a_spoilt_file_is_compiled_anew(folder, compilations):
    functions = made()
    CompiledLoss(*functions)
    (file,) = folder.iterdir()
    content = file.read_bytes()
    for spoilt in (content[:-1], content[:10], b"", content[:-1] + b"x", content + b"x"):
        file.write_bytes(spoilt)
        assert code_cache.load(file.name) is None
    for _ in range(2):
        assert_right(CompiledLoss(*functions), functions)
    assert len(compilations) == 2


def test_a_file_under_the_name_of_another_is_not_used(folder):
    code_cache.store(KEY, b"code")
    (folder / KEY).rename(folder / ("1" * 64))
    assert code_cache.load("1" * 64) is None


def test_no_place_no_cache(folder, monkeypatch):
    folder.write_text("a file")
    functions = made()
    assert_right(CompiledLoss(*functions), functions)
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/dev/null")
    code_cache.store(KEY, b"code")
    assert code_cache.load(KEY) is None


def test_where_it_is(monkeypatch, tmp_path):
    assert code_cache._place() == tmp_path / "dpfast"
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert code_cache._place() == Path("/x/dpfast")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/h")
    assert code_cache._place() == Path("/h/.cache/dpfast")


def test_the_oldest_files_go(folder, monkeypatch):
    monkeypatch.setattr(code_cache, "MOST_FILES", 3)
    for i in range(5):
        code_cache.store(str(i) * 64, b"code")
        os.utime(folder / (str(i) * 64), (i, i))
    assert sorted(path.name[0] for path in folder.iterdir()) == ["2", "3", "4"]


# ---- processes -----------------------------------------------------------------------------------

PROGRAM = """
import sys, math, dpfast
def rho(r): return abs(r) - math.log1p(abs(r))
def psi(r): return math.tanh(r)
def psi_prime(r): return 1.0 - math.tanh(r) ** 2
loss = dpfast.CustomLoss(rho, psi, psi_prime, psi_bound=1.0, psi_prime_bound=1.0)
x = [[float(i % 7)] for i in range(50)]
fit = dpfast.fit(x, [float(i % 5) for i in range(50)], loss, privacy=1.0, scale=1.0,
                 noise=dpfast.SeededNoise(1))
print(fit.params.tobytes().hex(), "numba" in sys.modules)
"""


def test_the_second_process_compiles_nothing(folder):
    """It does without Numba.  The first two run at once."""

    def start():
        return subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True)

    at_once = [start(), start()]
    first = [process.communicate()[0].split() for process in at_once]
    second = start().communicate()[0].split()
    assert len(list(folder.iterdir())) == 1
    assert "True" in {compiled for _, compiled in first}
    assert second[1] == "False"
    assert len({answer for answer, _ in (*first, second)}) == 1
