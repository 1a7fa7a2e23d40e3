"""Persons with a private number of rows: their labels, and the means of their rows."""
