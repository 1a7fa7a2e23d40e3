"""Losses by their names: each is loaded on first use."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from dpfast.arguments import refuse_own_class, suggested
from dpfast.errors import InvalidInput, described
from dpfast.models.losses import Loss

#: Modules of losses; a name is looked up in ``KINDS`` of each in this order, first in a module
#: that is called like the loss.
MODULES = (
    "losses",
    "quantile",
    "poisson",
    "gamma",
    "probit",
    "smooth_losses",
    "special_losses",
)


@cache
def kinds_of(module: str) -> dict[str, type[Loss]]:
    """Load the classes of one of the modules, by their names."""
    return {kind.name: kind for kind in import_module(f"dpfast.models.{module}").KINDS}


def kind_of(name: str) -> type[Loss] | None:
    """Find the class of a name, or None."""
    eponymous = [module for module in MODULES if module == name]
    return next(
        (kinds_of(module)[name] for module in eponymous or MODULES if name in kinds_of(module)),
        None,
    )


def all_losses() -> dict[str, type[Loss]]:
    """Load all losses, by name."""
    return {name: kind for module in MODULES for name, kind in kinds_of(module).items()}


def __getattr__(name: str) -> dict[str, type[Loss]]:
    """Load ``LOSSES``, whose bounds follow from their constants, or ``DECLARED``, the others."""
    if name not in {"LOSSES", "DECLARED"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    bounded = {key: kind for key, kind in all_losses().items() if kind.has_bound}
    return {
        key: kind for key, kind in bounded.items() if bool(kind.undeclared) == (name == "DECLARED")
    }


def resolve_loss(loss: str | Loss, unbounded: bool = False) -> Loss:
    """Turn a name of a loss whose scores have a bound, or a :class:`Loss`, into a :class:`Loss`."""
    resolved = _resolved(loss)
    # an object that has none is in the hands of who clips its scores
    is_bounded = resolved.declared and (resolved.has_bound or resolved is loss)
    if not (is_bounded or unbounded):
        raise InvalidInput(resolved.undeclared)
    return resolved


def offset_joins_predictor(loss: str | Loss) -> bool:
    """Tell whether an offset is added to the predictor, not subtracted from the response."""
    return resolve_loss(loss, unbounded=True).link != "identity"


def _resolved(loss: str | Loss) -> Loss:
    if isinstance(loss, Loss):
        refuse_own_class(loss, "Pass dpfast.CustomLoss(...) for a loss of your own.")
        return loss
    if isinstance(loss, str) and (kind := kind_of(loss)) is not None:
        return kind()
    kinds = all_losses()
    aliases = {name: kind.aliases for name, kind in kinds.items() if kind.aliases}
    raise InvalidInput(
        f"loss must be one of {sorted(kinds)} or a dpfast loss object such as "
        f"dpfast.LogCosh(c=1.345); received {described(loss, text=True)}."
        f"{suggested(loss, sorted(kinds), aliases)}"
    )
