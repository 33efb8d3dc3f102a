"""Tapes as sequences: what entries say, which module they are of, tables and questions."""

import gc
import json
import linecache
import threading

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("the tape is tapegrad's own", allow_module_level=True)

import itertools

from tapegrad import _C, tape
from tapegrad.utils._units import human_bytes

from .models import GPT, ResNet18

nn = torch.nn


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


class TestEntries:
    def test_what_an_entry_says(self):
        x, w = torch.randn(5, 3), leaf(3, 2)
        y = torch.tanh(x @ w)
        accumulate, mm, tanh = tape.of(y)
        assert [mm.index, mm.op, mm.name] == [1, "mm", "MmBackward0"]
        assert mm.sequence < tanh.sequence
        assert mm.outputs[0] == ((5, 2), torch.float32, "cpu")
        assert mm.shape == (5, 2) and mm.dtype is torch.float32
        assert [each.producer for each in mm.inputs] == [None, accumulate]
        assert tanh.inputs == ((mm, 0),)
        assert tanh.node is y.grad_fn
        assert accumulate.is_leaf and accumulate.tensor is w
        assert not mm.is_leaf and mm.leaf is None

    def test_saved_values_and_why(self):
        x, w = torch.randn(5, 3), leaf(3, 2)
        y = torch.tanh(x @ w) * 2.0
        _, mm, tanh, mul = tape.of(y)
        (value,) = mm.saved
        assert (value.name, value.role, value.shape, value.bytes) == ("self", "value", (5, 3), 60)
        (value,) = tanh.saved
        assert (value.role, value.state, value.bytes) == ("output", "held", 40)
        assert "result" in value.why
        (value,) = mul.saved
        assert value.role == "number" and "number" in value.why

    def test_a_leaf_that_is_saved_says_so(self):
        t = tape.of(leaf(3).sin())
        (value,) = t[1].saved
        assert value.state == "leaf" and "leaf's own memory" in value.why

    def test_line_and_function(self):
        y = leaf(2).exp()
        entry = tape.of(y)[-1]
        assert entry.line.endswith(f"test_inspection.py:{entry.line_number}")
        assert "leaf(2).exp()" in linecache.getline(entry.file, entry.line_number)
        assert entry.function == "test_line_and_function"
        assert entry.where == f"{entry.line}, in {entry.function}"

    def test_several_outputs(self):
        parts = (leaf(6) * 1).split([1, 2, 3])
        t = tape.of(list(parts))
        split = t.filter(op="split_with_sizes")[0]
        assert [output.shape for output in split.outputs] == [(1,), (2,), (3,)]
        second = tape.of(parts[1].exp())
        assert second[-1].inputs[0].output_number == 1

    def test_repr(self):
        text = repr(tape.of(leaf(2, 3).exp())[-1])
        assert "exp -> [2, 3], 24 bytes" in text and "test_inspection.py" in text

    def test_names_of_ops(self):
        class HTTPDouble2Function(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, grad):
                return grad * 2

        x = torch.log_softmax(leaf(3), 0).log1p().clone()
        x[0] = 1.0
        names = {entry.name: entry.op for entry in tape.of(HTTPDouble2Function.apply(x))}
        assert names == {
            "AccumulateGrad": "accumulate_grad",
            "LogSoftmaxBackward0": "log_softmax",
            "Log1pBackward0": "log1p",
            "CloneBackward0": "clone",
            "CopySlices": "copy_slices",
            "HTTPDouble2FunctionBackward": "http_double2_function",
        }


