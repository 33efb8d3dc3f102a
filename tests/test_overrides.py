"""Calls that mean something else: NumPy's names, and objects that compute by themselves."""

import pytest
from library import IS_TORCH, torch

overrides = torch.overrides


# ---- NumPy's names


@pytest.mark.parametrize(
    "name",
    [
        "sum",
        "mean",
        "prod",
        "std",
        "var",
        "amax",
        "amin",
        "max",
        "min",
        "argmax",
        "any",
        "all",
        "cumsum",
        "logsumexp",
        "softmax",
        "unsqueeze",
        "squeeze",
        "median",
        "mode",
        "cummax",
        "count_nonzero",
        "sort",
        "argsort",
    ],
)
def test_axis_is_dim(name):
    x = torch.tensor([[3.0, 1.0, 2.0], [4.0, 6.0, 5.0]])
    for call in (getattr(torch, name), lambda x, **kwargs: getattr(x, name)(**kwargs)):
        expected, got = call(x, dim=1), call(x, axis=1)
        if isinstance(expected, torch.Tensor):
            expected, got = (expected,), (got,)
        assert all(torch.equal(a, b) for a, b in zip(expected, got, strict=True))


def test_keepdims_is_keepdim():
    x = torch.ones(2, 3)
    assert torch.prod(x, axis=0, keepdims=True).shape == (1, 3)
    assert x.sum(axis=1, keepdim=True).shape == (2, 1)
    assert x.logsumexp(dim=1, keepdims=True).shape == (2, 1)
    assert torch.std_mean(x, axis=0, keepdims=True)[0].shape == (1, 3)


def test_operands_have_numpys_names():
    a, b = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0])
    for got in (
        torch.add(x1=a, x2=b),
        torch.add(a, x2=b),
        torch.add(x=a, other=b),
        a.add(x2=b),
        torch.maximum(a=a, x2=b) + a,
    ):
        assert torch.equal(got, a + b)
    assert torch.equal(torch.exp(x=a), a.exp())
    assert torch.equal(torch.matmul(a, x2=b), a @ b)
    assert a.add_(x2=b) is a and a.tolist() == [4.0, 7.0]


def test_gradients_through_numpys_names():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    torch.prod(x, axis=0).sum().backward()
    assert x.grad.tolist() == [[3.0, 4.0], [1.0, 2.0]]


def test_errors_are_those_of_the_call():
    x = torch.ones(2, 3)
    with pytest.raises(TypeError, match=r"sideways|'axis'"):
        torch.prod(x, axis=0, sideways=1)
    with pytest.raises(TypeError):
        torch.prod(x, 0, axis=0)
    with pytest.raises(IndexError):
        torch.prod(x, axis=5)
    with pytest.raises(TypeError):
        torch.prod("no tensor", axis=0)


# ---- objects that compute by themselves


