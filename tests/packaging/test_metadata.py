"""Files around the code agree with the code."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from importlib import import_module

import dpfast


def metadata(repository):
    return tomllib.loads((repository / "pyproject.toml").read_text())


def test_versions_agree(repository):
    version = metadata(repository)["project"]["version"]
    assert version == dpfast.__version__
    assert re.search(
        rf"^version: {re.escape(version)}$", (repository / "CITATION.cff").read_text(), re.M
    )
    assert f"## {version}" in (repository / "CHANGELOG.md").read_text()


def test_run_time_dependencies_are_numpy_and_scipy_only(repository):
    names = [re.match(r"[\w-]+", d)[0] for d in metadata(repository)["project"]["dependencies"]]
    assert names == ["numpy", "scipy"]


def test_what_stubs_of_kernels_name_is_there(repository):
    for stub in sorted((repository / "dpfast" / "kernels").glob("*.pyi")):
        module = import_module(f"dpfast.kernels.{stub.stem}")
        for node in ast.parse(stub.read_text(encoding="utf-8")).body:
            named = isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name[0] != "_"
            assert not named or hasattr(module, node.name), f"{stub.name}: {node.name}"


def test_package_is_typed(repository):
    folder = repository / "dpfast"
    assert (folder / "py.typed").exists()
    for source in (repository / "csrc").glob("*.pyx"):
        assert (folder / "kernels" / f"{source.stem}.pyi").exists(), source.stem


def make_targets(repository) -> set[str]:
    return set(re.findall(r"^([a-z][\w-]*):", (repository / "Makefile").read_text(), re.M))


def test_documented_commands_exist(repository):
    targets = make_targets(repository)
    assert {"demo", "test", "test-all", "bench", "lint", "mutants", "clean"} <= targets
    for page in ("README.md", "CONTRIBUTING.md", "bench/README.md"):
        text = (repository / page).read_text()
        used = set(re.findall(r"(?:^|[\s`])make (?:-C \S+ )?([a-z][\w-]*)", text))
        code = {word for word in used if f"`make {word}" in text or f"    make {word}" in text}
        assert code <= targets, f"{page}: {code - targets}"


def test_make_explains_itself(repository):
    help_text = subprocess.run(
        ["make", "--no-print-directory", "-n", "help"],
        cwd=repository,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for target in ("demo", "test", "bench", "lint", "mutants", "clean"):
        assert f"make {target}" in help_text


def test_continuous_integration_runs_make_test(repository):
    script = repository / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    commands = [
        line
        for line in script.read_text().splitlines()
        if line and not line.startswith(("#", "set ", "cd "))
    ]
    assert commands == ["make test"]


def test_loading_the_kernels_leaves_subnormal_numbers_alone():
    """A library linked with -ffast-math flushes them to zero for the whole process."""
    code = """
import importlib
for name in (
    "acquisition", "certificates", "decisions", "keys", "records", "linalg", "sampler", "session",
):
    importlib.import_module(f"dpfast.kernels.{name}")
tiny = float("2.2250738585072014e-308")
assert tiny / 2 > 0 and tiny / 2**52 == 5e-324
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_changelog_has_a_privacy_heading(repository):
    assert "**Privacy**" in (repository / "CHANGELOG.md").read_text()
