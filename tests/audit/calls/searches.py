"""Calls of searches over the parameters of a black box."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np

from dpfast.privacy.budget import GDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import EntropyNoise
from tests.audit.calls.example import Example

__all__ = ["searches"]


def searches() -> Iterator[Example]:
    from dpfast import bayesopt

    n = {"n_records": 12}
    paths: dict[str, dict[str, Any]] = {
        "defaults": {},
        "as printed": {
            "mean": "zero", "threshold": 0.05, "update": "adagrad", "schedule": "uniform",
            "average": 0.0,
        },
        "plain, one point at a time": {"batch": 1, "update": bayesopt.Plain(0.1)},
        "Matern, shared ledger": {"covariance": bayesopt.Matern52(0.4), "ledger": GDP(2.0)},
        "values": {"search": bayesopt.SearchSettings(loss_range=(0.0, 4.0))},
        "parameters with types": {
            "bounds": [bayesopt.Integer(-2, 2), bayesopt.Categorical([-1.0, 0.5, 2])]
        },
    }  # fmt: skip
    for label, options in paths.items():
        call = partial(_tune, options | n)
        yield Example("dpfast.bayesopt.tuning.tune", label, call, False, GDP(1.0))
    for label, own in (("defaults", {}), ("shared ledger", {"ledger": GDP(2.0)})):
        clip = partial(_clip, own | n)
        yield Example("dpfast.bayesopt.tuning.private_clip", label, clip, False, GDP(1.0))
    choice = partial(_choice, n)
    yield Example("dpfast.bayesopt.tuning.private_choice", "of three", choice, False, GDP(1.0))
    for label, halves in (("by default", 1), ("by default, four parameters", 2)):
        portfolio = partial(_portfolio, n, halves)
        yield Example("dpfast.bayesopt.tuning.tune", label, portfolio, False, GDP(1.0))
    tell = "dpfast.bayesopt.tuner.Tuner.tell"
    yield Example(tell, "two steps", _ask_and_tell, False, GDP(1.0))
    room = "dpfast.curator.blackbox.vectors.RecordValues"
    for method in ("append", "mean", "mean_loss", "norms", "smallest", "choice", "failed"):
        yield Example(f"{room}.{method}", "means and lengths", _told_values, False, GDP(2.0))


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
    from dpfast.bayesopt import SearchSettings, tune

    own: dict[str, Any] = {"steps": 3, "clip": 0.7} | options
    chosen = [field.name for field in fields(SearchSettings) if field.name in own]
    own["search"] = SearchSettings(**{name: own.pop(name) for name in chosen})
    if "ledger" in own:  # state belongs inside the call
        own["ledger"] = Ledger(own["ledger"])
    bounds = own.pop("bounds", [(-2.0, 2.0)] * 2)
    found = tune(partial(_planes, data), bounds, privacy=GDP(1.0), **own)
    return found, found.summary(), found.to_dict(), repr(found)


def _portfolio(options: dict[str, Any], halves: int, data: Any) -> Any:
    """Tune sums of pairs of parameters; beyond three, gradients follow the comparison of values."""
    from dpfast.bayesopt import tune

    losses = lambda theta: _planes(data, theta.reshape(halves, 2).sum(axis=0))  # noqa: E731
    found = tune(losses, [(-2.0, 2.0)] * 2 * halves, privacy=GDP(1.0), steps=8, **options)
    return found, found.summary(), found.to_dict(), repr(found)


def _clip(options: dict[str, Any], data: Any) -> Any:
    from dpfast.bayesopt import private_clip

    own = dict(options)
    if "ledger" in own:  # state belongs inside the call
        own["ledger"] = Ledger(own["ledger"])
    return private_clip(partial(_planes, data), [(-2.0, 2.0)] * 2, privacy=GDP(1.0), **own)


def _choice(options: dict[str, Any], data: Any) -> Any:
    from dpfast.bayesopt import private_choice

    places = [np.array([k - 1.0, 0.5]) for k in range(3)]
    own = options | {"loss_range": (0.0, 4.0)}
    return private_choice(partial(_planes, data), places, privacy=GDP(1.0), **own)


def _ask_and_tell(data: Any) -> Any:
    from dpfast.bayesopt import Tuner

    tuner = Tuner([(-2.0, 2.0)] * 2, privacy=GDP(1.0), n_records=len(data[1]), steps=2)
    for _ in range(2):
        tuner.tell(np.array([_planes(data, theta) for theta in tuner.ask()]))
    return tuner.result(), tuner.theta, tuner.done, tuner.steps_paid


def _told_values(data: Any) -> Any:
    from dpfast.curator.blackbox.vectors import RecordValues

    room = RecordValues(len(data[1]), Ledger(GDP(2.0)), EntropyNoise())
    room.append(data[0].T, 2)
    room.append(data[1])
    weights = np.array([[1.0, 0.0], [-0.5, 2.0], [0.3, 0.3]])
    return (
        room.n_points,
        room.mean_receipt(0.7, 1.0, 2),
        room.mean(weights, 0.7, 1.0),
        room.mean_loss(2, -1.0, 3.0, 1.0),
        room.choice_receipt(-1.0, 3.0, 1.0),
        room.choice(1, -1.0, 3.0, 1.0),
        room.norms(weights).excess(0.9, 0.5, 0.3),
        room.smallest(1).excess(0.4, 0.5, 0.3),
        room.failed(0.1),
    )
