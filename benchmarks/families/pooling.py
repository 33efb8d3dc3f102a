"""Pooling of images, lines and volumes, forward and with its derivative."""

from __future__ import annotations

from benchmarks.case import Benchmark, Case

# name -> statement on x, sizes of x
_STATEMENTS = {
    "max2d.k2s2": ("F.max_pool2d(x, 2)", (32, 64, 32, 32)),
    "max2d.k3s1p1": ("F.max_pool2d(x, 3, 1, 1)", (32, 64, 32, 32)),
    "max2d.k3s2p1": ("F.max_pool2d(x, 3, 2, 1)", (16, 64, 56, 56)),
    "avg2d.k2s2": ("F.avg_pool2d(x, 2)", (32, 64, 32, 32)),
    "avg2d.k3s1p1": ("F.avg_pool2d(x, 3, 1, 1)", (32, 64, 32, 32)),
    "adaptive_avg2d.1": ("F.adaptive_avg_pool2d(x, 1)", (32, 64, 32, 32)),
    "adaptive_avg2d.7": ("F.adaptive_avg_pool2d(x, 7)", (32, 64, 32, 32)),
    "adaptive_max2d.1": ("F.adaptive_max_pool2d(x, 1)", (32, 64, 32, 32)),
    "max1d.k3s2": ("F.max_pool1d(x, 3, 2)", (32, 64, 1024)),
    "max3d.k2": ("F.max_pool3d(x, 2)", (4, 32, 16, 32, 32)),
    "max2d.small": ("F.max_pool2d(x, 2)", (1, 1, 4, 4)),
}

_CHANNELS_LAST = ("max2d.k2s2", "max2d.k3s2p1", "avg2d.k2s2", "adaptive_avg2d.1")


def cases(table: object) -> list[Benchmark]:
    found: list[Benchmark] = []
    for name, (statement, sizes) in _STATEMENTS.items():
        setup = f"F = torch.nn.functional\nx = uniform{sizes}\n"
        found.append(Case("pooling", name, statement, setup))
        setup += f"x.requires_grad_()\ng = uniform(*{statement}.shape)\n"
        grad = f"torch.autograd.grad({statement}, x, g)"
        found.append(Case("pooling", f"{name}.grad", grad, setup))
    last = "contiguous(memory_format=torch.channels_last)"
    for name in _CHANNELS_LAST:
        statement, sizes = _STATEMENTS[name]
        setup = (
            f"F = torch.nn.functional\nx = uniform{sizes}.{last}.requires_grad_()\n"
            f"g = uniform(*{statement}.shape).{last}\n"
        )
        grad = f"torch.autograd.grad({statement}, x, g)"
        found.append(Case("pooling", f"{name}.channels_last.grad", grad, setup))
    return found
