"""Calls of every public function that answers questions about records, for replay.

Each call checks one combination of options.  A new public function gets its calls here.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from dpfast.curator import Curator, StepBudget
from dpfast.curator.nonconvex.gradients import GradientCurator
from dpfast.data import as_records
from dpfast.models import (
    Bounded,
    Clip,
    FreeScale,
    Mallows,
    MallowsLinear,
    Objective,
    Schweppe,
    resolve_loss,
)
from dpfast.models.losses import LOSSES as BUILT_IN
from dpfast.models.nonconvex import PerRecordObjective, one_hidden_layer
from dpfast.nonconvex.minimize import minimize
from dpfast.optimize import DoubleNoise, Geometric, GradientDescent, Newton, Uniform
from dpfast.optimize.damping import (
    AveragingTail,
    Backtracking,
    Damped,
    DecrementSwitch,
    SelfConcordant,
)
from dpfast.optimize.nonconvex.adaptive import Adaptive
from dpfast.optimize.nonconvex.proximal import NoisyDescent, Proximal
from dpfast.optimize.nonconvex.spider import Spider
from dpfast.privacy.budget import GDP, ZCDP, ApproxDP, Budget, PureDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import EntropyNoise, SeededNoise
from dpfast.regression.fit import fit

__all__ = ["MAKERS", "Example", "examples"]


class Example(NamedTuple):
    """One call to audit.

    Attributes
    ----------
    name : str
        Qualified name of the public callable.
    label : str
        Which options it is called with.
    call : callable
        Takes ``(X, y)`` with two covariates.
    binary : bool
        Whether y must be in {0, 1}.
    budget : budget
        What the call claims to spend.
    """

    name: str
    label: str
    call: Callable[[Any], Any]
    binary: bool
    budget: Budget


def examples() -> list[Example]:
    """Every registered call."""
    return [example for make in MAKERS for example in make()]


#: Losses that are tried with every option, and the rest of the built-in ones.
LOSSES = ("huber", "log-cosh", "pseudo-huber", "logistic")
OTHERS = tuple(name for name in BUILT_IN if name not in LOSSES)
REDESCENDING = tuple(name for name in OTHERS if not resolve_loss(name).has_curvature)
CURVED = tuple(name for name in OTHERS if name not in REDESCENDING)
WEIGHTS = (None, Mallows(1.5), Bounded(1.5), Clip(0.8))
METHODS = ("newton", "gradient-descent")


def _fit(label: str, loss: str, **options: Any) -> Example:
    budget = options.setdefault("privacy", GDP(1.0))
    binary = loss == "logistic"
    if not binary:
        options.setdefault("scale", 0.8)

    def call(data: Any) -> Any:
        own = dict(options)
        if "ledger" in own:  # state belongs inside the call
            own["ledger"] = Ledger(own["ledger"])
        result = fit(data[0], data[1], loss, **own)
        # What is derived from a result is published as often as the result.
        return result, result.summary(), result.to_dict(), repr(result)

    return Example("dpfast.regression.fit.fit", f"{loss}, {label}", call, binary, budget)


def _fits() -> Iterator[Example]:
    for loss, weights, method, inference in product(LOSSES, WEIGHTS, METHODS, (True, False)):
        if isinstance(weights, Clip) and (method == "newton" or inference):
            continue  # clipped scores have no Hessian
        label = f"{weights}, {method}, inference={inference}"
        yield _fit(label, loss, weights=weights, method=method, inference=inference, steps=4)
    for loss in LOSSES:
        yield _fit("defaults", loss)
        yield _fit("no intercept, ridge", loss, fit_intercept=False, ridge=0.1)
        yield _fit("uniform schedule, start", loss, schedule=Uniform(), start=[0.3, -0.1, 2.0])
        yield _fit("far start", loss, start=[1e3, -1e6, 1e3], steps=3)
    yield _fit("averaged", "huber", method=GradientDescent(average=0.5), steps=6)
    yield _fit("long steps", "huber", method=GradientDescent(step_size=1e6), steps=6)
    yield _fit("one Newton step", "log-cosh", method=Newton(newton_steps=1), steps=2)
    yield _fit("steep schedule", "log-cosh", schedule=Geometric(10.0, 0.05), steps=5)
    for loss in CURVED:
        for kept in (None, Schweppe(1.5), Bounded(1.5)):
            yield _fit(repr(kept), loss, weights=kept, steps=4)
        yield _fit("first power", loss, weights=MallowsLinear(1.5), inference=False, steps=4)
    schweppe = Schweppe(1.5)
    yield _fit("Schweppe", "huber", weights=schweppe, method="gradient-descent", steps=4)
    yield _fit("Schweppe", "log-cosh", weights=schweppe, method=Newton(step=SelfConcordant()))
    for loss in REDESCENDING:
        yield _fit("redescending", loss, inference=False, steps=4)
    yield _fit("names, threads", "log-cosh", names=["a", "b"], threads=2)
    yield _fit("shared ledger", "log-cosh", ledger=GDP(2.0))
    yield _fit("shared ledger too small", "log-cosh", ledger=GDP(0.5))
    for loss, weights, method in product(LOSSES[:3], WEIGHTS[:3], METHODS):
        free = FreeScale(0.05, 20.0)
        yield _fit(f"free scale, {weights}, {method}", loss, scale=free, weights=weights,
                   method=method, steps=4)  # fmt: skip
    yield _fit("free scale, far start", "huber", scale=FreeScale(1e-6, 1e6, 1e-6), steps=3)
    bounded = Bounded(1.5)
    for newton in (
        Newton(gradient_steps=2),
        Newton(early_ridge=0.3),
        Newton(max_step=0.01, floor=0.2),
        Newton(step=Damped(0.5)),
        Newton(step=AveragingTail(0.5, 2)),
        Newton(step=SelfConcordant()),
        Newton(step=DecrementSwitch()),
        Newton(step=Backtracking(3)),
    ):
        yield _fit(repr(newton), "log-cosh", method=newton, weights=bounded, steps=5)
    for double in (
        DoubleNoise(),
        DoubleNoise(damping=1e-3, max_step=0.5),
        DoubleNoise(newton_steps=5),
    ):
        yield _fit(repr(double), "log-cosh", method=double, steps=5)
    for loss in LOSSES:
        yield _fit("double noise", loss, method="double-noise", steps=3, ridge=0.1)
        yield _fit("estimated step", loss, method=GradientDescent(step_size="estimated"), steps=3)
    for budget in (GDP(0.1), ZCDP(0.5), ApproxDP(1.0, 1e-6), GDP(50.0)):
        yield _fit(repr(budget), "log-cosh", privacy=budget)


def _joint_releases() -> Iterator[Example]:
    budgets = {
        "gradient": StepBudget(1.0),
        "gradient + hessian": StepBudget(0.8, 0.7),
        "gradient + majorizer": StepBudget(0.8, 0.7, majorize=True),
        "gradient + meat": StepBudget(0.7, 0.0, 0.5),
        "all": StepBudget(0.6, 0.5, 0.4),
    }
    for (label, budget), loss, weights in product(
        budgets.items(), LOSSES, (Mallows(1.5), Bounded(1.5), Clip(0.8))
    ):
        if isinstance(weights, Clip) and budget.hessian:
            continue
        scale = None if loss == "logistic" else 0.8
        objective = Objective(resolve_loss(loss), weights, 2, scale=scale)

        def call(data: Any, objective: Objective = objective, budget: StepBudget = budget) -> Any:
            curator = Curator(as_records(*data), objective, Ledger(5.0), EntropyNoise())
            theta = np.array([0.2, -0.4, 0.3])
            return [curator.joint(theta * length, budget) for length in (0.0, 1.0, 1e3, 1e300)]

        name = "dpfast.curator.curator.Curator.joint"
        yield Example(name, f"{loss}, {weights}, {label}", call, loss == "logistic", GDP(2.0 * 1.5))
        if loss == "logistic" or isinstance(weights, Clip):
            continue
        joint = Objective(resolve_loss(loss), weights, 2, free_scale=FreeScale(1e-3, 1e3))

        def ask(data: Any, objective: Objective = joint, budget: StepBudget = budget) -> Any:
            curator = Curator(as_records(*data), objective, Ledger(5.0), EntropyNoise())
            theta = np.array([0.2, -0.4, 0.3, 0.0])
            answers = []
            for length, scale in ((0.0, 1.0), (1.0, 1e-3), (1e3, 1e3), (1e300, 1.0)):
                at = theta * length
                at[-1] = scale
                answers.append(curator.joint(objective.project(at), budget))
            return answers

        yield Example(name, f"free scale, {loss}, {weights}, {label}", ask, False, GDP(2.0 * 1.5))


def _steering_queries() -> Iterator[Example]:
    near, far = np.array([0.2, -0.4, 0.3]), np.array([1e3, -1e6, 1e3])
    queries: dict[str, list[Callable[[Curator], Any]]] = {
        "loss_difference": [
            lambda room: room.loss_difference(near, np.zeros(3), 1.0),
            lambda room: room.loss_difference(near, near, 1.0),
            lambda room: room.loss_difference(far, near, 1.0),
            lambda room: room.loss_difference(near * (1.0 + 1e-12), near, 1.0),
        ],
        "extreme_eigenvalue": [
            lambda room: room.extreme_eigenvalue(near, 1.0, largest=True),
            lambda room: room.extreme_eigenvalue(near, 1.0, largest=False),
            lambda room: room.extreme_eigenvalue(far, 1.0, largest=False),
        ],
        "largest_curvature": [
            lambda room: room.largest_curvature(1.0),
        ],
        "damped_direction": [
            lambda room: room.damped_direction(near, np.ones(3), 0.1, 1.0),
            lambda room: room.damped_direction(far, np.array([1e5, 0.0, -1e-5]), 1e-3, 1.0),
            lambda room: room.damped_direction(near, np.ones(3), 1e3, 1.0),
            lambda room: room.damped_direction(near, np.ones(3), 0.1, 1.0, majorize=True),
            lambda room: room.damped_direction(far, np.ones(3), 1e-3, 1.0, majorize=True),
        ],
    }
    for (method, asked), loss, weights in product(
        queries.items(), LOSSES, (Mallows(1.5), Bounded(1.5))
    ):
        scale = None if loss == "logistic" else 0.8
        objective = Objective(resolve_loss(loss), weights, 2, scale=scale)
        for number, query in enumerate(asked):
            name = f"dpfast.curator.curator.Curator.{method}"
            call = partial(_ask, objective, query)
            yield Example(name, f"{loss}, {weights}, {number}", call, loss == "logistic", GDP(1.0))


def _ask(objective: Objective, query: Callable[[Curator], Any], data: Any) -> Any:
    return query(Curator(as_records(*data), objective, Ledger(1.0), EntropyNoise()))


def _baselines() -> Iterator[Example]:
    from dpfast import baselines

    bounds = {"x_bound": 1.5, "y_bound": 2.0}
    calls: list[tuple[str, str, Callable[..., Any], dict[str, Any]]] = [
        ("statistics", "", baselines.sufficient_statistics, bounds),
        ("statistics", "", baselines.adassp, bounds),
    ]
    for loss in LOSSES:
        scale = {} if loss == "logistic" else {"scale": 0.8}
        calls += [
            ("output", loss, baselines.output_perturbation, {"ridge": 0.5} | scale),
            (
                "clipping", loss, baselines.clipped_gradient_descent,
                {"clip": 0.8, "steps": 3} | scale,
            ),
        ]  # fmt: skip
        if find_spec("dp_accounting") is not None:
            for rate in (0.3, 1.0):
                sgd = {"clip": 0.8, "steps": 3, "sampling_rate": rate} | scale
                calls.append(("sgd", loss, baselines.dp_sgd, sgd))
        if loss != "huber":
            tilted = {"ridge": 0.5, "radius": 1.5} | scale
            calls.append(("perturbation", loss, baselines.objective_perturbation, tilted))
    for module, loss, function, options in calls:
        approximate = module in ("sgd", "perturbation")
        budget: Budget = ApproxDP(1.0, 1e-6) if approximate else GDP(1.0)
        arguments = (loss,) if loss else ()
        call = partial(_apply, function, arguments, {"privacy": budget} | options)
        name = f"dpfast.baselines.{module}.{function.__name__}"
        yield Example(name, loss or "least squares", call, loss == "logistic", budget)


def _searches() -> Iterator[Example]:
    from dpfast import baselines, bayesopt

    n = {"n_records": 12}
    paths: dict[str, dict[str, Any]] = {
        "defaults": {},
        "as printed": {
            "mean": "zero", "threshold": 0.05, "update": "adagrad", "schedule": "uniform",
            "average": 0.0,
        },
        "plain, one point at a time": {"batch": 1, "update": bayesopt.Plain(0.1)},
        "Matern, shared ledger": {"covariance": bayesopt.Matern52(0.4), "ledger": GDP(2.0)},
        "training": {"training": GDP(9.0)},
    }  # fmt: skip
    for label, options in paths.items():
        call = partial(_tune, options | n)
        yield Example("dpfast.bayesopt.tuning.tune", label, call, False, GDP(1.0))
    tell = "dpfast.bayesopt.tuner.Tuner.tell"
    yield Example(tell, "two steps", _ask_and_tell, False, GDP(1.0))
    room = "dpfast.curator.blackbox.vectors.RecordValues"
    for method in ("append", "mean", "mean_loss"):
        yield Example(f"{room}.{method}", "both means", _told_values, False, GDP(1.5))
    losses = partial(
        _search, baselines.global_search, _planes, {"loss_range": (0.0, 4.0), "evaluations": 3} | n
    )
    name = "dpfast.baselines.global_search.global_search"
    yield Example(name, "three points", losses, False, GDP(1.0))
    slopes = partial(_search, baselines.noisy_descent, _slopes, {"clip": 0.5, "steps": 3} | n)
    name = "dpfast.baselines.noisy_descent.noisy_descent"
    yield Example(name, "three steps", slopes, False, GDP(1.0))


def _planes(data: Any, theta: Any) -> Any:
    """Squared residuals, without warnings for the extreme records of an audit."""
    with np.errstate(all="ignore"):
        return (data[1] - data[0] @ theta) ** 2


def _slopes(data: Any, theta: Any) -> Any:
    with np.errstate(all="ignore"):
        return -2.0 * (data[1] - data[0] @ theta)[:, None] * data[0]


def _search(
    function: Callable[..., Any], told: Callable[..., Any], options: dict[str, Any], data: Any
) -> Any:
    return function(partial(told, data), [(-2.0, 2.0)] * 2, privacy=GDP(1.0), **options)


def _tune(options: dict[str, Any], data: Any) -> Any:
    from dpfast.bayesopt import TrainingCost, tune

    own = {"steps": 3, "clip": 0.7} | options
    if "ledger" in own:  # state belongs inside the call
        own["ledger"] = Ledger(own["ledger"])
    if "training" in own:
        own["training"] = TrainingCost(Ledger(own["training"]), 0.5)
    found = tune(partial(_planes, data), [(-2.0, 2.0)] * 2, privacy=GDP(1.0), **own)
    return found, found.summary(), found.to_dict(), repr(found)


def _ask_and_tell(data: Any) -> Any:
    from dpfast.bayesopt import Tuner

    tuner = Tuner([(-2.0, 2.0)] * 2, privacy=GDP(1.0), n_records=len(data[1]), steps=2)
    for _ in range(2):
        tuner.tell(np.array([_planes(data, theta) for theta in tuner.ask()]))
    return tuner.result(), tuner.theta, tuner.done, tuner.steps_paid


def _told_values(data: Any) -> Any:
    from dpfast.curator.blackbox.vectors import RecordValues

    room = RecordValues(len(data[1]), Ledger(GDP(1.5)), EntropyNoise())
    room.append(data[0].T, 2)
    room.append(data[1])
    weights = np.array([[1.0, 0.0], [-0.5, 2.0], [0.3, 0.3]])
    return (
        room.n_points,
        room.mean_receipt(0.7, 1.0, 2),
        room.mean(weights, 0.7, 1.0),
        room.mean_loss(2, -1.0, 3.0, 1.0),
    )


def _releases() -> Iterator[Example]:
    from dpfast.models import Ball, Box
    from dpfast.release import certify, release_functional, release_parameter

    budget = ApproxDP(6.0, 1e-3)
    for loss, domain in product(LOSSES[1:], (Ball(1.5), Box(1.0, intercept=True))):
        binary = loss == "logistic"
        scale: dict[str, Any] = {} if binary else {"scale": 3.0}
        width = 2 + int(domain.intercept)
        # a large ridge certifies even the audits' tiny data sets; a small one does not
        variants: list[tuple[Callable[..., Any], str, tuple[Any, ...], dict[str, Any]]] = [
            (release_functional, "certified", (np.eye(width)[0],), {"ridge": 5.0}),
            (release_functional, "names", (["x1", "x2"],), {"ridge": 9.0, "noise_law": "student"}),
            (release_functional, "not certified", ("x2",), {"ridge": 1e-3}),
            (
                release_functional, "fallback", ("x2",),
                {"ridge": 1e-3, "fallback": "objective-perturbation"},
            ),
            (release_functional, "inference", ("x1",), {"ridge": 5.0, "inference": 0.3}),
            (
                release_functional, "the paper's procedure", ("x1",),
                {"ridge": 9.0, "procedure": "paper"},
            ),
            (
                release_functional, "the paper's procedure, not certified", ("x1",),
                {"ridge": 1.0, "procedure": "paper", "noise_law": "gaussian"},
            ),
            (release_parameter, "certified", (), {"ridge": 5.0}),
            (
                release_functional, "recursive", ("x1",),
                {"ridge": 40.0, "certificate": "recursive"},
            ),
            (release_functional, "leverage", ("x1",), {"ridge": 9.0, "certificate": "leverage"}),
            (
                release_functional, "leverage, not certified", (["x1", "x2"],),
                {"certificate": "leverage"},
            ),
            (release_parameter, "not certified", (), {}),
        ]  # fmt: skip
        for function, label, arguments, options in variants:
            call = partial(
                _shown, function, (loss, *arguments),
                {"privacy": budget, "domain": domain} | options | scale,
            )  # fmt: skip
            name = f"dpfast.release.{function.__name__.split('_')[1]}.{function.__name__}"
            yield Example(name, f"{loss}, {domain!r}, {label}", call, binary, budget)
        name = "dpfast.release.certificate.certify"
        for kind in ("global", "leverage"):
            call = partial(
                _shown, certify, (loss,),
                {"privacy": PureDP(1.0), "domain": domain, "ridge": 1.0, "certificate": kind}
                | scale,
            )  # fmt: skip
            yield Example(name, f"{loss}, {domain!r}, {kind}", call, binary, PureDP(1.0).as_gdp())
        call = partial(
            _shown, certify, (loss,),
            {"privacy": budget, "domain": domain, "ridge": 1.0, "which": "both"} | scale,
        )  # fmt: skip
        yield Example(name, f"{loss}, {domain!r}, both eigenvalues", call, binary, budget)
    for domain in (Ball(1.5), Box(1.0, intercept=True)):
        common: dict[str, Any] = {"domain": domain, "scale": 3.0, "certificate": "smooth"}
        name = "dpfast.release.parameter.release_parameter"
        for label, ridge in (("certified", 9.0), ("not certified", 0.0)):
            call = partial(
                _shown, release_parameter, ("smoothed-huber",),
                {"privacy": budget, "ridge": ridge} | common,
            )  # fmt: skip
            yield Example(name, f"smooth, {domain!r}, {label}", call, False, budget)
        call = partial(_shown, certify, ("smoothed-huber",), {"privacy": PureDP(1.0)} | common)
        name = "dpfast.release.certificate.certify"
        yield Example(name, f"smooth, {domain!r}", call, False, PureDP(1.0).as_gdp())


def _shown(
    function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any], data: Any
) -> Any:
    """A result and what is printed of it: both are published.

    With seeded noise: with fresh noise a certificate is wrong with a probability that delta covers,
    and such a draw moves what follows by more than its declared sensitivity, rightly so.
    """
    result = function(*data, *arguments, noise=SeededNoise(0), **options)
    return result, str(result), repr(result)


def _apply(
    function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any], data: Any
) -> Any:
    return function(*data, *arguments, **options)


def _formulas() -> Iterator[Example]:
    from dpfast.data.schema import Binary, Numeric, Schema
    from dpfast.regression.formula import fit_formula

    if find_spec("formulaic") is None:
        return
    columns = {"a": Numeric(-1.0, 1.0), "b": Numeric(-2.0, 2.0, centre=1.0, unit=0.5)}
    for loss, response in (("log-cosh", Numeric(-3.0, 3.0)), ("logistic", Binary(1, 0))):
        schema = Schema(columns | {"y": response})
        scale = {} if loss == "logistic" else {"scale": 0.8}

        def call(data: Any, loss: str = loss, options: Any = (schema, scale)) -> Any:
            X, y = data
            table = {"a": X[:, 0], "b": X[:, 1], "y": y}
            formula = "y ~ a*b + I(a**2) + exp(b)"
            own = {"schema": options[0], "privacy": GDP(1.0), "steps": 3} | options[1]
            return fit_formula(formula, table, loss, **own)

        name = "dpfast.regression.formula.fit_formula"
        yield Example(name, loss, call, loss == "logistic", GDP(1.0))


def _quantiles() -> Iterator[Example]:
    from dpfast.data.schema import Numeric, Schema
    from dpfast.quantiles import private_quantiles, with_private_scaling

    def quantiles(data: Any) -> Any:
        return private_quantiles(data[1], (0.2, 0.6), low=-2.0, high=2.0, privacy=1.0, steps=5)

    def scaling(data: Any) -> Any:
        schema = Schema({"a": Numeric(-1.0, 1.0), "b": Numeric(-2.0, 2.0)})
        table = {"a": data[0][:, 0], "b": data[0][:, 1]}
        return with_private_scaling(schema, table, ["a", "b"], privacy=1.0)

    yield Example("dpfast.quantiles.private_quantiles", "", quantiles, False, GDP(1.0))
    yield Example("dpfast.quantiles.with_private_scaling", "", scaling, False, GDP(1.0))


def _minimizations() -> Iterator[Example]:
    def per_record(theta: Any, X: Any, y: Any) -> Any:
        return np.tanh(X @ theta - y)[:, None] * X

    def moody(theta: Any, X: Any, y: Any) -> Any:
        if not (np.abs(X) < 5.0).all():
            raise ValueError("a record it does not like")
        return per_record(theta, X, y)

    own: dict[str, Any] = {"dimension": 2, "lipschitz": 0.9, "smoothness": 1.5}
    targets: dict[str, tuple[Any, dict[str, Any]]] = {
        loss: (loss, {"scale": 0.8, "weights": weights})
        for loss, weights in (("tukey", None), ("cauchy", Bounded(1.5)), ("welsch", Mallows(1.5)))
    }
    targets["users gradients"] = (PerRecordObjective(per_record, **own), {})
    targets["users vectorised gradients"] = (
        PerRecordObjective(per_record, vectorized=True, **own),
        {},
    )
    targets["users errors"] = (PerRecordObjective(moody, **own), {})
    targets["network"] = (
        one_hidden_layer(2, 2, radius=1.5, lipschitz=0.7, smoothness=1.0),
        {"start": [0.1, 0.2, -0.1, 0.3, 0.1, 0.0, 0.5, -0.5]},
    )
    methods: dict[str, dict[str, Any]] = {
        "adaptive": {"method": Adaptive(last_share=0.2)},
        "adaptive, norms": {"method": Adaptive(last_share=0.4, norm_queries=True)},
        "spider": {"method": Spider(max_steps=6), "kl": (1.0, 2.0)},
        "proximal": {"method": Proximal(rounds=2, inner=NoisyDescent(steps=3))},
        "shortest gradient": {"method": Adaptive(last_share=0.3), "select": "shortest gradient"},
    }
    for (label, (objective, options)), (name, method) in product(targets.items(), methods.items()):
        for budget in (ZCDP(0.5), GDP(1.0)):
            arguments = options | method | {"privacy": budget}
            call = partial(_minimize, objective, arguments)
            label_ = f"{label}, {name}, {budget!r}"
            yield Example("dpfast.nonconvex.minimize.minimize", label_, call, False, budget)


def _minimize(objective: Any, options: dict[str, Any], data: Any) -> Any:
    result = minimize(data[0], data[1], objective, **options)
    return result, result.summary(), repr(result), result.gradient_norms, result.rounds


def _gradient_queries() -> Iterator[Example]:
    near, far = np.array([0.2, -0.4, 0.3]), np.array([1e3, -1e6, 1e3])
    queries: dict[str, list[Callable[[GradientCurator], Any]]] = {
        "gradient": [lambda room: room.gradient(near, 0.5), lambda room: room.gradient(far, 0.5)],
        "gradient_change": [
            lambda room: room.gradient_change(near, np.zeros(3), 0.5),
            lambda room: room.gradient_change(near, near, 0.5),
            lambda room: room.gradient_change(far, near, 0.5),
            lambda room: room.gradient_change(near * (1.0 + 1e-13), near, 0.5),
        ],
        "gradient_norm": [
            lambda room: room.gradient_norm(near, 0.5),
            lambda room: room.gradient_norm(far, 0.5),
        ],
    }
    for (method, asked), loss, weights in product(
        queries.items(), (*LOSSES, *OTHERS), (Mallows(1.5), Bounded(1.5), Clip(0.8))
    ):
        if isinstance(weights, Clip) and method == "gradient_change":
            continue
        scale = None if loss == "logistic" else 0.8
        objective = Objective(resolve_loss(loss), weights, 2, scale=scale)
        for number, query in enumerate(asked):
            name = f"dpfast.curator.nonconvex.gradients.GradientCurator.{method}"
            call = partial(_ask_gradients, objective, query)
            yield Example(name, f"{loss}, {weights}, {number}", call, loss == "logistic", GDP(1.0))


def _ask_gradients(objective: Objective, query: Callable[[GradientCurator], Any], data: Any) -> Any:
    ledger = Ledger(ZCDP(0.5))
    return query(GradientCurator(as_records(*data), objective, ledger, EntropyNoise()))


def _stored() -> Iterator[Example]:
    """Records that are converted block by block."""
    from scipy import sparse

    from dpfast.data.files.parquet import open_parquet

    def compressed(data: Any) -> Any:
        return fit(sparse.csr_matrix(data[0]), data[1], "huber", scale=0.8, privacy=1.0, steps=3)

    def mapped(data: Any) -> Any:
        with tempfile.TemporaryFile() as file, np.errstate(all="ignore"):
            data[0].astype("f4").tofile(file)
            X = np.memmap(file, dtype="f4", mode="r", shape=data[0].shape)
            return fit(X, data[1], "huber", scale=0.8, privacy=1.0, steps=3)

    def parquet(data: Any) -> Any:
        from pyarrow import parquet, table

        columns = {"a": data[0][:, 0], "b": data[0][:, 1], "y": data[1]}
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/data.parquet"
            parquet.write_table(table(columns), path, row_group_size=5)
            records = open_parquet(path, covariates=["a", "b"], response="y")
            return fit(records, None, "huber", scale=0.8, privacy=1.0, steps=3)

    name = "dpfast.regression.fit.fit"
    yield Example(name, "compressed rows", compressed, False, GDP(1.0))
    yield Example(name, "memmap of float32", mapped, False, GDP(1.0))
    if find_spec("pyarrow") is not None:
        yield Example(name, "Parquet", parquet, False, GDP(1.0))


#: What makes the calls; a public function that answers questions about records needs some here.
MAKERS: tuple[Callable[[], Iterator[Example]], ...] = (
    _fits,
    _joint_releases,
    _steering_queries,
    _baselines,
    _minimizations,
    _gradient_queries,
    _formulas,
    _searches,
    _quantiles,
    _releases,
    _stored,
)
