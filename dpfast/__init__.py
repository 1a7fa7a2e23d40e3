"""dpfast: fast, private M-estimation with honest confidence intervals.

The commonest tasks are here, others in packages: ``dpfast.models``, ``dpfast.optimize``,
``dpfast.audit`` and others, which ``dir(dpfast)`` lists.  Importing this package loads neither
NumPy nor SciPy; each public name is loaded on first use.  The stub ``__init__.pyi`` lists them.
"""

from dpfast.lazy import attach_stub

__version__ = "1.0.0"

__getattr__, __dir__ = attach_stub(__name__, __file__)