class TestOf:
    def test_entries_come_in_tape_order(self):
        loss = GPT()(torch.randint(17, (2, 8))).sum()
        numbers = [entry.sequence for entry in tape.of(loss)]
        assert numbers == sorted(numbers)
        for entry in tape.of(loss):
            for each in entry.inputs:
                assert each.producer is None or each.producer.index < entry.index

    def test_a_leaf_has_a_tape_of_one_entry(self):
        x = leaf(2)
        assert [entry.tensor for entry in tape.of(x)] == [x]

    def test_bad_calls(self):
        with pytest.raises(RuntimeError, match=r"tape\.of: expected a tensor that requires grad"):
            tape.of(torch.ones(2))
        with pytest.raises(TypeError, match=r"tape\.of: expected tensors, got float"):
            tape.of([1.0])
        with pytest.raises(ValueError, match="at least one tensor"):
            tape.of([])

    def test_it_holds_the_entries_until_it_is_dropped(self):
        gc.collect()
        before = _C.live_counts()
        t = tape.of(leaf(1000).exp().sum())
        assert torch.memory_stats()["saved_bytes"] >= 4000
        t.release()
        assert len(t) == 0 and _C.live_counts() == before
        t = tape.of(leaf(1000).exp().sum())
        del t
        assert _C.live_counts() == before

    def test_a_backward_frees_what_a_tape_holds(self):
        gc.collect()
        before = torch.memory_stats()["saved_bytes"]
        y = leaf(1000).exp().sum()
        t = tape.of(y)
        y.backward()
        assert torch.memory_stats()["saved_bytes"] == before
        assert t.total_bytes == 4000, "the listing is of the time it was made"
        (value,) = tape.of(y).filter(op="exp")[0].saved
        assert value.state == "dropped" and tape.of(y)[1].released

    def test_a_very_long_tape(self):
        y = x = leaf(1)
        for _ in range(50_000):
            y = y.exp() if y is x else y * 1.0
        t = tape.of(y)
        assert len(t) == 50_001
        assert len(t.critical_path()) == 50_001
        assert "(49,961 more" in str(t)
        del t, y


class TestModules:
    def model(self):
        return nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.ReLU(), nn.Linear(8, 2)))

    def paths(self, t):
        return [(entry.op, entry.module) for entry in t if not entry.is_leaf]

    def test_recorded(self):
        model = self.model()
        with tape.record() as t:
            loss = model(torch.ones(3, 4)).square().sum()  # noqa: F841
        assert self.paths(t) == [
            ("transpose", "0"),
            ("addmm", "0"),
            ("relu", "1.0"),
            ("transpose", "1.1"),
            ("addmm", "1.1"),
            ("square", None),
            ("sum", None),
        ]
        assert [e.leaf for e in t if e.is_leaf] == ["0.weight", "0.bias", "1.1.weight", "1.1.bias"]

    def test_by_parameters(self):
        model = self.model()
        t = tape.of(model(torch.ones(3, 4)).square().sum())
        named = dict(self.paths(t))
        assert named["addmm"] == "1.1" and named["transpose"] == "1.1"
        assert named["relu"] is None, "nothing tells which module a relu between two belongs to"
        assert sorted(e.leaf for e in t if e.is_leaf) == [
            "0.bias",
            "0.weight",
            "1.1.bias",
            "1.1.weight",
        ]

    def test_between_two_entries_of_a_module(self):
        model = GPT()
        t = tape.of(model(torch.randint(17, (2, 8))).sum())
        found = {entry.module for entry in t.filter(op="scaled_dot_product_attention")}
        assert found == {"blocks.0", "blocks.1", "blocks.2"}
        assert {entry.module for entry in t.filter(op="gelu")} == {
            f"blocks.{number}.mlp" for number in range(3)
        }

    def test_the_same_whether_recorded_or_told_by_parameters(self):
        model = ResNet18()
        with tape.record() as t:
            loss = model(torch.randn(2, 3, 32, 32)).sum()
        told = {entry.sequence: entry.module for entry in tape.of(loss)}
        for entry in t.filter(op=["convolution", "native_batch_norm", "addmm"]):
            assert told[entry.sequence] == entry.module is not None

    def test_a_module_that_calls_no_other(self):
        layer = nn.Linear(2, 2)
        with tape.record() as t:
            y = layer(torch.ones(1, 2))  # noqa: F841
        assert {entry.module for entry in t} == {"Linear"}
        assert {entry.leaf for entry in t if entry.is_leaf} == {"Linear.weight", "Linear.bias"}

    def test_the_root_has_its_class_name(self):
        with tape.record() as t:
            logits = GPT()(torch.randint(17, (2, 8)))  # noqa: F841
        assert t.filter(op="add", module="GPT")

    def test_several_roots(self):
        one, two = self.model(), self.model()
        with tape.record() as t:
            y = one(torch.ones(1, 4)).sum() + two(torch.ones(1, 4)).sum()
        modules = {entry.module for entry in t if entry.module}
        assert {"Sequential.0", "Sequential#2.0", "Sequential#2.1.1"} <= modules
        with tape.record(model=two) as t:
            y = one(torch.ones(1, 4)).sum() + two(torch.ones(1, 4)).sum()  # noqa: F841
        modules = {entry.module for entry in t if entry.module}
        assert {"0", "1.1", "Sequential#2.0"} <= modules

    def test_a_given_model_names_parts_that_are_called_alone(self):
        model = self.model()
        with tape.record(model=model) as t:
            y = model[1][1](torch.ones(1, 8))  # noqa: F841
        assert {entry.module for entry in t} == {"1.1"}

    def test_a_module_called_twice(self):
        layer = nn.Linear(3, 3)
        model = nn.ModuleDict({"a": layer})
        with tape.record(model=model) as t:
            y = layer(layer(torch.ones(1, 3)))  # noqa: F841
        assert [e.module for e in t.filter(op="addmm")] == ["a", "a"]

    def test_a_forward_that_fails(self):
        class Fails(nn.Module):
            def forward(self, x):
                self.kept = x.exp()
                raise ValueError

        model = nn.Sequential(Fails())
        x = leaf(2)
        with tape.record(model=model) as t:
            with pytest.raises(ValueError):
                model(x)
            after = x.sin()  # noqa: F841
        assert self.paths(t) == [("exp", "0"), ("sin", None)]

    def test_a_block_may_be_made_on_another_thread(self):
        made = []
        thread = threading.Thread(target=lambda: made.append(tape.record()))
        thread.start()
        thread.join()
        model = nn.Sequential(nn.Tanh())
        with made[0] as t:
            y = model(leaf(2))  # noqa: F841
        assert self.paths(t) == [("tanh", "0")]

    def test_calls_on_another_thread_are_not_confused(self):
        model = self.model()
        with tape.record() as t:
            thread = threading.Thread(target=model, args=(torch.ones(1, 4),))
            thread.start()
            thread.join()
            y = leaf(2).exp()  # noqa: F841
        assert self.paths(t) == [("exp", None)]

    def test_leaves_without_a_module(self):
        x, y = leaf(2), leaf(2)
        assert [e.leaf for e in tape.of(x * y) if e.is_leaf] == ["leaf0", "leaf1"]


