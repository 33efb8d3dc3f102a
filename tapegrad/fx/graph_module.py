"""Modules whose forward is the code of a graph."""

import copy
import itertools
import linecache
import os
import re
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import finalize

import tapegrad
from tapegrad import nn
from tapegrad._C import Tensor
from tapegrad.fx._namespace import CUSTOM_BUILTINS
from tapegrad.fx.graph import Graph, PythonCode
from tapegrad.fx.node import _get_qualified_name, map_aggregate
from tapegrad.nn import Module

__all__ = ["GraphModule", "reduce_graph_module"]

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"
_NUMBERS = itertools.count()
_HOOKS = ("_replace_hooks", "_create_node_hooks", "_erase_node_hooks", "_deepcopy_hooks")


class _CodeOnlyModule(Module):
    """What is left of a module that was pickled: its attributes, without a graph.

    Args:
        body: the attributes.
    """

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__ = body


# ---- code


def _run_source(src: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run the text of a function where tracebacks show its lines, and return the names it made."""
    key = f"<eval_with_key>.{next(_NUMBERS)}"
    made = {**names, "__builtins__": __builtins__}
    made.setdefault("torch", tapegrad)
    linecache.cache[key] = (len(src), None, [f"{line}\n" for line in src.splitlines()], key)
    try:
        exec(compile(src, key, "exec", dont_inherit=True), made)
    except BaseException:
        linecache.cache.pop(key, None)
        raise
    made["__fx_key__"] = key
    return made


def _forward_from_src(src: str, names: dict[str, Any], name: str = "forward") -> Any:
    made = _run_source(src, names)
    function = made.pop(name)
    finalize(function, linecache.cache.pop, made.pop("__fx_key__"), None).atexit = False
    return function


def _import_lines(names: dict[str, Any]) -> str:
    """Return lines that import what code takes from outside."""
    return "\n".join(_import_line(name, obj) for name, obj in names.items())


def _import_line(name: str, obj: Any) -> str:
    if name in CUSTOM_BUILTINS:
        return CUSTOM_BUILTINS[name].import_str
    qualified = _get_qualified_name(obj) if callable(obj) else ""
    if not qualified or isinstance(obj, str):
        return f"{name} = {obj!r}"
    if "." not in qualified:
        module, attribute = "builtins", qualified
    elif hasattr(obj, "__module__") and hasattr(obj, "__qualname__") and obj.__module__:
        module, attribute = str(obj.__module__), str(obj.__qualname__)
        module = re.sub(r"^tapegrad\b", "torch", module)
    else:
        module, _, attribute = qualified.rpartition(".")
    if "<locals>" in attribute or "<lambda>" in attribute:
        raise RuntimeError(
            f"{qualified} is no function of a module, so that code cannot import it; define it at "
            "the top level of one"
        )
    if "." in attribute:
        head, _, rest = attribute.partition(".")
        return f"from {module} import {head}\n{name} = {head}.{rest}"
    return f"from {module} import {attribute} as {name}"


# ---- attributes by path


def _walk_to(module: Any, path: list[str]) -> Any:
    """Return the module at a path, making the modules that are missing on the way."""
    for part in path:
        below = getattr(module, part, None)
        if not isinstance(below, Module):
            below = Module()
            setattr(module, part, below)
        module = below
    return module


def _has_attr(model: Module, attr_name: str) -> bool:
    *path, name = attr_name.split(".")
    found: Any = model
    for part in path:
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return hasattr(found, name)


def _get_attr(model: Module, attr_name: str) -> Any:
    found: Any = model
    for part in attr_name.split("."):
        found = getattr(found, part)
    return found


def _del_attr(model: Module, attr_name: str) -> None:
    *path, name = attr_name.split(".")
    delattr(_get_attr(model, ".".join(path)) if path else model, name)


def _copy_attr(from_module: Module, to_module: Module, target: str) -> None:
    """Put what one module has under a path into another one, with the modules on the way."""
    *path, name = target.split(".")
    for part in path:
        below = getattr(from_module, part)
        if below is getattr(to_module, part, None):
            return  # it has the whole of it
        from_module = below
        to_module = _walk_to(to_module, [part])
    _put(
        to_module, name, getattr(from_module, name), name in from_module._non_persistent_buffers_set
    )


def _assign_attr(from_obj: Any, to_module: Module, target: str) -> None:
    """Put an object under a path of a module, making the modules on the way."""
    *path, name = target.split(".")
    _put(_walk_to(to_module, path), name, from_obj)


def _put(module: Module, name: str, value: Any, transient: bool = False) -> None:
    # A tensor that is no parameter becomes a buffer, to move with the module.
    if isinstance(value, Tensor) and not isinstance(value, nn.Parameter):
        if hasattr(module, name):
            delattr(module, name)
        module.register_buffer(name, value, persistent=not transient)
    else:
        setattr(module, name, value)


class GraphModule(Module):
    """A module that is generated from a graph. Give it another `graph` or `recompile` it to change.

    Args:
        root: the module whose parameters and modules the graph names, or a dict of them by path.
            What the graph does not name is left out.
        graph: the graph.
        class_name: the name of the class.

    Example:
        >>> module = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.ReLU()))
        >>> for node in module.graph.nodes:
        ...     if node.op == "call_module":
        ...         node.op, node.target = "call_method", "neg"
        >>> _ = module.recompile()
        >>> module(torch.tensor([1.0]))
        tensor([-1.])
    """

    _graph: Graph
    _code: str

    def __new__(cls: "type[GraphModule]", *args: Any, **kwargs: Any) -> "GraphModule":
        """Return an object of a class of its own, which has the code."""
        base = next(c for c in cls.__mro__ if not c.__qualname__.endswith("GraphModuleImpl"))

        class GraphModuleImpl(base):  # type: ignore[valid-type, misc]
            pass

        return super().__new__(GraphModuleImpl)

    def __init__(
        self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule"
    ) -> None:
        super().__init__()
        self.__class__.__name__ = class_name
        if isinstance(root, Module):
            self._copy_from(root, graph)
        elif isinstance(root, dict):
            self._copy_given(root, graph)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self.graph = graph
        self._tracer_cls = None
        if graph._tracer_cls and "<locals>" not in graph._tracer_cls.__qualname__:
            self._tracer_cls = graph._tracer_cls
        self._tracer_extras = dict(graph._tracer_extras or {})
        self.meta: dict[str, Any] = dict(getattr(root, "meta", None) or {})
        for name in _HOOKS:
            setattr(self, name, [])

    def _copy_from(self, root: Module, graph: Graph) -> None:
        if hasattr(root, "training"):
            self.training = root.training
        if isinstance(root, _CodeOnlyModule):
            for name, _ in root.named_children():
                _copy_attr(root, self, name)
            for name, _ in itertools.chain(root.named_buffers(), root.named_parameters()):
                _copy_attr(root, self, name)
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                _copy_attr(root, self, str(node.target))

    def _copy_given(self, root: dict[str, Any], graph: Graph) -> None:
        wanted: dict[str, None] = {}
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                if node.target not in root:
                    raise RuntimeError(
                        f"Node {node} referenced target {node.target} but that target was not "
                        "provided in ``root``!"
                    )
                wanted.setdefault(str(node.target))
        for path in sorted(wanted, key=lambda path: path.count(".")):
            _assign_attr(root[path], self, path)

    # ---- the graph and its code

    @property
    def graph(self) -> Graph:
        """The graph. A new one is compiled where it is given."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self._graph = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The source of forward."""
        if not hasattr(self, "_code"):
            raise RuntimeError("GraphModule.code: there is no code yet; call recompile()")
        return self._code

    def recompile(self) -> PythonCode:
        """Make forward of the graph again, after it was changed.

        Returns:
            The source, with what it takes from outside.
        """
        written = self._graph.python_code(root_module="self")
        self._code = written.src
        cls: Any = type(self)
        cls.forward = _forward_from_src(written.src, written.globals)
        return written

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        *,
        fast_sympy_print: bool = False,
        expanded_def: bool = False,
        additional_meta: list[str] | None = None,
    ) -> str:
        """Return the module as a class with its forward, and those of graph modules below it.

        Args:
            print_output: whether to print it.
            include_stride, include_device, colored, fast_sympy_print, expanded_def,
                additional_meta: taken as PyTorch's; the text is the plain one.
        """
        lines = [f"class {self._get_name()}(torch.nn.Module):"]
        body = self.code.strip("\n").rstrip()
        lines += [f"    {line}".rstrip() for line in body.split("\n")]
        for _, module in self.named_children():
            if isinstance(module, GraphModule):
                inner = module.print_readable(print_output=False)
                lines += ["", *(f"    {line}".rstrip() for line in inner.rstrip().split("\n"))]
        text = "\n".join(lines) + "\n"
        if print_output:
            print(text)
        return text

    def to_folder(self, folder: str | os.PathLike[str], module_name: str = "FxModule") -> None:
        """Write the module as a package: its class, and a file with its state.

        Args:
            folder: where; it is made if it is not there.
            module_name: the name of the class.
        """
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        tapegrad.save(self.state_dict(), place / "state_dict.pt")
        written = self._graph.python_code(root_module="self")
        made: list[str] = []
        for name, module in self.named_children():
            tapegrad.save(module, place / f"{name}.pt")
            made.append(
                f"self.{name} = torch.load(folder / {name + '.pt'!r}, weights_only=False)"
                if name.isidentifier()
                else f"self.add_module({name!r}, torch.load(folder / {name + '.pt'!r}, "
                "weights_only=False))"
            )
        for name, tensor in self._buffers.items():
            if tensor is not None:
                made.append(
                    f"self.register_buffer({name!r}, torch.empty({list(tensor.shape)}, "
                    f"dtype={tensor.dtype}))"
                )
        for name, param in self._parameters.items():
            if param is not None:
                made.append(
                    f"self.{name} = torch.nn.Parameter(torch.empty({list(param.shape)}, "
                    f"dtype={param.dtype}))"
                )
        made.append("self.load_state_dict(torch.load(folder / 'state_dict.pt'))")
        forward = "\n".join(f"    {line}".rstrip() for line in self.code.strip().split("\n"))
        head = f"from pathlib import Path\n\nimport torch\n{_import_lines(written.globals)}\n"
        body = "\n".join(f"        {line}" for line in made)
        (place / "module.py").write_text(
            f"{head}\n\nclass {module_name}(torch.nn.Module):\n"
            "    def __init__(self):\n        super().__init__()\n"
            f"        folder = Path(__file__).parent\n{body}\n\n{forward}\n"
        )
        (place / "__init__.py").write_text("from .module import *\n")

    # ---- modules

    def add_submodule(self, target: str, m: Module) -> bool:
        """Put a module under a path, with empty modules on the way where there are none.

        Args:
            target: the path.
            m: the module.

        Returns:
            Whether it could be put there: what is on the way has to be modules.
        """
        *path, name = target.split(".")
        module: Module = self
        for part in path:
            below = getattr(module, part, None)
            if below is None:
                below = Module()
                setattr(module, part, below)
            if not isinstance(below, Module):
                return False
            module = below
        module.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Take out the module under a path.

        Args:
            target: the path.

        Returns:
            Whether there was one.
        """
        *path, name = target.split(".")
        module: Any = self
        for part in path:
            module = getattr(module, part, None)
            if not isinstance(module, Module):
                return False
        if not isinstance(getattr(module, name, None), Module):
            return False
        delattr(module, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Take out the modules that the graph does not call, and nothing below them is read."""
        used: set[str] = set()
        for node in self._graph.nodes:
            if node.op not in ("call_module", "get_attr"):
                continue
            parts = str(node.target).split(".")
            used.update(".".join(parts[:i]) for i in range(1, len(parts) + 1))
            if node.op == "call_module":
                called = self.get_submodule(str(node.target))
                used.update(f"{node.target}.{name}" for name, _ in called.named_modules() if name)
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    # ---- copies and pickles

    def _attributes(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_graph"}

    def __reduce__(self) -> Any:
        written = self._graph.python_code(root_module="self")
        state = self._attributes()
        state["_graphmodule_cls_name"] = self.__class__.__name__
        return reduce_graph_module, (state, _import_lines(written.globals))

    def __deepcopy__(self, memo: dict[int, Any]) -> "GraphModule":
        made: Any = type(self).__new__(type(self))
        memo[id(self)] = made
        made.__dict__.update(copy.deepcopy(self._attributes(), memo))
        made.__class__.__name__ = self.__class__.__name__
        graph = self._graph.__deepcopy__(memo)
        _copy_constants(graph, memo)
        made.graph = graph
        hooks: Any = getattr(self, "_deepcopy_hooks", ())  # subclasses may not have called __init__
        for hook in hooks:
            hook(made)
        return made  # type: ignore[no-any-return]

    def _deepcopy_init(self) -> Callable[..., None]:
        """Return what makes a copy of its attributes and graph, for subclasses."""
        return GraphModule.__init__

    def __copy__(self) -> "GraphModule":
        made = GraphModule(self, self.graph.__deepcopy__(), self.__class__.__name__)
        made.meta = dict(self.meta)
        return made

    def __str__(self) -> str:
        shown = super().__repr__()
        hint = "# To see more debug info, please use `graph_module.print_readable()`"
        return f"{shown}\n{self._code}\n{hint}"

    def __repr__(self) -> str:
        return super().__repr__()

    # ---- hooks of those who change graphs

    @contextmanager
    def _set_replace_hook(self, f: Callable[..., Any]) -> Any:
        self._register_replace_node_hook(f)
        try:
            yield
        finally:
            self._unregister_replace_node_hook(f)

    def _register_replace_node_hook(self, f: Callable[..., Any]) -> None:
        self._replace_hooks.append(f)  # type: ignore[union-attr]

    def _unregister_replace_node_hook(self, f: Callable[..., Any]) -> None:
        self._replace_hooks.remove(f)  # type: ignore[union-attr]


def _copy_constants(graph: Graph, memo: dict[int, Any]) -> None:
    """Make the tensors among a copied graph's arguments the copy's own."""

    def copied(value: Any) -> Any:
        return copy.deepcopy(value, memo) if isinstance(value, Tensor) else value

    for node in graph.nodes:
        node._set_arguments(map_aggregate(node.args, copied), map_aggregate(node.kwargs, copied))


def reduce_graph_module(body: dict[str, Any], import_block: str) -> Module:
    """Make a module again of what a pickle holds: its code is run, and traced.

    Args:
        body: the module's attributes, with its code.
        import_block: the lines that import what the code takes from outside.
    """
    source = re.sub(r"(?m)^(import|from) torch\b", r"\1 tapegrad", import_block)
    source = re.sub(r"(?m)^import tapegrad$", "import tapegrad as torch", source)
    body = dict(body)
    name = body.pop("_graphmodule_cls_name", None) or "GraphModule"
    forward = _forward_from_src(f"{source}\n{body['_code']}", {})
    return _retraced(forward, body, name)


def _retraced(forward: Any, body: dict[str, Any], name: str) -> GraphModule:
    from tapegrad.fx._symbolic_trace import Tracer

    class KeepModules(Tracer):
        def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
            return True

    class WithCode(_CodeOnlyModule):
        pass

    WithCode.forward = forward  # type: ignore[method-assign]
    attributes = {key: value for key, value in body.items() if key != "_code"}
    com = WithCode(dict(attributes))
    tracer_cls = body.get("_tracer_cls") or Tracer
    graph = KeepModules().trace(com)
    graph._tracer_cls = tracer_cls
    made = GraphModule(com, graph, name)
    for key, value in attributes.items():
        if key not in made.__dict__:
            made.__dict__[key] = value
    made.meta = dict(body.get("meta") or {})
    made.training = bool(body.get("training", True))
    return made
