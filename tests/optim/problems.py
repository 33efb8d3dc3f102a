"""One small problem, in any library: parameters of several shapes, a smooth loss, training."""

import numpy as np


def arrays():
    """Return the parameters' first values."""
    generator = np.random.default_rng(7)
    return [generator.normal(size=shape) for shape in ((5, 4), (4,), (3, 2, 4), ())]


def leaves(torch):
    """Return the parameters."""
    return [torch.tensor(array, dtype=torch.float64, requires_grad=True) for array in arrays()]


def loss_of(torch, params):
    """Return a loss in which every parameter has a part."""
    generator = np.random.default_rng(8)
    x = torch.tensor(generator.normal(size=(6, 5)), dtype=torch.float64)
    y = torch.tensor(generator.normal(size=(6, 4)), dtype=torch.float64)
    weight, bias, cube, scale = params
    error = torch.tanh(x @ weight + bias) * scale - y
    return (error * error).mean() + torch.exp(0.3 * cube).mean() + (cube * cube).sum() * 0.05


def closure_for(torch, optimizer, params):
    """Return a closure that computes the loss and the gradients."""

    def closure():
        optimizer.zero_grad()
        loss = loss_of(torch, params)
        loss.backward()
        return loss.detach()

    return closure


def train(torch, optimizer, params, steps):
    """Take some steps; return the last loss."""
    closure = closure_for(torch, optimizer, params)
    loss = None
    for _ in range(steps):
        loss = optimizer.step(closure)
    return float(loss)


def values(tensors):
    """Return tensors as arrays."""
    return [tensor.detach().numpy().copy() for tensor in tensors]


def converted(tapegrad, value):
    """Return a structure with PyTorch's tensors turned into tapegrad's."""
    if isinstance(value, dict):
        return {key: converted(tapegrad, each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(converted(tapegrad, each) for each in value)
    if hasattr(value, "numpy"):
        return tapegrad.from_numpy(value.detach().numpy().copy())
    return value


def layout(value):
    """Return a structure with every tensor replaced by its dtype and shape, for comparisons."""
    if isinstance(value, dict):
        return {key: layout(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [layout(each) for each in value]
    if hasattr(value, "numpy"):
        return (str(value.dtype), tuple(value.shape))
    return value
