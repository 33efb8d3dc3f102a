"""`tape.compress`: blocks, their arguments, and policies by op and by module."""

import contextlib
import threading

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("the tape as an object is tapegrad's own", allow_module_level=True)


from .compress_cases import codecs, hidden

nn = torch.nn
compress = torch.tape.compress


# ---- contexts


def test_the_innermost_block_decides():
    _, x = hidden(64, 64)
    with compress("int8") as outer:
        with compress(None) as off:
            torch.sin(x)
        with compress("bf16") as inner:
            torch.sin(x)
        torch.sin(x)
    torch.sin(x)
    assert codecs(off) == {}
    assert codecs(inner) == {"bf16": 1}
    assert codecs(outer) == {"int8": 1}


def test_an_error_ends_the_block():
    _, x = hidden(64, 64)
    with pytest.raises(KeyError), compress("int8") as c:
        torch.sin(x)
        raise KeyError
    torch.sin(x)
    assert codecs(c) == {"int8": 1}


def test_as_a_decorator():
    _, x = hidden(64, 64)
    c = compress("int8")

    @c
    def function(depth):
        torch.sin(x)
        if depth:
            function(depth - 1)
        return depth

    @c
    def generator():
        torch.cos(x)
        yield 1
        torch.cos(x)
        yield 2

    assert function(2) == 2
    assert codecs(c) == {"int8": 3}
    for _ in generator():
        torch.exp(x)  # outside: between the steps nothing is coded
    assert codecs(c) == {"int8": 5}


def test_a_block_is_its_threads():
    _, x = hidden(64, 64)
    found = {}

    def other():
        torch.sin(x)
        with compress("bf16") as c:
            torch.sin(x)
        found.update(codecs(c))

    with compress("int8") as c:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        torch.sin(x)
    assert found == {"bf16": 1}
    assert codecs(c) == {"int8": 1}


def test_one_block_in_two_threads():
    _, x = hidden(64, 64)
    c = compress("int8")
    inside, leave = threading.Event(), threading.Event()
    outside = []

    def other():
        with c:
            inside.set()
            leave.wait()
        torch.sin(x)
        outside.append(codecs(c))

    with compress("bf16") as before:
        thread = threading.Thread(target=other)
        thread.start()
        inside.wait()
        with c:  # entered after the other thread's, left after it
            leave.set()
            thread.join()
            torch.sin(x)
        torch.sin(x)
    assert outside == [{}]
    assert codecs(c) == {"int8": 1} and codecs(before) == {"bf16": 1}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"codec": "int16"}, "expected a codec of 'int8'"),
        ({"codec": "whole"}, "expected a codec of 'int8'"),
        ({"min_bytes": -1}, "min_bytes of at least 0"),
        ({"min_bytes": "many"}, "min_bytes: expected a size such as"),
        ({"block": 33}, "a multiple of 32"),
        ({"block": 0}, "a multiple of 32"),
        ({"block": 8192}, "a block of 32 to 4096"),
        ({"ops": {"mm": "float"}}, "expected a codec of 'int8'"),
        ({"modules": {"a": None}}, "pass it as model="),
        ({"ops": {"sofmax": None}}, "got 'sofmax'; did you mean 'softmax'"),
        ({"ops": ["mm", "layer_norm"]}, "got 'layer_norm'; did you mean 'native_layer_norm'"),
        ({"ops": ["linear"]}, r"the op of an entry, such as 'mm'.*, got 'linear'; print\(tape.of"),
        ({"ops": [""]}, "got ''"),
        ({"modules": {"1.b": None}, "model": nn.Sequential(nn.ReLU())}, "no module '1.b'"),
        ({"modules": {1: None}, "model": nn.Sequential(nn.ReLU())}, "no module 1"),
    ],
)
def test_bad_arguments(arguments, error):
    with pytest.raises(ValueError, match=error):
        compress(**arguments)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"min_bytes": 1.5}, "min_bytes: expected a number of bytes"),
        ({"min_bytes": float("nan")}, "min_bytes: expected a number of bytes"),
        ({"block": 64.0}, "block to be an int, got float"),
        ({"block": True}, "block to be an int, got bool"),
        ({"ops": "mm"}, "list of op names, got the str 'mm'"),
        ({"ops": 3}, "list of op names, got the int 3"),
        ({"ops": [3]}, "names of ops, got int"),
        ({"ops": {None: "int8"}}, "names of ops, got NoneType"),
        ({"modules": {"a": None}, "model": "net"}, "model to be a Module, got str"),
        ({"modules": ["0"], "model": nn.Sequential(nn.ReLU())}, "a dict or a function, got list"),
    ],
)
def test_bad_types(arguments, error):
    with pytest.raises(TypeError, match=error):
        compress(**arguments)


