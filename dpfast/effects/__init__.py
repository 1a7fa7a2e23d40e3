"""Treatment effects, instruments and hazards: causal and survival estimates with intervals."""

from dpfast.effects.hazards import cox
from dpfast.effects.instrumental import two_stage
from dpfast.effects.treatment import treatment_effect
from dpfast.lazy import missing

__all__ = ["cox", "treatment_effect", "two_stage"]

TYPE_CHECKING = False
if not TYPE_CHECKING:  # type checkers know what is missing by themselves
    __getattr__ = missing(__name__, __all__)
