"""Results as JSON and back: released numbers and public facts, which predict and report again."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from dpfast.bayesopt.result import Tuning
from dpfast.data.arithmetic import Arithmetic
from dpfast.data.coding import Coding, Main
from dpfast.data.scaling.units import Released
from dpfast.data.schema import Binary, Categorical, Numeric
from dpfast.data.splines import Spline
from dpfast.documents import read_document, write_document
from dpfast.effects.iv import TwoStage
from dpfast.effects.results import TreatmentEffect
from dpfast.errors import InvalidInput, described
from dpfast.fit_requests.rows import FormulaRows, NewRows, OffsetRows, SomeColumns
from dpfast.inference.base import Result
from dpfast.inference.baseline import Baseline
from dpfast.inference.composition import Charge, Maximum, Prepaid, Rows, Sum, adds_up
from dpfast.inference.degrees import DEFAULT_LEVEL, Covariance, VarianceNoise
from dpfast.inference.guarantees import Guarantee
from dpfast.inference.hypotheses import Contrast, Ratios, WaldTest
from dpfast.inference.margins import MarginalEffects
from dpfast.inference.named import Named, named
from dpfast.inference.natural import NaturalRows
from dpfast.inference.results import Fit
from dpfast.lazy import missing
from dpfast.models.names import kind_of
from dpfast.optimize.propagation import Curvature
from dpfast.privacy.budget import GDP, ZCDP, ApproxDP, Budget, PureDP, amount, as_budget
from dpfast.regression.goodness import GoodnessOfFit
from dpfast.regression.quantiles.results import QuantileFits
from dpfast.tables.areas import SmallAreas
from dpfast.tables.cell_estimates import CellEstimates
from dpfast.tables.distribution_table import DistributionTable
from dpfast.tables.fitted import SubgroupFits
from dpfast.tables.moments import ReleasedSums
from dpfast.tables.prefix_noise import PrefixNoise
from dpfast.tables.results import CellTable, QuantileTable

__all__ = ["load", "save"]

TYPE_CHECKING = False
if not TYPE_CHECKING:  # type checkers know what is missing by themselves
    __getattr__ = missing(__name__, __all__)

#: What the first line of a file says of a fit, and of another result; another version is refused.
FORMAT, RESULT = "dpfast fit 2", "dpfast result 1"

#: Read as well: without a digest.
OLDER = "dpfast fit 1"

#: Under which key a format has its content.
_KEYS = {FORMAT: "fit", OLDER: "fit", RESULT: "result"}

#: Fields that are written only if they say something.
OPTIONAL = "returned", "origin"

LARGEST = 100_000_000  # bytes of a file: a fit of a thousand coefficients has some tens of millions

#: Results besides fits.
RESULTS = (
    Contrast, WaldTest, Ratios, MarginalEffects, TreatmentEffect, TwoStage, QuantileFits, CellTable,
    CellEstimates, DistributionTable, QuantileTable, SmallAreas, SubgroupFits, GoodnessOfFit,
    Tuning,
)  # fmt: skip

_KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        GDP, ZCDP, PureDP, ApproxDP, Guarantee, Charge, Sum, Maximum, Rows, Prepaid, Covariance,
        VarianceNoise, Curvature, NewRows, FormulaRows, OffsetRows, SomeColumns, NaturalRows,
        Coding, Main, Arithmetic, Spline, Numeric, Categorical, Binary, Released, Baseline,
        PrefixNoise, ReleasedSums, *RESULTS,
    )
}  # fmt: skip

#: Arguments of a fit, and where it keeps them.
_FIT = {
    "params": "params", "names": "names", "n_records": "n_records", "model": "model",
    "method": "method", "privacy": "privacy", "covariance": "_covariance", "iterates": "iterates",
    "linked": "_linked", "fit_intercept": "_fit_intercept",
    "free_scale": "_free_scale", "rows": "_new_rows", "missing": "_missing",
    "remarks": "_of_units", "predictor": "_predictor", "largest_mean": "_largest_mean",
    "reads": "reads", "coded": "_coded", "scale": "_scale", "baseline": "_baseline",
}  # fmt: skip


def save(result: Result, path: str | os.PathLike[str]) -> None:
    """Write a result to a file, as JSON with a SHA-256 of it.

    Parameters
    ----------
    result : Fit or another result
        All of it but :attr:`Fit.units`, which further fits of the same records are for.
    path : path
        What is there is replaced once all of the new file is on the disk; ``OSError`` if it cannot
        be written.

    Privacy
    -------
    Released numbers and public facts: costs nothing, and no record is in the file.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "fit.json")
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> fit = dpfast.fit(X, 0.5 * X[:, 0], dpfast.Objective("log-cosh", scale=1.0), privacy=2.0)
    >>> dpfast.saved.save(fit, path)
    >>> bool((dpfast.saved.load(path).conf_int() == fit.conf_int()).all())
    True
    """
    if type(result) not in (Fit, *RESULTS):
        raise InvalidInput(
            "save takes a fit or another result with a guarantee, such as one of "
            f"{', '.join(kind.__name__ for kind in RESULTS)}; received {described(result)}."
        )
    write_document(path, _text(result, FORMAT if type(result) is Fit else RESULT))


def _text(result: Result, form: str) -> str:
    """Write the file in a format; all but the older one begin with the SHA-256 of the content."""
    content = json.dumps(_plain(result), allow_nan=False)
    digest = "" if form == OLDER else f'"sha256": "{sha256(content.encode()).hexdigest()}", '
    return f'{{"format": "{form}", {digest}"{_KEYS[form]}": {content}}}\n'


def load(path: str | os.PathLike[str]) -> Any:
    """Read a fit or another result that :func:`save` wrote to a file.

    Parameters
    ----------
    path : path

    Returns
    -------
    Fit or another result
        Predicts, compares and reports as the result itself.

    Privacy
    -------
    Costs nothing.

    Examples
    --------
    >>> dpfast.saved.load("a-page.html")
    Traceback (most recent call last):
    FileNotFoundError: ...
    """
    content = read_document(path, LARGEST)
    try:
        document = json.loads(_checked(content))
        result = _read(document[_KEYS[document["format"]]])
        right = _is_result if document["format"] == RESULT else _is_fit
        if not right(result) or _text(result, document["format"]) != content.decode():
            raise ValueError
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, ArithmeticError):
        raise InvalidInput(
            f"{os.fspath(path)!r} is no fit that dpfast.saved.save wrote, and no other result; or "
            f"it was changed since, or is of another version ({', '.join(map(repr, _KEYS))} are "
            "read). Save it again where it "
            "was made."
        ) from None
    return result


def _checked(content: bytes) -> str:
    """Return the text once its digest is right, so that a changed file is not even parsed."""
    for form in (FORMAT, RESULT):
        beginning = f'{{"format": "{form}", "sha256": "'.encode()
        if content.startswith(beginning):
            key = f'", "{_KEYS[form]}": '.encode()
            digest, _, rest = content[len(beginning) :].partition(key)
            if sha256(rest[:-2]).hexdigest().encode() != digest:
                raise ValueError
            return content.decode()
    if not content.startswith(f'{{"format": "{OLDER}", "fit": '.encode()):
        raise ValueError
    return content.decode()


def _is_fit(value: Any) -> bool:
    """Tell whether the parts of a parsed fit are consistent."""
    if not isinstance(value, Fit):
        return False
    p, names = len(value.params), value.names
    covariance, rows = value._covariance, value._new_rows
    return (
        value.params.ndim == 1
        and type(names) is tuple
        and len(names) == p
        and all(type(text) is str for text in (*names, value.model, value.method))
        and type(value.n_records) is int
        and value.n_records > 0
        and isinstance(value.privacy, Guarantee)
        and adds_up(value.privacy.total, value.privacy.composition)
        and (covariance is None or (isinstance(covariance, Covariance) and len(covariance[0]) == p))
        and isinstance(rows, NewRows | FormulaRows | OffsetRows | SomeColumns | NaturalRows)
        and (value._linked == "" or kind_of(value._linked) is not None)
        and (value._coded is None or _is_fit(value._coded))
        and bool(str(value.privacy) and value.summary())
    )


def _is_result(value: Any) -> bool:
    """Tell whether a parsed result has a promise that adds up, and can be shown."""
    return (
        type(value) in RESULTS
        and isinstance(value.privacy, Guarantee)
        and adds_up(value.privacy.total, value.privacy.composition)
        and all(map(_is_fit, filter(None, getattr(value, "fits", ()))))
        and bool(str(value.privacy) and value.summary() and value._columns(DEFAULT_LEVEL))
    )


def _names_of(kind: Any) -> tuple[str, ...]:
    if issubclass(kind, Budget):
        return kind.fields
    return tuple(f.name for f in fields(kind)) if is_dataclass(kind) else kind._fields


def _plain(value: Any) -> Any:
    """Convert to plain values, tagged with their type where JSON would lose it."""
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, float | np.generic):
        number = value.item() if isinstance(value, np.generic) else value
        if not isinstance(number, float):
            return number
        return number if math.isfinite(number) else {"float": repr(number)}
    if isinstance(value, Named):
        named_parts = value.view(np.ndarray), value._names, value._columns
        return {"named": [_plain(part) for part in named_parts]}
    if isinstance(value, np.ndarray):
        return {"array": _plain(value.astype(np.float64).tolist()), "shape": list(value.shape)}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    if type(value) is tuple:
        return {"tuple": [_plain(entry) for entry in value]}
    if isinstance(value, Mapping):
        return {"map": [[_plain(key), _plain(entry)] for key, entry in value.items()]}
    if type(value) is Fit:
        arguments = {name: vars(value).get(at, getattr(value, at)) for name, at in _FIT.items()}
        if value._baseline is None:
            del arguments["baseline"]
        return {"is": "Fit"} | {name: _plain(entry) for name, entry in arguments.items()}
    if _KINDS.get(type(value).__name__) is not type(value):
        raise InvalidInput(
            f"this fit holds {described(value)}, which only its maker knows: it cannot be saved."
        )
    return {"is": type(value).__name__} | {
        name: _plain(getattr(value, name))
        for name in _names_of(type(value))
        if name not in OPTIONAL or getattr(value, name) is not None
    }


def _read(content: Any) -> Any:
    """Rebuild objects from plain values; raise an error of any kind where that fails."""
    if isinstance(content, list):
        return [_read(entry) for entry in content]
    if not isinstance(content, dict):
        return content
    if "float" in content:
        return float(content["float"])
    if "named" in content:
        return named(*_read(content["named"]))
    if "array" in content:
        return np.array(_read(content["array"]), dtype=np.float64).reshape(content["shape"])
    if "tuple" in content:
        return tuple(_read(content["tuple"]))
    if "map" in content:
        return {_read(key): _read(entry) for key, entry in content["map"]}
    arguments = {name: _read(entry) for name, entry in content.items() if name != "is"}
    if content["is"] == "Fit":
        coded, scale = arguments.pop("coded"), arguments.pop("scale")
        baseline = arguments.pop("baseline", None)
        fit = Fit(**arguments)
        fit._coded, fit._scale, fit._baseline = coded, scale, baseline
        return fit
    kind = _KINDS[content["is"]]
    fields_written = [name for name in _names_of(kind) if name in arguments or name not in OPTIONAL]
    if [*arguments] != fields_written:
        raise ValueError("other fields")
    if issubclass(kind, Budget):
        return as_budget(amount(kind, *arguments.values()))
    return kind(**arguments)
