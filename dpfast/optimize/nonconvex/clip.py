"""Choice of the norm to which gradients are clipped: the bias is weighed against the noise saved.

Declared constants are bounds on the worst record; most gradients are far shorter, and noise in
proportion to the worst is wasted on them.  A histogram of the norms on public bins costs a small
part of the budget (claim K7), and the clip is chosen by it.

A clip c takes from the mean at most ``E (||g|| - c)_+``, an area under the shares of longer
gradients, and only if all of them point one way.  A part of it, ``ALIGNED_PART``, is compared with
the noise that the whole budget leaves in a mean of gradients clipped at c.  The clip has the
smallest sum of squares.  So it falls to none that costs more than it saves.  As n and the budget
grow it goes to the longest detected gradient, and the excess risk to that without a clip.

With little budget the histogram is mostly noise, and a clip far below most gradients turns a mean
into a vote of their directions, whose zero is elsewhere: where gradients have a long tail on one
side, at the median or so.  So the clip is never below a quantile of the lengths (compare Andrew et
al. 2021, who clip at the median), and releases of few records cost more and are fewer.

Shares count with two thirds of a standard deviation of their noise, up to the longest gradient
detected at any time.  Where a path makes most gradients short, the few that call it back may be too
few to be detected.  A clip that fell with the others would drive the path away for good.
"""

from __future__ import annotations

import math

import numpy as np

from dpfast.arguments import Array
from dpfast.curator.nonconvex.gradients import GradientCurator
from dpfast.optimize.nonconvex.descent import MIN_RHO, noise_for

#: Parts of the budget after which norms are released again; and where eight would cost too much.
RENEWALS = (0.0, 0.01, 0.03, 0.08, 0.2, 0.4, 0.6, 0.8)
FEW_RENEWALS = (0.0, 0.03, 0.2, 0.6)

#: Part of the budget of one release of norms.  Smaller, rare long gradients are not detected;
#: larger, the gradients themselves have more noise.
HISTOGRAM_SHARE = 0.005

#: Noise of a bin, as a share of the records, for which a release may cost more, and its largest
#: part of the budget then.  With more noise than this no quantile of the lengths is found.
BIN_NOISE = 0.03
LARGEST_SHARE = 0.02

#: Largest part of the budget of all releases of norms.
LENGTHS_SHARE = 0.08

#: Quantile of the lengths, of those that are not about zero, below which no gradients are clipped.
QUANTILE = 0.8

#: Standard deviations of noise above which a share of gradients is detected.  Noise alone does so
#: in 3 of 100 runs, for 150 sums of bins at eight times: what was detected once counts for good.
DETECTED_SDS = 4.0

#: Numbers of neighbouring bins whose sum is tested, too: longer bins are mostly empty, and their
#: noise hides what is below.
WINDOWS = (1, 2, 4, 8)

#: Standard deviations of noise with which a share of longer gradients counts.  With more, a run
#: from far away keeps the clip of its start; with 0, clips of few records fall far too low.
UPPER_SDS = 0.67

#: Part of the largest possible bias that is weighed against the noise: gradients rarely all point
#: one way.  Larger, clips are longer.
ALIGNED_PART = 0.15

#: Ratio of the declared bound to every clip of a run above which a run warns.
FAR_TOO_LARGE = 1000.0

#: Largest possible bias of the clip, in noises of the whole run, above which a run warns: the bias
#: is more than the noise if a third of it points one way.
WARN_NOISES = 3.0

#: Warning where the bias of the clip may be larger than all noise, or cannot be weighed.
CLIP_DECIDES = (
    "scaled gradients longer than {clip:.3g} are clipped. That moves their mean by about "
    "{bias:.2g} if all of these point one way, beside noise of {noise:.2g}{unsure}. Where long "
    "gradients do (counts, skewed responses, rare labels) the answer is some way from the minimum. "
    "Use more records or budget, or pass a public clip to dpfast.optimize.Adaptive."
)
UNSURE = "; with so few records the first number is rough"

#: Number of bins, and the ratio of their edges.
N_BINS = 32
BIN_RATIO = math.sqrt(2.0)

#: Candidates for the clip in each bin.
CLIPS_PER_BIN = 16


