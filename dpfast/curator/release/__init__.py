"""Certified minimisers and what may be released of them (paper 3)."""
