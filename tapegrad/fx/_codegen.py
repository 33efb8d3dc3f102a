"""The Python function that a graph is.

Values are set to None where they are used for the last time, so that the function holds no more
tensors than the program did.
"""

import enum
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tapegrad import _C, _types
from tapegrad.fx._namespace import CUSTOM_BUILTINS, Namespace
from tapegrad.fx.node import Node, _get_qualified_name, _type_repr, map_arg

__all__ = ["CodeGen", "PythonCode", "inplace_methods", "magic_methods", "reflectable_magic_methods"]

# How operators are written, by the name that they have in `operator`.
reflectable_magic_methods = {
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "floordiv": "{} // {}",
    "truediv": "{} / {}",
    "div": "{} / {}",
    "mod": "{} % {}",
    "pow": "{} ** {}",
    "lshift": "{} << {}",
    "rshift": "{} >> {}",
    "and_": "{} & {}",
    "or_": "{} | {}",
    "xor": "{} ^ {}",
    "getitem": "{}[{}]",
    "matmul": "{} @ {}",
}
magic_methods = {
    "eq": "{} == {}",
    "ne": "{} != {}",
    "lt": "{} < {}",
    "gt": "{} > {}",
    "le": "{} <= {}",
    "ge": "{} >= {}",
    "pos": "+{}",
    "neg": "-{}",
    "invert": "~{}",
    **reflectable_magic_methods,
}
inplace_methods = {
    f"i{name}": f"{{}} {symbol}= {{}}"
    for name, symbol in (
        *(("add", "+"), ("sub", "-"), ("mul", "*"), ("floordiv", "//"), ("truediv", "/")),
        *(("mod", "%"), ("pow", "**"), ("lshift", "<<"), ("rshift", ">>"), ("and", "&")),
        *(("or", "|"), ("xor", "^"), ("matmul", "@")),
    )
}


@dataclass
class PythonCode:
    """The source of a graph's function.

    Args:
        src: the text.
        globals: the names that it takes from outside, with their values.
    """

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None = None


def _format_target(base: str, target: str) -> str:
    """Return the expression for a dotted path below an expression."""
    result = base
    for part in target.split("."):
        result = f"{result}.{part}" if part.isidentifier() else f'getattr({result}, "{part}")'
    return result


def _last_uses(nodes: Sequence[Node]) -> dict[Node, list[Node]]:
    """Return for each node the values that nothing uses after it."""
    seen: set[Node] = set()
    found: dict[Node, list[Node]] = {}
    for user in reversed(nodes):

        def note(node: Node, user: Node = user) -> Node:
            if node not in seen:
                seen.add(node)
                found.setdefault(user, []).append(node)
            return node

        map_arg(user.args, note)
        map_arg(user.kwargs, note)
    return found


def _finds(name: str, obj: Any) -> bool:
    """Return whether a dotted name that begins with "torch" is that of an object."""
    found: Any = CUSTOM_BUILTINS["torch"].obj
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
    return found is obj


