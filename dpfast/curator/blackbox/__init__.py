"""Caller-supplied values of every record, and private selection among candidates."""
