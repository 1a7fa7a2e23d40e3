"""Moments of residuals and instruments."""
