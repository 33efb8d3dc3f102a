"""CUDA graphs: replays of a captured step are the steps that the program would have taken.

Everything is compared bit for bit: the same kernels run in the same order, and draw the same
numbers. Of two models that begin alike one takes plain steps, the other captured ones.
"""

import contextlib

import pytest
from library import torch

from .test_training import MODELS, examples

cuda, nn, F = torch.cuda, torch.nn, torch.nn.functional
STEPS = 5
WARM = 2


@pytest.fixture(autouse=True)
def deterministic():
    """Gradients of embeddings and of attention are added up in any order otherwise."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def capture(function, **options):
    """Return a graph of what a function does, and what it returned."""
    g = cuda.CUDAGraph()
    with cuda.graph(g, **options):
        result = function()
    return g, result


@contextlib.contextmanager
def side_stream():
    """Run a block on a stream of its own, in order with the current one."""
    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        yield
    cuda.current_stream().wait_stream(side)


class Training:
    """A model, its optimizer, and the tensors that a step reads."""

    def __init__(self, model, make_optimizer, *, forward=None, scaler=None, clip=True):
        torch.manual_seed(0)
        self.model = (MODELS[model] if isinstance(model, str) else model)().cuda()
        self.optimizer = make_optimizer(self.model.parameters())
        inputs, targets = examples(count=12)
        self.batches = [(inputs[k : k + 4].cuda(), targets[k : k + 4].cuda()) for k in (0, 4, 8)]
        self.x, self.y = (each.clone() for each in self.batches[0])
        self.forward, self.scaler, self.clip = forward or self.model, scaler, clip

    def put(self, number):
        x, y = self.batches[number % len(self.batches)]
        self.x.copy_(x)
        self.y.copy_(y)

    def step(self, set_to_none=True):
        """Take a step; return the loss."""
        self.optimizer.zero_grad(set_to_none=set_to_none)
        loss = F.cross_entropy(self.forward(self.x).float(), self.y)
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()
        if self.scaler is not None:
            self.scaler.unscale_(self.optimizer)
        if self.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        return loss.detach()

    def state(self):
        values = [*self.model.parameters(), *self.model.buffers()]
        values += [p.grad for p in self.model.parameters()]
        for entry in self.optimizer.state.values():
            values += [value for value in entry.values() if isinstance(value, torch.Tensor)]
        if self.scaler is not None:
            values += [self.scaler._scale, self.scaler._growth_tracker]
        return [value.detach().cpu() for value in values]


def curve(training, captured, steps=STEPS, **options):
    """Return the losses of some steps, and the state behind them; begins with steps to warm up."""
    with side_stream():
        for number in range(WARM):
            training.put(number)
            training.step(**options)
    torch.manual_seed(7)
    losses = []
    if captured:
        training.put(1)  # nothing runs while it is captured, whatever is there
        if options.get("set_to_none", True):
            training.optimizer.zero_grad()
        g, loss = capture(lambda: training.step(**options))
    for number in range(steps):
        training.put(number)
        if captured:
            g.replay()
        else:
            loss = training.step(**options)
        losses.append(loss.item())
    return losses, training.state()


def assert_same_steps(make, **options):
    plain, expected = curve(make(), False, **options)
    captured, got = curve(make(), True, **options)
    assert captured == plain
    assert len(set(plain)) == len(plain), "nothing was learned"
    assert len(got) == len(expected)
    for mine, other in zip(got, expected, strict=True):
        assert torch.equal(mine, other)


def adamw(params):
    return torch.optim.AdamW(params, lr=0.01, capturable=True)


# ---- training


@pytest.mark.parametrize("model", MODELS)
def test_steps_of_models(model):
    assert_same_steps(lambda: Training(model, adamw))


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True, capturable=True),
    "fused": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True, capturable=True),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.01, capturable=True),
    "radam": lambda p: torch.optim.RAdam(p, lr=0.01, capturable=True),
    "adamax": lambda p: torch.optim.Adamax(p, lr=0.01, capturable=True),
    "adadelta": lambda p: torch.optim.Adadelta(p, lr=0.1, capturable=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5, capturable=True),
    "rprop": lambda p: torch.optim.Rprop(p, lr=0.01, capturable=True),
    "asgd": lambda p: torch.optim.ASGD(p, lr=0.01, capturable=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01, fused=True),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_steps_of_optimizers(optimizer):
    assert_same_steps(lambda: Training("mlp", OPTIMIZERS[optimizer]))


def test_gradients_that_are_set_to_zero():
    assert_same_steps(lambda: Training("mlp", adamw), set_to_none=False)


def test_a_learning_rate_on_the_device():
    def run(captured):
        lr = torch.full((), 0.01, device="cuda")
        training = Training("mlp", lambda p: torch.optim.Adam(p, lr=lr, capturable=True))
        for _ in range(WARM):
            training.step()
        torch.manual_seed(7)
        g = capture(training.step)[0] if captured else None
        for number in range(STEPS):
            lr.fill_(0.05 / (1 + number))
            if captured:
                g.replay()
            else:
                training.step()
        return training.state()

    assert all(map(torch.equal, run(True), run(False)))


@pytest.mark.parametrize("optimizer", ["fused", "sgd"])
def test_scaled_steps(optimizer):
    """Some of the steps overflow: they are left out, and the scale becomes smaller."""
    makers = {"sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, fused=True)}

    def run(captured):
        scaler = torch.amp.GradScaler(init_scale=2.0**15, growth_interval=2)
        maker = makers.get(optimizer) or OPTIMIZERS[optimizer]

        def forward(x):
            with torch.autocast("cuda", torch.float16):
                return training.model(x)

        training = Training("mlp", maker, forward=forward, scaler=scaler)
        for number in range(WARM):
            training.put(number)
            training.step()
        torch.manual_seed(7)
        g = capture(training.step)[0] if captured else None
        scales = []
        for number in range(8):
            training.put(number)
            if number in (3, 4):
                training.x.mul_(1e5)
            if captured:
                g.replay()
            else:
                training.step()
            scales.append(scaler.get_scale())
        return scales, training.state()

    (plain, expected), (captured, got) = run(False), run(True)
    assert captured == plain and min(plain) < max(plain)
    assert all(map(torch.equal, got, expected))


def test_a_step_is_left_out_on_the_device_without_a_graph():
    p = torch.ones(3, device="cuda", requires_grad=True)
    for make in (
        lambda: torch.optim.Adam([p], fused=True),
        lambda: torch.optim.SGD([p], fused=True, momentum=0.5),
        lambda: torch.optim.SGD([p], fused=True),
    ):
        optimizer, scaler = make(), torch.amp.GradScaler(init_scale=4.0)
        for value in (1.0, float("inf"), 1.0):
            before = p.detach().clone()
            optimizer.zero_grad()
            scaler.scale((p * value).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            assert torch.equal(before, p.detach()) == (value != 1.0)
        assert scaler.get_scale() == 2.0
        if "step" in optimizer.state[p]:
            assert optimizer.state[p]["step"].item() == 2


# ---- random numbers


def test_every_kind_of_number():
    """Draws are those of the program, and go on behind those of the replay."""
    p = torch.full((40,), 0.3, device="cuda")

    def draw():
        return [
            torch.rand(37, device="cuda"),
            torch.randn(5, 3, device="cuda", dtype=torch.float64),
            torch.randint(0, 9, (11,), device="cuda"),
            torch.empty(9, device="cuda").exponential_(),
            torch.bernoulli(p),
            torch.poisson(p * 40),
            torch.multinomial(p, 3),
            torch.multinomial(p, 30, replacement=True),
            F.dropout(p),
        ]

    torch.manual_seed(11)
    expected = [[x.tolist() for x in draw()] for _ in range(4)]
    g, drawn = capture(draw)
    torch.manual_seed(11)
    got = []
    for number in range(4):
        if number == 2:
            got.append([x.tolist() for x in draw()])
            continue
        g.replay()
        got.append([x.tolist() for x in drawn])
    assert got == expected


def test_a_capture_leaves_the_generator_alone():
    torch.manual_seed(3)
    before = cuda.get_rng_state()
    capture(lambda: torch.rand(10, device="cuda"))
    assert torch.equal(cuda.get_rng_state(), before)
    with pytest.raises(KeyError), cuda.graph(cuda.CUDAGraph()):
        torch.rand(10, device="cuda")
        raise KeyError
    assert torch.equal(cuda.get_rng_state(), before)


def test_a_generator_of_ones_own():
    own = torch.Generator("cuda").manual_seed(5)
    expected = [torch.rand(4, device="cuda", generator=own).tolist() for _ in range(3)]
    own.manual_seed(5)
    with (
        pytest.raises(RuntimeError, match=r"random_uniform: .* register_generator_state"),
        cuda.graph(cuda.CUDAGraph()),
    ):
        torch.rand(4, device="cuda", generator=own)
    g = cuda.CUDAGraph()
    g.register_generator_state(own)
    own.manual_seed(5)
    with cuda.graph(g):
        x = torch.rand(4, device="cuda", generator=own)
    got = []
    for _ in range(3):
        g.replay()
        got.append(x.tolist())
    assert got == expected
    with pytest.raises(RuntimeError, match="generator of a CUDA device"):
        g.register_generator_state(torch.Generator())


def test_states_of_generators_in_a_capture():
    before = cuda.get_rng_state()
    kept = []

    def draw():
        state = cuda.get_rng_state()
        kept.append(state)
        x = torch.rand(4, device="cuda")
        cuda.set_rng_state(state)
        return x, torch.rand(4, device="cuda")

    g, (x, y) = capture(draw)
    g.replay()
    assert x.tolist() == y.tolist()
    with pytest.raises(RuntimeError, match="state that the generator has had since the capture"):
        capture(lambda: cuda.set_rng_state(torch.zeros_like(before)))
    with pytest.raises(RuntimeError, match=r"manual_seed: .* while a CUDA graph is captured"):
        capture(lambda: torch.manual_seed(0))
    with pytest.raises(RuntimeError, match="taken while a CUDA graph was captured"):
        cuda.set_rng_state(kept[0])
    torch.rand(3, device="cuda")


# ---- together with other features


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_draw_the_same_numbers_again(reentrant):
    def make():
        def forward(x):
            x = x.requires_grad_()
            return torch.utils.checkpoint.checkpoint(
                training.model, x, use_reentrant=reentrant, preserve_rng_state=True
            )

        training = Training("mlp", adamw, forward=lambda x: forward(x.detach()))
        return training

    assert_same_steps(make)


def test_autocast():
    def make():
        def forward(x):
            with torch.autocast("cuda", torch.bfloat16):
                return training.model(x)

        training = Training("gpt", adamw, forward=forward)
        return training

    assert_same_steps(make)


def test_casts_that_autocast_keeps():
    """Neither those from before the capture are in the graph, nor its own of use after it."""
    linear = nn.Linear(4, 4).cuda()
    x = torch.linspace(-1, 1, 8, device="cuda").view(2, 4)
    with torch.autocast("cuda", torch.bfloat16):
        linear(x)
        g, y = capture(lambda: linear(x))
        z = linear(x)
        with pytest.raises(KeyError), cuda.graph(cuda.CUDAGraph()):
            linear(x)
            raise KeyError
        assert torch.equal(z, linear(x))
    g.replay()
    assert torch.equal(y, z)
    with torch.no_grad():
        linear.weight.mul_(2)
    g.replay()
    with torch.autocast("cuda", torch.bfloat16):
        assert torch.equal(y, linear(x))


def deep():
    layers = [nn.Linear(6, 24)]
    for _ in range(6):
        layers += [nn.Tanh(), nn.Dropout(0.1), nn.Linear(24, 24)]
    return nn.Sequential(*layers, nn.Linear(24, 3))


def test_a_budget():
    """What is computed again is captured where that happens, random numbers included."""
    torch.manual_seed(0)
    model, (x, _) = deep().cuda(), examples(count=16)
    x = x.cuda()

    def gradients(limit):
        with torch.tape.budget(limit) as budget:
            grads = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
        return grads, budget.evictions

    gradients("10 MiB")
    torch.manual_seed(2)
    expected = [[g.tolist() for g in gradients("10 MiB")[0]] for _ in range(3)]
    g, (grads, evictions) = capture(lambda: gradients("12 KiB"))
    torch.manual_seed(2)
    got = []
    for _ in range(3):
        g.replay()
        got.append([each.tolist() for each in grads])
    assert got == expected and evictions > 0


def test_second_derivatives_and_vmap():
    x = torch.linspace(-1, 1, 6, device="cuda").requires_grad_()

    def second():
        (first,) = torch.autograd.grad((x.sin() * x).sum(), x, create_graph=True)
        (again,) = torch.autograd.grad((first * first).sum(), x)
        rows = torch.func.vmap(lambda row: (row * 2).softmax(0))(x.view(2, 3))
        noise = torch.func.vmap(lambda row: F.dropout(row, 0.5), randomness="different")(
            torch.ones(4, 8, device="cuda")
        )
        return [again, rows.detach(), noise]

    second()
    torch.manual_seed(2)
    expected = [[each.tolist() for each in second()] for _ in range(3)]
    g, results = capture(second)
    torch.manual_seed(2)
    got = []
    for _ in range(3):
        g.replay()
        got.append([each.tolist() for each in results])
    assert got == expected


def test_a_program_in_a_graph():
    """One that was recorded before runs in a capture, and one is recorded there."""
    w = torch.ones(3, device="cuda")
    x = torch.linspace(0, 1, 3, device="cuda")
    with torch.tape.record(replay=True) as t:
        y = (x * w).tanh()
    program = t.program(names={"x": x, "w": w}, outputs={"y": y})
    with torch.tape.record(replay=True) as t:
        drawn = F.dropout(x)
    random_program = t.program(names={"x": x}, outputs={"y": drawn})

    def run():
        with torch.tape.record(replay=True) as inside:
            z = (x * w).sin()
        return program.run({"x": x, "w": w})["y"], z, inside.program(outputs={"z": z})

    g, (y, z, inside) = capture(run)
    x.fill_(0.25)
    g.replay()
    assert torch.equal(y, (x * w).tanh()) and torch.equal(z, (x * w).sin())
    assert "sin(" in str(inside)
    with pytest.raises(RuntimeError, match="random numbers of a generator that the graph does not"):
        capture(lambda: random_program.run({"x": x}))


def test_without_gradients_and_under_a_profiler():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)).cuda().eval()
    x = torch.ones(3, 4, device="cuda")
    with torch.no_grad():
        model(x)
        with torch.profiler.profile() as profile:
            g, y = capture(lambda: model(x))
    assert not y.requires_grad
    x.fill_(-2.0)
    g.replay()
    assert torch.equal(y, model(x).detach())
    assert any("relu" in row.key for row in profile.key_averages())


def test_a_profile_within_a_capture():
    x = torch.ones(4, device="cuda")

    def step():
        with torch.profiler.profile() as profile:
            y = x.sin()
        return y, profile

    g, (y, profile) = capture(step)
    g.replay()
    assert torch.equal(y, x.sin()) and any("sin" in row.key for row in profile.key_averages())


def test_branches_on_other_streams():
    """Streams that wait for the captured one are captured, too; backward joins them again."""
    s = cuda.Stream()
    x = torch.linspace(0, 1, 50, device="cuda").requires_grad_()

    def branches(side):
        if side is None:
            return (x.sin().exp() + x.cos()).sum()
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            a = x.sin().exp()
        b = x.cos()
        cuda.current_stream().wait_stream(side)
        return (a + b).sum()

    def run(side):
        y = branches(side)
        return [y.detach(), *torch.autograd.grad(y, x)]

    expected = [each.tolist() for each in run(None)]
    g, results = capture(lambda: run(s))
    g.replay()
    assert [each.tolist() for each in results] == expected
    with torch.no_grad():
        x.mul_(2)
    g.replay()
    assert [each.tolist() for each in results] == [each.tolist() for each in run(None)]


def test_entries_of_leaves_from_before_the_capture():
    """A tape that is still there keeps the entry of a leaf, which was made on another stream."""
    w = torch.ones(4, device="cuda", requires_grad=True)
    held = (w * 2).sum()
    w.grad = torch.zeros(4, device="cuda")

    def step():
        (w * w).sum().backward()

    g, _ = capture(step)
    for _ in range(3):
        g.replay()
    assert w.grad.tolist() == [6.0] * 4 and held.item() == 8.0


# ---- the interface


def test_replays_on_other_streams_are_in_order():
    x = torch.zeros(1000, device="cuda")
    g, _ = capture(lambda: x.add_(1))
    streams = [cuda.Stream() for _ in range(3)]
    for stream in streams:
        stream.wait_stream(cuda.current_stream())
    for _ in range(3):
        for stream in streams:
            with cuda.stream(stream):
                g.replay()
    cuda.synchronize()
    assert x.tolist() == [9.0] * 1000


def test_the_calls_of_a_graph():
    x = torch.ones(3, device="cuda")
    g = cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        g.replay()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        g.pool()
    with pytest.raises(RuntimeError, match="non-default stream"):
        g.capture_begin()
    with pytest.raises(RuntimeError, match="called without capture_begin"):
        g.capture_end()
    s = cuda.Stream()
    s.wait_stream(cuda.current_stream())
    with cuda.stream(s):
        assert not cuda.is_current_stream_capturing()
        with pytest.raises(RuntimeError, match="Unknown capture error mode"):
            g.capture_begin(capture_error_mode="loose")
        g.capture_begin(capture_error_mode="thread_local")
        assert cuda.is_current_stream_capturing()
        with pytest.raises(RuntimeError, match="another CUDA graph is being captured"):
            cuda.CUDAGraph().capture_begin()
        y = x + 1
        with (
            cuda.stream(cuda.Stream()),
            pytest.raises(RuntimeError, match="same stream it began on"),
        ):
            g.capture_end()
        g.capture_end()
    assert not cuda.is_current_stream_capturing()
    with pytest.raises(RuntimeError, match="already owns a captured graph"), cuda.stream(s):
        g.capture_begin()
    g.replay()
    assert y.tolist() == [2.0] * 3
    assert g.pool() == g.pool() and len(g.pool()) == 2
    g.reset()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        g.replay()
    with cuda.graph(g):
        y = x + 2
    g.replay()
    assert y.tolist() == [3.0] * 3


def test_graphs_that_are_kept(tmp_path):
    x = torch.ones(3, device="cuda")
    g = cuda.CUDAGraph(keep_graph=True)
    with cuda.graph(g):
        y = x + 1
    assert g.raw_cuda_graph() != 0
    g.instantiate()
    g.replay()
    assert y.tolist() == [2.0] * 3 and g.raw_cuda_graph_exec() != 0
    g = cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="enable_debug_mode"):
        g.debug_dump(str(tmp_path / "graph.dot"))
    g.enable_debug_mode()
    with cuda.graph(g):
        y = x + 1
    g.debug_dump(str(tmp_path / "graph.dot"))
    assert "digraph" in (tmp_path / "graph.dot").read_text()
    g.replay()


def test_an_empty_graph():
    with pytest.warns(UserWarning, match="The CUDA Graph is empty"):
        g, _ = capture(lambda: None)
    g.replay()
    cuda.synchronize()


def test_a_graph_of_another_device(two_devices):
    with cuda.device(1):
        x = torch.ones(3, device="cuda:1")
        g, y = capture(lambda: x * 3)
    x.fill_(2)
    g.replay()
    assert y.tolist() == [6.0] * 3 and y.device.index == 1
