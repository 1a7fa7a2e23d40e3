"""Least squares beside its rivals, on public tables in their own units."""
