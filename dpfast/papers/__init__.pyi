from .descent import (
    adaptive_descent as adaptive_descent,
    noisy_gradient_descent as noisy_gradient_descent,
    noisy_newton as noisy_newton,
)
from .noisy_descent import NoisyDescent as NoisyDescent
from .proximal import Proximal as Proximal
from .spider import Spider as Spider
from .test_and_release import TestAndRelease as TestAndRelease
