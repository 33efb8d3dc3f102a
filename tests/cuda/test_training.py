"""Models train on a CUDA device as they do on the CPU: the same numbers, step by step.

Weights are drawn on the CPU and moved, and both devices draw the same numbers for dropout, so that
all that differs is the order of sums and the last bits of functions. A step of training multiplies
a difference of one rounding by little: after some steps the losses must agree to a few thousand
roundings of the dtype, in float64 as in float32. A wrong derivative, a mask that differs or an
update that is lost is off by far more in float64.
"""

import pytest
from library import torch

nn, F = torch.nn, torch.nn.functional
STEPS = 4
ROUNDINGS = 4096


def perceptron():
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Dropout(0.25), nn.Linear(8, 3))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(3, 5, num_layers=2, dropout=0.2, batch_first=True)
        self.out = nn.Linear(5, 3)

    def forward(self, x):
        return self.out(self.rnn(x.view(len(x), 2, 3))[0][:, -1])


class Convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2, ceil_mode=True),
            nn.Flatten(),
            nn.Linear(8, 3),
        )

    def forward(self, x):
        return self.layers(x.view(len(x), 1, 2, 3))


class Attentive(nn.Module):
    """A block of a GPT, which reads numbers rounded to tokens."""

    def __init__(self):
        super().__init__()
        from tapegrad.cli.model import GPT

        self.model = GPT(vocabulary=7, context=6, layers=1, width=8, heads=2, dropout=0.2)
        self.out = nn.Linear(7, 3)

    def forward(self, x):
        tokens = (x * 2).round().clamp(-3, 3).long() + 3
        return self.out(self.model(tokens)[:, -1])


MODELS = {"mlp": perceptron, "lstm": Recurrent, "cnn": Convolutional, "gpt": Attentive}
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
}
SCHEDULERS = {
    "none": lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda step: 1.0),
    "step": lambda o: torch.optim.lr_scheduler.StepLR(o, 2, gamma=0.3),
    "cosine": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, STEPS),
    "one_cycle": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.05, total_steps=STEPS + 1),
}


def examples(dtype=torch.float32, count=10):
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(count, 6, generator=generator, dtype=dtype)
    return inputs, (inputs.sum(1) > 0).long() + (inputs[:, 0] > 0).long()


def seed(device):
    """Let both devices draw the same numbers from here on."""
    torch.manual_seed(5)
    assert torch.equal(torch.get_rng_state(), torch.cuda.get_rng_state()), device


def curve(model, device, *, optimizer="adamw", scheduler="none", dtype=torch.float32):
    """Return the losses of some steps, and the norms of the gradients."""
    torch.manual_seed(0)
    model = MODELS[model]().to(dtype).to(device)
    inputs, targets = (x.to(device) for x in examples(dtype))
    optimizer = OPTIMIZERS[optimizer](model.parameters())
    scheduler = SCHEDULERS[scheduler](optimizer)
    seed(device)
    seen = []
    for _ in range(STEPS):
        loss = F.cross_entropy(model(inputs), targets)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        seen.append(torch.stack([loss.detach(), norm]))
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    return torch.stack(seen).cpu(), model


def assert_same_curve(**options):
    ours, moved = curve(device="cuda", **options)
    theirs, _ = curve(device="cpu", **options)
    assert all(p.device.type == "cuda" for p in moved.parameters())
    assert not torch.equal(theirs[0], theirs[-1]), "nothing was learned"
    allowed = ROUNDINGS * torch.finfo(ours.dtype).eps
    assert torch.allclose(ours, theirs, rtol=allowed, atol=allowed), (ours, theirs)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("model", MODELS)
def test_models(model, dtype):
    assert_same_curve(model=model, dtype=getattr(torch, dtype))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("foreach", [None, False])
def test_optimizers(optimizer, foreach, monkeypatch):
    make = OPTIMIZERS[optimizer]
    if foreach is not None:
        monkeypatch.setitem(
            OPTIMIZERS, optimizer, lambda p: make([{"params": p, "foreach": foreach}])
        )
    assert_same_curve(model="mlp", optimizer=optimizer, dtype=torch.float64)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_schedulers(scheduler):
    assert_same_curve(model="mlp", optimizer="sgd", scheduler=scheduler, dtype=torch.float64)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(dtype):
    """A rounding of these dtypes is large: losses stay within a few of them."""
    dtype = getattr(torch, dtype)
    ours, theirs = (
        curve("mlp", device, optimizer="sgd", dtype=dtype)[0] for device in ("cuda", "cpu")
    )
    assert ours.dtype is dtype and not torch.equal(ours[0], ours[-1])
    assert torch.allclose(ours.float(), theirs.float(), rtol=16 * torch.finfo(dtype).eps)


