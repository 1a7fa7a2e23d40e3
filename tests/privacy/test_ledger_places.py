"""A ledger's file that changes places, stays locked or cannot be used (claim C10 of PROOFS.md)."""

from __future__ import annotations

import errno
import os
import time
from io import FileIO

import pytest

from dpfast.errors import BudgetExceeded, InvalidInput, LedgerCorrupted, LedgerUnavailable
from dpfast.privacy import GDP, Ledger

fcntl = pytest.importorskip("fcntl")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.jsonl"


def before_first(call, action):
    """A function that does something once, right before it first does what `call` does."""
    left = [action]

    def wrapped(*arguments):
        if left:
            left.pop()()
        return call(*arguments)

    return wrapped


def put_in_place(path, content):
    """As editors and backups do: another file is renamed to the path."""
    path.with_suffix(".other").write_bytes(content)
    os.replace(path.with_suffix(".other"), path)


def test_a_file_replaced_before_it_is_locked_is_not_charged(path, monkeypatch):
    """The charge would go to a file that nobody else sees, and the other grant it once more."""
    ledger = Ledger.open(path, GDP(1.0))
    whole = path.read_bytes()
    replaced = before_first(fcntl.flock, lambda: put_in_place(path, whole))
    monkeypatch.setattr(fcntl, "flock", replaced)
    ledger.charge(0.9, "a")
    for handle in (Ledger.open(path), ledger):
        assert handle.spent == GDP(0.9)
        with pytest.raises(BudgetExceeded):
            handle.charge(0.9, "b")


@pytest.mark.parametrize("gone", [False, True])
def test_a_file_replaced_while_it_is_charged_grants_nothing(path, monkeypatch, gone):
    ledger = Ledger.open(path, GDP(1.0))
    whole = path.read_bytes()
    action = path.unlink if gone else lambda: put_in_place(path, whole)
    monkeypatch.setattr(os, "fsync", before_first(os.fsync, action))
    with pytest.raises(LedgerCorrupted, match="not granted"):
        ledger.charge(0.9, "a")
    with pytest.raises(LedgerCorrupted):
        ledger.charge(0.1, "and not afterwards, either")
    if not gone:
        Ledger.open(path).charge(0.9, "b")


def test_a_file_that_goes_away_before_it_is_opened_or_locked_is_gone(path, monkeypatch):
    for name in ("flock", "isfile"):
        ledger = Ledger.open(path, GDP(1.0))
        with monkeypatch.context() as patched:
            module = fcntl if name == "flock" else os.path
            if name == "flock":
                patched.setattr(module, name, before_first(fcntl.flock, path.unlink))
            else:
                patched.setattr(module, name, lambda where: path.unlink() is None)
            with pytest.raises(LedgerCorrupted, match="gone"):
                ledger.charge(0.5, "a")
        assert not path.exists()


@pytest.mark.parametrize("lock", [fcntl.LOCK_SH, fcntl.LOCK_EX], ids=["shared", "exclusive"])
def test_a_lock_that_is_never_given_back_is_said(path, monkeypatch, lock):
    """A reader that was stopped, or a program of somebody else's, for ever."""
    from dpfast.privacy.ledger import file

    monkeypatch.setattr(file, "_PATIENCE", 0.1)
    ledger = Ledger.open(path, GDP(1.0))
    with path.open("rb") as other:
        fcntl.flock(other, lock)
        with pytest.raises(LedgerUnavailable, match="locked by another process"):
            ledger.charge(0.6, "a")
        if lock == fcntl.LOCK_SH:
            assert ledger.entries == ()
    ledger.charge(0.6, "b")
    assert [entry.label for entry in ledger.entries] == ["b"]


def test_charges_read_no_more_than_is_new(path, monkeypatch):
    """All of the file once at first, and again only after somebody else wrote to it."""
    from dpfast.privacy.ledger.file import FileLedger

    read, content = [], FileLedger._content

    def counted(self, file):
        read.append(1)
        return content(self, file)

    ledger = Ledger.open(path, GDP(1.0))
    monkeypatch.setattr(FileLedger, "_content", counted)
    for _ in range(20):
        ledger.charge(0.01, "own")
        assert ledger.spent.mu > 0
    assert len(read) == 1
    Ledger.open(path).charge(0.01, "other")
    read.clear()
    for _ in range(20):
        ledger.charge(0.01, "own")
    assert len(read) == 1
    assert [entry.label for entry in ledger.entries] == ["own"] * 20 + ["other"] + ["own"] * 20
    assert ledger.entries == Ledger.open(path).entries


@pytest.mark.parametrize("keep_time", [False, True])
def test_a_byte_changed_right_after_a_charge_is_seen(path, keep_time):
    """In the same moment by the system's clock, with the same size, in the same file."""
    for i in range(30):
        ledger = Ledger.open(path, GDP(1.0))
        ledger.charge(0.5, "a")
        ledger.charge(0.25, "b")
        at = path.read_bytes().index(b'"a"')
        before = path.stat()
        with path.open("r+b") as file:
            file.seek(at)
            file.write(b'"z"')
        if keep_time:
            time.sleep(0.02)  # the time of the change itself nobody sets, but it is coarse
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        with pytest.raises(LedgerCorrupted, match="changed"):
            ledger.charge(0.1, f"{i}")
        path.unlink()


class Failing(FileIO):
    """A file of which one operation fails, as a disk or a mount does."""

    fails = ""

    def _try(self, name, *arguments):
        if name == self.fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return getattr(super(), name)(*arguments)

    def read(self, *arguments):
        return self._try("read", *arguments)

    def readall(self):
        return self._try("readall")

    def write(self, content):
        return self._try("write", content)

    def seek(self, *arguments):
        return self._try("seek", *arguments)


def refused_by_the_system(*_, **__):
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


@pytest.mark.parametrize(
    "where", ["open", "flock", "fsync", "stat", "read", "readall", "seek", "write"]
)
def test_what_the_system_refuses_names_the_ledger(path, monkeypatch, where):
    """Wherever it does: an error of the library, nothing granted, and usable again afterwards."""
    from dpfast.privacy.ledger import file

    for present in (True, False):
        ledger = Ledger.open(path, GDP(1.0)) if present else None
        with monkeypatch.context() as patched:
            if where == "open":
                patched.setattr(file, "_private", refused_by_the_system)
            elif where == "flock":
                patched.setattr(fcntl, "flock", refused_by_the_system)
            elif where == "fsync":
                patched.setattr(os, "fsync", refused_by_the_system)
            elif where == "stat":
                patched.setattr(os.path, "samestat", refused_by_the_system)
            else:
                patched.setattr(file, "FileIO", Failing)
                patched.setattr(Failing, "fails", where)
            with pytest.raises(LedgerUnavailable, match=r"ledger '.*' could not be"):
                ledger.charge(0.6, "a") if present else Ledger.open(path, GDP(1.0))
        fresh = Ledger.open(path, GDP(1.0))
        assert len(fresh.entries) == (where == "fsync" and present)
        if present:
            ledger.charge(0.6, "b")
            assert ledger.spent == Ledger.open(path).spent
        path.unlink()


def test_a_name_that_no_file_can_have_is_refused_by_the_library(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(LedgerUnavailable, match="could not be opened"):
        Ledger.open(tmp_path / ("x" * 300), GDP(1.0))
    with pytest.raises(
        (LedgerUnavailable, InvalidInput), match=r"could not be opened|leads nowhere"
    ):
        Ledger.open(tmp_path / "loop", GDP(1.0))
