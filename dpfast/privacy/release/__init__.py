"""Test and release: how far a record moves a minimiser, and the noise that hides it."""
