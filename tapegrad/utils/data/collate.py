"""Samples into batches, and arrays into tensors."""

import copy
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor

__all__ = ["default_collate", "default_convert"]

TEXT = (str, bytes)
KINDS_OF_TEXT = "SUO"  # NumPy dtypes that no tensor has: bytes, strings, objects


def _is_numpy(value: Any) -> bool:
    return type(value).__module__ == "numpy" and hasattr(value, "dtype")


def _is_namedtuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def _like_mapping(like: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """Return a mapping of the type of another, or a dict if that type cannot be made."""
    try:
        if isinstance(like, MutableMapping):
            clone = copy.copy(like)  # keeps what else a subclass holds
            clone.update(items)
            return clone
        return type(like)(items)  # type: ignore[call-arg]
    except TypeError:
        return items


def _like_sequence(like: Sequence[Any], items: list[Any]) -> Any:
    """Return a sequence of the type of another, or a list if that type cannot be made."""
    try:
        if isinstance(like, MutableSequence):
            clone = copy.copy(like)
            for index, item in enumerate(items):
                clone[index] = item
            return clone
        return type(like)(items)  # type: ignore[call-arg]
    except TypeError:
        return items


def default_convert(data: Any) -> Any:
    """Turn the NumPy arrays in a sample into tensors. The loader's default without batches.

    Args:
        data: an array, or a nested structure of mappings and sequences.

    Returns:
        The same structure, tuples as lists. What is no array stays as it is.

    Example:
        >>> import numpy
        >>> torch.utils.data.default_convert({"x": numpy.array([1, 2]), "name": "a"})
        {'x': tensor([1, 2]), 'name': 'a'}
    """
    if isinstance(data, Tensor):
        return data
    if _is_numpy(data):
        return data if data.dtype.kind in KINDS_OF_TEXT else _C.as_tensor(data)
    if isinstance(data, Mapping):
        return _like_mapping(data, {key: default_convert(data[key]) for key in data})
    if _is_namedtuple(data):
        return type(data)(*map(default_convert, data))
    if isinstance(data, tuple):
        return [default_convert(each) for each in data]
    if isinstance(data, Sequence) and not isinstance(data, TEXT):
        return _like_sequence(data, [default_convert(each) for each in data])
    return data


def pin_batch(batch: Any) -> Any:
    """Return a batch with its tensors in page-locked memory.

    What has a method ``pin_memory`` is asked for it; mappings and sequences are gone through.
    """
    if hasattr(batch, "pin_memory"):
        return batch.pin_memory()
    if isinstance(batch, TEXT):
        return batch
    if isinstance(batch, Mapping):
        return _like_mapping(batch, {key: pin_batch(each) for key, each in batch.items()})
    if _is_namedtuple(batch):
        return type(batch)(*map(pin_batch, batch))
    if isinstance(batch, Sequence):
        return _like_sequence(batch, [pin_batch(each) for each in batch])
    return batch


def default_collate(batch: Any) -> Any:
    """Make a batch of samples: tensors and arrays are stacked, numbers become a tensor.

    Strings stay in a list. In mappings, named tuples and sequences, what stands in the same place
    of every sample is made a batch of; a tuple of samples becomes a list of batches.

    Args:
        batch: the samples, all of one structure.

    Returns:
        The batch.

    Example:
        >>> torch.utils.data.default_collate([(1.0, {"y": 0}), (2.0, {"y": 1})])
        [tensor([1., 2.], dtype=torch.float64), {'y': tensor([0, 1])}]
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return _C.stack(list(batch), 0)
    if _is_numpy(first):
        return _collate_numpy(batch)
    if isinstance(first, float):
        return _C.tensor(list(batch), dtype=_C.float64)
    if isinstance(first, int):
        return _C.tensor(list(batch))
    if isinstance(first, TEXT):
        return batch
    if isinstance(first, Mapping):
        columns = {key: default_collate([sample[key] for sample in batch]) for key in first}
        return _like_mapping(first, columns)
    if _is_namedtuple(first):
        return type(first)(*map(default_collate, zip(*batch, strict=True)))
    if isinstance(first, Sequence):
        return _collate_sequences(batch)
    raise _unknown(type(first))


def _collate_numpy(batch: Sequence[Any]) -> Tensor:
    first = batch[0]
    if first.dtype.kind in KINDS_OF_TEXT:
        if isinstance(first, TEXT):  # numpy.str_ is a str
            return batch  # type: ignore[return-value]
        raise _unknown(first.dtype)
    import numpy

    if isinstance(first, numpy.ndarray):
        return _C.stack([_C.as_tensor(each) for each in batch], 0)
    return _C.as_tensor(numpy.asarray(batch))


def _collate_sequences(batch: Sequence[Any]) -> Any:
    first = batch[0]
    lengths = [len(sample) for sample in batch]
    if any(length != lengths[0] for length in lengths):
        raise RuntimeError(
            "default_collate: each element in list of batch should be of equal size, got sizes "
            f"{lengths}; pass a collate_fn that pads them"
        )
    columns = [default_collate(column) for column in zip(*batch, strict=True)]
    return columns if isinstance(first, tuple) else _like_sequence(first, columns)


def _unknown(found: Any) -> TypeError:
    return TypeError(
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
        f"found {found}"
    )
