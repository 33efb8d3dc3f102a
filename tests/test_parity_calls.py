"""Single calls beside PyTorch 2.13, where the rules of a family have an exception or an edge.

Each case is an expression in a library's module; both libraries must give results that agree in
values, dtypes, shapes and strides, or raise exceptions of one type. The op database says what is
true of every op; what is true of one call stands here, by the name of the op.
"""

import itertools

import numpy as np
import pytest
from library import IS_TORCH, pytorch_for_parity, torch

pytorch, REASON = pytorch_for_parity()
if pytorch is None or IS_TORCH:
    pytest.skip(REASON or "there is nothing to compare PyTorch with", allow_module_level=True)

REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, ZeroDivisionError)
INTS = ("int64", "int32", "int16", "int8", "uint8")


def describe(answer):
    """Return all that can be seen of results: values, dtypes, shapes, strides."""
    if isinstance(answer, tuple | list):
        return [describe(part) for part in answer]
    if not hasattr(answer, "stride"):
        return answer
    dtype = str(answer.dtype).rsplit(".", maxsplit=1)[-1]
    return dtype, tuple(answer.shape), answer.stride(), answer.tolist()


def outcome(call, library):
    try:
        return describe(call(library))
    except REFUSALS as error:
        return error


def close(ours, theirs):
    if type(ours) is type(theirs) and isinstance(ours, float | complex):
        return np.isclose(ours, theirs, rtol=1e-6, atol=1e-7, equal_nan=True)
    if isinstance(ours, list | tuple) and isinstance(theirs, list | tuple):
        return len(ours) == len(theirs) and all(map(close, ours, theirs))
    return ours == theirs


def assert_same(call):
    ours, theirs = outcome(call, torch), outcome(call, pytorch)
    if isinstance(theirs, Exception):
        # Whoever catches PyTorch's exception must catch this one.
        assert isinstance(ours, type(theirs)), f"here {ours!r}, in PyTorch {theirs!r}"
        return
    assert close(ours, theirs), f"here {ours}, in PyTorch {theirs}"


def count(t, *shape, dtype="int64"):
    """Return a tensor of the numbers from 1 on."""
    return t.arange(1, 1 + int(np.prod(shape))).reshape(shape).to(getattr(t, dtype))


def thirds(t, *shape):
    return count(t, *shape) % 3 == 0


RANGES = (
    (0.5, 3.2, 1), (0, 2.5, 1), (0.5, 4, 1.7), (5.5, 0.5, -1.5), (0, 3, 0.5), (3, 0, -0.5),
    (2.9, 3.1, 1), (0.2, 0.9, 1), (-0.5, 2.5, 1), (1.5, 6, 1.5), (0, -0.5, -1), (2.5, 2.2, 1),
    (0, 3, 0), (5, 1, -2),
)  # fmt: skip


@pytest.mark.parametrize("dtype", (*INTS, "float32", "bool"))
@pytest.mark.parametrize("bounds", RANGES, ids=str)
def test_arange_of_float_bounds(bounds, dtype):
    assert_same(lambda t: t.arange(*bounds, dtype=getattr(t, dtype)))


OTHERS = (-3, 7, 300, 70000, 2**40)
MIXED = (
    "add", "sub", "mul", "fmax", "fmin", "maximum", "minimum", "eq", "lt", "ge", "bitwise_and",
    "bitwise_left_shift", "bitwise_right_shift", "floor_divide", "remainder", "fmod", "pow",
    "clamp_min", "clamp_max", "div", "heaviside",
)  # fmt: skip


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("op", MIXED)
def test_integers_beside_numbers_they_cannot_hold(op, dtype):
    """An operand of lower standing takes the dtype of the others before anything is computed."""
    for other, kind in itertools.product(OTHERS, ("number", *INTS)):

        def call(t, other=other, kind=kind):
            x = t.tensor([1, 3, 100], dtype=getattr(t, dtype))
            if kind != "number":
                other = t.tensor(other).to(getattr(t, kind))
            return getattr(t, op)(x, other)

        assert_same(call)


