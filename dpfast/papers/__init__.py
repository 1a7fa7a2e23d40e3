"""Algorithms of the papers as printed, with their corrections, each run to its end."""

from dpfast.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__, __file__)
