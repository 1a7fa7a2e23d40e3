"""Records in: arrays and tables become blocks the kernels can read without a copy."""

from dpfast.data.records import Covariates, Records
from dpfast.data.source import as_records

__all__ = ["Covariates", "Records", "as_records"]
