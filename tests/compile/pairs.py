"""Functions that run twice, eagerly and compiled, with everything around them the same."""

from library import torch

nn, functional = torch.nn, torch.nn.functional
SHOWN = 12


def same(one, other):
    """Whether two results are the same to the bit, in kind and in history."""
    if isinstance(one, torch.Tensor):
        return (
            isinstance(other, torch.Tensor)
            and one.dtype is other.dtype
            and one.shape == other.shape
            and one.stride() == other.stride()
            and one.requires_grad == other.requires_grad
            and one.is_leaf == other.is_leaf
            and (one._base is None) == (other._base is None)
            and bits(one) == bits(other)
        )
    if isinstance(one, (list, tuple)):
        return (
            type(one) is type(other)
            and len(one) == len(other)
            and all(same(a, b) for a, b in zip(one, other, strict=True))
        )
    if isinstance(one, dict):
        return (
            type(one) is type(other)
            and list(one) == list(other)
            and all(same(one[k], other[k]) for k in one)
        )
    return type(one) is type(other) and repr(one) == repr(other)


def bits(tensor):
    tensor = tensor.detach().contiguous().clone()
    return (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy().tobytes()


class Pair:
    """Two worlds made by one function: in one of them what it returns first is compiled.

    Args:
        make: returns the function, and what else a test looks at, as a dict.
        at_least: how many traces must be in use at the end.
    """

    def __init__(self, make, **options):
        torch.manual_seed(1)
        self.eager, self.world = make()
        torch.manual_seed(1)
        function, self.other = make()
        self.compiled = torch.compile(function, **options)

    def call(self, *args, **kwargs):
        """Call both with their own copies of the arguments; return the eager result."""
        state = torch.get_rng_state()
        expected, error = self._try(self.eager, args, kwargs)
        after = torch.get_rng_state()
        torch.set_rng_state(state)
        got, other_error = self._try(self.compiled, args, kwargs)
        assert type(error) is type(other_error), (error, other_error)
        assert str(error) == str(other_error)
        assert torch.equal(torch.get_rng_state(), after), "another count of random numbers"
        assert same(expected, got), (expected, got)
        self.check()
        return expected

    def _try(self, function, args, kwargs):
        given = [copied(each) for each in args], {key: copied(each) for key, each in kwargs.items()}
        try:
            result = function(*given[0], **given[1])
        except Exception as error:
            return None, error
        return (result, given), None

    def check(self):
        """Compare all that the test looks at."""
        for key, mine in self.world.items():
            assert same(look_at(mine), look_at(self.other[key])), key

    def both(self, change):
        """Change both worlds."""
        change(self.world)
        change(self.other)

    @property
    def traces(self):
        return len(torch.compiler.explain(self.compiled).traces)

    @property
    def reasons(self):
        return " | ".join(torch.compiler.explain(self.compiled).reasons)


def copied(value):
    """Return an argument of one's own: tensors with the same layout, aliases kept."""
    if isinstance(value, torch.Tensor):
        twin = value.detach().clone().requires_grad_(value.requires_grad)
        if value.grad is not None:
            twin.grad = value.grad.clone()
        return twin
    if isinstance(value, (list, tuple)):
        return type(value)(copied(each) for each in value)
    if isinstance(value, dict):
        return {key: copied(each) for key, each in value.items()}
    return value


def look_at(value):
    """Return what can be compared of a model, an optimizer, a tensor or a list."""
    if isinstance(value, torch.nn.Module):
        tensors = {**dict(value.named_parameters()), **dict(value.named_buffers())}
        return {key: (each.detach(), each.grad) for key, each in tensors.items()}
    if isinstance(value, torch.optim.Optimizer):
        return [list(state.values()) for state in value.state.values()]
    if isinstance(value, torch.Tensor):
        return value.detach(), value.grad if value.is_leaf else None
    return value


# ---- what is run


def step_of(model, optimizer, **options):
    def step(x, y):
        optimizer.zero_grad(**options)
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def make_training(optimizer=None, **options):
    def make():
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        chosen = optimizer or (lambda params: torch.optim.Adam(params, lr=0.01))
        optim = chosen(model.parameters())
        return step_of(model, optim, **options), {"model": model, "optimizer": optim}

    return make


def batch(n=3):
    return torch.randn(n, 4), torch.randn(n, 2)


def no_grad(function):
    """Make a world of a function alone, which records nothing."""

    def make():
        return torch.no_grad()(function), {}

    return make
