"""The ledger in a file: claim C10 (processes, crashes, copies, strange files) of PROOFS.md.

Interrupts and forks at every moment of a charge are in `test_ledger_moments.py`.
"""

from __future__ import annotations

import copy
import json
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import pytest

from dpfast.cli import main
from dpfast.errors import BudgetExceeded, InvalidBudget, InvalidInput, LedgerCorrupted
from dpfast.privacy import GDP, ZCDP, ApproxDP, Ledger, PureDP
from dpfast.privacy.budget import amount
from tests.surface import without_paths

fcntl = pytest.importorskip("fcntl")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.jsonl"


def test_file_ledger_is_shared_by_everyone_who_opens_it(path):
    first = Ledger.open(path, GDP(1.0))
    second = Ledger.open(str(path))
    first.charge(0.6, "a")
    assert second.spent == GDP(0.6)
    with pytest.raises(BudgetExceeded):
        second.charge(0.9, "b")
    second.charge(0.75, "b")
    assert Fraction(first.spent.mu) ** 2 >= Fraction(0.6) ** 2 + Fraction(0.75) ** 2
    assert [entry.label for entry in first.entries] == ["a", "b"]
    again = Ledger.open(path, 1.0)
    assert again.entries == first.entries
    with pytest.raises(BudgetExceeded):
        again.charge(0.3, "c")


def test_file_ledger_children_pickles_and_modes(path):
    ledger = Ledger.open(path, ZCDP(1.0))
    child = ledger.child(GDP(1.0), "fit")
    child.charge(0.5, "step")
    twin = pickle.loads(pickle.dumps(ledger))
    assert twin.spent == ZCDP(0.5)
    twin.charge(ZCDP(0.5), "rest")
    assert ledger.remaining.rho == 0.0
    assert path.stat().st_mode & 0o077 == 0


def test_file_ledger_needs_and_checks_a_total(path):
    with pytest.raises(InvalidBudget, match="needs a total"):
        Ledger.open(path)
    assert not path.exists()
    for total in (0.0, -1.0, "1", amount(GDP, 0.0), amount(ApproxDP, 1.0, 0.0)):
        with pytest.raises(InvalidBudget):
            Ledger.open(path, total)
    assert not path.exists()
    Ledger.open(path, GDP(1.0))
    for other in (GDP(2.0), ZCDP(1.0), GDP(0.5)):
        with pytest.raises(InvalidBudget, match="not "):
            Ledger.open(path, other)


def test_awkward_labels_survive_the_file(path):
    labels = ["", "a\nb", 'quote " and \\', "λ…🎲", "x" * 5000, "\u2028\x85\x0b"]
    ledger = Ledger.open(path, GDP(1.0))
    for label in labels:
        ledger.charge(1e-3, label)
    assert [entry.label for entry in Ledger.open(path).entries] == labels


@pytest.mark.parametrize("keep", [1, 10, 60, -2])
def test_a_torn_last_line_belongs_to_a_charge_that_never_returned(path, keep):
    ledger = Ledger.open(path, GDP(1.0))
    ledger.charge(0.5, "a")
    whole = path.read_bytes()
    ledger.charge(0.5, "interrupted")
    torn = path.read_bytes()[len(whole) :][:keep]
    assert b"\n" not in torn
    path.write_bytes(whole + torn)
    survivor = Ledger.open(path)
    assert survivor.spent == GDP(0.5)
    assert path.read_bytes() == whole + torn  # whoever only reads it leaves it alone
    with pytest.raises(LedgerCorrupted, match="shorter"):
        ledger.charge(0.5, "this handle knows that its charge was whole")
    survivor.charge(0.5, "b")
    assert path.read_bytes().startswith(whole)
    assert [entry.label for entry in Ledger.open(path).entries] == ["a", "b"]


