"""What rivals of :func:`dpfast.fit` share: reading what is asked, and one charge for an answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpfast.curator import Curator
from dpfast.errors import InvalidInput, described
from dpfast.fit_requests.partial import KeepReleased
from dpfast.fit_requests.request import Account, FitRequest
from dpfast.inference.guarantees import Guarantee
from dpfast.inference.results import Fit
from dpfast.models import Loss, Objective, Weighting, resolve_loss
from dpfast.models.objective import terms_of
from dpfast.privacy.noise import NoiseSource


def asked(
    X: Any,
    y: Any,
    loss: str | Loss | Objective,
    account: Account,
    noise: NoiseSource | None,
    own: Weighting | None,
) -> tuple[FitRequest, Objective]:
    """Checked arguments, and the objective, with a rival's own weights if it has some."""
    given = terms_of(loss)
    if own is not None and given.weights is not None:
        raise InvalidInput(
            f"this method has weights of its own, {own!r}, so the objective can have none; "
            f"received {described(given.weights)}. Leave them out."
        )
    request = FitRequest(
        X, y, account, fit_intercept=given.fit_intercept, noise=noise, bound_to=given.n_covariates
    )
    found = resolve_loss(given.loss, unbounded=True)  # least squares, where gradients are clipped
    found = resolve_loss(given.loss) if found.has_bound else found
    scale, weights = request.coded_scale(given.scale), given.weights if own is None else own
    return request, request.objective(found, scale=scale, weights=weights, ridge=given.ridge)


def answered(
    request: FitRequest,
    curator: Curator,
    told: Callable[[], Guarantee],
    label: str,
    answer: Callable[[], tuple[Any, str]],
    model: str | None = None,
) -> Fit:
    """Charge a shared ledger, then make the coefficients, and say how they were made."""
    with KeepReleased(privacy=told):
        request.account.charge(label, request.memory_bytes())
        theta, method = answer()
        return request.make_result(
            theta, curator.objective, method=method, privacy=told(), model=model
        )