def gradients(call, *values):
    def swept(t):
        leaves = [t.tensor(value, dtype=t.float64, requires_grad=True) for value in values]
        call(t, *leaves).sum().backward()
        return [leaf.grad for leaf in leaves]

    return swept


@pytest.mark.parametrize("bounds", ((1.0, 2.0), (1.0, 1.0), (2.0, 1.0)), ids=str)
def test_gradients_of_clamp_at_ties(bounds):
    x, low, high = [0.0, 1.0, 2.0, 3.0], [bounds[0]] * 4, [bounds[1]] * 4
    assert_same(gradients(lambda t, x, a, b: t.clamp(x, a, b), x, low, high))
    assert_same(gradients(lambda t, x: t.clamp(x, *bounds), x))
    for one in ("clamp_min", "clamp_max"):
        assert_same(gradients(lambda t, x, a, one=one: getattr(t, one)(x, a), x, low))
    assert_same(gradients(lambda t, x, a: t.clamp(x, min=a), x, low))
    assert_same(gradients(lambda t, x, a: t.clamp(x, max=a), x, low))


@pytest.mark.parametrize(("alpha", "beta"), ((1, 1.5), (1.5, 1), (2.0, 3.0), (2, 3), (1.5, 2.5)))
def test_products_of_integers_with_float_factors(alpha, beta):
    factors = {"alpha": alpha, "beta": beta}
    assert_same(lambda t: t.addmv(count(t, 2), count(t, 2, 3), count(t, 3), **factors))
    assert_same(lambda t: t.addmm(count(t, 2, 2), count(t, 2, 3), count(t, 3, 2), **factors))
    batches = (2, 2, 3), (2, 3, 2)
    for name, shape in (("baddbmm", (2, 2, 2)), ("addbmm", (2, 2))):
        assert_same(
            lambda t, name=name, shape=shape: getattr(t, name)(
                count(t, *shape), *(count(t, *size) for size in batches), **factors
            )
        )
    assert_same(lambda t: t.addr(count(t, 2, 3), count(t, 2), count(t, 3), **factors))
    assert_same(lambda t: t.addcmul(count(t, 3), count(t, 3), count(t, 3), value=alpha))


@pytest.mark.parametrize("factors", ({}, {"beta": 0}, {"alpha": 0}, {"alpha": 2}, {"alpha": 2.5}))
def test_products_of_bools(factors):
    assert_same(lambda t: t.addr(thirds(t, 2, 3), thirds(t, 2), thirds(t, 3), **factors))
    assert_same(lambda t: t.addr(thirds(t, 2, 3), count(t, 2), count(t, 3), **factors))
    assert_same(lambda t: t.addmm(thirds(t, 2, 2), thirds(t, 2, 3), thirds(t, 3, 2), **factors))
    assert_same(lambda t: t.addmv(thirds(t, 2), thirds(t, 2, 3), thirds(t, 3), **factors))
    batches = (2, 2, 3), (2, 3, 2)
    assert_same(
        lambda t: t.addbmm(thirds(t, 2, 2), *(thirds(t, *size) for size in batches), **factors)
    )


@pytest.mark.parametrize("dtype", (*INTS, "bool", "float32"))
def test_sum_to_size(dtype):
    for shape, size in (((2, 3), (1, 3)), ((2, 3), (2, 3)), ((2, 3), ()), ((), ()), ((1, 3), (3,))):
        assert_same(
            lambda t, shape=shape, size=size: count(t, *shape, dtype=dtype).sum_to_size(size)
        )


@pytest.mark.parametrize("name", ("any", "all"))
@pytest.mark.parametrize("dtype", ("int64", "uint8", "bool", "float32"))
def test_any_and_all_of_no_dimensions(name, dtype):
    def values(t):
        return t.tensor([[1, 0], [0, 0]]).to(getattr(t, dtype))

    for dim, keepdim in itertools.product(((), [], None, (0,), (0, 1)), (False, True)):
        assert_same(lambda t, d=dim, k=keepdim: getattr(t, name)(values(t), dim=d, keepdim=k))
        assert_same(lambda t, d=dim, k=keepdim: getattr(values(t), name)(dim=d, keepdim=k))
    assert_same(lambda t: getattr(t, name)(t.tensor(3), dim=()))


