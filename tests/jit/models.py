"""Models that programs trace, with an example of their arguments."""

from library import torch

nn = torch.nn


class Net(nn.Module):
    """A convolutional network with batch norm and dropout."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.pool = nn.MaxPool2d(2)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = self.pool(torch.relu(self.norm(self.conv(x))))
        return self.head(self.drop(x.mean((2, 3))))


class Attention(nn.Module):
    """A causal transformer over tokens."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 11)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        length = tokens.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        return self.head(self.layers(self.embed(tokens), mask=mask))


class Recurrent(nn.Module):
    """An LSTM whose last state is the result."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 6, 2, batch_first=True)
        self.head = nn.Linear(6, 2)

    def forward(self, x):
        out, (h, c) = self.lstm(x)
        return self.head(out[:, -1]), h, c


class Nested(nn.Module):
    """Arguments and results in containers; state that is written; a constant of its own."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.scale = torch.tensor([1.0, 2.0, 3.0])

    def forward(self, x, pair, named):
        self.count += 1
        return x * self.scale + pair[0], (pair[1] - named["shift"], [x.t()])


NAMES = ("net", "attention", "recurrent", "nested")


def case(name):
    """Return a model in eval mode and an example."""
    torch.manual_seed(0)
    if name == "net":
        return Net().eval(), (torch.randn(2, 3, 8, 8),)
    if name == "attention":
        return Attention().eval(), (torch.randint(0, 11, (2, 7)),)
    if name == "recurrent":
        return Recurrent().eval(), (torch.randn(3, 5, 4),)
    pair = torch.randn(3), torch.randn(2)
    return Nested(), (torch.randn(2, 3), pair, {"shift": torch.randn(2)})