class TestRecord:
    def test_entries_of_the_block_only(self):
        x = leaf(3)
        before = x.exp()
        with tape.record() as t:
            inside = before.sin()
        after = inside.cos()  # noqa: F841
        assert [entry.op for entry in t] == ["sin"]
        assert t[0].inputs[0].producer is None

    def test_entries_that_died_are_not_listed(self):
        x = leaf(3)
        with tape.record() as t:
            x.exp()
            y = x.sin()  # noqa: F841
        assert [entry.op for entry in t if not entry.is_leaf] == ["sin"]

    @pytest.mark.parametrize("call", ["tensor", "function", "grad"])
    def test_a_backward_in_the_block_shows_what_it_dropped(self, call):
        x = leaf(100)
        with tape.record() as t:
            loss = x.exp().sum()
            if call == "tensor":
                loss.backward()
            elif call == "function":
                torch.autograd.backward(loss)
            else:
                torch.autograd.grad(loss, x)
        assert t.total_bytes == 400 and t.filter(op="exp")[0].saved[0].state == "held"
        assert tape.of(loss).total_bytes == 0
        assert t.memory["saved_bytes"] >= 400

    def test_of_several_steps_the_last_backward_counts(self):
        x = leaf(100)
        with tape.record() as t:
            for size in (10, 20, 30):
                loss = x[:size].exp().sum()
                loss.backward()
                del loss
        assert [entry.shape for entry in t.filter(op="exp")] == [(30,)]

    def test_the_sweep_is_the_same_afterwards(self):
        before = (vars(_C)["run_backward"], vars(torch.Tensor)["backward"])
        with pytest.raises(ZeroDivisionError), tape.record():
            raise ZeroDivisionError
        assert (vars(_C)["run_backward"], vars(torch.Tensor)["backward"]) == before
        with tape.record(), tape.record():
            leaf(2).sum().backward()
        assert (vars(_C)["run_backward"], vars(torch.Tensor)["backward"]) == before

    def test_blocks_nest(self):
        with tape.record() as outer:
            x = leaf(2).exp()
            with tape.record() as inner:
                y = x.sin()
            z = y.cos()  # noqa: F841
        assert [entry.op for entry in inner] == ["sin"]
        assert [entry.op for entry in outer if not entry.is_leaf] == ["exp", "sin", "cos"]

    def test_a_block_records_once(self):
        block = tape.record()
        with block:
            pass
        with pytest.raises(RuntimeError, match="a block records once"), block:
            pass

    def test_times(self):
        x = leaf(300, 300)
        with tape.record(profile=True) as t:
            loss = (x @ x).exp().sum()
            loss.backward()
        mm, exp = t.filter(op="mm")[0], t.filter(op="exp")[0]
        assert mm.forward_us > 0 and exp.forward_us > 0
        assert mm.backward_us > 0 and exp.backward_us > 0
        assert not _C._is_profiling()
        with tape.record() as t:
            loss = x.exp().sum()
        assert t[-1].forward_us is None

    def test_times_go_to_the_op_and_not_to_the_leaf_made_just_before(self):
        layer = nn.Linear(64, 64)
        with tape.record(profile=True) as t:
            y = layer(torch.ones(64, 64))  # noqa: F841
        assert t.filter(op="addmm")[0].forward_us > 0
        assert all(entry.forward_us == 0 for entry in t if entry.is_leaf)

    def test_a_profile_that_cannot_start_leaves_nothing_behind(self):
        profile = _C._Profile(False)
        profile.start()
        try:
            with pytest.raises(RuntimeError, match="already running"), tape.record(profile=True):
                pass
        finally:
            profile.stop()
        assert not nn.modules._hooks.GLOBAL.any


