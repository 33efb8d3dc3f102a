"""``tapegrad train --preset gpt2`` made tiny: byte pairs, half precision, parts, budgets."""

import json
import math
import re
import signal

import pytest
from library import IS_TORCH, torch

from cli.conftest import assert_same_run, flattened, numbers, read_lines, start

if not IS_TORCH:
    from tapegrad.cli.flops import flops_per_token, peak_of
    from tapegrad.cli.model import GPT
    from tapegrad.cli.settings import Settings
    from tapegrad.cli.trainer import learning_rate_factor

TINY_GPT2 = (
    *("--preset", "gpt2", "--layers", "2", "--width", "32", "--heads", "2", "--context", "16"),
    *("--vocabulary", "300", "--steps", "30", "--batch", "4", "--warmup", "3", "--every", "10"),
    *("--sample-tokens", "40", "--lr", "0.01"),
)


@pytest.fixture
def gpt2(command):
    """Give a function that trains a tiny GPT-2 on the small text and expects it to work."""

    def run(out, *options):
        words = ("train", "--text", "text.txt", "--out", out, *TINY_GPT2, *options)
        status, shown, errors = command(*words)
        assert (status, errors) == (0, "")
        return shown

    return run


class TestRun:
    def test_it_learns(self, gpt2, command, folder):
        shown = gpt2("run", "--steps", "150")
        losses = [line["val_loss"] for line in numbers(folder / "run") if "val_loss" in line]
        assert losses[0] == pytest.approx(math.log(384), abs=0.3)  # rows of the padded vocabulary
        assert losses[-1] < losses[0] - 1.5
        assert "300 different" in shown
        assert "step   4 x 16 = 64 tokens in bfloat16\n" in shown
        config = json.loads((folder / "run" / "config.json").read_text())
        assert config["preset"] == "gpt2" and config["beta2"] == 0.95 and config["tie"]
        assert config["width"] == 32 and config["gelu"] == "tanh" and config["dtype"] == "bfloat16"
        tokens = json.loads((folder / "run" / "tokenizer.json").read_text(encoding="utf-8"))
        assert tokens["size"] == 300
        status, text, errors = command("sample", "run", "--tokens", "20", "--prompt", "§ naïve")
        assert (status, errors) == (0, "") and text.startswith("§ naïve")

    def test_the_text_gives_fewer_tokens(self, gpt2, command, folder):
        shown = gpt2("run", "--vocabulary", "50257", "--steps", "1")
        found = re.search(r"([\d,]+) different \(50,257 asked for: no other pair occurs", shown)
        known = int(found[1].replace(",", ""))
        rows = len(torch.load(folder / "run" / "checkpoint.safetensors")["model"]["token.weight"])
        assert 300 < known < 10000 and rows % 128 == 0 and 0 <= rows - known < 128
        gpt2("padded", "--pad-vocabulary", "5000", "--steps", "1")
        model = torch.load(folder / "padded" / "checkpoint.safetensors")["model"]
        assert len(model["token.weight"]) == 5000

    def test_bytes_that_are_no_text(self, gpt2, folder):
        (folder / "text.txt").write_bytes(bytes(range(256)) * 40)
        assert "different" in gpt2("run")

    def test_no_samples(self, gpt2, folder):
        assert "before training" not in gpt2("run", "--sample-tokens", "0")
        assert not (folder / "run" / "samples.jsonl").exists()
        assert "Samples" not in (folder / "run" / "report.html").read_text(encoding="utf-8")

    def test_what_is_said_about_speed(self, gpt2, folder):
        shown = gpt2("run", "--peak-tflops", "0.001")
        line = next(line for line in shown.splitlines() if line.startswith("step 30/30"))
        words = ("loss ", "val ", "speed ", "tok/s", "MFU ", "%", "memory ", "iB", "rate ", "norm ")
        assert all(word in line for word in words)
        record = read_lines(folder / "run" / "metrics.jsonl")[-1]
        model = GPT(384, 16, 2, 32, 2, tie=True)
        work = record["tokens_per_second"] * flops_per_token(model)
        assert record["mfu"] == pytest.approx(work / 1e9, rel=1e-4)
        page = (folder / "run" / "report.html").read_text(encoding="utf-8")
        assert "model FLOP utilisation of 0.001 TFLOP/s, median" in page
        size = (folder / "text.txt").stat().st_size
        tokens = torch.load(folder / "run" / "checkpoint.safetensors")["tokens"]
        bits = record["val_loss"] / math.log(2) * tokens / size
        assert f"<b>{bits:.2f}</b><span>bits per byte, held out" in page
        for word in ("tokens per second, median", "norm of gradient", "memory", "MFU", "rate"):
            assert word in page
        assert "MFU" not in gpt2("unknown")  # the peak of a CPU is not known


