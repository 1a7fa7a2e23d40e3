"""Solvers that see only noisy answers and public numbers."""
