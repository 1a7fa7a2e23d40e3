"""Every code block of the documentation runs, page by page, in order."""

from __future__ import annotations

import importlib.util
import json
import operator
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

import dpfast
from tests.loops import each
from tests.surface import public

DOCS = Path(__file__).parents[2] / "docs"
WRITTEN = ("", "tutorials")  # folders of pages; the others are made by docs/gather.py
PAGES = sorted(
    path.relative_to(DOCS).as_posix() for folder in WRITTEN for path in (DOCS / folder).glob("*.md")
)
NEEDED = {
    "sklearn": "sklearn", "y ~": "formulaic", "open_parquet": "pyarrow",
    "dpfast.plots": "matplotlib", "import dask": "dask", "import pandas": "pandas",
    "import torch": "torch",
}  # fmt: skip
#: Run elsewhere, with what they say about their numbers: tests/audit, tests/release; and with the
#: methods that they name: test_papers_page.py.
ELSEWHERE = {"privacy.md", "releases.md", "papers.md"}


def blocks(name, language):
    text = (DOCS / name).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.M | re.S)


def code(name):
    """Of a page: blocks that are shown, and cells that are executed when the page is built."""
    return blocks(name, r"(?:python|\{code-cell\}(?:\n:tags:[^\n]*)?)")


#: Whose cells run whenever the pages are built (together 14 s), and the longest of the others.
CELLS = [name for name in PAGES if "{code-cell}" in (DOCS / name).read_text()]
SLOW = {"howto.md", "study.md", "networks.md", *CELLS}


@pytest.mark.usefixtures("repeated")
@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [])
    for name in sorted({name for name in PAGES if code(name)} - ELSEWHERE)
])  # fmt: skip
def test_every_block_of_code_runs(name, tmp_path, monkeypatch):
    text = "\n".join(code(name))
    for word, module in NEEDED.items():
        if word in text and importlib.util.find_spec(module) is None:
            pytest.skip(f"needs {module}")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    for number, block in enumerate(code(name)):
        exec(compile(block, f"docs/{name}, block {number}", "exec"), names)


@each("name", [name for name in PAGES if "{code-cell}" in (DOCS / name).read_text()])
def test_pages_with_cells_are_executed(name):
    """Their head says so; without it cells would be shown and never run."""
    assert (DOCS / name).read_text().startswith("---\nfile_format: mystnb\nkernelspec:")


@pytest.mark.parametrize("name", [name for name in PAGES if blocks(name, "toml")])
def test_every_schema_is_one(name):
    from dpfast.data.schema import Schema

    for block in blocks(name, "toml"):
        assert tomllib.loads(block)
        Schema.from_toml(block)


def test_every_page_is_in_the_table_of_contents():
    index = (DOCS / "index.md").read_text()
    listed = {
        page
        for body in re.findall(r"^```{toctree}\n(?::[^\n]*\n)+\n(.*?)^```", index, re.S | re.M)
        for page in body.split()
    }
    # tables for developers are no chapters of the sidebar: pages that quote them link there
    assert (DOCS / "results.md").read_text().startswith("---\norphan: true")
    for quoting in (index, (DOCS / "architecture.md").read_text()):
        assert "](results.md)" in quoting
    assert listed | {"index", "results"} == {name.removesuffix(".md") for name in PAGES}


def test_the_glossary_is_in_order_and_points_to_what_exists():
    page = (DOCS / "glossary.md").read_text(encoding="utf-8")
    concepts = page.split("## Concepts")[1].split("## Sources")[0]
    rows = [row.strip("| ").split(" | ") for row in concepts.splitlines() if row.startswith("| ")]
    names = [row[0].lower() for row in rows[1:]]
    assert names == sorted(names) and len(set(names)) == len(names)
    for word in re.findall(r"`([^`]+)`", concepts):
        if "/" in word:
            assert (DOCS.parent / word).is_file(), word
        else:
            assert operator.attrgetter(word.removeprefix("dpfast."))(dpfast), word
    assert all(len(row) == 4 for row in rows)


