"""Compiled kernels, and what compiles users' own losses for them."""
