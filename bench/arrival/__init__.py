"""Designs of fits with public units, which a test of coverage and ``bench.planned`` take."""