@pytest.mark.parametrize("end", [b"", b" ", b"\r", b"\t \r", b"\0", b"\0\0\0"])
def test_a_last_line_without_its_newline_counts(path, end):
    """As editors and tools that trim files leave it, or a power cut; the charge was granted."""
    ledger = Ledger.open(path, GDP(1.0))
    ledger.charge(0.5, "a")
    ledger.charge(0.6, 'answered }"}')
    handle, data = Ledger.open(path), pickle.dumps(ledger)
    content = path.read_bytes()[:-1] + end
    path.write_bytes(content)
    fresh = Ledger.open(path)
    assert [entry.label for entry in fresh.entries] == ["a", 'answered }"}']
    with pytest.raises(BudgetExceeded):
        fresh.charge(0.7, "what a reader that misses the last line would grant")
    assert path.read_bytes() == content
    copied = pickle.loads(pickle.dumps(fresh))
    if end.strip(b"\0"):  # the others see that the line was changed
        for knows in (lambda: handle.spent, lambda: pickle.loads(data)):
            with pytest.raises(LedgerCorrupted, match=r"shorter|changed"):
                knows()
    else:
        assert handle.spent == pickle.loads(data).spent == fresh.spent
    for who in (fresh, copied, Ledger.open(path)):
        who.charge(0.1, "next")
    assert [entry.label for entry in Ledger.open(path).entries][1:] == [
        'answered }"}', "next", "next", "next",
    ]  # fmt: skip
    assert path.read_bytes().startswith(content.rstrip(b"\0") + b"\n")


@pytest.mark.parametrize("label", ["b", 'quote " and \\', "x}", '{"label": "', "λ\n"])
@pytest.mark.one_in(2)
def test_a_write_that_stops_at_any_byte_undercounts_nothing(path, label, monkeypatch):
    """A power failure in the middle of a charge: what was answered before it stays counted.

    The whole line may count or not, because its own charge was not answered; nothing is refused.
    """
    ledger = Ledger.open(path, GDP(1.0))
    ledger.charge(0.5, "a")
    before = path.read_bytes()
    ledger.charge(0.5, label)
    after = path.read_bytes()
    for stop in range(len(before), len(after) + 1):
        for lost in {b"", b"\0" * (len(after) - stop)}:  # zeros: a size that outlived its content
            path.write_bytes(after[:stop] + lost)
            reader = Ledger.open(path)
            found = [entry.label for entry in reader.entries]
            assert found == (["a"] if stop < len(after) - 1 else ["a", label])
            reader.charge(0.25, "next")
            again = Ledger.open(path)
            assert [entry.label for entry in again.entries] == [*found, "next"]
            assert again.entries == reader.entries


@pytest.mark.parametrize(
    "tail", [b"5", b"garbage", b"{}", b"[1]", b'{"label": 1', b'{"label": "x"}', b"null", b"\xff",
             b'{"Label": "'],
)  # fmt: skip
def test_an_end_that_no_charge_wrote_is_refused(path, tail):
    """What would be cut off by the next charge has to be the beginning of one."""
    ledger = Ledger.open(path, GDP(1.0))
    ledger.charge(0.5, "a")
    content = path.read_bytes() + tail
    path.write_bytes(content)
    for look in (Ledger.open, lambda _: ledger.spent, lambda _: ledger.charge(0.1, "b")):
        with pytest.raises(LedgerCorrupted):
            look(path)
    whole = content[: -len(tail) - 1]
    path.write_bytes(whole + tail)  # in place of the newline
    with pytest.raises(LedgerCorrupted):
        Ledger.open(path)


def test_an_empty_file_is_a_new_ledger_and_a_part_of_a_header_is_none(path):
    """A ledger that lost its end would otherwise be granted its budget again."""
    path.touch()
    with pytest.raises(InvalidBudget, match="needs a total"):
        Ledger.open(path)
    assert path.read_bytes() == b""
    assert Ledger.open(path, GDP(1.0)).remaining == GDP(1.0)
    header = path.read_bytes()
    for keep in range(1, len(header)):
        path.write_bytes(header[:keep])
        for total in (None, GDP(1.0), GDP(5.0)):
            with pytest.raises(LedgerCorrupted, match="header"):
                Ledger.open(path, total)
        assert path.read_bytes() == header[:keep]


