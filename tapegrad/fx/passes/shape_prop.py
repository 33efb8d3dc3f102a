"""The sizes and dtypes of what each node computes, noted in its `meta`."""

from typing import Any, NamedTuple

from tapegrad import _types, memory_format
from tapegrad._C import Tensor, dtype
from tapegrad.fx.interpreter import Interpreter
from tapegrad.fx.node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What a node's `meta` says of a tensor."""

    shape: _types.Size
    dtype: dtype
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: memory_format | None
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: Tensor, include_contiguity: bool = True) -> TensorMetadata:
    """Return what is noted of a tensor."""
    import tapegrad

    found = None
    if include_contiguity:
        formats = (tapegrad.contiguous_format, tapegrad.channels_last, tapegrad.channels_last_3d)
        fits = {tapegrad.channels_last: 4, tapegrad.channels_last_3d: 5}
        for candidate in formats:
            if fits.get(candidate, result.ndim) != result.ndim:
                continue
            if result.is_contiguous(memory_format=candidate):
                found = candidate
                break
    return TensorMetadata(
        result.shape, result.dtype, result.requires_grad, result.stride(), found, False, {}
    )


class ShapeProp(Interpreter):
    """Runs a graph and notes what each node computes: ``meta["tensor_meta"]``, ``meta["type"]``.

    Args:
        gm: the module.
        fake_mode: refused; give tensors on the meta device for sizes without computing.

    Example:
        >>> from tapegrad.fx.passes.shape_prop import ShapeProp
        >>> module = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(2, 3)))
        >>> _ = ShapeProp(module).propagate(torch.ones(1, 2))
        >>> [node.meta["tensor_meta"].shape for node in module.graph.nodes]
        [torch.Size([1, 2]), torch.Size([1, 3]), torch.Size([1, 3])]
    """

    def __init__(self, gm: Any, fake_mode: Any = None) -> None:
        if fake_mode is not None:
            raise NotImplementedError(
                "ShapeProp: there are no fake tensors; give tensors on the meta device instead"
            )
        super().__init__(gm)

    def run_node(self, n: Node) -> Any:
        """Run one node and note what it computes.

        Args:
            n: the node.
        """
        result = super().run_node(n)
        found = False

        def noted(value: Any) -> Any:
            nonlocal found
            if not isinstance(value, Tensor):
                return value
            found = True
            return _extract_tensor_metadata(value)

        meta = map_aggregate(result, noted)
        if found:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph.

        Args:
            *args: the arguments.
        """
        return super().run(*args)
