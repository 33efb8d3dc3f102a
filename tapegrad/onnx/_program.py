"""What `export` gives: a graph, to be written, printed and run."""

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from tapegrad._C import Tensor
from tapegrad._version import __version__
from tapegrad.onnx import _proto
from tapegrad.onnx._graph import Graph, Initializer, messages, text
from tapegrad.onnx.errors import OnnxExporterError
from tapegrad.serialization._atomic import write_file

__all__ = ["Interface", "ONNXProgram"]

_IN_FILE = 1024  # bytes of a tensor that is written to a second file
_ALIGNMENT = 64
_LARGEST = 2**31 - 2**20  # bytes of a file: protocol buffers have no more


class Interface(NamedTuple):
    """Inputs and outputs as (name, dtype, shape), and which initializers are the model's."""

    inputs: list[tuple[str, str, list[int | str]]]
    outputs: list[tuple[str, str, list[int | str]]]
    parameters: list[str]


class ONNXProgram:
    """A graph of ONNX: what `export` returns.

    ``str(program)`` lists it, `save` writes it, and a call runs it with onnxruntime.

    Attributes:
        opset_version: of its ops.
    """

    def __init__(self, graph: Graph, interface: Interface) -> None:
        self.opset_version = graph.opset
        self._interface = interface
        names = [name for name, _, _ in interface.outputs]
        self._nodes, self._initializers = graph.used(names)
        self._session: Any = None

    def __repr__(self) -> str:
        return (
            f"<ONNXProgram of {len(self._nodes)} nodes, {len(self._interface.inputs)} inputs and "
            f"{len(self._interface.outputs)} outputs>"
        )

    def __str__(self) -> str:
        lines = [f"inputs: {_listed(self._interface.inputs)}"]
        lines += [text(self._nodes, self._initializers)]
        lines += [f"outputs: {_listed(self._interface.outputs)}"]
        return "\n".join(each for each in lines if each)

    @property
    def model_proto(self) -> Any:
        """The graph as an ``onnx.ModelProto``; needs the package onnx."""
        import onnx

        return onnx.load_model_from_string(self._bytes(self._embedded(), True, False))

    def save(
        self,
        destination: Any,
        *,
        include_initializers: bool = True,
        keep_initializers_as_inputs: bool = False,
        external_data: bool | None = None,
    ) -> None:
        """Write the graph.

        Args:
            destination: a path, or a binary file object.
            include_initializers: whether the model's parameters are in the file.
            keep_initializers_as_inputs: whether they are inputs as well.
            external_data: whether large tensors go to a second file, ``destination`` with ``.data``
                behind it. By default if one file would be too large.
        """
        total = sum(len(each.content) for each in self._initializers.values())
        is_path = isinstance(destination, str | os.PathLike)
        if external_data is None:
            external_data = total > _LARGEST and is_path
        if total > _LARGEST and not external_data and include_initializers:
            raise OnnxExporterError(
                f"export: {total} bytes of parameters do not fit into one file, which has at most "
                "2 GiB; pass a path and external_data=True"
            )
        if external_data and not is_path:
            raise TypeError("export: expected a path for external_data=True, got a file object")
        options = (include_initializers, keep_initializers_as_inputs)
        if not is_path:
            destination.write(self._bytes(self._embedded(), *options))
            return
        path = os.fspath(destination)
        data = f"{path}.data"
        if external_data and any(len(e.content) >= _IN_FILE for e in self._initializers.values()):
            tensors, content = self._outside(os.path.basename(data), include_initializers)
            write_file(data, lambda: [memoryview(content)])
        else:
            tensors = self._embedded()
        model = self._bytes(tensors, *options)
        write_file(path, lambda: [memoryview(model)])

    def __call__(self, *args: Tensor) -> tuple[Tensor, ...]:
        """Run the graph with onnxruntime on tensors in the order of its inputs."""
        from tapegrad import from_numpy

        self.initialize_inference_session()
        names = [name for name, _, _ in self._interface.inputs]
        if len(args) != len(names):
            raise ValueError(f"ONNXProgram: expected {len(names)} tensors, got {len(args)}")
        arrays = {name: x.detach().cpu().numpy() for name, x in zip(names, args, strict=True)}
        return tuple(from_numpy(each) for each in self._session.run(None, arrays))

    def initialize_inference_session(self) -> None:
        """Load the graph into onnxruntime; a call does so by itself."""
        if self._session is None:
            try:
                import onnxruntime
            except ImportError as error:
                raise ImportError(
                    "ONNXProgram: running a graph needs onnxruntime; pip install onnxruntime"
                ) from error
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 3
            content = self._bytes(self._embedded(), True, False)
            self._session = onnxruntime.InferenceSession(
                content, options, providers=["CPUExecutionProvider"]
            )

    def release(self) -> None:
        """Let go of the session that calls run in."""
        self._session = None

    def optimize(self) -> None:
        """Do nothing: runtimes optimise a graph when they load it."""

    # ---- the file

    def _embedded(self) -> dict[str, bytes]:
        return {
            name: _proto.tensor(name, each.dtype, each.shape, each.content)
            for name, each in self._initializers.items()
        }

    def _outside(self, file: str, has_parameters: bool) -> tuple[dict[str, bytes], bytes]:
        """Return initializers whose elements are in a second file, and what that holds."""
        tensors, content = self._embedded(), bytearray()
        for name, each in self._initializers.items():
            if len(each.content) < _IN_FILE or not has_parameters:
                continue
            content += bytes(-len(content) % _ALIGNMENT)
            tensors[name] = _proto.tensor_in_file(
                name, each.dtype, each.shape, file, len(content), len(each.content)
            )
            content += each.content
        return tensors, bytes(content)

    def _bytes(self, tensors: dict[str, bytes], has_parameters: bool, as_inputs: bool) -> bytes:
        own = [name for name in self._interface.parameters if name in self._initializers]
        inputs = list(self._interface.inputs)
        if as_inputs:
            inputs += [(name, *_described(self._initializers[name])) for name in own]
        if not has_parameters:
            tensors = {name: each for name, each in tensors.items() if name not in own}
        graph = _proto.graph(
            "tapegrad",
            messages(self._nodes),
            tensors.values(),
            (_proto.value_info(*each) for each in inputs),
            (_proto.value_info(*each) for each in self._interface.outputs),
        )
        return _proto.model(graph, self.opset_version, "tapegrad", __version__)

    def _compare(self, inputs: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
        """Refuse a graph that does not give what the model gave."""
        from tapegrad import allclose

        for number, (found, wanted) in enumerate(zip(self(*inputs), expected, strict=True)):
            if not allclose(found, wanted, rtol=1e-3, atol=1e-4, equal_nan=True):
                raise OnnxExporterError(
                    f"export: output {number} of the graph differs from the model's by up to "
                    f"{(found - wanted).abs().max().item()}"
                )


def _described(each: Initializer) -> tuple[str, list[int | str]]:
    return each.dtype, list(each.shape)


def _listed(arguments: Sequence[tuple[str, str, list[int | str]]]) -> str:
    return ", ".join(
        f"{name} {dtype}[{', '.join(map(str, shape))}]" for name, dtype, shape in arguments
    )
