"""The squared loss, for methods that clip its gradients record by record."""

from __future__ import annotations

from dpfast.errors import InvalidInput, described
from dpfast.models import LeastSquares, Loss, is_least_squares, resolve_loss

__all__ = ["loss_and_scale"]


def loss_and_scale(loss: str | Loss, scale: float | None) -> tuple[Loss, float | None]:
    """The ``loss`` and ``scale`` arguments of a method that also takes ``"squared"``."""
    if is_least_squares(loss) or (isinstance(loss, str) and loss == "squared"):
        if scale is not None:
            raise InvalidInput(
                f"scale is not a parameter of the squared loss; received {described(scale)}. "
                "Omit it."
            )
        return LeastSquares(), None
    if isinstance(loss, str):
        try:
            return resolve_loss(loss), scale
        except InvalidInput as error:
            raise InvalidInput(f'{error} This method also takes "squared".') from None
    return resolve_loss(loss), scale
