"""Budgets of a tape on CUDA: the device's memory is counted, freed and computed again."""

import gc

import pytest
from library import torch

from tapegrad import _C, tape
from tapegrad.tape._memory import same_elements

nn, F = torch.nn, torch.nn.functional
WIDTH = 32  # tensors of 32 x 32 floats: 4 KiB


@pytest.fixture(autouse=True)
def nothing_left():
    """A test leaves no evicted storage and no saved bytes behind."""
    gc.collect()
    before = _C.memory_stats()["saved_bytes"]
    yield
    gc.collect()
    assert _C._budget_stats()["evicted"] == 0
    assert _C.memory_stats()["saved_bytes"] == before


def quiet_budget(limit):
    """A budget whose warning does not matter to the test."""

    class Quiet(tape.budget):
        def _warn(self, irreducible, device):
            assert device == "cuda:0"

    return Quiet(limit)


def saved_on(device):
    return {name: live for name, live, _ in _C._saved_bytes()}.get(device, 0)


def gradients(leaves, loss):
    for leaf in leaves:
        leaf.grad = None
    loss().backward()
    return [leaf.grad for leaf in leaves]


def compare(leaves, loss, fractions=(0.7, 0.4)):
    """Run without and with budgets: equal gradients, peaks within; return the last budget."""
    torch.manual_seed(5)
    expected = gradients(leaves, loss)
    torch.manual_seed(5)
    with tape.budget(1 << 40) as free:
        gradients(leaves, loss)
    assert free.evictions == free.recomputed == 0
    for fraction in fractions:
        torch.manual_seed(5)
        with tape.budget(int(fraction * free.peak)) as b:
            found = gradients(leaves, loss)
        assert 0 < b.peak <= fraction * free.peak
        assert b.recomputed > 0
        assert all(map(same_elements, found, expected))
    return b


def mlp(layers=8, activation=nn.Tanh):
    parts = [part for _ in range(layers) for part in (nn.Linear(WIDTH, WIDTH), activation())]
    return nn.Sequential(*parts).cuda()


def data():
    return torch.randn(WIDTH, WIDTH, device="cuda")


def test_layers():
    model, x = mlp(), data()
    compare(list(model.parameters()), lambda: model(x).pow(2).mean())


def test_dropout_draws_the_same_numbers():
    parts = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Dropout(0.3)) for _ in range(5)]
    model, x = nn.Sequential(*parts).cuda(), data()
    compare(list(model.parameters()), lambda: model(x).pow(2).mean())
    state = torch.cuda.get_rng_state()
    with tape.budget("20 KiB"):
        loss = model(x).pow(2).mean()
        drawn = torch.cuda.get_rng_state()
        loss.backward()
    assert torch.equal(torch.cuda.get_rng_state(), drawn) and not torch.equal(state, drawn)


def test_in_place_ops():
    x = torch.randn(64, 64, device="cuda", requires_grad=True)

    def loss():
        y = x
        for _ in range(6):
            y = torch.sin(torch.tanh(y) + 2)
            y.mul_(0.5)
            y[:, 1:3] = y[:, :2] * 2
        return y.sum()

    compare([x], loss, (0.7, 0.5))


def test_running_statistics_change_once():
    parts = [
        nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
        for _ in range(4)
    ]
    model, x = nn.Sequential(*parts).cuda(), torch.randn(2, 4, 12, 12, device="cuda")
    start = {name: value.clone() for name, value in model.state_dict().items()}
    gradients(list(model.parameters()), lambda: model(x).pow(2).mean())
    once = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(start)
    with tape.budget(1 << 40) as free:
        gradients(list(model.parameters()), lambda: model(x).pow(2).mean())
    model.load_state_dict(start)
    with tape.budget(int(0.6 * free.peak)) as b:
        gradients(list(model.parameters()), lambda: model(x).pow(2).mean())
    assert b.recomputed > 0
    for name, value in model.state_dict().items():
        assert same_elements(value, once[name]), name


