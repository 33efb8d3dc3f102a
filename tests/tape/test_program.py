"""Programs as values: what they say, when they are equal, and running them on other tensors."""

import copy
import gc
import subprocess
import sys

import pytest
from cases import each_op
from library import IS_TORCH, torch
from op_db.fft import TRANSFORMS
from op_db.row import Value, lift, lift_value, results, walk
from op_db.sampler import draw

if IS_TORCH:
    pytest.skip("the tape is tapegrad's own", allow_module_level=True)

from tapegrad import tape
from tapegrad.autograd import forward_ad
from tapegrad.tape._memory import same_elements

from .models import GPT

functional = torch.nn.functional


def program_of(function, *tensors, outputs=True):
    """Record a function of tensors, which are named x0, x1 and so on."""
    with tape.record(replay=True) as t:
        result = function(*tensors)
    names = {f"x{number}": tensor for number, tensor in enumerate(tensors)}
    return t.program(names=names, outputs={"y": result} if outputs else None)


def reloaded(program, folder):
    program.save(folder / "block.program")
    loaded = tape.load_program(folder / "block.program")
    assert loaded == program
    return loaded


# ---- what a program says


class TestListing:
    def test_text(self):
        x, w = torch.ones(2, 3), torch.ones(4, 3)
        program = program_of(lambda x, w: functional.softmax(x @ w.t() + 1, 1), x, w)
        assert str(program) == (
            "inputs:\n"
            "  x0: %0 float32[2, 3], read\n"
            "  x1: %1 float32[4, 3], read\n"
            "steps:\n"
            "  %2 float32[2, 4] = matmul(%0 float32[2, 3], %1 float32[3, 4] strides (1, 3), "
            "alpha=1, beta=0)\n"
            "  %3 float32[2, 4] = add(%2 float32[2, 4], 1, dtype=float32)\n"
            "  %4 float32[2, 4] = softmax(%3 float32[2, 4], dim=1)\n"
            "outputs:\n"
            "  y: %4 float32[2, 4]"
        )
        assert repr(program) == "<Program of 3 steps, 2 inputs and 1 outputs>"

    def test_guards_constants_and_places(self):
        x = torch.ones(3)

        def block(x):
            if x.sum().item() > 0:
                return x[1:] * torch.tensor([2.0, 3.0])

        text = str(program_of(block, x))
        assert "expect %1 float32[] == 3.0  # at " in text and "in block" in text
        assert "%2 float32[2] = [2.0, 3.0]" in text
        assert "mul(%0 float32[2] from 1, %2 float32[2], dtype=float32)" in text

    def test_attributes_with_one_number_for_each_dimension(self):
        x, w = torch.ones(1, 1, 5, 5), torch.ones(1, 1, 3, 3)
        program = program_of(lambda x, w: functional.conv2d(x, w, stride=2), x, w)
        call = next(step for step in program.steps if step.op == "conv")
        assert dict(call.attributes)["stride"] == (2, 2) and dict(call.attributes)["groups"] == 1
        assert "stride=[2, 2]" in str(call)

    def test_numbers_are_literals_and_no_inputs(self):
        program = program_of(lambda x: x * 2.5 + 1, torch.ones(2))
        assert [each.name for each in program.inputs] == ["x0"]
        assert [step.inputs[1] for step in program.steps] == [2.5, 1]

    def test_what_is_read_and_what_is_written(self):
        x, buffer, out = torch.ones(2), torch.zeros(2), torch.zeros(2)

        def block(x, buffer, out):
            buffer += x
            return torch.mul(x, 2, out=out)

        uses = {each.name: each[2:] for each in program_of(block, x, buffer, out).inputs}
        assert uses == {"x0": (True, False), "x1": (True, True), "x2": (False, True)}

    def test_an_in_place_calls_output_is_its_input(self):
        step = program_of(lambda x: x.mul_(2), torch.ones(2)).steps[0]
        assert step.inputs[0] == step.outputs[0]


