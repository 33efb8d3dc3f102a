"""The table of a model's layers."""

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("PyTorch has no summary of models", allow_module_level=True)

from tapegrad import nn
from tapegrad.utils import summary


def small():
    return nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, 3, bias=False)
    )


def row(result, path):
    return next(layer for layer in result.layers if layer.path == path)


class TestNumbers:
    def test_a_chain_of_layers(self):
        result = summary(small(), (5, 4))
        assert [layer.path for layer in result.layers] == ["", "0", "1", "2", "3"]
        assert [layer.kind for layer in result.layers[1:]] == [
            "Linear",
            "BatchNorm1d",
            "Dropout",
            "Linear",
        ]
        assert [layer.output for layer in result.layers] == [(5, 3), *[(5, 8)] * 3, (5, 3)]
        assert [layer.parameters for layer in result.layers] == [80, 40, 16, 0, 24]
        assert [layer.multiply_adds for layer in result.layers] == [280, 160, 0, 0, 120]
        assert result.parameters == result.trainable == 80
        assert result.parameter_bytes == 320
        assert result.buffer_bytes == 2 * 8 * 4 + 8
        assert result.input_bytes == 80
        assert result.activation_bytes == (3 * 40 + 15) * 4
        assert result.not_counted == []

    def test_what_the_tape_holds_is_measured(self):
        """exp saves its output, which is all that lives on: the outputs and nothing more."""

        class Exponential(nn.Module):
            def forward(self, x):
                return (x * self.scale).exp().exp()

            def __init__(self):
                super().__init__()
                self.scale = nn.Parameter(torch.ones(()))

        result = summary(Exponential(), (2**18,))
        assert result.tape_bytes == pytest.approx(2 * 2**20, rel=0.07)  # blocks are rounded up

    def test_frozen_parameters(self):
        model = small()
        model[0].requires_grad_(False)
        result = summary(model, (5, 4))
        assert (result.parameters, result.trainable) == (80, 40)
        assert row(result, "0").trainable == 0
        assert "80, of which 40 are frozen" in str(result)

    def test_a_module_called_often_is_one_row(self):
        class Loop(nn.Module):
            def __init__(self):
                super().__init__()
                self.step = nn.Linear(4, 4)

            def forward(self, x):
                return self.step(self.step(self.step(x)))

        result = summary(Loop(), (2, 4))
        assert row(result, "step").calls == 3
        assert result.parameters == 20
        assert result.multiply_adds == 3 * 32
        assert "step: Linear, 3 calls" in str(result)

    def test_what_stands_in_two_places_counts_once(self):
        linear = nn.Linear(4, 4)
        shared = nn.Sequential(linear, nn.ReLU(), linear)
        tied = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5, bias=False))
        tied[1].weight = tied[0].weight
        assert summary(shared, (2, 4)).parameters == 20
        assert summary(shared, (2, 4)).multiply_adds == 64
        result = summary(tied, (2, 3), dtypes=torch.int64)
        assert result.parameters == 20 and row(result, "1").parameters == 0
        assert result.multiply_adds == 2 * 3 * 5 * 4

    def test_bilinear(self):
        result = summary(nn.Bilinear(2, 3, 4), [(5, 2), (5, 3)])
        assert result.multiply_adds == 5 * 4 * 2 * 3

    def test_a_class_derived_from_a_known_one(self):
        class Mine(nn.Linear):
            pass

        assert summary(Mine(4, 8), (2, 4)).multiply_adds == 64

    def test_what_is_not_counted_is_named(self):
        class Linear(nn.Module):  # a name that nn has, too
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(4, 4))

            def forward(self, x):
                return x @ self.weight

        result = summary(nn.Sequential(Linear(), nn.Linear(4, 2)), (1, 4))
        assert result.not_counted == ["Linear"]
        assert result.multiply_adds == 8
        assert "multiply-adds  8, without those of Linear" in str(result)


