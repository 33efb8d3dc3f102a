"""Small models of every kind, each a chain of stages whose parameters can be exchanged.

A problem is a function of its parameters and one input. Its stages are called one after the other,
so that features can get in between (a checkpoint around each, an in-place op after each), and are
made for given parameters, so that forward mode can pass duals and MAML its adapted weights. All is
in float64: what two ways of computing may differ by is then far below what an error makes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from library import torch
from tape.models import Block

nn, functional = torch.nn, torch.nn.functional


@dataclass
class Problem:
    """A loss as a function of parameters and of an input whose first dimension is a batch."""

    parameters: dict[str, Any]
    x: Any
    other: Any  # an input of the same kind, with other values
    stages_of: Callable[[dict[str, Any]], list[Callable[[Any], Any]]]
    # The loss, of a function that makes the forward pass for given parameters.
    loss: Callable[[Callable[..., Any], dict[str, Any], Any], Any] = field(repr=False)
    changes_gradients: bool = False  # by hooks: they are no derivatives then


def mean_square(forward_of, parameters, x):
    return forward_of(parameters)(x).square().mean()


def of_modules(stages, x, other, loss=mean_square):
    """Return the problem of a chain of modules, or of functions that call modules."""
    modules = nn.ModuleList(stages).double()
    parameters = dict(modules.named_parameters())

    def stages_of(given):
        if all(given[name] is parameter for name, parameter in parameters.items()):
            return list(modules)
        return [_with(module, str(number), given) for number, module in enumerate(modules)]

    return Problem(parameters, x, other, stages_of, loss)


def _with(module, prefix, given):
    """Return a module as a function that uses given parameters."""
    own = {name: given[f"{prefix}.{name}"] for name, _ in module.named_parameters()}
    return lambda state: torch.func.functional_call(module, own, (state,))


def of_tensors(parameters, stages_of, x, other, loss=mean_square):
    """Return the problem of functions of plain tensors."""
    leaves = {name: tensor.double().requires_grad_() for name, tensor in parameters.items()}
    return Problem(leaves, x, other, stages_of, loss)


def two(*shape):
    return torch.randn(*shape, dtype=torch.float64), torch.randn(*shape, dtype=torch.float64)


# ---- the models


class Embed(nn.Module):
    """Tokens and their positions."""

    def __init__(self, vocabulary, width, length):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Parameter(torch.randn(length, width))

    def forward(self, tokens):
        return functional.dropout(self.token(tokens) + self.position, 0.1)


class Logits(nn.Module):
    """The scores of the next token."""

    def __init__(self, vocabulary, width):
        super().__init__()
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, x):
        return self.head(self.norm(x))


def gpt():
    def loss(forward_of, parameters, tokens):
        logits = forward_of(parameters)(tokens)
        return functional.cross_entropy(logits.flatten(0, 1), tokens.roll(1, 1).flatten())

    stages = [Embed(11, 8, 6), Block(8, 2), Block(8, 2), Logits(11, 8)]
    return of_modules(stages, torch.randint(11, (4, 6)), torch.randint(11, (4, 6)), loss)


class Across(nn.Module):
    """The lower half of a U-net: down, up, and across."""

    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(4, 6, 3, padding=1), nn.SiLU())
        self.up = nn.ConvTranspose2d(6, 4, 2, stride=2)

    def forward(self, x):
        return torch.cat([x, self.up(self.down(x))], dim=1)


def unet():
    first = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU())
    return of_modules([first, Across(), nn.Conv2d(8, 1, 1)], *two(4, 1, 8, 8))


class Recurrent(nn.Module):
    """An LSTM without its last states."""

    def __init__(self, width):
        super().__init__()
        self.lstm = nn.LSTM(width, 5, batch_first=True)

    def forward(self, x):
        return self.lstm(x)[0]


def lstm():
    return of_modules([Recurrent(3), Recurrent(5), nn.Linear(5, 2)], *two(4, 6, 3))


def dropout_net():
    layers = [nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Dropout(0.4)) for _ in range(3)]
    return of_modules([*layers, nn.Linear(8, 3)], *two(4, 8))


def wide_dropout_net():
    """Large enough for a file to be busy while memory is used again."""
    layers = [nn.Sequential(nn.Linear(256, 256), nn.Dropout(0.5), nn.ReLU()) for _ in range(3)]
    return of_modules([*layers, nn.Linear(256, 3)], *two(256, 256))


def weight_tied():
    def stages_of(w):
        return [
            lambda x: torch.tanh(x @ w["weight"] + w["bias"]),
            lambda h: torch.tanh(h @ w["weight"].t()),
            lambda y: torch.sigmoid(y @ w["weight"]) @ w["weight"].t(),
        ]

    parameters = {"weight": torch.randn(6, 4), "bias": torch.randn(4)}
    return of_tensors(parameters, stages_of, *two(4, 6))


def wgan_gp():
    def loss(forward_of, parameters, real):
        critic = forward_of(parameters)
        fake = real.flip(-1) * 0.5
        between = (0.3 * real + 0.7 * fake).requires_grad_()
        (grad,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
        penalty = (grad.square().sum(-1).add(1e-6).sqrt() - 1).square().mean()
        return critic(fake).mean() - critic(real).mean() + 10 * penalty

    stages = [nn.Sequential(nn.Linear(5, 8), nn.Tanh()), nn.Linear(8, 8), nn.Softplus()]
    return of_modules([*stages, nn.Linear(8, 1)], *two(4, 5), loss)


def maml():
    def stages_of(w):
        return [
            lambda x: torch.sin(x @ w["w1"] + w["b1"]),
            lambda h: torch.tanh(h @ w["w2"] + w["b2"]),
            lambda h: h @ w["w3"],
        ]

    def loss(forward_of, parameters, x):
        adapted = parameters
        for _ in range(2):
            inner = (forward_of(adapted)(x) - x.sin()[..., :1]).square().mean()
            values = list(adapted.values())
            grads = torch.autograd.grad(inner, values, create_graph=True)
            pairs = zip(adapted.items(), grads, strict=True)
            adapted = {name: value - 0.1 * grad for (name, value), grad in pairs}
        return (forward_of(adapted)(x * 0.5) - (x * 0.5).sin()[..., :1]).square().mean()

    shapes = {"w1": (3, 6), "b1": (6,), "w2": (6, 6), "b2": (6,), "w3": (6, 1)}
    parameters = {name: torch.randn(*shape) * 0.5 for name, shape in shapes.items()}
    return of_tensors(parameters, stages_of, *two(4, 3), loss)


class Adjoint(torch.autograd.Function):
    """Euler's method for y' = tanh(y w), whose backward solves the adjoint equation."""

    STEPS, SIZE = 6, 0.1

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, y, w):
        states = [y]
        for _ in range(Adjoint.STEPS):
            y = y + Adjoint.SIZE * torch.tanh(y @ w)
            states.append(y)
        ctx.save_for_backward(w, *states[:-1])
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        w, *states = ctx.saved_tensors
        grad_w = torch.zeros_like(w)
        for state in reversed(states):
            with torch.enable_grad():
                leaf, weight = state.detach().requires_grad_(), w.detach().requires_grad_()
                y = leaf + Adjoint.SIZE * torch.tanh(leaf @ weight)
            grad, more = torch.autograd.grad(y, (leaf, weight), grad)
            grad_w = grad_w + more
        return grad, grad_w


def ode_adjoint():
    def stages_of(w):
        return [lambda x: x @ w["in"], lambda y: Adjoint.apply(y, w["field"]), lambda y: y.exp()]

    parameters = {"in": torch.randn(3, 4), "field": torch.randn(4, 4)}
    return of_tensors(parameters, stages_of, *two(4, 3))


def state_space():
    def scan(w, x):
        decay, state, found = torch.sigmoid(w["a"]), x.new_zeros(x.shape[0], 5), []
        for t in range(x.shape[1]):
            state = decay * state + x[:, t] @ w["b"]
            found.append(state @ w["c"])
        return torch.stack(found, dim=1)

    def stages_of(w):
        return [lambda x: scan(w, x), lambda y: functional.silu(y), lambda y: scan(w, y)]

    parameters = {"a": torch.randn(5), "b": torch.randn(3, 5), "c": torch.randn(5, 3)}
    return of_tensors(parameters, stages_of, *two(4, 6, 3))


class Hooked(nn.Module):
    """A layer that hangs hooks on its result and on itself."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.linear.register_forward_hook(lambda module, args, y: y * 1.5)
        self.linear.register_forward_pre_hook(lambda module, args: (args[0] + 0.25,))

    def forward(self, x):
        y = torch.tanh(self.linear(x))
        if y.requires_grad:
            y.register_hook(lambda grad: grad * 0.5)
            y.grad_fn.register_prehook(lambda grads: (grads[0] * 3,))
        return y.exp()