class TestNames:
    def test_of_models_and_optimizers(self):
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
        optimizer = torch.optim.Adam(model.parameters())
        x, other = torch.ones(3, 2), torch.ones(3, 2)

        def step():
            optimizer.zero_grad(set_to_none=False)
            (model(x) * other).sum().backward()
            optimizer.step()

        step()
        with tape.record(replay=True, inputs=x) as t:
            step()
        names = {each.name for each in t.program().inputs}
        assert {"input0", "0.weight", "0.weight.grad", "0.weight.exp_avg", "1.bias.step"} <= names
        assert {"1.running_mean", "1.num_batches_tracked"} <= names
        assert [name for name in names if name.startswith("value")] == [
            f"value{each.operand.value}"
            for each in t.program().inputs
            if each.operand.shape == (3, 2) and each.name != "input0"
        ]

    def test_recorded_tensors_by_name(self):
        x, w = torch.ones(2, 2), torch.ones(2, 2, dtype=torch.float64)
        program = program_of(lambda x, w: x.t() @ w[0].float(), x, w)
        found = program.tensors
        assert found["x0"].data_ptr() == x.data_ptr() and torch.equal(found["x1"], w)
        assert torch.equal(program.run(found)["y"], x.t() @ w[0].float())

    def test_that_mean_nothing(self):
        x = torch.ones(2)
        with tape.record(replay=True) as t:
            y = x * 2
        with pytest.raises(ValueError, match="expected 'other' to be a tensor that the block"):
            t.program(names={"other": torch.ones(2)})
        with pytest.raises(ValueError, match="expected 'y' to be a tensor that the block"):
            t.program(names={"y": y})
        with pytest.raises(TypeError, match="'x' of names to be a tensor, got int"):
            t.program(names={"x": 3})
        with pytest.raises(TypeError, match="names to be a dict, got list"):
            t.program(names=[x])
        with pytest.raises(ValueError, match="output 'z' to be a tensor that the block computed"):
            t.program(outputs={"z": torch.ones(2)})
        with pytest.raises(RuntimeError, match=r"made by tape.record\(replay=True\)"):
            tape.live().program()


class TestEquality:
    def test_two_recordings_of_one_function(self):
        def block(x):
            return (x.exp() * torch.tensor([1.0, 2.0])).sum()

        one, other = program_of(block, torch.zeros(2)), program_of(block, torch.ones(2))
        assert one == other
        assert one != "program"
        with pytest.raises(TypeError, match="unhashable"):
            hash(one)

    @pytest.mark.parametrize(
        "other",
        [
            lambda x: x.softmax(0) * 2.0,
            lambda x: x.softmax(1) * 3.0,
            lambda x: x.softmax(1) * 2,
            lambda x: x.log_softmax(1) * 2.0,
            lambda x: x.t().softmax(1) * 2.0,
            lambda x: (x.softmax(1) * 2.0).exp(),
        ],
        ids=["attribute", "literal", "kind", "op", "geometry", "length"],
    )
    def test_what_makes_a_difference(self, other):
        x = torch.ones(2, 2)
        one = program_of(lambda x: x.softmax(1) * 2.0, x)
        assert one == program_of(lambda x: x.softmax(1) * 2.0, x.clone())
        assert one != program_of(other, x)

    def test_bytes_and_names_count(self):
        x = torch.ones(2)
        constants = [program_of(lambda x, c=c: x * torch.tensor([c]), x) for c in (1.0, 2.0)]
        assert constants[0] != constants[1]
        looks = [program_of(lambda x: (x.sum().item(), x * 2)[1], x * c) for c in (1.0, 2.0)]
        assert looks[0] != looks[1]
        with tape.record(replay=True) as t:
            y = x * 2
        assert t.program(names={"a": x}, outputs=y) != t.program(names={"b": x}, outputs=y)


# ---- running


