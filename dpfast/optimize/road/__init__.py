"""Least squares by clipped scores of whitened records."""
