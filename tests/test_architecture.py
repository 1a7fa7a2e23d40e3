"""The rules of the house that can be read off the source: who imports whom, who draws noise."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import numpy as np
import pytest

import dpfast
from tests import structure
from tests.loops import each
from tests.sources import tree as tree_of

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "dpfast"
FILES = sorted(PACKAGE.rglob("*.py"))
STUBS = sorted(PACKAGE.rglob("__init__.pyi"))  # of packages that load names on first use

RECORD_KERNELS = ("dpfast.kernels.records", "dpfast.kernels.keys", "dpfast.kernels.session")
ADAPTERS = {"estimators", "plots", "cli", "__main__"}
#: Behind the door of answers: they see no record.
BEHIND_THE_DOOR = {"optimize", "solvers", "inference"}
#: Whole analyses, each from its arguments to its result.
ANALYSES = {"regression", "nonconvex", "release", "effects", "bayesopt", "tables"}
BASE = {"errors", "arguments", "documents", "kernels", "models", "data", "privacy", "curator"}

# What each room may import from dpfast besides itself.  A room or top-level module that is not
# listed may import every room, but no adapter.
ALLOWED = {
    "lazy": {"hints"},  # what to type, once something was refused
    "errors": {"hints"},
    "arguments": {"errors"},
    "documents": {"errors"},  # files that are written whole and read whole
    "hints": set(),
    "kernels": {"errors"},
    "models": {"errors", "arguments", "kernels"},
    "data": {"errors", "arguments", "documents", "hints", "kernels"},
    "datasets": {"errors"},
    "privacy": {"errors", "kernels"},
    "curator": BASE - {"curator"},
    "optimize": BASE,
    "solvers": BASE,
    "inference": (BASE | {"hints", "optimize"}) - {"data"},  # statistics of what was released
    "fit_requests": BASE | {"inference"},
    "papers": BASE | {"optimize"},  # algorithms as printed, on the optimisers' parts
    "scaling": BASE | BEHIND_THE_DOOR | {"fit_requests"},
} | {
    room: (BASE | BEHIND_THE_DOOR | ANALYSES | {"fit_requests", "papers", "scaling"}) - {room}
    for room in ANALYSES
}


def name_of(path: Path) -> str:
    """Dotted module name."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str:
    """First name below `dpfast`; "" for the package itself."""
    return [*module.split("."), ""][1]


@cache
def imports_of(path: Path) -> frozenset[str]:
    """Every module imported anywhere in the file; ``from a import b`` counts as a and a.b."""
    package = name_of(path).split(".")
    if path.stem != "__init__":
        package = package[:-1]
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*start, *((node.module or "").split(".") if node.module else [])])
            found.add(base)
            found.update(f"{base}.{alias.name}" for alias in node.names)
    return frozenset(found)


@cache
def module_of(imported: str) -> str:
    """The part of a dotted import that is a module, without the names taken from it."""
    parts = imported.split(".")
    while len(parts) > 1:
        path = ROOT.joinpath(*parts)
        if path.is_dir() or list(path.parent.glob(f"{path.name}.py*")):
            break
        parts.pop()
    return ".".join(parts)


@cache
def dpfast_imports(path: Path) -> set[str]:
    return {
        module_of(name) for name in imports_of(path) if name == "dpfast" or name[:7] == "dpfast."
    }


def by_room(room: str) -> list[Path]:
    return [path for path in FILES if room_of(name_of(path)) == room]


def is_or_is_in(module: str, parents: tuple[str, ...]) -> bool:
    return any(module == parent or module.startswith(f"{parent}.") for parent in parents)


def test_there_is_something_to_check():
    assert len(FILES) > 20
    rooms = {room_of(name_of(path)) for path in FILES}
    assert {"kernels", "models", "data", "privacy", "curator"} | BEHIND_THE_DOOR <= rooms


def test_the_parser_sees_every_form_of_import():
    path = PACKAGE / "regression" / "decisions.py"
    assert "dpfast.optimize.planning" in dpfast_imports(path)
    assert module_of("dpfast.privacy.budget.GDP") == "dpfast.privacy.budget"
    assert module_of("dpfast.curator.Curator") == "dpfast.curator"
    assert module_of("dpfast.kernels.records") == "dpfast.kernels.records"


@each("path", [*FILES, *STUBS], ids=name_of)
def test_dependency_direction(path):
    room = room_of(name_of(path))
    used = {room_of(module) for module in dpfast_imports(path) if module != "dpfast"}
    used -= {room, "lazy"}  # the latter loads names of a room and knows nothing
    if room in ADAPTERS or path == PACKAGE / "__init__.pyi":  # the latter lists all
        return
    if room in ALLOWED:
        assert used <= ALLOWED[room], f"{name_of(path)} imports {used - ALLOWED[room]}"
        # the top-level package is lazy: importing a public name from it would hide a dependency
        assert "dpfast" not in imports_of(path)
    else:
        assert not used & ADAPTERS, f"{name_of(path)} imports the adapter {used & ADAPTERS}"


