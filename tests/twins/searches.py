"""Settings of searches, for tests that vary one at a time."""

from __future__ import annotations

from dataclasses import fields

from dpfast.bayesopt import SearchSettings


def settled(options):
    """Options of a search in one mapping, as `tune` takes them."""
    names = [field.name for field in fields(SearchSettings) if field.name in options]
    rest = {name: value for name, value in options.items() if name not in names}
    return rest | {"search": SearchSettings(**{name: options[name] for name in names})}
