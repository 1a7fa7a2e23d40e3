"""Regressions: private fits, their forecast, and the same fit without privacy."""
