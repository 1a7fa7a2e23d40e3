"""The surrogate Gaussian process: covariances, the gradient it implies, where to learn more."""
