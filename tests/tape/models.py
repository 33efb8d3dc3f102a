"""Models of many kinds, each a function that returns the loss of one forward pass.

Small in width, but whole in kind: every way in which a value gets saved occurs in one of them.
"""

from library import torch

nn = torch.nn
functional = torch.nn.functional


def mlp():
    model = nn.Sequential(
        nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3)
    )
    return functional.cross_entropy(model(torch.randn(5, 12)), torch.tensor([0, 1, 2, 0, 1]))


def cnn():
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 8, 3),
        nn.GELU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(8, 3),
    )
    return model(torch.randn(2, 1, 8, 8)).square().mean()


class Residual(nn.Module):
    """The block of ResNet-18."""

    def __init__(self, inner, outer, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outer)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inner != outer:
            self.downsample = nn.Sequential(
                nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer)
            )

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        y += x if self.downsample is None else self.downsample(x)
        return self.relu(y)


class ResNet18(nn.Module):
    """All eighteen layers, few channels."""

    def __init__(self, width=4):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        )
        widths = [width, width, width * 2, width * 4, width * 8]
        blocks = []
        for stage in range(4):
            stride = 1 if stage == 0 else 2
            blocks.append(Residual(widths[stage], widths[stage + 1], stride))
            blocks.append(Residual(widths[stage + 1], widths[stage + 1], 1))
        self.blocks = nn.Sequential(*blocks)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(widths[-1], 10)

    def forward(self, x):
        return self.fc(self.pool(self.blocks(self.stem(x))).flatten(1))


def resnet18():
    return functional.cross_entropy(ResNet18()(torch.randn(2, 3, 32, 32)), torch.tensor([1, 7]))


def _recurrent(kind):
    layer = kind(6, 5, num_layers=2, batch_first=True)
    return layer(torch.randn(3, 7, 6))[0].square().mean()


def rnn():
    return _recurrent(nn.RNN)


def lstm():
    return _recurrent(nn.LSTM)


def gru():
    return _recurrent(nn.GRU)


def lstm_cells():
    cell, state = nn.LSTMCell(4, 6), None
    for _ in range(9):
        state = cell(torch.randn(2, 4), state)
    return state[0].sum() + state[1].sum()


