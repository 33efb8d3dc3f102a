"""Each way in which a replay could differ from running the code again: made right, or refused."""

import copy
import io
import pickle
import threading

import numpy as np
import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("the tape is tapegrad's own", allow_module_level=True)

from tapegrad import tape

functional = torch.nn.functional


def replayed(function, old, new):
    """Record a function of one tensor, replay it; return that and what running it again gives."""
    x = old.clone()
    with tape.record(replay=True, inputs=x) as t:
        result = function(x)
    found = t.replay(new, outputs=result)
    return found, function(new.clone())


def give_other_memory(parameter):
    with torch.no_grad():
        parameter.set_(parameter * 2)


# ---- calls name what their operands were


class TestTensorsThatChangeTheirPlace:
    @pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
    def test_an_out_that_shrinks_inside_the_block(self):
        x, out = torch.arange(4.0), torch.empty(4)
        with tape.record(replay=True, inputs=x) as t:
            b = torch.mul(x, 2.0, out=out) + 0
            c = torch.mul(x[:2], 3.0, out=out)
            z = torch.cat([b, c])  # noqa: F841
        new = torch.tensor([10.0, 20.0, 30.0, 40.0])
        assert t.replay(new).tolist() == [20, 40, 60, 80, 30, 60]

    @pytest.mark.parametrize(
        "change",
        [
            lambda y: y.t_(),
            lambda y: y.resize_(6),
            lambda y: y.resize_(3, 4),
            lambda y: y.unsqueeze_(0),
            lambda y: y.set_(y.flip(0)),
            lambda y: setattr(y, "data", y.data * 3),
        ],
        ids=["t_", "smaller", "larger", "unsqueeze_", "set_", "data"],
    )
    def test_of_the_block(self, change):
        def function(x):
            y = x * 2
            total = y.sum()
            change(y)
            return y.flatten()[:6] * total

        found, expected = replayed(function, torch.randn(2, 3), torch.randn(2, 3))
        assert torch.equal(found, expected)

    @pytest.mark.parametrize(
        "change", [lambda x: x.t_(), lambda x: x.resize_(2)], ids=["t_", "less"]
    )
    def test_of_outside_is_refused(self, change):
        x = torch.randn(2, 3)
        with tape.record(replay=True, inputs=x) as t:
            y = x * 2  # noqa: F841
            change(x)
        with pytest.raises(
            RuntimeError, match=r"gave a tensor that the block found outside another"
        ):
            t.replay(torch.randn_like(x))

    @pytest.mark.parametrize("within", [False, True], ids=["between", "within"])
    @pytest.mark.parametrize(
        "replace",
        [
            lambda m: setattr(m.weight, "data", m.weight.data * 2),
            lambda m: give_other_memory(m.weight),
            lambda m: torch.nn.utils.vector_to_parameters(torch.ones(8), [m.weight, m.bias]),
            lambda m: m.load_state_dict(
                {"weight": torch.ones(2, 3), "bias": torch.ones(2)}, assign=True
            ),
            lambda m: setattr(m, "weight", torch.nn.Parameter(torch.ones(2, 3))),
            lambda m: m.double().float(),
        ],
        ids=["data", "set_", "vector_to_parameters", "assign", "setattr", "double"],
    )
    def test_parameters(self, replace, within):
        model, peer = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
        peer.load_state_dict(model.state_dict())
        x, new = torch.randn(4, 3), torch.randn(4, 3)
        with tape.record(replay=True, inputs=x) as t:
            y = model(x).sum()
            if within:
                replace(model)
        if not within:
            replace(model)
        replace(peer)
        try:
            found = t.replay(new, outputs=y)
        except RuntimeError as error:
            words = ("has been given", "has been replaced", "found outside another shape")
            assert any(each in str(error) for each in words)
        else:
            assert torch.equal(found, peer(new).sum().detach())

    def test_what_is_written_in_place_is_seen(self):
        model = torch.nn.Linear(3, 2)
        x, new = torch.randn(4, 3), torch.randn(4, 3)
        with tape.record(replay=True, inputs=x) as t:
            y = model(x)
        model.load_state_dict({"weight": torch.ones(2, 3), "bias": torch.ones(2)})
        assert torch.equal(t.replay(new, outputs=y), model(new).detach())

    def test_a_buffer_that_the_block_replaces(self):
        class Count(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("seen", torch.zeros(()))

            def forward(self, x):
                self.seen = self.seen + x.sum()
                return x * self.seen

        model, x = Count(), torch.ones(2)
        with tape.record(replay=True, inputs=x) as t:
            model(x)
        with pytest.raises(RuntimeError, match="'seen' of a Count has been replaced"):
            t.replay(torch.ones(2))


# ---- bytes that leave


LEAVING = {
    "item": lambda y: y.sum().item(),
    "tolist": lambda y: y.tolist()[0],
    "numpy": lambda y: float(y.numpy()[0]),
    "__array__": lambda y: float(np.asarray(y)[0]),
    "from_dlpack": lambda y: float(np.from_dlpack(y)[0]),
    "dlpack of torch": lambda y: float(torch.from_dlpack(y)[0]),
    "pickle": lambda y: pickle.loads(pickle.dumps(y))[0].item(),
    "deepcopy": lambda y: copy.deepcopy(y)[0].item(),
    "copy": lambda y: copy.copy(y)[0].item(),
    "save": lambda y: _saved(y),
    "repr": lambda y: float(len(repr(y))),
    "format": lambda y: float(f"{y[0]}"),
    "buffer": lambda y: float(memoryview(y.numpy())[0]),
    "ctypes": lambda y: _first_at(y.data_ptr()),
    "storage": lambda y: _first_at(y.untyped_storage().data_ptr()),
    "iteration": lambda y: sum(float(each) for each in y),
    "max": lambda y: max(y.tolist()),
    "equal": lambda y: float(torch.equal(y, torch.full((3,), 2.0))),
    "hash of bytes": lambda y: float(y.numpy().tobytes()[3]),
}


def _first_at(address):
    import ctypes

    return ctypes.c_float.from_address(address).value


def _saved(y):
    file = io.BytesIO()
    torch.save({"y": y}, file)
    file.seek(0)
    return torch.load(file)["y"][0].item()


@pytest.mark.parametrize("way", LEAVING)
def test_bytes_that_leave_are_a_guard(way):
    def function(x):
        return x * LEAVING[way](x * 2)

    x = torch.full((3,), 1.0)
    with tape.record(replay=True, inputs=x) as t:
        y = function(x)
    before = y.clone()
    with pytest.raises(RuntimeError, match="a guard does not hold"):
        t.replay(torch.tensor([5.0, 7.0, 9.0]))
    assert torch.equal(y, before) and x.tolist() == [1, 1, 1]


def test_a_pickled_value_comes_back_when_the_bytes_are_the_same():
    x, scale = torch.ones(3), torch.full((3,), 4.0)
    with tape.record(replay=True, inputs=x) as t:
        y = x * pickle.loads(pickle.dumps(scale))
    assert t.replay(torch.full((3,), 2.0), outputs=y).tolist() == [8, 8, 8]


def test_memory_that_an_array_shares():
    """What is written through the array is no call."""
    x = torch.ones(3)
    with tape.record(replay=True, inputs=x) as t:
        y = x * 2
        y.numpy()[:] = 7
        z = y + 1
    assert z.tolist() == [8, 8, 8]
    with pytest.raises(RuntimeError, match="a guard does not hold"):
        t.replay(torch.ones(3))
    with tape.record(replay=True, inputs=x) as t:
        y = x * 2
        array = y.numpy()
        y += x
        z = x * float(array[0])
    with pytest.raises(RuntimeError, match=r"add wrote to memory .* such as a NumPy array"):
        t.replay(torch.ones(3))


def test_values_from_python_that_are_written_to():
    """A list becomes a new tensor each time the code runs."""

    def function(x):
        total = torch.tensor([1.0, 2.0])
        total += x
        count = torch.tensor(5.0)
        count *= x[0]
        return total * count

    x = torch.ones(2)
    with tape.record(replay=True, inputs=x) as t:
        y = function(x)
    for new in (torch.tensor([3.0, 4.0]), torch.tensor([5.0, 6.0])):
        assert torch.equal(t.replay(new, outputs=y), function(new))


def test_an_array_that_is_written_to():
    x = torch.ones(2)
    with tape.record(replay=True, inputs=x) as t:
        total = torch.from_numpy(np.zeros(2, np.float32))
        total += x
    with pytest.raises(RuntimeError, match="wrote to memory that something outside"):
        t.replay(x)


# ---- other threads


def in_thread(function):
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


THREADS = {
    "computes": lambda x: in_thread(lambda: x * 3) + 1,
    "looks": lambda x: x * in_thread(lambda: (x * 3).sum().item()),
    "looks at a result": lambda x: x * in_thread((x * 3).sum().item),
    "looks first": lambda x: x * in_thread(lambda: x.tolist()[0]),
    "writes": lambda x: (in_thread(lambda y=x * 2: y.mul_(3)), x * 2)[1],
    "numpy": lambda x: x * float(in_thread(lambda: x.numpy().sum())),
}


@pytest.mark.parametrize("what", THREADS)
def test_another_thread(what):
    x = torch.ones(3)
    with tape.record(replay=True, inputs=x) as t:
        THREADS[what](x)
    try:
        found = t.replay(torch.full((3,), 5.0))
    except RuntimeError as error:
        assert "while the block ran, another thread" in str(error)
    else:
        assert torch.equal(found, THREADS[what](torch.full((3,), 5.0)))


def test_backward_on_another_thread():
    w, x = torch.ones(3, requires_grad=True), torch.ones(3)
    with tape.record(replay=True, inputs=x) as t:
        in_thread((w * x).square().sum().backward)
    with pytest.raises(RuntimeError, match="another thread"):
        t.replay(torch.full((3,), 5.0))


def test_a_thread_that_works_for_itself_does_no_harm():
    model, x = torch.nn.Linear(3, 2), torch.ones(4, 3)
    with tape.record(replay=True, inputs=x) as t:
        y = model(x)
        in_thread(lambda: model(torch.randn(5, 3)).sum().item())
    new = torch.randn(4, 3)
    assert torch.equal(t.replay(new, outputs=y), model(new).detach())


# ---- compressed


class TestCompressed:
    def test_indices_beyond_the_recorded_range(self):
        table = torch.randn(100_000, 4, requires_grad=True)
        index = torch.randint(0, 100, (512,))
        with tape.compress("exact"), tape.record(replay=True, inputs=index) as t:
            loss = functional.embedding(index, table).square().sum()
        for new in (torch.randint(99_000, 100_000, (512,)), torch.randint(0, 100, (512,))):
            fresh = functional.embedding(new, table).square().sum()
            (expected,) = torch.autograd.grad(fresh, table)
            assert torch.equal(t.replay(new, outputs=loss), fresh.detach())
            assert torch.equal(t.vjp()[table], expected)

    def test_a_mask_that_is_no_longer_0_or_1(self):
        w = torch.randn(1024, requires_grad=True)
        mask = (torch.rand(1024) > 0.5).float()
        with tape.compress("exact"), tape.record(replay=True, inputs=mask) as t:
            loss = (w * mask).sum()
        for new in (torch.randn(1024), torch.full((1024,), 2.0), torch.full((1024,), 0.25)):
            assert torch.equal(t.replay(new, outputs=loss), (w * new).sum().detach())
            assert torch.equal(t.vjp()[w], new)

    def test_codes_of_before_the_block_are_not_shared(self):
        w = torch.randn(1024, requires_grad=True)
        mask = (torch.rand(1024) > 0.5).float()
        with tape.compress("exact"):
            other = (w * mask).sum()
            with tape.record(replay=True, inputs=mask) as t:
                loss = (w * mask).sum()  # noqa: F841
        first = mask.clone()
        t.replay(1 - first)
        assert torch.equal(t.vjp()[w], 1 - first)
        assert torch.equal(torch.autograd.grad(other, w)[0], first)

    @pytest.mark.parametrize("codec", ["exact", "bf16", "int8", "int4"])
    @pytest.mark.parametrize("kind", ["relu", "dropout", "max_pool", "where", "gelu"])
    def test_codecs(self, codec, kind):
        weight = torch.randn(4, 4, requires_grad=True)

        def function(x):
            torch.manual_seed(3)
            y = (x.reshape(-1, 4) @ weight).reshape(1, 4, 16, 16)
            if kind == "relu":
                y = functional.relu(y)
            elif kind == "dropout":
                y = functional.dropout(y, 0.5)
            elif kind == "max_pool":
                y = functional.max_pool2d(y, 2)
            elif kind == "where":
                y = torch.where(y > 0, y * y, y * 3)
            else:
                y = functional.gelu(y)
            return y.sum()

        x, new = torch.randn(1024), torch.randn(1024) * 3
        with tape.compress(codec):
            with tape.record(replay=True, inputs=x) as t:
                loss = function(x)
            fresh = function(new.clone())
        assert torch.equal(t.replay(new, outputs=loss), fresh.detach())
        (exact,) = torch.autograd.grad(function(new), weight)
        found = t.vjp()[weight]
        if codec == "exact":
            assert torch.equal(found, exact)
        else:
            (expected,) = torch.autograd.grad(fresh, weight)
            bound = {"bf16": 0.02, "int8": 0.05, "int4": 0.5}[codec]
            assert (found - exact).norm() <= bound * exact.norm()
            assert (expected - exact).norm() <= bound * exact.norm()


# ---- what else a replay writes over


class TestOtherGraphs:
    def test_that_saved_an_input(self):
        w, x = torch.ones(3, requires_grad=True), torch.full((3,), 2.0)
        other = (w * x).sum()
        with tape.record(replay=True, inputs=x) as t:
            loss = (w * x).square().sum()  # noqa: F841
        t.replay(torch.full((3,), 9.0))
        assert t.vjp()[w].tolist() == [162.0] * 3
        with pytest.raises(RuntimeError, match=r"MulBackward0: .* overwritten by a replay"):
            other.backward()

    def test_that_goes_on_behind_the_block(self):
        w, x = torch.ones(3, requires_grad=True), torch.full((3,), 2.0)
        with tape.record(replay=True, inputs=x) as t:
            y = w * x
        loss = y.square().sum()
        t.replay(torch.full((3,), 9.0))
        with pytest.raises(RuntimeError, match=r"SquareBackward0: .* overwritten by a replay"):
            loss.backward()
        y.square().sum().backward()
        assert w.grad.tolist() == [162.0] * 3

    def test_that_keep_other_memory(self):
        w, x = torch.ones(3, requires_grad=True), torch.full((3,), 2.0)
        other = (w * x.clone()).sum()
        with tape.record(replay=True, inputs=x) as t:
            w * x
        t.replay(torch.full((3,), 9.0))
        other.backward()
        assert w.grad.tolist() == [2.0] * 3


def test_an_op_that_fails_leaves_no_values_to_use():
    table, index = torch.randn(5, 2, requires_grad=True), torch.tensor([1, 2])
    with tape.record(replay=True, inputs=index) as t:
        loss = functional.embedding(index, table).square().sum()  # noqa: F841
    with pytest.raises(RuntimeError, match=r"replay: an op failed with the new inputs.*until"):
        t.replay(torch.tensor([1, 7]))
    with pytest.raises(RuntimeError, match="overwritten by a replay"):
        t.vjp()
    new = torch.tensor([3, 3])
    t.replay(new)
    (expected,) = torch.autograd.grad(functional.embedding(new, table).square().sum(), table)
    assert torch.equal(t.vjp()[table], expected)


# ---- inputs


class TestInputs:
    def test_that_share_memory_must_agree(self):
        base = torch.zeros(4)
        with tape.record(replay=True, inputs=[base[:3], base[1:]]) as t:
            y = base[:3] * base[1:]
        one, other = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0, 3.0, 4.0])
        assert t.replay(one, other, outputs=y).tolist() == [2, 6, 12]
        with pytest.raises(ValueError, match="share memory, and the new ones differ"):
            t.replay(one, torch.tensor([5.0, 6.0, 7.0]))
        assert base.tolist() == [1, 2, 3, 4]

    def test_that_are_expanded(self):
        x = torch.ones(1).expand(3)
        with tape.record(replay=True, inputs=x) as t:
            x * 2
        assert t.replay(torch.full((3,), 4.0)).tolist() == [8, 8, 8]
        with pytest.raises(ValueError, match="share memory"):
            t.replay(torch.tensor([1.0, 2.0, 3.0]))

    def test_with_other_strides(self):
        x, new = torch.randn(3, 4), torch.randn(4, 3).t()
        with tape.record(replay=True, inputs=x) as t:
            x.flatten() * 2
        assert torch.equal(t.replay(new), new.flatten() * 2)

    def test_that_the_block_overwrites(self):
        def function(x):
            x.mul_(2)
            y = x + 1
            x.zero_()
            return y

        found, expected = replayed(function, torch.ones(3), torch.full((3,), 5.0))
        assert torch.equal(found, expected)

    def test_that_are_results_of_the_block(self):
        x = torch.ones(3)
        with tape.record(replay=True, inputs=x) as t:
            y = x * 2
        for expected in (4.0, 8.0):
            assert t.replay(y).tolist() == [expected] * 3


