"""Compile the proofs with Coq, and check what each theorem of the table of claims rests on.

python -m tests.proofs.check             what `make proofs` does
python -m tests.proofs.check --install   ask apt-get for Coq first, where there is none
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.proofs import generate

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "proofs"
TABLE = HERE / "claims.tsv"

#: In the order of what requires what.
MODULES = (
    "Meaning", "Vectors", "Formulas", "Sums", "Cells", "Joint", "Composition", "More",
    "Rounding", "Losses", "Release", "Ledger", "Persons", "Laws",
)  # fmt: skip
PACKAGES = ("coq", "libcoq-coquelicot", "libcoq-flocq")

#: What theorems may rest on: how Coq's library makes real numbers, and equal functions.
AXIOMS = {
    "ClassicalDedekindReals.sig_not_dec", "ClassicalDedekindReals.sig_forall_dec",
    "FunctionalExtensionality.functional_extensionality_dep", "Classical_Prop.classic",
}  # fmt: skip


#: Axioms of our own, each stated with its source where it stands.
STATED: set[str] = set()


class Row(NamedTuple):
    """A claim, one of ``coq``, ``paper``, ``trusted``, its theorems, and what is left to paper."""

    claim: str
    status: str
    theorems: tuple[str, ...]
    remark: str


def rows() -> list[Row]:
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    table = []
    for line in lines[1:]:
        claim, status, theorems, remark = line.split("\t")
        table.append(Row(claim, status, tuple(theorems.split()), remark))
    return table


def have_coq() -> bool:
    return shutil.which("coqc") is not None


def install() -> bool:
    """Install Debian's Coq with apt-get, as root or by sudo without a password."""
    if have_coq():
        return True
    if shutil.which("apt-get") is None:
        return False
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if sudo and shutil.which("sudo") is None:
        return False
    for command in (["apt-get", "update", "-q"], ["apt-get", "install", "-qy", *PACKAGES]):
        if subprocess.run([*sudo, *command]).returncode:
            return False
    return have_coq()


def run(folder: Path, module: str) -> str:
    """Compile one module; return what Coq prints, and raise with its message where it fails."""
    done = subprocess.run(
        ["coqc", "-q", "-Q", ".", "dpfast", f"{module}.v"],
        cwd=folder, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise ProofFailed(module, done.stderr.strip())
    return done.stdout


class ProofFailed(Exception):
    """A theorem that Coq does not accept."""


def compile_all(
    folder: Path, replaced: Mapping[str, str] | None = None, last: str = MODULES[-1]
) -> None:
    """Compile what ``last`` requires and it in ``folder``, with other texts for some modules."""
    folder.mkdir(parents=True, exist_ok=True)
    for module in MODULES[: MODULES.index(last) + 1]:
        text = (replaced or {}).get(module) or (HERE / f"{module}.v").read_text(encoding="utf-8")
        (folder / f"{module}.v").write_text(text, encoding="utf-8")
    for module in MODULES if last == MODULES[-1] else required(last):
        run(folder, module)


def required(module: str) -> list[str]:
    """List the modules that one requires, and it, in the order of :data:`MODULES`."""
    text = (HERE / f"{module}.v").read_text(encoding="utf-8")
    found = re.search(r"^From dpfast Require Import ([\w ]+)\.$", text, re.MULTILINE)
    names = {module, *(found.group(1).split() if found else ())}
    for name in names - {module}:
        names |= set(required(name))
    return [name for name in MODULES if name in names]


def theorems() -> list[str]:
    """List the theorems that the table names, each once."""
    return list(dict.fromkeys(name for row in rows() for name in row.theorems))


def assumptions(folder: Path) -> set[str]:
    """Return the axioms that the theorems of the table rest on."""
    lines = [f"From dpfast Require {module}." for module in MODULES]
    proofs = ", ".join(f"@{name}" for name in theorems())
    lines += [f"Definition every := ({proofs}).", 'Redirect "every" Print Assumptions every.']
    (folder / "Audit.v").write_text("\n".join(lines) + "\n", encoding="utf-8")
    run(folder, "Audit")
    text = (folder / "every.out").read_text(encoding="utf-8")
    if not text.startswith(("Closed under the global context", "Axioms:")):
        raise ProofFailed("Audit", f"unreadable assumptions: {text!r}")
    return set(re.findall(r"^([\w.']+)(?: :|$)", text, re.MULTILINE))


def main(arguments: list[str]) -> int:
    if not (install() if "--install" in arguments else have_coq()):
        print(
            "The proofs were not checked: there is no coqc. On Debian or Ubuntu `apt-get install "
            f"{' '.join(PACKAGES)}` as root installs it. Elsewhere install Coq 8.16 or newer with "
            "the packages coquelicot and flocq."
        )
        return 1
    if generate.FILE.read_text(encoding="utf-8") != generate.text():
        print("Formulas.v differs from the code; write it by `python -m tests.proofs.generate`.")
        return 1
    try:
        compile_all(BUILD)
        found = assumptions(BUILD)
    except ProofFailed as failure:
        print("A proof fails in {}:\n{}".format(*failure.args))
        return 1
    bad = found - AXIOMS - STATED
    if bad:
        print(f"a theorem rests on {', '.join(sorted(bad))}")
    checked = sum(row.status == "coq" for row in rows())
    print(f"{len(theorems())} theorems of {checked} claims, of {len(rows())} in all")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