class TestRun:
    def test_on_other_tensors(self, tmp_path):
        x, w = torch.randn(3, 2), torch.randn(2, 4)
        program = program_of(lambda x, w: torch.tanh(x @ w).sum(0), x, w)
        loaded = reloaded(program, tmp_path)
        for _ in range(3):
            x, w = torch.randn(3, 2), torch.randn(2, 4)
            for each in (program, loaded):
                assert torch.equal(each.run({"x0": x, "x1": w})["y"], torch.tanh(x @ w).sum(0))

    def test_recorded_tensors_stay_as_they_are(self):
        x = torch.ones(2)
        with tape.record(replay=True) as t:
            y = x.exp()
        t.program(names={"x": x}).run({"x": torch.zeros(2)})
        assert torch.equal(y, torch.ones(2).exp()) and x.tolist() == [1, 1]

    def test_what_was_written_outside_is_written_in_what_is_given(self, tmp_path):
        count = torch.zeros(1)
        program = reloaded(program_of(lambda count: count.add_(1), count), tmp_path)
        mine = torch.tensor([5.0])
        result = program.run({"x0": mine})["y"]
        assert (mine.item(), count.item()) == (6.0, 1.0)
        assert result.data_ptr() == mine.data_ptr()

    def test_outputs_are_made_anew(self, tmp_path):
        program = reloaded(program_of(lambda x: x * 2, torch.ones(2)), tmp_path)
        first, second = (program.run({"x0": torch.full((2,), c)})["y"] for c in (1.0, 2.0))
        assert (first.tolist(), second.tolist()) == ([2, 2], [4, 4])

    def test_a_place_in_larger_memory(self, tmp_path):
        whole = torch.arange(12.0).reshape(3, 4)
        program = program_of(lambda x: (x * 2).sum(1), whole[1:, 1:3])
        loaded = reloaded(program, tmp_path)
        other = torch.randn(9, 4)
        for start in (0, 3, 7):
            x = other[start : start + 2, 2:]
            assert torch.equal(loaded.run({"x0": x})["y"], (x * 2).sum(1))

    def test_memory_around_what_is_given(self):
        whole = torch.arange(6.0)
        with tape.record(replay=True) as t:
            whole[:2] * whole[4:].clone()
        program = t.program(names={"part": whole[2:4]})
        padded = torch.arange(20.0)
        assert program.run({"part": padded[12:14]})["output"].tolist() == [10 * 14, 11 * 15]
        with pytest.raises(
            ValueError, match="uses more memory around the tensor given for value 0"
        ):
            program.run({"part": torch.ones(2)})

    def test_an_output_that_may_be_left_out(self, tmp_path):
        x, out = torch.ones(2), torch.zeros(2)
        program = reloaded(program_of(lambda x, out: torch.exp(x, out=out), x, out), tmp_path)
        zeros, mine = torch.zeros(2), torch.zeros(2)
        assert program.run({"x0": zeros})["y"].tolist() == [1, 1]
        program.run({"x0": zeros, "x1": mine})
        assert mine.tolist() == [1, 1]

    def test_a_backward_and_its_gradients(self, tmp_path):
        w = torch.randn(3, requires_grad=True)
        x = torch.randn(3)
        with tape.record(replay=True) as t:
            loss = (w * x).square().sum()
            loss.backward()
        program = t.program(names={"x": x, "w": w}, outputs={"loss": loss, "grad": w.grad})
        other, new = torch.randn(3, requires_grad=True), torch.randn(3)
        found = reloaded(program, tmp_path).run({"x": new, "w": other})
        expected = (other * new).square().sum()
        expected.backward()
        assert torch.equal(found["loss"], expected.detach())
        assert torch.equal(found["grad"], other.grad)
        assert not found["loss"].requires_grad

    def test_a_write_is_seen_by_the_tape(self):
        program = program_of(lambda x: x.mul_(2), torch.ones(2))
        w, x = torch.ones(2, requires_grad=True), torch.ones(2)
        y = (w * x).sum()
        program.run({"x0": x})
        with pytest.raises(RuntimeError, match="has been modified by an inplace"):
            y.backward()

    @pytest.mark.parametrize(
        ("wrong", "words"),
        [
            (lambda: {"x0": torch.ones(3)}, r"input 'x0' of shape \(2, 3\), got \(3,\)"),
            (
                lambda: {"x0": torch.ones(2, 3).double()},
                "'x0' of dtype torch.float32, got torch.fl",
            ),
            (lambda: {"x0": torch.ones(3, 2).t()}, r"input 'x0' of strides \(3, 1\), got \(1, 2\)"),
            (lambda: {"x0": torch.ones(2, 3, device="meta")}, "input 'x0' of device cpu, got meta"),
            (lambda: {}, r"expected input 'x0' \(%0 float32\[2, 3\]\), got none"),
            (lambda: {"x0": torch.ones(2, 3), "z": torch.ones(1)}, "no input 'z'; it has 'x0'"),
        ],
        ids=["shape", "dtype", "strides", "device", "missing", "unknown"],
    )
    def test_inputs_that_do_not_fit(self, wrong, words):
        program = program_of(lambda x: x * 2, torch.ones(2, 3))
        with pytest.raises(ValueError, match=words):
            program.run(wrong())
        with pytest.raises(TypeError, match="input 'x0' to be a tensor, got float"):
            program.run({"x0": 1.0})
        with pytest.raises(
            TypeError, match="inputs to be a dict from names to tensors, got Tensor"
        ):
            program.run(torch.ones(2, 3))

    def test_a_tangent_is_refused(self):
        program = program_of(lambda x: x * 2, torch.ones(2))
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(torch.ones(2), torch.ones(2))
            with pytest.raises(
                RuntimeError, match="carries a tangent, and a program computes none"
            ):
                program.run({"x0": dual})
            primal = forward_ad.unpack_dual(dual).primal
            assert program.run({"x0": primal})["y"].tolist() == [2.0, 2.0]

    def test_memory_that_is_written_must_be_ones_own(self):
        def block(x, y):
            x.mul_(2)
            return x + y

        program = program_of(block, torch.ones(2), torch.ones(2))
        both = torch.ones(4)
        with pytest.raises(ValueError, match="values 0 and 1 are given the same memory"):
            program.run({"x0": both[:2], "x1": both[1:3]})
        assert both.tolist() == [1] * 4
        assert program.run({"x0": both[:2], "x1": both[2:]})["y"].tolist() == [3, 3]
        array = torch.ones(3).numpy()
        with pytest.raises(ValueError, match="are given the same memory"):
            program.run({"x0": torch.from_numpy(array)[:2], "x1": torch.from_numpy(array)[1:]})

    def test_inputs_that_shared_memory(self, tmp_path):
        text = torch.arange(12).reshape(2, 6)
        program = program_of(lambda x, y: x * 100 + y, text[:, :-1], text[:, 1:])
        program = reloaded(program, tmp_path)
        other = torch.arange(30, 42).reshape(2, 6)
        expected = other[:, :-1] * 100 + other[:, 1:]
        assert torch.equal(program.run({"x0": other[:, :-1], "x1": other[:, 1:]})["y"], expected)
        apart = {"x0": other.clone()[:, :-1], "x1": other.clone()[:, 1:]}
        assert torch.equal(program.run(apart)["y"], expected)
        apart["x1"] += 1
        with pytest.raises(ValueError, match=r"'x0' and 'x1' shared memory .* differ there"):
            program.run(apart)

    def test_inputs_that_shared_memory_which_is_written(self):
        whole = torch.ones(4)

        def block(x, y):
            x.mul_(2)
            return x + y

        program = program_of(block, whole[:2], whole[1:3])
        other = torch.ones(3)
        assert program.run({"x0": other[:2], "x1": other[1:]})["y"].tolist() == [4, 3]
        with pytest.raises(ValueError, match="share memory in the same way"):
            program.run({"x0": torch.ones(3)[:2], "x1": torch.ones(3)[1:]})

    def test_random_ops_give_the_numbers_of_the_recording(self, tmp_path):
        x = torch.ones(1000)
        with tape.record(replay=True) as t:
            y = functional.dropout(x, 0.5)
        program = reloaded(t.program(names={"x": x}), tmp_path)
        state = torch.get_rng_state()
        assert torch.equal(program.run({"x": x * 2})["output"], y * 2)
        assert torch.equal(torch.get_rng_state(), state)

    def test_in_a_recorded_block_the_calls_are_the_blocks(self):
        program = program_of(lambda x: x.exp() * torch.tensor([1.0, 3.0]), torch.ones(2))
        x = torch.zeros(2)
        with tape.record(replay=True, inputs=x) as t:
            y = program.run({"x0": x})["y"] + 1
        new = torch.ones(2)
        assert torch.equal(t.replay(new, outputs=y), new.exp() * torch.tensor([1.0, 3.0]) + 1)

    def test_on_the_meta_device(self, tmp_path):
        x = torch.ones(2, 3, device="meta")
        program = reloaded(program_of(lambda x: (x @ x.t()).exp(), x), tmp_path)
        assert program.run({"x0": torch.ones(2, 3, device="meta")})["y"].shape == (2, 2)


