"""Stores what a benchmark found; a stored result says commit, command, date and versions."""

from __future__ import annotations

import platform
import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import scipy

import dpfast

__all__ = ["RESULTS", "ROOT", "keep", "put", "stamp", "told"]

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"

#: What a result can depend on; a commit that stores results or edits a page changes nothing.
SOURCES = ("bench", "csrc", "dpfast", "pyproject.toml", "setup.py", ":!bench/results")

#: The last line of a stored page.
STORED = re.compile(
    r"^\*Stored (?P<date>\d{4}-\d\d-\d\d), commit (?P<commit>\S+), `(?P<command>[^`]+)`; "
    r"(?P<versions>[^*]+)\.\*$",
    re.M,
)


def stamp(command: str | None = None) -> dict[str, str]:
    """Tell commit, command, date and versions of what runs now.

    Parameters
    ----------
    command : str, optional
        Default: what this interpreter was started with, but for the folder of the data.

    Returns
    -------
    dict of str to str
        The commit is the last one that changed a source; "+changes" follows if the tree has others.
    """
    if command is None:
        command = re.sub(r"--data[ =]\S+", "--data FOLDER", shlex.join(sys.orig_argv[1:]))
        command = f"python {command}"
    found = {"numpy": np, "scipy": scipy, "dpfast": dpfast}
    versions = [f"{name} {module.__version__}" for name, module in found.items()]
    return {
        "commit": _git("log", "-1", "--format=%h") + "+changes" * bool(_git("status", "--short")),
        "command": command,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "versions": ", ".join([*versions, f"python {platform.python_version()}"]),
    }


def _git(*command: str) -> str:
    done = subprocess.run(
        ["git", *command, "--", *SOURCES], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def keep(path: Path, text: str) -> None:
    """Write a page that ends with its stamp.

    Parameters
    ----------
    path : Path
    text : str
    """
    line = "*Stored {date}, commit {commit}, `{command}`; {versions}.*"
    path.write_text(f"{text.rstrip()}\n\n{line.format(**stamp())}\n", encoding="utf-8")


def put(path: Path, table: str) -> None:
    """Put a table of plain text in the place of the one in a page, whose words stay.

    Parameters
    ----------
    path : Path
    table : str
    """
    text = STORED.sub("", path.read_text(encoding="utf-8"))
    head, _, rest = text.partition("```\n")
    _, _, tail = rest.partition("\n```")
    keep(path, f"{head}```\n{table}\n```{tail}")


def told(text: str) -> dict[str, str]:
    """Read the stamp of a stored page; empty if it has none."""
    found = STORED.search(text)
    return found.groupdict() if found else {}
