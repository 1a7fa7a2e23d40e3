"""Constants of estimated locations and scales of columns, and their proofs."""
