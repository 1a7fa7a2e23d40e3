"""Attacks on privacy claims, for users as well: replay, certified bounds, sensitivity search.

Nothing here is private.  Audits run on data you own, and what they print must not be published
if those data are real.
"""

from dpfast.audit.certificate import LowerBound, lower_bound
from dpfast.audit.export import to_dp_accounting
from dpfast.audit.losses import LossReport, check_loss
from dpfast.audit.pairs import KINDS, Pair, neighbours
from dpfast.audit.playback import replay
from dpfast.audit.report import LeakFound, ReplayReport
from dpfast.audit.search import Finding, SearchReport, sensitivity_search

__all__ = [
    "KINDS",
    "Finding",
    "LeakFound",
    "LossReport",
    "LowerBound",
    "Pair",
    "ReplayReport",
    "SearchReport",
    "check_loss",
    "lower_bound",
    "neighbours",
    "replay",
    "sensitivity_search",
    "to_dp_accounting",
]