# ---- modes, modules and optimizers


def test_a_replay_inside_a_recorded_block_is_refused():
    x = torch.ones(3)
    with tape.record(replay=True, inputs=x) as inner:
        x * 2
    words = "replay: a replay inside a block"
    with tape.record(replay=True, inputs=x), pytest.raises(RuntimeError, match=words):
        inner.replay(x)


def test_grad_mode_of_the_replay_does_not_matter():
    w, x = torch.ones(3, requires_grad=True), torch.ones(3)
    with tape.record(replay=True, inputs=x) as t:
        loss = (w * x).square().sum()  # noqa: F841
    for mode in (torch.no_grad, torch.inference_mode, torch.enable_grad):
        with mode():
            assert t.replay(torch.full((3,), 5.0)).item() == 75.0
        assert t.vjp()[w].tolist() == [50.0] * 3


def test_a_module_in_another_mode():
    model, x = torch.nn.Dropout(0.5), torch.ones(8)
    with tape.record(replay=True, inputs=x) as t:
        model(x)
    model.eval()
    with pytest.raises(RuntimeError, match="Dropout was recorded with training=True, now it is F"):
        t.replay(x)
    model.train()
    t.replay(x)


def training_step(optimizer_of):
    model = torch.nn.Linear(3, 2)
    optimizer = optimizer_of(model.parameters())

    def step(x):
        optimizer.zero_grad(set_to_none=False)
        model(x).square().sum().backward()
        optimizer.step()

    return model, optimizer, step


