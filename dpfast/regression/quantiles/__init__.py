"""Several quantiles of a response under one budget."""
