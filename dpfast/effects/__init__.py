"""Treatment effects, instruments and hazards: causal and survival estimates with intervals."""

from dpfast.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__, __file__)