@pytest.mark.parametrize(
    "damage",
    [b"garbage\n", b"{}\n", b'{"label": "x", "spend": ["GDP"], "charged": ["GDP"]}\n',
     b'{"label": "x", "spend": ["GDP","0x1p-1"], "charged": ["ZCDP","0x1p-1"]}\n',
     b'{"label": "x", "spend": ["ZCDP","-0x1p-1"], "charged": ["ZCDP","-0x1p-1"]}\n',
     b'{"label": "x", "spend": ["GDP","nan"], "charged": ["GDP","nan"]}\n',
     b'{"label": "x", "spend": ["GDP","inf"], "charged": ["GDP","inf"]}\n', b"\n", b"[]\n",
     b'{"label": 5, "spend": ["GDP","0x1p-1"], "charged": ["GDP","0x1p-1"]}\n',
     b'{"label": "x", "spend": ["GDP",0.5], "charged": ["GDP",0.5]}\n',
     b'{"label": "x", "spend": ["GDP","0x1p+1"], "charged": ["GDP","0x1p+1"]}\n',  # above the total
     b'{"label": "\xff", "spend": ["GDP","0x1p-1"], "charged": ["GDP","0x1p-1"]}\n',
     b'{"label": ' + b"[" * 100_000 + b"\n", b'{"label": ' + b"9" * 10_000 + b"}\n"],
    ids=range(15),
)  # fmt: skip
def test_a_damaged_file_spends_nothing(path, damage):
    total = ZCDP(1.0) if b"ZCDP" in damage and b"-0x" in damage else GDP(1.0)
    ledger = Ledger.open(path, total)
    whole = path.read_bytes()
    with path.open("ab") as file:
        file.write(damage)
    with pytest.raises(LedgerCorrupted):
        ledger.charge(total, "x")
    with pytest.raises(LedgerCorrupted):
        Ledger.open(path)
    assert path.read_bytes() == whole + damage


def test_a_handle_that_saw_damage_stays_refused(path):
    """A handle that took the lines for read would count nothing of what follows the damage."""
    ledger, other = Ledger.open(path, ZCDP(1.0)), Ledger.open(path)
    first = path.read_bytes()
    other.charge(ZCDP(0.64), "a")
    whole = path.read_bytes()
    path.write_bytes(first + b"garbage\n" + whole[len(first) :])
    for _ in range(3):
        with pytest.raises(LedgerCorrupted, match="line 2 is not a charge"):
            ledger.charge(ZCDP(0.64), "b")  # granted before: 1.28 of 1
    path.write_bytes(whole)
    for look in (lambda: ledger.spent, lambda: ledger.entries, lambda: pickle.dumps(ledger),
                 lambda: ledger.charge(ZCDP(0.1), "c"), lambda: copy.copy(ledger)):  # fmt: skip
        with pytest.raises(LedgerCorrupted, match="line 2"):
            look()
    assert Ledger.open(path).remaining.rho == pytest.approx(0.36)


def test_a_file_that_is_not_a_ledger_is_left_alone(path):
    path.write_text("my thesis\n")
    with pytest.raises(LedgerCorrupted, match="header"):
        Ledger.open(path, GDP(1.0))
    assert path.read_text() == "my thesis\n"


def test_a_file_that_shrank_was_replaced_or_is_gone_spends_nothing(path):
    ledger = Ledger.open(path, GDP(1.0))
    empty = path.read_bytes()
    ledger.charge(0.5, "a")
    path.write_bytes(empty)
    with pytest.raises(LedgerCorrupted, match="shorter"):
        ledger.charge(0.5, "b")

    ledger, second = Ledger.open(path), Ledger.open(path)
    path.unlink()
    with pytest.raises(LedgerCorrupted, match="gone"):
        ledger.charge(0.5, "b")
    other = Ledger.open(path, GDP(1.0))
    with pytest.raises(LedgerCorrupted, match="replaced"):
        second.charge(0.5, "b")
    other.charge(0.5, "b")
    path.unlink()
    path.mkdir()
    with pytest.raises(LedgerCorrupted, match="gone"):
        other.charge(0.5, "b")


# ---- copies -------------------------------------------------------------------------------------


def later(ledger):
    """Pickled now, loaded when called."""
    data = pickle.dumps(ledger)
    return lambda: pickle.loads(data)