class TestGuards:
    def recorded(self, count):
        def block(x, count):
            count += 1
            return x.exp() if x.sum().item() > 2 else x.sin()

        return program_of(block, torch.tensor([1.0, 2.0]), count)

    def test_they_are_saved(self, tmp_path):
        count = torch.zeros(1)
        program = reloaded(self.recorded(count), tmp_path)
        x = torch.tensor([2.0, 1.0])
        assert torch.equal(program.run({"x0": x, "x1": count})["y"], x.exp())
        words = (
            r"run: a guard does not hold: at .*test_program.py:\d+, in block, the program looked"
        )
        with pytest.raises(RuntimeError, match=words):
            program.run({"x0": torch.ones(2), "x1": count})
        assert count.item() == 2.0, "what was written before the look is put back"

    def test_constants_are_saved(self, tmp_path):
        program = program_of(lambda x: x * torch.tensor([[1.0, -2.0]]), torch.ones(2, 2))
        found = reloaded(program, tmp_path).run({"x0": torch.ones(2, 2)})["y"]
        assert found.tolist() == [[1, -2], [1, -2]]

    def test_what_an_op_puts_into_fresh_memory_is_a_constant(self, tmp_path):
        def block(x):
            table = torch.tensor([5.0, 6.0])
            return torch.where(x > 0, table, -1.0) + torch.eye(2)[0]

        program = reloaded(program_of(block, torch.ones(2)), tmp_path)
        assert [each.name for each in program.inputs] == ["x0"]
        assert program.run({"x0": torch.tensor([1.0, -1.0])})["y"].tolist() == [6.0, -1.0]

    def test_a_part_of_fresh_memory_is_no_input(self, tmp_path):
        def block(x):
            buffer = torch.empty(4)
            buffer[1:3] = x
            return buffer[1:3] * 2

        program = reloaded(program_of(block, torch.ones(2)), tmp_path)
        assert [each.name for each in program.inputs] == ["x0"]
        assert program.run({"x0": torch.tensor([3.0, 4.0])})["y"].tolist() == [6, 8]


