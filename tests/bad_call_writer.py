"""Writes bad calls: one line of Python each, over every public callable.

A call starts from what its signature asks for, so that it gets past the first check, and has some
of its arguments replaced by values that do not fit: wrong types, wrong counts, numbers beyond 64
bits, sizes that no machine has, objects that raise when they are asked for anything. The line is
text, so that a finding can be shown, run alone and put into a test.
"""

import ast
import inspect
import random
import types
from pathlib import Path

from library import torch

# ---- what is called -----------------------------------------------------------------------------

# Callables that are left alone, by the end of their path, and why.
LEFT_ALONE = {
    "tape.show": "opens a browser",
    "register_module_": "stays in force for every later call",
    "set_default_device": "stays in force for every later call",
    "utils.tensorboard": "writes files from a thread of its own",
    "set_flush_denormal": "stays in force for every later call",
    "use_deterministic_algorithms": "stays in force for every later call",
    "load_ipython_extension": "needs a notebook",
    "__torch_function__": "is asked by the library, not by people",
    "__class__": "is Python's",
    "__init_subclass__": "is Python's",
    "__subclasshook__": "is Python's",
    "__reduce": "is for pickle, which checks nothing",
    "__setstate__": "is for pickle, which checks nothing",
    "__getattribute__": "is Python's",
    "__del": "is Python's",
    "__new__": "is Python's",
    "__sizeof__": "is Python's",
    "resize_": "is for those who know: PyTorch's does not check either",
    "share_memory": "needs processes",
    "spectral_norm": "may be asked for any number of steps",
    "tape.revolve": "may be asked for any number of steps",
    "_lowrank": "may be asked for any number of steps",
    "lobpcg": "may be asked for any number of steps",
    "main": "is a command",
}

MODULES = (
    "",
    "autograd",
    "autograd.forward_ad",
    "autograd.functional",
    "autograd.graph",
    "func",
    "linalg",
    "fft",
    "special",
    "distributions",
    "nn",
    "nn.attention",
    "nn.functional",
    "nn.init",
    "nn.parameter",
    "nn.utils",
    "nn.utils.parametrize",
    "nn.utils.rnn",
    "optim",
    "optim.lr_scheduler",
    "optim.swa_utils",
    "profiler",
    "random",
    "tape",
    "utils",
    "utils.checkpoint",
    "utils.data",
    "utils.hooks",
)

# Objects whose methods are called, by an expression that makes one.
INSTANCES = (
    "torch.nn.Linear(3, 2)",
    "torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())",
    "torch.nn.ModuleList([torch.nn.ReLU()])",
    "torch.nn.ParameterList([torch.ones(2)])",
    "torch.nn.ModuleDict({'a': torch.nn.ReLU()})",
    "torch.nn.LSTM(3, 2)",
    "torch.nn.BatchNorm1d(3)",
    "torch.nn.MultiheadAttention(4, 2)",
    "optimizer()",
    "torch.optim.Adam([parameter()])",
    "torch.optim.lr_scheduler.StepLR(optimizer(), 1)",
    "torch.Generator()",
    "parameter().exp().grad_fn",
    "torch.ones(3).untyped_storage()",
    "torch.Size([2, 3])",
    "torch.finfo(torch.float32)",
    "torch.tape.of(parameter().exp())",
    "torch.utils.data.TensorDataset(torch.ones(4, 3))",
    "torch.utils.data.DataLoader(torch.ones(4, 3))",
    "torch.float32",
    "torch.device('cpu')",
)

