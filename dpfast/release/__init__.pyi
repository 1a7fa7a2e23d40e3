from .certified import certify as certify, release_parameter as release_parameter
from .forecast import ReleasePlan as ReleasePlan, plan_release as plan_release
from .functional import Certified as Certified, release_functional as release_functional
from .results import (
    Certificate as Certificate,
    FunctionalRelease as FunctionalRelease,
    NotCertified as NotCertified,
    ParameterRelease as ParameterRelease,
    ReleaseGuarantee as ReleaseGuarantee,
)
