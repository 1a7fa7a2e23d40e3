"""Minimisation of objectives that need not be convex, and its guarantees."""

from dpfast.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__, __file__)
