"""Experiments of paper 4, "Scalable differentially private Bayesian optimization"."""
