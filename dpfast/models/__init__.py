"""Estimands: losses, weightings, domains and objectives, with their public constants."""

from dpfast.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__, __file__)
