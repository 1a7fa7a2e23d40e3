"""A fit that was saved is the same fit, and nothing else is read as one."""

from __future__ import annotations

import json
import os
import resource
import signal
import tempfile
from pathlib import Path

import numpy as np
import pytest

import dpfast
from dpfast.bayesopt.state import load_state
from dpfast.errors import InvalidInput
from dpfast.inference.rendering.transcript import transcript
from dpfast.saved import load, save
from dpfast.studies.requests import read_file
from tests.loops import each

pandas = pytest.importorskip("pandas")
pytest.importorskip("formulaic")

N = 2000
RNG = np.random.default_rng(2)
X = RNG.normal(size=(N, 2))
Y = 1.0 + X @ [1.0, -0.5] + RNG.standard_t(5, N)
TABLE = pandas.DataFrame({"wage": np.exp(Y / 4), "educ": X[:, 0], "exper": X[:, 1]}).assign(
    region=np.where(X[:, 0] > 0, "north", "south")
)
SCHEMA = dpfast.Schema(
    {"wage": dpfast.Numeric(0, 10), "educ": dpfast.Numeric(-3, 3),
     "region": dpfast.Categorical(["north", "south"])}
)  # fmt: skip
HUBER = dpfast.Objective("huber", scale=1.0)

FITS = {
    "formula": lambda: dpfast.fit(
        "log(wage) ~ educ*exper + C(region, levels=['north', 'south'])", TABLE, privacy=(2.0, 1e-6)
    ),
    "least squares": lambda: dpfast.fit(X, Y, "least-squares", privacy=1.0),
    "table": lambda: dpfast.fit(TABLE[["educ", "exper"]], Y, "log-cosh", privacy=1.0),
    "schema": lambda: dpfast.fit(
        "wage ~ educ + I(educ**2) + region", TABLE, HUBER, schema=SCHEMA, privacy=1.0,
        standardize=False,
    ),
    "weights": lambda: dpfast.fit(
        X, Y, dpfast.Objective("huber", scale=1.0, weights=dpfast.Mallows(2.0)), privacy=1.0
    ),
    "logistic": lambda: dpfast.fit(X, (Y > 1.0).astype(float), "logistic", privacy=1.0),
    "counts": lambda: dpfast.fit(X, np.floor(np.abs(Y)), "poisson", privacy=1.0),
    "free scale": lambda: dpfast.fit(
        X, Y, dpfast.Objective("huber", scale=dpfast.FreeScale(0.1, 10.0)), privacy=1.0
    ),
    "persons": lambda: dpfast.fit(
        dpfast.records(X, Y, group=np.arange(N) // 2, group_size=2), loss=HUBER, privacy=1.0
    ),
    "seeded": lambda: dpfast.fit(X, Y, HUBER, privacy=1.0, noise=dpfast.SeededNoise(1)),
    "unbought": lambda: dpfast.fit(X, Y, HUBER, privacy=1.0, inference=False),
    "not private": lambda: dpfast.nonprivate_fit(X, Y, HUBER),
}  # fmt: skip


@pytest.mark.parametrize("kind", FITS)
def test_a_loaded_fit_predicts_compares_and_reports(kind, tmp_path):
    fit = FITS[kind]()
    save(fit, tmp_path / "fit.json")
    found = load(tmp_path / "fit.json")
    assert transcript(found, 0.95) == transcript(fit, 0.95)
    assert str(found.summary()) == str(fit.summary()) and found.to_dict() == fit.to_dict()
    assert found.methods_text("board") == fit.methods_text("board")
    rows = TABLE[:20] if kind in ("formula", "table", "schema") else X[:20]
    rows = rows[["educ", "exper"]] if kind == "table" else rows
    np.testing.assert_array_equal(found.predict(rows), fit.predict(rows))
    np.testing.assert_array_equal(found.coded.params, fit.coded.params)
    assert dpfast.compare(found, fit) == dpfast.compare(fit, fit)
    if kind != "unbought":
        np.testing.assert_array_equal(found.conf_int(), fit.conf_int())
        np.testing.assert_array_equal(found.predict_interval(rows), fit.predict_interval(rows))
    save(found, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "fit.json").read_bytes()


def changed(told, place, value):
    """A copy of what a file says with another value at a place."""
    told = json.loads(json.dumps(told))
    inner = told
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return told


def test_what_was_not_written_by_save_is_refused(tmp_path):
    path = tmp_path / "fit.json"
    save(FITS["formula"](), path)
    told = older(path)
    path.write_text(json.dumps(told) + "\n")
    load(path)
    for place, value in (
        (("format",), "dpfast fit 3"), (("more",), 1), (("fit",), None), (("fit", "is"), "GDP"),
        (("fit", "names"), ["a"]), (("fit", "names", "tuple"), ["a"]), (("fit", "model"), 3),
        (("fit", "more"), 1), (("fit", "n_records"), "many"), (("fit", "n_records"), 10.5),
        (("fit", "privacy"), {"is": "GDP", "mu": 1.0}), (("fit", "privacy", "total", "mu"), -1.0),
        (("fit", "privacy", "total", "is"), "Ledger"), (("fit", "params", "shape"), [2, 2]),
        (("fit", "params", "array", 0), "1"), (("fit", "rows"), None),
        (("fit", "rows", "is"), "Popen"), (("fit", "covariance", "matrix"), None),
        (("fit", "covariance", "matrix", "array"), [[1.0]]), (("fit", "coded"), {"is": "Main"}),
        (("fit", "privacy", "expression"), {"is": "Charge"}),
    ):  # fmt: skip
        path.write_text(json.dumps(changed(told, place, value)) + "\n")
        with pytest.raises(InvalidInput, match="is no fit that"):
            load(path)
    for content in (b"", b"{}", b"[]", b"\xff", b"[" * 100_000, b'{"format": "dpfast fit 1"}'):
        path.write_bytes(content)
        with pytest.raises(InvalidInput, match="is no fit that"):
            load(path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.json")
    with pytest.raises(InvalidInput, match="save takes a fit or another result"):
        save(1.0, tmp_path / "one.json")


def older(path):
    """What a file says, as the first format has it: without a digest."""
    return {"format": "dpfast fit 1", "fit": json.loads(path.read_text())["fit"]}


def test_a_file_of_the_first_format_is_read(tmp_path):
    path, fit = tmp_path / "fit.json", FITS["formula"]()
    save(fit, path)
    path.write_text(json.dumps(older(path)) + "\n")
    assert load(path).to_dict() == fit.to_dict()


def test_a_fit_of_coded_terms_predicts_as_it_did():
    """Of ``pay ~ age + I(age**2) + age:g``, whose terms were functions of coded columns."""
    fit = load(Path(__file__).parent / "coded_fit.json")
    params = [-0.34636640793931617, 0.21890168016143016, 0.00656315501529827, -0.010673736243619556]
    np.testing.assert_allclose(fit.params, params)
    rows = {"age": [16.0, 48.0, 90.0], "g": ["a", "b", "a"]}
    z = np.array([-1.0, 0.0, 1.0])
    eta = np.column_stack([np.ones(3), z, z**2, z * [0.0, 1.0, 0.0]]) @ params
    np.testing.assert_allclose(fit.predict(rows), 3.0 + 3.0 * eta, rtol=1e-12)
    assert fit.coding is not None and "coded" in fit.summary()
    with pytest.raises(InvalidInput, match="an earlier version"):
        fit.natural  # noqa: B018


def test_a_file_in_which_anything_was_changed_is_refused(tmp_path):
    """Every character that can be another one and leaves a fit: a digit, a sign, a letter."""
    path = tmp_path / "fit.json"
    save(FITS["least squares"](), path)
    content = path.read_bytes()
    for at in RNG.choice(len(content), 300, replace=False).tolist():
        other = {48 <= content[at] < 57: content[at] + 1}.get(True, content[at] ^ 1)
        path.write_bytes(content[:at] + bytes([other]) + content[at + 1 :])
        with pytest.raises(InvalidInput, match="is no fit that"):
            load(path)
    for cut in (1, 2, len(content) // 2):
        path.write_bytes(content[:-cut])
        with pytest.raises(InvalidInput, match="is no fit that"):
            load(path)


def test_what_is_there_stays_until_the_new_file_is_whole(tmp_path):
    """A limit of the size of files stands for a full disk."""
    fit, path = FITS["least squares"](), tmp_path / "fit.json"
    save(fit, path)
    before, limit = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    page = tmp_path / "page.html"
    fit.report(page)
    shown = page.read_bytes()
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limit[1]))
        for write in (lambda: save(FITS["seeded"](), path), lambda: fit.report(page)):
            with pytest.raises(OSError, match="what was there is as it was"):
                write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == before and page.read_bytes() == shown
    assert sorted(one.name for one in tmp_path.iterdir()) == ["fit.json", "page.html"]


def test_an_interrupt_leaves_what_was_there(tmp_path, monkeypatch):
    fit, path = FITS["least squares"](), tmp_path / "fit.json"
    path.write_text("old")

    def interrupted(*given, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save(fit, path)
    assert path.read_text() == "old" and [one.name for one in tmp_path.iterdir()] == ["fit.json"]


def test_a_file_keeps_its_mode_and_its_links(tmp_path):
    fit, path, link = FITS["least squares"](), tmp_path / "fit.json", tmp_path / "link.json"
    path.touch(0o600)
    path.chmod(0o640)
    link.symlink_to("fit.json")
    save(fit, link)
    assert link.is_symlink() and path.stat().st_mode & 0o777 == 0o640
    assert load(path).to_dict() == fit.to_dict()
    name = tmp_path / ("x" * 255)  # the longest
    save(fit, name)
    assert load(name).n_records == N


#: What reads a document from a path.
READERS = {
    "a fit": load,
    "a page": dpfast.inference.verify_report,
    "a schema": lambda path: dpfast.Schema.from_toml(path),
    "a search": lambda path: load_state(str(path)),
    "a request": lambda path: read_file(str(path)),
}


@each("kind", READERS)
def test_a_pipe_a_folder_and_a_device_are_refused_at_once(kind):
    with tempfile.TemporaryDirectory() as folder:
        pipe = Path(folder) / "pipe"
        os.mkfifo(pipe)
        for place in (pipe, Path(folder), Path("/dev/zero")):
            with pytest.raises(InvalidInput):
                READERS[kind](place)


@each("kind", READERS)
def test_what_is_too_large_is_refused_unread(kind):
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "file"
        place.write_bytes(b'{"format": "dpfast fit 1", "fit": [' + b"1," * 20_000_000 + b"1]}\n")
        with pytest.raises(InvalidInput):
            READERS[kind](place)


def test_what_is_no_file_is_not_replaced(tmp_path):
    fit, pipe = FITS["least squares"](), tmp_path / "pipe"
    os.mkfifo(pipe)
    for place in (pipe, tmp_path):
        for write in (lambda place=place: save(fit, place), lambda place=place: fit.report(place)):
            with pytest.raises(InvalidInput, match="not an ordinary file"):
                write()
    assert pipe.is_fifo()


def test_no_record_is_in_the_file(tmp_path):
    """Its size does not depend on how many there are."""
    sizes = []
    for times in (1, 8):
        fit = dpfast.fit(np.tile(X, (times, 1)), np.tile(Y, times), HUBER, privacy=1.0)
        save(fit, tmp_path / "fit.json")
        sizes.append((tmp_path / "fit.json").stat().st_size)
    assert abs(sizes[1] - sizes[0]) < 2000