TENSORS = (
    "torch.ones(2, 3)",
    "torch.rand(3, requires_grad=True)",
    "parameter()",
    "torch.tensor(2.0)",
    "torch.tensor(2)",
    "torch.arange(6).view(2, 3)",
    "torch.arange(24.).view(2, 3, 2, 2)",
    "torch.ones(2, 3, 4, 4, requires_grad=True)",
    "torch.ones(3, 3, dtype=torch.float64)",
    "torch.ones(2, 3).t()",
    "torch.tensor([0, 1, 1])",
    "torch.tensor([True, False, True])",
    "torch.ones(3, dtype=torch.float16)",
    "torch.ones(4, dtype=torch.uint8)",
)
BAD_TENSORS = (
    "torch.zeros(0)",
    "torch.zeros(0, 3)",
    "torch.empty(0, 2**40)",
    "torch.empty(2**40, 0)",
    "torch.empty(2**31, 0, 2**31)",
    "torch.ones((1,) * 64)",
    "torch.ones(1).expand(2, 3)",
    "torch.tensor([2**63 - 1, -(2**63)])",
    "torch.tensor([-1, 10**9])",
    "torch.full((2, 3), nan)",
    "torch.full((3,), inf, dtype=torch.float16)",
    "torch.tensor(2**62)",
    "torch.tensor(float('nan'))",
    "Sub(torch.ones(2))",
    "numpy.ones((2, 3))",
    "numpy.array(['a'], dtype=object)",
    "numpy.ones(3, dtype='>f4')",
    "numpy.ones((2, 3))[::-1]",
)
INTEGERS = ("0", "1", "2", "3", "-1", "-2")
BAD_INTEGERS = (
    "2**31",
    "2**40",
    "2**62",
    "2**63 - 1",
    "2**63",
    "-(2**63)",
    "10**30",
    "-(10**30)",
    "-100",
    "1.5",
    "True",
    "numpy.int64(2**62)",
)
NUMBERS = ("0.5", "1", "0.0", "2.0", "-1.0", "1e-3")
BAD_NUMBERS = ("nan", "inf", "-inf", "1e308", "-1e308", "5e-324", "10**30", "1j", "2**63")
SHAPES = ("(2, 3)", "(3,)", "[6]", "(1, 2, 3)", "(0,)", "(-1,)", "()")
BAD_SHAPES = (
    "(2**40, 2**40)",
    "(2**63 - 1,)",
    "(2**62, 4)",
    "(2**64,)",
    "(10**30,)",
    "(1,) * 70",
    "(2**31, 0)",
    "(-(2**63),)",
    "(-1, -1)",
    "('a',)",
    "(None,)",
    "(1.5,)",
    "[[1]]",
    "loop",
    "range(3)",
    "(nan,)",
)
STRINGS = ("'mean'", "'cpu'", "'reflect'", "'relu'", "'ij,jk'", "'sum'")
BAD_STRINGS = ("''", "'nonsense'", r"'\ud800'", r"'\0'", "'x' * 10000", "b'bytes'")
FUNCTIONS = ("torch.sin", "(lambda x: x * 2)", "(lambda *a: a[0].sum())", "torch.nn.Linear(3, 2)")
DTYPES = ("torch.float32", "torch.int64", "torch.float64", "torch.bool", "torch.float16")
BAD_DTYPES = ("torch.complex64", "float", "int", "'float32'", "numpy.float32")
LISTS = ("[parameter()]", "[torch.ones(2, 3), torch.ones(2, 3)]", "(torch.ones(3),)")
BAD_LISTS = ("[]", "loop", "[None]", "[torch.ones(2), None]", "{}", "[[], [[]]]", "range(3)")
# What is wrong for every parameter.
WRONG = (
    "None",
    "object()",
    "object",
    "Ellipsis",
    "loop",
    "{}",
    "{'a': 1}",
    "set()",
    "'text'",
    "b'bytes'",
    "1j",
    "slice(2**63, -(2**63), 2**62)",
    "slice('a')",
    "(lambda: None)",
    "(lambda *a, **k: 1 / 0)",
    "iter([1, 2])",
    "deep",
    "RaisesLen()",
    "RaisesIndex()",
    "RaisesFloat()",
    "RaisesIter()",
    "RaisesRepr()",
    "RaisesEq()",
    "RaisesBool()",
    "RaisesArray()",
    "RaisesTorchFunction()",
    "RaisesGetattr()",
    "LiesAboutLen()",
    "RaisesHash()",
    "torch",
    "torch.Tensor",
    "torch.nn.Module()",
    "torch.Generator()",
    "torch.device('cpu')",
    "numpy.float32(1)",
    "numpy.array(None)",
    "NotImplemented",
)

KINDS = {
    "tensor": (TENSORS, BAD_TENSORS),
    "tensors": (LISTS, BAD_LISTS),
    "int": (INTEGERS, BAD_INTEGERS),
    "float": (NUMBERS, BAD_NUMBERS),
    "shape": (SHAPES, BAD_SHAPES),
    "bool": (("True", "False"), ("2", "'True'", "torch.tensor(True)", "nan")),
    "str": (STRINGS, BAD_STRINGS),
    "dtype": (DTYPES, BAD_DTYPES),
    "function": (FUNCTIONS, ("torch.ones(2)", "(lambda: 1)", "(lambda *a: None)", "int")),
    "optimizer": (("optimizer()",), ("torch.optim.SGD", "[parameter()]")),
    "module": (("torch.nn.Linear(3, 2)",), ("torch.nn.Linear", "torch.nn.Module()")),
}
ANY = tuple(value for good, _ in KINDS.values() for value in good)
ALL_BAD = tuple(value for _, bad in KINDS.values() for value in bad) + WRONG

