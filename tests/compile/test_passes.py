"""Passes over captured programs: each keeps what a program means, and layouts are sound."""

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("passes are tapegrad's own", allow_module_level=True)

from tape.models import MODELS

from tapegrad.compiler import _build
from tapegrad.compiler._recording import Recording, record_call
from tapegrad.compiler.passes import (
    PASSES,
    check_layout,
    drop_copies,
    drop_dead,
    lay_out,
    share_common,
)


def text_of(function, *args):
    _, recording = record_call(function, "function", args, {})
    assert isinstance(recording, Recording), recording
    return _build.text_of(recording)


def names(text):
    return [step.name for step in text.steps]


def test_dead_values_go():
    def function(x):
        unused = x.exp()
        unused.add_(1)
        return x.sin()

    text = text_of(function, torch.ones(3))
    assert names(text) == ["exp", "add", "sin"]
    drop_dead(text)
    assert names(text) == ["sin"]


def test_writes_to_what_existed_stay():
    weight = torch.ones(3)

    def function(x):
        weight.add_(x.exp())

    text = text_of(function, torch.ones(3))
    drop_dead(text)
    assert names(text) == ["exp", "add"]


def test_guards_stay():
    def function(x):
        return x * 2 if x.exp().sum() > 0 else x

    text = text_of(function, torch.ones(3))
    drop_dead(text)
    assert "read" in names(text) and "exp" in names(text)


def test_common_calls_are_made_once():
    def function(x):
        return x.exp() * 2 + x.exp() * 2

    text = text_of(function, torch.ones(3))
    share_common(text)
    assert names(text) == ["exp", "mul", "add"]


def test_calls_are_not_common_across_a_write():
    def function(x):
        x = x + 0
        first = x.exp().sin()
        x.mul_(2)
        return first + x.exp().sin()

    text = text_of(function, torch.ones(3))
    share_common(text)
    assert names(text).count("exp") == names(text).count("sin") == 2


def test_random_calls_are_not_common():
    text = text_of(lambda: (torch.rand(3) + torch.rand(3)).sum())
    share_common(text)
    assert len([name for name in names(text) if "random" in name or "uniform" in name]) == 2


def test_numbers_are_compared_to_the_bit():
    def function(x):
        return (x * 0.0).exp() + (x * -0.0).exp() + (x * 1).exp() + (x * 1.0).exp()

    text = text_of(function, torch.ones(3))
    share_common(text)
    assert names(text).count("mul") == 4


def test_copies_go_unless_one_of_them_is_written():
    def function(x):
        y = x * 2
        return y.clone().sin() + y.clone().add_(1)

    text = text_of(function, torch.ones(3))
    drop_copies(text)
    assert names(text).count("copy") == 1


def test_a_result_that_is_a_copy():
    def function(x):
        y = x * 2
        return y.clone(), y.sum()

    text = text_of(function, torch.ones(3))
    drop_copies(text)
    assert "copy" not in names(text)
    compiled = torch.compile(function)
    for _ in range(4):
        copied, total = compiled(torch.ones(3))
        assert copied.tolist() == [2.0] * 3 and total.item() == 6


def test_values_share_memory():
    def function(x):
        for _ in range(10):
            x = x.sin() @ x
        return x.sum()

    text = text_of(function, torch.ones(8, 8))
    for each in PASSES:
        each(text)
    layout = lay_out(text)
    check_layout(text, layout)
    assert layout.arena_bytes <= 3 * 256 + 64


def test_the_checker_finds_shared_memory():
    text = text_of(lambda x: x.sin() @ x.cos() + 1, torch.ones(4, 4))
    layout = lay_out(text)
    check_layout(text, layout)
    with pytest.raises(AssertionError, match="share memory at step"):
        check_layout(text, layout._replace(offsets=dict.fromkeys(layout.offsets, 0)))


@pytest.mark.parametrize("name", MODELS)
def test_layouts_of_models(name):
    def function():
        MODELS[name]().backward()

    function()  # the first time, modules may leave something at their classes
    text = text_of(function)
    # Nothing is left behind here: keep what the last step writes, or all of it would be dead.
    text.kept |= set(text.steps[-1].writes())
    drop_copies(text)
    check_layout(text, lay_out(text))
    share_common(text)
    check_layout(text, lay_out(text))
    drop_dead(text)
    check_layout(text, lay_out(text))
