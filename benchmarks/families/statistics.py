"""Order statistics, histograms, distances: what data is looked at with."""

from __future__ import annotations

from benchmarks.case import Benchmark, Case

_SETUP = """
x = uniform(1024, 1024)
long = uniform(1 << 20)
labels = integers(1 << 20, high=1000)
rows = integers(4096, 4, high=8)
points, others = uniform(1000, 32), uniform(1200, 32)
bounds = torch.linspace(-1, 1, 257)
"""

# statement and, where elements of the result may lie in any order, what both sides agree on
_STATEMENTS = {
    "unique.flat": "torch.unique(labels)",
    "unique.counts": "torch.unique(labels, return_inverse=True, return_counts=True)[2]",
    "unique.rows": "torch.unique(rows, dim=0)",
    "unique_consecutive": "torch.unique_consecutive(labels)",
    "cdist.euclidean": "torch.cdist(points, others)",
    "cdist.manhattan": "torch.cdist(points, others, p=1.0)",
    "cdist.direct": ("torch.cdist(points, others, compute_mode='donot_use_mm_for_euclid_dist')"),
    "pdist": "torch.pdist(points)",
    "histc": "torch.histc(long, 100, -1.0, 1.0)",
    "histogram": "torch.histogram(long, 100).hist",
    "bincount": "torch.bincount(labels)",
    "quantile.flat": "torch.quantile(long, 0.3)",
    "quantile.rows": "torch.quantile(x, 0.3, dim=1)",
    "median.flat": "torch.median(long)",
    "median.rows": "torch.median(x, 1)[0]",
    "kthvalue.rows": "torch.kthvalue(x, 100, 1)[0]",
    "mode.rows": "torch.mode(labels.view(1024, 1024), 1)[0]",
    "searchsorted": "torch.searchsorted(bounds, long)",
    "bucketize": "torch.bucketize(long, bounds)",
    "isin": "torch.isin(labels, labels[:100])",
    "cov": "torch.cov(points.t())",
    "aminmax": "torch.aminmax(long).max",
}


def cases(table: object) -> list[Benchmark]:
    return [Case("statistics", name, text, _SETUP) for name, text in _STATEMENTS.items()]