class TestLive:
    def test_all_there_is(self):
        gc.collect()
        count = len(tape.live())
        x = leaf(4)
        one, two = x.exp(), x.sin()  # noqa: F841
        assert len(tape.live()) == count + 3

    def test_the_leak_finder(self):
        model, losses = nn.Linear(4, 4), []

        def step():
            loss = model(torch.ones(2, 4)).exp().sum()
            loss.backward()
            losses.append(loss)  # the leak

        step()
        before = tape.live(model)
        step()
        diff = before.diff(tape.live(model))
        (exp,) = [change for change in diff if change.op == "exp"]
        assert exp.kind == "grew" and exp.entries[1] == exp.entries[0] + 1
        assert "test_inspection.py" in exp.line


class TestSequence:
    def tape(self):
        x = leaf(256)
        return tape.of((x.exp().sin() * 2).sum())

    def test_indexing_and_slicing(self):
        t = self.tape()
        assert [entry.op for entry in t] == ["accumulate_grad", "exp", "sin", "mul", "sum"]
        assert t[-1].op == "sum" and len(t[1:3]) == 2
        assert isinstance(t[1:3], tape.Tape) and t[1:3][0] is t[1]
        assert t[1] in t and next(e.op for e in reversed(t)) == "sum"
        with pytest.raises(IndexError):
            t[9]

    def test_filters(self):
        t = self.tape()
        ops = lambda part: [entry.op for entry in part]  # noqa: E731
        assert ops(t.filter(op="sin")) == ops(t.filter(op="SinBackward0")) == ["sin"]
        assert ops(t.filter(op=["sin", "exp"])) == ["exp", "sin"]
        assert ops(t.filter(min_bytes=1)) == ["exp", "mul"]
        assert ops(t.filter(dtype=torch.float64)) == []
        assert ops(t.filter(predicate=lambda entry: entry.shape == ())) == ["sum"]
        number = t[1].line_number
        for line in (
            number,
            f"test_inspection.py:{number}",
            "test_inspection.py",
            f"tape/test_inspection.py:{number}",
        ):
            assert len(t.filter(line=line)) == 5, line
        assert len(t.filter(line="inspection.py")) == 0, "a part of a name is not the name"
        assert len(t.filter(line=number, op="sin", min_bytes=1)) == 0

    def test_filter_by_an_op_that_there_is_not(self):
        t = tape.of(torch.log_softmax(leaf(3), 0))
        assert len(t.filter(op="LogSoftmax")) == 1 and len(t.filter(op="mm")) == 0
        with pytest.raises(ValueError, match=r"filter: .* got 'sofmax'; did you mean 'softmax'"):
            t.filter(op=["mm", "sofmax"])
        with pytest.raises(TypeError, match="filter: expected names of ops, got int"):
            t.filter(op=[3])

    def test_filter_by_module(self):
        model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(11)))
        t = tape.of(model(torch.ones(1, 2)), model=model)
        assert {entry.module for entry in t.filter(module="1")} == {"1"}, "and not 10"

    def test_search(self):
        t = self.tape()
        assert len(t.search("SIN(")) == len(t), "their source line says so"
        assert [entry.op for entry in t.search("sinbackward")] == ["sin"]
        assert len(t.search("no such thing")) == 0

    def test_behind_a_tensor(self):
        x = leaf(3)
        with tape.record() as t:
            y = x.exp()
            z = x.sin()  # noqa: F841
        assert [entry.op for entry in t.behind(y)] == ["accumulate_grad", "exp"]


