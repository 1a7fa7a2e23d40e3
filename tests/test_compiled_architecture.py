"""The rules of ``test_architecture`` for compiled sources, which it does not read.

Each test names the check of Python files that it stands beside.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CSRC = Path(__file__).resolve().parents[1] / "csrc"
WRITTEN = {".pyx", ".pxi", ".h", ".c"}
MODULES = sorted(path.stem for path in CSRC.glob("*.pyx"))
SOURCES = sorted(
    path for path in CSRC.rglob("*")
    if path.suffix in WRITTEN and path not in [CSRC / f"{module}.c" for module in MODULES]
)  # fmt: skip

#: Parts of csrc that only these modules may use: who sees records, and who draws.
OWNERS = {
    "records": {"records", "session"}, "losses": {"records"}, "keys": {"keys"},
    "sampler": {"sampler", "session"},
}  # fmt: skip

#: What a module may cimport from another of ours.
MAY_CIMPORT = {"decisions": {"linalg"}, "session": {"records", "sampler"}}

#: What decisions about released numbers may use beside these: they see no record and draw nothing.
PURE = {"decisions", "linalg", "certificates"}

IMPORTED = re.compile(
    r"^\s*(?:from\s+([\w.]+)\s+c?import|c?import\s+([\w., ]+))|dpfast\.kernels import", re.M
)
INCLUDED = re.compile(r'(?:extern from|#include|^include)\s+"([^"]+)"', re.M)


def parts(module: str) -> list[Path]:
    """A module's own source with the files in its folder."""
    folder = [path for path in SOURCES if path.parent == CSRC / module]
    return [CSRC / f"{module}.pyx", *folder]


def imported(path: Path) -> set[str]:
    """Dotted names of modules that a Cython file imports or cimports."""
    found = IMPORTED.findall(path.read_text(encoding="utf-8"))
    return {
        name.split()[0] for one, many in found for name in (one, *many.split(",")) if name.strip()
    }


def test_there_is_something_to_check():
    assert {"records", "keys", "sampler", "linalg", "decisions"} <= set(MODULES)
    assert "dpfast.kernels.linalg" in imported(CSRC / "decisions.pyx")
    assert "records.h" in INCLUDED.findall((CSRC / "records.pyx").read_text(encoding="utf-8"))
    assert any(path.name == "norms.pxi" for path in parts("decisions"))


@pytest.mark.parametrize("module", MODULES)
def test_dependency_direction(module):
    """Beside ``test_dependency_direction``: kernels know errors and threads, and few each other."""
    allowed = {"dpfast.errors", "dpfast.kernels.process_threads"}
    allowed |= {f"dpfast.kernels.{name}" for name in MAY_CIMPORT.get(module, ())}
    for path in parts(module):
        if path.suffix in {".pyx", ".pxi"}:
            used = {name for name in imported(path) if name.split(".")[0] == "dpfast"}
            assert used <= allowed, f"{path.name} uses {used - allowed}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(CSRC)))
def test_only_their_owners_touch_records_and_noise(path):
    """Beside ``test_only_the_curator_touches_records`` and the one of the door of answers.

    Beside ``dpfast.privacy`` only the session has noise drawn, by the one mechanism.
    """
    own = path.stem if path.parent == CSRC else path.relative_to(CSRC).parts[0]
    own = own.split("_")[0]  # records_avx2.c
    text = path.read_text(encoding="utf-8")
    for name in [*INCLUDED.findall(text), *(imported(path) if path.suffix[:3] == ".px" else ())]:
        for part, owners in OWNERS.items():
            inside = re.match(rf"{part}[/._]|dpfast\.kernels\.{part}\b", name)
            assert not inside or own in owners | {part}, f"{path.name} uses {name}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(CSRC)))