def test_a_custom_function_is_known_once_it_is_defined():
    with pytest.raises(ValueError, match="got 'LateComer'"):
        compress(ops=["LateComer"])

    class LateComer(torch.autograd.Function):
        pass

    compress(ops=["LateComer", "LateComerBackward"])
    with pytest.raises(ValueError, match="did you mean 'LateComer'"):
        compress(ops=["LateComr"])


def test_a_near_miss_is_suggested():
    model = nn.ModuleDict({"encoder": nn.Linear(1, 1)})
    with pytest.raises(ValueError, match="did you mean 'encoder'"):
        compress(model=model, modules={"encodr": None})


# ---- policies


def test_policies_by_op():
    _, x = hidden(64, 64)

    def run():
        torch.softmax(torch.sin(x) @ torch.randn(64, 64, requires_grad=True), 1)
        torch.log(x.abs())

    with compress("int8", ops={"softmax": None, "MmBackward0": "int4", "log": "int8"}) as c:
        run()
    assert codecs(c) == {"int8": 2, "int4": 1, "whole": 1, "bf16": 1}
    with compress("int4", ops=["sin", "softmax"]) as c:
        run()
    assert codecs(c) == {"int4": 2, "whole": 3}


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64))
        self.head = nn.Linear(64, 64)

    def forward(self, x):
        return torch.sin(self.head(torch.sin(self.body(x))))


def run_tower(modules, codec="int8"):
    model = Tower()
    with compress(codec, model=model, modules=modules) as c:
        model(hidden(64, 64)[1])
    return codecs(c)


def test_policies_by_module():
    assert run_tower({"head": "bf16"}) == {"int8": 5, "bf16": 1}
    assert run_tower({"body": None}) == {"whole": 3, "int8": 3}
    assert run_tower({"body": None, "body.1": "int4"}) == {"whole": 2, "int4": 1, "int8": 3}
    assert run_tower({"": None, "head": "int8"}) == {"whole": 5, "int8": 1}
    assert run_tower({"head": "bf16"}, codec=None) == {"whole": 5, "bf16": 1}


def test_policies_by_a_function_of_the_path():
    seen = []

    def choose(path):
        seen.append(path)
        return "bf16" if path.startswith("body.") else ...

    assert run_tower(choose) == {"int8": 3, "bf16": 3}
    assert seen == ["", "body", "body.0", "body.1", "body.2", "head"]


def test_a_module_that_fails_leaves_the_policy_as_it_was():
    class Bad(nn.Module):
        def forward(self, x):
            torch.sin(x)
            raise KeyError("bad")

    model = nn.Sequential(Bad(), nn.Tanh())
    _, x = hidden(64, 64)
    with compress("int8", model=model, modules={"0": "bf16"}) as c:
        with pytest.raises(KeyError):
            model(x)
        torch.sin(x)
    assert codecs(c) == {"bf16": 1, "int8": 1}
    assert not nn.modules._hooks.GLOBAL.any


def test_a_choice_that_is_wrong_ends_nothing_but_its_module():
    class Careful(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Tanh()

        def forward(self, x):
            with contextlib.suppress(ValueError):
                self.inner(x)
            return torch.sin(x)

    _, x = hidden(64, 64)
    choices = {"": "int4", "inner": "wrong"}
    with compress("int8", model=(model := Careful()), modules=choices.__getitem__) as c:
        model(x)
        torch.sin(x)
    assert codecs(c) == {"int4": 1, "int8": 1}


def test_policies_by_module_are_one_threads():
    model = Tower()
    c = compress("int8", model=model, modules={"body": "bf16"})
    found = []

    def other():
        try:
            with c:
                pass
        except RuntimeError as error:
            found.append(str(error))

    def run():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    with c, c:
        run()
    assert "make one for each thread" in found.pop()
    run()
    assert not found
