"""Weights and offsets of records: as private as the responses beside them."""