def test_only_the_sampler_draws_random_numbers(path):
    """Beside ``test_only_the_noise_module_draws_random_numbers``."""
    if path.parent.name == "sampler" or path.stem == "sampler":
        return
    text = path.read_text(encoding="utf-8")
    drawn = re.findall(
        r"\b(?:getrandom|getentropy|arc4random\w*|s?rand(?:_r)?\(|[dlm]rand48|/dev/u?random"
        r"|numpy\.random|np\.random|cnp\.random|secrets\.|os\.urandom)",
        text,
    )
    assert not drawn, f"{path.name} draws: {drawn}"


@pytest.mark.parametrize("module", sorted(PURE))
def test_decisions_see_no_record_and_draw_nothing(module):
    """Beside ``test_privacy_imports_little``: post-processing has arithmetic alone."""
    allowed = {"numpy", "math", "libc", "cython", "cpython", "scipy", "dpfast"}
    for path in parts(module):
        if path.suffix in {".pyx", ".pxi"}:
            assert {name.split(".")[0] for name in imported(path)} <= allowed, path.name
            text = path.read_text(encoding="utf-8")
            assert "records" not in " ".join(INCLUDED.findall(text)), path.name


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(CSRC)))
def test_compiled_sources_change_nothing_of_the_process(path):
    """Beside ``test_imports_have_no_process_wide_side_effects``."""
    changed = re.findall(
        r"\b(?:setenv|putenv|fesetround|feenableexcept|signal|sigaction|sched_setaffinity) *\(",
        path.read_text(encoding="utf-8"),
    )
    assert not changed, f"{path.name} calls {changed}"


def functions(module: str) -> dict[str, str]:
    """Text of every function and method of a module's Cython files, by name."""
    found = {}
    for path in parts(module):
        pieces = re.split(
            r"^ *(?:cp?def [^\n(=]*?|def )(\w+)\(",
            path.read_text(encoding="utf-8"),
            flags=re.M,
        )
        found.update(zip(pieces[1::2], pieces[2::2], strict=True))
    return found


def test_the_session_draws_by_the_mechanism_alone():
    """Beside ``test_every_answer_goes_through_the_door``: by ``release_together``, or in place."""
    drawing = re.compile(r"\.(?:normals|discrete_laplace|words)\b|\bExactSampler\b")
    texts = functions("session")
    callers = [name for name, text in texts.items() if "release_together(" in text]
    assert callers == ["release_jointly_with_noise"]
    assert [name for name, text in texts.items() if "release_in_place(" in text] == ["released"]
    cimported = "from dpfast.kernels.sampler cimport noisy_part, release_in_place\n"
    for path in parts("session"):
        text = path.read_text(encoding="utf-8")
        assert not drawing.search(text), path.name
        assert "sampler" not in text.replace(cimported, ""), path.name


def test_the_session_charges_before_it_reads_and_draws():
    """Beside ``test_only_the_curator_touches_records``: the order of each question."""
    door = {"release_with_noise", "release_jointly_with_noise", "released"}
    released = re.compile(r"\b(?:release_\w*with_noise|released)\(")
    texts = functions("session").items()
    asking = {name: text for name, text in texts if released.search(text) and name not in door}
    # each has a case in tests/privacy/test_what_is_handed_out.py
    assert set(asking) == {"below", "distances", "_release_means", "norm_histogram"}
    for name, text in asking.items():
        charged = text.index(" charge(")
        read = re.search(r"\.(?:_count|_distances|summed|counted)\(|\.total\(", text)
        answered = released.search(text)
        assert read and answered, name
        assert charged < read.start() < answered.start(), name


def test_the_session_reads_where_records_are_summed_and_counted():
    """Beside ``test_only_the_curator_touches_records``: no other question sees an array."""
    touching = re.compile(r"\b(?:sums_of_rows|lengths_of_rows)\(|\._raw\.[Xy]\b")
    texts = functions("session")
    assert {name for name, text in texts.items() if touching.search(text)} == {"summed", "counted"}
