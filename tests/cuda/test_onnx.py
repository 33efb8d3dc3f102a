"""Models on a CUDA device as graphs of ONNX."""

import pytest
from library import torch

pytest.importorskip("onnx.checker")
pytest.importorskip("onnxruntime")

from tape.models import GPT

nn = torch.nn


@pytest.mark.parametrize(
    ("make", "x"),
    [
        (lambda: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3)), [2, 4]),
        (lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU()), [2, 1, 5, 5]),
        (lambda: nn.LSTM(4, 3, batch_first=True), [2, 3, 4]),
        (lambda: GPT(layers=1), None),
    ],
    ids=["mlp", "convolution", "lstm", "gpt"],
)
def test_model(make, x):
    model = make().cuda().eval()
    x = torch.randint(17, (2, 8)) if x is None else torch.randn(x)
    program = torch.onnx.export(model, (x.cuda(),), dynamic_shapes=({0: "batch"},))
    with torch.no_grad():
        wanted = model(x.cuda())
    wanted = wanted[0] if isinstance(wanted, tuple) else wanted
    found = program(x.cuda())[0]
    assert found.device.type == "cpu" and torch.allclose(found, wanted.cpu(), atol=1e-4)
    assert {"int64", "float32"} >= {each[1] for each in program._interface.inputs}