def test_the_rooms_form_no_circle():
    graph: dict[str, set[str]] = {}
    for path in FILES:
        room = room_of(name_of(path))
        if room and room not in ADAPTERS:
            graph.setdefault(room, set()).update(
                room_of(module) for module in dpfast_imports(path) if room_of(module)
            )
    for room, used in graph.items():
        used.discard(room)
    list(TopologicalSorter(graph).static_order())  # raises CycleError


def test_modules_form_no_circle_but_one():
    """Lazy imports count: only a ledger opens its own kind in a file."""
    modules = {structure.module_name(path) for path in FILES}
    graph = {structure.module_name(path): structure.imports(path, modules) for path in FILES}
    rooms = {tuple(sorted({name.rpartition(".")[0] for name in group}))
             for group in structure.cycles(graph)}  # fmt: skip
    assert rooms == {("dpfast.privacy.ledger",)}


def test_few_functions_take_the_covariates_and_none_returns_them():
    X = np.random.default_rng(0).normal(size=(500, 2))
    frame = pytest.importorskip("pandas").DataFrame(X, columns=["a", "b"])
    for covariates in (X, frame):
        down, up = structure.stays(covariates, X.sum(axis=1), privacy=1.0)
        assert 0 < sum(down.values()) <= 20, down
        assert not up


#: Analyses of 4,001 records: no other array has that many rows.
N_ROWS = 4001


def sparse(X, y):
    dpfast.regression.fit_sparse(
        X, y, privacy=4.0, n_nonzero_coefs=2, of_interest=["x1"], noise=dpfast.SeededNoise(0)
    )


def one_coefficient(X, y):
    dpfast.release_functional(
        X, y, "log-cosh", "x1", privacy=dpfast.ApproxDP(4.0, 1e-6), noise=dpfast.SeededNoise(0)
    )


def waves(X, y):
    growing = dpfast.tables.Waves(4.0, waves=2, noise=dpfast.SeededNoise(0))
    growing.update(X, y)
    growing.update(X, y)


ASKED = {
    "fit": lambda X, y: dpfast.fit(X, y, privacy=4.0, noise=dpfast.SeededNoise(0)),
    "treatment_effect": lambda X, y: dpfast.effects.treatment_effect(
        X[:, 1:], (X[:, 0] > 0.0) * 1.0, y, privacy=4.0, noise=dpfast.SeededNoise(0)
    ),
    "fit_sparse": sparse, "release_functional": one_coefficient, "Waves": waves,
}  # fmt: skip


#: Which fold each record is dealt to, at random; no data.
DEALT = {"dpfast/curator/effects.py:Trial.folds"}


@each("name", ASKED)
def test_the_curator_hands_nobody_its_rows(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 6))
    y = X @ [1.0, 0.5, 0.0, 0.0, -1.0, 0.0] + rng.normal(size=N_ROWS)
    assert structure.crossings(lambda: ASKED[name](X, y), N_ROWS) <= DEALT


@each("path", FILES, ids=name_of)
def test_only_the_curator_touches_records(path):
    if room_of(name_of(path)) in {"curator", "kernels"} or name_of(path) == "dpfast.cli.bench":
        return  # the last one makes its records up
    touching = {m for m in dpfast_imports(path) if is_or_is_in(m, RECORD_KERNELS)}
    assert not touching, f"{name_of(path)} imports {touching}"


@each("path", by_room("privacy"), ids=name_of)
def test_privacy_imports_little(path):
    for imported in imports_of(path):
        top = imported.split(".")[0]
        if top == "dpfast":
            module = module_of(imported)
            assert (
                room_of(module) in {"", "privacy", "errors"}
                # special is the functions of scipy.special, loaded without their package
                or is_or_is_in(module, ("dpfast.kernels.sampler", "dpfast.kernels.special"))
                or imported == "dpfast.kernels"
            ), f"{name_of(path)} imports {imported}"
        elif top == "scipy":
            assert imported == "scipy" or is_or_is_in(imported, ("scipy.special",)), imported
        else:
            assert top == "numpy" or top in sys.stdlib_module_names, imported


@each("path", FILES, ids=name_of)
def test_only_the_noise_module_draws_random_numbers(path):
    if name_of(path) == "dpfast.privacy.noise":
        return
    sources = ("random", "secrets", "numpy.random", "scipy.stats", "uuid", "os.urandom")
    drawn = {name for name in imports_of(path) if is_or_is_in(name, sources)}
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            dotted = f"{node.value.id}.{node.attr}"
            if dotted in {"np.random", "numpy.random", "os.urandom", "os.getrandom"}:
                drawn.add(dotted)
    assert not drawn, f"{name_of(path)} draws from {drawn}"