class TestText:
    def test_table(self):
        x = leaf(256)
        lines = str(tape.of((x.exp() * 2).sum())).splitlines()
        assert lines[0] == "tape of SumBackward0: 4 entries, 1.01 KiB saved"
        assert lines[1].split() == ["index", "op", "output", "saved", "module", "line"]
        assert lines[2].split()[:4] == ["0", "leaf", "leaf0", "[256]"]
        assert lines[3].split()[:6] == ["1", "exp", "[256]", "1.00", "KiB", "-"]
        assert len(lines) == 6

    def test_many_rows_are_cut_in_the_middle(self):
        y = leaf(2)
        for _ in range(99):
            y = y.exp()
        t = tape.of(y)
        lines = t.table(rows=10).splitlines()
        assert len(lines) == 2 + 10 + 1
        assert lines[7].strip() == "(90 more, 720 B)"
        assert lines[2].split()[0] == "0" and lines[-1].split()[0] == "99"

    def test_largest_first(self):
        x = leaf(64)
        t = tape.of(x.exp().repeat(3).sin().sum())
        assert t.table(rows=1, largest_first=True).splitlines()[2].split()[1] == "sin"

    @pytest.mark.parametrize("columns", [60, 80, 120, 200])
    def test_it_fits_the_terminal(self, monkeypatch, columns):
        monkeypatch.setenv("COLUMNS", str(columns))
        with tape.record() as t:
            logits = GPT()(torch.randint(17, (2, 8)))  # noqa: F841
        text = str(t).splitlines()[1:]
        widest = max(map(len, text))
        assert widest <= max(columns, 75), "five columns of twelve characters take what they take"
        if columns == 200:
            assert "tests/tape/models.py" in str(t)

    def test_states_are_shown(self):
        y = leaf(4).exp()
        y.sum().backward()
        assert "dropped" in str(tape.of(y))

    def test_empty(self):
        assert "0 entries" in str(tape.Tape()) and len(tape.Tape().summary()) == 0

    def test_repr(self):
        assert repr(tape.of(leaf(2).exp())) == "<Tape of 2 entries, 8 B: tape of ExpBackward0>"

    @pytest.mark.parametrize("by", ["op", "line", "module"])
    def test_summary(self, by):
        with tape.record() as t:
            loss = GPT()(torch.randint(17, (2, 8))).sum()  # noqa: F841
        summary = t.summary(by=by)
        assert sum(row.bytes for row in summary) == t.total_bytes == summary.total_bytes
        assert sum(row.entries for row in summary) == len(t)
        assert sum(row.share for row in summary) == pytest.approx(1)
        sizes = [row.bytes for row in summary]
        assert sizes == sorted(sizes, reverse=True)
        assert str(summary).splitlines()[-1] == f"total {human_bytes(t.total_bytes)}"
        for row in summary:
            assert len(
                t.filter(predicate=lambda e, r=row: (getattr(e, by) or "(no module)") == r.key)
            )

    def test_summary_of_outer_modules(self):
        with tape.record() as t:
            loss = GPT()(torch.randint(17, (2, 8))).sum()  # noqa: F841
        keys = {row.key for row in t.summary(by="module", depth=1)}
        assert "blocks" in keys and not any("." in key for key in keys)

    def test_summary_by_something_else(self):
        with pytest.raises(ValueError, match="'op', 'line' or 'module', got 'shape'"):
            tape.Tape().summary(by="shape")


