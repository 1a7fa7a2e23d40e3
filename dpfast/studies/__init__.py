"""Studies: several analyses of one table under one ledger, asked by small documents."""

from dpfast.studies.study import Study

__all__ = ["Study"]
