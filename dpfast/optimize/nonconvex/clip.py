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

Shares count with one standard deviation of their noise, up to the longest gradient detected at any
time.  Where a path makes most gradients short, the few that call it back may be too few to be
detected.  A clip that fell with the others would drive the path away for good.
"""

from __future__ import annotations

import math

import numpy as np

from dpfast.arguments import Array
from dpfast.curator.nonconvex.gradients import GradientCurator
from dpfast.optimize.nonconvex.descent import MIN_RHO, noise_for

#: Parts of the budget after which norms are released again; and where each release costs more.
RENEWALS = (0.0, 0.01, 0.03, 0.08, 0.2, 0.4, 0.6, 0.8)
FEW_RENEWALS = (0.0, 0.03, 0.2, 0.6)

#: Part of the budget of one release of norms.  Smaller, rare long gradients are not detected;
#: larger, the gradients themselves have more noise.
HISTOGRAM_SHARE = 0.005

#: Noise of a bin, as a share of the records, for which a release may cost more, and its largest
#: part of the budget then.  With more noise than this no quantile of the lengths is found.
BIN_NOISE = 0.03
LARGEST_SHARE = 0.02

#: Quantile of the lengths, of those that are not about zero, below which no gradients are clipped.
QUANTILE = 0.8

#: Standard deviations of noise above which a share of gradients is detected.  Noise alone does so
#: in 3 of 100 runs, for 150 sums of bins at eight times: what was detected once counts for good.
DETECTED_SDS = 4.0

#: Numbers of neighbouring bins whose sum is tested, too: longer bins are mostly empty, and their
#: noise hides what is below.
WINDOWS = (1, 2, 4, 8)

#: Part of the largest possible bias that is weighed against the noise: gradients rarely all point
#: one way.  Larger, clips are longer.
ALIGNED_PART = 0.1

#: Ratio of the declared bound to every clip of a run above which a run warns.
FAR_TOO_LARGE = 1000.0

#: Warning where the bias of the clip may be as large as all noise.
CLIP_DECIDES = (
    "gradients longer than {clip:.3g}, about a fifth of them, are clipped, and the noise is too "
    "large to say how much that matters: where long gradients point one way (counts, skewed "
    "responses) the answer is some way from the minimum. Use more records or budget, or pass a "
    "public clip to dpfast.optimize.Adaptive."
)

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
        costly = self._price > HISTOGRAM_SHARE * total
        self._renewals = FEW_RENEWALS if costly else RENEWALS
        self._noise = 1.0 / (curator.n * math.sqrt(max(self._price, MIN_RHO)))
        # if all gradients were in the middle bin, they would have to be detected there
        readable = DETECTED_SDS * self._noise * math.sqrt(0.25 * N_BINS) <= 1.0
        readable = readable and self._price >= MIN_RHO
        self._renews = private and fixed is None and curator.can_clip and readable
        self._next = 0
        #: True if the last choice was the quantile: the budget is too small to weigh the bias.
        self._decides = False

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
        upper = np.maximum(at_least, 0.0) + noise
        upper = np.minimum(np.maximum.accumulate(upper[::-1])[::-1], 1.0)
        best, least = self._best(upper), min(self._quantile(corrected), self.longest)
        self.value, self._decides = max(best, least), best < least

    def _quantile(self, at_least: Array) -> float:
        """Estimate a quantile of the lengths by the mean of two monotone fits of the shares.

        Gradients in the first bin, such as those of zero, are left out.
        """
        falling = np.maximum.accumulate(at_least[::-1])[::-1] + np.minimum.accumulate(at_least)
        above = np.flatnonzero(falling >= (1.0 - QUANTILE) * max(falling[1], 0.0))
        return float(self._edges[above[-1]] if len(above) else self._edges[0])

    def _best(self, shares: Array) -> float:
        """Return the clip that minimises squared bias plus squared noise.

        ``shares`` bounds the share of gradients in each bin or a longer one.
        """
        widths = np.diff(np.minimum(self._edges, self.longest), append=self.longest)
        longer = np.append(shares[1:], 0.0)  # share longer than each edge
        excess = np.cumsum((longer * widths)[::-1])[::-1]
        places = np.arange((N_BINS - 1.0) * CLIPS_PER_BIN + 1.0) / CLIPS_PER_BIN
        clips = self._edges[-1] * BIN_RATIO ** (places - (N_BINS - 1.0))
        curator = self._curator
        noise_per_clip = math.sqrt(curator.dimension) * noise_for(1.0, curator.n, self._total)
        bias = ALIGNED_PART * np.interp(clips, self._edges, excess) / noise_per_clip
        return float(clips[np.argmin(clips**2 + bias**2)])

    def remarks(self) -> list[str]:
        """Warn where the clip decides, and where norms are all far below the declared bound."""
        remarks = [CLIP_DECIDES.format(clip=self.value)] if self._decides else []
        longest = max((value for _, value in self.path), default=math.inf)
        if not longest * FAR_TOO_LARGE <= self._curator.lipschitz:
            return remarks
        return [
            *remarks,
            f"most of the released gradients are shorter than {longest:.3g} at all times, and "
            f"lipschitz={self._curator.lipschitz:g} was declared: a bound that is more than "
            f"{FAR_TOO_LARGE:g} times too large costs accuracy where nothing is clipped below it.",
        ]