def widened(row):
    """Return what begins as one tensor and becomes a batch when a row is added to it."""
    buffer = torch.tensor([1.0, 2.0, 3.0])
    buffer.mul_(2)
    buffer += row
    return buffer * row.sum()


VMAPPED = {
    "pointwise": lambda x: torch.vmap(lambda row: (row * 2).exp() + 1)(x),
    "structured": lambda x: torch.vmap(lambda row: row.cumsum(0).softmax(0))(x),
    "product": lambda x: torch.vmap(lambda row: x @ row)(x),
    "in_dims": lambda x: torch.vmap(lambda column: column.sort()[0].sum(), in_dims=1)(x),
    "out_dims": lambda x: torch.vmap(lambda row: row.flip(0), out_dims=1)(x) * 2,
    "becomes a batch": lambda x: torch.vmap(widened)(x),
    "nested": lambda x: torch.vmap(lambda a: torch.vmap(lambda b: (a * b).sum().sin())(x))(x),
    "gradients": lambda x: torch.vmap(torch.func.grad(lambda row: row.prod().sin()))(x),
    "jacobian": lambda x: torch.func.jacrev(lambda v: v.square().cumsum(0))(x[0]),
    "in place": lambda x: torch.vmap(lambda row: row.clone().mul_(3).add_(row))(x),
    "used after": lambda x: (torch.vmap(torch.sin)(x)[1:] + x[:2]).t().contiguous(),
}