def test_batches_from_pinned_memory():
    """Copies that nobody waits for arrive before they are used, in order and whole."""
    inputs, targets = examples(count=22)
    data = torch.utils.data.TensorDataset(inputs, targets)
    loader = torch.utils.data.DataLoader(data, batch_size=4, pin_memory=True)
    found = []
    for x, y in loader:
        assert x.is_pinned() and y.is_pinned()
        x, y = x.to("cuda", non_blocking=True), y.to("cuda", non_blocking=True)
        found.append((x * 2, y + 1))
    assert torch.equal(torch.cat([x for x, _ in found]).cpu(), inputs * 2)
    assert torch.equal(torch.cat([y for _, y in found]).cpu(), targets + 1)


def trained(device):
    torch.manual_seed(0)
    model = Convolutional().to(device)
    optimizer = OPTIMIZERS["adamw"](model.parameters())
    inputs, targets = (x.to(device) for x in examples())
    step(model, optimizer, inputs, targets)
    return model, optimizer, inputs, targets


def step(model, optimizer, inputs, targets):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.item()


@pytest.mark.parametrize("places", [("cuda", "cpu"), ("cpu", "cuda")])
def test_checkpoints_move_between_devices(places, tmp_path):
    """A run that goes on elsewhere goes on: weights, buffers, moments and counts of steps."""
    here, there = places
    model, optimizer, inputs, targets = trained(here)
    path = tmp_path / "checkpoint.safetensors"
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    state = torch.load(path, map_location=there)
    other = Convolutional().to(there)
    other.load_state_dict(state["model"])
    others = OPTIMIZERS["adamw"](other.parameters())
    others.load_state_dict(state["optimizer"])
    for parameter in other.parameters():
        moments = others.state[parameter]
        assert moments["exp_avg"].device.type == there
        assert moments["step"].item() == 1
    for name, buffer in other.named_buffers():
        assert torch.equal(buffer.cpu(), model.state_dict()[name].cpu()), name
    for _ in range(2):
        mine = step(model, optimizer, inputs, targets)
        moved = step(other, others, inputs.to(there), targets.to(there))
        assert moved == pytest.approx(mine, rel=1e-4)


def test_weights_can_be_loaded_from_the_other_device():
    model = perceptron().to("cuda")
    source = perceptron()
    model.load_state_dict(source.state_dict())
    assert all(p.is_cuda for p in model.parameters())
    source.load_state_dict(model.state_dict())
    assert not any(p.is_cuda for p in source.parameters())
    assert torch.equal(model[0].weight.cpu(), source[0].weight)


class TestModulesMove:
    def test_parameters_stay_the_same_objects(self):
        """An optimizer made before the move goes on with the moved parameters."""
        model = Convolutional()
        before = list(model.parameters())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        assert model.to("cuda") is model
        assert all(a is b for a, b in zip(before, model.parameters(), strict=True))
        assert all(p.is_cuda and p.is_leaf and p.requires_grad for p in before)
        weight = before[0].detach().clone()
        inputs, targets = (x.cuda() for x in examples())
        step(model, optimizer, inputs, targets)
        assert not torch.equal(weight, before[0])

    def test_buffers_and_gradients_move(self):
        model = Convolutional()
        F.cross_entropy(model(examples()[0]), examples()[1]).backward()
        model.cuda()
        assert all(b.is_cuda for b in model.buffers())
        assert all(p.grad.is_cuda for p in model.parameters())
        model.cpu()
        assert not any(t.is_cuda for t in [*model.buffers(), *model.parameters()])
        assert not any(p.grad.is_cuda for p in model.parameters())

    @pytest.mark.parametrize("name", ["half", "bfloat16", "double"])
    def test_dtypes(self, name):
        model = getattr(Convolutional().cuda(), name)()
        dtype = {"half": torch.float16, "bfloat16": torch.bfloat16, "double": torch.float64}[name]
        assert all(p.dtype is dtype and p.is_cuda for p in model.parameters())
        counts = [b for b in model.buffers() if not b.is_floating_point()]
        assert counts and all(b.dtype is torch.int64 for b in counts)
        assert model(examples()[0].to("cuda", dtype)).dtype is dtype

    def test_device_and_dtype_at_once(self):
        model = perceptron().to("cuda", torch.float64)
        assert {(p.device.type, p.dtype) for p in model.parameters()} == {("cuda", torch.float64)}

    def test_built_there(self):
        with torch.device("cuda"):
            model = Recurrent()
        assert all(p.is_cuda for p in model.parameters())
        torch.manual_seed(0)
        here = perceptron()
        torch.manual_seed(0)
        with torch.device("cuda"):
            there = perceptron()
        assert torch.equal(here[0].weight, there[0].weight.cpu())  # one seed, the same numbers

    def test_tied_weights_stay_tied(self):
        model = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])
        model[1].weight = model[0].weight
        model.to("cuda")
        assert model[1].weight is model[0].weight
