"""Names with a typo: each line marked with `error` must be one to every checker."""

import tapegrad as torch
import tapegrad.nn.functional as F
from tapegrad import nn, optim

x = torch.zeros(3)
a = torch.sofmax(x, dim=0)  # error
b = F.relux(x)  # error
c = nn.Linaer(3, 4)  # error
d = optim.Adan([x])  # error
e = x.sofmax(0)  # error
f = torch.linalg.nrom(x)  # error
g = torch.fft.ftt(x)  # error
h = torch.cuda.is_avaliable()  # error
i = torch.float23  # error
j = torch.utils.dat  # error
