"""No file that the library writes goes where somebody else planted a link.

In a folder that others can write to they can put a link, or a file of their own, under a name that
the library is going to write.  Whatever it writes stands here: a place in the source that can
write a file has to be in `PLACES`, and what writes there in `WRITERS`, which are run with links
planted under every name that they open, make or take.
"""

from __future__ import annotations

import ast
import functools
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import dpfast
from dpfast.bayesopt import Tuner
from dpfast.cli import demo
from dpfast.cli.output import PaidResult
from dpfast.documents import write_document
from dpfast.errors import DpfastError
from tests.test_architecture import tree_of

pytest.importorskip("fcntl")

ROOT = Path(dpfast.__file__).parent
N = 40
LOSSES = np.linspace(0.0, 1.0, N)


# ---- where files are written ---------------------------------------------------------------------

#: Each function that can write a file: the writers that go through it, or why there is none.
PLACES = {
    "privacy/ledger/file.py:_locked_at_once": ("ledger", "search"),
    "documents.py:replacing": ("search", "demo", "document"),
    "inference/base.py:save": "asks dpfast.saved, which replaces documents",
    "cli/output.py:__enter__": ("command",),
    "cli/output.py:_write": ("command",),
    "cli/output.py:_fill": ("command",),
    "cli/output.py:_save_new": "in the system's folder for temporary files, under a random name",
    "cli/output.py:silence": "the null device",
    "cli/demo.py:_plot": ("demo",),
    "cli/commands.py:_save_figure": "in memory",
    "cli/commands.py:bench": "times of made-up records, in the very file that was named",
    "cli/bench.py:peak": "the system's counter of this process",
    "plots/figures.py:savefig": "released numbers, in the very file that was named",
    "plots/figures.py:_repr_html_": "in memory",
}

#: Names of functions and methods that make, open, replace or fill files.
WRITING = {
    "write_text", "write_bytes", "mkstemp", "mkdtemp", "NamedTemporaryFile", "TemporaryFile",
    "savefig", "tofile", "save", "savez", "savez_compressed", "savetxt", "memmap", "FileIO",
    "rename", "link", "symlink", "symlink_to", "mkdir", "makedirs", "mkfifo", "touch", "to_csv",
    "to_parquet", "write_table", "copyfile", "copy2", "copytree", "open_memmap",
}  # fmt: skip