class TestDead:
    def test_what_no_output_reaches(self):
        x = leaf(256)
        with tape.record() as t:
            unused = x.exp()
            loss = x.tanh().sum()
        (dead,) = t.dead()
        assert (dead.entry.op, dead.bytes) == ("exp", 1024)
        assert "no gradient comes here" in dead.reason
        assert t.dead().total_bytes == 1024 and "1.00 KiB" in str(t.dead())
        assert [each.entry.op for each in t.dead(outputs=[unused])] == ["tanh"]
        assert len(t.dead(outputs=[unused, loss])) == 0
        assert str(t.dead(outputs=[unused, loss])) == "nothing is kept in vain"

    def test_what_leads_to_no_wanted_leaf(self):
        x, y = leaf(256), leaf(256)
        t = tape.of((x.exp() + y.tanh()).sum())
        assert len(t.dead()) == 0
        (dead,) = t.dead(inputs=[x])
        assert dead.entry.op == "tanh" and "no leaf behind it" in dead.reason
        y.requires_grad_(False)
        assert [each.entry.op for each in t.dead()] == ["tanh"]

    def test_an_operand_that_is_kept_for_another(self):
        x, y = leaf(16, 16), leaf(16, 16)
        t = tape.of((x.abs() @ y.abs()).sum())
        (dead,) = [each for each in t.dead(inputs=[x]) if each.entry.op == "mm"]
        assert dead.value.name == "self" and dead.bytes == 1024
        assert "whose gradient it is for wants none" in dead.reason

    def test_shared_memory_is_not_freed(self):
        x = leaf(256)
        with tape.record() as t:
            y = x.exp()
            unused = y.sin()  # noqa: F841
            loss = y.sum()  # noqa: F841
        (dead,) = t.dead()
        assert dead.entry.op == "sin" and dead.bytes == 0

    @pytest.mark.parametrize(
        ("call", "shapes"),
        [
            (torch.mm, [(4, 4), (4, 4)]),
            (torch.bmm, [(2, 3, 4), (2, 4, 5)]),
            (torch.mv, [(3, 4), (4,)]),
            (torch.dot, [(4,), (4,)]),
            (torch.addmm, [(4,), (3, 5), (5, 4)]),
            (torch.baddbmm, [(4,), (2, 3, 5), (2, 5, 4)]),
            (torch.addmv, [(3,), (3, 5), (5,)]),
            (nn.functional.conv2d, [(1, 2, 5, 5), (3, 2, 3, 3)]),
            (nn.functional.conv_transpose2d, [(1, 2, 5, 5), (2, 3, 3, 3)]),
            (torch.mul, [(4,), (4,)]),
            (torch.div, [(4,), (4,)]),
            (torch.pow, [(4,), (4,)]),
            (torch.atan2, [(4,), (4,)]),
            (torch.addcmul, [(4,), (4,), (4,)]),
        ],
        ids=lambda each: getattr(each, "__name__", ""),
    )
    def test_what_saved_values_are_for(self, call, shapes):
        """The gradient of an input does not change with a value that is not for it."""
        tensors = [torch.rand(*shape).add_(0.5).requires_grad_() for shape in shapes]
        counter = iter(range(10))
        spoilt = None

        def unpack(packed):
            number, value = packed
            return torch.full_like(value, 1e30) if number == spoilt else value

        with torch.autograd.graph.saved_tensors_hooks(lambda x: (next(counter), x), unpack):
            y = call(*tensors)
        (entry,) = [each for each in tape.of(call(*tensors)) if each.saved]
        for number, tensor in enumerate(tensors):
            spoilt = None
            (expected,) = torch.autograd.grad(y.sum(), tensor, retain_graph=True)
            for place, value in enumerate(entry.saved):
                spoilt = place
                (found,) = torch.autograd.grad(y.sum(), tensor, retain_graph=True)
                is_for_it = value.inputs is None or number in value.inputs
                assert is_for_it or torch.equal(found, expected), (number, value.name)


class TestCriticalPath:
    def test_by_entries(self):
        x = leaf(4)
        long = x.exp().sin().cos().tan()
        t = tape.of((long + x.tanh()).sum())
        path = t.critical_path()
        ops = [entry.op for entry in path]
        assert ops == ["accumulate_grad", "exp", "sin", "cos", "tan", "add", "sum"]
        assert path.title == "critical path of 6 entries"

    def test_by_bytes(self):
        x = leaf(4)
        t = tape.of(x.exp().sin().cos().tan().sum() + x.repeat(100).tanh().sum())
        assert "tanh" in [entry.op for entry in t.critical_path(by="bytes")]
        assert "tan" in [entry.op for entry in t.critical_path(by="entries")]

    def test_by_time(self):
        x, small = leaf(400, 400), leaf(4)
        with tape.record(profile=True) as t:
            y = small.exp().sin().cos().tan().sum() + (x @ x).sum()  # noqa: F841
        assert "mm" in [entry.op for entry in t.critical_path()]

    def test_each_is_an_input_of_the_next(self):
        path = tape.of(GPT()(torch.randint(17, (2, 8))).sum()).critical_path()
        for before, after in itertools.pairwise(path):
            assert before in [each.producer for each in after.inputs]

    def test_by_something_else(self):
        with pytest.raises(ValueError, match="'time', 'bytes' or 'entries', got 'colour'"):
            tape.of(leaf(1)).critical_path(by="colour")


