"""Losses of one residual (or one linear predictor) and the public constants privacy needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast.arguments import Array, check_constant, real_array
from dpfast.errors import understood

if TYPE_CHECKING:
    from dpfast.kernels.user_loss import CompiledLoss

#: 95% efficiency of the Huber estimator at the normal model.
DEFAULT_CORNER = 1.345

#: Residual, in units of the corner, above which exp(-2 u) is zero.
FAR = 400.0

#: Argument below which psi(r)/r is its limit to the last bit.
NEAR = 1e-150

GOLDEN_RATIO = (1.0 + math.sqrt(5.0)) / 2.0

#: Nodes and weights of a quadrature for a standard normal: evenly spaced, because curvatures may be
#: narrow.
NODES = np.arange(-80, 81) / 8.0
MASSES = np.exp(-0.5 * NODES**2)
MASSES = MASSES / MASSES.sum()


class ScaleProfile(NamedTuple):
    """A smooth loss with corner 1 at residuals ``v >= 0``, as claim C37 needs it."""

    #: psi, slope, chord: ``psi``, ``psi'`` and ``psi(v)/v``.
    psi: NDArray[np.float64]
    #: ``sup chi - chi``, without cancellation.
    rest: NDArray[np.float64]
    slope: NDArray[np.float64]
    chord: NDArray[np.float64]


class ScalePart(NamedTuple):
    """Proved constants of a loss with a free scale: ``chi = r psi - rho``, factor f, radius R."""

    #: ``sup chi / c^2``.
    chi: float
    #: Largest ``f c/R`` at which the scale's coordinate adds nothing to the sensitivity of the
    #: score (claim C34; rounded down).
    score_limit: float
    #: Largest ``f c/R`` for which the bound on the Hessian is proved (claim C35; rounded down).
    curvature_limit: float
    #: The ``f c/R`` used.  Larger values mean less noise in the scale, up to the limits, and less
    #: of the Hessian for free (C37); bench/coverage.py has the design they were chosen on.
    ratio: float
    #: hessian_share, majorizer_share: ``mu^2`` of the Hessian, or of the majorising curvature,
    #: relative to the gradient's: the best trade found.
    hessian_share: float
    majorizer_share: float
    #: For smooth losses, whose Hessian is bounded and charged as if the scale were known (C35,
    #: C37): the loss at residuals ``v >= 0``.  None: Hessian and score are charged one by one.
    profile: Callable[[NDArray[np.float64]], ScaleProfile] | None = None


@understood
class Loss:
    """Base of the built-in losses.

    Attributes
    ----------
    name : str
        Name accepted by :func:`dpfast.fit`.
    c, h : float
        Corner (tuning constant) in units of the scale, and a second constant; 1 without one.
    needs_scale, binary_response : bool
        Whether the loss is a function of a residual in units of a public scale, or of labels
        in {0, 1}.
    link, start : str, float
        "logit" or "log" where the predictor is that function of the mean; else "identity".  Public
        start of the intercept.
    psi_bound, psi_prime_bound, psi_second_bound, psi_second_stretch : float
        ``sup |psi|``, ``sup psi'``, ``sup |psi''|``, and a bound of ``|r psi''(r)|``.
    self_concordance : float
        Smallest known ``g`` with ``|rho'''| <= g * rho''``, ``inf`` where there is none.
    short_side, score_slope : float
        Bound on the shorter side's psi over ``psi_bound``; largest slope of psi over that of psi'.
    coupling, majorizer_coupling : str
        Relation of ``|psi|`` to psi', or to the majorising curvature ``psi(r)/r``, by which a
        gradient and a Hessian released together are accounted (formulas page, section 4.3).
    lowest_slope : float or None
        ``inf psi'`` where it is proved and ``sup psi' = psi'(0)``: a user's declaration is no
        proof.
    has_curvature, certified, has_bound : bool
        Whether ``psi' >= 0``, so that a Hessian can be released.  Whether the constants are proved,
        and not a user's.  Whether one record's score has a bound; without it only the default fit
        finds one.
    scale_part : ScalePart or None
        Constants of a scale that is estimated with the coefficients, where its score has a bound.
    largest_mean : float
        Cap of the means, of a loss that has one.
    compiled : CompiledLoss or None
        Compiled functions of a user's loss.
    estimates, noun : str
        Estimand of the coefficients, and name of the mean of the response.

    Other Parameters
    ----------------
    r, response, count : array-like
        Of methods: residuals in units of the scale, or linear predictors, of any shape; responses
        beside them.

    Examples
    --------
    >>> loss = dpfast.Huber(1.0)
    >>> [float(f(4.0)) for f in (loss.loss, loss.psi, loss.psi_prime, loss.majorizer)]
    [3.5, 1.0, 0.0, 0.25]
    """

    name: str
    code: ClassVar[int]
    needs_scale: ClassVar[bool] = True
    coupling: str = "independent"
    majorizer_coupling: str = "independent"
    binary_response: ClassVar[bool] = False
    link: ClassVar[str] = "identity"
    start: float = 0.0
    certified: ClassVar[bool] = True
    lowest_slope: ClassVar[float | None] = None
    scale_part: ClassVar[ScalePart | None] = None
    h: float = 1.0
    of_mean: ClassVar[bool] = True
    has_bound: ClassVar[bool] = True
    settings: ClassVar[tuple[str, ...]] = ()
    mean_label: ClassVar[str] = "mean"
    largest_mean: float = math.inf
    mean_curvature, level_shift, peakedness, short_side, score_slope = 1.0, 0.0, 1.0, 1.0, 1.0
    curvature_varies: ClassVar[bool] = True
    supports_default_fit: ClassVar[bool] = False
    declared: bool = True
    aliases: ClassVar[str] = ""
    undeclared: ClassVar[str] = ""
    estimates: ClassVar[str] = (
        "the coefficients that minimise the expected loss; they are those of least squares "
        "where errors are symmetric and the model is right"
    )
    largest_response: ClassVar[float | None] = None
    #: Responses that the model allows, if not all: "counts" (from 0 on) or "positive".
    responses: ClassVar[str] = ""
    #: Whether a level with zeros only, say, has no finite coefficient (separation).
    may_separate: ClassVar[bool] = False
    score_bound_ratio: ClassVar[float | None] = 1.0

    def __init__(self, c: float = DEFAULT_CORNER) -> None:
        self.c = check_constant(c, "c", f"the corner of the {self.name} loss, in units of scale")

    @property
    def psi_bound(self) -> float:
        return self.c

    @property
    def psi_prime_bound(self) -> float:
        return 1.0

    @property
    def self_concordance(self) -> float:
        return math.inf

    @property
    def compiled(self) -> CompiledLoss | None:
        return None

    @property
    def has_curvature(self) -> bool:
        return True

    @property
    def curvature_refusal(self) -> str:
        """Reason why the Hessian cannot be released, where ``has_curvature`` is false."""
        return (
            f"the {self.name} loss is redescending: its second derivative is negative "
            "for some residuals, so there is no positive semidefinite Hessian"
        )

    @property
    def scale_refusal(self) -> str:
        """Reason why the scale cannot be estimated with the coefficients, without a scale_part."""
        if not self.needs_scale:
            return "its response has no residual scale"
        if not self.has_curvature:
            return "it is redescending, so the joint loss is not convex"
        return (
            "no bound on its scale score u psi(u) - rho(u) is known here; for the "
            "self-concordant (Ostrovskii-Bach) loss, for one, it is unbounded, and so is "
            "the sensitivity"
        )

    @property
    def psi_second_bound(self) -> float:
        return self.self_concordance * self.psi_prime_bound

    @property
    def psi_second_stretch(self) -> float:
        return 4.0 * self.psi_prime_bound

    def loss(self, r: ArrayLike) -> Array:
        """Compute ``rho(r)``, elementwise, of the shape of ``r``."""
        raise NotImplementedError

    def psi(self, r: ArrayLike) -> Array:
        """Compute ``rho'(r)``, of the shape of ``r``; at most ``psi_bound`` in absolute value."""
        raise NotImplementedError

    def psi_prime(self, r: ArrayLike) -> Array:
        """Compute ``rho''(r)``, of the shape of ``r``; at most ``psi_prime_bound`` in size."""
        raise NotImplementedError

    def majorizer(self, r: ArrayLike) -> Array:
        """Compute the majorising curvature ``psi(r)/r``, shaped as r, at most psi_prime_bound."""
        r = real_array(r, "r")
        with np.errstate(all="ignore"):
            ratio = self.psi(r) / r
        near_zero = np.abs(r) < NEAR  # where the quotient would lose all its digits
        return np.where(near_zero, self.psi_prime_bound, np.where(np.isinf(r), 0.0, ratio))

    def _response(self, y: Array) -> Array:
        """Return responses as the loss sees them; NaN for a response that it cannot have."""
        return y

    def _score_at(self, y: Array, eta: Array, scale: float) -> Array:
        """Compute minus the loss's slope in the predictor: ``sigma psi((y - eta)/sigma)``."""
        return scale * self.psi((y - eta) / scale)

    def _curvature_at(self, y: Array, eta: Array, scale: float) -> Array:
        """Compute the curvature in the predictor: ``psi'((y - eta)/sigma)``."""
        return self.psi_prime((y - eta) / scale)

    def _expected_curvature(self, eta: Array) -> Array:
        """Average the curvature at predictors over normal residuals of the scale."""
        return np.full(len(eta), float(MASSES @ self.psi_prime(NODES)))

    @property
    def _bounded(self) -> Loss:
        """This loss, with a bound where nobody declared one."""
        return self

    @property
    def _highest(self) -> float | None:
        """Largest response possible or counted, where it is public and the smallest is 0."""
        return self.largest_response

    def _link(self, mean: float) -> float:
        """Return the predictor of a mean response."""
        return mean

    def _predictor(self, mean: float) -> float:
        """Return the predictor of a mean response at which a fit may begin."""
        return self._link(mean)

    def _score_scale(self, size: float) -> float:
        """Guess the length of a score under a whitening map, for responses of this size."""
        return 1.0

    @classmethod
    def _means(cls, eta: Array, max_mean: float = math.inf) -> tuple[Array, Array, Array]:
        """Compute mean responses at predictors, up to a largest one, and their two derivatives."""
        return eta, np.ones(eta.shape), np.zeros(eta.shape)

    def _synthetic(self, uniform: Array, rate: float, scale: float) -> ArrayLike:
        """Make responses of a model without slopes, at numbers spread evenly over (0, 1)."""
        from scipy.special import ndtri

        return np.asarray(scale * ndtri(uniform))

    def _for_records(self, n: int | None, p: int, mu: float | None = None) -> Loss:
        """Choose constants from public numbers; most losses have none to choose."""
        return self

    def _adapted_to_sample(self, chosen: Loss, n: int) -> Loss:
        """Choose the loss that Newton's method uses, from one with constants for n records."""
        return chosen

    def _target(self, scale: float) -> str:
        """Describe the target for a summary, beside the loss's name."""
        return ""

    def _score_bound_at(self, eta: Array) -> Array:
        """Bound scores at predictors over all responses, in units of the scale."""
        return np.full(len(eta), self.psi_bound)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(c={self.c:g})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Loss) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        return (type(self), self.c)


class Huber(Loss):
    """Huber's loss: quadratic up to ``c``, linear beyond (Huber 1964).

    Equation (6) of paper 1 (Avella-Medina, Bradshaw and Loh 2023).

    Parameters
    ----------
    c : float
        Corner (tuning constant), in units of the scale.

    Examples
    --------
    >>> dpfast.Huber(c=1.0).psi([0.5, 3.0])
    array([0.5, 1. ])
    """

    name = "huber"
    supports_default_fit = True
    code = 0
    lowest_slope: ClassVar[float | None] = 0.0
    scale_part: ClassVar[ScalePart | None] = ScalePart(
        chi=0.5,
        score_limit=GOLDEN_RATIO**2.5 * (1.0 - 1e-12),
        curvature_limit=2.0,
        ratio=1.0,
        hessian_share=0.25,
        majorizer_share=0.25,
    )

    def loss(self, r: ArrayLike) -> Array:
        a = np.abs(real_array(r, "r"))
        m = np.minimum(a, self.c)
        return np.asarray(m * (a - 0.5 * m))

    def psi(self, r: ArrayLike) -> Array:
        return np.asarray(np.clip(real_array(r, "r"), -self.c, self.c))

    def psi_prime(self, r: ArrayLike) -> Array:
        return np.asarray(np.abs(real_array(r, "r")) <= self.c, dtype=float)


class LeastSquares(Huber):
    """``r^2 / 2``; to the kernels Huber's loss with a corner, 1e100, that no residual reaches."""

    name = "least-squares"
    _kernel_parameters = -2, 1.0, 1.0  # without a corner
    aliases = "ols ls l2 mse rmse squared squared-error gaussian normal linear"
    curvature_varies = False
    score_bound_ratio = None
    supports_default_fit = True
    has_bound = False
    estimates = "the coefficients of ordinary least squares in the population"
    undeclared = (
        "least squares has no bound on one record's score. dpfast.fit(X, y, "
        '"least-squares", privacy=...) finds one, and takes neither weights nor ridge; other '
        'functions take "log-cosh" or "huber".'
    )
    code = Huber.code
    needs_scale = False
    scale_part: ClassVar[ScalePart | None] = None
    scale_refusal = "its minimiser does not depend on the scale"

    def __init__(self) -> None:
        super().__init__(1e100)

    def _score_at(self, y: Array, eta: Array, scale: float) -> Array:
        return y - eta

    def _curvature_at(self, y: Array, eta: Array, scale: float) -> Array:
        return np.ones(len(y))

    def _expected_curvature(self, eta: Array) -> Array:
        return np.ones(len(eta))

    def _score_bound_at(self, eta: Array) -> Array:
        return np.ones(len(eta))

    def __repr__(self) -> str:
        return "LeastSquares()"


class ClippedResponse(Huber):
    """Huber's score beside the curvature of least squares: a clipped moment and a Gram in one read.

    The curvature is not the score's slope, so that their joint release costs what claim C17 says.
    """

    name = "clipped-response"
    code = 18
    supports_default_fit = False
    lowest_slope = None
    scale_part: ClassVar[ScalePart | None] = None

    def psi_prime(self, r: ArrayLike) -> Array:
        return np.ones(real_array(r, "r").shape)

    def majorizer(self, r: ArrayLike) -> Array:
        """Return 1, which is at least ``psi(r)/r``."""
        return self.psi_prime(r)


def _log_cosh_profile(v: Array) -> ScaleProfile:
    psi = np.tanh(v)
    e = np.exp(-2.0 * v)
    rest = np.log1p(e) + 2.0 * v * e / (1.0 + e)
    chord = np.divide(psi, v, out=np.ones_like(v), where=v > 0.0)
    return ScaleProfile(psi, rest, 1.0 - psi * psi, chord)


class LogCosh(Loss):
    """``c^2 log cosh(r/c)``: smooth, and its Hessian comes free with the gradient.

    Appendix C.3 of paper 1 (Avella-Medina, Bradshaw and Loh 2023).

    Parameters
    ----------
    c : float
        Corner (tuning constant), in units of the scale.

    Examples
    --------
    >>> dpfast.LogCosh(c=1.0).psi([0.0, 100.0])
    array([0., 1.])
    """

    name = "log-cosh"
    aliases = "robust"
    supports_default_fit = True
    code = 1
    lowest_slope = 0.0
    coupling = "one-minus-square"
    majorizer_coupling = "log-cosh-majorizer"
    scale_part = ScalePart(
        chi=math.log(2.0),
        score_limit=1.0 / math.log(2.0) * (1.0 - 1e-12),
        curvature_limit=1.0,
        ratio=1.0,
        hessian_share=0.4,
        majorizer_share=0.5,
        profile=_log_cosh_profile,
    )

    @property
    def self_concordance(self) -> float:
        return 2.0 / self.c

    @property
    def psi_second_bound(self) -> float:
        return 4.0 / (3.0 * math.sqrt(3.0)) / self.c  # at tanh(u)^2 = 1/3

    def loss(self, r: ArrayLike) -> Array:
        a = np.abs(real_array(r, "r")) / self.c
        tail = np.log1p(np.exp(-2.0 * np.minimum(a, FAR)))
        return np.asarray(self.c**2 * (a + tail - math.log(2.0)))

    def psi(self, r: ArrayLike) -> Array:
        return np.asarray(self.c * np.tanh(real_array(r, "r") / self.c))

    def psi_prime(self, r: ArrayLike) -> Array:
        e = np.exp(-2.0 * np.minimum(np.abs(real_array(r, "r")) / self.c, FAR))
        return np.asarray(4.0 * e / (1.0 + e) ** 2)


def _pseudo_huber_profile(v: Array) -> ScaleProfile:
    root = np.hypot(1.0, v)
    return ScaleProfile(v / root, 1.0 / root, root**-3.0, 1.0 / root)


class PseudoHuber(Loss):
    """``c^2 (sqrt(1 + (r/c)^2) - 1)`` (Charbonnier).

    Appendix C.3 of paper 1 (Avella-Medina, Bradshaw and Loh 2023).

    Parameters
    ----------
    c : float
        Corner (tuning constant), in units of the scale.

    Examples
    --------
    >>> dpfast.models.PseudoHuber(c=1.0).psi_prime([0.0])
    array([1.])
    """

    name = "pseudo-huber"
    supports_default_fit = True
    code = 2
    lowest_slope = 0.0
    coupling = "one-minus-square"
    majorizer_coupling = "circle"
    scale_part = ScalePart(
        chi=1.0,
        score_limit=1.0,
        curvature_limit=1.22,
        ratio=0.85,
        hessian_share=0.28,
        majorizer_share=0.3,
        profile=_pseudo_huber_profile,
    )

    @property
    def self_concordance(self) -> float:
        return 1.5 / self.c

    @property
    def psi_second_bound(self) -> float:
        return 1.5 / math.pow(1.25, 2.5) / self.c  # at u = 1/2

    def loss(self, r: ArrayLike) -> Array:
        u = real_array(r, "r") / self.c
        # hypot(1, u) - 1 without cancellation: u^2 / (1 + hypot(1, u)), evaluated without
        # squaring a large u.
        return np.asarray(self.c**2 * u * (u / (1.0 + np.hypot(1.0, u))))

    def psi(self, r: ArrayLike) -> Array:
        u = np.clip(real_array(r, "r") / self.c, -1e150, 1e150)  # inf/inf is NaN
        return np.asarray(self.c * (u / np.hypot(1.0, u)))

    def psi_prime(self, r: ArrayLike) -> Array:
        return np.asarray((1.0 / np.hypot(1.0, real_array(r, "r") / self.c)) ** 3)


class Labels(Loss):
    """Base of the losses of a response in {0, 1} as a function of the linear predictor."""

    needs_scale = False
    binary_response = True
    supports_default_fit = True
    largest_response = 1.0
    may_separate = True
    mean_label = "share of ones"

    def _response(self, y: Array) -> Array:
        return np.where((y == 0.0) | (y == 1.0), y, np.nan)

    def _synthetic(self, uniform: Array, rate: float, scale: float) -> ArrayLike:
        return (uniform < rate).astype(float)


@understood
class Logistic(Labels):
    """Cross-entropy of a response in {0, 1} as a function of the linear predictor.

    ``psi(t)`` is the mean ``1 / (1 + exp(-t))``; the score of a record is ``(psi(x'theta) - y) x``
    (sign and labels of eq. (7) of Avella-Medina et al. are wrong: formulas page, section 9).

    Examples
    --------
    >>> dpfast.Logistic().psi([0.0])
    array([0.5])
    """

    name = "logistic"
    aliases = "logit binomial bernoulli log-loss cross-entropy binary-cross-entropy sigmoid"
    code = 3
    lowest_slope = 0.0
    coupling = "logistic"
    majorizer_coupling = "logistic-majorizer"
    link = "logit"
    estimates = "log odds ratios that minimise the expected logistic loss"
    psi_bound = 1.0
    psi_prime_bound = 0.25
    self_concordance = 1.0
    psi_second_bound = 1.0 / (6.0 * math.sqrt(3.0))  # at p = (1 - 1/sqrt 3)/2

    def __init__(self) -> None:
        super().__init__(1.0)

    def loss(self, r: ArrayLike) -> Array:
        return np.asarray(np.logaddexp(0.0, real_array(r, "r")))

    def psi(self, r: ArrayLike) -> Array:
        t = real_array(r, "r")
        e = np.exp(-np.abs(t))
        return np.asarray(np.where(t >= 0, 1.0, e) / (1.0 + e))

    def psi_prime(self, r: ArrayLike) -> Array:
        return self._slope(real_array(r, "r"))

    @staticmethod
    def _slope(t: Array) -> Array:
        e = np.exp(-np.abs(t))
        return np.asarray(e / (1.0 + e) ** 2)

    def majorizer(self, r: ArrayLike) -> Array:
        """Majorising curvature ``(psi(t) - 1/2)/t = tanh(t/2)/(2t)``; 1/4 at zero."""
        t = real_array(r, "r")
        with np.errstate(all="ignore"):
            ratio = 0.5 * np.tanh(0.5 * t) / t
        return np.where(np.abs(t) < NEAR, 0.25, ratio)

    def _score_at(self, y: Array, eta: Array, scale: float) -> Array:
        return self._response(y) - self.psi(eta)

    def _curvature_at(self, y: Array, eta: Array, scale: float) -> Array:
        return self.psi_prime(eta)

    def _expected_curvature(self, eta: Array) -> Array:
        return self._slope(eta)

    def _link(self, mean: float) -> float:
        return math.log(mean / (1.0 - mean))

    @classmethod
    def _means(cls, eta: Array, max_mean: float = math.inf) -> tuple[Array, Array, Array]:
        e = np.exp(-np.abs(eta))
        mean, slope = np.where(eta >= 0.0, 1.0, e) / (1.0 + e), e / (1.0 + e) ** 2
        return mean, slope, slope * (1.0 - 2.0 * mean)

    def _score_bound_at(self, eta: Array) -> Array:
        return self.psi(np.abs(eta))  # that of the rarer response

    def __repr__(self) -> str:
        return "Logistic()"


#: Losses that have a name.
KINDS = (Huber, LogCosh, PseudoHuber, Logistic, LeastSquares)
