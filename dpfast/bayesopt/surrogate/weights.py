"""Where a surrogate gradient can point: what lies elsewhere is noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Singular values below this part of the largest one count as directions without information.
RANK_TOLERANCE = 1e-9

#: Eigenvalues of W'W beyond this part of the largest one, squares of singular values, are told from
#: zero by rounding alone: with these W has full rank.
SURELY_FULL = 1e-10


def signal_projection(weights: Array) -> Array:
    """Orthogonal projection on the directions surrogate gradients can have, shape (d, d). Every
    record's gradient is a combination of the rows of W, so noise in other directions carries no
    signal; with fewer points than parameters, projecting removes it. Free: W is public (formulas
    page, section 12, item 9)."""
    d = weights.shape[1]
    if len(weights) >= d:
        squares = np.linalg.eigvalsh(weights.T @ weights)  # far cheaper than singular values
        if squares[0] > SURELY_FULL * squares[-1]:
            return np.eye(d)
    _, values, vectors = np.linalg.svd(weights, full_matrices=False)
    rank = int(np.sum(values > RANK_TOLERANCE * values[0])) if values.size else 0
    if rank >= d:
        return np.eye(d)
    basis = vectors[:rank]
    return np.asarray(basis.T @ basis)
