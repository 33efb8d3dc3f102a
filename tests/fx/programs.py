"""Modules that are written for either library, each with what it is called with."""

import math

# Names of functions in PyTorch's generated code, and here.
SPACES = (
    ("torch._C._nn.", "torch.nn.functional."),
    ("torch._C._fft.fft_", "torch.fft."),
    ("torch._C._linalg.linalg_", "torch.linalg."),
    ("torch.functional.", "torch."),
)


def take_length(x):
    """Return how many rows there are; marked with `wrap` by those who trace it."""
    return len(x)


def layers(torch):
    """Return modules made of layers, by name: (module, arguments)."""
    nn = torch.nn
    functional = nn.functional

    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4)
            self.conv2, self.bn2 = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
            self.down = nn.Sequential(nn.Conv2d(2, 4, 1), nn.BatchNorm2d(4))
            self.head = nn.Linear(4, 3)

        def forward(self, x):
            y = functional.relu(self.bn1(self.conv1(x)), inplace=True)
            y = self.bn2(self.conv2(y))
            y += self.down(x)
            y = functional.adaptive_avg_pool2d(functional.relu(y), 1)
            return self.head(torch.flatten(y, 1))

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out, self.heads = nn.Linear(8, 24), nn.Linear(8, 8), 2
            self.norm = nn.LayerNorm(8)

        def forward(self, x, scale=0.5, *, causal: bool = True):
            b, t, c = x.shape[0], x.size(1), x.shape[-1]
            q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
            q = q.view(b, t, self.heads, c // self.heads).transpose(1, 2)
            k = k.view(b, t, self.heads, c // self.heads).transpose(1, 2)
            v = v.view(b, t, self.heads, c // self.heads).permute(0, 2, 1, 3)
            weights = functional.softmax(q @ k.transpose(-2, -1) * scale, dim=-1)
            y = (weights @ v).transpose(1, 2).contiguous().view(b, t, c)
            z = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return x + self.out(y) + z.transpose(1, 2).reshape(b, t, c)

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.attention = nn.LSTM(3, 4, batch_first=True), nn.MultiheadAttention(4, 2)
            self.head = nn.Linear(4, 2)

        def forward(self, x):
            y, (h, c) = self.rnn(x)
            z, _ = self.attention(y, y, y, need_weights=False)
            return self.head(y[:, -1]), h.squeeze(0) + c.squeeze(0), z

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])
            self.named = nn.ModuleDict({"act": nn.Tanh()})

        def forward(self, x):
            for block in self.blocks:
                x = self.named["act"](block(x))
            return functional.linear(x, self.blocks[0].weight, self.blocks[1].bias)

    mlp = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Dropout(0.0), nn.Linear(5, 2))
    return {
        "mlp": (mlp, (torch.randn(4, 3),)),
        "residual": (Residual(), (torch.randn(2, 2, 5, 5),)),
        "attention": (Attention(), (torch.randn(2, 3, 8),)),
        "recurrent": (Recurrent(), (torch.randn(2, 5, 3),)),
        "tied": (Tied(), (torch.randn(2, 3),)),
    }


def expressions(torch):
    """Return modules made of functions, methods and operators, by name: (module, arguments)."""
    nn = torch.nn
    functional = nn.functional

    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.tensor([[1.0, 2.0], [0.5, -1.0]]))
            self.register_buffer("shift", torch.tensor([0.5, -0.5]))
            self.plain = torch.tensor([3.0, 4.0])

        def forward(self, x):
            return (x @ self.weight + self.shift) * self.plain

    class Attributes(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.scale = Inner(), nn.Parameter(torch.tensor(2.0))
            self.register_buffer("table", torch.arange(6.0).view(3, 2))

        def forward(self, x):
            y = self.inner(x) * self.scale
            return y + self.table[0] + torch.tensor([1.0, 2.0]) - self.inner.weight.sum()

    class Operators(nn.Module):
        def forward(self, x, y):
            a = (x + 1) * 2 - y / 3 + 2 / (y * y + 1) - (1 - x) ** 2
            a = -a + (+x) % 3 + x // 2 + abs(y) + 2**x
            b = (a > 0) & (y <= 1) | ~(x == y) ^ (x != 0)
            a += 1
            a *= y
            return torch.where(b, a, x), torch.ones(2) + x, torch.ones(2) * y - x

    class Indexing(nn.Module):
        def forward(self, x):
            y = x[0], x[:, 1], x[..., None], x[1:, ::2], x[None, -1], x[[0, 1]]
            first, second = x.unbind(0)
            return {"parts": y, "nested": [first + 1, (second, 2.5, None, "text", True)]}

    class Methods(nn.Module):
        def forward(self, x, mask=None, k=2):
            y = x.relu().add(1).mul_(2).clamp(min=0.5, max=3.0).to(torch.float64)
            values, places = torch.topk(y.float(), 1, dim=-1)
            z = torch.cat([y, y], dim=1).sum(dim=(0,), keepdim=True).mean()
            shape = torch.zeros((x.size(0), 3), dtype=x.dtype, device=x.device)
            split = torch.split(x, 1)
            stacked = torch.stack([part * k for part in (split[0], split[1])], dim=0)
            return values, z, shape + math.pi, stacked.squeeze(1).expand_as(x), places

    class Functions(nn.Module):
        def forward(self, x):
            y = functional.gelu(functional.silu(functional.leaky_relu(x, 0.2)))
            y = functional.dropout(functional.elu(y), 0.3, training=False)
            y = functional.layer_norm(y, (4,)) + functional.hardtanh(y) + functional.selu(y)
            y = functional.normalize(y, dim=-1) + functional.softplus(y) + functional.mish(x)
            y = functional.log_softmax(y, -1) + functional.glu(torch.cat([y, y], -1))
            z = functional.pad(y, (1, 1), value=2.0)
            loss = functional.mse_loss(y, x) + functional.smooth_l1_loss(y, x, beta=0.5)
            loss = loss + functional.cross_entropy(y, torch.tensor([0, 1]), reduction="sum")
            return torch.einsum("ij,kj->ik", y, z[:, 1:-1]), loss, torch.relu(z).pow(2)

    class Images(nn.Module):
        def __init__(self):
            super().__init__()
            self.kernel = nn.Parameter(torch.randn(3, 2, 3, 3))

        def forward(self, x):
            y = functional.conv2d(x, self.kernel, padding=1)
            y = functional.max_pool2d(functional.relu6(y), 2) + functional.avg_pool2d(y, 2)
            y = functional.interpolate(y, scale_factor=2.0, mode="nearest")
            return functional.batch_norm(y, None, None, training=True), math.sqrt(16.0)

    x = torch.tensor([[1.0, 0.5], [-1.0, 2.0]])
    return {
        "attributes": (Attributes(), (x,)),
        "operators": (Operators(), (x, torch.tensor([[0.5, 1.0], [1.5, -2.0]]))),
        "indexing": (Indexing(), (x,)),
        "methods": (Methods(), (x,)),
        "functions": (Functions(), (torch.randn(2, 4),)),
        "images": (Images(), (torch.randn(1, 2, 4, 4),)),
    }


def graph_as_text(graph):
    """Return a graph as text, with names of functions as they are here."""
    return with_our_names(str(graph))


def with_our_names(text):
    """Return text with names of functions as they are here."""
    for theirs, ours in SPACES:
        text = text.replace(theirs, ours)
    return text
