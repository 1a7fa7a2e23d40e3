"""Releases of one parameter: certificates and what they certify."""
