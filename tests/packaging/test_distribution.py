"""The source distribution builds, and the wheel made from it holds what it must."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

#: Every compiled extension, by its Cython source.
EXTENSIONS = sorted(path.stem for path in (ROOT / "csrc").glob("*.pyx"))

LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv*", "build", "dist", "*.egg-info", "__pycache__", "*.so", ".hypothesis",
    *(f"{name}.c" for name in EXTENSIONS), ".*_cache",
)  # fmt: skip


def test_every_list_of_extensions_is_complete():
    """Sources, stubs, and the lists in other files that no glob can replace."""
    assert EXTENSIONS == [
        "acquisition", "certificates", "decisions", "keys", "linalg", "records", "sampler",
        "session",
    ]  # fmt: skip
    stubs = {path.stem for path in (ROOT / "dpfast" / "kernels").glob("*.pyi")}
    assert stubs == set(EXTENSIONS)
    for listing in ("Makefile", "MANIFEST.in", ".gitignore"):
        generated = re.findall(r"csrc/(\w+)\.c\b", (ROOT / listing).read_text(encoding="utf-8"))
        assert set(generated) == set(EXTENSIONS), listing
    built = re.findall(r'\bextension\(\s*"(\w+)"', (ROOT / "setup.py").read_text(encoding="utf-8"))
    assert set(built) == set(EXTENSIONS)


@pytest.fixture(scope="module")
def distributions(repository, tmp_path_factory):
    """Build the sdist from a copy of the tree, then the wheel from the sdist."""
    for tool in ("setuptools", "Cython", "pip"):
        if importlib.util.find_spec(tool) is None:
            pytest.skip(f"building needs {tool}")
    folder = tmp_path_factory.mktemp("distribution")
    tree = folder / "tree"
    shutil.copytree(repository, tree, ignore=LEFT_OUT)
    build = "from setuptools.build_meta import build_sdist; print(build_sdist('../sdist'))"
    run = {"check": True, "capture_output": True, "text": True}
    (folder / "sdist").mkdir()
    subprocess.run([sys.executable, "-c", build], cwd=tree, **run)
    (sdist,) = (folder / "sdist").glob("*.tar.gz")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
         "--wheel-dir", str(folder), str(sdist)],
        **run,
    )  # fmt: skip
    (wheel,) = folder.glob("*.whl")
    return sdist, wheel


@pytest.mark.slow
def test_sdist_has_sources_and_no_products(distributions):
    with tarfile.open(distributions[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for expected in (
        *(f"csrc/{name}.pyx" for name in EXTENSIONS), "setup.py", "LICENSE",
        "CHANGELOG.md", "tests/test_architecture.py", "bench/__main__.py",
    ):  # fmt: skip
        assert expected in names
    assert not {f"csrc/{name}.c" for name in EXTENSIONS} & names
    assert not [name for name in names if name.endswith((".so", ".pyc"))]


@pytest.mark.slow
def test_wheel_contents(distributions):
    with zipfile.ZipFile(distributions[1]) as archive:
        names = set(archive.namelist())
        entry_points = next(name for name in names if name.endswith("entry_points.txt"))
        assert "dpfast = dpfast.cli:main" in archive.read(entry_points).decode()
    for expected in (
        "dpfast/py.typed",
        "dpfast/privacy/PROOFS.md",
        "dpfast/datasets/census2000.npz",
        "dpfast/datasets/census2000-licence.txt",
        "dpfast/datasets/_provenance.md",
        "dpfast/kernels/acquisition.pxd",
        "dpfast/kernels/certificates.pxd",
        "dpfast/kernels/keys.pxd",
        "dpfast/kernels/linalg.pxd",
        "dpfast/kernels/records.pxd",
        "dpfast/kernels/sampler.pxd",
        *(f"dpfast/kernels/{name}.pyi" for name in EXTENSIONS),
        *(str(path.relative_to(ROOT)) for path in (ROOT / "dpfast").rglob("__init__.pyi")),
    ):
        assert expected in names
    for extension in EXTENSIONS:
        assert [name for name in names if name.startswith(f"dpfast/kernels/{extension}.cpython")]
    assert not [name for name in names if name.endswith((".c", ".h", ".pyx"))]
    assert {name.split("/")[0].split("-")[0] for name in names} == {"dpfast"}


@pytest.mark.slow
def test_the_wheel_works_elsewhere(distributions, tmp_path):
    """Unpacked away from the source tree, the package imports and loads its data."""
    with zipfile.ZipFile(distributions[1]) as archive:
        archive.extractall(tmp_path)
    code = (
        "import dpfast, dpfast.kernels.linalg; from dpfast.datasets import load_census2000; "
        "print(dpfast.__file__, len(load_census2000()), 'fit' in dir(dpfast), "
        "'Ball' in dir(dpfast.models), dpfast.models.Ball.__name__)"
    )
    output = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    shown = ["29501", "True", "True", "Ball"]
    assert output.split() == [str(tmp_path / "dpfast" / "__init__.py"), *shown]
