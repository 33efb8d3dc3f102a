"""Models and data that several processes are compared with one on."""

import tapegrad as torch

nn = torch.nn
F = torch.nn.functional


class Block(nn.Module):
    """A layer of a GPT."""

    def __init__(self, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.out(y)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """A small GPT, whose head has the weights of its embedding."""

    def __init__(self, words=31, width=16, layers=2, length=8):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.place = nn.Parameter(torch.zeros(length, width))
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, index):
        x = self.embed(index) + self.place
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def mlp():
    return nn.Sequential(
        nn.Linear(10, 33), nn.Tanh(), nn.Linear(33, 17), nn.ReLU(), nn.Linear(17, 3)
    )


def cnn():
    return nn.Sequential(
        nn.Conv2d(2, 6, 3, padding=1), nn.GroupNorm(2, 6), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 5, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(45, 4),
    )  # fmt: skip


MODELS = {"mlp": mlp, "gpt": GPT, "cnn": cnn}


def parts_of(name, model):
    """Return the modules that are divided apart, inner ones first."""
    if name == "gpt":
        return [*model.blocks]
    return [layer for layer in model if list(layer.parameters())][:-1]


def data(name, step, samples=12):
    """Return the inputs and targets of a step, which can be learned."""
    g = torch.Generator().manual_seed(1000 + step)
    if name == "gpt":
        row = [torch.randint(0, 31, (samples,), generator=g)]
        for _ in range(8):
            row.append((3 * row[-1] + 1) % 31)
        index = torch.stack(row, 1)
        return index[:, :-1], index[:, 1:]
    shape = (samples, 10) if name == "mlp" else (samples, 2, 6, 6)
    classes = 3 if name == "mlp" else 4
    x = torch.randn(shape, generator=g)
    return x, x.flatten(1)[:, :classes].argmax(1)


def loss_of(model, x, y):
    """Return the mean loss."""
    scores = model(x)
    return F.cross_entropy(scores.flatten(0, -2), y.flatten())
