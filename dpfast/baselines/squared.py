"""The squared loss, for methods that clip its gradients record by record."""

from __future__ import annotations

from dpfast.errors import InvalidInput, described
from dpfast.models import LeastSquares, Loss, resolve_loss

__all__ = ["loss_and_scale"]


def loss_and_scale(loss: str | Loss, scale: float | None) -> tuple[Loss, float | None]:
    """The ``loss`` and ``scale`` arguments of a method that also takes ``"squared"``."""
    named = LeastSquares.name if isinstance(loss, str) and loss == "squared" else loss
    try:
        found = resolve_loss(named, unbounded=True)
        if found.has_bound:
            return resolve_loss(found), scale
    except InvalidInput as error:
        if not isinstance(loss, str):
            raise
        raise InvalidInput(f'{error} This method also takes "squared".') from None
    if scale is not None:
        raise InvalidInput(
            f"scale is not a parameter of the squared loss; received {described(scale)}. Omit it."
        )
    return found, None
