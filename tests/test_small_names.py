"""Names that are short in themselves: branches, rounding for quantization, hashes, masks by name.

What can be compared runs beside PyTorch; the rest runs on the library under test.
"""

import copy
import importlib
import pickle

import numpy as np
import pytest
from library import IS_TORCH, pytorch_for_parity, torch

pytorch, REASON = pytorch_for_parity()
beside_pytorch = pytest.mark.skipif(
    pytorch is None or IS_TORCH, reason=REASON or "nothing to compare with"
)
REFUSALS = (RuntimeError, TypeError, ValueError, IndexError)


def outcome(text, library):
    t = library
    x = t.tensor([[-1.3, -0.05, 0.05, 0.15], [0.25, 3.7, float("nan"), float("inf")]])
    names = {
        "t": t,
        "x": x.requires_grad_(),
        "c": x.detach()[:, :3].nan_to_num(nan=-7.0).requires_grad_(),
        "i": t.arange(24).view(2, 3, 4),
        "f": ((t.arange(24.0) * 7 % 11 - 5) / 8).view(2, 3, 4),
        "zeros": lambda *v, dtype="int32": t.tensor(v, dtype=getattr(t, dtype)),
        "grad": lambda y, x: t.autograd.grad(y.sum(), x)[0],
        "f8": lambda x: x.to(t.float8_e4m3fn),
    }
    try:
        found = eval(text, names)
    except REFUSALS as error:
        return type(error).__mro__
    if not hasattr(found, "stride"):
        return found
    dtype = str(found.dtype).rsplit(".", maxsplit=1)[-1]
    if dtype in ("uint64", "int64"):
        return dtype, found.tolist()
    return dtype, tuple(found.shape), found.detach().double().numpy()


def assert_same(text):
    ours, theirs = outcome(text, torch), outcome(text, pytorch)
    if isinstance(theirs, tuple) and theirs and isinstance(theirs[0], type):
        assert theirs[0].__name__ in [each.__name__ for each in ours], f"{ours}, {theirs}"
    elif isinstance(theirs, tuple) and isinstance(theirs[-1], np.ndarray):
        assert ours[:2] == theirs[:2]
        np.testing.assert_allclose(ours[2], theirs[2], rtol=2e-6, atol=1e-7)
    else:
        assert ours == theirs


