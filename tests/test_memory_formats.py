"""Conversions between memory formats, beside PyTorch: strides, identity, refusals.

What ops make of a format is tested in test_memory_format_ops.py.
"""

import copy
import io
import math
import pickle

import pytest
from library import IS_TORCH, pytorch_for_parity, torch

pytorch, REASON = pytorch_for_parity()
if pytorch is None or IS_TORCH:
    pytest.skip(REASON or "there is nothing to compare PyTorch with", allow_module_level=True)

FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
# Every ambiguous case: one image, channel or place, nothing at all; and ranks without channels.
SHAPES = (
    *((2, 3, 4, 5), (1, 3, 4, 5), (2, 1, 4, 5), (2, 3, 1, 1), (1, 1, 1, 1), (2, 1, 1, 1)),
    *((0, 3, 4, 5), (2, 3, 0, 5), (2, 3, 2, 2, 2), (1, 1, 2, 2, 2), (2, 3, 1, 1, 1)),
    *((2, 3, 4), (5,), (), (2, 3, 4, 5, 6, 7)),
)
LAYOUTS = ("usual", "last", "transposed", "permuted", "stepped")


def laid_out(library, shape, layout):
    count = math.prod(shape)
    x = library.arange(count, dtype=library.float32).reshape(shape)
    rank = len(shape)
    if layout == "last" and rank in (4, 5):
        name = "channels_last" if rank == 4 else "channels_last_3d"
        return x.contiguous(memory_format=getattr(library, name))
    if layout == "transposed" and rank > 1:
        return x.transpose(0, -1)
    if layout == "permuted" and rank >= 4:
        stored = x.permute(0, *range(2, rank), 1).contiguous()
        return stored.permute(0, rank - 1, *range(1, rank - 1))
    if layout == "stepped" and rank >= 4:
        return x[:, ::2]
    return x


def conversions(t, name):
    """Return calls of a tensor that name a memory format."""
    form = getattr(t, name)
    calls = {
        "to": lambda x: x.to(memory_format=form),
        "to_itself": lambda x: x.to(memory_format=form) is x,
        "to_dtype": lambda x: x.to(t.float64, memory_format=form),
        "to_copy": lambda x: x.to(t.float32, copy=True, memory_format=form),
        "to_copy_of_dtype": lambda x: x.to(t.float64, False, True, memory_format=form),
        "to_device": lambda x: x.to("cpu", memory_format=form),
        "to_meta": lambda x: x.to("meta", memory_format=form),
        "to_other": lambda x: x.to(t.ones(1, dtype=t.float64), memory_format=form),
        "to_none": lambda x: x.to(memory_format=None),
        "to_number": lambda x: x.to(memory_format=3),
        "contiguous": lambda x: x.contiguous(memory_format=form),
        "contiguous_itself": lambda x: x.contiguous(memory_format=form) is x,
        "contiguous_by_place": lambda x: x.contiguous(form),
        "is_contiguous": lambda x: x.is_contiguous(memory_format=form),
        "is_contiguous_by_place": lambda x: x.is_contiguous(form),
        "clone": lambda x: x.clone(memory_format=form),
        "function_clone": lambda x: t.clone(x, memory_format=form),
        "clone_on_meta": lambda x: x.to("meta").clone(memory_format=form),
        "full_like": lambda x: t.full_like(x, 2, memory_format=form),
        "randint_like": lambda x: t.randint_like(x, 5, memory_format=form),
        "empty": lambda x: t.empty(x.shape, memory_format=form),
        "empty_out": lambda x: t.empty(x.shape, out=t.empty(0), memory_format=form),
        "resize_": lambda x: x.clone().resize_(x.shape, memory_format=form),
        "resize_turned": lambda x: x.clone().resize_(x.shape[::-1], memory_format=form),
        "resize_larger": lambda x: x.clone().resize_([n + 1 for n in x.shape], memory_format=form),
        "resize_as_": lambda x: t.empty(0).resize_as_(x, memory_format=form),
        "type": lambda x: x.type(t.float64, memory_format=form),
        "type_by_name": lambda x: x.type("torch.DoubleTensor", memory_format=form),
        "new_empty": lambda x: x.new_empty(x.shape, memory_format=form),
        "zeros": lambda x: t.zeros(x.shape, memory_format=form),
        "module": lambda x: t.nn.ParameterList([t.nn.Parameter(x)]).to(memory_format=form)[0],
    }
    for like in ("empty_like", "zeros_like", "ones_like", "rand_like", "randn_like"):
        calls[like] = lambda x, like=like: getattr(t, like)(x, memory_format=form)
        calls[f"{like}_on_meta"] = lambda x, like=like: getattr(t, like)(
            x, memory_format=form, device="meta"
        )
    for cast in ("cpu", "float", "double", "half", "bfloat16", "int", "long", "short", "bool"):
        calls[cast] = lambda x, cast=cast: getattr(x, cast)(memory_format=form)
        calls[f"{cast}_itself"] = lambda x, cast=cast: getattr(x, cast)(memory_format=form) is x
    return calls


def outcome(call, x):
    """Return what can be seen of a result, or the type of the exception."""
    try:
        y = call(x)
    except (RuntimeError, TypeError, ValueError) as error:
        return type(error)
    if isinstance(y, bool):
        return y
    return tuple(y.shape), y.stride(), str(y.dtype), y.device.type


