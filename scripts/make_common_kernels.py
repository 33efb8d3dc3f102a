"""Write tapegrad/cuda/common_kernels.txt: the kernels that `python -m tapegrad.cuda warm` compiles.

Trains small models on CUDA, or on the emulator where there is no GPU, and notes which kernels they
ask for, in the order in which they do: what a program needs first is compiled first.

Usage: python scripts/make_common_kernels.py
"""

import ctypes
import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

try:
    ctypes.CDLL("libcuda.so.1")
except OSError:
    import cuda_emulator

    os.environ.update(cuda_emulator.environment())

import tapegrad as torch  # noqa: E402
from tapegrad import nn  # noqa: E402
from tapegrad.cli.model import GPT  # noqa: E402
from tapegrad.cuda import _kernels, pointwise_source  # noqa: E402

F = nn.functional
FLOATS = (torch.float32, torch.bfloat16, torch.float16)
found: dict[str, None] = {}
missing: dict[str, None] = {}


def note(description, device, image=_kernels.image):
    """Take the place of the function that the back end asks for a kernel."""
    found[description] = None
    return image(description, device)


def train(model, inputs, targets, dtype=torch.float32, make=torch.optim.AdamW):
    """Take two steps: the second one finds what the first one has made."""
    model = model.to(dtype)
    optimizer = make(model.parameters(), lr=1e-3)
    for _ in range(2):
        optimizer.zero_grad()
        scores = model(inputs if not inputs.is_floating_point() else inputs.to(dtype))
        loss = F.cross_entropy(scores.flatten(0, -2), targets.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    loss.item()
    model.eval()
    with torch.no_grad():
        scores = model(inputs if not inputs.is_floating_point() else inputs.to(dtype))
        scores.argmax(-1).eq(targets.reshape(scores.shape[:-1])).float().mean().item()
        torch.multinomial(scores.flatten(0, -2).float().softmax(-1), 1).tolist()


def perceptron():
    return nn.Sequential(
        nn.Linear(64, 64),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Linear(64, 64),
        nn.GELU(),
        nn.Linear(64, 10),
    )


def convolutional():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * 16, 10),
    )


def language_model(dtype, width=64, dropout=0.0):
    model = GPT(vocabulary=96, context=32, layers=1, width=width, heads=4, dropout=dropout)
    tokens = torch.randint(96, (2, 33), device="cpu").to("cuda")
    train(model, tokens[:, :-1], tokens[:, 1:], dtype)


def elementwise(dtype):
    """What programs do between layers."""
    x = torch.linspace(0.1, 2, 64).to(dtype).reshape(8, 8).requires_grad_()
    y = (x * 2 + 1) / (x - 3) + x**2 + x.exp() * x.sqrt() - x.log() + x.tanh() * x.sigmoid()
    y = torch.where(y > 0, y, -y).clamp(-5, 5) + torch.cat([x, x]).sum(0) + torch.stack([x, x])[0]
    (y.mean() + y.std() + y.max() + x.abs().sum(1).sum() + x.t().contiguous().sum()).backward()
    (x == y, x.float(), x.int(), x[2:, ::2].clone(), torch.randn_like(x), torch.rand_like(x))


def run(function, *args):
    """Run one of the programs; what the back end cannot do yet is told, not noted."""
    try:
        function(*args)
        torch.cuda.synchronize()
    except NotImplementedError as error:
        missing[str(error)] = None


def named(description):
    """Return a description with the name of its line of the table for the line's number."""
    family, _, rest = description.partition(" ")
    if family != "pointwise":
        return description
    number, _, rest = rest.partition(" ")
    names = [line.name for line in pointwise_source.lines()]
    name = {-1: "copy", -2: "fill"}.get(int(number)) or names[int(number)]
    return f"{family} {name} {rest}"


def main():
    _kernels.image = note
    torch.set_default_device("cuda")
    torch.manual_seed(0)
    numbers, images = torch.randn(32, 64), torch.randn(4, 3, 8, 8)
    classes = torch.randint(10, (32,))
    for dtype in FLOATS:
        run(language_model, dtype)
        run(language_model, dtype, 16, 0.1)
        run(train, perceptron(), numbers, classes, dtype)
        run(elementwise, dtype)
        run(train, convolutional(), images, classes[:4], dtype)
    run(train, perceptron(), numbers, classes, torch.float32, torch.optim.Adam)
    run(train, perceptron(), numbers, classes, torch.float32, torch.optim.SGD)
    path = Path(_kernels.__file__).parent / "common_kernels.txt"
    path.write_text("\n\n".join(map(named, found)) + "\n", encoding="utf-8")
    print(f"{path}: {len(found)} kernels")
    for each in missing:
        print("missing:", each)


if __name__ == "__main__":
    main()
