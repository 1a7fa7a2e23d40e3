"""Queries of the comparison methods."""