class TestOptimizers:
    def test_the_first_step_makes_the_state(self):
        x = torch.randn(4, 3)
        _, _, step = training_step(torch.optim.Adam)
        with tape.record(replay=True, inputs=x) as t:
            step(x)
        with pytest.raises(RuntimeError, match=r"step of Adam made its state, .*before the block"):
            t.replay(x)

    @pytest.mark.parametrize("change", ["lr", "load_state_dict", "schedule"])
    def test_what_changes_between(self, change):
        x = torch.randn(4, 3)
        _, optimizer, step = training_step(torch.optim.Adam)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        step(x)
        with tape.record(replay=True, inputs=x) as t:
            step(x)
        t.replay(x)
        if change == "lr":
            optimizer.param_groups[0]["lr"] = 0.5
        elif change == "schedule":
            schedule.step()
        else:
            optimizer.load_state_dict(optimizer.state_dict())
        words = "state of Adam" if change == "load_state_dict" else "'lr' of Adam"
        with pytest.raises(RuntimeError, match=f"replay: .*{words}"):
            t.replay(x)

    def test_a_learning_rate_in_a_tensor_is_a_guard(self):
        x, lr = torch.randn(4, 3), torch.tensor(0.1)
        _, _, step = training_step(lambda parameters: torch.optim.SGD(parameters, lr=lr))
        step(x)
        with tape.record(replay=True, inputs=x) as t:
            step(x)
        t.replay(x)
        lr.fill_(0.2)
        with pytest.raises(RuntimeError, match="a guard does not hold"):
            t.replay(x)


