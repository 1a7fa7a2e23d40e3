"""Sources of randomness: the only module of dpfast that draws any.

Integers ``floor(2^bits * Z)`` with ``Z`` standard normal (claims C15, C16, C22 and C23).
"""

from __future__ import annotations

import math
import os
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.errors import InvalidInput, described, understood
from dpfast.kernels.sampler import ExactSampler, connect

#: What a result says whose noise was not genuine.
SIMULATION = "none (simulation)"


class NoiseSource:
    """Base of the noise sources.

    A source of your own is for simulation.  Results carry a guarantee with :class:`EntropyNoise`
    only (:func:`is_genuine`).

    Other Parameters
    ----------------
    size : int
        Of methods: how many, zero or more.

    Privacy
    -------
    What :class:`EntropyNoise` draws must not be published: anybody who knows the noise of an answer
    knows the answer without it.

    Examples
    --------
    >>> noise = dpfast.SeededNoise(7)
    >>> noise.normals(3, 10), noise.words(1).dtype, noise.discrete_laplace(2, 1, 2).shape
    (array([   1,  305, -281]), dtype('uint64'), (2,))
    """

    __slots__ = ()

    @property
    def guarantee(self) -> str:
        """``"GDP"`` if results carry the privacy guarantee, ``"none (simulation)"`` if not."""
        return "GDP" if is_genuine(self) else SIMULATION

    def normals(self, size: int, bits: int) -> NDArray[np.int64]:
        """Draw ``floor(2**bits * Z)`` for standard normals, shape (size,) (claims C15 and C16).

        Parameters
        ----------
        bits : int
            Binary digits after the point, from 1 to 44.
        """
        raise NotImplementedError

    def discrete_laplace(self, size: int, numerator: int, denominator: int) -> NDArray[np.int64]:
        """Draw integers j with probability as ``exp(-|j| numerator / denominator)``, shape (size,).

        Parameters
        ----------
        numerator, denominator : int
            In (0, 2^62); their ratio is one over the scale.
        """
        raise NotImplementedError

    def words(self, size: int) -> NDArray[np.uint64]:
        """Draw ``size`` independent uniform 64-bit integers, shape (size,)."""
        raise NotImplementedError

    def __sklearn_clone__(self) -> NoiseSource:
        """Return itself: scikit-learn's clones draw from one source; copies would repeat it."""
        return self


class EntropyNoise(NoiseSource):
    """Exact noise from the operating system's entropy: the default, and private.

    Normals are drawn by Karney's exact algorithm, so no floating-point artefact can betray a
    value.  Each thread fetches bytes a page at a time; bits are erased as they are used, and never
    survive a fork.

    Examples
    --------
    >>> dpfast.privacy.EntropyNoise().guarantee
    'GDP'
    """

    __slots__ = ("_sampler",)

    def __init__(self) -> None:
        self._sampler = ExactSampler()

    def normals(self, size: int, bits: int) -> NDArray[np.int64]:
        return self._sampler.normals(size, bits)

    def discrete_laplace(self, size: int, numerator: int, denominator: int) -> NDArray[np.int64]:
        return self._sampler.discrete_laplace(size, numerator, denominator)

    def words(self, size: int) -> NDArray[np.uint64]:
        return np.frombuffer(os.urandom(8 * size), dtype=np.uint64)

    def __reduce__(self) -> tuple[type[EntropyNoise], tuple[()]]:
        return EntropyNoise, ()  # a copy fetches bytes of its own

    def __repr__(self) -> str:
        return "EntropyNoise()"


connect(EntropyNoise)  # compiled releases draw from its sampler as its normals do


@understood
class SeededNoise(NoiseSource):
    """Reproducible noise for simulations.  Carries **no** privacy guarantee.

    Parameters
    ----------
    seed : int or numpy.random.SeedSequence
        Any non-negative integer, of any size; all of it is used.

    Examples
    --------
    >>> dpfast.SeededNoise(7).guarantee
    'none (simulation)'
    """

    __slots__ = ("_draw", "_entropy", "_generator")

    def __init__(self, seed: int | np.random.SeedSequence) -> None:
        if isinstance(seed, np.random.SeedSequence):
            sequence = seed
        elif isinstance(seed, Integral) and not isinstance(seed, bool) and seed >= 0:
            sequence = np.random.SeedSequence(int(seed))
        else:
            raise InvalidInput(
                "seed must be a non-negative integer or a numpy.random.SeedSequence; received "
                f"{described(seed)}. For private noise use EntropyNoise(), which has no seed."
            )
        self._generator = np.random.Generator(np.random.PCG64(sequence))
        self._draw = self._generator.standard_normal
        self._entropy = sequence.entropy

    def normals(self, size: int, bits: int) -> NDArray[np.int64]:
        drawn = self._draw(size)
        drawn *= 2.0**bits
        return np.floor(drawn, drawn).astype(np.int64)

    def discrete_laplace(self, size: int, numerator: int, denominator: int) -> NDArray[np.int64]:
        success = -math.expm1(-numerator / denominator)
        draw: Any = self._generator.geometric
        return np.asarray(draw(success, size) - draw(success, size), dtype=np.int64)

    def words(self, size: int) -> NDArray[np.uint64]:
        return self._generator.integers(0, 2**64, size, dtype=np.uint64)

    def __repr__(self) -> str:
        return f"SeededNoise({self._entropy!r})"


def random_name() -> str:
    """Draw 32 hexadecimal digits as a unique name: no noise, but random all the same."""
    return os.urandom(16).hex()


def is_genuine(noise: NoiseSource) -> bool:
    """Tell whether results with this noise carry a guarantee: the library's own source, exactly."""
    return type(noise) is EntropyNoise


def checked_noise(noise: NoiseSource | None) -> NoiseSource:
    """Check the noise source of a call; the operating system's entropy is the default."""
    if noise is None:
        return EntropyNoise()
    if isinstance(noise, NoiseSource):
        return noise
    raise InvalidInput(
        "noise must be a dpfast noise source: dpfast.privacy.EntropyNoise() (the default) or, for "
        f"simulations, dpfast.SeededNoise(0); received {described(noise)}."
    )
