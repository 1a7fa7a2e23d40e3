"""The only place that sees records: typed queries in, noisy answers with receipts out."""

from dpfast.kernels import pointers  # isort: skip  (before whatever uses linear algebra)

from dpfast.curator.answers import Answer, JointAnswer, Receipt, StepBudget
from dpfast.curator.curator import Curator

__all__ = ["Answer", "Curator", "JointAnswer", "Receipt", "StepBudget"]

del pointers
