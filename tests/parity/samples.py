"""Calls to compare: samples of PyTorch's op database, and those with other inputs made from them.

Everything is deterministic: the generators are seeded by the name of the row and the dtype.
"""

import itertools
import warnings
import zlib
from dataclasses import dataclass, field
from typing import Any

from parity.compare import flat
from parity.pytorch_ops import databases, pytorch

DTYPES = ("float64", "float32", "float16", "bfloat16", "complex64", "complex128", "bool", "uint8",
          "int8", "int16", "int32", "int64")  # fmt: skip

FAILED = (Exception,)


@dataclass
class Call:
    """Arguments of a call, in PyTorch's tensors, and where they are from."""

    kind: str
    args: tuple
    kwargs: dict = field(default_factory=dict)
    process: Any = None

    def __repr__(self):
        shown = [brief(a) for a in self.args] + [f"{k}={brief(v)}" for k, v in self.kwargs.items()]
        return f"{self.kind}({', '.join(shown)})"


def brief(value):
    """Return a short text for an argument."""
    if isinstance(value, pytorch.Tensor):
        name = str(value.dtype).rpartition(".")[2]
        plain = value.is_contiguous() if value.layout is pytorch.strided else True
        steps = "" if plain else f" strides {value.stride()}"
        return f"{name}{list(value.shape)}{steps}"
    if isinstance(value, list | tuple):
        inner = ", ".join(map(brief, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    return str(value)[:60] if callable(value) else repr(value)[:60]


def seed(name, dtype):
    pytorch.manual_seed(zlib.crc32(f"{name} {dtype}".encode()))


def spread(calls, most):
    """Return `most` of the calls, the first and the last among them, evenly chosen."""
    if most is None or len(calls) <= most:
        return calls
    return [calls[round(i * (len(calls) - 1) / max(1, most - 1))] for i in range(most)]


def from_info(info, dtype, *, requires_grad=False, reference=False):
    """Return the samples of a row in a dtype; none where the row cannot make them."""
    seed(info.name, dtype)
    kind = getattr(pytorch, dtype)
    make = info.reference_inputs if reference else info.sample_inputs
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for sample in itertools.islice(make("cpu", kind, requires_grad=requires_grad), 400):
                found.append(from_sample(sample, "reference" if reference else "sample"))
        except FAILED:
            return found
    return found


def from_sample(sample, kind):
    process = sample.output_process_fn_grad
    return Call(kind, (sample.input, *sample.args), dict(sample.kwargs), process)


def refused(info):
    """Return the calls that a row says are refused."""
    if info.error_inputs_func is None:
        return []
    seed(info.name, "errors")
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for error in itertools.islice(info.error_inputs("cpu"), 200):
                found.append(from_sample(error.sample_input, "refused"))
        except FAILED:
            return found
    return found


def map_tensors(function, value):
    if isinstance(value, pytorch.Tensor):
        return function(value)
    if isinstance(value, list | tuple) and not isinstance(value, pytorch.Size):
        made = [map_tensors(function, one) for one in value]
        return made if isinstance(value, list) else tuple(made)
    if isinstance(value, dict):
        return {key: map_tensors(function, one) for key, one in value.items()}
    return value


def changed(call, kind, function, *, every=True):
    """Return a call with its tensors changed: every one, or the first argument alone."""
    if every:
        args, kwargs = map_tensors(function, call.args), map_tensors(function, call.kwargs)
    else:
        args, kwargs = (map_tensors(function, call.args[0]), *call.args[1:]), call.kwargs
    return Call(kind, args, kwargs, call.process)


def extremes(dtype, huge):
    """Return the values at the borders of a dtype, those that sums overflow with if asked for."""
    kind = getattr(pytorch, dtype)
    if kind is pytorch.bool:
        return pytorch.tensor([True, False])
    if not kind.is_floating_point and not kind.is_complex:
        info = pytorch.iinfo(kind)
        return pytorch.tensor([info.max, info.min, 0, 1, info.max - 1, 2], dtype=kind)
    real = kind.to_real() if kind.is_complex else kind
    info = pytorch.finfo(real)
    tiny, nan, inf = info.smallest_normal, float("nan"), float("inf")
    huge = [info.max, info.min] if huge else []
    values = [0.0, -0.0, 1.0, -1.0, inf, -inf, nan, *huge, tiny, tiny / 4, -tiny,
              0.5, -0.5, 2.0, -2.5, 1e3, 88.0, -104.0, info.eps]  # fmt: skip
    plain = pytorch.tensor(values, dtype=real)
    if kind.is_complex:
        return pytorch.complex(*(x.float() for x in (plain, plain.roll(3)))).to(kind)
    return plain


def with_extremes(dtype, huge):
    """Return a function that fills tensors of a dtype with its extreme values."""
    values, kind = extremes(dtype, huge), getattr(pytorch, dtype)
    steps = itertools.count()

    def fill(tensor):
        if tensor.dtype is not kind or tensor.numel() == 0 or tensor.layout is not pytorch.strided:
            return tensor
        places = (pytorch.arange(tensor.numel()) * 7 + 3 * next(steps)) % values.numel()
        return values[places].reshape(tensor.shape)

    return fill


def stepped(tensor):
    """Return a tensor with gaps between its elements, and an offset."""
    if tensor.layout is not pytorch.strided:
        return tensor
    databases()
    from torch.testing._internal.common_utils import noncontiguous_like

    return noncontiguous_like(tensor.detach()) if tensor.numel() else tensor


def turned(tensor):
    """Return a tensor with the same elements, the last dimensions of which lie the other way."""
    if tensor.ndim < 2 or tensor.layout is not pytorch.strided:
        return tensor
    return tensor.detach().mT.contiguous().mT


def emptied(tensor):
    return tensor.detach()[:0] if tensor.ndim else tensor.detach().reshape(1)[:0]


def single(tensor):
    flat = tensor.detach().reshape(-1)
    return flat[0] if flat.numel() else flat.sum()


def expanded(tensor):
    if tensor.ndim == 0 or tensor.shape[0] == 0:
        return tensor.detach()
    return tensor.detach()[:1].expand(tensor.shape)


def variations(calls, dtype, most):
    """Return calls made from samples: other values, other strides, other sizes."""
    found = []
    for call in spread([c for c in calls if dense(c)], most):
        fill = with_extremes(dtype, is_of_one_number(call))
        found.append(changed(call, "extreme", fill, every=dtype[0] in "fcb"))
        found.append(changed(call, "stepped", stepped))
        found.append(changed(call, "turned", turned))
        found.append(changed(call, "expanded", expanded, every=False))
        found.append(changed(call, "emptied", emptied, every=False))
        found.append(changed(call, "single", single, every=False))
    return found


def dense(call):
    """Whether all tensors of a call lie at strides."""
    layouts = []
    map_tensors(lambda x: layouts.append(x.layout), (call.args, call.kwargs))
    return all(layout is pytorch.strided for layout in layouts)


def copied(value):
    """Return arguments that a call may write to."""
    return map_tensors(copy_of, value)


def copy_of(tensor):
    """Return a copy with the geometry of a tensor, the gaps between its elements included."""
    if tensor.layout is not pytorch.strided or tensor.device.type == "meta":
        return tensor.detach().clone().requires_grad_(tensor.requires_grad)
    plain = tensor.detach().resolve_conj().resolve_neg()
    made = pytorch.empty(0, dtype=plain.dtype)
    storage = plain.untyped_storage().clone()
    made.set_(storage, plain.storage_offset(), plain.shape, plain.stride())
    return made.requires_grad_(tensor.requires_grad)


def least_precise(call, results):
    """Return the name of the floating dtype with the fewest bits in a call and its results."""
    order = ("bfloat16", "float16", "float32", "complex64", "float64", "complex128")
    found = {str(x.dtype).rpartition(".")[2] for x in [*flat((call.args, call.kwargs)), *results]
             if isinstance(x, pytorch.Tensor)}  # fmt: skip
    return next((name for name in order if name in found), "")


def is_of_one_number(call):
    """Whether results depend on one real number each: no rounding of sums makes infinities."""
    found = [x for x in flat((call.args, call.kwargs)) if isinstance(x, pytorch.Tensor)]
    return len(found) == 1 and not found[0].is_complex() and len(call.args) == 1