RESUMED = {
    "bfloat16": (),
    "float16": ("--dtype", "float16"),
    "parts": ("--accumulate", "3", "--dropout", "0.1"),
    "budget": ("--budget", "60 KiB", "--dropout", "0.1"),
    "share": ("--budget", "0.5"),
}


class TestResume:
    @pytest.mark.parametrize("name", RESUMED)
    def test_to_the_same_bits(self, gpt2, command, folder, name):
        options = RESUMED[name]
        gpt2("whole", *options)
        gpt2("cut", *options, "--minutes", "0.00001")
        (folder / "cut" / "tokens.bin").unlink()  # is made again
        assert command("train", "--resume", "cut", "--minutes", "0.00001")[0] == 0
        assert command("train", "--resume", "cut")[0] == 0
        assert_same_run(folder / "whole", folder / "cut")

    @pytest.mark.parametrize("action", ["os.kill(os.getpid(), signal.SIGKILL)", "sys.exit(3)"])
    def test_after_a_kill(self, gpt2, command, folder, action):
        gpt2("whole", "--accumulate", "2")
        words = ("train", "--text", "text.txt", "--out", "cut", *TINY_GPT2, "--accumulate", "2")
        with start(*words, cwd=folder, action=action) as program:
            program.communicate()
        assert program.returncode in (-signal.SIGKILL, 3)
        assert command("train", "--resume", "cut")[0] == 0
        assert_same_run(folder / "whole", folder / "cut")

    def test_a_damaged_file_of_tokens(self, gpt2, command, folder):
        gpt2("whole")
        gpt2("cut", "--minutes", "0.00001")
        path = folder / "cut" / "tokens.bin"
        path.write_bytes(path.read_bytes()[:1000])
        assert command("train", "--resume", "cut")[0] == 0
        assert_same_run(folder / "whole", folder / "cut")

    def test_the_scale_of_float16_goes_on(self, gpt2, command, folder):
        gpt2("run", "--dtype", "float16", "--minutes", "0.00001")
        scaler = torch.load(folder / "run" / "checkpoint.safetensors")["scaler"]
        assert scaler["scale"] == 65536 and scaler["_growth_tracker"] == 1


class TestParts:
    def test_parts_of_a_step_are_the_step(self, gpt2, folder):
        exact = ("--dtype", "float32", "--steps", "20", "--batch")
        gpt2("whole", *exact, "12")
        gpt2("parts", *exact, "3", "--accumulate", "4")
        gpt2("tokens", *exact, "3", "--tokens-per-step", str(12 * 16))
        for name in ("parts", "tokens"):
            for mine, other in zip(numbers(folder / name), numbers(folder / "whole"), strict=True):
                assert mine == pytest.approx(other, rel=1e-4)
        assert numbers(folder / "parts") == numbers(folder / "tokens")

    def test_a_run_that_goes_on_in_parts(self, gpt2, command, folder):
        gpt2("whole", "--dtype", "float32")
        gpt2("cut", "--dtype", "float32", "--minutes", "0.00001")
        assert command("train", "--resume", "cut", "--batch", "2", "--accumulate", "2")[0] == 0
        for mine, other in zip(numbers(folder / "cut"), numbers(folder / "whole"), strict=True):
            assert mine == pytest.approx(other, rel=1e-4)