class TestVmap:
    @pytest.mark.parametrize("name", VMAPPED)
    def test_saved_and_replayed(self, name, tmp_path):
        function, x = VMAPPED[name], torch.randn(3, 3)
        with tape.record(replay=True, inputs=x) as t:
            y = function(x)
        program = reloaded(t.program(outputs={"y": y}), tmp_path)
        assert [each.name for each in program.inputs] == ["input0"]
        for _ in range(2):
            new = torch.randn(3, 3)
            expected = function(new)
            assert torch.equal(program.run({"input0": new})["y"], expected)
            assert torch.equal(t.replay(new, outputs=y), expected)
            assert torch.equal(y, expected), "the recorded result has the new value"

    def test_gradients_at_the_new_inputs(self):
        x, w = torch.randn(4, 3), torch.randn(3, requires_grad=True)

        def loss_of(x):
            return torch.vmap(lambda row: (row * w).tanh().sum().exp())(x).sum()

        with tape.record(replay=True, inputs=x) as t:
            loss = loss_of(x)
        for _ in range(2):
            new = torch.randn(4, 3)
            (expected,) = torch.autograd.grad(loss_of(new), w)
            t.replay(new, outputs=loss)
            assert torch.equal(t.vjp()[w], expected)

    def test_each_element_draws_its_own_numbers_again(self, tmp_path):
        x = torch.ones(3, 100)
        with tape.record(replay=True, inputs=x) as t:
            y = torch.vmap(functional.dropout, randomness="different")(x)
        assert not torch.equal(y[0], y[1])
        program = reloaded(t.program(outputs={"y": y}), tmp_path)
        assert torch.equal(program.run({"input0": x * 3})["y"], y * 3)

    def test_which_result_is_meant_must_be_said(self):
        x = torch.randn(3, 16)  # rows of a cache line, which need no copy to lie without gaps
        with tape.record(replay=True, inputs=x) as t:
            torch.vmap(lambda row: row.cumsum(0))(x)
        with pytest.raises(RuntimeError, match="its last op ran in a vmap; pass outputs="):
            t.replay(x)


def test_temporaries_are_let_go_of():
    x = torch.ones(1 << 16)
    gc.collect()
    before = torch.memory_stats()["live_bytes"]
    with tape.record(replay=True, inputs=x) as t:
        y = x
        for _ in range(20):
            y = y * 1.5
    held = torch.memory_stats()["live_bytes"] - before
    assert held < 3 * x.nbytes
    assert torch.equal(t.replay(x * 2), y)


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_an_out_that_is_resized(tmp_path):
    """A call names the memory that its operand had then."""

    def block(x, out):
        b = torch.mul(x, 2.0, out=out) + 0
        c = torch.mul(x[:2], 3.0, out=out)
        d = torch.mul(torch.cat([x, x]), 4.0, out=torch.empty(2))
        return torch.cat([b, c, d])

    x, out = torch.arange(4.0), torch.empty(4)
    program = reloaded(program_of(block, x, out), tmp_path)
    new = torch.tensor([10.0, 20.0, 30.0, 40.0])
    found = program.run({"x0": new})["y"]
    assert found.tolist() == [20, 40, 60, 80, 30, 60, *[40, 80, 120, 160] * 2]


def test_narrow_codings_of_other_indices(tmp_path):
    """How narrow a code may be was seen in the values: other values are refused, not cut short."""
    table = torch.randn(300, 2, requires_grad=True)
    index = torch.randint(200, (64, 64))

    def block(index, table):
        with tape.compress("exact"):
            loss = functional.embedding(index, table).square().sum()
        return torch.autograd.grad(loss, table)[0]

    program = reloaded(program_of(block, index, table), tmp_path)
    fits, beyond = torch.randint(200, (64, 64)), torch.randint(200, (64, 64))
    beyond[0, 0] = 299
    found = program.run({"x0": fits, "x1": table})["y"]
    assert torch.equal(found, block(fits, table))
    try:
        found = program.run({"x0": beyond, "x1": table})["y"]
    except RuntimeError as error:
        assert "a guard does not hold" in str(error)
    else:
        assert torch.equal(found, block(beyond, table))


# ---- whole training steps

STEP = """
import sys
import tapegrad as torch
from tapegrad import tape

folder = sys.argv[1]
program = tape.load_program(f"{folder}/step.program")
state, batches = torch.load(f"{folder}/state"), torch.load(f"{folder}/batches")
losses = [program.run({**state, "tokens": x, "targets": y})["loss"] for x, y in batches]
assert not any("models" in name for name in sys.modules)
torch.save((losses, state), f"{folder}/found")
"""


