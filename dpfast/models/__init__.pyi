from .concordance import (
    ReleaseConstants as ReleaseConstants,
    SmoothConstants as SmoothConstants,
    release_constants as release_constants,
    smooth_constants as smooth_constants,
)
from .custom import CustomLoss as CustomLoss
from .domains import Ball as Ball, Domain as Domain
from .free_scale import FreeScale as FreeScale
from .gamma import Gamma as Gamma
from .joint_scale import JointScale as JointScale
from .losses import (
    Huber as Huber,
    LeastSquares as LeastSquares,
    LogCosh as LogCosh,
    Logistic as Logistic,
    Loss as Loss,
    PseudoHuber as PseudoHuber,
)
from .names import resolve_loss as resolve_loss
from .objective import Constants as Constants, Objective as Objective
from .poisson import Poisson as Poisson
from .probit import Probit as Probit
from .products import (
    Box as Box,
    Interval as Interval,
    LpBall as LpBall,
    OneHot as OneHot,
    Product as Product,
)
from .quantile import Quantile as Quantile
from .smooth_losses import (
    OstrovskiiBach as OstrovskiiBach,
    SmoothAbsolute as SmoothAbsolute,
    SmoothedHuber as SmoothedHuber,
)
from .special_losses import (
    Cauchy as Cauchy,
    GemanMcClure as GemanMcClure,
    TukeyBiweight as TukeyBiweight,
    Welsch as Welsch,
)
from .weighting import (
    Bounded as Bounded,
    Clip as Clip,
    Mallows as Mallows,
    MallowsLinear as MallowsLinear,
    Schweppe as Schweppe,
    Weighting as Weighting,
    resolve_weighting as resolve_weighting,
)

__all__ = [
    "Ball",
    "Bounded",
    "Box",
    "Cauchy",
    "Clip",
    "CustomLoss",
    "Domain",
    "FreeScale",
    "Gamma",
    "GemanMcClure",
    "Huber",
    "Interval",
    "LogCosh",
    "Logistic",
    "Loss",
    "LpBall",
    "Mallows",
    "MallowsLinear",
    "Objective",
    "OneHot",
    "OstrovskiiBach",
    "Poisson",
    "Probit",
    "Product",
    "PseudoHuber",
    "Quantile",
    "Schweppe",
    "SmoothAbsolute",
    "SmoothedHuber",
    "TukeyBiweight",
    "Welsch",
]
