"""Budgets and losses from command-line options."""

from __future__ import annotations

import argparse

import dpfast
from dpfast.errors import InvalidBudget, InvalidInput
from dpfast.models.losses import Loss
from dpfast.models.names import all_losses
from dpfast.privacy.budget import Budget

#: Losses with settings; each setting is an option of the same name.
LOSS_SETTINGS: dict[type[Loss], tuple[str, ...]] = {
    kind: kind.settings for kind in all_losses().values() if kind.settings
}


def budget_of(arguments: argparse.Namespace) -> Budget:
    """Return the budget; exactly one must be given."""
    kinds = [name for name in ("mu", "rho", "epsilon") if getattr(arguments, name) is not None]
    paired = (arguments.epsilon is None) == (arguments.delta is None)
    if len(kinds) != 1 or not paired:
        raise InvalidBudget(
            "give one budget: --mu M, --rho R, or --epsilon E with --delta D; received "
            f"{', '.join('--' + name for name in kinds) or 'none'}"
            f"{'' if paired else ' (epsilon and delta go together)'}."
        )
    if arguments.mu is not None:
        return dpfast.GDP(arguments.mu)
    if arguments.rho is not None:
        return dpfast.ZCDP(arguments.rho)
    return dpfast.ApproxDP(arguments.epsilon, arguments.delta)


def loss_of(arguments: argparse.Namespace) -> str | Loss:
    """Return the loss by its name, with its settings."""
    settings = {
        name: value
        for names in LOSS_SETTINGS.values()
        for name in names
        if (value := getattr(arguments, name)) is not None
    }
    kind = next((kind for kind in LOSS_SETTINGS if kind.name == arguments.loss), None)
    for name in settings:
        owner = next(kind for kind, names in LOSS_SETTINGS.items() if name in names)
        if owner is not kind:
            option = name.replace("_", "-")
            raise InvalidInput(f"--{option} is a setting of --loss {owner.name}.")
    return str(arguments.loss) if kind is None else kind(**settings)
