"""Figures of Avella-Medina, Bradshaw and Loh (2023)."""
