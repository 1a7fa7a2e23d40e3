"""What is read from files: tables, schemas, and Parquet larger than memory."""

from dpfast.data.files.tables import read_labels, read_numbers, read_table

__all__ = ["read_labels", "read_numbers", "read_table"]