ROUNDING = "fake_quantize_per_tensor_affine", "fake_quantize_per_channel_affine"
QUANTIZED = (
    "(x, 0.1, 0, -10, 20)", "(x, 0.1, 3, -10, 20)", "(x, 0.1, 30, -10, 20)",
    "(x, 0.1, 3, 10, -20)", "(x.double(), 0.1, 0, -10, 20)", "(x.half(), 0.1, 2, -10, 20)",
    "(i, 0.1, 0, 0, 3)", "(x, 0.0, 0, -10, 20)", "(x, -0.1, 0, -10, 20)",
    "(x, t.tensor(0.1), t.tensor(2), -10, 20)", "(x, t.tensor([0.1]), zeros(40), -10, 20)",
    "(x, t.tensor(0.1), t.tensor(2.0), -10, 20)", "(x, t.tensor(0.1), 2, -10, 20)",
    "(x.bfloat16(), t.tensor(0.1), t.tensor(4), -10, 20)", "(x[:0], 0.1, 0, -1, 1)",
    "(x, t.tensor(0.1, requires_grad=True), t.tensor(0), -10, 20)",
)  # fmt: skip
BY_CHANNEL = (
    "(c, t.tensor([0.1, 0.2]), zeros(0, 1), 0, -5, 5)",
    "(c, t.tensor([0.1, 0.2]), zeros(0, 1, dtype='int64'), 0, -5, 5)",
    "(c, t.tensor([0.1, 0.2]), zeros(0, 1.5, dtype='float32'), 0, -5, 5)",
    "(c, t.tensor([0.1, 0.2]), zeros(0, 9), 0, -5, 5)",
    "(c, t.tensor([0.1, 0.2]), zeros(0, 1), 1, -5, 5)",
    "(c, t.tensor([0.1, 0.2, 0.3]), zeros(0, 1, 2), 1, -5, 5)",
    "(c, t.tensor([0.1, 0.2]), zeros(0, 1), 2, -5, 5)",
    "(c, t.tensor([0.1, 0.2]), zeros(0, 1), -1, -5, 5)",
    "(c, t.tensor([0.1, 0.2]).double(), zeros(0, 1), 0, -5, 5)",
    "(c.half(), t.tensor([0.1, 0.2]), zeros(0, 1), 0, -5, 5)",
    "(c.double(), t.tensor([0.1, 0.2]), zeros(0, 1), 0, -5, 5)",
)  # fmt: skip
CALLS = (
    "t.hash_tensor(f)", "t.hash_tensor(i)", "t.hash_tensor(i, 1)", "t.hash_tensor(i, (0, -1))",
    "t.hash_tensor(i, 1, keepdim=True)", "t.hash_tensor(i.to(t.int8) - 5, 0)",
    "t.hash_tensor(f.half(), 2)", "t.hash_tensor(i > 3, 2)", "t.hash_tensor(i, mode=1)",
    "t.hash_tensor(i[:0])", "t.hash_tensor(i[:0], 0)", "i.hash_tensor(0)",
    "t.hash_tensor(f[:, :, 1:].transpose(0, 1), 0)", "t.hash_tensor(t.tensor(3))",
    "t.hash_tensor(i, 3)",
    "t.conv_tbc(f, t.ones(2, 4, 3), t.arange(3.0))",
    "t.conv_tbc(f, t.ones(3, 4, 2), t.zeros(2), 2)",
    "t.nn.functional.conv_tbc(f, t.ones(2, 4, 3), t.arange(3.0), pad=1)",
    "t.conv_tbc(f, t.ones(2, 4, 3), t.zeros(2))", "t.conv_tbc(f[0], t.ones(2, 4, 3), t.zeros(3))",
    "t.conv_tbc(f, t.ones(2, 5, 3), t.zeros(3))", "t.conv_tbc(f, t.ones(2, 4, 3), None)",
    "t.conv_tbc(f, t.ones(4, 3), t.zeros(3))", "t.native_channel_shuffle(f.view(2, 6, 2, 1), 3)",
    "t.native_channel_shuffle(f.view(2, 6, 2), 4)",
    "i.clone().as_strided_((2, 2), (1, 3))", "i.clone().as_strided_((2, 2), (1, 3), 4)",
    "i.clone().as_strided_((20, 2), (1, 9))", "(x * 2).as_strided_((3,), (2,), 1)",
    "t._scaled_mm(f8(f[0]), f8(f[1]).t(), t.tensor(0.5), t.tensor(2.0), out_dtype=t.float32)",
    "t._scaled_mm(f8(f[0]), f8(f[1]).t(), t.tensor(0.5), t.tensor(2.0), out_dtype=t.bfloat16)",
    "t._scaled_mm(f8(f[0]), f8(f[1]).t(), t.rand(3, 1) * 0 + 3, t.rand(1, 3) * 0 + 2, "
    "bias=t.ones(3), out_dtype=t.float32)",
    "t._scaled_mm(f8(f[0]), f8(f[1]).t(), t.tensor(1.0), t.ones(1, 3), out_dtype=t.float32)",
    "t._scaled_mm(f[0], f[1].t(), t.tensor(1.0), t.tensor(1.0), out_dtype=t.float32)",
    "t._scaled_mm(f8(f[0]), f8(f[1]).t(), t.tensor(1.0), t.tensor(1.0), "
    "scale_result=t.tensor(2.0)).float()",
    "t._scaled_mm(f8(f[0]), f8(f[1]).t(), t.tensor(1.0), t.tensor(1.0), "
    "scale_result=t.tensor(2.0), out_dtype=t.float8_e4m3fn).float()",
    "t.hash_tensor(t.zeros(3, 0), 0)",
    "t.cond(True, t.sin, t.cos, (f,))", "t.cond(t.tensor([False]), t.sin, t.cos, (f,))",
    "t.cond(t.tensor([True, True]), t.sin, t.cos, (f,))", "t.cond(True, lambda: f, lambda: -f)",
    "t.cond(t.tensor(True), t.sin, t.cos, (3,))",
    "t.func.functionalize(lambda x: x.mul(2).add_(1), remove='mutations_and_views')(f)",
    "t.func.functionalize(t.sin, remove='all')(f)",
    "t.nn.factory_kwargs({'device': 'cpu', 'x': 1})", "t.nn.factory_kwargs(None)",
    "t.nn.factory_kwargs({'device': 'cpu', 'factory_kwargs': {'requires_grad': True}})",
    "t.nn.factory_kwargs({'device': 'cpu', 'factory_kwargs': {'device': 'meta'}})",
    "t.legacy_contiguous_format is t.contiguous_format",
)  # fmt: skip


