"""Public constants of a noisy bisection of doubles; ``csrc/session/thresholds.pxi`` has its rules.

Keys are the doubles in numeric order, as integers, so that no range has to be declared.
"""

from __future__ import annotations

BINADE = 1 << 52
#: Keys of 0 and of 1, each with the next one that a count can use.
LABEL_KEYS = (0, 1 << 16, 1023 * BINADE, 1023 * BINADE + (1 << 16))
#: Centre, and nearest distance, of a column that is 0 or 1: its ones are in the second octave.
INDICATOR = 0.0, 0.5
#: Octaves on a side of a centre: of such a column, and of one whose scale the centre's interval
#: tells.  One with a tie or zero there, which tells nothing of the scale, has all of the kernels'.
INDICATOR_OCTAVES, OCTAVES_OF_SCALE = 3, 40
#: Range of released locations: their differences do not overflow.
LARGEST = 1e300
SMALLEST = 1e-290
