"""Compiled kernels and their plain NumPy twins."""
