"""The namespace of the array API standard, beside the standard's own strict reading of NumPy.

Every function of version 2024.12 is called with arguments that hypothesis draws, here and in
array-api-strict; shapes, dtypes and values must be the same. ``TAPEGRAD_ARRAY_API_EXAMPLES=500``
is the long form.
"""

import functools
import inspect
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("PyTorch has no namespace of the standard", allow_module_level=True)
strict = pytest.importorskip("array_api_strict")

from compat.array_api_cases import CASES, DType  # noqa: E402

EXAMPLES = int(os.environ.get("TAPEGRAD_ARRAY_API_EXAMPLES", "12"))
xp = torch.ones(1).__array_namespace__()
# Names of the reference that no array library has, and those of dtypes that are stored only.
NOT_OURS = {
    *("Device", "ArrayAPIStrictFlags", "__version__"),
    *("get_array_api_strict_flags", "set_array_api_strict_flags", "reset_array_api_strict_flags"),
    *("uint16", "uint32", "uint64"),
    *("broadcast_shapes", "isin"),  # of the version after 2024.12
}
# Which result is unique up to a sign or a phase, and is multiplied out to be compared.
PRODUCTS = {
    "linalg.eigh": lambda ns, w, v: ns.matmul(v * w[..., None, :], adjoint(ns, v)),
    "linalg.qr": lambda ns, q, r: ns.matmul(q, r),
    "linalg.svd": lambda ns, u, s, vh: ns.matmul(
        u[..., : s.shape[-1]] * s[..., None, :], vh[..., : s.shape[-1], :]
    ),
}


@pytest.fixture(autouse=True)
def default_dtype_of_numpy():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def adjoint(namespace, x):
    return namespace.matrix_transpose(namespace.conj(x))


def converted(value, namespace):
    """Return arguments of a case as a namespace has them."""
    if isinstance(value, DType):
        return getattr(namespace, value.name)
    if isinstance(value, np.ndarray):
        # A copy in C's order: strides that are negative have no tensor.
        plain = np.ascontiguousarray(value).reshape(value.shape)
        return namespace.asarray(plain, dtype=getattr(namespace, value.dtype.name))
    if isinstance(value, (tuple, list)):
        return type(value)(converted(each, namespace) for each in value)
    if isinstance(value, dict):
        return {name: converted(each, namespace) for name, each in value.items()}
    return value


def dtype_name(dtype):
    return str(dtype).rpartition(".")[2]


def same(ours, theirs, values=True):
    """Assert that a result is that of the reference."""
    if isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for mine, other in zip(ours, theirs, strict=True):
            same(mine, other, values)
    elif isinstance(
        theirs, strict.__array_namespace_info__().default_dtypes()["integral"].__class__
    ):
        assert isinstance(ours, torch.dtype) and dtype_name(ours) == dtype_name(theirs)
    elif hasattr(theirs, "smallest_normal") or hasattr(theirs, "bits"):
        for name in ("bits", "eps", "max", "min", "smallest_normal"):
            assert getattr(ours, name, None) == getattr(theirs, name, None), name
        assert dtype_name(ours.dtype) == dtype_name(theirs.dtype)
    elif isinstance(theirs, (bool, int, float)):
        assert type(ours) is type(theirs) and ours == theirs
    else:
        assert isinstance(ours, torch.Tensor)
        assert tuple(ours.shape) == theirs.shape
        assert dtype_name(ours.dtype) == expected_dtype(theirs)
        if values:
            exact = theirs.dtype not in FLOATING
            wide = dtype_name(theirs.dtype) in ("float64", "complex128")
            bound = 0 if exact else 1e-9 if wide else 3e-4
            expected = np.asarray(theirs._array)
            np.testing.assert_allclose(ours.numpy(), expected, rtol=bound, atol=bound)


FLOATING = [getattr(strict, name) for name in ("float32", "float64", "complex64", "complex128")]


def expected_dtype(theirs):
    # Sums of uint8 are uint64 by the standard; int64 here, as in PyTorch: uint64 is stored only.
    return {"uint64": "int64"}.get(dtype_name(theirs.dtype), dtype_name(theirs.dtype))


def function_of(namespace, name):
    return functools.reduce(getattr, name.split("."), namespace)


@pytest.mark.filterwarnings("ignore:var.*degrees of freedom is <= 0")
@pytest.mark.parametrize("name", CASES)
def test_functions_are_those_of_the_standard(name):
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(CASES[name])
    def compare(case):
        args, kwargs = case
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            theirs = function_of(strict, name)(
                *converted(args, strict), **converted(kwargs, strict)
            )
        ours = function_of(xp, name)(*converted(args, xp), **converted(kwargs, xp))
        if name in PRODUCTS:
            same(ours, theirs, values=False)
            assert ours._fields == theirs._fields
            ours, theirs = PRODUCTS[name](xp, *ours), PRODUCTS[name](strict, *theirs)
        same(ours, theirs, values="empty" not in name)

    compare()


