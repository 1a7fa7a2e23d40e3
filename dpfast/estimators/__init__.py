"""scikit-learn estimators (the ``sklearn`` extra): private fits in pipelines and cross-validation.

What scikit-learn does *around* an estimator is not under its control: see ``docs/privacy.md``.
"""

from dpfast.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__, __file__)
