"""Gamma, Dirichlet and binomial variables, and how the first two follow their parameters.

Note [Implicit reparameterization]
A sample x of a distribution with cumulative distribution function F(x; a) stays at its quantile
when the parameter moves: dx/da = -(dF/da) / F'(x). For gamma variables dF/da is an integral over
the density f,

    dF/da = integral of (log t - psi(a)) f(t) dt from 0 to x = -(the same from x to infinity),

of which the side with the shorter way to the end cancels least. With t = x exp(-v), or x exp(v),
the integrand is a smooth function times the exponential of a concave one, which begins at v = 0
and ends where the exponent has fallen by `_DEPTH`. The substitution v = L exp(s - exp(-s)) and
equal steps of s give full precision, whatever the parameters (a double exponential formula). Beta
variables go the same way on the scale of log(t / (1 - t)). Everything is computed in float64.
"""

import math
from typing import Any

import tapegrad as torch
from tapegrad import Tensor
from tapegrad.autograd import Function

__all__ = [
    "binomial",
    "dirichlet_grad",
    "sample_dirichlet",
    "standard_gamma",
    "standard_gamma_grad",
]

_DEPTH = 38.0  # exp(-38) is below the precision of float64
_FIRST = -3.55  # exp(s - exp(-s)) is about 1e-17 there
_NODES = 64
_FEW_NODES = 32  # are enough for float32 and below
_CHUNK = 4096  # elements at a time: each has as many numbers as there are nodes


# ---- gamma variables


def standard_gamma(concentration: Tensor, generator: Any = None) -> Tensor:
    """Draw gamma variables of rate one; they are differentiable in the concentration."""
    return _StandardGamma.apply(concentration, generator)


class _StandardGamma(Function):
    @staticmethod
    def forward(ctx: Any, concentration: Tensor, generator: Any) -> Tensor:
        wide = _log_gamma_variables(concentration.double(), generator).exp()
        finfo = torch.finfo(concentration.dtype)
        sample = wide.clamp(min=finfo.tiny, max=finfo.max).to(concentration.dtype)
        ctx.save_for_backward(concentration, sample)
        return sample

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        concentration, sample = ctx.saved_tensors
        return grad * _GammaSlope.apply(concentration, sample), None


class _GammaSlope(Function):
    """How samples follow their concentrations, for sweeps that are recorded."""

    @staticmethod
    def forward(ctx: Any, concentration: Tensor, sample: Tensor) -> Tensor:
        return standard_gamma_grad(concentration, sample)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        raise _not_implemented("_standard_gamma_grad")


def _not_implemented(name: str) -> RuntimeError:
    return RuntimeError(
        f"{name}: the derivative is not implemented; samples are differentiable once"
    )


def _log_gamma_variables(concentration: Tensor, generator: Any) -> Tensor:
    """The logarithms of gamma variables, by Marsaglia's and Tsang's squeezed normal variables.

    Below one, a variable of ``concentration + 1`` is multiplied by ``U ** (1 / concentration)``;
    in logarithms, that does not vanish.
    """
    small = concentration < 1
    d = torch.where(small, concentration + 1, concentration).reshape(-1) - 1 / 3
    c = 1 / (9 * d).sqrt()
    log_v = _accepted(d, c, generator)
    log_variables = (d.log() + log_v).reshape(concentration.shape)
    uniforms = _open_uniforms(concentration, generator)
    return log_variables + torch.where(small, uniforms.log() / concentration, 0.0)


def _accepted(d: Tensor, c: Tensor, generator: Any) -> Tensor:
    """Draw until each element has a variable that is accepted; more than 95 % are at once."""
    log_v, accepted = _proposals(d, c, generator)
    while True:
        waiting = (~accepted).nonzero().squeeze(-1)
        if waiting.numel() == 0:
            return log_v
        new, accepted_now = _proposals(d[waiting], c[waiting], generator)
        log_v = log_v.index_copy(0, waiting, new)
        accepted = accepted.index_copy(0, waiting, accepted_now)


def _proposals(d: Tensor, c: Tensor, generator: Any) -> tuple[Tensor, Tensor]:
    x = torch.randn(d.shape, dtype=d.dtype, device=d.device, generator=generator)
    u = _open_uniforms(d, generator)
    v = 1 + c * x
    log_v = 3 * v.log()  # not a number where v < 0, which compares as rejected
    accepted = u.log() < 0.5 * x * x + d * (1 - v**3 + log_v)
    # Infinite or invalid concentrations have no samples, and must not be searched for endlessly.
    impossible = ~((d > 0) & (d < math.inf))
    log_v = torch.where(impossible, math.nan, log_v)
    return log_v, accepted | impossible