def at_once(make):
    return lambda ledger: lambda: make(ledger)


def oneself(ledger):
    """No copy: the handle itself."""

    def look():
        assert ledger.entries is not None
        return ledger

    return look


COPIES = pytest.mark.parametrize(
    "copier",
    [oneself, later, at_once(copy.copy), at_once(copy.deepcopy)],
    ids=["handle", "pickle", "copy", "deepcopy"],
)


def tampered(before, after, kind):
    """What a file with these contents may be turned into."""
    first, *lines = after.splitlines(keepends=True)
    return {
        "shorter": before,
        "empty": b"",
        "header only": first,
        "edited amount": after.replace((0.5).hex().encode(), (0.1).hex().encode()),
        "edited label": after.replace(b'"a"', b'"z"'),
        "other total": after.replace((1.0).hex().encode(), (8.0).hex().encode(), 1),
        "swapped": first + b"".join(reversed(lines)),
        "one taken out": first + lines[1],
        "backup that went on": before + before.splitlines(keepends=True)[1] * 2,
    }[kind]


@COPIES
@pytest.mark.parametrize(
    "kind",
    ["shorter", "empty", "header only", "edited amount", "edited label", "other total", "swapped",
     "one taken out", "backup that went on"],
)  # fmt: skip
def test_a_copy_knows_the_file_it_came_from(path, copier, kind):
    ledger = Ledger.open(path, GDP(1.0))
    ledger.charge(0.5, "a")
    before = path.read_bytes()
    ledger.charge(0.25, "b")
    copied = copier(ledger)
    after = path.read_bytes()
    content = tampered(before, after, kind)
    assert content != after
    path.write_bytes(content)
    with pytest.raises(LedgerCorrupted):
        copied().charge(0.01, "c")
    with pytest.raises(LedgerCorrupted):
        ledger.charge(0.01, "c")
    assert path.read_bytes() == content


@COPIES
def test_a_copy_never_creates_a_ledger(path, copier):
    ledger = Ledger.open(path, GDP(1.0))
    ledger.charge(0.9, "a")
    copied = copier(ledger)
    path.unlink()
    with pytest.raises(LedgerCorrupted, match="gone"):
        copied().charge(0.9, "b")
    assert not path.exists()
    assert not list(path.parent.iterdir())


@COPIES
def test_a_copy_refuses_another_ledger_of_the_same_total_and_time(path, copier, monkeypatch):
    """What tells them apart is not only a clock, which may stand still."""
    monkeypatch.setattr(time, "time_ns", lambda: 1)
    ledger = Ledger.open(path, GDP(1.0))
    copied = copier(ledger)
    path.unlink()
    other = Ledger.open(path, GDP(1.0))
    with pytest.raises(LedgerCorrupted):
        copied().charge(0.1, "a")
    other.charge(0.1, "a")


@COPIES
def test_a_copy_goes_on_from_what_others_added(path, copier):
    ledger = Ledger.open(path, GDP(1.0))
    ledger.charge(0.6, "a")
    copied = copier(ledger)
    Ledger.open(path).charge(0.6, "b")
    twin = copied()
    assert [entry.label for entry in twin.entries] == ["a", "b"]
    with pytest.raises(BudgetExceeded):
        twin.charge(0.6, "c")
    twin.charge(0.5, "c")
    assert ledger.entries == twin.entries == pickle.loads(pickle.dumps(twin)).entries


def test_ledgers_without_an_id_stay_readable(path):
    """As they were written before there was one."""
    header = b'{"dpfast ledger": 2, "total": ["GDP", "0x1.0000000000000p+0"], "created": 1}\n'
    line = (
        b'{"label": "a", "spend": ["GDP", "0x1.0000000000000p-1"], '
        b'"charged": ["GDP", "0x1.0000000000000p-1"]}\n'
    )
    path.write_bytes(header + line)
    ledger = Ledger.open(path, GDP(1.0))
    ledger.charge(0.25, "b")
    assert [entry.spend for entry in Ledger.open(path).entries] == [GDP(0.5), GDP(0.25)]
    assert path.read_bytes().startswith(header + line)


# ---- files that are no ledgers ------------------------------------------------------------------


