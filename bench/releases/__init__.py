"""Benchmarks of whole certified releases."""
