"""Sensitivities of black-box searches, and private selection."""
