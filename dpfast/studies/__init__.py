"""Studies: several analyses of one table under one ledger, asked by small documents."""

from dpfast.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__, __file__)
