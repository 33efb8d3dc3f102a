"""lion-pytorch: its optimizer on a small network."""

import torch
from common import array, set_weights, show, train
from lion_pytorch import Lion

model = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.ReLU(), torch.nn.Linear(12, 1))
set_weights(model, 0.3)
x, y = array(32, 6), array(32, 1, seed=2)
optimizer = Lion(model.parameters(), lr=1e-2, weight_decay=1e-2)
step = lambda: torch.nn.functional.mse_loss(model(x), y)  # noqa: E731
show("losses", train(step, None, 10, optimizer))
show("weight", model[0].weight[0])