class TestInputs:
    class Several(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.out = nn.Embedding(10, 4), nn.Linear(4, 2)
            self.unused = nn.Linear(100, 100)

        def forward(self, numbers, weights, scale=1.0):
            x = self.table(numbers) * weights * scale
            return {"out": self.out(x), "pair": (x, [weights])}

    def test_several_sizes_and_dtypes(self):
        result = summary(self.Several(), [(3, 5), (3, 5, 1)], dtypes=[torch.int64, torch.float32])
        assert result.layers[0].output == ((3, 5, 2), (3, 5, 4), (3, 5, 1))
        assert result.input_bytes == 15 * 8 + 15 * 4
        assert row(result, "unused").output is None
        assert row(result, "unused").parameters == 10100

    @pytest.mark.parametrize("kind", [list, tuple])
    def test_positional_data(self, kind):
        data = kind([torch.zeros(3, 5, dtype=torch.int64), torch.ones(3, 5, 1)])
        assert row(summary(self.Several(), input_data=data), "out").output == (3, 5, 2)

    def test_keyword_data(self):
        data = {"weights": torch.ones(1, 1), "numbers": torch.tensor([1]), "scale": 2.0}
        assert row(summary(self.Several(), input_data=data), "table").output == (1, 4)

    def test_one_tensor(self):
        assert summary(small(), input_data=torch.ones(2, 4)).layers[0].output == (2, 3)

    def test_no_batch_no_dimension(self):
        assert summary(nn.Identity(), ()).layers[0].output == ()

    def test_what_is_refused(self):
        with pytest.raises(ValueError, match="summary: expected either input_size or input_data"):
            summary(small())
        with pytest.raises(ValueError, match="expected either input_size or input_data"):
            summary(small(), (2, 4), torch.ones(2, 4))
        with pytest.raises(ValueError, match="summary: expected 2 dtypes, got 1"):
            summary(self.Several(), [(1,), (1,)], dtypes=[torch.int64])


class TestNothingIsLeftBehind:
    def check(self, model, act):
        """Modes, hooks, buffers, gradients and chance are after the act what they were before."""
        modes = [module.training for module in model.modules()]
        buffers = [buffer.clone() for buffer in model.buffers()]
        chance = torch.get_rng_state()
        act()
        assert [module.training for module in model.modules()] == modes
        assert all(torch.equal(a, b) for a, b in zip(model.buffers(), buffers, strict=True))
        assert not any(module._forward_hooks for module in model.modules())
        assert all(parameter.grad is None for parameter in model.parameters())
        assert torch.equal(torch.get_rng_state(), chance)

    def test_after_a_summary(self):
        model = small()
        model[2].eval()
        self.check(model, lambda: summary(model, (1, 4)))  # one row: eval mode, or it would raise

    def test_after_an_error(self):
        model = small()

        def fail():
            with pytest.raises(RuntimeError):
                summary(model, (5, 7))

        self.check(model, fail)

    def test_without_gradients(self):
        model = small()
        with torch.no_grad():
            assert summary(model, (5, 4)).parameters == 80
            assert not torch.is_grad_enabled()


class TestTable:
    def test_a_tree(self):
        model = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), nn.Flatten())
        assert str(summary(model, (1, 2))).splitlines()[:8] == [
            "layer             output  parameters  multiply-adds",
            "---------------------------------------------------",
            "Sequential        [1, 2]           6              4",
            "├─ 0: Sequential  [1, 2]           6              4",
            "│  ├─ 0: Linear   [1, 2]           6              4",
            "│  └─ 1: ReLU     [1, 2]           -              -",
            "└─ 1: Flatten     [1, 2]           -              -",
            "---------------------------------------------------",
        ]

    def test_depth(self):
        model = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), nn.Flatten())
        result = summary(model, (1, 2), depth=1)
        assert [layer.path for layer in result.layers] == ["", "0", "1"]
        assert result.parameters == 6

    def test_repr_is_the_table(self):
        result = summary(small(), (1, 4))
        assert repr(result) == str(result)