CALLS = {
    "topk_of_0d": lambda t: t.topk(t.tensor(5.0), 0),
    "topk_of_0d_one": lambda t: t.topk(t.tensor(5.0), 1),
    "topk_of_0d_two": lambda t: t.topk(t.tensor(5.0), 2),
    "flip_of_ints": lambda t: count(t, 2, 3).flip(0, 1),
    "flip_of_one_int": lambda t: count(t, 2, 3).flip(1),
    "flip_of_tuple": lambda t: count(t, 2, 3).flip((0, 1)),
    "flip_of_keyword": lambda t: count(t, 2, 3).flip(dims=[0]),
    "flip_of_nothing": lambda t: count(t, 2, 3).flip(),
    "flip_function": lambda t: t.flip(count(t, 2, 3), dims=(0,)),
    "ravel_of_stepped": lambda t: t.zeros(6)[::2].ravel(),
    "ravel_of_column": lambda t: t.zeros(6, 2)[:, 0].ravel(),
    "ravel_of_expanded": lambda t: t.zeros(1).expand(5).ravel(),
    "ravel_of_0d": lambda t: t.zeros(()).ravel(),
    "expand_to_ones": lambda t: t.zeros(3).expand(1, 1, 3),
    "expand_of_transposed": lambda t: t.zeros(2, 3).t().expand(1, 1, 3, 2),
    "expand_of_0d": lambda t: t.zeros(()).expand(1, 1),
    "broadcast_to_ones": lambda t: t.broadcast_to(t.zeros(3), (1, 3)),
    "view_of_odd_strides": lambda t: t.zeros(3)[:, None].t().view(1, 3, 1),
    "view_of_narrowed": lambda t: t.zeros(3, 1, 5)[..., :1].view(3, 1, 1, 1),
    "local_response_norm_3d": lambda t: t.nn.functional.local_response_norm(count(t, 1, 3, 4), 2),
    "local_response_norm_4d": lambda t: t.nn.functional.local_response_norm(
        count(t, 1, 3, 2, 2), 3
    ),
    "local_response_norm_int32": lambda t: t.nn.functional.local_response_norm(
        count(t, 1, 3, 4, dtype="int32"), 2
    ),
    "unfold_of_bool": lambda t: t.nn.functional.unfold(thirds(t, 1, 2, 3, 3), 2, padding=1),
    "unfold_of_int": lambda t: t.nn.functional.unfold(count(t, 1, 2, 3, 3), 2),
    "fold_of_bool": lambda t: t.nn.functional.fold(thirds(t, 1, 8, 4), (3, 3), 2),
    "take_along_dim_int32": lambda t: t.take_along_dim(
        count(t, 3), t.tensor([0, 2], dtype=t.int32)
    ),
    "gather_uint8": lambda t: t.gather(count(t, 3), 0, t.tensor([0, 2], dtype=t.uint8)),
    "glu_of_nothing": lambda t: t.nn.functional.glu(t.zeros(0, 3), 0),
    "glu_of_no_columns": lambda t: t.nn.functional.glu(t.zeros(2, 0), 1),
    "fractional_max_pool2d_no_batch": lambda t: t.nn.functional.fractional_max_pool2d(
        t.zeros(0, 3, 4, 4), 2, output_size=2
    ),
    "fractional_max_pool2d_no_channels": lambda t: t.nn.functional.fractional_max_pool2d(
        t.zeros(0, 4, 4), 2, output_size=2
    ),
    "fractional_max_pool3d_no_batch": lambda t: t.nn.functional.fractional_max_pool3d(
        t.zeros(0, 3, 4, 4, 4), 2, output_size=2
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_call(name):
    assert_same(CALLS[name])


CASTS = ["bool", "byte", "bfloat16", "half", "float", "double", "int", "long", "short", "char"]
FORMATS = ("contiguous_format", "preserve_format", "channels_last")


@pytest.mark.parametrize("name", (*CASTS, "to", "clone", "contiguous", "is_contiguous"))
@pytest.mark.parametrize("memory_format", FORMATS)
def test_memory_format(name, memory_format):
    def call(t, x):
        args = (t.float64,) if name == "to" else ()
        return getattr(x, name)(*args, memory_format=getattr(t, memory_format))

    assert_same(lambda t: call(t, count(t, 2, 3).t()))
    assert_same(lambda t: call(t, count(t, 2, 3, 2, 2)))
    assert_same(lambda t: call(t, count(t, 2, 2, 2, 3).permute(0, 3, 1, 2)))
    assert_same(lambda t: call(t, count(t, 1, 2, 3)[..., ::2]))


@pytest.mark.parametrize("memory_format", (*FORMATS, "channels_last_3d"))
@pytest.mark.parametrize("name", ("zeros_like", "ones_like"))
def test_memory_format_of_like(name, memory_format):
    for shape in ((2, 3), (2, 3, 2, 2), (2, 3, 1, 1), (2, 3, 1, 2, 2)):
        assert_same(
            lambda t, shape=shape: getattr(t, name)(
                count(t, *shape).transpose(0, 1), memory_format=getattr(t, memory_format)
            )
        )
        assert_same(
            lambda t, shape=shape: t.empty(shape, memory_format=getattr(t, memory_format)).stride()
        )


@pytest.mark.parametrize("dtype", ("float16", "bfloat16", "float32", "float64"))
def test_rms_norm_epsilon(dtype):
    """Without an epsilon, that of the dtype which is computed in: float32 for halves."""

    def call(t, weight=None):
        x = t.tensor([1e-3, 2e-3], dtype=getattr(t, dtype))
        return t.nn.functional.rms_norm(x, (2,), weight)

    assert_same(call)
    assert_same(lambda t: call(t, t.tensor([1.0, 3.0], dtype=getattr(t, dtype))))


@pytest.mark.parametrize("dtype", (*INTS, "bool"))
@pytest.mark.parametrize("bounds", ((-1.5, 2.7), (1.5, 2.7), (-1, 1), (0, 400.5)), ids=str)
def test_activations_of_integers_with_float_bounds(dtype, bounds):
    def values(t):
        return t.tensor([3, 0, 1, 5]).to(getattr(t, dtype))

    assert_same(lambda t: t.nn.functional.hardtanh(values(t), *bounds))
    assert_same(lambda t: t.nn.functional.hardtanh_(values(t), *bounds))
    if dtype != "bool":
        assert_same(lambda t: t.nn.functional.threshold(values(t), *bounds))
    assert_same(lambda t: t.nn.functional.relu6(values(t)))
    assert_same(lambda t: t.clamp(values(t), *bounds))


SHAPES = ((), (1,), (3,))


@pytest.mark.parametrize("shapes", list(itertools.product(SHAPES, ((), (1,)), ((), (1,)))), ids=str)
@pytest.mark.parametrize("name", ("index_copy_", "index_add_", "index_copy", "scatter_add_"))
def test_vectors_and_single_values(name, shapes):
    def call(t):
        self, index, source = shapes
        places = t.zeros(index, dtype=t.int64)
        return getattr(t.zeros(self), name)(0, places, t.ones(source))

    assert_same(call)


def test_gradient_of_index_copy_of_a_single_value():
    def call(t):
        x, value = t.zeros(3, requires_grad=True), t.tensor(2.0, requires_grad=True)
        x.index_copy(0, t.tensor([1]), value).square().sum().backward()
        return x.grad, value.grad

    assert_same(call)


@pytest.mark.parametrize("score", (0.5, [0.5], [0.5, 0.2]))
@pytest.mark.parametrize("target", (0, [0]))
@pytest.mark.parametrize("reduction", ("mean", "sum", "none"))
def test_multi_margin_loss_of_single_values(score, target, reduction):
    for name in ("multi_margin_loss", "multilabel_margin_loss"):
        assert_same(
            lambda t, name=name: getattr(t.nn.functional, name)(
                t.tensor(score), t.tensor(target), reduction=reduction
            )
        )


EMPTY = ((0, 4), (0, 4, 2), (0, 4, 2, 2), (2, 4, 0))


@pytest.mark.parametrize("shape", EMPTY, ids=str)
@pytest.mark.parametrize("training", (True, False))
def test_norms_of_empty_batches(shape, training):
    channels = shape[1]

    def norm(t, name, **flags):
        mean, variance = t.zeros(channels), t.ones(channels)
        result = getattr(t.nn.functional, name)(t.zeros(shape), mean, variance, **flags)
        return result, mean, variance

    assert_same(lambda t: norm(t, "batch_norm", training=training))
    if len(shape) > 2 and shape[0] > 0:
        assert_same(lambda t: norm(t, "instance_norm", use_input_stats=training)[0])
    for groups in (1, 2):
        assert_same(lambda t, groups=groups: t.nn.functional.group_norm(t.zeros(shape), groups))


@pytest.mark.parametrize("name", ("GroupNorm", "InstanceNorm1d", "BatchNorm1d"))
def test_gradients_of_norms_of_empty_batches(name):
    def call(t):
        layer = getattr(t.nn, name)(*((2, 4) if name == "GroupNorm" else (4,)))
        x = t.zeros(0, 4, 3, requires_grad=True)
        y = layer(x)
        y.sum().backward()
        return y.detach(), x.grad, [parameter.grad for parameter in layer.parameters()]

    assert_same(call)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.diff(count(t, 5), n=0, prepend=count(t, 2)),
        lambda t: t.tensordot(count(t, 2, 3, dtype="float32"), count(t, 2, 3, dtype="float32")),
        lambda t: t.ldexp(t.tensor([1.0, 3.0]), t.tensor([-140, 127])),
        lambda t: t.ldexp(t.tensor([2.0**-100]), t.tensor([200])),
        lambda t: t.ldexp(t.tensor([2.0**-1000], dtype=t.float64), t.tensor([2000])),
        lambda t: t.ldexp(count(t, 3), t.tensor([1, 2, -1])),
        lambda t: t.ldexp(t.tensor([1.5 + 2j]), t.tensor([3])),
        lambda t: t.cov(count(t, 2, 3, dtype="float32"), fweights=t.tensor([0, 0, 0])),
        lambda t: t.cov(count(t, 2, 3, dtype="float32"), fweights=t.tensor([1, 0, 2])),
        lambda t: t.norm(t.tensor([3.0, 4.0]), dtype=t.complex64),
        lambda t: t.norm(t.tensor([3.0 + 4j]), dtype=t.float32),
        lambda t: t.linalg.vector_norm(t.tensor([3.0 + 4j]), dtype=t.float32),
        lambda t: t.linalg.vector_norm(t.tensor([3.0 + 4j]), dtype=t.complex128),
        lambda t: t.linalg.vector_norm(t.tensor([3.0]), dtype=t.complex64),
        lambda t: t.tensor(1j) * t.tensor([1.0], dtype=t.float64),
        lambda t: t.tensor(1j, dtype=t.complex128) * t.tensor([1.0]),
        lambda t: t.tensor(1j, dtype=t.complex128) * t.tensor([1]),
        lambda t: t.ormqr(t.zeros(3, 0), t.zeros(0), t.zeros(3, 0)),
        lambda t: t.round(t.tensor([123.44, 4.09, 6e4, 0.05]).half(), decimals=3),
        lambda t: t.round(t.tensor([123.44, 4.09, 6e4, 0.05]).bfloat16(), decimals=1),
        lambda t: t.tensor([123.44, 4.09, 6e4, 0.05]).half().round_(decimals=-2),
    ],
    ids=range(21),
)
def test_edges_of_composed_ops(call):
    assert_same(call)


