"""Values that are computed again instead of waiting: the same bits in less memory."""

import sys

import pytest
from library import IS_TORCH, torch

from compile.pairs import same

if IS_TORCH:
    pytest.skip("traces are tapegrad's own", allow_module_level=True)

from tape.models import MODELS

from tapegrad.compiler import _build
from tapegrad.compiler._recording import Recording, record_call
from tapegrad.compiler.passes import (
    PASSES,
    check_layout,
    find_groups,
    lay_out,
    recompute,
)

nn = torch.nn


def text_of(function, *args):
    _, recording = record_call(function, "function", args, {})
    assert isinstance(recording, Recording), recording
    return _build.text_of(recording)


def names(text):
    return [step.name for step in text.steps]


def after_passes(function, *args):
    """Return a text before and after, with the rest of the passes done."""
    before = text_of(function, *args)
    for each in PASSES[: PASSES.index(recompute)]:
        each(before)
    after = text_of(function, *args)
    for each in PASSES:
        each(after)
    groups = find_groups(after)
    check_layout(after, lay_out(after, groups), groups)
    return before, after


def waits(x):
    """Compute something that is read at once and at the end, with a peak between."""
    y = x.tanh()
    first = y.sum()
    large = torch.cat([x, x, x]).sort()[0]
    return (y * x).sum() + first + large.sum()


def test_a_value_that_waits_is_computed_again():
    x = torch.randn(64)
    before, after = after_passes(waits, x)
    assert names(before).count("tanh") == 1
    assert names(after).count("tanh") == 2
    assert lay_out(after).arena_bytes < lay_out(before).arena_bytes
    compiled = torch.compile(waits)
    for _ in range(4):
        x = torch.randn(64)
        assert same(waits(x), compiled(x))


@pytest.mark.parametrize("where", ["before", "after"])
def test_not_from_what_was_written_meanwhile(where):
    def function(x):
        x = x + 0
        y = x.tanh()
        first = y.sum()
        large = torch.cat([x, x, x]).sort()[0]
        if where == "before":
            x.mul_(2)
        result = (y * 3).sum() + first + large.sum() + x.sum()
        if where == "after":
            x.mul_(2)
        return result + x.sum()

    _, after = after_passes(function, torch.randn(64))
    assert names(after).count("tanh") == (1 if where == "before" else 2)
    compiled = torch.compile(function)
    for _ in range(4):
        x = torch.randn(64)
        assert same(function(x), compiled(x))


def test_not_what_is_written_itself():
    def function(x):
        y = x.tanh()
        first = y.sum()
        y.add_(1)
        large = torch.cat([x, x, x]).sort()[0]
        return (y * x).sum() + first + large.sum()

    _, after = after_passes(function, torch.randn(64))
    assert names(after).count("tanh") == 1


def test_not_where_its_input_would_have_to_wait():
    def function(x):
        z = x * 2
        y = z.tanh()
        first = y.sum()
        large = torch.cat([x, x, x]).sort()[0]
        return (y * x).sum() + first + large.sum()

    _, after = after_passes(function, torch.randn(64))
    assert names(after).count("tanh") == 1


def test_random_numbers_are_drawn_once():
    def function(x):
        y = nn.functional.dropout(x, 0.5)
        first = y.sum()
        large = torch.cat([x, x, x]).sort()[0]
        return (y * x).sum() + first + large.sum()

    before, after = after_passes(function, torch.randn(64))
    drawn = [name for name in names(after) if "random" in name]
    assert drawn == [name for name in names(before) if "random" in name]


def test_small_values_are_left_alone(monkeypatch):
    module = sys.modules["tapegrad.compiler.passes.recompute"]
    monkeypatch.setattr(module, "_LEAST_BYTES", 1 << 20)
    _, after = after_passes(waits, torch.randn(64))
    assert names(after).count("tanh") == 1


def test_a_small_gain_is_none(monkeypatch):
    module = sys.modules["tapegrad.compiler.passes.recompute"]
    monkeypatch.setattr(module, "_LEAST_GAIN", 0.9)
    _, after = after_passes(waits, torch.randn(64))
    assert names(after).count("tanh") == 1


def test_the_activations_of_a_transformer():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 256, 0.0, "gelu", batch_first=True)
    model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    x = torch.randn(8, 32, 16)
    step(x)
    before, after = after_passes(step, x)
    assert names(after).count("gelu") > names(before).count("gelu")
    assert lay_out(after).arena_bytes < 0.9 * lay_out(before).arena_bytes


@pytest.mark.parametrize("name", MODELS)
def test_layouts_of_models(name):
    def function():
        MODELS[name]().backward()

    function()
    text = text_of(function)
    text.kept |= set(text.steps[-1].writes())
    for each in PASSES:
        each(text)
        groups = find_groups(text)
        check_layout(text, lay_out(text, groups), groups)
