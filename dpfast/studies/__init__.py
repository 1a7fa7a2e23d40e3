"""Studies: several analyses of one table under one ledger, asked by small documents."""

from dpfast.lazy import missing
from dpfast.studies.study import Study

__all__ = ["Study"]

TYPE_CHECKING = False
if not TYPE_CHECKING:  # type checkers know what is missing by themselves
    __getattr__ = missing(__name__, __all__)
