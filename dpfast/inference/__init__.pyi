from .adapters import marginaleffects_model as marginaleffects_model
from .guarantees import Guarantee as Guarantee
from .rendering.compare import compare as compare
from .rendering.verification import verify_report as verify_report
from .results import Fit as Fit
