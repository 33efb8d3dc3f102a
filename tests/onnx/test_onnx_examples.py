"""The models of examples/ as graphs."""

import importlib.util
import random
import re
from pathlib import Path

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("PyTorch's exporter is its own", allow_module_level=True)
pytest.importorskip("onnx.checker")
pytest.importorskip("onnxruntime")

from onnx_comparing import Calls, checked, exported

from tapegrad.onnx.errors import UnsupportedOperatorError

nn, randn = torch.nn, torch.randn
EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def trees():
    dice = random.Random(0)
    return [example("tree_recursive").make_tree(dice, 3) for _ in range(4)]


def implicit(apply):
    module = example("implicit_layer")
    weight, drive, _ = module.make_problem(8)
    weight = weight.detach()
    return Calls(lambda drive: apply(module, weight, drive)), (drive,)


def meta_learned():
    module = example("maml")
    return module.make_model(), (randn(5, 1),)


def film():
    module = example("hessian_vector_product")
    heights, frame = randn(4, 4), randn(6, 6)
    return Calls(lambda h, f: module.area(h, f, 0.5)), (heights, frame)


def by_sample():
    module = example("per_sample_gradients")
    weights = tuple(each.float() for each in module.make_weights())
    loss = module.make_loss()
    x, wanted = randn(module.FEATURES), torch.eye(module.CLASSES)[1]
    return Calls(lambda x, y: loss(weights, x, y)), (x, wanted)


def spiral():
    module = example("spiral")
    parameters = module.make_parameters(torch.Generator().manual_seed(0))
    return Calls(lambda points: module.scores(parameters, points)), (randn(5, 2),)


EXAMPLE_MODELS = {
    "cnn_digits": lambda: (example("cnn_digits").make_model(4), (randn(2, 1, 8, 8),)),
    "digits": lambda: (example("digits").make_model(), (randn(2, 64),)),
    "gan_gradient_penalty": lambda: (
        example("gan_gradient_penalty").make_net(2, 3),
        (randn(5, 2),),
    ),
    "hessian_vector_product": film,
    "implicit_layer": lambda: implicit(lambda module, w, d: module.unrolled(w, d)),
    "lstm_time_series": lambda: (example("lstm_time_series").make_model(), (randn(3, 50),)),
    "maml": meta_learned,
    "neural_ode": lambda: (example("neural_ode").make_model(), (randn(5, 2),)),
    "per_sample_gradients": by_sample,
    "pinn": lambda: (example("pinn").make_model().float(), (torch.rand(5), torch.rand(5))),
    "reinforce": lambda: (
        nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2)),
        (randn(5, 4),),
    ),
    "spiral": spiral,
    "tree_recursive": lambda: (example("tree_recursive").make_model(), (trees(),)),
}


@pytest.mark.parametrize("name", EXAMPLE_MODELS)
def test_example(name):
    model, args = EXAMPLE_MODELS[name]()
    exported(model, args)


def test_every_example_is_exported():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == EXAMPLE_MODELS.keys() | {"vae"}


def test_example_that_draws_random_numbers():
    model = example("vae").make_model(4)
    pictures = torch.rand(6, 64)
    program = checked(torch.onnx.export(model, (pictures,)))
    first, second = program(pictures), program(pictures)
    wanted = model.eval()(pictures)
    for ours, theirs in zip(first[1:], wanted[1:], strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5)
    assert first[0].shape == wanted[0].shape and not torch.equal(first[0], second[0])


def test_example_whose_steps_depend_on_elements():
    """A fixed point: how many iterations there are depends on the input."""
    module = example("implicit_layer")
    model, args = implicit(lambda _, w, d: module.make_fixed_point().apply(w, d))
    place = re.escape(str(EXAMPLES / "implicit_layer.py")) + r":\d+"
    with pytest.raises(UnsupportedOperatorError, match=rf"depend on its inputs.*{place}"):
        torch.onnx.export(model, args)