def test_every_name_is_there_and_has_a_case():
    for prefix, namespace in (("", strict), ("linalg.", strict.linalg), ("fft.", strict.fft)):
        public = namespace.__all__ if hasattr(namespace, "__all__") else dir(namespace)
        public = [each for each in public if each not in NOT_OURS and not each.startswith("_")]
        for name in public:
            found = function_of(xp, prefix + name)
            theirs = getattr(namespace, name)
            if inspect.isfunction(theirs) and name != "from_dlpack":
                assert prefix + name in CASES, prefix + name
                assert found.__doc__ and found.__name__ == name
    assert xp.__array_api_version__ == "2024.12"


@pytest.mark.parametrize("name", CASES)
def test_arguments_are_named_as_the_standard_has_them(name):
    ours = inspect.signature(function_of(xp, name)).parameters.values()
    theirs = inspect.signature(function_of(strict, name)).parameters.values()
    assert [(p.name, p.kind) for p in ours] == [(p.name, p.kind) for p in theirs]
    simple = (int, float, bool, str, type(None))
    assert [p.default for p in ours] == [
        p.default
        if isinstance(p.default, (*simple, type(p.empty))) or p.default is p.empty
        else None
        for p in theirs
    ]


PACKAGES = """\
import sys

if "switch" in sys.argv:
    import tapegrad.compat.torch as switch

    switch.install()
    import torch
else:
    import tapegrad as torch
import numpy as np
import scipy.cluster.vq, scipy.fft, scipy.signal, scipy.special, scipy.stats
import sklearn
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.preprocessing import StandardScaler

x = np.random.default_rng(0).random((20, 3)) + 0.5
y = x @ np.array([1.0, -2.0, 0.5])
cases = [
    (scipy.special.logsumexp, x), (scipy.special.erf, x), (scipy.special.xlogy, x, x),
    (scipy.stats.zscore, x), (scipy.stats.skew, x), (scipy.stats.hmean, x),
    (scipy.fft.fft, x), (scipy.fft.dct, x), (scipy.signal.fftconvolve, x, x[:3]),
    (scipy.cluster.vq.whiten, x), (r2_score, y, y + x[:, 0]),
    (lambda x: StandardScaler().fit(x).transform(x), x),
    (lambda x: abs(PCA(2, svd_solver="full").fit(x).transform(x)), x),
    (lambda x, y: Ridge(solver="svd").fit(x, y).predict(x), x, y),
]
for function, *arrays in cases:
    with sklearn.config_context(array_api_dispatch=True):
        found = function(*(torch.from_numpy(each.copy()) for each in arrays))
        assert isinstance(found, (torch.Tensor, float)), (function, type(found))
        np.testing.assert_allclose(np.asarray(found), function(*arrays), rtol=1e-9)
print(len(cases))
"""


@pytest.mark.parametrize("switch", ["own name", "switch"])
def test_scipy_and_sklearn_take_tensors(switch):
    environ = {**os.environ, "SCIPY_ARRAY_API": "1"}
    command = [sys.executable, "-c", PACKAGES, switch]
    assert subprocess.check_output(command, env=environ, text=True) == "14\n"


def test_versions_that_are_not_there_are_refused():
    x = torch.ones(1)
    assert x.__array_namespace__(api_version="2023.12") is xp
    with pytest.raises(ValueError, match=r"api_version up to 2024\.12, got '2030\.01'"):
        x.__array_namespace__(api_version="2030.01")


def test_gradients_and_vmap_go_through():
    x = torch.tensor([[3.0, 1.0], [2.0, 2.0]], requires_grad=True)
    xp.sum(xp.square(xp.take(x, xp.asarray([-1]), axis=0))).backward()
    assert x.grad.tolist() == [[0.0, 0.0], [4.0, 4.0]]
    rows = torch.vmap(lambda row: xp.cumulative_sum(row, include_initial=True))(x.detach())
    assert rows.tolist() == [[0.0, 3.0, 4.0], [0.0, 2.0, 4.0]]


def test_errors_are_those_of_the_standard():
    x = xp.ones((2, 3))
    with pytest.raises(ValueError, match="expected axis 0 of size 1, got 2"):
        xp.squeeze(x, 0)
    with pytest.raises(TypeError, match="take real"):
        xp.astype(xp.ones(2, dtype=xp.complex64), xp.float32)
    with pytest.raises(ValueError, match="takes a copy"):
        xp.reshape(xp.matrix_transpose(x), (6,), copy=False)
    with pytest.raises(ValueError, match="no memory to share"):
        xp.asarray([1.0], copy=False)
    with pytest.raises(IndexError, match=r"expected an axis of a 2-d tensor, got 2"):
        xp.sum(x, axis=2)
    with pytest.raises(ValueError, match="expected one of"):
        xp.isdtype(xp.float32, "float")
