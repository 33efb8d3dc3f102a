"""What calls return, as a checker must see it."""

from collections.abc import Sequence

import tapegrad as torch
import tapegrad.nn.functional as F
from tapegrad import Tensor, nn


def number(x: Tensor) -> float:
    return x.item()


def one(x: Tensor) -> Tensor:
    x = F.relu(x, inplace=True)
    x = F.leaky_relu(x, 0.1) + F.elu(x, alpha=2.0) + F.silu(x) + F.gelu(x, approximate="tanh")
    x = torch.diff(x, n=2, out=torch.empty(0)) + torch.quantile(x, 0.5, dim=0, keepdim=True)
    x = torch.hstack([x, x]).addr_(x[0], x[1]).absolute().to("cpu").to(torch.float64, copy=True)
    x = torch.nonzero(x) + x.nonzero() + torch.unique(x) + torch.kron(x, x) + -x + x**2 + 1 / x
    x = torch.sparse_coo_tensor([[0]], [1.0], (2,)).to_dense() + x.to(x) + x.real + x.T + x.mH
    return x.clamp_(min=0).type(torch.float32) if x.requires_grad else x.detach()


def several(x: Tensor) -> Sequence[Tensor]:
    a, b = torch.max(x, dim=1)
    c, d = torch.sort(x)
    low, high = torch.aminmax(x)
    u, s, v = torch.svd(x)
    q, r = torch.linalg.qr(x)
    inverse, counts = torch.unique(x, return_counts=True)
    rows, columns = torch.nonzero(x, as_tuple=True)
    named = torch.topk(x, 2)
    parts = (*x.chunk(2), *torch.split(x, [1, 2]), *x.unbind(0), *iter(x))
    more = (low, high, u, s, v, q, r, inverse, counts, rows, columns, torch.mode(x).indices)
    return [a, b, c, d, named.values, named.indices, *parts, *more]


def facts(x: Tensor) -> tuple[int, torch.Size, torch.dtype, torch.device, str]:
    rows, columns = x.shape
    step: tuple[int, ...] = x.stride()
    total: int = x.numel() + x.size(0) + x.dim() + x.stride(0) + rows + columns + len(step)
    node = x.grad_fn
    name = node.name() if node is not None else x.type()
    bits: int = torch.finfo(x.dtype).bits + torch.iinfo(torch.int8).bits
    return total + bits, x.size(), x.dtype, x.device, name


class Scale(nn.Module):
    scale: Tensor

    def __init__(self, *, factor: float = 2.0) -> None:
        super().__init__()
        self.register_buffer("scale", torch.tensor(factor))
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor, *, power: int = 1) -> Tensor:
        return x * self.scale * self.weight**power


class Tail(nn.Sequential):
    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input)


class LegacyArgument:
    weight: torch.FloatTensor
    index: torch.LongTensor


@torch.inference_mode()
def score(model: nn.Module, x: Tensor) -> float:
    with torch.enable_grad(), torch.set_grad_enabled(False), torch.device("cpu"):
        result: Tensor = model(x)
    return float(result) + torch.pi + torch.inf


def submodules(x: Tensor) -> Tensor:
    torch.manual_seed(torch.initial_seed() + torch.random.initial_seed())
    torch.backends.cudnn.benchmark = False
    torch.cuda.manual_seed_all(0)
    normal = torch.distributions.Normal(0.0, 1.0)
    x = torch.special.expit(x) + torch.fft.rfft(x).abs() + torch.signal.windows.hann(3)
    x = x + normal.sample((3,)) + torch.nn.init.xavier_uniform_(x) + torch.masked.sum(x)
    return nn.utils.parameters_to_vector([x])


with torch.no_grad(), torch.autograd.set_detect_anomaly(True):
    torch.compile(Scale())(torch.ones(3))