def hooks():
    problem = of_modules([Hooked(), Hooked(), nn.Linear(6, 2)], *two(4, 6))
    problem.changes_gradients = True
    return problem


def views_in_place():
    def cut(w, x):
        y = x @ w["weight"]
        y[:, 1:3] = y[:, :2].clone() * w["scale"]
        y[:, ::2].mul_(w["scale"].sum())
        left, right = y.split(2, dim=1)
        left = left * 2
        left.add_(right)
        return torch.cat([left.sigmoid_(), y.unsqueeze(0).expand(2, *y.shape)[1]], dim=1)

    def stages_of(w):
        return [lambda x: cut(w, x), lambda y: y.relu() @ w["out"], lambda y: cut(w, y)]

    parameters = {"weight": torch.randn(4, 4), "scale": torch.randn(2), "out": torch.randn(6, 4)}
    return of_tensors(parameters, stages_of, *two(4, 4))


class Residual(nn.Module):
    """Two convolutions with batch norms and a way around them."""

    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, x):
        y = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        return functional.relu(x + self.bn2(self.conv2(y)))


def residual():
    stages = [nn.Conv2d(1, 3, 3, padding=1), Residual(3), nn.AvgPool2d(2), Residual(3)]
    return of_modules(stages, *two(4, 1, 6, 6))


