"""Treatment effects, instruments and hazards: causal and survival estimates with intervals."""

from dpfast.effects.hazards import cox
from dpfast.effects.instrumental import two_stage
from dpfast.effects.treatment import treatment_effect

__all__ = ["cox", "treatment_effect", "two_stage"]
