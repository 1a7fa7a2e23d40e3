"""How released numbers are shown: one table, and its renderings."""