def header(total='["GDP", "0x1p+0"]', version="2", end=b"\n"):
    return f'{{"dpfast ledger": {version}, "total": {total}, "created": 1}}'.encode() + end


def charged(code, label=b'"x"'):
    return b'{"label": %b, "spend": %b, "charged": %b}\n' % (label, code, code)


FOREIGN = {
    "parquet": b"PAR1\x15\x04\n\x00rows\n\x15\x00\x00footer PAR1",
    "csv": b"wage,age\n1,2\n3,4",
    "text": b"my thesis, in one line",
    "text in lines": b"my thesis\n",
    "blank line": b"\n",
    "gzip": b"\x1f\x8b\x08\x00\n\x00\x00",
    "other lines of json": b'{"a": 1}\n{"b": 2}',
    "byte order mark": b"\xef\xbb\xbf" + header(),
    "utf-16": header().decode().encode("utf-16"),
    "carriage return only": header(end=b"\r"),
    "no newline": header(end=b""),
    "not json": header()[:-3] + b"\n",
    "infinite": header('["GDP", "inf"]'),
    "not a number": header('["GDP", "nan"]'),
    "negative": header('["GDP", "-0x1p+0"]'),
    "zero": header('["GDP", "0x0p+0"]'),
    "too large": header('["GDP", "0x1p+99999"]'),
    "delta above one": header('["ApproxDP", "0x1p+0", "0x1p+1"]'),
    "unknown kind": header('["RDP", "0x1p+0"]'),
    "no numbers": header('["GDP"]'),
    "two numbers": header('["GDP", "0x1p+0", "0x1p+0"]'),
    "bare number": header('["GDP", 1.0]'),
    "text for a list": header('"GDP"'),
    "nested kind": header('[["GDP"], "0x1p+0"]'),
    "deep": header('["GDP", ' + "[" * 100_000),
    "deep total": header('["GDP", "0x1p+0"], "x": ' + "[" * 100_000 + "]" * 100_000),
    "long integer": header('["GDP", "0x1p+0"], "x": ' + "9" * 10_000),
    "version 1": header(version="1"),
    "version 3, without a check": header(version="3"),
    "version 2, with a check": header('["GDP", "0x1p+0"], "check": "0123456789abcdef"'),
    "version 4": header(version="4"),
    "version true": header(version="true"),
    "no total": b'{"dpfast ledger": 2}\n',
    "not utf-8": header()[:-2] + b', "x": "\xff"}\n',
    "spent above its total": header() + charged(b'["GDP", "0x1.8p-1"]') * 2,
    "a part of it": header() + charged(b'["GDP", "0x1p-2"]') + b"patient,4711\n" + b"5,6",
    "null bytes": b"\0" * 4096,
    "header and null bytes": header() + b"\0" * 4096 + b"\n",
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_file_that_is_no_ledger_is_refused_and_left_alone(path, kind, capsys):
    content = FOREIGN[kind]
    path.write_bytes(content)
    before = path.stat()
    for total in (None, GDP(1.0)):
        with pytest.raises(LedgerCorrupted) as refusal:
            Ledger.open(path, total)
        assert "4711" not in without_paths(refusal.value, path)  # of whatever this may be
    assert main(["ledger", "show", str(path)]) == 1
    assert main(["ledger", "create", str(path), "--mu", "1"]) == 1
    assert path.read_bytes() == content
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert "cannot be trusted" in capsys.readouterr().err


def test_what_is_no_regular_file_is_not_even_opened(path, tmp_path):
    """A pipe would wait for somebody at its other end; a device may do anything."""
    os.mkfifo(path)
    for where in (path, tmp_path, "/dev/null"):
        for total in (None, GDP(1.0)):
            with pytest.raises(InvalidInput, match="regular file"):
                Ledger.open(where, total)
    with pytest.raises(InvalidInput, match="no directory"):
        Ledger.open(tmp_path / "absent" / "ledger", GDP(1.0))


def mutations(content, rng):
    """The content, damaged in one place or two."""
    for _ in range(rng.choice([1, 1, 2])):
        at, size = rng.randrange(len(content) + 1), rng.choice([0, 1, 1, 1, 7, 300])
        other = rng.randrange(len(content) + 1)
        inserted = rng.choice(
            [b"", b"", rng.randbytes(1), b"\n", b"0", b"-", b"inf", content[other : other + 200]]
        )
        content = content[:at] + inserted + content[at + size :]
    return content


def test_whatever_happens_to_a_file_no_reader_writes_and_no_total_is_exceeded(path):
    """500 damaged files: refused, or a ledger of the same total and the first charges as written.

    A handle that knows the whole file refuses every one in which a byte of it changed.
    """
    rng = random.Random(0)
    knows = Ledger.open(path, ApproxDP(1.0, 1e-6))
    for i in range(4):
        knows.charge(ApproxDP(0.2, 2e-7), f"charge {i}")
    whole, knowing, known = path.read_bytes(), pickle.dumps(knows), knows.entries
    accepted = 0
    for _ in range(500):
        content = mutations(whole, rng) or b"\n"
        path.write_bytes(content)
        with suppress(LedgerCorrupted):
            ledger = Ledger.open(path)
            assert all(spent <= limit for spent, limit in zip(*sums(ledger), strict=True))
            assert ledger.total == knows.total
            assert ledger.entries == known[: len(ledger.entries)]
            accepted += 1
        if content.startswith(whole):  # what was appended is refused, or cut short and ignored
            with suppress(LedgerCorrupted):
                assert pickle.loads(knowing).entries == known
        else:
            with pytest.raises(LedgerCorrupted):
                pickle.loads(knowing)
        assert path.read_bytes() == content
    assert 10 < accepted < 450  # both happen


def test_a_changed_total_and_a_missing_line_are_noticed_by_a_new_handle(path):
    """By one that knows nothing but the file; each damage leaves whole lines that can be read."""
    ledger = Ledger.open(path, GDP(1.0))
    for label in "abc":
        ledger.charge(GDP(0.25), label)
    header, *lines = path.read_bytes().splitlines(keepends=True)
    larger = header.replace(b"0x1.0000000000000p+0", b"0x1.0000000000000p+9")
    smaller = lines[0].replace(b"p-2", b"p-9")
    assert larger != header and smaller != lines[0]
    damages = {
        "a larger total": [larger, *lines],
        "a smaller charge": [header, smaller, *lines[1:]],
        "the first charge is gone": [header, *lines[1:]],
        "a charge in the middle is gone": [header, lines[0], lines[2]],
        "two charges in another order": [header, lines[1], lines[0], lines[2]],
        "a charge twice": [header, lines[0], *lines],
    }
    for name, content in damages.items():
        path.write_bytes(b"".join(content))
        with pytest.raises(LedgerCorrupted, match="cannot be trusted"):
            pytest.fail(f"{name}: {Ledger.open(path).spent}")


def sums(ledger):
    """What was charged and the total, exactly."""
    charges = [entry.charged.values() for entry in ledger.entries]
    return [sum(map(Fraction, parts)) for parts in zip(*charges, (0.0, 0.0), strict=True)], map(
        Fraction, ledger.total.values()
    )


SHOW = """
import os, sys
opened = []
def hook(event, arguments):
    if event == "open" and str(arguments[0]) == sys.argv[1]:
        opened.append(arguments[2])
    assert event not in ("os.truncate", "os.chmod", "os.rename", "os.remove"), event
sys.addaudithook(hook)
from dpfast.cli import main
assert main(["ledger", "show", sys.argv[1]]) == 0
assert opened
assert not any(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC) for flags in opened)
"""


def test_a_ledger_is_shown_without_writing(path):
    """Every opening of the file is for reading only, torn line or not."""
    ledger = Ledger.open(path, GDP(1.0))
    ledger.charge(0.5, "a")
    with path.open("ab") as file:
        file.write(b'{"label": "half')
    content = path.read_bytes()
    path.chmod(0o400)
    command = [sys.executable, "-c", SHOW, str(path)]
    shown = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert shown.returncode == 0, shown.stderr
    assert "spent      GDP(mu=0.5)" in shown.stdout
    assert path.read_bytes() == content


def test_a_failed_sync_does_not_refund(path, monkeypatch):
    ledger = Ledger.open(path, GDP(1.0))

    def failing(descriptor):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OSError, match="disk full"):
        ledger.charge(0.6, "a")  # no noise was drawn, and yet
    monkeypatch.undo()
    with pytest.raises(BudgetExceeded):
        ledger.charge(0.9, "b")
    assert ledger.spent == GDP(0.6)


