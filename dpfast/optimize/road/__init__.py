"""Clipped Newton steps on preconditioned records: the solver of every default fit."""
