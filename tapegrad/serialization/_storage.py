"""Tensors over the bytes of a file: read into memory of their own, or mapped.

A storage is a range of the file. Its bytes come in once, when the first tensor over them is made,
and go to their device; all tensors over it share them. Sizes, strides and offsets come from outside
and are checked here before the native code sees them.
"""

import ctypes
from collections.abc import Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._types import device
from tapegrad.autograd.grad_mode import no_grad
from tapegrad.serialization._location import Placement
from tapegrad.serialization._source import Source

__all__ = ["Files", "Storage", "memory_of"]

MOST_DIMENSIONS = 64


def memory_of(tensor: Tensor) -> memoryview:
    """Return the bytes under a tensor of the CPU, all of its storage."""
    storage = tensor.untyped_storage()
    if storage.nbytes() == 0:
        return memoryview(b"")
    array = (ctypes.c_ubyte * storage.nbytes()).from_address(storage._address())
    array._tensor = tensor  # type: ignore[attr-defined]  # Which keeps the memory.
    return memoryview(array).cast("B")


class Files:
    """The file of one load, how its bytes come in, and where tensors are put."""

    def __init__(self, source: Source, map_location: Any, mapped: bool) -> None:
        self.source = source
        self.placement = Placement(map_location)
        self.mapping = source.map() if mapped and source.size > 0 else None

    def fail(self, text: str) -> Exception:
        """Return an error that names the file."""
        return self.source.fail(text)


class Storage:
    """A range of the file that becomes the memory of tensors.

    Args:
        files: the file.
        offset: where the range begins.
        nbytes: how long it is.
        name: what messages call it.
        location: the device that the writer had it on.
        swapped: whether elements have their bytes in big-endian order.
    """

    def __init__(
        self,
        files: Files,
        offset: int,
        nbytes: int,
        name: str,
        location: str = "cpu",
        swapped: bool = False,
    ) -> None:
        files.source.check(offset, nbytes, name)
        self.files = files
        self.offset = offset
        self.nbytes = nbytes
        self.name = name
        self.location = location
        self.swapped = swapped
        self._bases: dict[_C.dtype, Tensor] = {}

    def locate(self, location: Any) -> None:
        """Note the device that the writer had the bytes on."""
        if type(location) is not str or (self._bases and location != self.location):
            raise self.files.fail(f"{self.name}: it was on two devices, or on none")
        self.location = location

    def tensor(
        self,
        dtype: _C.dtype,
        shape: Sequence[int],
        stride: Sequence[int],
        offset: int,
        requires_grad: bool = False,
        cls: type = Tensor,
    ) -> Tensor:
        """Return a tensor over the storage that is not a view of another."""
        numel = self._check_geometry(dtype, shape, stride, offset)
        base = self._base(dtype) if numel > 0 else None
        try:
            with no_grad():
                if base is None:
                    data = _C.empty(tuple(shape), dtype=dtype, device=self._empty_device())
                else:
                    data = _C.as_strided(base, tuple(shape), tuple(stride), offset)
                made: Tensor = _C._make_subclass(cls, data, False)
            return made.requires_grad_() if requires_grad else made
        except (RuntimeError, TypeError, ValueError) as error:
            raise self.files.fail(f"{self.name}: {error}") from error

    def _check_geometry(
        self, dtype: _C.dtype, shape: Sequence[int], stride: Sequence[int], offset: int
    ) -> int:
        fail = self.files.fail
        if len(shape) != len(stride) or len(shape) > MOST_DIMENSIONS:
            raise fail(f"{self.name}: {len(shape)} sizes and {len(stride)} strides")
        numel, reach = 1, offset + 1
        for number in (*shape, *stride, offset):
            if type(number) is not int or not 0 <= number < 1 << 62:
                raise fail(f"{self.name}: a size, stride or offset of {number!r:.40}")
        for size, step in zip(shape, stride, strict=True):
            numel *= size
            reach += (size - 1) * step
        if numel >= 1 << 62:
            raise fail(f"{self.name}: sizes {list(shape)} are too large")
        if numel > 0 and reach * dtype.itemsize > self.nbytes:
            raise fail(
                f"{self.name}: sizes {list(shape)} with strides {list(stride)} from {offset} reach "
                f"beyond its {self.nbytes} bytes"
            )
        return numel

    def _base(self, dtype: _C.dtype) -> Tensor:
        """Return all elements in one dimension."""
        if dtype in self._bases:
            return self._bases[dtype]
        other = next(iter(self._bases.values()), None)
        if other is None:
            base = self._bring_in_place(dtype)
        elif other.dtype.itemsize == dtype.itemsize:
            base = other.view(dtype)
        else:
            raise self.files.fail(
                f"{self.name}: tensors over the same memory have elements of different sizes, "
                f"{other.dtype} and {dtype}"
            )
        if dtype is _C.bool and other is not None:
            self._check_bools(base)
        self._bases[dtype] = base
        return base

    def _check_bools(self, base: Tensor) -> None:
        if int(base.view(_C.uint8).max()) > 1:
            raise self.files.fail(f"{self.name}: a bool that is neither 0 nor 1")

    def _bring_in_place(self, dtype: _C.dtype) -> Tensor:
        placement = self.files.placement
        target = placement.target(self.location)  # Refuses before anything is read.
        base = self._bring_in(dtype)
        if dtype is _C.bool:
            self._check_bools(base)
        if not placement.is_function:
            return base if target.type == "cpu" else base.to(target)
        given = base.untyped_storage()
        chosen = placement.place(given, self.location)
        return base if chosen._is_same(given) else chosen._elements(dtype)

    def _empty_device(self) -> device:
        """Return where a tensor without elements goes."""
        placement = self.files.placement
        target = placement.target(self.location)
        if not placement.is_function:
            return target
        nothing = _C.empty(0, dtype=_C.uint8, device="cpu").untyped_storage()
        return placement.place(nothing, self.location).device

    def _bring_in(self, dtype: _C.dtype) -> Tensor:
        count = self.nbytes // dtype.itemsize
        mapping = self.files.mapping
        try:
            if mapping is not None and self.offset % dtype.itemsize == 0 and not self.swapped:
                return _C.frombuffer(mapping, dtype=dtype, count=count, offset=self.offset)
            base = _C.empty(count, dtype=dtype, device="cpu")
        except NotImplementedError as error:
            raise self.files.fail(f"{self.name}: {error}") from error
        memory = memory_of(base)
        self.files.source.read_into(self.offset, memory, self.name)
        if self.swapped:
            _swap_bytes(memory, dtype.itemsize // (2 if dtype.is_complex else 1))
        return base


def _swap_bytes(memory: memoryview, size: int) -> None:
    if size == 1:
        return
    import numpy

    numpy.frombuffer(memory, f"u{size}").byteswap(inplace=True)
