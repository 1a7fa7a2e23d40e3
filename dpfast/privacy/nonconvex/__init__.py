"""Sensitivities of clipped gradients, and the exponential mechanism."""
