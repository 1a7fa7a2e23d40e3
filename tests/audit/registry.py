"""Every public callable that might see records: audited by calls of its own, or why it need not be.

A test enumerates the package with :func:`callables` and fails for a name that is neither in
called in ``tests.audit.calls`` nor exempt here, so that nothing new escapes the audit.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import dpfast

__all__ = ["EXEMPT", "callables", "reason_for_exemption"]

# ---- what needs no audit, and why ----------------------------------------------------------------

#: Qualified name of a callable, class or module: why replaying it would show nothing.
EXEMPT: dict[str, str] = {
    "dpfast.kernels": (
        "exact sums behind the Curator, imported by nothing else; attacked by the suite"
    ),
    "dpfast.audit": "the attacks themselves",
    "dpfast.scaling.weight_unit": "a purchase of `fit`, which is audited with weights",
    "dpfast.curator.noisy_release": "the seam of the audit; it hands out what others ask it to",
    "dpfast.curator.curator.Curator.__init__": "keeps the records; it answers through methods",
    "dpfast.curator.curator.Curator.plan": "public constants only",
    "dpfast.curator.curator.Curator.receipts": "public constants only",
    "dpfast.curator.curator.Curator.depth": "public constants only",
    "dpfast.curator.blocks": "samples behind the Curator, audited within fits at their size",
    "dpfast.curator.rotated": "sums behind `PreconditionedQueries`, attacked by test_whitened",
    "dpfast.curator.persons": "sums behind the Curator, attacked by test_persons",
    "dpfast.curator.effects": (
        "folds, and means of pseudo-outcomes, audited within treatment_effect and attacked by "
        "test_effects"
    ),
    "dpfast.curator.tables": "audited within dpfast.tables and attacked by tests/tables",
    "dpfast.tables.estimates.TableQuery": "what a table is made of; audited within each",
    "dpfast.studies": "passes columns to functions that are audited, and charges what they charge",
    "dpfast.tables.fitted": "holds released numbers only",
    "dpfast.inference.summary.render_table": "renders released numbers",
    "dpfast.tables.subgroups.masked": "leaves other levels out; audited within fits",
    "dpfast.tables.grouping": "codes columns by public facts; audited within each table",
    "dpfast.curator.fit_errors": "audited within goodness_of_fit, attacked by tests/tables",
    "dpfast.curator.column_scores": "choices of columns, audited within fit_sparse",
    "dpfast.regression.goodness.moments": "reads released numbers only",
    "dpfast.regression.goodness.GoodnessOfFit": "holds released numbers only",
    "dpfast.regression.few_records.descent": "asks a curator; audited within fits of few records",
    "dpfast.scaling.like": "holds a public table; fits with one are replayed by test_like",
    "dpfast.regression.like_fit": "a fit with a public table; replayed by test_like",
    "dpfast.solvers.pcn.like": "sees a curator's answers only; replayed by test_like",
    "dpfast.tables.waves": "asks a curator; replayed by test_waves",
    "dpfast.curator.waves": "sums behind the Curator, replayed and attacked by test_waves",
    "dpfast.regression.many.of_response": "selects a column; audited within fit_many",
    "dpfast.effects.moment_conditions": "asks a curator; audited within two_stage",
    "dpfast.tables.by_cell": "holds and renders released numbers only",
    "dpfast.curator.hazards": "audited within cox, attacked by tests/tables",
    "dpfast.regression.formula.table_source": "joins what belongs to a table, and reads nothing",
    "dpfast.effects.results.TreatmentEffect": "holds released numbers only",
    "dpfast.effects.nuisances": "sees a curator's answers only; audited within treatment_effect",
    "dpfast.curator.preconditioned": (
        "rows under released maps, asked by fits of least squares and audited with them"
    ),
    "dpfast.curator.nonconvex.gradients.GradientCurator.__init__": (
        "keeps the records; it answers through methods"
    ),
    "dpfast.curator.nonconvex.gradients.GradientCurator.with_ledger": (
        "the same curator, another ledger"
    ),
    "dpfast.curator.nonconvex.gradients.GradientCurator.keeping": (
        "the same curator, which says that less is left"
    ),
    "dpfast.curator.nonconvex.gradients.GradientCurator.with_scales": (
        "the same curator, which multiplies gradients by released numbers"
    ),
    "dpfast.curator.nonconvex.gradients.GradientCurator.check": "public constants only",
    "dpfast.curator.nonconvex.gradients.GradientCurator.can_clip": "whose gradients they are",
    "dpfast.curator.nonconvex.gradients.GradientCurator.remaining": (
        "what the ledger has left; public"
    ),
    "dpfast.curator.nonconvex.gradients.GradientCurator.select_stationary": (
        "audited within minimize: its scores against their sensitivity; the law of what is chosen "
        "is tested as a whole (claim K5)"
    ),
    "dpfast.curator.nonconvex.recordwise": "sums behind the GradientCurator, audited through it",
    "dpfast.curator.bounds": "public constants only",
    "dpfast.privacy.ledger.paid": "counts answers; sees no records",
    "dpfast.curator.joint": "public constants only",
    "dpfast.curator.steps": "offered as methods of the Curator, which are audited",
    "dpfast.curator.release.certified": (
        "a search inside of the certified releases, audited with them"
    ),
    "dpfast.curator.release.smooth": "a search inside of the certified releases, audited with them",
    "dpfast.curator.release.perturbation": (
        "audited within release_functional; the tilt is held fixed in a "
        "replay, so what is certified is the move of the minimiser under a common tilt"
    ),
    "dpfast.curator.release.projection": "shows a curator projected rows; releases nothing",
    "dpfast.curator.release.releases": (
        "audited within dpfast.release: the certificates' counts exactly, a functional "
        "against the public bound of its secret scale (the ratio of scales is attacked by "
        "tests/release)"
    ),
    "dpfast.curator.release.one_step": "audited within release_functional",
    "dpfast.curator.release.terms": "public constants only",
    "dpfast.release.request": "checks arguments; audited within each release",
    "dpfast.release.certified.CertifiedSession": "audited within each release",
    "dpfast.release.certified.certified_functionals": "audited within release_functional",
    "dpfast.release.pilot": "audited within release_functional",
    "dpfast.release.routes": "audited within release_functional",
    "dpfast.curator.blackbox.vectors.RecordValues.__init__": "holds no record yet",
    "dpfast.curator.blackbox.vectors.RecordValues.mean_receipt": "public constants only",
    "dpfast.curator.blackbox.vectors.RecordValues.choice_receipt": "public constants only",
    "dpfast.curator.blackbox.vectors.RecordValues.loss_grid": "public constants only",
    "dpfast.curator.blackbox.vectors.RecordValues.loss_receipt": "public constants only",
    "dpfast.curator.shares.share_receipt": "public constants only",
    "dpfast.curator.blackbox.vectors.RecordValues.depth": "public constants only",
    "dpfast.curator.blackbox.vectors.RecordValues.n_points": "counts points; public",
    "dpfast.privacy.budget.amount": "makes budgets; takes no records",
    "dpfast.privacy.budget.checked_numbers": "looks at the numbers of budgets; takes no records",
    "dpfast.curator.blackbox.vectors.checked_values": (
        "copies values for the Curator; checks shapes only"
    ),
    "dpfast.bayesopt.sklearn_losses": (
        "computes the caller's own losses, on the caller's side of the door"
    ),
    "dpfast.bayesopt.tuner.Tuner.__init__": "audited within Tuner.tell",
    "dpfast.bayesopt.tuner.Tuner.ask": "audited within Tuner.tell",
    "dpfast.bayesopt.tuner.Tuner.result": "audited within Tuner.tell",
    "dpfast.bayesopt.tuner.Tuner.theta": "audited within Tuner.tell",
    "dpfast.bayesopt.tuner.Tuner.done": "audited within Tuner.tell",
    "dpfast.bayesopt.tuner.Tuner.steps_paid": "audited within Tuner.tell",
    "dpfast.bayesopt.search": "audited within tune and Tuner.tell",
    "dpfast.bayesopt.portfolio": "audited within tune",
    "dpfast.bayesopt.tuned_losses": "audited within tune and private_clip",
    "dpfast.bayesopt.spending": "charges a budget; takes no records",
    "dpfast.fit_requests.request": "checks arguments; audited within each fit",
    "dpfast.fit_requests.account": "charges a budget; takes no records",
    "dpfast.fit_requests.persons": "as dpfast.fit_requests.request, of persons",
    "dpfast.cli.bench": "times fits and kernels of made-up records",
    "dpfast.privacy.ledger.reservation": "charges and returns budgets; takes no records",
    "dpfast.regression.formula.read_formula": "evaluates terms row by row; audited within fit",
    "dpfast.saved": "writes and reads results; no records",
    "dpfast.arguments.refuse_names": "looks at types alone",
    "dpfast.errors.understood": "looks at the names of arguments alone",
    "dpfast.hints": "says what to type; looks at names and types alone",
    "dpfast.fit_requests.targets": "checks arguments; audited within what asks for gradients",
    "dpfast.regression.method_fit.MethodFits": "audited within fit and fit_quantiles",
    "dpfast.fit_requests.rows": "reads the new rows of a prediction, by public facts",
    "dpfast.inference.after_fit": "questions to released numbers; reads the rows of predictions",
    "dpfast.inference.hypotheses": "tests of released numbers; their rows are weights",
    "dpfast.inference.margins": "effects from released numbers, at the rows of predictions",
    "dpfast.inference.adapters": "released numbers for another package, and public rows",
    "dpfast.plots": "draws released numbers, and predictions at public rows",
    "dpfast.bayesopt.result": "holds released numbers only",
    "dpfast.inference.rendering": "released numbers as text, tables and pages",
    "dpfast.inference.guarantees": "what was spent, from the entries of ledgers",
    "dpfast.privacy.ledger.book.Entry": "a label and a budget",
    "dpfast.inference.natural": "linear algebra of released numbers; reads predictions' rows",
    "dpfast.inference.named": "names beside released numbers",
    "dpfast.inference.rows": "protocols of what reads new rows; they hold nothing",
    "dpfast.data": "wraps arrays for the Curator without looking at values; audited within fit",
    "dpfast.curator.scaling": "audited within dpfast.standardize",
    "dpfast.scaling.budget": "audited within fit",
    "dpfast.regression.default_fit.DefaultFit": "audited within fit",
    "dpfast.regression.fit.default_fit": "audited within fit",
    "dpfast.regression.default_result": "holds released numbers and public facts only",
    "dpfast.scaling.search": "sees a curator's answers only; audited within standardize",
    "dpfast.scaling.standardized.Standardized": "holds released numbers only; codes rows by them",
    "dpfast.curator.shares": "audited within dpfast.private_quantiles",
    "dpfast.estimators": "adapters of fit; audited in tests/estimators",
    "dpfast.datasets": "public example data",
    "dpfast.regression.forecast": "takes a public pilot only, and says so",
    "dpfast.release.forecast": "takes a public pilot only, and says so",
    "dpfast.cli.demo": "prints a fit of public example data",
    "dpfast.nonconvex.kl": "for public data, as its parameters' names say",
    "dpfast.models.nonconvex": (
        "public settings and functions of single records; audited within minimize"
    ),
    "dpfast.nonconvex.minimize.Minimum": "holds released numbers only; predict takes new rows",
    "dpfast.inference.results.Fit": "holds released numbers only; predict takes new rows",
    "dpfast.regression.quantiles.results": "holds released numbers only; predict takes new rows",
    "dpfast.models.objective.Objective": "public settings",
    "dpfast.models.free_scale.FreeScale": "public settings",
    "dpfast.models.domains": (
        "moves rows onto a declared set, one by one, before the Curator sums them"
    ),
    "dpfast.models.products": "as dpfast.models.domains",
    "dpfast.curator.release.kinds": "audited within each release",
    "dpfast.curator.release.recursion": (
        "functions of public constants and of one eigenvalue, whose sensitivity is claims R12 "
        "and R13; takes no records"
    ),
    "dpfast.privacy.ledger.book.Ledger": "counts public budgets",
    "dpfast.privacy.ledger.book.cost_in_quanta": "counts public budgets",
    "dpfast.privacy.mechanisms.release_together": (
        "adds noise to the means behind a Curator, which is audited"
    ),
    "dpfast.privacy.noise": "draws noise; takes no records",
    "dpfast.papers": "sees answers only; audited within minimize",
    "dpfast.optimize": (
        "settings of optimisers, which see a Curator's answers only; audited within fit"
    ),
    "dpfast.solvers": "sees a curator's answers only; audited within fit",
}

#: Classes whose subclasses hold public settings and take no records.
_PUBLIC_KINDS = (
    "dpfast.errors.DpfastError",
    "dpfast.errors.DpfastWarning",
    "dpfast.models.losses.Loss",
    "dpfast.models.weighting.Weighting",
    "dpfast.optimize.schedules.Schedule",
    "dpfast.privacy.budget.Budget",
    "dpfast.privacy.noise.NoiseSource",
)


def reason_for_exemption(name: str) -> str | None:
    """Why a callable needs no example, or None if it does."""
    if name.rsplit(".", 1)[-1].startswith("nonprivate_"):
        return "not private, and its name says so"
    parts = name.split(".")
    for end in range(len(parts), 1, -1):
        reason = EXEMPT.get(".".join(parts[:end]))
        if reason:
            return reason
    return None


# ---- enumeration ---------------------------------------------------------------------------------

#: Names of parameters that hold records, wherever they appear.
RECORD_PARAMETERS = frozenset(
    {
        "X",
        "y",
        "records",
        "data",
        "curator",
        "table",
        "frame",
        "df",
        "dataset",
        "blocks",
        "rows",
        "losses",
        "gradients",
        "values",
    }
)


def callables() -> dict[str, Any]:
    """Every public callable that might see records, by qualified name.

    All names of dpfast and its rooms that are not a public setting by its base class; every public
    function that takes a parameter from :data:`RECORD_PARAMETERS`; every public method and property
    of a class with such a method (its constructor included).
    """
    kinds = tuple(
        getattr(import_module(kind.rsplit(".", 1)[0]), kind.rsplit(".", 1)[1])
        for kind in _PUBLIC_KINDS
    )
    found: dict[str, Any] = {}
    rooms = ("", "inference", "nonconvex", "privacy", "quantiles", "regression")
    homes = [import_module(f"dpfast.{room}".rstrip(".")) for room in rooms]
    for exported in [getattr(home, name) for home in homes for name in home.__all__]:
        if callable(exported) and not (inspect.isclass(exported) and issubclass(exported, kinds)):
            found[f"{exported.__module__}.{exported.__qualname__}"] = exported
    for module in _modules():
        for name, thing in vars(module).items():
            if name.startswith("_") or getattr(thing, "__module__", None) != module.__name__:
                continue
            qualified = f"{module.__name__}.{name}"
            if inspect.isclass(thing):
                methods = _public_methods(thing)
                if any(_takes_records(method) for method in methods.values()):
                    found.pop(qualified, None)
                    found |= {f"{qualified}.{key}": method for key, method in methods.items()}
            elif callable(thing) and _takes_records(thing):
                found[qualified] = thing
    return found


def _modules() -> Iterator[Any]:
    for info in pkgutil.walk_packages(dpfast.__path__, "dpfast."):
        if not info.name.endswith("__main__"):
            try:
                yield import_module(info.name)
            except ModuleNotFoundError as error:
                # An adapter to an optional package that is not installed cannot be called either.
                if (error.name or "").startswith("dpfast"):
                    raise


def _public_methods(kind: type) -> dict[str, Any]:
    return {
        name: method
        for name, method in vars(kind).items()
        if (name in ("__init__", "__call__") or not name.startswith("_"))
        and (isinstance(method, property) or callable(getattr(method, "__func__", method)))
    }


def _takes_records(thing: Any) -> bool:
    if isinstance(thing, property):
        return False
    try:
        signature = inspect.signature(getattr(thing, "__func__", thing))
    except (TypeError, ValueError):
        return True  # unknown: it has to be registered or exempt
    return not RECORD_PARAMETERS.isdisjoint(signature.parameters)