@beside_pytorch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "text",
    [
        *(f"t.{ROUNDING[0]}{args}" for args in QUANTIZED),
        *(f"t.{ROUNDING[1]}{args}" for args in BY_CHANNEL),
        *CALLS,
    ],
)
def test_calls(text):
    assert_same(text)


@beside_pytorch
@pytest.mark.parametrize("call", [*QUANTIZED[:2], QUANTIZED[9], BY_CHANNEL[0], BY_CHANNEL[2]])
def test_gradients_pass_rounding(call):
    name, x = ("tensor", "x") if call in QUANTIZED else ("channel", "c")
    assert_same(f"grad(t.fake_quantize_per_{name}_affine{call} * {x}.detach().exp(), {x})")


@pytest.mark.skipif(IS_TORCH, reason="PyTorch maps no op of these")
def test_rounding_is_transformed():
    x = torch.tensor([[0.26, 9.0], [-0.11, 0.0]])
    f = lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -5, 5)  # noqa: E731
    assert torch.func.vmap(f)(x).tolist() == f(x).tolist()
    assert torch.func.grad(lambda x: f(x).sum())(x).tolist() == [[1, 0], [1, 1]]
    assert torch.func.jvp(f, (x,), (torch.full_like(x, 3),))[1].tolist() == [[3, 0], [3, 3]]


def test_branches_have_gradients():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    torch.cond(True, torch.square, torch.sin, (x,)).sum().backward()
    assert x.grad.tolist() == [2, 4]


def test_as_strided_in_place_is_recorded():
    x = torch.arange(6.0, requires_grad=True)
    (x * 2).as_strided_((2, 2), (1, 2)).square().sum().backward()
    assert x.grad.tolist() == [0, 8, 16, 24, 0, 0]


# ---- masks by name


def bias_module():
    return importlib.import_module(f"{torch.__name__}.nn.attention.bias")


@pytest.mark.parametrize("lengths", [(4, 6), (5, 5)])
@pytest.mark.parametrize("name", ["causal_upper_left", "causal_lower_right"])
def test_causal_bias(name, lengths):
    made = getattr(bias_module(), name)(*lengths)
    shift = lengths[1] - lengths[0] if "lower" in name else 0
    mask = torch.ones(lengths, dtype=torch.bool).tril(shift)
    assert isinstance(made, torch.Tensor) and repr(made) == repr(mask)
    q = torch.arange(2.0 * 3 * lengths[0] * 8).view(2, 3, lengths[0], 8).sin()
    k = torch.arange(2.0 * 3 * lengths[1] * 8).view(2, 3, lengths[1], 8).cos().requires_grad_()
    attention = torch.nn.functional.scaled_dot_product_attention
    ours, plain = attention(q, k, k, made, scale=0.3), attention(q, k, k, mask, scale=0.3)
    torch.testing.assert_close(ours, plain)
    grads = [torch.autograd.grad(y.square().sum(), k)[0] for y in (ours, plain)]
    torch.testing.assert_close(*grads)
    with pytest.raises(ValueError, match="should not be used with causal=True"):
        attention(q, k, k, made, is_causal=True)


