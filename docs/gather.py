"""Gathers what the pages include: proofs, stored results, figures, pictures, the reference.

python docs/gather.py        before sphinx-build; `make docs` does both
"""

from __future__ import annotations

import json
import re
import runpy
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
CLAIMS = ROOT / "tests" / "proofs" / "claims.tsv"


def machine_checked() -> str:
    """Write which claims Coq checks, which rest on paper and an attack, and which are trusted."""
    words = {"coq": "machine-checked", "paper": "by paper and attack", "trusted": "trusted"}
    lines = CLAIMS.read_text(encoding="utf-8").splitlines()
    parts = ["# What a machine has checked\n"]
    parts += ["| claim | how | theorems | left to paper and attack |", "|---|---|---|---|"]
    for line in lines[1:]:
        claim, status, theorems, remark = line.split("\t")
        named = ", ".join(f"`{name}`" for name in theorems.split())
        parts.append(f"| {claim} | {words[status]} | {named} | {remark} |")
    return "\n".join([*parts, ""])


def gather() -> None:
    claims, gallery = DOCS / "claims", DOCS / "gallery"
    for folder in (claims, gallery):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    pages = [page for room in ("dpfast", "bench") for page in (ROOT / room).rglob("PROOFS*.md")]
    for page in sorted(pages):
        text = page.read_text(encoding="utf-8")  # whose links lead from folder to folder
        text = re.sub(r"\]\([\w./-]*(PROOFS[\w-]*\.md)", lambda m: f"]({m[1].lower()}", text)
        (claims / page.name.lower()).write_text(text, encoding="utf-8")
    (claims / "machine-checked.md").write_text(machine_checked(), encoding="utf-8")
    for page in sorted((ROOT / "bench" / "results").glob("*.md")):
        text = page.read_text()
        title = "" if text.startswith("# ") else f"# {page.stem.capitalize()}\n\n"
        (gallery / page.name).write_text(title + text)
    for folder in sorted((ROOT / "bench" / "results" / "figures").glob("paper*")):
        number = folder.name.removeprefix("paper")
        parts = [f"# Experiments of paper {number}\n"]
        for report_file in sorted(folder.glob("*.json"), key=_by_number):
            report = json.loads(report_file.read_text())
            parts.append(f"## {report['figure']}: {report['title']}\n")
            picture = report_file.with_suffix(".png")
            if picture.exists():
                copied = gallery / f"{folder.name}-{picture.name}"
                shutil.copy(picture, copied)
                parts.append(f"![{report['title']}]({copied.name})\n")
            parts.append(f"*The paper:* {report['statement']}\n")
            parts.append(f"*Reproduced:* {report['reproduced']}. {report['remark']}\n")
            stamp = "Stored {date}, commit {commit}, `{command}`; {versions}.\n"
            parts.append(stamp.format(**report["stored"]))
        if len(parts) > 1:
            (gallery / f"figures-{folder.name}.md").write_text("\n".join(parts))


def _by_number(path: Path) -> tuple[bool, int, str]:
    digits = "".join(c for c in path.stem if c.isdigit())
    return (not path.stem.startswith("figure"), int(digits or 0), path.stem)


def draw() -> None:
    """The pictures of the architecture page, and the small figures of the home page."""
    runpy.run_path(str(DOCS / "pictures.py"), run_name="__main__")
    figures = runpy.run_path(str(DOCS / "headlines.py"))["page"]()
    (DOCS / "pictures" / "headlines.html").write_text(figures, encoding="utf-8")
    beside = runpy.run_path(str(DOCS / "packages.py"))["page"]()
    (DOCS / "pictures" / "packages.html").write_text(beside, encoding="utf-8")


if __name__ == "__main__":
    gather()
    draw()
    runpy.run_path(str(DOCS / "calls.py"), run_name="__main__")
    runpy.run_path(str(DOCS / "reference.py"), run_name="__main__")