def _open_uniforms(like: Tensor, generator: Any) -> Tensor:
    """Uniform variables without zero and one."""
    u = torch.rand(like.shape, dtype=like.dtype, device=like.device, generator=generator)
    return u.clamp(min=2.0**-54, max=1 - 2.0**-53)


def standard_gamma_grad(concentration: Tensor, sample: Tensor) -> Tensor:
    """Return how gamma variables of rate one follow their concentration, for given samples.

    See Note [Implicit reparameterization].
    """
    return _in_chunks(_gamma_grad, sample.dtype, concentration, sample)


def _gamma_grad(nodes: int, a: Tensor, x: Tensor) -> Tensor:
    to_left = x <= a + 1
    # where the exponent reaches the depth: of a bound from below by a quadratic over a line to the
    # left, by a quadratic to the right
    b = a - x
    q = _DEPTH - 2 * b
    root = (q * q + 8 * _DEPTH * a).sqrt()
    left = torch.where(q > 0, (q + root) / (2 * a), 4 * _DEPTH / (root - q))
    slope = -b
    right = 2 * _DEPTH / (slope + (slope * slope + 2 * _DEPTH * x).sqrt())
    v, weights = _nodes(nodes, torch.where(to_left, left, right))
    u = torch.where(to_left, -v, v)
    density = (a * u - x * torch.expm1(u)).exp()
    distance = torch.log(x) - torch.digamma(a) + u
    integrand = torch.where(to_left, -distance, distance) * density
    return x.squeeze(-1) * (integrand * weights).sum(-1)


def _nodes(count: int, end: Tensor) -> tuple[Tensor, Tensor]:
    """Nodes from 0 to `end` and their weights; they take the place of its last dimension."""
    scale = (end / _DEPTH).clamp(max=1.0)
    last = (end / scale).log() + 0.05
    step = (last - _FIRST) / (count - 1)
    s = _FIRST + step * torch.arange(count, dtype=end.dtype, device=end.device)
    inner = torch.exp(-s)
    v = scale * torch.exp(s - inner)
    return v, v * (1 + inner) * step


def _in_chunks(function: Any, dtype: Any, *operands: Tensor) -> Tensor:
    """Run a function of columns over broadcast operands, in float64, some thousand at a time."""
    broadcast = torch.broadcast_tensors(*[operand.detach() for operand in operands])
    shape = broadcast[0].shape
    columns = [operand.double().reshape(-1, 1) for operand in broadcast]
    nodes = _NODES if dtype == torch.float64 else _FEW_NODES
    chunks = [
        function(nodes, *[column[start : start + _CHUNK] for column in columns])
        for start in range(0, shape.numel(), _CHUNK)
    ]
    flat = torch.cat(chunks) if chunks else columns[0].reshape(-1)
    return flat.reshape(shape).to(dtype)


# ---- Dirichlet variables


def sample_dirichlet(concentration: Tensor, generator: Any = None) -> Tensor:
    """Draw from the simplex; the samples are differentiable in the concentration."""
    return _Dirichlet.apply(concentration, generator)


class _Dirichlet(Function):
    @staticmethod
    def forward(ctx: Any, concentration: Tensor, generator: Any) -> Tensor:
        logs = _log_gamma_variables(concentration.double(), generator)
        finfo = torch.finfo(concentration.dtype)
        sample = torch.softmax(logs, -1).clamp(min=finfo.tiny).to(concentration.dtype)
        ctx.save_for_backward(concentration, sample)
        return sample

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        concentration, sample = ctx.saved_tensors
        total = concentration.sum(-1, True).expand(concentration.shape)
        moved = _DirichletSlope.apply(sample, concentration, total)
        return moved * (grad - (sample * grad).sum(-1, True)), None


class _DirichletSlope(Function):
    """How parts follow their concentrations, for sweeps that are recorded."""

    @staticmethod
    def forward(ctx: Any, sample: Tensor, concentration: Tensor, total: Tensor) -> Tensor:
        return dirichlet_grad(sample, concentration, total)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        raise _not_implemented("_dirichlet_grad")


def dirichlet_grad(sample: Tensor, concentration: Tensor, total: Tensor) -> Tensor:
    """Return how the parts of Dirichlet samples follow their own concentrations, over 1 - sample.

    One part is a beta variable of its concentration and what is left of the total. What it gains,
    the others lose in proportion, which the division is for.
    See Note [Implicit reparameterization].
    """
    return _in_chunks(_beta_grad, sample.dtype, sample, concentration, total)