def state_of(model, optimizer):
    """Return parameters and the optimizer's state, by the names that programs have for them."""
    found = {}
    for name, parameter in model.named_parameters():
        found[name] = parameter.detach()
        found |= {f"{name}.{key}": value for key, value in optimizer.state[parameter].items()}
    return found


def test_a_training_step_of_a_gpt_in_another_process(tmp_path):
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    batches = [(torch.randint(17, (2, 8)), torch.randint(17, (2, 8))) for _ in range(4)]

    def step(model, optimizer, tokens, targets):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss

    step(model, optimizer, *batches[0])  # the first step makes the optimizer's state
    peer, peer_optimizer = copy.deepcopy((model, optimizer))
    state = {name: each.clone() for name, each in state_of(model, optimizer).items()}
    random = torch.get_rng_state()
    tokens, targets = (each.clone() for each in batches[1])
    with tape.record(model, replay=True) as t:
        loss = step(model, optimizer, tokens, targets)
    program = t.program(names={"tokens": tokens, "targets": targets}, outputs={"loss": loss})
    assert {each.name for each in program.inputs} == {"tokens", "targets", *state}

    program.save(tmp_path / "step.program")
    torch.save(state, tmp_path / "state")
    torch.save(batches[1:], tmp_path / "batches")
    subprocess.run([sys.executable, "-c", STEP, str(tmp_path)], check=True)
    losses, found = torch.load(tmp_path / "found")

    for (x, y), found_loss in zip(batches[1:], losses, strict=True):
        torch.set_rng_state(random)  # dropout draws the numbers of the recording again
        assert torch.equal(step(peer, peer_optimizer, x, y).detach(), found_loss)
    expected = state_of(peer, peer_optimizer)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name


# ---- every op


def trained(tree):
    """Return the arguments of a sample, those that have a gradient as leaves of the tape."""

    def visit(leaf):
        if not isinstance(leaf, Value):
            return lift(leaf)
        tensor = lift_value(leaf)
        trains = leaf.differentiable and tensor.is_floating_point()
        return tensor.requires_grad_() if trains else tensor

    return walk(tree, visit)


def leaves(tree):
    found = []
    walk(tree, lambda leaf: isinstance(leaf, torch.Tensor) and found.append(leaf))
    return found


# Rows that have complex numbers on the way, of which programs are not saved.
COMPLEX = {"linalg.eig", "linalg.eigvals", *TRANSFORMS}


@each_op("test_every_op_is_saved_and_runs")
def test_every_op_is_saved_and_runs(op, tmp_path):
    """Forward and backward of every op, saved, loaded and run: the same bytes."""
    sample = draw(op, op.dtypes[0])[0]
    arguments = trained((sample.args, sample.kwargs))
    before = [each.detach().clone() for each in leaves(arguments)]
    args, kwargs = arguments
    with tape.record(replay=True) as t:
        found = results(op.function()(*args, **kwargs))
        losses = [y.sum() for y in found if isinstance(y, torch.Tensor) and y.requires_grad]
        if losses and op.gradient_order:
            sum(losses).backward()
    if not len(t._replay._program):
        return  # a view, or a question
    tensors = [each for each in leaves(arguments) if each.grad is not None]
    outputs = {f"grad{number}": each.grad for number, each in enumerate(tensors)}
    if losses:
        outputs |= {f"loss{number}": each for number, each in enumerate(losses)}
    if op.name in COMPLEX:
        with pytest.raises(NotImplementedError, match="complex64 tensors cannot be traced"):
            reloaded(t.program(outputs=outputs or None), tmp_path)
        return
    program = reloaded(t.program(outputs=outputs or None), tmp_path)
    given = dict(t.program().tensors)
    for leaf, content in zip(leaves(arguments), before, strict=True):
        leaf.detach().copy_(content)
    for name, tensor in program.run(given).items():
        expected = outputs[name] if outputs else t._replay._result
        assert same_elements(tensor, expected), name
