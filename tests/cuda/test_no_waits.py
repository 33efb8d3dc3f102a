"""Training steps never make the host wait; what must wait says so."""

import ctypes
import os

import pytest
from library import torch

cuda, nn, F = torch.cuda, torch.nn, torch.nn.functional


@pytest.fixture
def refusing():
    """Return a function after which a wait that nobody asked for raises."""
    yield lambda: cuda.set_sync_debug_mode("error")
    cuda.set_sync_debug_mode("default")


def count_waits():
    """Return how often the host has waited: unasked, and as the driver saw it on the emulator."""
    counts = [torch._C._cuda_unasked_waits()]
    if emulator := os.environ.get("TAPEGRAD_CUDA_DRIVER"):
        counts.append(ctypes.CDLL(emulator).tapegradEmulatorWaits())
    return counts


def tokens(*shape, most):
    return torch.arange(torch.Size(shape).numel()).remainder(most).view(shape).cuda()


# ---- whole steps


def mlp():
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 5)).cuda()
    x, y = torch.randn(6, 8).cuda(), tokens(6, most=5)
    return model, torch.optim.Adam(model.parameters()), lambda: F.cross_entropy(model(x), y)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 6, num_layers=2, batch_first=True)
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        return self.head(self.lstm(x)[0])


def lstm():
    model = Recurrent().cuda()
    x = torch.randn(2, 4, 4).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return model, optimizer, lambda: model(x).square().mean()


def conv():
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.2),
        nn.Flatten(),
        nn.Linear(36, 3),
    ).cuda()
    x, y = torch.randn(2, 1, 6, 6).cuda(), tokens(2, most=3)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    return model, optimizer, lambda: F.cross_entropy(model(x), y)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width), nn.Dropout(0.1)
        )

    def forward(self, x):
        n, t, c = x.shape
        parts = self.qkv(self.norm(x)).view(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(n, t, c))
        return x + self.mlp(self.after(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(11, 8), nn.Embedding(5, 8)
        self.blocks = nn.Sequential(Block(8, 2), Block(8, 2))
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 11, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x):
        places = torch.arange(x.shape[1], device=x.device)
        return self.head(self.norm(self.blocks(self.words(x) + self.places(places))))


def gpt():
    model = GPT().cuda()
    x, y = tokens(2, 5, most=11), tokens(10, most=11)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return model, optimizer, lambda: F.cross_entropy(model(x).view(-1, 11), y)


@pytest.mark.parametrize("make", [mlp, lstm, conv, gpt])
def test_a_step_waits_for_nothing(make, refusing):
    torch.manual_seed(0)
    model, optimizer, compute_loss = make()

    def step():
        optimizer.zero_grad()
        loss = compute_loss()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        return loss.detach(), norm

    first, _ = step()
    before = count_waits()
    refusing()
    results = [step() for _ in range(2)]
    assert count_waits() == before
    cuda.set_sync_debug_mode("default")
    assert all(norm.item() > 0 for _, norm in results)
    assert results[-1][0].item() != first.item()


# ---- what must wait

WAITS = {
    "item": lambda x, mask: x[0].item(),
    "cpu": lambda x, mask: x.cpu(),
    "nonzero": lambda x, mask: x.nonzero(),
    "masked_select": lambda x, mask: x.masked_select(mask),
    "index": lambda x, mask: x[mask],
    "tolist": lambda x, mask: x.tolist(),
    "numpy": lambda x, mask: x.cpu().numpy(),
    "bool": lambda x, mask: bool(x[0] > 0),
    "equal": lambda x, mask: torch.equal(x, x + 1),
    "print": lambda x, mask: repr(x),
    "unique": lambda x, mask: torch.unique(x),
    "pageable": lambda x, mask: torch.zeros(1 << 16).cuda(),
}


@pytest.mark.parametrize("name", WAITS)
def test_what_waits_says_so(name, refusing):
    x, mask = torch.arange(4.0).cuda(), torch.tensor([True, False, True, False]).cuda()
    before = count_waits()
    WAITS[name](x, mask)
    assert all(b > a for a, b in zip(before, count_waits(), strict=True) if name != "pageable")
    refusing()
    with pytest.raises(RuntimeError, match="called a synchronizing CUDA operation"):
        WAITS[name](x, mask)
    cuda.set_sync_debug_mode("warn")
    with pytest.warns(UserWarning, match="called a synchronizing CUDA operation"):
        WAITS[name](x, mask)


def test_gradients_of_a_mask_wait_for_nothing(refusing):
    x = torch.arange(6.0).cuda().requires_grad_()
    mask = torch.tensor([True, False, True, False, True, True]).cuda()
    loss = x.masked_select(mask).square().sum()  # how many there are, the host has to know
    torch.zeros(6).cuda().masked_scatter_(mask, x.detach())
    refusing()
    loss.backward()
    y = x.masked_scatter(mask, x.detach())
    cuda.set_sync_debug_mode("default")
    assert x.grad.tolist() == [0, 0, 4, 0, 8, 10] and y.tolist() == [0, 1, 1, 3, 2, 3]


def test_copies_that_wait_for_nothing(refusing):
    pinned, small = torch.ones(1 << 16).pin_memory(), torch.ones(4)
    refusing()
    x = pinned.to("cuda", non_blocking=True)
    y = small.cuda()
    back = torch.empty(1 << 16).pin_memory()
    back.copy_(x * 2, non_blocking=True)
    cuda.synchronize()
    assert back[5] == 2
    cuda.set_sync_debug_mode("default")
    assert y.tolist() == [1.0] * 4
