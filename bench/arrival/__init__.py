"""Where fits arrive, where they do not, and whether those say so: ``python -m bench.arrival``."""