def load(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_figures_of_the_home_page_are_those_stored():
    figures = load("headlines")
    killed, planted = figures.noticed(DOCS.parent)
    assert 0 < killed <= planted
    claims, attacks = figures.claims(DOCS.parent)
    assert claims > 100 and attacks > claims
    found = figures.times(DOCS.parent)
    assert len(found) == 3 and min(found.values()) > 0.0
    shares = figures.shares(DOCS.parent)
    assert len(shares) > 20 and 0.9 < min(shares) <= max(shares) < 1.0
    page = figures.page()
    for number in (f"{killed} of {planted}", f"{claims} claims, {attacks} attacks"):
        assert number in page
    for one in figures.headlines():
        assert (DOCS.parent / "bench/results" / f"{one.page.split('/')[-1]}.md").exists() or (
            DOCS / f"{one.page}.md"
        ).exists()


def test_the_figure_of_packages_has_every_stored_row():
    figure = load("packages")
    found = figure.cells()
    assert len(found) > 20 and len({cell.table for cell in found}) > 3
    text = figure.page()
    assert text.count("<circle") == len(found)
    assert text.count("aria-label") == text.count("<figure") == len({cell.table for cell in found})
    assert all(cell.distance > 0.0 for cell in found)


def test_what_is_said_of_other_packages_is_computed(tmp_path):
    figure = load("packages")
    (tmp_path / "bench" / "results").mkdir(parents=True)
    (tmp_path / "bench" / "results" / "rivals_packages.md").write_text(
        "| a | - | exact | 1e-9 | - | 0.5 |\n| a | 1 | dpfast, told nothing | 0.5 | 1.5 | 2 |\n"
        "| a | 1 | other | 0.25 | 3.0 | 4 |\n| a | 1 | third | 0.75 | - | 1 |\n"
    )
    nearer, widths, times = figure.said(tmp_path)
    assert nearer == "Nearer than dpfast in 1 cells: other on a at epsilon 1 (0.25 for our 0.5)."
    assert "other 2 to 2" in widths and "third" not in widths
    assert all(told in times for told in ("other 2 to 2", "third 0.5 to 0.5", "exact 0.25 to 0.25"))
    assert figure.page().count("<p>") == 3


def test_the_gallery_has_every_stored_result(tmp_path, monkeypatch):
    gather = load("gather")
    results = tmp_path / "bench" / "results" / "figures" / "paper1"
    (tmp_path / "dpfast" / "privacy").mkdir(parents=True)
    results.mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    (tmp_path / "bench" / "results" / "kernels.md").write_text("# Kernels\n")
    stamp = {"commit": "a1", "command": "python", "date": "2026-01-01", "versions": "numpy 2"}
    for k in (2, 10, 1):
        report = {"figure": f"figure-{k}", "title": "t", "statement": "s", "reproduced": "yes",
                  "remark": "r", "stored": stamp}  # fmt: skip
        (results / f"figure-{k}.json").write_text(json.dumps(report))
    monkeypatch.setattr(gather, "ROOT", tmp_path)
    monkeypatch.setattr(gather, "DOCS", tmp_path / "docs")
    gather.gather()
    page = (tmp_path / "docs" / "gallery" / "figures-paper1.md").read_text()
    assert re.findall(r"figure-\d+", page) == ["figure-1", "figure-2", "figure-10"]
    assert page.count("Stored 2026-01-01, commit a1, `python`; numpy 2.\n") == 3
    assert (tmp_path / "docs" / "gallery" / "kernels.md").exists()


def test_every_public_name_has_a_page_of_its_own_and_a_source():
    reference = load("reference")
    listed = reference.names()
    assert len(listed) == len(set(listed))
    things = {id(reference.thing(name)) for name in listed}
    everything = public() | {f"errors.{name}": getattr(dpfast.errors, name)
                             for name in dpfast.errors.__all__ if name[0].isupper()}  # fmt: skip
    assert [name for name, thing in everything.items() if id(thing) not in things] == []
    files = [reference.addresses(listed).get(name, name).lower() for name in listed]
    assert len(files) == len(set(files)), "one folder of a Mac holds them all"
    assert [name for name in listed if not reference.place_of(name)] == ["dpfast.audit.KINDS"]
    assert reference.place_of("dpfast.Fit.conf_int")[0] == "dpfast.inference.results"
    info = {"module": "dpfast", "fullname": "fit"}
    assert reference.source_of("py", info).startswith("../_modules/dpfast/regression/fit.html#line")


def test_a_page_of_a_class_lists_what_no_other_page_has():
    reference = load("reference")
    documented = {kind for name in reference.names()
                  if isinstance(kind := reference.thing(name), type)}  # fmt: skip
    shown, refused = reference.members(dpfast.Fit, documented)
    assert "conf_int" in shown and "rsquared" in refused and not set(shown) & set(refused)
    assert "run" not in reference.members(dpfast.optimize.Newton, documented)[0]
    assert "run" in reference.members(dpfast.optimize.Method, documented)[0]
    assert "conf_int" not in reference.members(dpfast.nonconvex.Minimum, documented)[0]
    page = reference.page("dpfast.Fit", documented)
    assert "~dpfast.Fit.conf_int" in page and "``rsquared``" in page


def test_signatures_say_what_users_pass():
    signature = load("reference").signature
    assert signature(None, "class", "dpfast.Fit", dpfast.Fit, {}, "(*, params)", None) == ("", None)
    spelt = "(x: ~numpy.ndarray[tuple[~typing.Any, ...], ~numpy.dtype[~numpy.float64]])"
    told, back = signature(None, "function", "dpfast.fit", dpfast.fit, {}, spelt, None)
    assert told == "(x: ~numpy.typing.NDArray[~numpy.float64])" and back is None


def test_a_search_finds_what_to_do_before_a_proof():
    """Sphinx gives a word in a text 5, in a title 15, and one more for the page's own title."""
    if (node := shutil.which("node")) is None:
        pytest.skip("needs node")
    found = {
        "a name": ["api/dpfast.fit", "dpfast.fit", "", "in API", 46],
        "how-to": ["howto", "How do I ...?", "", None, 5],
        "reference": ["api/dpfast.fit", "dpfast.fit", "", None, 15],
        "a method": ["api/dpfast.estimators.DPHuberRegressor", "d.e.D.fit", "", "in API", 46],
        "proof": ["claims/proofs", "Claims and proofs", "", None, 16],
    }
    script = (DOCS / "static/scorer.js").read_text() + (
        f"console.log(JSON.stringify({json.dumps(list(found.values()))}.map(Scorer.score)))"
    )
    told = json.loads(subprocess.check_output([node, "-e", script], text=True))
    assert sorted(told, reverse=True) == told and len(set(told)) == len(told)
    settings = (DOCS / "conf.py").read_text()
    assert 'html_search_scorer = str(ROOT / "docs" / "static" / "scorer.js")' in settings
