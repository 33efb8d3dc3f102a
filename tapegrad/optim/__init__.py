"""Optimizers and learning-rate schedulers, with PyTorch's names, options and state."""

from typing import TYPE_CHECKING

from tapegrad._missing import names_of_torch as _names_of_torch
from tapegrad.optim import lr_scheduler, swa_utils
from tapegrad.optim.adadelta import Adadelta
from tapegrad.optim.adafactor import Adafactor
from tapegrad.optim.adagrad import Adagrad
from tapegrad.optim.adam import Adam, AdamW
from tapegrad.optim.adamax import Adamax
from tapegrad.optim.asgd import ASGD
from tapegrad.optim.lbfgs import LBFGS
from tapegrad.optim.muon import Muon
from tapegrad.optim.nadam import NAdam
from tapegrad.optim.optimizer import Optimizer
from tapegrad.optim.radam import RAdam
from tapegrad.optim.rmsprop import RMSprop
from tapegrad.optim.rprop import Rprop
from tapegrad.optim.sgd import SGD
from tapegrad.optim.sparse_adam import SparseAdam

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
]

if not TYPE_CHECKING:
    __getattr__ = _names_of_torch(__name__)
