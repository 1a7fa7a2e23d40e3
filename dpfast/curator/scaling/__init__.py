"""Counts and moments of columns, for estimates of their locations and scales."""
