"""A package, so that another one of this name in the environment does not stand in for it."""