def test_tied_parameters_take_one_value():
    def call(t):
        layer = t.nn.Linear(2, 2, bias=False)
        model = t.nn.Sequential(layer, layer)
        given = {"0.weight": t.zeros(2, 2), "1.weight": t.ones(2, 2)}
        return t.func.functional_call(model, given, (t.ones(1, 2),))

    assert_same(call)


def test_the_inputs_of_a_sparse_backward():
    def call(t):
        x = t.eye(2).to_sparse().requires_grad_()
        y = x * 2
        y.backward(t.eye(2).to_sparse(), inputs=[x])
        return x.grad.to_dense()

    assert_same(call)


TANGENTS = {
    "sinc": lambda t, x: t.sinc(x),
    "copysign": lambda t, x: t.copysign(x, t.ones_like(x)),
    "pow_of_numbers": lambda t, x: x**0,
    "pow_of_tensors": lambda t, x: t.pow(x, t.tensor([0.0, 1, 2, 0, 0, 0]).view(3, 2)),
    "xlogy": lambda t, x: t.xlogy(x, t.zeros_like(x)),
    "xlog1py": lambda t, x: t.special.xlog1py(x, -t.ones_like(x)),
    "std": lambda t, x: x.std(1),
    "std_mean": lambda t, x: t.std_mean(x, 1, correction=0),
    "norm_of_cubes": lambda t, x: x.norm(3, 1),
    "norm_between": lambda t, x: x.norm(1.5, 1),
    "distances": lambda t, x: t.nn.functional.pairwise_distance(x, x, eps=0.0),
}  # fmt: skip


