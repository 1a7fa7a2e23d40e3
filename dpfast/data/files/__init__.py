"""Reading of files: tables, schemas, and Parquet larger than memory."""

from dpfast.data.files.tables import (
    Written,
    read_columns_of_formula,
    read_labels,
    read_numbers,
    read_table,
    written,
)

__all__ = [
    "Written",
    "read_columns_of_formula",
    "read_labels",
    "read_numbers",
    "read_table",
    "written",
]
