"""safetensors: states through bytes and files, parts of a file, a model with shared weights."""

import os
import tempfile

import torch
from common import array, set_weights, show
from safetensors import safe_open
from safetensors.torch import load, load_file, load_model, save, save_file, save_model

state = {
    "a": array(3, 4),
    "half": array(5, seed=1).half(),
    "brain": array(2, 2, seed=2).bfloat16(),
    "count": torch.arange(6).reshape(2, 3),
    "flag": torch.tensor([True, False]),
}
back = load(save(state, metadata={"made": "here"}))
for name, value in sorted(back.items()):
    assert value.dtype == state[name].dtype and torch.equal(value, state[name]), name
    show(name, value.float())
folder = tempfile.mkdtemp()
path = os.path.join(folder, "state.safetensors")
save_file(state, path, metadata={"made": "here"})
with safe_open(path, framework="pt") as file:
    assert file.metadata() == {"made": "here"} and sorted(file.keys()) == sorted(state)
    show("part", file.get_slice("a")[1:, :2])
show("file", load_file(path)["a"].sum())


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(6, 4)
        self.head = torch.nn.Linear(4, 6, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x):
        return self.head(self.embed(x))


model, other = set_weights(Tied()), Tied()
save_model(model, path)
missing, unexpected = load_model(other, path)
assert not missing and not unexpected
show("model", other(torch.tensor([1, 2])))