class TestGradients:
    def test_that_were_set_to_none_come_back(self):
        w, x = torch.ones(3, requires_grad=True), torch.ones(3)
        with tape.record(replay=True, inputs=x) as t:
            (w * x).sum().backward()
        w.grad = None
        t.replay(torch.full((3,), 4.0))
        assert w.grad.tolist() == [4.0] * 3

    def test_that_are_other_tensors(self):
        w, x = torch.ones(3, requires_grad=True), torch.ones(3)
        with tape.record(replay=True, inputs=x) as t:
            (w * x).sum().backward()
        w.grad = torch.zeros(3)
        with pytest.raises(RuntimeError, match=r"replay: the \.grad of a tensor of shape \(3,\)"):
            t.replay(x)

    def test_that_add_up(self):
        w, x = torch.ones(3, requires_grad=True), torch.ones(3)
        w.grad = torch.zeros(3)
        with tape.record(replay=True, inputs=x) as t:
            (w * x).sum().backward()
        t.replay(torch.full((3,), 4.0))
        assert w.grad.tolist() == [5.0] * 3

    def test_of_before_the_block(self):
        """A step of an optimizer alone: the next backward makes other gradients."""
        model, optimizer, _ = training_step(lambda each: torch.optim.SGD(each, lr=0.1))
        model(torch.ones(1, 3)).sum().backward()
        with tape.record(replay=True) as t:
            optimizer.step()
        t.replay(outputs=model.weight)
        optimizer.zero_grad()
        model(torch.ones(1, 3)).sum().backward()
        with pytest.raises(RuntimeError, match=r"the \.grad of a tensor .* is not the one"):
            t.replay(outputs=model.weight)

    def test_that_add_up_out_of_place(self):
        w, x = torch.ones(3, requires_grad=True), torch.ones(3)
        w.grad = torch.zeros(3)
        with tape.record(replay=True, inputs=x) as t:
            (w * x).sum().backward(create_graph=True)
        with pytest.raises(RuntimeError, match="the sum went to other memory"):
            t.replay(torch.full((3,), 4.0))


