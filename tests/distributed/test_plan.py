"""The planner: what it measures on the meta device, and what it makes of it."""

import json

import pytest

import tapegrad as torch
from tapegrad.distributed import plan

SMALL = "gpt:layers=2,width=16,heads=2,words=31,length=8"


def small(samples=4):
    return plan.profile(plan.model_of(SMALL), samples)


def test_what_a_model_takes():
    found = small()
    model, loss = plan.model_of(SMALL)(4)
    assert found.parameters == sum(4 * p.numel() for p in model.parameters())
    assert found.unit == sum(4 * p.numel() for p in model.blocks[0].parameters())
    assert found.outer == found.parameters - 2 * found.unit and found.layers == 2
    assert found.state == 2 * found.parameters and found.cut == 4 * 8 * 16 * 4
    before = torch._C.memory_stats()["saved_bytes"]
    result = loss()
    assert found.saved == pytest.approx(torch._C.memory_stats()["saved_bytes"] - before, rel=0.3)
    result.backward()
    # Twice the samples are twice the work and nothing more to keep.
    twice = small(8)
    assert twice.flops == 2 * found.flops and twice.parameters == found.parameters


def by_name(found, ranks, **options):
    machine = plan.Machine(**{"flops": 1e9, "bandwidth": 1e6, "latency": 0.0, **options})
    return {each.name: each for each in plan.plans(found, ranks, machine)}


def test_one_process_communicates_nothing():
    for each in by_name(small(), 1).values():
        assert each.communication == 0 and each.sent == 0
        assert each.step == pytest.approx(small().flops / 1e9)


def test_formulas_of_communication():
    found = small()
    ways, p = by_name(found, 4), found.parameters
    compute = found.flops / 1e9
    assert ways["ddp"].communication == pytest.approx(2 * p * 3 / 4 / 1e6)
    assert ways["ddp"].step == pytest.approx(compute + ways["ddp"].communication)
    assert ways["fsdp"].sent == round(3 * p * 3 / 4)
    assert ways["fsdp, kept after forward"].sent == round(2 * p * 3 / 4)
    assert ways["ddp"].samples_per_second == pytest.approx(16 / ways["ddp"].step)
    tensor = ways["tensor 2 x copies 2"]
    assert tensor.compute == pytest.approx(compute / 2)
    assert tensor.sent == round(2 * 2 * found.rows / 2 + p / 2)
    pipeline = ways["pipeline 2 x copies 2"]
    assert pipeline.compute == pytest.approx(compute / 2 * (8 + 2 - 1) / 8)
    assert pipeline.sent == round(2 * found.cut + p / 2)
    late = by_name(found, 4, latency=1e-3)
    assert late["ddp"].communication == pytest.approx(ways["ddp"].communication + 6e-3)
    hidden = by_name(found, 4, overlap=1.0)
    assert hidden["ddp"].step == pytest.approx(
        compute + max(0, ways["ddp"].communication - compute * 2 / 3)
    )


def test_dividing_more_takes_less_memory():
    found = small()
    few, many = by_name(found, 2), by_name(found, 64)
    assert few["fsdp"].memory > many["fsdp"].memory
    assert few["zero-1"].memory > many["zero-1"].memory
    assert few["ddp"].memory == many["ddp"].memory
    assert many["ddp"].memory - many["zero-1"].memory == pytest.approx(found.state * 63 / 64, abs=2)


def test_the_command(capsys, tmp_path):
    assert plan.main([SMALL, "--ranks", "8", "--memory", "1e5"]) == 0
    printed = capsys.readouterr().out
    assert "8 processes" in printed and "fsdp, kept after forward" in printed
    assert "does not fit" in printed and "samples/s" in printed
    assert plan.main(["mlp:width=8", "--ranks", "4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["profile"]["parameters"] == 4 * 4 * (8 * 8 + 8)
    assert {"ddp", "zero-1", "fsdp"} <= {each["name"] for each in found["plans"]}
    (tmp_path / "own.py").write_text(
        "import tapegrad as torch\n"
        "def make(samples):\n"
        "    model = torch.nn.Conv2d(1, 2, 3)\n"
        "    return model, lambda: model(torch.zeros(samples, 1, 5, 5)).sum()\n"
    )
    assert plan.main([f"{tmp_path / 'own.py'}:make", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["profile"]["parameters"] == 80


@pytest.mark.parametrize(
    "words, text",
    [
        (["resnet"], "expected gpt, mlp or file.py:function"),
        (["gpt:depth=3"], "expected numbers by name"),
        (["gpt:layers=x"], "expected numbers by name"),
        (["mlp", "--ranks", "0"], "must be positive"),
        (["mlp", "--overlap", "2"], "between 0 and 1"),
    ],
)
def test_what_is_refused(capsys, words, text):
    with pytest.raises(SystemExit):
        plan.main(words)
    assert text in capsys.readouterr().err
