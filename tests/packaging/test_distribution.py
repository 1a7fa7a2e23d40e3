"""The source distribution builds, and the wheel made from it holds what it must."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

pytestmark = pytest.mark.slow

LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv*", "build", "dist", "*.egg-info", "__pycache__", "*.so", ".hypothesis",
    "acquisition.c", "certificates.c", "records.c", "linalg.c", "sampler.c", ".*_cache",
)  # fmt: skip


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


def test_sdist_has_sources_and_no_products(distributions):
    with tarfile.open(distributions[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for expected in (
        "csrc/linalg.pyx", "csrc/records.pyx", "csrc/sampler.pyx", "setup.py", "LICENSE",
        "CHANGELOG.md", "tests/test_architecture.py", "bench/__main__.py",
    ):  # fmt: skip
        assert expected in names
    assert not {"csrc/acquisition.c", "csrc/linalg.c", "csrc/records.c", "csrc/sampler.c"} & names
    assert not [name for name in names if name.endswith((".so", ".pyc"))]


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
        "dpfast/kernels/acquisition.pyi",
        "dpfast/kernels/linalg.pxd",
        "dpfast/kernels/linalg.pyi",
        "dpfast/kernels/records.pxd",
        "dpfast/kernels/records.pyi",
        "dpfast/kernels/sampler.pyi",
    ):
        assert expected in names
    for extension in ("acquisition", "linalg", "records", "sampler"):
        assert [name for name in names if name.startswith(f"dpfast/kernels/{extension}.cpython")]
    assert not [name for name in names if name.endswith((".c", ".h", ".pyx"))]
    assert {name.split("/")[0].split("-")[0] for name in names} == {"dpfast"}


def test_the_wheel_works_elsewhere(distributions, tmp_path):
    """Unpacked away from the source tree, the package imports and loads its data."""
    with zipfile.ZipFile(distributions[1]) as archive:
        archive.extractall(tmp_path)
    code = (
        "import dpfast, dpfast.kernels.linalg; from dpfast.datasets import load_census2000; "
        "print(dpfast.__file__, len(load_census2000()))"
    )
    output = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert output.split() == [str(tmp_path / "dpfast" / "__init__.py"), "29501"]