# Which kind a parameter is, by what its annotation holds, and where there is none by its name.
BY_ANNOTATION = (
    ("Sequence[Tensor]", "tensors"),
    ("list[Tensor]", "tensors"),
    ("Iterable", "tensors"),
    ("Optimizer", "optimizer"),
    ("Module", "module"),
    ("Callable", "function"),
    ("Sequence[", "shape"),
    ("Size", "shape"),
    ("Tensor", "tensor"),
    ("dtype", "dtype"),
    ("bool", "bool"),
    ("int", "int"),
    ("float", "float"),
    ("str", "str"),
)
BY_NAME = {
    "params": "tensors",
    "parameters": "tensors",
    "tensors": "tensors",
    "optimizer": "optimizer",
    "module": "module",
    "model": "module",
    "func": "function",
    "function": "function",
    "hook": "function",
    "size": "shape",
    "shape": "shape",
    "dim": "int",
    "dims": "shape",
    "kernel_size": "int",
    "stride": "int",
    "padding": "int",
    "mode": "str",
    "reduction": "str",
    "dtype": "dtype",
}


class Parameter:
    """What a call should give, and whether it must."""

    def __init__(self, name, kind, required, keyword):
        self.name, self.kind, self.required, self.keyword = name, kind, required, keyword


def kind_of(name, annotation):
    for mark, kind in BY_ANNOTATION:
        if mark in annotation:
            return kind
    return BY_NAME.get(name, "any")


class Target:
    """A callable: how to write a call of it."""

    def __init__(self, path, parameters, receivers=()):
        self.path, self.parameters, self.receivers = path, parameters, receivers


