"""Writes where the project lives into what a package index shows: address.py ADDRESS TAG.

Project URLs go into pyproject.toml, and the README's links to files of the repository become
absolute.  The workflow that publishes runs it, in the repository that has the address.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

#: What an index lists beside a project, and where it is below the address.
URLS = {
    "Source": "",
    "Documentation": "/tree/{tag}/docs",
    "Changelog": "/blob/{tag}/CHANGELOG.md",
    "Issues": "/issues",
    "Security": "/security/policy",
}


def with_urls(pyproject: str, address: str, tag: str) -> str:
    """The settings with a table of URLs, before that of scripts."""
    lines = [f'{name} = "{address}{below.format(tag=tag)}"' for name, below in URLS.items()]
    table = "\n".join(["[project.urls]", *lines])
    return pyproject.replace("\n[project.scripts]\n", f"\n{table}\n\n[project.scripts]\n", 1)


def with_links(readme: str, address: str, tag: str) -> str:
    """A page whose links to files of the repository are absolute."""
    return re.sub(r"\]\((?!https?:|#)([^)\s]+)\)", rf"]({address}/blob/{tag}/\1)", readme)


if __name__ == "__main__":
    address, tag = sys.argv[1].rstrip("/"), sys.argv[2]
    for name, change in (("pyproject.toml", with_urls), ("README.md", with_links)):
        text = (ROOT / name).read_text(encoding="utf-8")
        (ROOT / name).write_text(change(text, address, tag), encoding="utf-8")
