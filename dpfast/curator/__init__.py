"""The only place that sees records: typed queries in, noisy answers with receipts out."""

from dpfast.curator.answers import Answer, JointAnswer, Receipt, StepBudget
from dpfast.curator.curator import Curator

__all__ = ["Answer", "Curator", "JointAnswer", "Receipt", "StepBudget"]
