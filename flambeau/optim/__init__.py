"""Optimizers, and schedules for their learning rates."""

from flambeau.optim import lr_scheduler, optimizer
from flambeau.optim.adadelta import Adadelta
from flambeau.optim.adagrad import Adagrad
from flambeau.optim.adam import Adam
from flambeau.optim.adamax import Adamax
from flambeau.optim.adamw import AdamW
from flambeau.optim.nadam import NAdam
from flambeau.optim.optimizer import Optimizer
from flambeau.optim.radam import RAdam
from flambeau.optim.rmsprop import RMSprop
from flambeau.optim.sgd import SGD
from flambeau.optim.sparse_adam import SparseAdam

__all__ = [
    "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "Optimizer", "RAdam", "RMSprop", "SparseAdam", "lr_scheduler",
    "optimizer",
]  # fmt: skip
