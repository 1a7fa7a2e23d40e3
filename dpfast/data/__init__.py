"""Records in: arrays and tables become blocks the kernels can read without a copy."""

from dpfast.data.records import Records, as_records

__all__ = ["Records", "as_records"]
