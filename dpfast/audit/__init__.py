"""Attacks on privacy claims, for users as well: replay, certified bounds, sensitivity search.

Nothing here is private: what audits of real data print must not be published.
"""

from dpfast.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__, __file__)