# PyTorch's own forward mode compiles what it has no rule for.
COMPILES = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")


@COMPILES
@pytest.mark.parametrize("name", TANGENTS)
def test_tangents_where_a_factor_has_a_pole(name):
    def call(t):
        x = t.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
        return t.func.jvp(lambda x: TANGENTS[name](t, x), (x,), (t.ones_like(x),))

    assert_same(call)


@COMPILES
def test_tangents_have_no_history_of_their_own():
    def call(t):
        x = t.tensor([[0.0, 1.0], [2.0, 0.0]])
        result = t.func.jvp(t.linalg.matrix_exp, (x,), (t.eye(2),))
        return [part.requires_grad for part in result]

    assert_same(call)


@pytest.mark.parametrize("smoothing", (0.0, 0.1))
@pytest.mark.parametrize("shape", ((4, 3), (1, 3, 4)), ids=str)
def test_gradient_of_cross_entropy_of_ignored_lines(shape, smoothing):
    def call(t):
        x = t.ones(shape, requires_grad=True)
        target = t.full((4,), -100).view(shape[0], *shape[2:])
        loss = t.nn.functional.cross_entropy(x, target, label_smoothing=smoothing)
        return loss.detach(), t.autograd.grad(loss, x, create_graph=True)[0].detach()

    assert_same(call)


