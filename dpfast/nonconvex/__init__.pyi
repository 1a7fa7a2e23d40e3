from dpfast.models.nonconvex import KL as KL, PerRecordObjective as PerRecordObjective
from dpfast.regression.nonprivate import nonprivate_minimize as nonprivate_minimize

from .kl import estimate_kl as estimate_kl
from .minimize import Minimum as Minimum
