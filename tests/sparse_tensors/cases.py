"""Patterns of sparse tensors, made with either library from the same numbers."""

from dataclasses import dataclass

import numpy as np
import pytest
from library import IS_TORCH, pytorch_for_parity

pytorch, REASON = pytorch_for_parity()
needs_pytorch = pytest.mark.skipif(
    pytorch is None or IS_TORCH, reason=REASON or "nothing to compare with"
)


@dataclass(frozen=True)
class Pattern:
    """Where elements are: ``dense`` of the last dimensions are dense."""

    name: str
    shape: tuple[int, ...]
    terms: int
    dense: int = 0
    coalesced: bool = False

    def arrays(self, seed=0, dtype="float64"):
        """Return indices and values; unless coalesced, some indices are repeated."""
        rng = np.random.default_rng(seed)
        sparse = self.shape[: len(self.shape) - self.dense]
        places = int(np.prod(sparse))
        terms = self.terms if places else 0
        if self.coalesced:
            flat = np.sort(rng.choice(places, min(terms, places), replace=False))
        else:
            flat = rng.integers(0, max(places, 1), terms)
            if terms > 2:
                flat[1] = flat[-1]
        indices = np.array(np.unravel_index(flat, sparse)).reshape(len(sparse), -1)
        values = rng.normal(size=(indices.shape[1], *self.shape[len(sparse) :]))
        if dtype.startswith("complex"):
            values = values + 1j * rng.normal(size=values.shape)
        elif not dtype.startswith("float") and dtype != "bfloat16":
            values = np.round(values * 4)
        return indices.astype(np.int64), values

    def make(self, library, seed=0, dtype="float64", **options):
        indices, values = self.arrays(seed, dtype)
        return library.sparse_coo_tensor(
            library.tensor(indices.tolist(), dtype=library.int64).reshape(indices.shape),
            library.tensor(values.tolist(), dtype=getattr(library, dtype)).reshape(values.shape),
            self.shape,
            is_coalesced=True if self.coalesced else None,
            **options,
        )


PATTERNS = [
    Pattern("matrix", (4, 5), 7),
    Pattern("sorted", (4, 5), 7, coalesced=True),
    Pattern("full", (3, 3), 9, coalesced=True),
    Pattern("one", (4, 5), 1),
    Pattern("empty", (4, 5), 0),
    Pattern("no_rows", (0, 5), 0),
    Pattern("vector", (9,), 5),
    Pattern("cube", (3, 4, 2), 8),
    Pattern("hybrid", (5, 3), 6, dense=1),
    Pattern("hybrid_sorted", (4, 3, 2), 5, dense=1, coalesced=True),
    Pattern("hybrid_deep", (4, 2, 3), 6, dense=2),
    Pattern("wide", (3, 2000), 30),
    Pattern("far", (2, 10**7), 12),
]
MATRICES = [p for p in PATTERNS if len(p.shape) == 2 and p.dense == 0]
IDS = [p.name for p in PATTERNS]
MATRIX_IDS = [p.name for p in MATRICES]


def dense_of(x):
    """Return a tensor of any layout and library as an array."""
    x = x.detach()
    if str(x.layout) != "torch.strided":
        if x.numel() > 10**6:  # its columns alone
            x = x.to_sparse().coalesce()
            return [dense_of(x.indices()), dense_of(x.values())]
        x = x.to_dense()
    if str(x.dtype) == "torch.bfloat16":
        x = x.float()
    return x.resolve_conj().numpy()


def assert_alike(ours, theirs, rtol=1e-10, atol=1e-12):
    """Compare tensors of two libraries: kind, shape, dtype, elements."""
    assert str(ours.layout) == str(theirs.layout)
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert str(ours.dtype) == str(theirs.dtype)
    if str(ours.layout) != "torch.strided":
        assert (ours.sparse_dim(), ours.dense_dim()) == (theirs.sparse_dim(), theirs.dense_dim())
    a, b = dense_of(ours), dense_of(theirs)
    for x, y in zip(a, b, strict=True) if isinstance(a, list) else [(a, b)]:
        np.testing.assert_allclose(x, y, rtol=rtol, atol=atol)


def random_array(*shape, seed=1, dtype="float64"):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=shape)
    if dtype.startswith("complex"):
        values = values + 1j * rng.normal(size=shape)
    elif not dtype.startswith("float") and dtype != "bfloat16":
        values = np.round(values * 4)
    return values


def random_tensor(library, *shape, seed=1, dtype="float64"):
    values = random_array(*shape, seed=seed, dtype=dtype)
    return library.tensor(values.tolist(), dtype=getattr(library, dtype)).reshape(shape)


def outcome(call, library, *args):
    """Return the result of a call, or the exception that it raised."""
    try:
        return call(library, *args)
    except Exception as error:
        return error