def writes(call):
    """Whether a call in the source can write a file."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name not in WRITING | {"open", "replace"}:
        return False
    owner = ast.unparse(function.value) if isinstance(function, ast.Attribute) else ""
    text = [node.value for node in ast.walk(call) if isinstance(node, ast.Constant)]
    if name == "open" and owner == "os":
        chosen = ast.unparse(call.args[1])
        return chosen == "flags" or any(f"O_{f}" in chosen for f in ("WRONLY", "RDWR", "CREAT"))
    if name == "open":
        modes = [m for m in text if isinstance(m, str) and set(m) <= set("rwxabt+")]
        return any(set(mode) & set("wxa+") for mode in modes)
    if name == "replace" and owner == "os":
        return True
    if name == "tofile":  # into a file that somebody opened
        return False
    return name in WRITING


def functions_that_write():
    found = set()
    for path in sorted(ROOT.rglob("*.py")):
        where = path.relative_to(ROOT).as_posix()
        if where.startswith("datasets/_build"):
            continue
        tree = tree_of(path)
        spans = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call) and writes(n)):
            inside = [f for f in spans if f.lineno <= call.lineno <= f.end_lineno]
            innermost = max(inside, key=lambda f: f.lineno).name if inside else "<module>"
            found.add(f"{where}:{innermost}")
    return found


def test_every_place_that_writes_a_file_is_known():
    assert functions_that_write() == set(PLACES)
    named = {name for names in PLACES.values() if isinstance(names, tuple) for name in names}
    assert named == set(WRITERS)


# ---- what writes there ---------------------------------------------------------------------------


def search(folder):
    """Two steps, so that each file is also written when it is there already."""
    tuner = Tuner(
        [(0.0, 1.0)],
        privacy=1.0,
        n_records=N,
        steps=3,
        path=folder / "search",
    )
    for _ in range(2):
        tuner.tell([LOSSES for _ in tuner.ask()])


def ledger(folder):
    dpfast.Ledger.open(folder / "ledger", dpfast.GDP(1.0)).charge(0.5, "a")


def command(folder):
    with PaidResult(str(folder / "result.json")) as result:
        result.deliver("{}", str)


def plot(folder):
    pytest.importorskip("matplotlib")
    before = Path.cwd()
    os.chdir(folder)
    try:
        fit = dpfast.fit(
            LOSSES[:, None], LOSSES, dpfast.Objective("log-cosh", scale=1.0), privacy=2.0
        )
        demo._plot(fit, fit)
    finally:
        os.chdir(before)


def document(folder):
    write_document(folder / "document.html", "released numbers")


WRITERS = {
    "search": search, "ledger": ledger, "command": command, "demo": plot, "document": document,
}  # fmt: skip

#: Released numbers, which take the place of the file that was named, wherever a link of it leads.
NAMED = {"command": {"result.json"}, "document": {"document.html"}}


class Names:
    """The names that are opened for writing, made, or taken in a folder and below it."""

    hook = None

    def __init__(self, folder):
        self.folder, self.found = folder, set()

    def __enter__(self):
        if Names.hook is None:  # it cannot be taken away again
            sys.addaudithook(lambda event, arguments: Names.now and Names.now.see(event, arguments))
            Names.hook = True
        Names.now = self
        return self

    def __exit__(self, *_):
        Names.now = None

    def see(self, event, arguments):
        if event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            self.add(arguments[0])
        elif event == "os.rename":
            self.add(arguments[0])
            self.add(arguments[1])

    def add(self, path):
        if isinstance(path, (str, bytes, os.PathLike)):
            path = os.fsdecode(path)
            if os.path.dirname(path) in ("", str(self.folder)):  # or relative to its handle
                self.found.add(os.path.basename(path))


def run(writer, folder):
    """Run it; whether it was refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            WRITERS[writer](folder)
        except (DpfastError, OSError):
            return True
    return False


@pytest.fixture(scope="module")
def names_of(tmp_path_factory):
    """The names that each writer takes, found once."""
    return functools.cache(lambda writer: names_written(writer, tmp_path_factory.mktemp(writer)))


def names_written(writer, place):
    """What it writes under a name that can be known before: random names are not the same twice."""
    found = []
    for i in range(2):
        folder = place / f"watched{i}"
        folder.mkdir(mode=0o700)
        with Names(folder) as seen:
            assert not run(writer, folder)
        found.append(seen.found)
    return (found[0] & found[1]) - NAMED.get(writer, set())


@pytest.mark.parametrize("kind", ["link", "link to nowhere", "second name"])
@pytest.mark.parametrize("writer", WRITERS)
def test_what_a_planted_link_leads_to_is_never_written(tmp_path, names_of, writer, kind):
    mine = b"what somebody else reads\n"
    names = names_of(writer)
    assert names or writer == "command"
    for i, name in enumerate(sorted(names)):
        folder, target = tmp_path / f"planted{i}", tmp_path / f"target{i}"
        folder.mkdir(mode=0o700)
        if kind != "link to nowhere":
            target.write_bytes(mine)
            target.chmod(0o600 if kind == "second name" else 0o666)
        if kind == "second name":
            os.link(target, folder / name)
        else:
            (folder / name).symlink_to(target)
        run(writer, folder)
        assert not target.exists() if kind == "link to nowhere" else target.read_bytes() == mine


@pytest.mark.parametrize("writer", [writer for writer in WRITERS if writer != "document"])
def test_whatever_is_written_is_for_its_owner_alone(tmp_path, names_of, writer):
    """Also where a file that everybody can read or write waits under the name.

    But documents: they are made to be handed on, and the umask says to whom.
    """
    for i, name in enumerate([None, *sorted(names_of(writer))]):
        folder = tmp_path / f"waiting{i}"
        folder.mkdir(mode=0o700)
        if name is not None:
            (folder / name).touch()
            (folder / name).chmod(0o666)
        refused = run(writer, folder)
        for file in folder.iterdir():
            if file.name == name and (refused or writer == "ledger" or name.endswith(".ledger")):
                continue  # left as it was; or a budget that several people keep together
            assert file.stat().st_mode & 0o077 == 0, file.name
