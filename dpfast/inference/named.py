"""Arrays whose rows can be asked for by name: ``fit.params["age"]`` beside ``fit.params[1]``."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpfast.arguments import did_you_mean
from dpfast.errors import InvalidInput, described

Names = tuple[str, ...] | None


class Named(np.ndarray[Any, np.dtype[np.float64]]):
    """An array whose rows (of a covariance, columns too) have the names of coefficients.

    It is printed with them.  In everything else it is an array of NumPy: positions, slices and
    masks mean the same.  Results of computations have no names; rounded arrays keep them.

    Privacy
    -------
    Holds released numbers and public names: reading it costs nothing.

    Examples
    --------
    >>> X = {"age": np.linspace(20.0, 80.0, 2000)}
    >>> schema = dpfast.Schema({"age": dpfast.Numeric(20, 80), "pay": dpfast.Numeric(0, 100)})
    >>> design = schema.encode(X | {"pay": 10.0 + X["age"]}, response="pay")
    >>> fit = dpfast.fit(design, None, dpfast.Objective("log-cosh", scale=5.0), privacy=3.0)
    >>> bool(fit.params["age"] == fit.params[1]), fit.conf_int()["age"].shape
    (True, (2,))
    >>> fit.bse[["age", "intercept"]].shape, "age" in fit.params
    ((2,), True)
    >>> repr(fit.params).split()[::2], fit.conf_int().to_pandas().loc["age"].shape
    (['intercept', 'age'], (2,))
    """

    _names: Names
    _columns: Names = None

    def __array_finalize__(self, source: Any) -> None:
        self._names = None  # of slices, copies and transposes: rows may be others

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return array[()] if array.ndim == 0 else np.asarray(array)

    def __getitem__(self, key: Any) -> Any:
        if self._names is not None:
            key = tuple(map(self._place, key)) if isinstance(key, tuple) else self._place(key)
        return self.view(np.ndarray)[key]

    def _place(self, key: Any) -> Any:
        if not isinstance(key, str):
            return [self._place(entry) for entry in key] if isinstance(key, list) else key
        assert self._names is not None
        if key not in self._names:
            raise InvalidInput(
                f"a coefficient is one of {list(self._names)} or its position; received "
                f"{described(key, text=True)}{did_you_mean(key, self._names)}."
            )
        return self._names.index(key)

    def __getattr__(self, name: str) -> Any:
        message = f"{type(self).__name__!r} object has no attribute {name!r}"
        if name in (self._names or ()):
            message += f"; write [{name!r}]."
        elif name in ("loc", "iloc", "index", "values", "items", "to_csv", "to_dict", "to_frame"):
            message += f"; write .to_pandas().{name}."
        raise AttributeError(message)

    def __contains__(self, value: object) -> bool:
        if isinstance(value, str):
            return value in (self._names or ())
        return bool(np.any(self.view(np.ndarray) == value))

    def __reduce__(self) -> Any:
        return named, (self.view(np.ndarray), self._names, self._columns)

    def round(self, decimals: Any = 0, out: Any = None) -> Any:
        """Round to fewer decimals and keep the names.

        Parameters
        ----------
        decimals : int
        out : ndarray, optional
            Where to write them.

        Returns
        -------
        Named
        """
        return named(self.view(np.ndarray).round(decimals, out), self._names, self._columns)

    def to_pandas(self) -> Any:
        """Convert to a Series of pandas, or a DataFrame if there are more columns, indexed by name.

        Returns
        -------
        pandas.Series or pandas.DataFrame
        """
        from dpfast.inference.rendering.arrays import in_pandas

        return in_pandas(self.view(np.ndarray), self._names, self._columns)

    def __repr__(self) -> str:
        from dpfast.inference.rendering.arrays import lines

        return lines(self.view(np.ndarray), self._names)

    __str__ = __repr__


def named(values: Any, names: Names, columns: Names = None) -> Named:
    """Give names to the rows of an array, without a copy, and headings for pandas."""
    labelled = np.asarray(values, dtype=np.float64).view(Named)
    labelled._names, labelled._columns = names, columns
    return labelled
