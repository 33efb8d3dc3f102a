"""torch-optimizer: a dozen of its optimizers on a small network."""

import copy
import warnings

import torch
import torch_optimizer
from common import array, set_weights, show, train

warnings.filterwarnings("ignore", message="This overload of", category=UserWarning)
NAMES = (
    *(
        "AccSGD",
        "AdaBound",
        "AdaMod",
        "AdaBelief",
        "AggMo",
        "DiffGrad",
        "Lamb",
        "MADGRAD",
        "NovoGrad",
    ),
    *(
        "PID",
        "QHAdam",
        "QHM",
        "RAdam",
        "Ranger",
        "SGDP",
        "AdamP",
        "SGDW",
        "Shampoo",
        "SWATS",
        "Yogi",
    ),
)
model = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.Tanh(), torch.nn.Linear(12, 1))
set_weights(model, 0.3)
x, y = array(32, 6), array(32, 1, seed=2)
for name in NAMES:
    each = copy.deepcopy(model)
    optimizer = torch_optimizer.get(name)(each.parameters(), lr=1e-2)
    show(name, train(lambda m=each: (m(x) - y).square().mean(), None, 5, optimizer))