@pytest.mark.parametrize("name", conversions(pytorch, "channels_last"))
def test_conversion(name):
    for shape in SHAPES:
        for layout in LAYOUTS:
            for form in FORMATS:
                ours, theirs = (
                    outcome(conversions(t, form)[name], laid_out(t, shape, layout))
                    for t in (torch, pytorch)
                )
                assert ours == theirs, f"{name} of {shape}, {layout}, to {form}"


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if 0 not in shape])
@pytest.mark.parametrize("layout", ["usual", "last", "transposed", "permuted"])
def test_copies_keep_strides(shape, layout):
    """deepcopy, pickle, save and load, of what lies without gaps."""
    x = laid_out(torch, shape, layout)
    buffer = io.BytesIO()
    torch.save(x, buffer)
    buffer.seek(0)
    loaded, steps = torch.load(buffer), [n > 1 for n in shape]
    if layout == "transposed":
        steps = steps[::-1]
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), loaded):
        pairs = zip(y.stride(), x.stride(), steps, strict=True)
        assert all(ours == wanted for ours, wanted, counts in pairs if counts)
        assert torch.equal(y, x)


def test_formats_are_objects():
    for name in FORMATS:
        form = getattr(torch, name)
        assert repr(form) == f"torch.{name}"
        assert isinstance(form, torch.memory_format)
        assert pickle.loads(pickle.dumps(form)) is form
        assert copy.deepcopy(form) is form
        assert hash(form) == hash(getattr(torch, name))


def test_errors_name_rank_and_format():
    with pytest.raises(RuntimeError, match="required rank 4 tensor to use channels_last format"):
        torch.ones(2, 3).to(memory_format=torch.channels_last)
    with pytest.raises(RuntimeError, match="required rank 5 tensor to use channels_last_3d format"):
        torch.ones(2, 3, 4, 5).contiguous(memory_format=torch.channels_last_3d)
    with pytest.raises(RuntimeError, match="incompatible with 'out'"):
        torch.empty(1, 2, 3, 4, out=torch.empty(0), memory_format=torch.channels_last)
    with pytest.raises(RuntimeError, match="resize_: unsupported memory format preserve_format"):
        torch.ones(2).resize_(1, memory_format=torch.preserve_format)
    with pytest.raises(TypeError, match=r"must be torch\.memory_format, not int"):
        torch.ones(2).cpu(memory_format=1)


def test_type_names_tensor_types():
    assert torch.ones(1).type() == "torch.FloatTensor"
    assert torch.ones(1).type("torch.LongTensor").dtype == torch.int64
    assert torch.ones(1).type(torch.int8).type() == "torch.CharTensor"
    assert torch.tensor([True]).type(torch.Tensor).type() == "torch.FloatTensor"
    with pytest.raises(ValueError, match=r"type: invalid type: 'torch\.Float'"):
        torch.ones(1).type("torch.Float")


def model(t):
    return t.nn.Sequential(
        t.nn.Conv2d(3, 4, 3), t.nn.BatchNorm2d(4), t.nn.Flatten(), t.nn.Linear(4, 2)
    )


@pytest.mark.parametrize("form", ["channels_last", "channels_last_3d"])
def test_modules_convert_what_has_the_rank(form):
    """Parameters and buffers of four dimensions; those of five refuse channels_last, as there."""
    strides = []
    for t in (torch, pytorch):
        module = model(t) if form == "channels_last" else t.nn.Conv3d(2, 3, 2)
        module.register_buffer("other", t.zeros(2, 3))
        module.to(memory_format=getattr(t, form))
        strides.append([value.stride() for value in module.state_dict().values()])
    assert strides[0] == strides[1]


def test_gradients_of_parameters_lie_as_they_do():
    strides = []
    for t in (torch, pytorch):
        module = t.nn.Conv2d(3, 4, 3).to(memory_format=t.channels_last)
        for _ in range(2):  # the second gradient is added to the first
            module(t.ones(2, 3, 5, 5)).sum().backward()
        strides.append([parameter.grad.stride() for parameter in module.parameters()])
        before = module.weight.grad
        module.zero_grad(set_to_none=False)
        module(t.ones(2, 3, 5, 5).to(memory_format=t.channels_last)).sum().backward()
        assert module.weight.grad is before
    assert strides[0] == strides[1]


def test_state_dict_keeps_the_format_of_the_module():
    module = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    other = torch.nn.Conv2d(3, 4, 3)
    module.load_state_dict(other.state_dict())
    assert module.weight.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(module.weight, other.weight)


def test_weights_alone_are_converted():
    """By the functions for convolutions; the results then have their channels last, too."""
    answers = []
    for t in (torch, pytorch):
        parts = (t.nn.Conv2d(2, 3, 3), t.nn.ConvTranspose2d(3, 4, 3), t.nn.Conv3d(2, 3, 2))
        module = t.nn.ModuleList([*parts, t.nn.Linear(2, 3)])
        planes = t.nn.utils.convert_conv2d_weight_memory_format
        volumes = t.nn.utils.convert_conv3d_weight_memory_format
        assert planes(module, t.channels_last) is module
        assert volumes(module, t.channels_last_3d) is module
        y = module[0](t.ones(2, 2, 5, 5))
        answers.append([*(parameter.stride() for parameter in module.parameters()), y.stride()])
        with pytest.raises(RuntimeError, match="required rank 5 tensor"):
            planes(module, t.channels_last_3d)
    assert answers[0] == answers[1]
