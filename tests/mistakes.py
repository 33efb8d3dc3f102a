"""Mistakes that users make, and what a library says of them; see docs/common-mistakes.md.

`python tests/mistakes.py LIBRARY` prints the errors of a library as JSON; the messages of both are
kept in mistakes.json, which scripts/make_mistakes_page.py writes.
"""

import importlib
import json
import sys
import tempfile
from pathlib import Path
from types import ModuleType

__all__ = ["MESSAGES", "MISTAKES", "errors"]

MESSAGES = Path(__file__).with_name("mistakes.json")
BEFORE = """
import numpy as np
x = torch.zeros(2, 3)
labels = torch.tensor([0, 3])
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(7, 4))
    def forward(self, x):
        return x + self.mlp(x)
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(3)])
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x
class Unfinished(nn.Module):
    def __init__(self):
        self.layer = nn.Linear(3, 2)
page = folder + "/page.pt"
with open(page, "w") as file:
    file.write("<!DOCTYPE html><html><body>404: not found, sign in to go on</body></html>")
"""
# By area: what the user did, and the line that did it.
MISTAKES = {
    "Arguments": [
        ("An argument is missing", "torch.softmax(x)"),
        ("A method lacks one", "x.transpose(0)"),
        ("A NumPy array in place of a tensor", "torch.softmax(np.zeros(3), dim=0)"),
        ("An array among tensors", "torch.cat([x, np.zeros((2, 3))])"),
        ("A list in place of a tensor", "torch.sin([1.0, 2.0])"),
        ("One tensor in place of a list", "torch.stack(x)"),
        ("A dimension as text", "x.sum(dim='rows')"),
        ("A dtype as text", "torch.zeros(3, dtype='float32')"),
        ("An argument that does not exist", "torch.nn.functional.relu(x, in_place=True)"),
        ("An unknown name for an argument", "torch.sort(x, order='descending')"),
        ("Sizes that are no integers", "torch.zeros(2.5, 3)"),
        ("Too many arguments", "torch.sin(x, x)"),
        ("A name with a typo", "torch.sofmax(x, dim=0)"),
        ("Text in place of numbers", "torch.tensor('3')"),
        ("Rows of unequal length", "torch.tensor([[1, 2], [3]])"),
        ("A list for from_numpy", "torch.from_numpy([1, 2])"),
        ("A number without a fill value", "torch.full((2, 3))"),
        ("A bound of the wrong kind", "torch.clamp(x)"),
    ],
    "Shapes": [
        ("Matrices that do not fit", "x @ x"),
        ("Sizes that do not broadcast", "x + torch.zeros(4)"),
        ("A view of another number of elements", "x.view(7)"),
        ("A size that does not divide", "x.reshape(4, -1)"),
        ("Two open sizes", "x.view(-1, -1)"),
        ("A dimension that is not there", "torch.max(x, dim=5)"),
        ("A dimension to squeeze that is not there", "x.squeeze(4)"),
        ("A batch of matrices that is none", "torch.bmm(x, x)"),
        ("expand where repeat is meant", "x.expand(4, 3)"),
        ("Tensors of unequal sizes joined", "torch.cat([x, torch.zeros(2, 4)])"),
        ("Tensors of unequal sizes stacked", "torch.stack([x, torch.zeros(2, 4)])"),
        ("More of the largest than there are", "torch.topk(x, 5)"),
        ("A formula that does not fit", "torch.einsum('ij,jk->ik', x, x)"),
        ("An inverse of no square matrix", "torch.linalg.inv(x)"),
    ],
    "Indices and values": [
        ("An index beyond the end", "x[5]"),
        ("Too many indices", "x[0, 0, 0]"),
        ("An index that is a fraction", "x[1.5]"),
        ("gather with an index beyond the end", "torch.gather(x, 1, torch.tensor([[5]]))"),
        ("gather with an index of floats", "torch.gather(x, 1, torch.zeros(1, 1))"),
        ("A mask that is no bool", "x.masked_fill(x, 0.0)"),
        ("item() of many elements", "x.item()"),
        ("A tensor as a condition", "bool(x == 0)"),
        ("The mean of integers", "torch.arange(3).mean()"),
        ("Integers that need gradients", "torch.tensor([1, 2], requires_grad=True)"),
    ],
    "Modules": [
        ("A layer lacks an argument", "nn.Conv2d(3, 4)"),
        ("Features that do not fit", "nn.Linear(4, 2)(torch.zeros(2, 5))"),
        ("Features that do not fit, deep in a model", "Model()(torch.zeros(2, 4))"),
        ("Channels that do not fit", "nn.Conv2d(3, 4, 3)(torch.zeros(1, 4, 8, 8))"),
        ("Integers as features", "nn.Linear(3, 2)(torch.zeros(2, 3, dtype=torch.int64))"),
        ("A NumPy array as input", "nn.Linear(3, 2)(np.zeros((2, 3), dtype=np.float32))"),
        ("A token beyond the vocabulary", "nn.Embedding(10, 3)(torch.tensor([10]))"),
        ("Tokens as floats", "nn.Embedding(10, 3)(torch.tensor([1.0]))"),
        ("Another number of features normalized", "nn.BatchNorm1d(4)(x)"),
        ("No super().__init__()", "Unfinished()"),
        (
            "Weights of another shape",
            "nn.Linear(3, 2).load_state_dict({'weight': torch.zeros(4, 2), 'bias': torch.ones(2)})",
        ),
        (
            "Weights that are missing",
            "nn.Linear(3, 2).load_state_dict({'weight': torch.zeros(2, 3)})",
        ),
        ("Heads that do not divide", "nn.MultiheadAttention(5, 2)"),
    ],
    "Losses and gradients": [
        ("A class that does not exist", "nn.functional.cross_entropy(x, labels)"),
        ("Classes as floats", "nn.functional.nll_loss(x, torch.zeros(2))"),
        ("Another number of labels", "nn.functional.cross_entropy(x, torch.tensor([0]))"),
        ("Logits where probabilities belong", "nn.functional.binary_cross_entropy(x + 2, x)"),
        ("backward of what needs no gradient", "x.sum().backward()"),
        ("backward of many elements", "(x.requires_grad_() * 2).backward()"),
        ("backward twice", "y = (x.requires_grad_() ** 2).sum(); y.backward(); y.backward()"),
        ("NumPy of what needs a gradient", "x.requires_grad_().numpy()"),
        ("A leaf written in place", "x.requires_grad_().add_(1)"),
    ],
    "Training and files": [
        ("An optimizer without parameters", "torch.optim.SGD([], lr=0.1)"),
        ("A module in place of its parameters", "torch.optim.SGD(nn.Linear(3, 2), lr=0.1)"),
        ("A negative learning rate", "torch.optim.Adam(nn.Linear(3, 2).parameters(), lr=-1.0)"),
        ("Batches of no samples", "torch.utils.data.DataLoader([1, 2], batch_size=0)"),
        ("A probability above one", "nn.Dropout(2)"),
        ("A device that does not exist", "torch.zeros(3, device='gpu')"),
        ("A file that is not there", "torch.load(folder + '/nothing.pt')"),
        ("A page saved in place of a checkpoint", "torch.load(page)"),
    ],
}


def error_of(library: ModuleType, line: str, folder: str) -> tuple[str, list[str]]:
    """Return the error that a line raises, with its type, and the types that the type derives from.

    Raises:
        AssertionError: it raises none.
    """
    names = {"torch": library, "nn": library.nn, "folder": folder, "__name__": "__main__"}
    exec(BEFORE, names)
    try:
        exec(line, names)
    except Exception as error:
        kinds = [kind.__name__ for kind in type(error).__mro__]
        return f"{kinds[0]}: {error}".replace(folder, "runs"), kinds
    finally:
        names.clear()
    raise AssertionError(f"no error: {line}")


def errors(library: ModuleType) -> dict[str, tuple[str, list[str]]]:
    """Return `error_of` each mistake, by the line that makes it."""
    lines = [line for rows in MISTAKES.values() for _, line in rows]
    with tempfile.TemporaryDirectory() as folder:
        return {line: error_of(library, line, folder) for line in lines}


if __name__ == "__main__":
    print(json.dumps(errors(importlib.import_module(sys.argv[1]))))
