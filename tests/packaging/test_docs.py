"""Every code block of the documentation runs, page by page, in order."""

from __future__ import annotations

import importlib.util
import json
import re
import tomllib
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md"))
NEEDED = {"sklearn": "sklearn", "fit_formula": "formulaic", "open_parquet": "pyarrow"}


def blocks(name, language):
    text = (DOCS / name).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.M | re.S)


@pytest.mark.parametrize("name", [name for name in PAGES if blocks(name, "python")])
def test_every_block_of_code_runs(name, tmp_path, monkeypatch):
    text = "\n".join(blocks(name, "python"))
    for word, module in NEEDED.items():
        if word in text and importlib.util.find_spec(module) is None:
            pytest.skip(f"needs {module}")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    for number, block in enumerate(blocks(name, "python")):
        exec(compile(block, f"docs/{name}, block {number}", "exec"), names)


@pytest.mark.parametrize("name", [name for name in PAGES if blocks(name, "toml")])
def test_every_schema_is_one(name):
    from dpfast.data.schema import Schema

    for block in blocks(name, "toml"):
        assert tomllib.loads(block)
        Schema.from_toml(block)


def test_every_page_is_in_the_table_of_contents():
    index = (DOCS / "index.md").read_text()
    listed = set(re.search(r"toctree}\n:maxdepth: 1\n\n(.*?)```", index, re.S)[1].split())
    assert listed | {"index"} == {name.removesuffix(".md") for name in PAGES}


def test_the_gallery_has_every_stored_result(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("gather", DOCS / "gather.py")
    gather = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(gather)
    results = tmp_path / "bench" / "results" / "figures" / "paper1"
    (tmp_path / "dpfast" / "privacy").mkdir(parents=True)
    results.mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    (tmp_path / "bench" / "results" / "kernels.md").write_text("# Kernels\n")
    for k in (2, 10, 1):
        report = {"figure": f"figure-{k}", "title": "t", "statement": "s", "reproduced": "yes",
                  "remark": "r"}  # fmt: skip
        (results / f"figure-{k}.json").write_text(json.dumps(report))
    monkeypatch.setattr(gather, "ROOT", tmp_path)
    monkeypatch.setattr(gather, "DOCS", tmp_path / "docs")
    gather.gather()
    page = (tmp_path / "docs" / "gallery" / "figures-paper1.md").read_text()
    assert re.findall(r"figure-\d+", page) == ["figure-1", "figure-2", "figure-10"]
    assert (tmp_path / "docs" / "gallery" / "kernels.md").exists()
