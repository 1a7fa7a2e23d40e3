"""Benchmarks: ``python -m bench SUITE`` runs one suite and prints its table."""
