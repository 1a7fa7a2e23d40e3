"""The page of the papers: short calls, claims and figures that exist, and every item of each."""

from __future__ import annotations

import ast
import re
import warnings
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

import dpfast
from tests.loops import each
from tests.surface import public

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
OWN_WORDS = re.sub(r"<!-- (?:figure|table).*?<!-- end -->", "", PAGE, flags=re.S)
PAPERS = re.split(r"^## ", OWN_WORDS, flags=re.M)[1:]
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.M | re.S)

#: What has a number in each paper and says how something is done.
ITEMS = {
    1: [f"equation ({k})" for k in (4, 6, 7, 9, 12, 13, 14)]
    + [f"theorem {k}" for k in (2,)]
    + ["theorems 3 and 4", "proposition 1", "proposition 2", "proposition 3", "proposition 4"]
    + ["lemma 1", "lemmas 2 and 3", "remarks 1 to 5", "remark 6", "remark 7", "remarks 8 to 10"]
    + ["section 4.4.1", "section 4.4.2", "section 5.2.2", "appendix f", "appendix g"]
    + [
        "appendix h.1",
        "stopping",
        "appendix h.2",
        "appendix h.3",
        "corollary 1",
        "corollaries 2 and 3",
    ],
    2: [f"algorithm {k}" for k in (1, 2, 3, 4)]
    + [
        "theorem 1",
        "theorem 2",
        "theorems 3",
        "theorem 5",
        "theorems 6 to 8",
        "theorem 9",
        "equation (1)",
    ],
    3: [f"algorithm {k}" for k in (1, 3, 4, 5, 7)]
    + ["algorithms 2 and 6", "theorem 1", "theorem 2", "corollary 3.6", "corollary 6.2"]
    + ["equation (14)", "equation (15)"],
    4: [
        "algorithm 1",
        "section 3.3",
        "theorem 3.1",
        "theorems 3.7 and 3.10",
        "appendix e.4",
        "appendix e.1",
    ],
}

AUTHORS = {1: "Avella-Medina", 2: "Menart", 3: "Asi", 4: "Sopa"}

#: What implements an item: its docstring says paper, number and authors.
NAMES = {
    1: "papers.noisy_gradient_descent papers.noisy_newton optimize.GradientDescent "
    "optimize.Newton FreeScale Mallows "
    "models.Schweppe models.MallowsLinear Huber models.PseudoHuber LogCosh models.SmoothedHuber "
    "models.OstrovskiiBach optimize.damping.Damped optimize.damping.SelfConcordant "
    "optimize.damping.DecrementSwitch optimize.damping.GradientSwitch "
    "optimize.damping.Backtracking",
    2: "papers.Spider papers.Proximal papers.NoisyDescent papers.adaptive_descent "
    "optimize.Adaptive nonconvex.KL nonconvex.estimate_kl minimize",
    3: "models.SmoothAbsolute release.certify release_parameter release_functional "
    "papers.TestAndRelease",
    4: "tune bayesopt.Tuner bayesopt.AdaGrad bayesopt.GradientInformation",
}


#: What the method of each result says that is printed under a heading, by how the heading begins.
RAN = {
    "Equation (4)": "GradientDescent(", "Equation (6)": "GradientDescent(",
    "Section 3.2.1": "stop=1.5", "Equation (7)": "Newton(", "Lemma 1": "Newton(",
    "Equation (9)": "Newton(newton_steps=15, step=Damped(0.5))", "Section 4.4.1": "Damped(0.5)",
    "Remark 7": "gradient_steps=5", "Section 4.4.2, locally": "GradientSwitch(",
    "Section 4.4.2, self": "DecrementSwitch(", "Section 4.4.2: adaptive": "SelfConcordant()",
    "Equation (12)": "early_ridge=0.05", "Appendix C.3": "Newton(", "Appendix G": "Backtracking(10",
    "Algorithm 1, theorem 1, lemma 1": "Spider(", "Algorithm 2, theorem 2": "Proximal(",
    "Algorithm 3, theorems 3": "Adaptive(", "Theorem 5": "answer: exponential",
    "The default, which the paper does not have.": "clip='private'",
    "Algorithm 4, theorem 9": "one round: the mean loss plus L ||w - start||^2",
    "Algorithm 3, theorem 1": "global certificate", "Algorithm 5": "the paper's procedure",
    "The default, which the paper does not have: a pilot": "one Newton step from a pilot fit",
    "Section 3.2, equation (14)": "the paper's procedure",
    "Algorithm 1, theorem 3.1": "RBF(", "Appendix E.1 to E.3": "Matern52(",
    "Section 3.3": "noise_variance=0.01",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.usefixtures("repeated")
def test_every_call_runs_the_method_that_it_names():
    """And none hands over to another one, or leaves a choice of its own."""
    names, seen, against = {"__name__": "page"}, set(), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for heading, block in re.findall(
            r"^\*\*(.+?)\*\*|^```python\n(.*?)^```$", PAGE, flags=re.M | re.S
        ):
            if heading:
                title = " ".join(heading.split())
                continue
            tree = ast.parse(block)
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, title if seen else "start", "exec"), names)
            value = (
                eval(compile(ast.Expression(last.value), title, "eval"), names) if last else None
            )
            if not hasattr(value, "method"):
                continue
            begins = max((key for key in RAN if title.startswith(key)), key=len, default=None)
            seen.add(begins)
            if begins is None or RAN[begins] not in value.method or "handed" in value.method:
                against.append((title, value.method))
    assert not against, against
    assert seen == set(RAN)