class Block(nn.Module):
    """A block of GPT."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(self.ln1(x)).split(width, dim=2)
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in parts
        )
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    """A language model with tied embeddings."""

    def __init__(self, vocabulary=17, width=16, heads=2, layers=3, length=8):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(length, width)
        self.drop = nn.Dropout(0.1)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.token.weight

    def forward(self, tokens):
        x = self.drop(self.token(tokens) + self.position(torch.arange(tokens.shape[1])))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))


def gpt():
    tokens = torch.randint(17, (2, 8))
    logits = GPT()(tokens)
    return functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())


def transformer_encoder():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
    return nn.TransformerEncoder(layer, 2)(torch.randn(2, 5, 8)).square().mean()


def attention():
    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.randn(2, 5, 8, requires_grad=True)
    y, weights = layer(x, x, x)
    return y.sum() + weights.square().sum()


def conv_variants():
    x = torch.randn(2, 4, 9)
    y = nn.Conv1d(4, 6, 3, stride=2, groups=2)(x)
    y = nn.ConvTranspose1d(6, 4, 3, padding_mode="zeros")(y)
    y = nn.Conv1d(4, 4, 3, dilation=2, padding="same", padding_mode="reflect")(y)
    z = nn.Conv3d(1, 2, 2)(torch.randn(1, 1, 3, 4, 4))
    return y.sum() + z.exp().sum()


def embeddings():
    table, bag = nn.Embedding(9, 4, padding_idx=0), nn.EmbeddingBag(9, 4, mode="mean")
    indices = torch.randint(9, (3, 5))
    return (table(indices).mean(1) * bag(indices)).sum()


def norms():
    x = torch.randn(4, 6, 5)
    for layer in (nn.BatchNorm1d(6), nn.GroupNorm(3, 6), nn.LayerNorm(5), nn.InstanceNorm1d(6)):
        x = layer(x)
    return nn.RMSNorm(5)(x).square().sum()


def dropout():
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.AlphaDropout(0.2), nn.Dropout1d(0.3))
    return model(torch.randn(4, 8, 8)).square().sum()


class Cube(torch.autograd.Function):
    """A custom function that saves an input, a result and something of its own."""

    @staticmethod
    def forward(ctx, x):
        """Return x cubed."""
        square = x * x
        y = square * x
        ctx.save_for_backward(x, square, y)
        return y

    @staticmethod
    def backward(ctx, grad):
        """Return three times the square."""
        _, square, _ = ctx.saved_tensors
        return 3 * square * grad


def custom_function():
    x = torch.randn(6, requires_grad=True)
    return Cube.apply(Cube.apply(x * 2)).sum()


def in_place():
    x = torch.randn(4, 4, requires_grad=True)
    y = x * 2
    y.mul_(3).add_(x).mul_(x)
    y.neg_().sigmoid_()
    return (y * y).sum()


def views_and_copy_slices():
    x = torch.randn(4, 6, requires_grad=True)
    base = x.exp() * 2
    base[1:3, ::2] = x[1:3, ::2] * x[0, 0]
    base[0].mul_(x[2])
    base.t()[3].exp_()
    return (base.view(2, 12) * base.unsqueeze(0).expand(3, 4, 6)[1].reshape(2, 12)).sum()


def checkpointed():
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 6))
    x = torch.randn(3, 6, requires_grad=True)
    y = torch.utils.checkpoint.checkpoint(model, x.sin(), use_reentrant=False)
    return (model(y) * y).sum()


def double_backward():
    x = torch.randn(5, requires_grad=True)
    y = (x.sin() * x.exp()).pow(3).sum()
    (grad,) = torch.autograd.grad(y, x, create_graph=True)
    return grad.square().sum() + y


class Tree(nn.Module):
    """Combines the values of a binary tree from the leaves up."""

    def __init__(self, width=5):
        super().__init__()
        self.leaf, self.join = nn.Linear(3, width), nn.Linear(2 * width, width)

    def forward(self, tree):
        if isinstance(tree, tuple):
            return torch.tanh(self.join(torch.cat([self(part) for part in tree], dim=-1)))
        return self.leaf(tree)


def tree_recursive():
    def grow(depth):
        return torch.randn(3) if depth == 0 else (grow(depth - 1), grow(depth // 2))

    return Tree()(grow(4)).sum()


def vae():
    encode, decode = nn.Linear(10, 8), nn.Linear(4, 10)
    x = torch.rand(6, 10)
    mean, log_variance = encode(x).chunk(2, dim=1)
    z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
    reconstruction = functional.binary_cross_entropy_with_logits(decode(z), x)
    return reconstruction - 0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).mean()


class UNet(nn.Module):
    """Down, up and across."""

    def __init__(self):
        super().__init__()
        self.down1 = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.SiLU())
        self.down2 = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(4, 8, 3, padding=1), nn.SiLU())
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.out = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        first = self.down1(x)
        second = self.up(self.down2(first))
        return self.out(torch.cat([first, second], dim=1))


def unet():
    return functional.mse_loss(UNet()(torch.randn(2, 1, 8, 8)), torch.zeros(2, 1, 8, 8))


def indexing_and_sorting():
    x = torch.randn(5, 6, requires_grad=True)
    values, _ = x.sort(dim=1)
    picked = values.gather(1, torch.randint(6, (5, 2))).index_select(0, torch.tensor([0, 3]))
    masked = torch.where(x > 0, x.exp(), x * 2).cumsum(1)
    return picked.prod() + masked.max(dim=1).values.sum() + x.topk(2).values.std()


def mixed_dtypes():
    x = torch.randn(4, 4, requires_grad=True)
    y = x.double().matmul(torch.randn(4, 4, dtype=torch.float64))
    return (y.float() * x.to(torch.bfloat16)).logsumexp(1).sum()


def shared_input():
    """One value that several entries save."""
    x = torch.randn(8, requires_grad=True).exp()
    return (x.sin() * x + x.cos() * x.log()).sum()


MODELS = {
    function.__name__: function
    for function in (
        *(mlp, cnn, resnet18, rnn, lstm, gru, lstm_cells, gpt, transformer_encoder, attention),
        *(conv_variants, embeddings, norms, dropout, custom_function, in_place),
        *(views_and_copy_slices, checkpointed, double_backward, tree_recursive, vae, unet),
        *(indexing_and_sorting, mixed_dtypes, shared_input),
    )
}
