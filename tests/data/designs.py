"""Tables encoded as formulas say."""

from __future__ import annotations

from dpfast.data.formula import coding_from_formula


def design_from_formula(formula, table, schema):
    """A design by a formula, with a schema's public facts."""
    return coding_from_formula(formula, schema).design(table)
