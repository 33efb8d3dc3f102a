"""Marks for functions that are called remotely."""

from tapegrad._refused import refused

__all__ = ["async_execution"]

async_execution = refused(
    "rpc.functions.async_execution", "remote procedure calls are not supported"
)
