"""Attacks on privacy claims, for users as well: replay, certified bounds, sensitivity search.

Nothing here is private: what audits of real data print must not be published.
"""

from dpfast.audit.certificate import LowerBound, lower_bound
from dpfast.audit.export import to_dp_accounting
from dpfast.audit.losses import LossReport, check_loss
from dpfast.audit.pairs import KINDS, Pair, neighbours
from dpfast.audit.playback import replay
from dpfast.audit.report import LeakFound, ReplayReport
from dpfast.lazy import missing

__all__ = [
    "KINDS",
    "LeakFound",
    "LossReport",
    "LowerBound",
    "Pair",
    "ReplayReport",
    "check_loss",
    "lower_bound",
    "neighbours",
    "replay",
    "to_dp_accounting",
]

TYPE_CHECKING = False
if not TYPE_CHECKING:  # type checkers know what is missing by themselves
    __getattr__ = missing(__name__, __all__)
