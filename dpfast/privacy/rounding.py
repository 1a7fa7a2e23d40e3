"""Margins for rounding: how far it can carry a formula, and what is added for it (claim C65).

What is proved to cost at most ``x`` is charged as ``x * (1 + margin)``, and what may be spent is
offered as ``x * (1 - margin)``.  Each margin is named by the kind of formula it covers.
"""

from __future__ import annotations

#: Largest relative error of one addition, product, quotient or root in float64.
UNIT_ROUNDOFF = 2.0**-53

#: A product or a quotient.  An elementary function counts as 8 roundings, here as everywhere.
ROUNDING_PRODUCT = 2.0**-50

#: A formula of a line or two.
ROUNDING_FORMULA = 2.0**-48

#: One with elementary functions.
ROUNDING_ELEMENTARY = 2.0**-44

#: A budget taken apart and put together again, a sum of a few thousand terms.
ROUNDING_SUM = 2.0**-40

#: A division into up to 2^20 shares; raises the noise by as much, far below anything measurable.
ROUNDING_SHARES = 2.0**-30