def test_functional_call():
    model, x = torch.nn.Linear(3, 2), torch.randn(4, 3)
    given = {name: torch.randn_like(each) for name, each in model.named_parameters()}
    with tape.record(replay=True, inputs=x) as t:
        y = torch.func.functional_call(model, given, (x,))
    new = torch.randn(4, 3)
    assert torch.equal(t.replay(new, outputs=y), torch.func.functional_call(model, given, (new,)))


def test_a_state_of_random_numbers():
    def function(x):
        state = torch.get_rng_state()
        one = torch.rand(3)
        torch.set_rng_state(state)
        return x * one * torch.rand(3)

    x = torch.ones(3)
    with tape.record(replay=True, inputs=x) as t:
        y = function(x)
    once = y.clone()
    assert torch.equal(t.replay(x * 2, outputs=y), once * 2)


def test_anomaly_mode_is_a_guard():
    w, x = torch.ones(3, requires_grad=True), torch.ones(3)
    with torch.autograd.set_detect_anomaly(True), tape.record(replay=True, inputs=x) as t:
        (w * x).sqrt().sum().backward()
    with pytest.raises(RuntimeError, match="a guard does not hold"):
        t.replay(torch.full((3,), -1.0))


@pytest.mark.parametrize(
    "read",
    [
        lambda x: torch.sort(x).values,
        lambda x: torch.topk(x, 2).values,
        lambda x: x.detach() * 2,
        lambda x: x[1:] + 1,
        lambda x: torch.searchsorted(torch.arange(4.0), x),
    ],
)
def test_a_tensor_that_is_read_through_an_alias_and_given_other_memory(read):
    """The op reads an alias of its own, which still shows the old memory."""
    x, scale = torch.tensor([3.0, 1.0, 2.0]), torch.ones(())
    with tape.record(replay=True, inputs=scale) as t:
        read(x) * scale
    t.replay(scale)
    x.data = torch.tensor([30.0, 10.0, 20.0])
    with pytest.raises(RuntimeError, match="has been given another shape or other memory"):
        t.replay(scale)


def test_data_that_stays_where_it_is_is_no_reason_to_refuse():
    x, scale = torch.tensor([3.0, 1.0]), torch.ones(())
    with tape.record(replay=True, inputs=scale) as t:
        y = torch.sort(x).values * scale
    x.data = x.data
    assert t.replay(scale * 2, outputs=y).tolist() == [2.0, 6.0]
