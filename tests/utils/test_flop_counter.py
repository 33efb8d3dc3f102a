"""FlopCounterMode and ModuleTracker, beside PyTorch's own counts."""

import importlib

import pytest
from library import IS_TORCH, pytorch_for_parity, torch

pytorch, REASON = pytorch_for_parity()
beside_pytorch = pytest.mark.skipif(
    pytorch is None or IS_TORCH, reason=REASON or "nothing to compare with"
)


def counter_of(library):
    return importlib.import_module(f"{library.__name__}.utils.flop_counter").FlopCounterMode


def count(library, run):
    """Return the counts of each module, all ops together."""
    with counter_of(library)(display=False) as counter:
        run()
    total = counter.get_total_flops()
    found = {name: sum(each.values()) for name, each in counter.get_flop_counts().items()}
    assert total == found["Global"]
    return found


def layer(t, name, *sizes, shape, **options):
    net = getattr(t.nn, name)(*sizes, **options)
    x = t.ones(shape, requires_grad=True)
    return lambda: net(x).sum().backward()


def net_of(t):
    nn = t.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Conv2d(4, 6, 3, padding=1, groups=2)
            self.up = nn.ConvTranspose2d(6, 2, 2, stride=2)
            self.last = nn.Sequential(nn.Flatten(), nn.Linear(2 * 16 * 16, 5))

        def forward(self, x):
            return self.last(self.up(self.first(x).relu()))

    return Net()


def whole_net(t, needs_input):
    net, x = net_of(t), t.ones(2, 4, 8, 8, requires_grad=needs_input)
    return lambda: net(x).sum().backward()


def forward_only(t):
    net, x = net_of(t), t.ones(2, 4, 8, 8)
    return lambda: net(x)


def product(t, name, *shapes):
    tensors = [t.ones(shape, requires_grad=True) for shape in shapes]
    return lambda: getattr(t, name)(*tensors).sum().backward()


RUNS = {
    "net": lambda t: whole_net(t, False),
    "net, gradient of the input": lambda t: whole_net(t, True),
    "forward": forward_only,
    "meta": lambda t: layer(t, "Linear", 3, 4, shape=(2, 5, 3)),
    "Conv1d": lambda t: layer(t, "Conv1d", 3, 4, 3, shape=(2, 3, 9), stride=2),
    "Conv3d": lambda t: layer(t, "Conv3d", 3, 4, 2, shape=(1, 3, 5, 5, 5), dilation=2),
    "depthwise": lambda t: layer(t, "Conv2d", 4, 4, 3, shape=(2, 4, 6, 6), groups=4),
    "no batch": lambda t: layer(t, "Conv2d", 4, 4, 3, shape=(4, 6, 6)),
    "no bias": lambda t: layer(t, "Linear", 3, 4, shape=(2, 5, 3), bias=False),
    "matmul": lambda t: product(t, "matmul", (2, 3, 4), (4, 5)),
    "bmm": lambda t: product(t, "bmm", (2, 3, 4), (2, 4, 3)),
    "baddbmm": lambda t: product(t, "baddbmm", (2, 3, 3), (2, 3, 4), (2, 4, 3)),
    "addmm": lambda t: product(t, "addmm", (3, 5), (3, 4), (4, 5)),
    "none": lambda t: lambda: t.ones(3).exp(),
}


@beside_pytorch
@pytest.mark.parametrize("name", RUNS)
def test_counts_are_those_of_pytorch(name):
    assert count(torch, RUNS[name](torch)) == count(pytorch, RUNS[name](pytorch))


def test_tensors_without_bytes_are_counted():
    net = torch.nn.Linear(3, 4, device="meta")
    assert count(torch, lambda: net(torch.ones(2, 3, device="meta")))["Linear"] == 48


@pytest.mark.skipif(IS_TORCH, reason="PyTorch counts attention on GPUs only")
def test_attention_is_counted():
    q = torch.ones(2, 3, 6, 8, requires_grad=True)
    v = torch.ones(2, 3, 6, 4, requires_grad=True)
    run = lambda: torch.nn.functional.scaled_dot_product_attention(q, q, v)  # noqa: E731
    scores, values = 2 * 6 * 6 * 6 * 8, 2 * 6 * 6 * 6 * 4
    assert count(torch, run)["Global"] == scores + values
    both = count(torch, lambda: run().sum().backward())["Global"]
    assert both == (scores + values) + (3 * scores + 2 * values)


@pytest.mark.skipif(IS_TORCH, reason="PyTorch does not count LSTMs on the CPU")
def test_recurrent_layers_are_counted():
    net, x = torch.nn.LSTM(4, 6), torch.ones(7, 2, 4, requires_grad=True)
    forward = 2 * 14 * 24 * (4 + 6)
    assert count(torch, lambda: net(x))["LSTM"] == forward
    assert count(torch, lambda: net(x)[0].sum().backward())["LSTM"] == 3 * forward


def test_ops_have_names_of_pytorch(capsys):
    net = torch.nn.Sequential(torch.nn.Linear(3, 4))
    with counter_of(torch)(display=not IS_TORCH) as counter:
        net(torch.ones(2, 3)).sum().backward()
    aten = torch.ops.aten
    assert counter.get_flop_counts()["Sequential.0"] == {aten.addmm: 48, aten.mm: 48}
    assert counter.get_total_flops() == 96
    if not IS_TORCH:  # where `tabulate` writes it
        assert capsys.readouterr().out.splitlines() == [
            "Module            FLOP    % Total",
            "--------------  ------  ---------",
            "Sequential          96    100.00%",
            " - aten.addmm       48     50.00%",
            " - aten.mm          48     50.00%",
            " Sequential.0       96    100.00%",
            "  - aten.addmm      48     50.00%",
            "  - aten.mm         48     50.00%",
        ]


def test_a_counter_begins_anew():
    counter, x = counter_of(torch)(display=False), torch.ones(2, 2)
    for _ in range(2):
        with counter:
            x @ x
            if not IS_TORCH:
                assert counter.get_total_flops() == 16
        x @ x
        assert counter.get_total_flops() == 16


@pytest.mark.skipif(IS_TORCH, reason="what is refused is tapegrad's own")
def test_what_a_counter_refuses():
    counter = counter_of(torch)
    with pytest.raises(NotImplementedError, match="custom_mapping is not supported"):
        counter(custom_mapping={torch.ops.aten.mm: len})
    with pytest.warns(UserWarning, match="mods argument is not needed"):
        counter(torch.nn.Linear(1, 1))
    with torch.profiler.profile(), pytest.raises(RuntimeError, match="a profiler or another"):
        counter().__enter__()


def test_module_tracker():
    tracker_class = importlib.import_module(f"{torch.__name__}.utils.module_tracker").ModuleTracker
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Sequential(torch.nn.Linear(2, 2)))
    seen = []
    with tracker_class() as tracker:

        def look(*_):
            seen.append((tracker.is_bw, sorted(tracker.parents)))

        x = torch.ones(1, 2, requires_grad=True)
        net[1][0].register_forward_pre_hook(look)
        y = net(x * 1)
        hook = net[0].weight.register_hook(look)
        assert tracker.parents == {"Global"}
        y.sum().backward()
        assert tracker.parents == {"Global"}
        hook.remove()
    assert seen[0] == (False, ["Global", "Sequential", "Sequential.1", "Sequential.1.0"])
    assert seen[1][0] and "Sequential" in seen[1][1]
