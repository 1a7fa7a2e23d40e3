"""Claims behind a result: what each of its charges rests on, with the statements of the proofs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from dpfast.inference.composition import Charge, Maximum, Prepaid, Rows, iterate_parts
from dpfast.privacy.budget import ApproxDP, PureDP

if TYPE_CHECKING:
    from dpfast.inference.guarantees import Guarantee

#: Pages with the proofs, in the folder of dpfast.privacy.
PAGES = (
    "PROOFS.md", "scaling/PROOFS-scaling.md", "tables/PROOFS-tables.md",
    "blackbox/PROOFS-bayesopt.md", "nonconvex/PROOFS-nonconvex.md", "release/PROOFS-release.md",
)  # fmt: skip

#: Stages of an analysis, in the order in which they are printed.
STAGES = (
    "persons", "weights", "folds", "levels", "sample", "scaling", "clipping", "histograms",
    "cells", "sums", "joint answers", "search", "release", "noise", "composition", "conversion",
)  # fmt: skip

#: Stage and claims of the answer to a query, by the name that its receipt and its charge have.
QUERIES: dict[str, tuple[str, tuple[str, ...]]] = {
    "counts": ("scaling", ("D1", "D2", "D4", "D5")),
    "histogram of distances": ("scaling", ("D4", "D5", "D6")),
    "clipped moments": ("scaling", ("D3", "D5")),
    "gradient": ("sums", ("C11", "C12", "C13")),
    "hessian": ("sums", ("C11", "C12", "C14")),
    "majorizer": ("sums", ("C11", "C12", "C14")),
    "meat": ("sums", ("C11", "C12", "C14")),
    "histogram of lengths": ("histograms", ("C60",)),
    "histogram of weights": ("weights", ("C60", "C70")),
    "largest curvature": ("sums", ("C11", "C12", "C20")),
    "largest eigenvalue": ("sums", ("C11", "C12", "C20")),
    "smallest eigenvalue": ("sums", ("C11", "C12", "C20")),
    "loss difference": ("sums", ("C11", "C12", "C21")),
    "share below": ("sums", ("C46",)),
    "share that failed": ("sums", ("C46",)),
    "location": ("sums", ("C11", "C13", "C78")),
    "variance": ("sums", ("C79",)),
    "random folds": ("folds", ("C53", "C78")),
    "levels side by side": ("levels", ("T6",)),
    "counts by cell": ("cells", ("T1",)),
    "moments by cell": ("cells", ("T2", "T3", "T4")),
    "distribution by cell": ("cells", ("T5",)),
    "weighted counts by cell": ("cells", ("T9",)),
    "weighted moments by cell": ("cells", ("T9",)),
    "weighted distribution by cell": ("cells", ("T10",)),
    "sums by level": ("cells", ("T2", "T8")),
    "Gram matrices by area": ("cells", ("T11",)),
    "clipped mean": ("search", ("G1", "G2")),
    "mean loss": ("search", ("G4", "G6")),
    "choice of a point": ("search", ("G5", "G7")),
    "choice of a column": ("search", ("C106", "G7")),
    "gradient change": ("search", ("K2", "K4", "K6")),
    "gradient norm": ("search", ("K3", "K4", "K6")),
    "gradient lengths": ("search", ("K4", "K6", "K7")),
    "gradient directions": ("search", ("K4", "K6", "K9")),
    "loss change": ("search", ("K8",)),
    "selection": ("search", ("K4", "K5")),
    "certificate": ("release", ("R2", "R3", "R5")),
    "functional": ("release", ("R6", "R7", "R29")),
    "Newton step": ("release", ("R39",)),
    "held Newton step": ("release", ("R40",)),
    "perturbed minimiser": ("release", ("R10",)),
    "parameter": ("release", ("R4",)),
}

#: Claims that stand in place of some of those: with an estimated scale, of a non-convex loss, or of
#: a certified release.  A charge does not tell which.
INSTEAD: dict[str, tuple[str, ...]] = {
    "gradient": ("C34", "K1", "K7"),
    "hessian": ("C35",),
    "majorizer": ("C35",),
    "meat": ("C36",),
    "largest eigenvalue": ("R28",),
    "parameter": ("R26",),
}

#: Queries of one parameter that one charge pays for together.
JOINT = {"gradient", "hessian", "majorizer", "meat"}

NOISE = ("C1", "C15", "C16", "C19", "C23")
INTEGER_NOISE = {"certificate", "Newton step", "held Newton step"}


class Claim(NamedTuple):
    """A claim with its title, the first sentence of its statement, and the page of its proof."""

    number: str
    title: str
    statement: str
    page: str


class Step(NamedTuple):
    """A stage of an analysis, the claims it rests on, and claims that may stand in their place."""

    stage: str
    claims: tuple[str, ...]
    instead: tuple[str, ...] = ()

    def __str__(self) -> str:
        alternatives = f" (or {', '.join(self.instead)})" if self.instead else ""
        return f"{self.stage} {', '.join(self.claims)}{alternatives}"


class ClaimTree(NamedTuple):
    """Claims that the guarantee of a result rests on.

    Attributes
    ----------
    subject : str
        What the guarantee is about.
    steps : tuple of Step
        The stages of the analysis with their claims.
    charges : tuple of (str, tuple of str)
        Each kind of charge, and the claims behind its answer.

    Privacy
    -------
    Made from the names of charges, which are public: costs nothing.

    Examples
    --------
    >>> from dpfast.inference.guarantees import Guarantee
    >>> noise = dpfast.privacy.EntropyNoise()
    >>> found = Guarantee.of(dpfast.GDP(1.0), noise, 500, [("counts by cell", 1.0)]).claims()
    >>> found.chain
    '500 records: cells T1 -> noise C1, C15, C16, C19, C23 -> composition C9, C10, C86'
    >>> found.claims[0].title
    'Counts by cell'
    """

    subject: str
    steps: tuple[Step, ...]
    charges: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def chain(self) -> str:
        """The stages with their claims, in one line."""
        return f"{self.subject}: {' -> '.join(map(str, self.steps))}"

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Every claim of the tree, in the order of the stages, with its statement."""
        numbers = [n for step in self.steps for n in (*step.claims, *step.instead)]
        return tuple([stated()[number] for number in dict.fromkeys(numbers)])

    def __str__(self) -> str:
        lines = [self.chain, ""]
        lines += [f"{claim.number:4} {claim.title}. {claim.statement}" for claim in self.claims]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Convert everything to plain Python values (for JSON)."""
        return {
            "subject": self.subject,
            "steps": [step._asdict() for step in self.steps],
            "charges": {label: list(claims) for label, claims in self.charges},
            "claims": [claim._asdict() for claim in self.claims],
        }


@cache
def stated() -> dict[str, Claim]:
    """Read every claim off the pages of proofs, by its number."""
    found = {}
    for page in PAGES:
        text = files("dpfast.privacy").joinpath(*page.split("/")).read_text(encoding="utf-8")
        parts = re.split(r"^### ([A-Z]\d+)\. (.*)$", text, flags=re.MULTILINE)
        for number, title, body in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
            found[number] = Claim(number, title.strip(), _first_sentence(body), page)
    return found


def _first_sentence(body: str) -> str:
    """Return what a claim says in short, or else the first sentence of its statement."""
    _, short, text = body.partition("**In short.**")
    text = text if short else body.partition("**Statement.**")[2]
    text = " ".join(text.partition("\n\n**")[0].split())
    return text if short else re.split(r"(?<=\.) (?=[A-Z(*`])", text, maxsplit=1)[0]


def claim_tree(guarantee: Guarantee) -> ClaimTree:
    """Make the tree of claims from the charges of a guarantee; empty for a comparison fit."""
    if guarantee.total is None:
        return ClaimTree("no promise", (), ())
    labels = list(dict.fromkeys(_labels(guarantee)))
    queries = list(dict.fromkeys(query for label in labels for query in label.split(" + ")))
    default = "histogram of lengths" in queries
    stages: dict[str, list[str]] = {}
    instead: dict[str, list[str]] = {}
    charges = []
    for label in labels:
        behind = _of_charge(label, default)
        for stage, claims in behind:
            stages.setdefault(stage, []).extend(claims)
        for query in () if default else label.split(" + "):
            if query in INSTEAD:
                instead.setdefault(QUERIES[query][0], []).extend(INSTEAD[query])
        charges.append((label, _sorted(claim for _, claims in behind for claim in claims)))
    for stage, claims in _of_promise(guarantee, queries, default):
        stages.setdefault(stage, []).extend(claims)
    steps = [
        Step(stage, _sorted(stages[stage]), _sorted(instead.get(stage, ())))
        for stage in STAGES
        if stage in stages
    ]
    subject = f"{guarantee.n:,} {guarantee.counted.lower()}"
    return ClaimTree(subject, tuple(steps), tuple(charges))


def _labels(guarantee: Guarantee) -> list[str]:
    """List the names of charges, those within reserved parts among them."""
    composition = guarantee.composition
    if composition is None:
        return []
    return [part.label for part in iterate_parts(composition) if isinstance(part, Charge | Prepaid)]


def _of_charge(label: str, default: bool) -> list[tuple[str, tuple[str, ...]]]:
    """Return stages and claims of the answers that one charge paid for."""
    queries = [query for query in label.split(" + ") if query in QUERIES]
    behind = [QUERIES[query] for query in queries]
    joint = JOINT.intersection(queries)
    if default and (joint or "histogram of lengths" in queries):
        behind.append(("clipping", ("C80",)))
    if "meat" in joint:
        behind.append(("joint answers", ("C60",) if default else ()))
    if len(joint) > 1:
        behind.append(("joint answers", ("C17", "C18", "C19")))
    return [part for part in behind if part[1]]


def _of_promise(
    guarantee: Guarantee, queries: list[str], default: bool
) -> list[tuple[str, tuple[str, ...]]]:
    """Return stages and claims of neighbours, noise, composition and conversion."""
    persons = guarantee.counted == "Persons"
    composition = guarantee.composition
    parts = [] if composition is None else list(iterate_parts(composition))
    behind: list[tuple[str, tuple[str, ...]]] = []
    if any(isinstance(part, Rows) for part in parts):
        behind.append(("persons", ("C47",)))
    elif persons:
        behind.append(("persons", ("C66", "C67", "C72", "C81")))
    if default:
        behind.append(("sample", ("C55", "C85")))
    if any(isinstance(part, Maximum) for part in parts):
        behind.append(("folds", ("C54", "C55")))
    if INTEGER_NOISE.intersection(queries):
        behind.append(("noise", ("C22", "C23")))
    if not INTEGER_NOISE.issuperset(queries) or not queries:
        behind.append(("noise", NOISE))
    behind.append(("composition", ("C9", "C10", "C86")))
    if guarantee.returned is not None:
        behind.append(("composition", ("C95",)))
    if isinstance(guarantee.total, ApproxDP):
        behind.append(("conversion", ("C2", "C3", "C87")))
    elif isinstance(guarantee.total, PureDP):
        behind.append(("conversion", ("C5",)))
    return behind


def _sorted(claims: Iterable[str]) -> tuple[str, ...]:
    """Sort claims by letter and number, each once."""
    return tuple(sorted(set(claims), key=lambda claim: (claim[0], int(claim[1:]))))
