"""Experiments of paper 3: certificates and private releases of single parameters."""