def from_signature(function):
    """Return the parameters of a Python callable, or None where Python does not know them."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return None
    found = []
    for p in parameters:
        annotation = "" if p.annotation is p.empty else str(p.annotation)
        if p.kind is p.VAR_KEYWORD:
            continue
        kind = "any" if p.kind is p.VAR_POSITIONAL else kind_of(p.name, annotation)
        required = p.default is p.empty and p.kind is not p.VAR_POSITIONAL
        found.append(Parameter(p.name, kind, required, p.kind is p.KEYWORD_ONLY))
    return found


def from_stub_entry(node):
    arguments = node.args
    positional = arguments.posonlyargs + arguments.args
    missing = len(positional) - len(arguments.defaults)
    found = [
        Parameter(
            a.arg,
            kind_of(
                a.arg,
                ast.unparse(a.annotation or ast.Constant("")),
            ),
            i < missing,
            False,
        )
        for i, a in enumerate(positional)
        if a.arg != "self"
    ]
    if arguments.vararg:
        found.append(Parameter(arguments.vararg.arg, "any", False, False))
    for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        annotation = ast.unparse(a.annotation) if a.annotation else ""
        found.append(Parameter(a.arg, kind_of(a.arg, annotation), default is None, True))
    return found


def stub_signatures():
    """Return the parameters of the native functions and of the methods of Tensor, by name."""
    tree = ast.parse((Path(torch.__file__).parent / "_C.pyi").read_text(encoding="utf-8"))
    functions, methods = {}, {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            functions.setdefault(node.name, []).append(from_stub_entry(node))
        elif isinstance(node, ast.ClassDef) and node.name == "Tensor":
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef):
                    methods.setdefault(inner.name, []).append(from_stub_entry(inner))
    return functions, methods


def is_left_alone(path):
    return any(mark in path for mark in LEFT_ALONE if mark != "main") or path.endswith(".main")


def public_names(module):
    names = getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]
    return sorted(set(names))


def find_module(path):
    module = torch
    for name in path.split(".") if path else ():
        module = getattr(module, name, None)
    return module


def method_names(object_type):
    """Return public methods and the operators that the type itself defines."""
    plain = [n for n in dir(object_type) if not n.startswith("_")]
    special = [n for n in dir(object_type) if n.startswith("__") and hasattr(object, n) is False]
    return [n for n in plain + special if callable(getattr(object_type, n, None))]


def all_targets():
    """Return every public callable, in an order that does not change from run to run."""
    functions, methods = stub_signatures()
    targets = []
    for module_path in MODULES:
        module = find_module(module_path)
        if module is None:
            continue
        for name in public_names(module):
            value = getattr(module, name, None)
            path = ".".join(part for part in ("torch", module_path, name) if part)
            if not callable(value) or isinstance(value, types.ModuleType) or is_left_alone(path):
                continue
            known = from_signature(value)
            variants = [known] if known is not None else functions.get(name, [[]])
            targets += [Target(path, variant) for variant in variants]
    for name in method_names(torch.Tensor):
        if not is_left_alone(f"Tensor.{name}"):
            for variant in methods.get(name, [[]]):
                targets.append(Target(name, variant, TENSORS))
    for expression in INSTANCES:
        targets += methods_of(expression)
    return targets


def methods_of(expression):
    instance = eval(expression, namespace())
    found = []
    for name in method_names(type(instance)):
        if is_left_alone(f"{type(instance).__name__}.{name}"):
            continue
        parameters = from_signature(getattr(instance, name, None)) or []
        found.append(Target(name, parameters, (expression,)))
    return found


# ---- how it is called ---------------------------------------------------------------------------


class Writer:
    """Writes one call from a number: the same number gives the same call."""

    def __init__(self, targets, seed):
        self.targets, self.seed = targets, seed

    def call(self, number):
        choose = random.Random(f"{self.seed}:{number}")
        target = choose.choice(self.targets)
        badness = choose.choice((0.1, 0.3, 0.6))
        arguments = ", ".join(self.arguments(choose, target, badness))
        if not target.receivers:
            return f"{target.path}({arguments})"
        pool = target.receivers
        if pool is TENSORS and choose.random() < badness / 2:
            pool = BAD_TENSORS[:-5]
        return f"{choose.choice(pool)}.{target.path}({arguments})"

    def arguments(self, choose, target, badness):
        given = []
        named = False
        for parameter in target.parameters:
            if not parameter.required and choose.random() < 0.6:
                named = True
                continue
            if parameter.required and choose.random() < badness / 10:
                continue
            value = self.value(choose, parameter.kind, badness)
            named = named or parameter.keyword
            given.append(f"{parameter.name}={value}" if named else value)
        if choose.random() < badness / 5:
            extra = self.value(choose, "any", badness)
            given.insert(0, extra) if choose.random() < 0.5 else given.append(f"extra={extra}")
        if not target.parameters and choose.random() < 0.8:
            given = [self.value(choose, "any", badness) for _ in range(choose.randrange(4))]
        return given

    def value(self, choose, kind, badness):
        good, bad = KINDS.get(kind, (ANY, ALL_BAD))
        if choose.random() >= badness:
            return choose.choice(good)
        return choose.choice(bad if choose.random() < 0.6 else ALL_BAD)


# ---- the names that calls use ------------------------------------------------------------------


class Raised(Exception):
    """What hostile objects raise: to be passed on, never to be swallowed into a crash."""


def raising(*names):
    def method(self, *args, **kwargs):
        raise Raised

    return type("Raises", (), dict.fromkeys(names, method))


def length_lies():
    class LiesAboutLen:
        def __len__(self):
            return 2**62

        def __getitem__(self, index):
            if index > 3:
                raise IndexError
            return 1

    return LiesAboutLen


def names_of_objects():
    import numpy

    class Sub(torch.Tensor):
        pass

    loop = []
    loop.append(loop)
    deep = []
    for _ in range(5000):
        deep = [deep]

    def parameter():
        return torch.ones(3, requires_grad=True)

    def optimizer():
        p = parameter()
        p.grad = torch.ones(3)
        return torch.optim.SGD([p], lr=0.1)

    return {
        "torch": torch,
        "numpy": numpy,
        "nan": float("nan"),
        "inf": float("inf"),
        "loop": loop,
        "deep": deep,
        "Sub": lambda x: x.as_subclass(Sub),
        "parameter": parameter,
        "optimizer": optimizer,
        "RaisesLen": raising("__len__"),
        "RaisesIndex": raising("__index__", "__int__"),
        "RaisesFloat": raising("__float__"),
        "RaisesIter": raising("__iter__"),
        "RaisesRepr": raising("__repr__", "__str__"),
        "RaisesEq": raising("__eq__", "__ne__", "__lt__", "__hash__"),
        "RaisesBool": raising("__bool__"),
        "RaisesArray": raising("__array__", "__array_interface__", "__dlpack__"),
        "RaisesTorchFunction": raising("__torch_function__"),
        "RaisesGetattr": raising("__getattr__"),
        "RaisesHash": raising("__hash__"),
        "LiesAboutLen": length_lies(),
    }


_names = None


def namespace():
    """Return the names that calls may use."""
    global _names
    if _names is None:
        _names = names_of_objects()
    return _names
