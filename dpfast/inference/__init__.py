"""From a trajectory of noisy answers to estimates, standard errors and intervals."""

from typing import TYPE_CHECKING

from dpfast.lazy import lazy_getattr

if TYPE_CHECKING:
    from dpfast.inference.guarantees import Guarantee
    from dpfast.inference.rendering.compare import compare
    from dpfast.inference.rendering.transcript import verify_report
    from dpfast.inference.results import Fit

#: Where each name lives; a test holds it against the imports above.
_HOMES = {
    ".guarantees": "Guarantee",
    ".results": "Fit",
    ".rendering.compare": "compare",
    ".rendering.transcript": "verify_report",
}

__all__ = [
    "Fit",
    "Guarantee",
    "compare",
    "verify_report",
]

__getattr__ = lazy_getattr(__name__, _HOMES)
