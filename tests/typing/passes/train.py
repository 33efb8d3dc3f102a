"""A training script as a user would write it, with types."""

from __future__ import annotations

import tapegrad as torch
import tapegrad.nn.functional as F
from tapegrad import Tensor, nn, optim
from tapegrad.utils.data import DataLoader, Dataset, TensorDataset


class Block(nn.Module):
    def __init__(self, width: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("steps", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        h = F.gelu(self.up(self.norm(x)))
        out: Tensor = self.dropout(self.down(h))
        return x + out


class Model(nn.Module):
    def __init__(self, inputs: int, width: int, classes: int) -> None:
        super().__init__()
        self.inputs = nn.Linear(inputs, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(3)])
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, classes))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.inputs(x)
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(x)
        if mask is not None:
            logits = logits.masked_fill(mask, float("-inf"))
        return logits


class Squares(Dataset[tuple[Tensor, Tensor]]):
    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        x = torch.tensor([float(index)])
        return x, x**2


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * grad


def evaluate(model: nn.Module, batches: DataLoader[tuple[Tensor, Tensor]]) -> float:
    model.eval()
    right = 0
    with torch.no_grad():
        for x, y in batches:
            right += int((model(x).argmax(dim=-1) == y).sum().item())
    return right / 100


@torch.no_grad()
def average(a: Tensor, b: Tensor) -> Tensor:
    return (a + b) / 2


def main() -> None:
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x = torch.randn(100, 8, device=device, dtype=torch.float32)
    y = torch.randint(0, 3, (100,))
    train = DataLoader(TensorDataset(x, y), batch_size=20, shuffle=True)
    model = Model(8, 16, 3).to(device)
    optimizer = optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
    loss_fn = nn.CrossEntropyLoss()
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    best = float("inf")
    for epoch in range(2):
        model.train()
        for inputs, targets in train:
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = loss_fn(model(inputs), targets)
            scaler.scale(loss).backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            best = min(best, loss.item())
            print(epoch, float(norm), loss.shape, loss.size(), loss.dim())
        scheduler.step()
    values, indices = torch.max(x, dim=1)
    top = torch.topk(x, k=2)
    print(values + top.values, indices, top.indices, x.max(), x.mean(dim=1), x.std())
    probabilities = torch.softmax(model(x), dim=-1)
    chunks = torch.split(probabilities, 10)
    a, b = x.chunk(2)
    print(torch.cat([a, b]), torch.stack(list(chunks)), torch.einsum("ij,kj->ik", a, b))
    print(x.numpy(), x.tolist(), x[0, 1:3], x.T, torch.linalg.norm(x), torch.fft.fft(x).real)
    (gradient,) = torch.autograd.grad(x.requires_grad_().square().sum(), [x])
    out = Square.apply(gradient)
    print(out, average(a, b), F.relu(x).sum().item(), F.cross_entropy(model(x), y).item())
    torch.save({"model": model.state_dict(), "step": 3}, "checkpoint.pt")
    state = torch.load("checkpoint.pt")
    model.load_state_dict(state["model"])
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            print(name, parameter.grad.norm().item(), parameter.shape[0])


if __name__ == "__main__":
    main()
