"""Private Bayesian optimisation: covariance functions, gradient information, DP-GIBO.

Differences from Algorithm 1 of Sopa, Marusic, Avella-Medina and Cunningham (2025):

* line 4 bounds the remaining variance ``T0 + alpha``.  The printed condition bounds ``alpha``
  alone, which is negative, and so accepts a single point at every step.  The batch is capped;
* line 9 projects onto the box, and AdaGrad subtracts the public noise variance from its sum;
* a record's vector that is not finite counts as zero, and no norm of zero is divided by;
* the covariance matrix always includes the evaluation noise (appendix B omits it).

Additions: an unknown mean of the losses, privacy noise projected on the directions with signal,
smoothed updates, budgets that grow towards the end, and averages of the last iterates.
"""

from dpfast.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__, __file__)
