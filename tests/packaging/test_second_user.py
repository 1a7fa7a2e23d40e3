"""Two users of one machine can run the suite, and neither uses a folder of the other."""

from __future__ import annotations

import os
import stat

import pytest

from tests.conftest import SECRETS, own_root

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no users")


def test_each_user_has_a_folder_of_its_own(tmp_path, monkeypatch):
    mine = own_root(tmp_path)
    assert own_root(tmp_path) == mine
    assert stat.S_IMODE(mine.stat().st_mode) == 0o700
    with monkeypatch.context() as other:
        uid = os.geteuid() + 1
        other.setattr(os, "geteuid", lambda: uid)
        theirs = own_root(tmp_path)
    assert theirs != mine
    assert all(folder.name.startswith(SECRETS) for folder in (mine, theirs))


@pytest.mark.parametrize("kind", ["of another user", "that others can write to", "link", "file"])
def test_a_folder_of_somebody_else_is_not_used(tmp_path, monkeypatch, kind):
    """Whoever can write there decides what the tests read."""
    waiting = own_root(tmp_path)
    if kind == "of another user":
        waiting.rename(tmp_path / f"{SECRETS}-{os.geteuid() + 1}")
        uid = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: uid)
    elif kind == "that others can write to":
        waiting.chmod(0o777)
    else:
        waiting.rmdir()
        if kind == "link":
            waiting.symlink_to(tmp_path)
        else:
            waiting.touch()
    found = own_root(tmp_path)
    assert found.is_dir() and not found.is_symlink()
    assert found.name.startswith(SECRETS) and found.parent == tmp_path
    assert stat.S_IMODE(found.stat().st_mode) == 0o700
    assert not any(found.iterdir())
