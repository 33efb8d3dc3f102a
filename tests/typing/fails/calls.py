"""Wrong calls: each line marked with `error` must be one to every checker."""

import tapegrad as torch
import tapegrad.nn.functional as F
from tapegrad import Tensor, nn

x = torch.zeros(3)
torch.softmax(x)  # error
torch.diff(x, order=2)  # error
torch.kron(x)  # error
torch.quantile(x)  # error
F.relu(x, in_place=True)  # error
F.leaky_relu(x, "0.1")  # error
nn.Conv2d(3, 4)  # error
nn.Linear("3", 4)  # error
torch.zeros(3, dtype="float32")  # error
y: int = F.relu(x)  # error
z: int = torch.diff(x)  # error
w: str = torch.max(x, dim=0).values  # error
sizes: Tensor = x.shape  # error
number: str = x.item()  # error
x.to(dtype=3)  # error
torch.cat(x, other=3)  # error
x.view_as(3)  # error
x.grad.zero_()  # error


class Layer(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(x, approximat="tanh")  # error
