"""Persons with secretly many rows: who they are by their labels, and the means of their rows."""
