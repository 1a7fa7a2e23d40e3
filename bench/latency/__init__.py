"""Fits of small data, where Python could cost more than the arithmetic."""