class PrivateClip:
    """Clip of a run, and its private choice."""

    def __init__(
        self, curator: GradientCurator, total: float, private: bool, fixed: float | None = None
    ) -> None:
        self._curator = curator
        self._total = total
        bound = curator.lipschitz
        self.value = self.longest = bound if fixed is None else min(fixed, bound)
        #: Part of the budget used at each release, and the clip chosen by it.
        self.path: list[tuple[float, float]] = []
        self._edges = bound * BIN_RATIO ** -np.arange(N_BINS - 1.0, -1.0, -1.0)
        price = 1.0 / (curator.n * BIN_NOISE) ** 2
        self._price = min(max(price, HISTOGRAM_SHARE * total), LARGEST_SHARE * total)
        dear = len(RENEWALS) * self._price > LENGTHS_SHARE * total
        self._renewals = FEW_RENEWALS if dear else RENEWALS
        self._noise = 1.0 / (curator.n * math.sqrt(max(self._price, MIN_RHO)))
        # if all gradients were in the middle bin, they would have to be detected there
        readable = DETECTED_SDS * self._noise * math.sqrt(0.25 * N_BINS) <= 1.0
        readable = readable and self._price >= MIN_RHO
        self._renews = private and fixed is None and curator.can_clip and readable
        self._next = 0
        #: Norm of the noise that the whole budget leaves in a mean of gradients, per clip.
        self._noise_per_clip = math.sqrt(curator.dimension) * noise_for(1.0, curator.n, total)
        #: Norm of the bias of the clip if all longer gradients point one way; and of all noise.
        self.bias = self.noise = 0.0
        #: True if the last choice was the quantile, and the budget too small to weigh the bias.
        self._unsure = False

    def renew(self, theta: Array, used: float) -> float:
        """Release norms at ``theta`` and choose again if it is time; return the cost."""
        times = self._renewals
        if not self._renews or self._next >= len(times):
            return 0.0
        if used < times[self._next] * self._total or self._price > self._curator.remaining:
            return 0.0
        while self._next < len(times) and used >= times[self._next] * self._total:
            self._next += 1
        answer = self._curator.gradient_norm_histogram(theta, self._edges, self._price)
        self._choose(answer.value)
        self.path.append((used, self.value))
        return self._price

    def _choose(self, shares: Array) -> None:
        """Choose the clip by the noisy shares of gradients in each bin."""
        # share of gradients in each bin or a longer one, and the noise of that sum
        n_summed = np.arange(N_BINS, 0.0, -1.0)
        at_least = np.cumsum(shares[::-1])[::-1]
        noise = self._noise * np.sqrt(n_summed)
        # the sum of all bins is known to be one: without that, sums of many would be too noisy
        part = n_summed / N_BINS
        corrected = at_least + part * (1.0 - at_least[0])
        detected = corrected > DETECTED_SDS * noise * np.sqrt(1.0 - part)
        sums = np.append(0.0, np.cumsum(shares))
        for width in WINDOWS:
            window = sums[width:] - sums[:-width]
            detected[: len(window)] |= window > DETECTED_SDS * self._noise * math.sqrt(width)
        longest = float(self._edges[np.flatnonzero(detected)[-1]])
        self.longest = max(self.longest, longest) if self.path else longest
        upper = np.maximum(at_least, 0.0) + UPPER_SDS * noise
        upper = np.minimum(np.maximum.accumulate(upper[::-1])[::-1], 1.0)
        # the mean of two monotone fits
        falling = np.maximum.accumulate(corrected[::-1])[::-1] + np.minimum.accumulate(corrected)
        falling = np.maximum(0.5 * falling, 0.0)
        best, least = self._best(upper), min(self._quantile(falling), self.longest)
        self.value = max(best, least)
        # a tail half as large as what the quantile leaves could be there and not be detected
        self._unsure = best < least and DETECTED_SDS * self._noise > 0.5 * (1.0 - QUANTILE)
        self.bias = float(np.interp(self.value, self._edges, self._excess(falling)))
        self.noise = self.value * self._noise_per_clip

    def _quantile(self, at_least: Array) -> float:
        """Return a quantile of the lengths.

        Gradients in the first bin, such as those of zero, are left out.
        """
        above = np.flatnonzero(at_least >= (1.0 - QUANTILE) * at_least[1])
        return float(self._edges[above[-1]] if len(above) else self._edges[0])

    def _excess(self, at_least: Array) -> Array:
        """Return the mean length beyond each edge: the largest bias of a clip there."""
        widths = np.diff(np.minimum(self._edges, self.longest), append=self.longest)
        longer = np.append(at_least[1:], 0.0)  # share longer than each edge
        return np.cumsum((longer * widths)[::-1])[::-1]

    def _best(self, at_least: Array) -> float:
        """Return the clip that minimises squared bias plus squared noise.

        ``at_least`` bounds the share of gradients in each bin or a longer one.
        """
        places = np.arange((N_BINS - 1.0) * CLIPS_PER_BIN + 1.0) / CLIPS_PER_BIN
        clips = self._edges[-1] * BIN_RATIO ** (places - (N_BINS - 1.0))
        excess = np.interp(clips, self._edges, self._excess(at_least))
        bias = ALIGNED_PART * excess / self._noise_per_clip
        return float(clips[np.argmin(clips**2 + bias**2)])

    def remarks(self) -> list[str]:
        """Warn where the clip decides, and where norms are all far below the declared bound."""
        remarks = []
        if self._unsure or self.bias > WARN_NOISES * self.noise:
            unsure = UNSURE * self._unsure
            numbers = {"clip": self.value, "bias": self.bias, "noise": self.noise}
            remarks = [CLIP_DECIDES.format(unsure=unsure, **numbers)]
        longest = max((value for _, value in self.path), default=math.inf)
        if not longest * FAR_TOO_LARGE <= self._curator.lipschitz:
            return remarks
        return [
            *remarks,
            f"most of the released gradients are shorter than {longest:.3g} at all times, and "
            f"lipschitz={self._curator.lipschitz:g} was declared: a bound that is more than "
            f"{FAR_TOO_LARGE:g} times too large costs accuracy where nothing is clipped below it.",
        ]
