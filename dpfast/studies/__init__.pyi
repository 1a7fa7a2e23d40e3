from .study import Study as Study
