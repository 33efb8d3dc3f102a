"""Errors inside modules say in which one they happened, and nothing else of them changes."""

import numpy as np
import pytest
from library import IS_TORCH, torch

pytestmark = pytest.mark.skipif(IS_TORCH, reason="PyTorch does not say where")
nn = torch.nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(width, 4))

    def forward(self, x, scale=1.0):
        return x + scale * self.mlp(x)


class Model(nn.Module):
    def __init__(self, *widths):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for width in widths)

    def forward(self, x):
        for block in self.blocks:
            x = block(x, scale=2.0)
        return x


def message_of(call):
    with pytest.raises(RuntimeError) as caught:
        call()
    return str(caught.value)


def test_path_class_sizes_and_shapes():
    said = message_of(lambda: Model(8, 8, 7)(torch.zeros(2, 4)))
    assert said.startswith("addmm: mat1 and mat2 shapes cannot be multiplied (2x8 and 7x4)")
    assert said.endswith(
        "\n  in blocks.2.mlp.2: Linear(in_features=7, out_features=4, bias=True) got [2, 8]"
    )
    assert said.count("\n") == 1


def test_module_that_was_called_needs_no_path():
    said = message_of(lambda: nn.Linear(4, 2)(torch.zeros(2, 5)))
    assert said.endswith("\n  in Linear(in_features=4, out_features=2, bias=True) got [2, 5]")


def test_dtypes_and_other_arguments_are_told():
    class Two(nn.Module):
        def forward(self, pair, flag, *, index, more):
            raise ValueError("no")

    with pytest.raises(ValueError) as caught:
        Two()((torch.zeros(2), torch.ones(1, dtype=torch.int64)), True, index=None, more=Two())
    assert str(caught.value) == (
        "no\n  in Two() got ([2], [1] int64), True, index=None, more="
        f"{__name__}.test_dtypes_and_other_arguments_are_told.<locals>.Two"
    )


def test_hooks_and_wrappers_are_on_the_path():
    model = nn.Sequential(nn.Linear(4, 4), nn.utils.parametrizations.weight_norm(nn.Linear(5, 2)))
    model.register_forward_hook(lambda module, args, output: None)
    model[1].register_forward_pre_hook(lambda module, args: None)
    said = message_of(lambda: model(torch.zeros(3, 4)))
    assert (
        "\n  in 1: ParametrizedLinear(in_features=5, out_features=2, bias=True) got [3, 4]" in said
    )


def test_module_that_is_called_by_a_function_has_a_path_of_its_own():
    layer = nn.Linear(4, 2)

    class Outer(nn.Module):
        def forward(self, x):
            return (lambda y: layer(y))(x)

    said = message_of(lambda: Outer()(torch.zeros(2, 5)))
    assert said.endswith("\n  in Linear(in_features=4, out_features=2, bias=True) got [2, 5]")


def test_errors_of_classes_of_their_own_stay_as_they_are():
    class Stop(RuntimeError):
        pass

    class Stops(nn.Module):
        def forward(self, error):
            raise error

    for error in (Stop("a"), RuntimeError("a", 1), RuntimeError(), KeyError("a"), RuntimeError(3)):
        before = error.args
        with pytest.raises(type(error)) as caught:
            nn.Sequential(Stops())(error)
        assert caught.value is error
        assert error.args == before


def test_error_that_a_module_words_anew_is_told_anew():
    class Rewords(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 2)

        def forward(self, x):
            try:
                return self.inner(x)
            except RuntimeError as error:
                error.args = ("another text",)
                raise

    assert (
        message_of(lambda: Rewords()(torch.zeros(1, 5))) == "another text\n  in Rewords got [1, 5]"
    )


def test_error_that_is_caught_leaves_the_module_as_it_was():
    model = Model(8)
    before = set(vars(model))
    message_of(lambda: model(torch.zeros(2, 5)))
    assert set(vars(model)) == before
    assert model(torch.zeros(2, 4)).shape == (2, 4)


@pytest.mark.parametrize(
    "name", ["Conv1d", "Conv2d", "ConvTranspose3d", "MaxPool2d", "BatchNorm1d"]
)
def test_constructors_are_told_by_the_name_of_the_class(name):
    with pytest.raises(TypeError, match=rf"^{name}\.__init__\(\) missing 1 required|^{name}\."):
        getattr(nn, name)()


def test_constructors_of_subclasses_still_find_their_base():
    class Mine(nn.Conv2d):
        pass

    assert Mine(3, 4, 3)(torch.zeros(1, 3, 5, 5)).shape == (1, 4, 3, 3)
    with pytest.raises(TypeError, match="__init__"):
        Mine(3, 4)


@pytest.mark.parametrize("given", [np.zeros((2, 3), dtype=np.float32), [[0.0] * 3] * 2])
@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "binary_cross_entropy", "kl_div"])
def test_arrays_in_place_of_tensors_are_told_by_name(name, given):
    remedy = "from_numpy" if isinstance(given, np.ndarray) else "tensor"
    loss = getattr(nn.functional, name)
    for position, arguments in enumerate([(given, torch.zeros(2, 3)), (torch.zeros(2, 3), given)]):
        argument = ("input", "target")[position]
        kind = "numpy.ndarray" if remedy == "from_numpy" else "list"
        said = rf"{name}\(\): argument '{argument}' \(position {position + 1}\) must be Tensor, "
        with pytest.raises(TypeError, match=rf"{said}not {kind}; use torch\.{remedy}\(\)"):
            loss(*arguments)


@pytest.mark.parametrize(
    "call",
    [
        lambda f, array: f.cross_entropy(torch.zeros(2, 3), array),
        lambda f, array: f.layer_norm(array, (3,)),
        lambda f, array: f.batch_norm(array, None, None, training=True),
        lambda f, array: f.pad(array, (1, 1)),
        lambda f, array: f.embedding(array, torch.zeros(2, 3)),
        lambda f, array: f.conv2d(array, torch.zeros(1, 1, 1, 1)),
        lambda f, array: f.linear(array, torch.zeros(3, 3)),
        lambda f, array: torch.cat([torch.zeros(2), array]),
        lambda f, array: torch.add(torch.zeros(2), array),
        lambda f, array: torch.quantile(array, 0.5),
    ],
)
def test_arrays_are_told_with_the_remedy(call):
    with pytest.raises(TypeError, match=r"numpy\.ndarray; use torch\.from_numpy\(\)$"):
        call(nn.functional, np.zeros((2, 3), dtype=np.float32))
