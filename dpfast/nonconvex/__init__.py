"""Objectives that need not be convex, and what is promised when they are minimised."""

from typing import TYPE_CHECKING

from dpfast.lazy import lazy_getattr

if TYPE_CHECKING:
    from dpfast.models.nonconvex import KL, PerRecordObjective
    from dpfast.nonconvex.kl import estimate_kl
    from dpfast.nonconvex.minimize import Minimum
    from dpfast.regression.nonprivate import nonprivate_minimize

#: Where each name lives; a test holds it against the imports above.
_HOMES = {
    ".kl": "estimate_kl",
    ".minimize": "Minimum",
    "dpfast.models.nonconvex": "KL PerRecordObjective",
    "dpfast.regression.nonprivate": "nonprivate_minimize",
}

__all__ = [
    "KL",
    "Minimum",
    "PerRecordObjective",
    "estimate_kl",
    "nonprivate_minimize",
]

__getattr__ = lazy_getattr(__name__, _HOMES)
