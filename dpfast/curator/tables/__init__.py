"""Counts, moments and quantiles by cell of a declared grouping."""