class TestPrecision:
    def test_half_precision_stays_near(self, gpt2, folder):
        gpt2("float32", "--dtype", "float32", "--steps", "10")
        exact = numbers(folder / "float32")
        for dtype in ("bfloat16", "float16", "tf32"):
            gpt2(dtype, "--dtype", dtype, "--steps", "10")
            losses = [
                [line.get("loss", 0) for line in run] for run in (numbers(folder / dtype), exact)
            ]
            assert losses[0] == pytest.approx(losses[1], abs=0.05)
            assert (losses[0] == losses[1]) == (dtype == "tf32")  # which a CPU does not have

    def test_weights_stay_in_float32(self, gpt2, folder):
        gpt2("run", "--steps", "2")
        state = torch.load(folder / "run" / "checkpoint.safetensors")
        values = flattened({"model": state["model"], "optimizer": state["optimizer"]["state"]})
        assert {value.dtype for value in values.values()} == {torch.float32}

    def test_a_step_that_float16_leaves_out(self, gpt2, folder, monkeypatch):
        from tapegrad.cli import trainer

        usual = torch.amp.GradScaler

        def scaler(device, enabled):
            return usual(device, init_scale=2.0**40, enabled=enabled)

        monkeypatch.setattr(trainer.amp, "GradScaler", scaler)
        shown = gpt2("run", "--dtype", "float16")
        lines = read_lines(folder / "run" / "metrics.jsonl")[1:]
        left_out = [line["step"] for line in lines if line["grad_norm"] is None]
        assert left_out == list(range(1, len(left_out) + 1)) and 0 < len(left_out) < 30
        assert "norm left out" in shown
        assert lines[-1]["loss"] < lines[0]["loss"]


class TestBudget:
    def test_the_numbers_are_the_same(self, gpt2, folder):
        gpt2("free")
        gpt2("tight", "--budget", "60 KiB")
        assert numbers(folder / "tight") == numbers(folder / "free")

    def test_one_that_cannot_be_met(self, gpt2):
        shown = gpt2("run", "--budget", "1 KiB")
        assert shown.count("more than the budget of 1 KiB: the rest cannot be computed again") == 1


class TestSchedule:
    @pytest.mark.parametrize("last", [0.0, 0.1, 1.0])
    def test_ends_at_a_share(self, last):
        settings = Settings.of({"preset": "gpt2", "steps": 100, "warmup": 10, "last_lr": last})
        factors = [learning_rate_factor(step, settings) for step in range(101)]
        assert factors[0] == pytest.approx(1 / 11) and factors[10] == 1
        assert factors[55] == pytest.approx((1 + last) / 2)
        assert factors[100] == pytest.approx(last)

    def test_the_rates_of_a_run(self, gpt2, folder):
        gpt2("run")
        settings = Settings.from_dict(json.loads((folder / "run" / "config.json").read_text()))
        rates = [line["lr"] for line in numbers(folder / "run")[1:]]
        expected = [settings.lr * learning_rate_factor(step, settings) for step in range(30)]
        assert rates == pytest.approx(expected)


class TestFlops:
    def test_of_gpt_2(self):
        """6 for each of the weights but the places, and 12 layers of attention over 1024."""
        with torch.device("meta"):
            model = GPT(50304, 1024, 12, 768, 12, tie=True)
        weights = 50304 * 768 + 12 * 12 * 768 * 768
        assert flops_per_token(model) == 6 * weights + 12 * 12 * 768 * 1024

    @pytest.mark.parametrize(
        ("name", "dtype", "teraflops"),
        [
            ("NVIDIA H200", "bfloat16", 989),
            ("NVIDIA H200", "float16", 989),
            ("NVIDIA H200 NVL", "bfloat16", 835),
            ("NVIDIA H100 80GB HBM3", "tf32", 495),
            ("NVIDIA H100 PCIe", "bfloat16", 756),
            ("NVIDIA GH200 480GB", "bfloat16", 989),
            ("NVIDIA A100-SXM4-80GB", "float32", 19.5),
            ("NVIDIA A10", "bfloat16", 125),
            ("NVIDIA A10G", "bfloat16", None),
            ("NVIDIA L4", "bfloat16", 121),
            ("NVIDIA L40S", "bfloat16", 362),
            ("NVIDIA GeForce RTX 4090", "bfloat16", 165.2),
            ("NVIDIA GeForce RTX 4090 Laptop GPU", "bfloat16", None),
            ("Tesla T4", "float16", None),
        ],
    )
    def test_peaks(self, name, dtype, teraflops):
        assert peak_of(name, dtype) == (None if teraflops is None else teraflops * 1e12)
