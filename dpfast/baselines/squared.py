"""The squared loss, for methods that clip its gradients record by record."""

from __future__ import annotations

from dpfast.errors import InvalidInput, described
from dpfast.models import Huber, Loss, resolve_loss

__all__ = ["Squared", "loss_and_scale"]


class Squared(Huber):
    """``r^2 / 2``: Huber's loss with a corner, 1e100, that no residual reaches.

    Its score is unbounded for any practical purpose, so it needs clipping of each record's
    gradient; its scale is 1, and residuals are in the units of y.
    """

    name = "squared"

    def __init__(self) -> None:
        super().__init__(1e100)

    def __repr__(self) -> str:
        return "Squared()"


def loss_and_scale(loss: str | Loss, scale: float | None) -> tuple[Loss, float | None]:
    """The ``loss`` and ``scale`` arguments of a method that also takes ``"squared"``."""
    if loss == "squared" or isinstance(loss, Squared):
        if scale is not None:
            raise InvalidInput(
                f"scale is not a parameter of the squared loss; received {described(scale)}. "
                "Omit it."
            )
        return Squared(), 1.0
    if isinstance(loss, str):
        try:
            return resolve_loss(loss), scale
        except InvalidInput as error:
            raise InvalidInput(f'{error} This method also takes "squared".') from None
    return resolve_loss(loss), scale
