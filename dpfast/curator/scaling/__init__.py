"""Counts and moments of columns, from which their locations and scales are bought."""
