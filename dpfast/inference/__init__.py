"""From a trajectory of noisy answers to estimates, standard errors and intervals."""

from typing import TYPE_CHECKING

from dpfast.rooms import opened

if TYPE_CHECKING:
    from dpfast.inference.guarantees import Guarantee
    from dpfast.inference.results import Fit
    from dpfast.inference.shown.compare import compare
    from dpfast.inference.shown.transcript import verify_report

#: Where each name lives; a test holds it against the imports above.
_HOMES = {
    ".guarantees": "Guarantee",
    ".results": "Fit",
    ".shown.compare": "compare",
    ".shown.transcript": "verify_report",
}

__all__ = [
    "Fit",
    "Guarantee",
    "compare",
    "verify_report",
]

__getattr__ = opened(__name__, _HOMES)