class TestDiff:
    def step(self, count, width=256, extra=False):
        y = x = leaf(width)
        for _ in range(count):
            y = y.exp()
        if extra:
            y = y.cos() + x
        return tape.of(y.sum())

    def test_nothing(self):
        diff = self.step(2).diff(self.step(2))
        assert len(diff) == 0 and str(diff).endswith("nothing changed")

    def test_more_entries(self):
        diff = self.step(2).diff(self.step(3))
        (change,) = diff.of_kind("grew")
        assert change.entries == (2, 3) and change.growth == 1024
        assert f"{change.line} exp: 2 -> 3 entries, +1.00 KiB" in str(diff)
        (change,) = self.step(3).diff(self.step(2))
        assert change.kind == "shrank" and "-1.00 KiB" in str(change)

    def test_new_and_gone(self):
        diff = self.step(1).diff(self.step(1, extra=True))
        assert {change.op for change in diff.of_kind("new")} == {"cos", "add"}
        diff = self.step(1, extra=True).diff(self.step(1))
        assert {change.op for change in diff.of_kind("gone")} == {"cos", "add"}

    def test_shapes(self):
        diff = self.step(1).diff(self.step(1, width=512))
        assert diff[0].op == "exp" and "[256] became [512]" in str(diff)
        assert {change.kind for change in diff if change.op == "accumulate_grad"} == {"changed"}


class TestDocument:
    def test_is_what_it_says(self):
        with tape.record(profile=True) as t:
            loss = GPT()(torch.randint(17, (2, 8))).sum()  # noqa: F841
        document = json.loads(json.dumps(t.to_dict()))
        assert document == t.to_dict()
        assert document["format"] == "tapegrad.tape/1"
        assert document["total_bytes"] == t.total_bytes
        assert document["total_bytes"] == sum(each["bytes"] for each in document["entries"])
        # Devices that the process has used before have figures of their own.
        memory = {name for name in document["memory"] if not name.startswith("cuda:")}
        assert memory == {"live_bytes", "saved_bytes", "peak_saved_bytes"}
        for place, (each, entry) in enumerate(zip(document["entries"], t, strict=True)):
            assert each["index"] == place and each["op"] == entry.op
            assert each["line"] == entry.where and entry.line in document["source"]
            assert all(-1 <= producer < place for producer, _ in each["inputs"])
            assert each["bytes"] == sum(value["bytes"] for value in each["saved"])
            for value in each["saved"]:
                assert value["role"] in ("input", "output", "value", "number")
                assert value["state"] in ("held", "leaf", "shared")
        attention = t.filter(op="scaled_dot_product_attention")[0]
        assert "scaled_dot_product_attention" in document["source"][attention.line]

    def test_of_a_part_is_numbered_anew(self):
        t = tape.of(leaf(2).exp().sin().cos())
        first, second = t[2:].to_dict()["entries"]
        assert (first["index"], first["op"], first["inputs"]) == (0, "sin", [[-1, 0]])
        assert second["inputs"] == [[0, 0]]

    def test_storages_are_numbered_alike_in_every_run(self):
        documents = []
        for _ in range(2):
            x = leaf(8)
            y = x.exp()
            documents.append(tape.of((y.sin() + y.cos()).sum()).to_dict()["entries"])
        stores = [[v["storage"] for e in entries for v in e["saved"]] for entries in documents]
        assert stores[0] == stores[1] == [0, 0, 0]


def test_inspection_is_lazy(tmp_path):
    """A program that inspects no tape does not load the package."""
    import subprocess
    import sys

    code = "import sys, tapegrad; assert 'tapegrad.tape' not in sys.modules; tapegrad.tape.of"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
