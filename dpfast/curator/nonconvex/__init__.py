"""Gradients of objectives that need not be convex, clipped record by record."""