class _Writer:
    """Collects the lines of one function, and the names that they take from outside."""

    def __init__(self, root_module: str, namespace: Namespace) -> None:
        self.root_module = root_module
        self.namespace = namespace
        self.globals: dict[str, Any] = {}
        self.wrapped: dict[str, None] = {}
        self.parameters: list[str] = []
        self.lines: list[str] = []
        self.returned = ""

    def add_global(self, hint: str, obj: Any) -> str:
        """Return the expression under which the function finds an object."""
        if hint.startswith("torch.") and _finds(hint, obj):
            return hint
        hint = hint.replace(".", "_")
        if self.globals.get(hint, self) is obj:
            return hint
        name = self.namespace.create_name(hint, obj)
        self.globals[name] = obj
        return name

    def type_text(self, kind: Any) -> str:
        """Return the text of an annotation."""
        if kind in ((), []):
            return repr(kind)
        text = _type_repr(kind)
        origin = typing.get_origin(kind)
        if origin is not None and isinstance(origin, type):
            args = [self.type_text(a) for a in typing.get_args(kind)]
            of = self.add_global(_type_repr(origin), origin)
            return f"{of}[{', '.join(args)}]" if args else of
        return self.add_global(text, kind)

    def value(self, arg: Any) -> str:
        """Return the expression of an argument."""
        if isinstance(arg, Node):
            return repr(arg)
        if isinstance(arg, tuple) and hasattr(arg, "_fields"):
            kind = self.add_global(_get_qualified_name(type(arg)), type(arg))
            return f"{kind}({', '.join(map(self.value, arg))})"
        if isinstance(arg, tuple) and type(arg) is tuple:
            inside = ", ".join(map(self.value, arg))
            return f"({inside}{',' if len(arg) == 1 else ''})"
        if isinstance(arg, list):
            return f"[{', '.join(map(self.value, arg))}]"
        if isinstance(arg, dict):
            return f"{{{', '.join(f'{k!r}: {self.value(v)}' for k, v in arg.items())}}}"
        if isinstance(arg, slice):
            return f"slice({', '.join(map(self.value, (arg.start, arg.stop, arg.step)))})"
        if isinstance(arg, enum.Enum):
            return f"{self.add_global(_get_qualified_name(type(arg)), type(arg))}.{arg.name}"
        if isinstance(arg, _C.Tensor):
            return self.add_global("_tensor", arg)
        if isinstance(arg, type):
            return self.type_text(arg)
        if callable(arg) and not isinstance(arg, _C.dtype | _types.device):
            return self.add_global(_get_qualified_name(arg), arg)
        return repr(arg)

    def call_arguments(self, node: Node, skipped: int = 0) -> str:
        by_position = [self.value(arg) for arg in node.args[skipped:]]
        by_name = [f"{key} = {self.value(value)}" for key, value in node.kwargs.items()]
        return ", ".join(by_position + by_name)

    # ---- one node

    def write(self, node: Node) -> None:
        """Add the line of a node, without its end."""
        getattr(self, f"_write_{node.op}")(node)

    def _assign(self, node: Node, expression: str) -> None:
        typed = "" if node.type is None else f" : {self.type_text(node.type)}"
        self.lines.append(f"{node!r}{typed} = {expression}")

    def _write_placeholder(self, node: Node) -> None:
        typed = "" if node.type is None else f" : {self.type_text(node.type)}"
        default = f" = {self.value(node.args[0])}" if node.args else ""
        self.parameters.append(f"{node.target}{typed}{default}")
        given = str(node.target).replace("*", "")
        if given != repr(node):
            self.lines.append(f"{node!r} = {given}")

    def _write_get_attr(self, node: Node) -> None:
        self._assign(node, _format_target(self.root_module, str(node.target)))

    def _write_call_module(self, node: Node) -> None:
        called = _format_target(self.root_module, str(node.target))
        self._assign(node, f"{called}({self.call_arguments(node)})")

    def _write_call_method(self, node: Node) -> None:
        called = _format_target(self.value(node.args[0]), str(node.target))
        self._assign(node, f"{called}({self.call_arguments(node, 1)})")

    def _write_call_function(self, node: Node) -> None:
        target: Any = node.target
        name = getattr(target, "__name__", "")
        is_operator = getattr(target, "__module__", None) in ("_operator", "operator")
        if is_operator and name in magic_methods and not node.kwargs:
            expression = magic_methods[name].format(*map(self.value, node.args))
            self._assign(node, expression)
            return
        if is_operator and name in inplace_methods and not node.kwargs:
            left = self.value(node.args[0])
            written = inplace_methods[name].format(*map(self.value, node.args))
            self.lines.append(f"{written};  {node!r} = {left}")
            return
        if target is getattr and len(node.args) == 2 and str(node.args[1]).isidentifier():
            self._assign(node, _format_target(self.value(node.args[0]), str(node.args[1])))
            return
        called = self.add_global(_get_qualified_name(target), target)
        if node.meta.get("is_wrapped", False):
            self.wrapped.setdefault(called)
        self._assign(node, f"{called}({self.call_arguments(node)})")

    def _write_output(self, node: Node) -> None:
        if node.type is not None:
            self.returned = f" -> {self.type_text(node.type)}"
        self.lines.append(f"return {self.value(node.args[0])}")


class CodeGen:
    """Writes the source of graphs; to be subclassed where functions are to look different."""

    def __init__(self) -> None:
        self._body_transformer: Callable[[list[str]], list[str]] | None = None
        self._func_name = "forward"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """Return the head of the function.

        Args:
            free_vars: the parameters with their annotations and defaults.
            maybe_return_annotation: the annotation of what is returned, or "".
        """
        parameters = free_vars if free_vars[:1] == ["self"] else ["self", *free_vars]
        return f"def {self._func_name}({', '.join(parameters)}){maybe_return_annotation}:"

    def generate_output(self, output_args: Any) -> str:
        """Return the last line of the function.

        Args:
            output_args: what is returned.
        """
        return f"return {output_args!r}"

    def process_inputs(self, *args: Any) -> Any:
        """Return the arguments of the function as the graph's placeholders take them."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """Return the graph's results as the function returns them."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Return names that the function needs besides, with their values."""
        return []

    def _gen_python_code(
        self, nodes: Sequence[Node], root_module: str, namespace: Namespace
    ) -> PythonCode:
        writer = _Writer(root_module, namespace)
        for name, builtin in CUSTOM_BUILTINS.items():
            writer.globals[name] = builtin.obj
        for name, value in self.additional_globals():
            writer.add_global(name, value)
        unused_after = _last_uses(nodes)
        for node in nodes:
            writer.write(node)
            if node.op in ("placeholder", "output"):
                continue
            dropped = unused_after.get(node, [])
            if not node.users:
                dropped = [*dropped, node]
            if dropped:
                names = " = ".join(map(repr, dropped))
                writer.lines[-1] += f";  {names} = None"
        return self._assemble(writer)

    def _assemble(self, writer: _Writer) -> PythonCode:
        body = [line if line.endswith("\n") else f"{line}\n" for line in writer.lines]
        if not body:
            body = ["pass\n"]
        if self._body_transformer is not None:
            body = self._body_transformer(body)
        marks = "\n".join(f'torch.fx._symbolic_trace.wrap("{name}")' for name in writer.wrapped)
        head = self.gen_fn_def(writer.parameters, writer.returned)
        text = "".join(body).lstrip("\n")
        indented = "\n".join(f"    {line}" for line in text.split("\n"))
        return PythonCode(f"\n{marks}\n\n{head}\n{indented}", writer.globals)
