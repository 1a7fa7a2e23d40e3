"""Running error analysis over boxes: the code as it stands, with balls in the place of floats.

:func:`analysed` runs a function of dpfast over a whole box of arguments at once.  Each number is a
:class:`Rounded`: an enclosure, in ball arithmetic, of what exact arithmetic would give for every
point of the box, and two bounds of what rounding may have made of it, absolute and relative.  So
what is shown about the result holds for every double in the box, and not only at points that were
tried.  It rests on IEEE 754 for ``+ - * / sqrt``, and on the bounds in :data:`LIBRARY` for the
functions of libm and SciPy, which nobody has proved: ``test_enclosures.py`` compares them with ball
arithmetic at many points.

Enclosures are intersections of plain interval arithmetic with the mean-value form, without which
``f(x) - f(y)`` would drown in the width of the box.
"""

from __future__ import annotations

import builtins
import inspect
import math
import textwrap
import types

from flint import arb, ctx

#: Bits of the balls.  Where a box is a point their radius is far below anything of interest.
BITS = 128

UNIT = arb(2) ** -53

#: More than any underflow can lose; see ``Rounded.__add__``.
TINY = arb(2) ** -1000

#: Relative errors assumed of the functions that IEEE 754 says nothing about.
LIBRARY = {
    "exp": 4 * UNIT,
    "erf": 4 * UNIT,
    "erfcx": 16 * UNIT,
    "ndtr": 4096 * UNIT,
    "ndtri": 16 * UNIT,
}


def magnitude(ball: arb) -> arb:
    return ball.abs_upper()


def between(low, high) -> arb:
    """The ball around two numbers and all that lies between them."""
    return arb(low).union(arb(high))


class Undecided(Exception):
    """A comparison that is true in a part of the box and false in another."""


class Rounded:
    """What a float variable can hold over a box.

    Attributes
    ----------
    hull, centre : arb
        Exact arithmetic: over the box, and at its centre.
    slopes : list of arb
        Derivatives by each side of the box, over the box.
    absolute, relative : arb
        Bounds of the rounding error; ``relative`` is None where the hull contains zero.
    """

    box: tuple[arb, ...] = ()  # half-lengths of the sides; one box at a time
    undecided: bool | None = None  # what such a comparison is taken to say; None: it raises

    def __init__(self, hull, centre, slopes, relative=None, absolute=None):
        spread = arb(0)
        for slope, half in zip(slopes, self.box, strict=True):
            spread += magnitude(slope) * half
        mean_value = centre + arb(0, spread)
        self.hull = hull.intersection(mean_value) if hull.overlaps(mean_value) else mean_value
        self.centre, self.slopes = centre, slopes
        largest, least = magnitude(self.hull), self.hull.abs_lower()
        if absolute is None:
            absolute = largest * relative
        elif least > 0:
            fromabsolute = absolute / least
            relative = fromabsolute if relative is None else relative.min(fromabsolute)
        self.absolute, self.relative = absolute.upper(), relative and relative.upper()

    @classmethod
    def of(cls, value) -> Rounded:
        if isinstance(value, Rounded):
            return value
        exact = arb(value)
        return cls(exact, exact, [arb(0)] * len(cls.box), relative=arb(0))

    def through(self, function, slope, library, steepest, condition=None) -> Rounded:
        """A monotone function with a monotone slope, positive.

        Parameters
        ----------
        function, slope : callable
            On balls.
        library : arb
            Relative error of the float function.
        steepest : callable
            Bound of the slope of its logarithm from here on.
        condition : arb, optional
            Bound of ``|x f'(x)/f(x)|`` over the box.
        """
        low, high = arb(self.hull.lower()), arb(self.hull.upper())
        hull = between(function(low), function(high))
        inner = between(slope(low), slope(high))
        wide_low, wide_high = (
            arb((low - self.absolute).lower()),
            arb((high + self.absolute).upper()),
        )
        moved = magnitude(between(slope(wide_low), slope(wide_high))) * self.absolute
        absolute = moved + library * (magnitude(hull) + moved)
        bent = (magnitude(steepest(wide_low)) * self.absolute).expm1()
        if condition is not None and self.relative is not None:
            bent = bent.min((condition * self.relative / (1 - self.relative)).expm1())
        relative = bent * (1 + library) + library
        slopes = [inner * s for s in self.slopes]
        return Rounded(hull, function(self.centre), slopes, relative, absolute)

    # -- operations: (exact enclosure, derivatives, errors with one rounding more) ----------------

    def __add__(self, other):
        if isinstance(other, float) and other == 0.0:
            return self
        other = Rounded.of(other)
        hull = self.hull + other.hull
        slopes = [a + b for a, b in zip(self.slopes, other.slopes, strict=True)]
        absolute = self.absolute + other.absolute
        # A product that underflows has lost at most 2^-1074, which is charged when it is added.
        absolute = absolute + UNIT * (magnitude(hull) + absolute) + TINY
        relative = None
        alike = (self.hull >= 0 and other.hull >= 0) or (self.hull <= 0 and other.hull <= 0)
        if alike and self.relative is not None and other.relative is not None:
            relative = self.relative.max(other.relative) * (1 + UNIT) + UNIT
        return Rounded(hull, self.centre + other.centre, slopes, relative, absolute)

    def __neg__(self):
        return Rounded(
            -self.hull, -self.centre, [-s for s in self.slopes], self.relative, self.absolute
        )

    def __sub__(self, other):
        return self + -Rounded.of(other)

    def __rsub__(self, other):
        return Rounded.of(other) + -self

    def __mul__(self, other):
        exact = isinstance(other, float) and math.frexp(other)[0] in (0.5, -0.5)  # a power of two
        other = Rounded.of(other)
        hull = self.hull * other.hull
        slopes = [
            a * other.hull + b * self.hull for a, b in zip(self.slopes, other.slopes, strict=True)
        ]
        unit = arb(0) if exact else UNIT
        a, b = self.absolute, other.absolute
        absolute = magnitude(self.hull) * b + magnitude(other.hull) * a + a * b
        absolute = absolute + unit * (magnitude(hull) + absolute)
        relative = None
        if self.relative is not None and other.relative is not None:
            relative = (1 + self.relative) * (1 + other.relative) * (1 + unit) - 1
        return Rounded(hull, self.centre * other.centre, slopes, relative, absolute)

    def __truediv__(self, other):
        other = Rounded.of(other)
        hull, inverse = self.hull / other.hull, 1 / other.hull
        slopes = [(a - hull * b) * inverse for a, b in zip(self.slopes, other.slopes, strict=True)]
        assert other.relative is not None and other.relative < 0.5
        shrunk = other.relative / (1 - other.relative)
        absolute = self.absolute * magnitude(inverse) * (1 + shrunk) + magnitude(hull) * shrunk
        absolute = absolute + UNIT * (magnitude(hull) + absolute)
        relative = None
        if self.relative is not None:
            relative = (1 + self.relative) * (1 + shrunk) * (1 + UNIT) - 1
        return Rounded(hull, self.centre / other.centre, slopes, relative, absolute)

    def __pow__(self, power):
        assert power == 2
        return self * self

    def __abs__(self):
        hull = abs(self.hull)
        slopes = [s.union(-s) for s in self.slopes]
        return Rounded(hull, abs(self.centre), slopes, self.relative, self.absolute)

    __radd__, __rmul__ = __add__, __mul__

    # -- comparisons, which must hold for every float the variable may be -------------------------

    def _compared(self, other) -> bool:
        """self < other, decided; or Undecided."""
        other = Rounded.of(other)
        gap = other.hull - self.hull
        slack = self.absolute + other.absolute
        if gap > slack:
            return True
        if gap < -slack:
            return False
        if Rounded.undecided is None:
            raise Undecided
        return Rounded.undecided

    def __lt__(self, other):
        return self._compared(other)

    __le__ = __lt__

    def __gt__(self, other):
        return not self._compared(other)

    __ge__ = __gt__