@pytest.mark.parametrize("room", [0, 1, 30])
def test_a_full_disk_costs_nothing_and_breaks_nothing(path, room):
    """The write ends in the middle of the line; what is left of it counts for nobody."""
    resource = pytest.importorskip("resource")
    ledger = Ledger.open(path, GDP(1.0))
    ledger.charge(0.6, "a")
    whole = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + room, hard))
    try:
        with pytest.raises(OSError):
            ledger.charge(0.6, "b")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(path.read_bytes()) == len(whole) + room
    assert ledger.spent == Ledger.open(path).spent == GDP(0.6)
    ledger.charge(0.6, "c")
    assert [entry.label for entry in Ledger.open(path).entries] == ["a", "c"]
    with pytest.raises(BudgetExceeded):
        ledger.charge(0.6, "d")


def test_a_ledger_that_could_not_be_created_can_be(path):
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, hard))
    try:
        with pytest.raises(OSError):
            Ledger.open(path, GDP(1.0))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == b""
    assert Ledger.open(path, GDP(1.0)).remaining == GDP(1.0)


SPENDER = """
import sys, time
from dpfast.privacy import GDP, Ledger
from dpfast.errors import BudgetExceeded
ledger = Ledger.open(sys.argv[1], GDP(1.0))
print("ready", flush=True)
sys.stdin.readline()
count = 0
try:
    while True:
        ledger.charge(GDP(float(sys.argv[3])), sys.argv[2])
        count += 1
        print(count, flush=True)
except BudgetExceeded:
    pass
"""


