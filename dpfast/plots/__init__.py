"""Plots of results.  Matplotlib is imported by the functions, never by the modules."""

from dpfast.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__, __file__)
