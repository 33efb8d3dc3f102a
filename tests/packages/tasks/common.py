"""What all tasks share: data and weights that do not depend on a generator, and how to print."""

import json

import numpy as np
import torch


def array(*shape, seed=0, scale=1.0):
    """Return a tensor of standard normal numbers, the same in every library."""
    numbers = np.random.default_rng(seed).standard_normal(shape) * scale
    return torch.from_numpy(numbers.astype(np.float32))


def integers(high, *shape, seed=0):
    """Return a tensor of integers below a limit."""
    return torch.from_numpy(np.random.default_rng(seed).integers(0, high, shape))


def set_weights(module, scale=0.1):
    """Give a module weights by the order of their names; those of norms stay near one."""
    rng = np.random.default_rng(1)
    with torch.no_grad():
        for _, weight in sorted(module.named_parameters()):
            numbers = rng.standard_normal(tuple(weight.shape)) * scale
            if weight.dim() == 1 and bool((weight == 1).all()):
                numbers = numbers + 1
            weight.copy_(torch.from_numpy(numbers).to(weight.dtype))
    return module


def train(step, parameters, steps=4, optimizer=None):
    """Return the losses of a few steps of an optimizer; `step` computes one loss."""
    optimizer = optimizer or torch.optim.SGD(parameters, lr=0.05)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = step()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def show(name, values):
    """Print numbers under a name, as one line of JSON."""
    if isinstance(values, torch.Tensor):
        values = values.detach().double().reshape(-1).tolist()
    if not isinstance(values, (list, tuple)):
        values = [values]
    print(json.dumps({name: [float(each) for each in values]}), flush=True)


print(f"torch {torch.__version__}", flush=True)
