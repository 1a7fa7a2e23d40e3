"""Tables encoded as formulas say."""

from __future__ import annotations

import dpfast
from dpfast.data.formula import terms_of

RESPONSE = "a response"


def design_from_formula(formula, table, schema):
    """A design by a formula, with a schema's public facts, in the columns' own units."""
    if "~" not in formula:
        schema = dpfast.Schema({**schema.columns, RESPONSE: dpfast.Numeric(0, 1)})
        formula = f"`{RESPONSE}` ~ {formula}"
    return terms_of(formula, schema).coding.design(table)
