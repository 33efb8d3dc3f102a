"""Averages of gradients, as they are or in half the bytes."""

from collections.abc import Callable
from typing import Any

import tapegrad
from tapegrad.distributed._groups import resolve
from tapegrad.nn.parallel._reducer import GradBucket, _average

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
]

Hook = Callable[[Any, GradBucket], Any]


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Any:
    """Average gradients.

    Args:
        process_group: the processes; the world if None.
        bucket: the gradients.
    """
    return _average(resolve(process_group), bucket)


def _compressed(dtype: Any, hook: Hook, state: Any, bucket: GradBucket) -> Any:
    """Run a hook on gradients in another dtype, and convert what it gives back."""
    wide = bucket.buffer().dtype
    bucket.set_buffer(bucket.buffer().to(dtype))

    def widened(future: Any) -> Any:
        value = future.value()
        return (value[0] if isinstance(value, (list, tuple)) else value).to(wide)

    return hook(state, bucket).then(widened)


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Any:
    """Average gradients in float16.

    Args:
        process_group: the processes; the world if None.
        bucket: the gradients.
    """
    return _compressed(tapegrad.float16, allreduce_hook, process_group, bucket)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Any:
    """Average gradients in bfloat16.

    Args:
        process_group: the processes; the world if None.
        bucket: the gradients.
    """
    return _compressed(tapegrad.bfloat16, allreduce_hook, process_group, bucket)


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """Return a hook that runs another in float16.

    Args:
        hook: the other.
    """
    return lambda state, bucket: _compressed(tapegrad.float16, hook, state, bucket)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """Return a hook that runs another in bfloat16.

    Args:
        hook: the other.
    """
    return lambda state, bucket: _compressed(tapegrad.bfloat16, hook, state, bucket)
