"""Sparse matrices of 10,000 by 10,000 times 64 columns, and gradients of large tables."""

from __future__ import annotations

from benchmarks.case import Benchmark, Case

_MATRIX = """
import warnings
import numpy as np
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
places = torch.from_numpy(rng.integers(0, 10_000, (2, {count})))
values = torch.from_numpy(rng.normal(size={count}).astype("float32"))
raw = torch.sparse_coo_tensor(places, values, (10_000, 10_000))
coo = raw.coalesce()
csr = coo.to_sparse_csr()
dense = torch.from_numpy(rng.normal(size=(10_000, 64)).astype("float32"))
leaf = coo.detach().clone().requires_grad_()
right = dense.clone().requires_grad_()
def learn():
    leaf.grad = right.grad = None
    torch.sparse.mm(leaf, right).sum().backward()
    return right.grad
"""
_STATEMENTS = {
    "coo_first": "torch.sparse_coo_tensor(places, values, (10_000, 10_000)) @ dense",
    "coo": "torch.sparse.mm(coo, dense)",
    "csr": "torch.sparse.mm(csr, dense)",
    "coalesce": "torch.sparse_coo_tensor(places, values, (10_000, 10_000)).coalesce().values()",
    "coo_with_gradients": "learn()",
}

_TABLE = """
import numpy as np
table = torch.nn.Embedding(1_000_000, 64, sparse=True)
torch.nn.init.ones_(table.weight)
optimizer = torch.optim.SGD(table.parameters(), lr=0.01)
index = torch.from_numpy(np.random.default_rng(0).integers(0, 1_000_000, 4096))
def run():
    optimizer.zero_grad()
    loss = table(index).square().sum()
    loss.backward()
    optimizer.step()
    return loss.detach()
"""


def cases(table: object) -> list[Benchmark]:
    found: list[Benchmark] = [
        Case("sparse", f"{name}.{count}", statement, _MATRIX.format(count=count))
        for count in (100_000, 1_000_000)
        for name, statement in _STATEMENTS.items()
    ]
    found.append(Case("sparse", "table_step", "run()", _TABLE, "1"))
    return found