@pytest.mark.parametrize(
    "name", ("maximum", "atan2", "remainder", "gcd", "bitwise_and", "lt", "copysign", "mul")
)
def test_real_results_written_as_complex(name):
    def call(t):
        out = t.zeros(2, dtype=t.complex64)
        getattr(t, name)(t.tensor([6, -3]), t.tensor([4, 2]), out=out)
        return out

    assert_same(call)


COMPLEX_CALLS = {
    "float_power_": lambda t: count(t, 3, dtype="complex128").float_power_(t.tensor([2.0])),
    "float_power_of_1j": lambda t: count(t, 3, dtype="complex128").float_power_(1j),
    "float_power_narrow": lambda t: count(t, 3, dtype="complex64").float_power_(2),
    "float_power_real": lambda t: count(t, 3, dtype="float64").float_power_(1j),
    "logsumexp_of_nothing": lambda t: t.logsumexp(t.zeros(0, 2, dtype=t.complex64), 0),
    "logsumexp_of_no_dims": lambda t: t.logsumexp(t.zeros(2, 0, dtype=t.complex64), (0, 1)),
    "scatter_reduce_mean": lambda t: t.scatter_reduce(
        count(t, 3, dtype="complex64"), 0, t.tensor([0, 0, 2]), count(t, 3, dtype="complex64") * 1j,
        "mean",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPLEX_CALLS)
def test_complex_call(name):
    assert_same(COMPLEX_CALLS[name])


@COMPILES
@pytest.mark.parametrize("name", ("max", "sort", "cummax", "median", "mode"))
def test_transforms_of_functions_that_return_named_tuples(name):
    def call(t):
        def named(x):
            return getattr(x, name)(0)

        x = t.tensor([[3.0, 1.0], [2.0, 5.0]])
        return t.func.vmap(named)(x), t.func.jvp(named, (x,), (t.ones(2, 2),))

    assert_same(call)
    kind = type(torch.func.vmap(lambda x: getattr(x, name)(0))(torch.eye(2)))
    assert kind is getattr(torch.return_types, name)


@pytest.mark.parametrize("out_dim", (0, 1, -1))
@pytest.mark.parametrize(
    "mapped",
    (
        lambda t, x: x * 2,
        lambda t, x: x.t() + 1,
        lambda t, x: x.sum(0, keepdim=True),
        lambda t, x: t.func.vmap(lambda row: row * row[0])(x),
        lambda t, x: x[:, 0],
    ),
    ids=range(5),
)
def test_results_of_vmap_lie_as_if_computed_at_once(mapped, out_dim):
    assert_same(lambda t: t.func.vmap(lambda x: mapped(t, x), out_dims=out_dim)(count(t, 2, 3, 5)))


def test_gradients_through_vmap_lie_as_if_computed_at_once():
    def call(t):
        x = count(t, 5, 3, dtype="float32").requires_grad_()
        t.func.vmap(lambda row: row.exp() * row.sum())(x).view(-1).sum().backward()
        return x.grad

    assert_same(call)


@pytest.mark.parametrize("twice", (False, True))
@pytest.mark.parametrize("base", ("float64", "complex128"))
def test_gradients_of_powers_of_negative_bases(base, twice):
    """The logarithm of a negative base is complex where the exponent is."""

    def call(t):
        x = t.tensor([-2.0, -0.5, 3.0]).to(getattr(t, base)).requires_grad_()
        y = t.tensor([0.5 + 1j, 2 - 1j, 0.3 + 1j], dtype=t.complex128, requires_grad=True)
        loss = (x**y).abs().sum()
        found = t.autograd.grad(loss, (x, y), create_graph=twice)
        if twice:
            found = t.autograd.grad(sum(part.abs().sum() for part in found), (x, y))
        return [part.contiguous() for part in found]

    assert_same(call)


@pytest.mark.parametrize("eps", (1e-8, 0.5, 3.0))
def test_gradient_of_cosine_similarity_below_the_bound(eps):
    def call(t):
        x = t.tensor([[0.0, 0.0], [1e-9, 2e-9], [1.0, 0.2]], requires_grad=True)
        y = t.nn.functional.cosine_similarity(x, x.flip(1).roll(1, 0), eps=eps)
        y.square().sum().backward()
        return y.detach(), x.grad

    assert_same(call)


@pytest.mark.parametrize(
    "call",
    (
        lambda t: t.func.grad(lambda x: x.float().sum())(t.tensor([1, 2])),
        lambda t: t.func.vjp(lambda x: x.float(), t.tensor([1, 2])),
        lambda t: t.func.vjp(lambda x: x.argmax(), t.tensor([1.0, 2.0])),
        lambda t: t.func.jacrev(lambda x: x.long())(t.tensor([1.0, 2.0])),
        lambda t: t.func.jacfwd(lambda x: x.long())(t.tensor([1.0, 2.0])),
    ),
    ids=range(5),
)
@COMPILES
def test_integers_have_no_derivative(call):
    assert_same(call)