#: What of `dpfast.privacy` draws from a noise source and releases nothing by it.
SECRET_RANDOMNESS = {
    "chunk_keys", "random_parts", "normal_vector", "scatter", "secret_choices",
}  # fmt: skip
DOOR = "dpfast.curator.noisy_release"
#: What the compiled session does for the door: it charges, and adds noise to means.
DOOR_HANDLES = {"release_with_noise", "release_jointly_with_noise"}
#: Who draws noise beside the mechanisms: an observed source, public simulations, measured time.
DRAWING = {
    "dpfast.audit.transcript",
    "dpfast.cli.bench",
    "dpfast.nonconvex.kl",
}


def functions_of(path: Path) -> list[ast.FunctionDef]:
    return [node for node in tree_of(path).body if isinstance(node, ast.FunctionDef)]


@cache
def words_of(path: Path) -> set[str]:
    """Every name of a file: imported, used, reached by a dot or as a text on its own."""
    found: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found.update(alias.name.split(".")[-1] for alias in node.names)
        elif isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)  # getattr
    return found


@cache
def mechanisms() -> set[str]:
    """Functions of `dpfast.privacy` that take a noise source; a new one is found by itself."""
    return {
        function.name
        for path in by_room("privacy")
        for function in functions_of(path)
        if name_of(path) != "dpfast.privacy.noise" and not function.name.startswith("_")
        for argument in (*function.args.args, *function.args.kwonlyargs)
        if argument.annotation is not None and "NoiseSource" in ast.unparse(argument.annotation)
    }


def test_the_door_has_its_handles():
    assert words_of(PACKAGE / "curator" / "noisy_release.py") >= DOOR_HANDLES


def test_mechanisms_are_told_from_secret_randomness():
    found = mechanisms()
    assert found >= SECRET_RANDOMNESS
    assert found - SECRET_RANDOMNESS == {
        "choose_smallest", "release_integer", "release_scaled", "release_together",
    }  # fmt: skip


@each("path", FILES, ids=name_of)
def test_every_answer_goes_through_the_door(path):
    """Mechanisms are called at the door only, and only the curator asks the door for answers."""
    name, room = name_of(path), room_of(name_of(path))
    if room == "privacy":
        return
    used = words_of(path) & (mechanisms() - SECRET_RANDOMNESS)
    assert not used or name == DOOR, f"{name} goes around the door: {used}"
    sampled = {module for module in dpfast_imports(path) if module == "dpfast.kernels.sampler"}
    assert not sampled, f"{name} imports {sampled}"
    methods = {node.attr for node in ast.walk(tree_of(path)) if isinstance(node, ast.Attribute)}
    drawn = methods & {"normals", "discrete_laplace", "words"}
    assert not drawn or name in DRAWING, f"{name} draws {drawn}"
    opened = words_of(path) & DOOR_HANDLES
    assert not opened or room == "curator", f"{name} asks the door: {opened}"


@each("path", FILES, ids=name_of)
def test_imports_have_no_process_wide_side_effects(path):
    """Warning filters, thread settings and environment variables belong to the caller."""
    for node in ast.walk(tree_of(path)):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        assert called not in {
            "warnings.filterwarnings", "warnings.simplefilter", "np.seterr", "numpy.seterr",
            "os.putenv", "os.environ.setdefault", "os.environ.update", "os.sched_setaffinity",
        }, f"{name_of(path)} calls {called}"  # fmt: skip
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                assert not ast.unparse(target).startswith("os.environ["), name_of(path)


@each("path", FILES, ids=name_of)
def test_modules_are_nouns_of_readable_length(path):
    assert path.stem not in {"utils", "util", "helpers", "misc", "common"}


LANGUAGES = {".c", ".h", ".md", ".pxd", ".pxi", ".py", ".pyi", ".pyx", ".toml"}


#: Refusals of `dpfast.arguments`.
CHECKED = re.compile(
    r"must (lie in [\[(][^{;]*[\])]; |be positive and finite; |be at least 0 and finite; "
    r"|be a whole number )"
)
#: Who words them anew: the room of privacy stands alone; two look at more than one number at once.
OWN_CHECKS = {"arguments", "kernels", "privacy"}


@each("path", FILES, ids=name_of)
def test_arguments_are_checked_in_one_place(path):
    """`number_in`, `positive` and `whole_number` say what these messages say."""
    if room_of(name_of(path)) in OWN_CHECKS:
        return
    own = [text for text in strings_in(path) if CHECKED.search(text)]
    assert not own, f"{name_of(path)} checks by itself: {own}"


