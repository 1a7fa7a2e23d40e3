from .budgets import Budgets as Budgets
from .gradient_descent import GradientDescent as GradientDescent
from .newton import Newton as Newton
from .nonconvex.adaptive import Adaptive as Adaptive
from .propagation import Curvature as Curvature, PrivacyNoise as PrivacyNoise
from .protocol import Answers as Answers, Method as Method
from .schedules import Geometric as Geometric, Schedule as Schedule, Uniform as Uniform
from .trajectory import Trajectory as Trajectory