def spender(path, name, size=0.0625):
    return subprocess.Popen(
        [sys.executable, "-c", SPENDER, str(path), name, str(size)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


@pytest.mark.serial
def test_racing_processes_cannot_overspend(path):
    """256 charges fit; three processes fight for them."""
    processes = [spender(path, f"p{i}") for i in range(3)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    counts = [len(process.communicate(timeout=300)[0].splitlines()) for process in processes]
    assert all(process.returncode == 0 for process in processes)
    assert sum(counts) == 256
    ledger = Ledger.open(path)
    assert ledger.spent == GDP(1.0)
    assert len(ledger.entries) == 256


@pytest.mark.serial
def test_a_killed_process_refunds_nothing_it_was_granted(path):
    """SIGKILL in the middle of charging: every charge that returned is in the file."""
    for round_number in range(3):
        # so small that no victim runs out of budget, however late the signal comes
        process = spender(path, f"victim {round_number}", size=2.0**-12)
        assert process.stdout.readline() == "ready\n"
        process.stdin.write("go\n")
        process.stdin.flush()
        process.stdout.readline()
        time.sleep(0.003 * round_number)
        process.send_signal(signal.SIGKILL)
        granted = 1 + len(process.communicate(timeout=300)[0].splitlines())
        labels = [entry.label for entry in Ledger.open(path).entries]
        assert labels.count(f"victim {round_number}") >= granted
    ledger = Ledger.open(path)
    before = ledger.spent
    while ledger.remaining.mu > 0:
        ledger.charge(ledger.remaining, "the rest")
    assert ledger.spent == GDP(1.0)
    assert before.mu > 0


def test_the_file_is_readable_by_people(path):
    ledger = Ledger.open(path, GDP(1.0))
    ledger.charge(PureDP(0.5), "eigenvalue")
    header, line = (json.loads(text) for text in path.read_text().splitlines())
    assert header["dpfast ledger"] == 4
    assert header["total"] == ["GDP", (1.0).hex()]
    assert line["label"] == "eigenvalue"
    assert line["spend"] == ["PureDP", (0.5).hex()]
    assert float.fromhex(line["charged"][1]) == PureDP(0.5).as_gdp().mu
