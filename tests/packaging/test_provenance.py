"""Stored results know numbers of a small run, and `bench stale` which of them are others now."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dpfast
from bench import provenance
from bench.figures import runner
from bench.provenance import MEASURED, RESULTS, TABLES, Probe, Stored, keep, stored
from tests.loops import each

#: A figure of this file, which fits by default.
FITS = "paper1/fits"


def fits(run):
    rng = run.rng("data")
    X = rng.lognormal(size=(3000, 2))
    y = X @ [1.0, -0.5] + rng.normal(size=3000)
    fit = dpfast.fit(X, y, privacy=1.0, noise=dpfast.SeededNoise(run.seed("noise")))
    return runner.Outcome({"slopes": fit.params, "errors": fit.bse}, "yes", "", lambda canvas: None)


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """Nothing of today is known yet, and there is one more figure."""
    monkeypatch.setattr(provenance, "KNOWN", tmp_path / "probes.json")
    monkeypatch.setattr(provenance, "ALIKE", {})
    monkeypatch.setitem(
        runner.figures_of(1), "fits", runner.Figure(1, "fits", "Fits", "", function=fits)
    )


def probe(data):
    return provenance._sampled(list(provenance._numbers(data)))


def test_a_number_that_is_another_is_noticed_and_one_of_another_machine_is_not():
    one = probe({"width": np.arange(1.0, 31.0), "held": [True, False], "nothing": float("nan")})
    assert one.unlike(one) == ""
    near = one._replace(sample=[x * (1.0 + 3e-4) for x in one.sample])
    assert one.unlike(near) == ""
    other = one._replace(sample=[*one.sample[:7], one.sample[7] * 1.01, *one.sample[8:]])
    assert "1 of 33" in one.unlike(other)
    assert "3 instead of 33" in one.unlike(probe({"width": [1.0, 2.0, 3.0]}))


def test_times_do_not_count():
    slow = {"dpfast": 1.5, "seconds": 3.0, "fits": {"ms, one": [1.0]}}
    fast = {"dpfast": 1.5, "seconds": 0.1, "fits": {"ms, one": [0.2]}}
    assert probe(slow) == probe(fast) == Probe(1, [1.5])
    text = (
        "| case | n | width | seconds a fit |\n|---|---|---|---|\n| a | 1,000 | 1.25 (2) | {} |\n"
    )
    cells = [list(provenance._cells(text.format(value))) for value in (0.5, 9)]
    assert cells == [[1000.0, 1.25, 2.0]] * 2
    assert provenance._sampled(list(provenance._cells("no table, 3 words"))) is None


def test_few_numbers_are_stored_and_they_are_spread_over_all():
    many = probe({"a": np.arange(100.0), "b": 100.0 + np.arange(1000.0)})
    assert many.count == 1100 and len(many.sample) == provenance.SAMPLED
    assert (many.sample[0], many.sample[-1]) == (0.0, 1099.0)
    assert np.ptp(np.diff(many.sample)) <= 1.0


def test_another_constant_is_noticed_and_another_text_is_not(fresh, monkeypatch):
    """Planted: the default fit's first radius is another part of the longest row's."""
    before = provenance.probe_of(FITS)
    monkeypatch.setattr(provenance, "_sources", lambda: "a refactoring")
    assert before.unlike(provenance.probe_of(FITS)) == ""
    assert Stored(FITS, before).state() == (False, "")
    from dpfast.optimize.road import run

    monkeypatch.setattr(provenance, "_sources", lambda: "another constant")
    monkeypatch.setattr(run, "FIRST_PART", 2.0 * run.FIRST_PART)
    old, why = Stored(FITS, before).state()
    assert old and "other numbers" in why


def test_what_no_source_changed_is_not_run_again(fresh, monkeypatch):
    runs = []
    monkeypatch.setattr(provenance, "_of_figure", lambda name: runs.append(name) or Probe(1, [1.0]))
    for sources in ("a", "a", "b"):
        monkeypatch.setattr(provenance, "_sources", lambda sources=sources: sources)
        assert provenance.probe_of("paper1/figure-1") == Probe(1, [1.0])
    assert len(runs) == 2


def test_the_digest_of_sources_is_of_code_alone(monkeypatch, tmp_path):
    found = []
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    for name, text in (("a.py", "1"), ("a.md", "1"), ("a.py", "2"), ("k.h", "1")):
        (tmp_path / "dpfast").mkdir(exist_ok=True)
        (tmp_path / "dpfast" / name).write_text(text)
        found.append(provenance._sources.__wrapped__())
    assert found[0] == found[1] and len(set(found)) == 3


def test_a_table_is_stored_with_the_numbers_of_its_command(fresh, monkeypatch, tmp_path):
    monkeypatch.setattr(provenance, "STAMPS", tmp_path / "stamps.json")
    monkeypatch.setattr(provenance, "RESULTS", tmp_path)
    small = tmp_path / "small.py"
    small.write_text("import sys\nprint('| n |\\n|---|\\n| 7 |') if len(sys.argv) > 1 else 1 / 0\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setitem(TABLES, "t.md", "small --quick")
    keep(tmp_path / "t.md", "a table\n")
    assert (tmp_path / "t.md").read_text() == "a table\n"
    [found] = [one for one in stored() if one.name == "t.md"]
    assert found.probe == Probe(1, [7.0]) and found.state() == (False, "")
    assert found._replace(probe=Probe(1, [8.0])).state()[0]
    monkeypatch.setitem(TABLES, "t.md", "small")
    assert found.state() == (True, "its probe was small --quick")
    old, why = found._replace(command="small").state()
    assert old is False or "fails" in why
    keep(tmp_path / "kernels.md", "of a machine\n")
    assert "kernels.md" not in json.loads((tmp_path / "stamps.json").read_text())


def test_what_cannot_be_told_here_is_not_old(monkeypatch):
    monkeypatch.setattr(provenance, "probe_of", lambda name: None)
    old, why = Stored("paper1/figure-8", Probe(1, [1.0])).state()
    assert not old and "data are missing" in why
    assert Stored("paper1/figure-8", None).state()[0]
    assert not Stored("kernels.md", None).state()[0]


def test_a_figure_is_drawn_with_its_probe(fresh, tmp_path):
    report = runner.draw(1, "fits", False, tmp_path, bar=False)
    text = json.loads((tmp_path / f"{FITS}.json").read_text())
    assert Probe(*text["probe"]) == report["probe"] == provenance.probe_of(FITS)
    assert Stored(FITS, Probe(*text["probe"])).state() == (False, "")
    assert runner.draw(1, "fits", True, tmp_path, bar=False)["probe"] is None


def test_every_stored_result_has_a_probe_or_measures_a_machine():
    assert [one.name for one in stored() if one.probe is None and one.name not in MEASURED] == []
    assert {path.name for path in RESULTS.glob("*.md")} <= MEASURED | set(TABLES)


@each("name", sorted(TABLES))
def test_commands_of_probes_are_of_modules_that_exist(name):
    module = TABLES[name].split()[0].replace(".", "/")
    assert any((provenance.ROOT / f"{module}{end}").exists() for end in (".py", "/__main__.py"))
    assert "--store" not in TABLES[name]


def test_what_is_old_is_named_and_the_exit_code_says_so(monkeypatch, capsys):
    some = [Stored("paper1/figure-1", None), Stored("a.md", Probe(1, [1.0]), TABLES.get("a.md"))]
    monkeypatch.setattr(provenance, "stored", lambda: some)
    monkeypatch.setattr(provenance, "probe_of", lambda name: Probe(1, [1.0]))
    assert provenance.main([]) == 1
    told = capsys.readouterr().out
    assert "paper1/figure-1" in told and "a.md" not in told and "1 of 2" in told
    assert provenance.main(["a.md"]) == 0