def test_causal_bias_is_checked():
    module = bias_module()
    with pytest.raises(AssertionError, match="only supports 2D tensors"):
        module.causal_upper_left(2, 3, 4)
    with pytest.raises(AssertionError, match="variant must be a CausalVariant"):
        module.CausalBias(1, 2, 3)
    with pytest.warns(UserWarning, match="seq_len_q > seq_len_kv"):
        module.causal_lower_right(4, 2)


# ---- modules


def test_compiled_modules():
    net = torch.nn.Linear(2, 2)
    x = torch.ones(1, 2)
    expected, calls = net(x), []
    assert net.compile(backend="eager") is None
    torch.testing.assert_close(net(x), expected)
    handle = net.register_forward_hook(lambda *_: calls.append(1))
    net(x)
    handle.remove()
    torch.testing.assert_close(net(x), expected)
    assert calls == [1]
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert other._compiled_call_impl is None
        torch.testing.assert_close(other(x), expected)
    assert list(net.state_dict()) == ["weight", "bias"]


@pytest.mark.skipif(IS_TORCH, reason="PyTorch's takes a compiler and its time")
def test_compiled_modules_replay():
    net = torch.nn.Linear(2, 2)
    net.compile()
    x = torch.ones(1, 2)
    results = [net(x) for _ in range(4)]
    net.weight.data.mul_(2)
    assert not torch.equal(net(x), results[-1])
    assert all(torch.equal(results[0], each) for each in results)


def test_batch_norms_forget():
    norm = torch.nn.BatchNorm1d(3)
    net = torch.func.replace_all_batch_norm_modules_(torch.nn.Sequential(norm))
    assert net[0] is norm and norm.running_mean is None and norm.num_batches_tracked is None
    x = torch.arange(12.0).view(2, 2, 3)
    assert torch.func.vmap(net)(x).shape == (2, 2, 3)


def test_container_warns():
    with pytest.warns(FutureWarning, match="Container"):
        net = torch.nn.Container(a=torch.nn.Linear(1, 1))
    assert list(dict(net.named_children())) == ["a"]


def test_multithreading_is_a_choice():
    x = torch.ones(1, requires_grad=True)

    @torch.autograd.set_multithreading_enabled(False)
    def run():
        (x * 2).backward()

    run()
    with torch.autograd.set_multithreading_enabled(True) as nothing:
        run()
    assert nothing is None and x.grad.tolist() == [4]


def test_types_of_results():
    types = torch.return_types
    x = torch.ones(2, 2)
    assert isinstance(torch.aminmax(x), types.aminmax) and isinstance(torch.frexp(x), types.frexp)
    assert isinstance(torch.nanmedian(x, 0), types.nanmedian)
    assert isinstance(torch.histogram(x), types.histogram)
    out = (torch.empty(2), torch.empty(2, dtype=torch.int64))
    assert isinstance(torch.max(x, 0, out=out), types.max_out)
    assert types.linalg_qr_out is not None
    with pytest.raises(AttributeError):
        types.nothing_out  # noqa: B018


def test_small_helpers():
    utils, benchmark = torch.utils, importlib.import_module(f"{torch.__name__}.utils.benchmark")
    cls = type("C", (), {})
    utils.set_module(cls, "somewhere")
    assert cls.__module__ == "somewhere"
    with pytest.raises(TypeError, match="mod argument should be a string"):
        utils.set_module(cls, 3)
    assert utils.hooks.unserializable_hook(cls).__torch_unserializable__
    assert benchmark.unit_to_english("us") == "microsecond"
    assert benchmark.ordered_unique([3, 1, 3]) == [3, 1]
    before = torch.get_num_threads()
    with benchmark.set_torch_threads(1):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
    assert not torch.autograd._profiler_enabled()
    assert torch._C._log_api_usage_once("here") is None
    assert "memory_allocated" in dir(torch.accelerator.memory)
    linear = torch.nn.modules.linear.NonDynamicallyQuantizableLinear
    assert isinstance(torch.nn.MultiheadAttention(2, 1).out_proj, linear)
