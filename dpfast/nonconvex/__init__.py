"""Objectives that need not be convex, and what is promised when they are minimised."""
