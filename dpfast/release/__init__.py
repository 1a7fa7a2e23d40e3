"""Test and release: certify the curvature privately, then publish what the certificate allows."""

from dpfast.release.certificate import certify
from dpfast.release.combinator import TestAndRelease
from dpfast.release.functional import release_functional
from dpfast.release.parameter import release_parameter
from dpfast.release.results import (
    Certificate,
    FunctionalRelease,
    NotCertified,
    ParameterRelease,
    ReleaseGuarantee,
)

__all__ = [
    "Certificate",
    "FunctionalRelease",
    "NotCertified",
    "ParameterRelease",
    "ReleaseGuarantee",
    "TestAndRelease",
    "certify",
    "release_functional",
    "release_parameter",
]