def test_calls_have_three_lines_at_most():
    assert len(BLOCKS) > 30
    for block in BLOCKS[1:]:
        assert len(block.splitlines()) <= 3, block


@each("paper", ITEMS)
def test_every_item_of_a_paper_is_there(paper):
    told = PAPERS[paper - 1].lower()
    assert [item for item in ITEMS[paper] if item not in told] == []


def test_papers_can_be_found():
    for text in PAPERS:
        assert re.search(r"arXiv:\d{4}\.\d{5},\s+doi:10\.\d{4,5}/", text)


def test_claims_and_errata_that_are_named_exist():
    pages = [page for room in ("dpfast", "bench") for page in (ROOT / room).rglob("PROOFS*.md")]
    known = {
        name
        for page in pages
        for name in re.findall(r"^### ([A-Z]\d+)\.", page.read_text(encoding="utf-8"), re.M)
    }
    named = set(re.findall(r"\b([BCEGKR]\d+)\b", PAGE))
    assert len(named) > 40 and named <= known


@each("paper", ITEMS)
def test_every_stored_figure_is_named_and_every_named_one_stored(paper):
    folder = ROOT / "bench" / "results" / "figures" / f"paper{paper}"
    there = {path.stem for path in folder.glob("*.json")}
    named: set[str] = set()
    for told in re.findall(r"\b(?:Figures?|[Tt]able) ([^.]*)\.", PAPERS[paper - 1]):
        for first, last in re.findall(r"(\d+) to (\d+)", told):
            named |= {f"figure-{k}" for k in range(int(first), int(last) + 1)}
        named |= {f"figure-{k}" for k in re.findall(r"\b\d+\b", told)}
        named |= set(re.findall(r"[a-z-]{5,}", told))
    named |= {"table-1"} if re.search(r"\b[Tt]able 1\b", PAPERS[paper - 1]) else set()
    # figure 2 of paper 4 is stored in parts
    whole = {re.sub(r"(figure-2)-[a-z-]+$", r"\1", name) for name in there}
    assert whole - named == set()
    numbered = {name for name in named if name.startswith("figure-")}
    assert numbered - whole == set()


@each(
    ("paper", "name"), [(paper, name) for paper, names in NAMES.items() for name in names.split()]
)
def test_what_implements_an_item_says_which(paper, name):
    module, _, last = name.rpartition(".")
    found = getattr(import_module(f"dpfast.{module}") if module else dpfast, last)
    text = " ".join(found.__doc__.split())
    number = r"(?:[Aa]lgorithms?|[Ee]quations?|[Ss]ection|[Aa]ppendix|Example|rival of section)"
    assert re.search(rf"{number} [^.]*.*of paper {paper} \({AUTHORS[paper]}", text), text[:200]


def test_numbers_of_stored_results_are_read_from_their_files():
    """``python docs/quoted.py`` writes them; what is left is typed by hand."""
    path = ROOT / "docs" / "quoted.py"
    spec = spec_from_file_location("quoted", path)
    quoted = module_from_spec(spec)
    spec.loader.exec_module(quoted)
    assert {page.name for page in quoted.pages()} >= {"papers.md", "methods.md"}
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    texts = {path.name: path.read_text(encoding="utf-8") for path in paths}
    texts |= {name: thing.__doc__ or "" for name, thing in public().items()}
    by_hand = {name: quoted.unquoted(text) for name, text in texts.items()}
    assert {name: found for name, found in by_hand.items() if found} == {}
    for page in quoted.pages():
        text = page.read_text(encoding="utf-8")
        assert quoted.written(text) == text, page.name
