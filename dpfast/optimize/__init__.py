"""Optimisers that use only a Curator's noisy answers, and the schedules of their budgets."""

from dpfast.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__, __file__)