class Told:
    """Says which function it was called with."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func, types, args, kwargs or {}


def test_functions_ask_the_class():
    told, x = Told(), torch.ones(2, 2)
    assert torch.exp(told) == (torch.exp, (Told,), (told,), {})
    assert torch.matmul(x, told) == (torch.matmul, (Told,), (x, told), {})
    assert torch.sum(told, 0)[:3] == (torch.sum, (Told,), (told, 0))
    func, types, args, kwargs = torch.softmax(told, dim=1)
    assert (func, types, args, kwargs) == (torch.softmax, (Told,), (told,), {"dim": 1})


def test_functions_written_in_python_ask_the_class():
    told, x = Told(), torch.eye(2)
    linalg = torch.linalg
    assert linalg.eigh(told) == (linalg.eigh, (Told,), (told,), {})
    assert linalg.solve(x, told)[:3] == (linalg.solve, (Told,), (x, told))
    func, types, args, kwargs = torch.isclose(x, told, rtol=1e-3)
    assert (func, types, args, kwargs) == (torch.isclose, (Told,), (x, told), {"rtol": 1e-3})
    func, _, _, kwargs = linalg.solve_triangular(x, B=told, upper=True)
    assert func is linalg.solve_triangular and kwargs == {"B": told, "upper": True}
    assert linalg.multi_dot([x, told])[1] == (Told,)
    assert torch.is_tensor(told) is False and torch.typename(told).endswith("Told")
    assert linalg.eigh.__name__ == "linalg_eigh" and torch.isclose.__name__ == "isclose"


def test_functions_written_in_python_take_numpys_names():
    x = torch.tensor([[3.0, 4.0], [6.0, 8.0]])
    assert torch.linalg.vector_norm(x, axis=1, keepdims=True).tolist() == [[5.0], [10.0]]
    assert torch.diff(x, axis=0).tolist() == [[3.0, 4.0]]
    with pytest.raises(TypeError):
        torch.diff(x, axes=0)


def test_containers_are_looked_into():
    told, x = Told(), torch.ones(2)
    func, types, (tensors,), _ = torch.cat([x, told])
    assert func is torch.cat and types == (Told,) and tensors == [x, told]
    assert torch.stack((told, told))[:2] == (torch.stack, (Told,))


def test_methods_and_operators_ask_the_class():
    told, x = Told(), torch.ones(2, 2)
    assert x.add(told)[0] == torch.Tensor.add
    func, _, args, _ = x + told
    assert func.__name__ in ("add", "__add__") and args == (x, told)
    assert (x @ told)[0].__name__ in ("matmul", "__matmul__")


def test_not_implemented_falls_to_the_reflected_method():
    class Reflected:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

        def __radd__(self, other):
            return "reflected"

    x = torch.ones(2)
    assert x + Reflected() == "reflected"
    with pytest.raises(TypeError, match=r"(no implementation found|failed) for '.*mul'"):
        torch.mul(x, Reflected())
    with pytest.raises(TypeError):
        x * Reflected()


def test_subclasses_are_asked_first():
    asked = []

    class Base:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            asked.append((cls.__name__, [each.__name__ for each in types]))
            return NotImplemented

    class Special(Base):
        pass

    with pytest.raises(TypeError, match=r"no implementation found|failed for"):
        torch.add(Base(), Special())
    names = ["Special", "Base"]
    assert asked == [("Special", names), ("Base", names)]


def test_errors_of_the_class_pass_through():
    class Broken:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise ZeroDivisionError("from the class")

    with pytest.raises(ZeroDivisionError, match="from the class"):
        torch.exp(Broken())


def test_questions_about_arguments():
    told, x = Told(), torch.ones(2)
    assert overrides.has_torch_function((x, told)) and not overrides.has_torch_function((x, 1.0))
    assert overrides.has_torch_function_unary(told) and not overrides.has_torch_function_unary(x)
    assert overrides.has_torch_function_variadic(1, told)
    assert not overrides.has_torch_function((torch.nn.Parameter(x), None, "text", [told]))
    assert overrides.is_tensor_like(told) and overrides.is_tensor_like(x)
    assert not overrides.is_tensor_like([1.0])


def test_functions_of_ones_own():
    @overrides.wrap_torch_function(lambda x, scale=1: (x,))
    def scaled(x, scale=1):
        return x * scale

    told = Told()
    assert scaled(torch.ones(2), scale=3).tolist() == [3.0, 3.0]
    assert scaled(told, scale=3) == (scaled, (Told,), (told,), {"scale": 3})
    result = overrides.handle_torch_function(torch.exp, (told,), told, out=None)
    assert result == (torch.exp, (Told,), (told,), {"out": None})


def test_a_class_may_want_none():
    class Deaf:
        __torch_function__ = torch._C._disabled_torch_function_impl

    assert not overrides.has_torch_function((Deaf(),))
    with pytest.raises(TypeError):
        torch.exp(Deaf())
    x = torch.ones(2)
    call = torch._C._disabled_torch_function_impl
    assert call(torch.add, (), (x, x)).tolist() == [2.0, 2.0]


@pytest.mark.skipif(IS_TORCH, reason="what is refused here")
def test_modes_are_refused():
    class Mode(overrides.TorchFunctionMode):
        pass

    with pytest.raises(NotImplementedError, match="Mode: modes that see every function"), Mode():
        pass
