"""Sensitivities of the comparison methods."""