@each("path", FILES, ids=name_of)
def test_margins_for_rounding_are_proved_in_one_place(path):
    """`dpfast.privacy.rounding` names them; models, which know nothing of it, keep their own."""
    if room_of(name_of(path)) == "models" or name_of(path).endswith("privacy.rounding"):
        return
    own = re.findall(r"1\.0 [+-] 2\.0\*\*-(?!53)\d+|[A-Z_]*MARGIN = .*", path.read_text("utf-8"))
    # the last two are proved over boxes, in C2 and C45
    known = {"JOINT_MARGIN = 3.0", "DELTA_MARGIN = 2e-11", "QUANTILE_MARGIN = 1e-11"}
    assert set(own) <= known, f"{name_of(path)}: {own}"


def test_least_squares_say_below_what_a_singular_value_is_zero():
    """NumPy 1 warns where ``rcond`` is missing, and an error made of that loses what was paid."""
    against = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for room in ("dpfast", "bench", "tests", "examples")
        for path in sorted((ROOT / room).rglob("*.py"))
        if "lstsq(" in (text := path.read_text(encoding="utf-8"))
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("np.linalg.lstsq")
        and "rcond" not in [given.arg for given in call.keywords]
    ]  # fmt: skip
    assert not against, against


def sources_in(*rooms: str) -> list[Path]:
    """Files that people write; what Cython generates is as long as it likes."""
    found = [path for room in rooms for path in (ROOT / room).rglob("*")]
    generated = {path.with_suffix(".c") for path in found if path.suffix == ".pyx"}
    return sorted(p for p in found if p.suffix in LANGUAGES and p not in generated)


def test_files_are_of_readable_length():
    """In every language; proofs are read in one piece."""
    long = {
        str(path.relative_to(ROOT)): length
        for path in sources_in("dpfast", "csrc", "bench/figures")
        if (length := len(path.read_text(encoding="utf-8").splitlines())) > 700
        and not path.name.startswith("PROOFS")
    }
    assert not long, f"files that need a split: {long}"


def code_lines(path: Path) -> int:
    """Lines that are neither blank nor comment nor docstring."""
    docstrings = {
        line
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    return sum(
        bool(line.strip()) and not line.strip().startswith("#") and number not in docstrings
        for number, line in lines
    )


def test_the_auditable_core_can_be_read_in_an_afternoon():
    """Budgets, ledgers, noise, mechanisms, sensitivities, margins."""
    room = PACKAGE / "privacy"
    files = [*room.glob("*.py"), *(room / "ledger").glob("*.py")]
    core = {str(path.relative_to(room)): code_lines(path) for path in files}
    known = {"budget.py", "ledger/book.py", "noise.py", "mechanisms.py", "sensitivity.py"}
    assert known <= set(core)
    assert 1000 < sum(core.values()) < 2000, core


def strings_in(path: Path) -> set[str]:
    """String literals that are not docstrings."""
    return {
        node.value
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_build_flags_keep_ieee_semantics_and_run_anywhere():
    values = {
        target.id: ast.literal_eval(node.value)
        for node in ast.walk(tree_of(ROOT / "setup.py"))
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id.endswith("_ARGS")
    }
    flags = [flag for arguments in values.values() for flag in arguments]
    assert "-O3" in flags
    allowed = {"-O3", "-g0", "-std=gnu11", "-pthread", "-fno-math-errno", "-fno-trapping-math"}
    assert set(flags) <= allowed, f"explain {set(flags) - allowed} here before shipping it"


@each(
    "path",
    sorted((ROOT / "csrc").rglob("*.[ch]")) + sorted((ROOT / "csrc").rglob("*.p[yx][xi]")),
    ids=str,
)
def test_sources_ask_for_no_unsafe_optimisation(path):
    text = path.read_text(encoding="utf-8")
    if text.startswith("/* Generated by Cython"):
        return
    assert "#pragma omp" not in text
    assert "<omp.h>" not in text
    assert "prange" not in text
    for line in text.splitlines():
        if "fast-math" in line or "Ofast" in line:
            assert "#error" in line or ("#pragma" not in line and "optimize" not in line), line


@each("path", FILES, ids=name_of)
def test_no_numba_fastmath(path):
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.keyword) and node.arg == "fastmath":
            assert isinstance(node.value, ast.Constant)
            assert node.value.value is False


def test_a_nonprivate_result_says_so():
    """What is not paid for is called `nonprivate_...`; the comparison fit is the only door."""
    tree = tree_of(PACKAGE / "regression" / "nonprivate.py")
    public = [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    ]
    assert public
    assert all(name.startswith("nonprivate_") for name in public)