def channels_last():
    """Convolutions, pools and others of tensors whose channels lie last in memory."""
    stages = [
        nn.Conv2d(3, 8, 3, padding=1),
        nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.SiLU()),
        nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.GroupNorm(2, 8)),
        nn.Sequential(nn.AvgPool2d(3, stride=2), nn.ReplicationPad2d(1), nn.PixelShuffle(2)),
        nn.ConvTranspose2d(2, 4, 2, stride=2),
    ]
    for stage in stages:
        stage.to(memory_format=torch.channels_last)
    x, other = (each.contiguous(memory_format=torch.channels_last) for each in two(4, 3, 8, 8))
    return of_modules(stages, x, other)


def indices_and_masks():
    def stages_of(w):
        return [
            lambda x: w["table"][(x.sum(-1).abs() * 7).long() % 20] + x[..., :1],
            lambda y: torch.where(y > 0, y.square(), y * 0.1),
            lambda y: y.gather(1, y.argsort(1)) * (y > y.mean()).to(y.dtype) @ w["out"],
            lambda y: torch.cat([y.max(1).values.unsqueeze(1), y.cumsum(1)], dim=1),
        ]

    parameters = {"table": torch.randn(20, 6), "out": torch.randn(6, 6)}
    return of_tensors(parameters, stages_of, *two(4, 3))


MODELS = {
    build.__name__: build
    for build in (
        *(
            gpt,
            unet,
            lstm,
            dropout_net,
            wide_dropout_net,
            weight_tied,
            wgan_gp,
            maml,
            ode_adjoint,
            state_space,
        ),
        *(hooks, views_in_place, residual, channels_last, indices_and_masks),
    )
}