# ---- the functions of libm and SciPy ------------------------------------------------------------


def erfcx(x: arb) -> arb:
    return (x * x).exp() * x.erfc()


def _erfcx_slope(x: arb) -> arb:
    return 2 * x * erfcx(x) - 2 / arb.pi().sqrt()


def normal(x: arb) -> arb:
    return (-x / arb(2).sqrt()).erfc() / 2


def density(x: arb) -> arb:
    return (-x * x / 2).exp() / (2 * arb.pi()).sqrt()


def _exp_of(value) -> Rounded:
    return Rounded.of(value).through(arb.exp, arb.exp, LIBRARY["exp"], lambda x: arb(1))


def _erfcx_of(value) -> Rounded:
    """Its logarithm is convex, and ``x erfcx(x)`` increases."""
    value = Rounded.of(value)
    condition = arb(1) if value.hull - value.absolute > 0 else None
    return value.through(
        erfcx, _erfcx_slope, LIBRARY["erfcx"], lambda x: _erfcx_slope(x) / erfcx(x), condition
    )


def _ndtr_of(value) -> Rounded:
    """Its logarithm is concave; its slope is largest at zero."""
    value = Rounded.of(value)
    wide = value.hull + arb(0, value.absolute)

    def slope(x: arb) -> arb:
        return between(0, density(arb(0))) if wide.contains(arb(0)) else density(x)

    return value.through(normal, slope, LIBRARY["ndtr"], lambda x: density(x) / normal(x))


def _erf_of(value) -> Rounded:
    """Concave from 0 on."""

    def slope(x: arb) -> arb:
        return 2 * (-x * x).exp() / arb.pi().sqrt()

    return Rounded.of(value).through(
        arb.erf, slope, LIBRARY["erf"], lambda x: slope(x) / x.erf(), arb(1)
    )


FUNCTIONS = {"exp": _exp_of, "erfcx": _erfcx_of, "ndtr": _ndtr_of, "erf": _erf_of}


# ---- running a function of dpfast ---------------------------------------------------------------


def _as_it_is(value):
    return value


def rewired(function, **names):
    """The source of ``function``, compiled anew to run on :class:`Rounded` numbers.

    ``names`` take the place of its own, and of what it imports from SciPy.
    """
    library = types.SimpleNamespace(**{**FUNCTIONS, **names})

    def imported(name, *_):
        assert name in ("scipy.special", "dpfast.kernels.special"), name
        return library

    space = dict(function.__globals__)
    space["math"] = types.SimpleNamespace(
        exp=FUNCTIONS["exp"], erf=FUNCTIONS["erf"], sqrt=math.sqrt
    )
    space["__builtins__"] = {**vars(builtins), "__import__": imported, "float": _as_it_is}
    space.update(names)
    source = textwrap.dedent(inspect.getsource(function))
    exec(compile(source, function.__name__, "exec", dont_inherit=True), space)
    return space[function.__name__]


class Box:
    """The arguments: each side an interval of doubles, ends included."""

    def __init__(self, *sides: tuple[float, float]):
        ctx.prec = BITS
        self.sides = sides
        Rounded.box = tuple((arb(high) - arb(low)) / 2 for low, high in sides)

    def variables(self) -> list[Rounded]:
        found = []
        for k, (low, high) in enumerate(self.sides):
            slopes = [arb(int(j == k)) for j in range(len(self.sides))]
            centre = ((arb(low) + arb(high)) / 2).mid()
            found.append(Rounded(between(low, high), centre, slopes, relative=arb(0)))
        return found
