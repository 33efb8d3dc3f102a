"""Learning-rate schedulers: what changes the rates of an optimizer's groups from step to step."""

from tapegrad.optim.lr_scheduler.composed import ChainedScheduler, SequentialLR
from tapegrad.optim.lr_scheduler.cosine import CosineAnnealingLR, CosineAnnealingWarmRestarts
from tapegrad.optim.lr_scheduler.cycles import CyclicLR, OneCycleLR
from tapegrad.optim.lr_scheduler.factors import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from tapegrad.optim.lr_scheduler.plateau import ReduceLROnPlateau
from tapegrad.optim.lr_scheduler.scheduler import LRScheduler

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]

# As the class was called before PyTorch 2.0.
_LRScheduler = LRScheduler