def test_steps_with_the_optimizer_inside():
    def train(limit):
        torch.manual_seed(2)
        model, x = mlp(6), torch.randn(128, WIDTH, device="cuda")
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        with quiet_budget(limit) as b:
            for _ in range(3):
                optimizer.zero_grad()
                model(x).pow(2).mean().backward()
                optimizer.step()
        return b, [value.clone() for value in model.state_dict().values()]

    free, expected = train(1 << 40)
    b, found = train(free.peak // 2)
    assert b.recomputed > 0 and b.peak < free.peak
    assert all(map(same_elements, found, expected))


# ---- whose memory


def test_memory_goes_back_to_the_allocator():
    """What is counted is what the allocator hands out."""
    x = torch.randn(256, 256, device="cuda", requires_grad=True)  # 256 KiB

    def peak(limit):
        gc.collect()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        with tape.budget(limit) as b:
            y = x
            for _ in range(12):
                y = torch.sin(y)
            loss, y = y.sum(), None
            assert saved_on("cuda:0") <= limit
            held = torch.cuda.memory_allocated() - before
            loss.backward()
        assert b.peak <= limit
        return held, torch.cuda.max_memory_allocated() - before

    free, limited = peak(1 << 40), peak(4 * 256 * 1024)
    assert free[0] >= 11 * 256 * 1024 and limited[0] <= 5 * 256 * 1024
    # Beside the tape: the gradient on its way, and what is computed again just now.
    assert limited[1] <= 9 * 256 * 1024 < free[1]


def test_each_device_has_its_own_account():
    """A budget of the GPU does not evict for what is on the CPU, nor the other way."""
    x = torch.randn(64, 64, device="cuda", requires_grad=True)  # 16 KiB
    y = torch.randn(64, 64, requires_grad=True)
    with tape.budget("80 KiB") as b:
        a, c = x, y
        for _ in range(4):
            a, c = a.sin(), c.sin()
        assert (b.evictions, saved_on("cuda:0"), saved_on("cpu")) == (0, 48 * 1024, 48 * 1024)
        (a.sum().cpu() + c.sum()).backward()
    assert (b.evictions, b.shortfall) == (0, 0) and b.peak <= 80 * 1024
    with tape.budget("40 KiB") as b:
        a, c = x, y
        for _ in range(6):
            a, c = a.sin(), c.cos()
        assert saved_on("cuda:0") <= 40 * 1024 and saved_on("cpu") <= 40 * 1024
        (a.sum().cpu() + c.sum()).backward()
    assert b.evictions > 0 and b.shortfall == 0


def test_values_move_between_devices():
    """What is computed again may come from the other device."""
    x = torch.randn(64, 64, device="cuda", requires_grad=True)

    def loss():
        y = x
        for _ in range(5):
            y = (y.sin().cpu().cos() * 1.5).cuda()
        return y.square().sum()

    compare([x], loss, (0.6,))


def test_two_devices(two_devices):
    x = torch.randn(64, 64, device="cuda:0", requires_grad=True)

    def loss():
        y = x
        for _ in range(4):
            y = y.sin().cos().to("cuda:1").exp().sin().to("cuda:0")
        return y.square().sum()

    compare([x], loss, (0.6,))


def test_a_limit_that_cannot_be_kept_names_the_device():
    x = torch.randn(64, 64, device="cuda", requires_grad=True)

    def hold():
        held = [x.sin()]
        for _ in range(5):
            held.append(held[-1].cos())
        held[-1].sum().backward()

    words = r"(?s)needed .* on cuda:0, .*the program still holds"
    with pytest.warns(tape.BudgetWarning, match=words), tape.budget("20 KiB"):
        hold()
    words = r"bytes on cuda:0, which is \d+ more than"
    with (
        pytest.raises(torch.OutOfMemoryError, match=words),
        tape.budget("20 KiB", strict=True),
    ):
        hold()


def test_a_fraction_of_what_is_needed():
    model, x = mlp(), data()
    b = tape.budget(0.5)
    for _ in range(3):
        with b:
            gradients(list(model.parameters()), lambda: model(x).pow(2).mean())
    assert b.limit > 0 and b.peak <= b.limit and b.recomputed > 0


# ---- who looks at the bytes


def test_the_host_reads_what_was_evicted():
    x = torch.randn(64, 64, device="cuda", requires_grad=True)
    with quiet_budget("40 KiB"):
        values = []
        y = x
        for _ in range(6):
            y = y.sin()
            values.append(y.grad_fn)
        y.sum().item()
        states = [entry.saved[0].state for entry in tape.live() if entry.op == "sin"]
        assert "evicted" in states
        for node in values[1:]:
            saved = node._saved_self
            assert torch.equal(saved.cpu(), saved.clone().cpu())
            assert same_elements(saved.t(), saved.t().contiguous())
        expected = x
        for node in values:
            assert expected[3, 5].item() == node._saved_self[3, 5].item()
            expected = expected.sin()
        del values, node, saved, expected, y


@pytest.mark.parametrize("of_input", [False, True])
def test_memory_whose_address_is_out(of_input):
    """It may be written unseen: what is computed from it is computed from a copy."""
    x = torch.randn(64, 64, device="cuda", requires_grad=True)
    factor = torch.randn(64, 64, device="cuda")
    if of_input:
        factor.data_ptr()

    def loss():
        y = x
        for _ in range(6):
            y = (y * factor).sin()
            if not of_input:
                y.data_ptr()
        return y.sum()

    (expected,) = gradients([x], loss)
    kept = factor.clone()
    with quiet_budget("64 KiB"):
        held = loss()
        if of_input:  # as another library would, by the address
            tape._memory.put(factor, torch.zeros_like(factor))
        before = saved_on("cuda:0")
    assert before <= 12 * 16 * 1024  # what copies take is no more than what they save
    tape._memory.put(factor, kept)
    x.grad = None
    held.backward()
    assert same_elements(x.grad, expected)


def test_sums_in_any_order_stay():
    """They would round differently, so that gradients would be those of other values."""
    x = torch.randn(64, 64, device="cuda", requires_grad=True)
    index = torch.zeros(64, 64, dtype=torch.int64, device="cuda")
    words = r"its elements are added in any order"
    with pytest.warns(tape.BudgetWarning, match=words), tape.budget("20 KiB"):
        y = x
        for _ in range(4):
            y = torch.zeros(64, 64, device="cuda").scatter_add(1, index, y.sin()).cos()
        y.sum().backward()


# ---- streams


def test_on_a_side_stream(emulator):
    """What is computed again is computed on its stream, and who asked waits for it."""
    x = torch.randn(64, 64, device="cuda", requires_grad=True)
    expected = gradients([x], lambda: _chain(x))
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with tape.budget("48 KiB") as b:
        with torch.cuda.stream(side):
            loss = _chain(x)
        torch.cuda.current_stream().wait_stream(side)
        x.grad = None
        loss.backward()  # on the default stream
    assert b.recomputed > 0
    assert same_elements(x.grad, expected[0])


def test_streams_take_turns(emulator):
    """Values of one stream are computed from those of another, and asked for on a third."""
    x = torch.randn(64, 64, device="cuda", requires_grad=True)
    expected = gradients([x], lambda: _chain(x))
    streams = [torch.cuda.Stream() for _ in range(3)]

    def turns():
        y, before = x, torch.cuda.current_stream()
        for i in range(6):
            stream = streams[i % 3]
            stream.wait_stream(before)
            with torch.cuda.stream(stream):
                y = y.sin() * 1.5
            before = stream
        torch.cuda.current_stream().wait_stream(before)
        return y.sum()

    with tape.budget("48 KiB") as b:
        loss = turns()
        x.grad = None
        for stream in streams:
            stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(streams[1]):
            loss.backward()
        torch.cuda.current_stream().wait_stream(streams[1])
    assert b.recomputed > 0
    assert same_elements(x.grad, expected[0])


@pytest.mark.parametrize("who", ["call", "host", "later host", "address"])
def test_who_asks_waits(emulator, who):
    """What is computed again on one stream may be asked for on a second, and read on a third."""
    x = torch.randn(64, 64, device="cuda", requires_grad=True)
    made, asking, reading = (torch.cuda.Stream() for _ in range(3))
    made.wait_stream(torch.cuda.current_stream())
    with quiet_budget("40 KiB"):
        with torch.cuda.stream(made):
            y, nodes = x, []
            for _ in range(6):
                y = y.sin()
                nodes.append(y.grad_fn)
        for stream in (asking, reading):
            stream.wait_stream(made)
        states = [tape.of(y)[number + 1].saved[0].state for number in range(6)]
        before = states.index("evicted")
        saved = nodes[before]._saved_self
        with torch.cuda.stream(asking):
            if who == "address":
                saved.data_ptr()
            copy = saved if who == "host" else saved * 1
            found = None if who == "later host" else copy.tolist()
        if who == "later host":
            with torch.cuda.stream(reading):
                found = saved.tolist()
        expected = x.detach()
        for _ in range(before):
            expected = expected.sin()
        assert found == expected.tolist()
        del copy, saved, nodes, y


def _chain(x):
    y = x
    for _ in range(6):
        y = y.sin() * 1.5
    return y.sum()


def test_memory_of_several_streams_stays():
    x = torch.randn(64, 64, device="cuda", requires_grad=True)
    side = torch.cuda.Stream()
    words = "it is used on several streams"
    with pytest.warns(tape.BudgetWarning, match=words), tape.budget("20 KiB"):
        y = x
        for _ in range(5):
            y = y.sin()
            y.record_stream(side)
        y.sum().backward()


def test_nothing_waits():
    """Evicting and computing again is queued: the CPU runs ahead."""
    model, x = mlp(4), data()
    gradients(list(model.parameters()), lambda: model(x).pow(2).mean())
    torch.cuda.set_sync_debug_mode("error")
    try:
        with quiet_budget("12 KiB") as b:
            model(x).pow(2).mean().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert b.recomputed > 0
