from .certificate import LowerBound as LowerBound, lower_bound as lower_bound
from .export import to_dp_accounting as to_dp_accounting
from .losses import LossReport as LossReport, check_loss as check_loss
from .pairs import KINDS as KINDS, Pair as Pair, neighbours as neighbours
from .playback import replay as replay
from .report import LeakFound as LeakFound, ReplayReport as ReplayReport
