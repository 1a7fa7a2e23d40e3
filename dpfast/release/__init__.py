"""Test and release: certify the curvature privately, then publish what the certificate allows."""

from dpfast.lazy import missing
from dpfast.release.certified import certify, release_parameter
from dpfast.release.forecast import ReleasePlan, plan_release
from dpfast.release.functional import Certified, release_functional
from dpfast.release.results import (
    Certificate,
    FunctionalRelease,
    NotCertified,
    ParameterRelease,
    ReleaseGuarantee,
)

__all__ = [
    "Certificate",
    "Certified",
    "FunctionalRelease",
    "NotCertified",
    "ParameterRelease",
    "ReleaseGuarantee",
    "ReleasePlan",
    "certify",
    "plan_release",
    "release_functional",
    "release_parameter",
]

TYPE_CHECKING = False
if not TYPE_CHECKING:  # type checkers know what is missing by themselves
    __getattr__ = missing(__name__, __all__)
