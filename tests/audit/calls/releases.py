"""Calls of certificates and of releases that test first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from dpfast import Objective
from dpfast.privacy.budget import ApproxDP, PureDP
from dpfast.privacy.noise import SeededNoise
from tests.audit.calls.example import BINARY, CONCORDANT, Example

__all__ = ["releases"]


def releases() -> Iterator[Example]:
    from dpfast.models import Ball, Box
    from dpfast.release import Certified, certify, release_functional, release_parameter

    budget, paper = ApproxDP(6.0, 1e-3), {"method": "paper"}

    def asked(loss: str, ridge: float = 0.0, scale: float = 3.0) -> Objective:
        return Objective(loss, ridge=ridge, scale=None if loss in BINARY else scale)

    for loss, domain in product(CONCORDANT, (Ball(1.5), Box(1.0, intercept=True))):
        binary = loss in BINARY
        width = 2 + int(domain.intercept)
        # a large ridge certifies even the audits' tiny data sets; a small one does not
        variants: list[tuple[Callable[..., Any], str, tuple[Any, ...], dict[str, Any]]] = [
            (release_functional, "certified", (np.eye(width)[0],), paper | {"ridge": 20.0}),
            (release_functional, "names", (["x1", "x2"],), paper | {"ridge": 20.0}),
            (release_functional, "not certified", ("x2",), paper | {"ridge": 1e-3}),
            (
                release_functional, "recursive", ("x1",),
                {"ridge": 20.0, "method": Certified("recursive")},
            ),
            (release_functional, "auto", ("x1",), {}),
            (release_functional, "one step", ("x1",), {"method": "one-shot"}),
            (
                release_functional, "two steps, inference", (["x1", "x2"],),
                {"method": "one-shot", "ridge": 5.0, "inference": 0.3},
            ),
            (release_functional, "a fit", ("x1",), {"method": "fit"}),
            (
                release_functional, "perturbed", ("x1",),
                {"method": "objective-perturbation"},
            ),
            (release_parameter, "certified", (), {"ridge": 5.0}),
            (release_parameter, "not certified", (), {}),
        ]  # fmt: skip
        for function, label, arguments, options in variants:
            call = partial(
                _shown, function, (asked(loss, options.pop("ridge", 0.0)), *arguments),
                {"privacy": budget, "domain": domain} | options,
            )  # fmt: skip
            place = "functional" if function is release_functional else "certified"
            name = f"dpfast.release.{place}.{function.__name__}"
            yield Example(name, f"{loss}, {domain!r}, {label}", call, binary, budget)
        name = "dpfast.release.certified.certify"
        for kind in ("global", "recursive"):
            call = partial(
                _shown, certify, (asked(loss, 1.0),),
                {"privacy": PureDP(1.0), "domain": domain, "certificate": kind},
            )  # fmt: skip
            yield Example(name, f"{loss}, {domain!r}, {kind}", call, binary, PureDP(1.0).as_gdp())
        call = partial(
            _shown, certify, (asked(loss, 1.0),),
            {"privacy": budget, "domain": domain, "which": "both"},
        )  # fmt: skip
        yield Example(name, f"{loss}, {domain!r}, both eigenvalues", call, binary, budget)
    for domain in (Ball(1.5), Box(1.0, intercept=True)):
        common: dict[str, Any] = {"domain": domain, "certificate": "smooth"}
        name = "dpfast.release.certified.release_parameter"
        for label, ridge in (("certified", 9.0), ("not certified", 0.0)):
            call = partial(
                _shown, release_parameter, (asked("smoothed-huber", ridge),),
                {"privacy": budget} | common,
            )  # fmt: skip
            yield Example(name, f"smooth, {domain!r}, {label}", call, False, budget)
        call = partial(
            _shown, certify, (asked("smoothed-huber"),), {"privacy": PureDP(1.0)} | common
        )
        name = "dpfast.release.certified.certify"
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
