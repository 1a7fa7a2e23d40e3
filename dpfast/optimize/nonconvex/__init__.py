"""Optimisers of objectives that need not be convex (paper 2)."""