def _beta_grad(nodes: int, x: Tensor, a: Tensor, total: Tensor) -> Tensor:
    b = total - a
    to_left = x * (total + 2) <= a + 1
    z = torch.where(to_left, x, 1 - x)
    power = torch.where(to_left, a, b)
    v, weights = _nodes(nodes, _beta_end(z, power, total))
    shift = torch.log1p(z * torch.expm1(-v))
    density = (-power * v - total * shift).exp()
    distance = torch.log(x) - shift - torch.where(to_left, v, 0.0)
    distance = distance - torch.digamma(a) + torch.digamma(total)
    integrand = torch.where(to_left, -distance, distance) * density
    return x.squeeze(-1) * (integrand * weights).sum(-1)


def _beta_end(z: Tensor, power: Tensor, total: Tensor) -> Tensor:
    """Where ``power v + total log(1 - z + z exp(-v))``, which is convex, has grown to the depth."""
    end = (_DEPTH - total * torch.log1p(-z)) / power
    for _ in range(8):  # Newton's steps, from above
        decay = z * torch.exp(-end)
        kept = 1 - z + decay
        value = power * end + total * torch.log1p(z * torch.expm1(-end))
        end = end - (value - _DEPTH) / (power - total * decay / kept)
    return end


# ---- binomial variables


def binomial(count: Tensor, prob: Tensor, generator: Any = None) -> Tensor:
    """Draw binomial variables.

    Args:
        count: numbers of trials.
        prob: probabilities of success, of the same floating dtype.
        generator: where the random numbers come from.

    Returns:
        The numbers of successes; they are not differentiable.
    """
    if not count.is_floating_point():
        raise ValueError(
            f"binomial only supports floating-point dtypes for count, got: {count.dtype}"
        )
    if not prob.is_floating_point():
        raise ValueError(
            f"binomial only supports floating-point dtypes for prob, got: {prob.dtype}"
        )
    if count.dtype != prob.dtype:
        raise RuntimeError(
            f"binomial: expected count and prob of one dtype, got {count.dtype} and {prob.dtype}"
        )
    with torch.no_grad():
        wide = torch.broadcast_tensors(count.double(), prob.double())
        n, p = (operand.reshape(-1) for operand in wide)
        rarer = torch.minimum(p, 1 - p)
        drawn = torch.empty_like(n)
        is_frequent = n * rarer >= 10
        for draw, chosen in ((_by_rejection, is_frequent), (_by_inversion, ~is_frequent)):
            places = chosen.nonzero().squeeze(-1)
            if places.numel():
                drawn[places] = draw(n[places], rarer[places], generator)
        return torch.where(p > 0.5, n - drawn, drawn).reshape(wide[0].shape).to(count.dtype)


def _by_inversion(n: Tensor, p: Tensor, generator: Any) -> Tensor:
    """Walk up the cumulative distribution to a uniform variable."""
    u = _open_uniforms(n, generator)
    probability = (n * torch.log1p(-p)).exp()
    odds = p / (1 - p)
    count = torch.where(p == p, 0.0, p)
    for k in range(1, 111):  # The mean is below ten: more have no chance in float64.
        above = (u > probability) & (count == k - 1) & (count < n)
        if not above.any():
            break
        u = torch.where(above, u - probability, u)
        probability = torch.where(above, probability * odds * (n - k + 1) / k, probability)
        count = torch.where(above, float(k), count)
    return count


def _by_rejection(n: Tensor, p: Tensor, generator: Any) -> Tensor:
    """Hoermann's transformed rejection (BTRS, 1993)."""
    drawn = torch.empty_like(n)
    waiting = torch.arange(n.numel(), device=n.device)
    while waiting.numel():
        count, accepted = _binomial_proposals(n[waiting], p[waiting], generator)
        drawn[waiting] = torch.where(accepted, count, 0.0)
        waiting = waiting[~accepted]
    return drawn


def _binomial_proposals(n: Tensor, p: Tensor, generator: Any) -> tuple[Tensor, Tensor]:
    spread = (n * p * (1 - p)).sqrt()
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = n * p + 0.5
    v_r = 0.92 - 4.2 / b
    alpha = (2.83 + 5.1 / b) * spread
    m = ((n + 1) * p).floor()
    u = _open_uniforms(n, generator) - 0.5
    v = _open_uniforms(n, generator)
    us = 0.5 - u.abs()
    k = ((2 * a / us + b) * u + c).floor()
    height = (v * alpha / (a / (us * us) + b)).log()
    bound = _log_ways(n, m) - _log_ways(n, k) + (k - m) * (p / (1 - p)).log()
    squeezed = (us >= 0.07) & (v <= v_r)
    inside = (k >= 0) & (k <= n)
    return k, inside & (squeezed | (height <= bound))


def _log_ways(n: Tensor, k: Tensor) -> Tensor:
    return torch.lgamma(k + 1) + torch.lgamma(n - k + 1)
