"""``tapegrad train``: it learns, it leaves what it promises, and it goes on to the very bit."""

import json
import re
import signal
import subprocess
import sys

import pytest
from library import torch

from cli.conftest import TIMES, TINY, assert_same_run, numbers, read_lines, start


class TestRun:
    def test_it_learns(self, train, folder):
        shown = train("run", "--steps", "150")
        losses = [line["val_loss"] for line in numbers(folder / "run") if "val_loss" in line]
        assert losses[0] == pytest.approx(torch.tensor(69.0).log().item(), abs=0.3)
        assert losses[-1] < losses[0] - 1
        assert re.search(r"validation loss \d\.\d+ before, \d\.\d+ after 150 steps", shown)

    def test_what_is_left_on_disk(self, train, folder):
        shown = train("run")
        run = folder / "run"
        assert {path.name for path in run.iterdir()} == {
            "checkpoint.safetensors",
            "config.json",
            "curve.svg",
            "metrics.jsonl",
            "report.html",
            "samples.jsonl",
            "tokens.bin",
        }
        lines = read_lines(run / "metrics.jsonl")
        assert [line["step"] for line in lines] == list(range(31))
        assert [line["step"] for line in lines if "val_loss" in line] == [0, 10, 20, 30]
        assert {"loss", "lr", "grad_norm"} | TIMES == lines[7].keys() - {"step"}
        samples = read_lines(run / "samples.jsonl")
        assert [sample["step"] for sample in samples] == [0, 30]
        assert all(len(sample["text"]) == 300 for sample in samples)
        config = json.loads((run / "config.json").read_text())
        assert config["width"] == 16 and config["dropout"] == 0.1 and config["text"] == "text.txt"
        for word in ("before training", "after 30 steps", "step 30/30", "tok/s", "iB", "ETA"):
            assert word in shown
        assert samples[-1]["text"].strip().splitlines()[0] in shown

    def test_the_same_settings_give_the_same_run(self, train, folder):
        train("a")
        torch.rand(7)  # what happened before does not matter
        train("b")
        assert_same_run(folder / "a", folder / "b")
        train("c", "--seed", "1")
        assert numbers(folder / "a")[5] != numbers(folder / "c")[5]

    def test_quiet_says_where_the_run_is(self, command):
        status, shown, errors = command("train", "--text", "text.txt", *TINY, "--quiet")
        assert (status, shown, errors) == (0, "runs/text-1\n", "")
        assert command("train", "--text", "text.txt", *TINY, "--quiet")[1] == "runs/text-2\n"

    def test_tied_weights(self, train, folder):
        train("run", "--tie")
        model = torch.load(folder / "run" / "checkpoint.safetensors")["model"]
        assert torch.equal(model["token.weight"], model["scores.weight"])
        before = numbers(folder / "run")
        train("cut", "--tie", "--minutes", "0.00001")
        self.resume_and_compare(folder, before)

    def resume_and_compare(self, folder, expected):
        from tapegrad.cli import main

        assert main(["train", "--resume", "cut", "--quiet"]) == 0
        assert numbers(folder / "cut") == expected

    def test_bytes_take_any_file(self, command, folder):
        (folder / "data.bin").write_bytes(bytes(range(256)) * 20)
        status, shown, errors = command(
            "train", "--text", "data.bin", *TINY, "--tokens", "bytes", "--out", "run"
        )
        assert status == 0, errors
        assert "256 different" in shown

    def test_characters_beyond_ascii(self, command, folder):
        (folder / "text.txt").write_text("\ufeff" + "počítač — 計算機 🙂\n" * 100, encoding="utf-8")
        status, _, errors = command("train", "--text", "text.txt", *TINY, "--out", "run")
        assert status == 0, errors
        symbols = torch.load(folder / "run" / "checkpoint.safetensors")["vocabulary"]
        assert symbols == "".join(sorted(set("počítač — 計算機 🙂\n")))

    def test_events_for_tensorboard(self, train, folder):
        pytest.importorskip("tensorboard", reason="tensorboard is not installed")
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        from tapegrad.cli import main

        train("run", "--tensorboard", "--minutes", "0.00001")
        assert main(["train", "--resume", "run", "--tensorboard", "--quiet"]) == 0
        events = EventAccumulator(str(folder / "run")).Reload()
        assert {"loss", "val_loss", "lr"} <= set(events.Tags()["scalars"])
        assert [event.step for event in events.Scalars("val_loss")] == [0, 10, 20, 30]
        assert [event.step for event in events.Scalars("loss")] == list(range(1, 31))
        assert "sample/text_summary" in events.Tags()["tensors"]

    def test_without_tensorboard(self, command, folder, monkeypatch):
        monkeypatch.setitem(sys.modules, "tensorboard", None)
        for name in [name for name in sys.modules if "utils.tensorboard" in name]:
            monkeypatch.delitem(sys.modules, name)
        status, _, errors = command("train", "--text", "text.txt", *TINY, "--tensorboard")
        assert status == 1
        assert errors.startswith("tapegrad train: --tensorboard: tapegrad.utils.tensorboard: ")
        assert "pip install 'tapegrad[tensorboard]'" in errors
        assert not (folder / "runs").exists()


class TestUnread:
    """Steps whose losses are read later, as those of a GPU are."""

    @pytest.fixture(autouse=True)
    def later(self, monkeypatch):
        from tapegrad.cli import loop

        monkeypatch.setitem(loop._MOST_UNREAD, "cpu", 4)
        monkeypatch.setattr(loop, "_LONGEST_UNREAD", 1e9)

    def test_every_step_is_noted(self, train, folder, monkeypatch):
        from tapegrad.cli import loop
        from tapegrad.cli.trainer import Trainer

        counts, read = [], Trainer.read

        def count_and_read(self, steps):
            counts.append(len(steps))
            return read(self, steps)

        monkeypatch.setattr(Trainer, "read", count_and_read)
        train("late")
        assert counts == [4, 4, 2] * 3  # there is a visit every ten steps
        monkeypatch.setitem(loop._MOST_UNREAD, "cpu", 1)
        train("whole")
        assert_same_run(folder / "whole", folder / "late")
        times = [line["seconds"] for line in read_lines(folder / "late" / "metrics.jsonl")[1:]]
        assert times == sorted(times) and times[0] > 0

    def test_a_run_that_is_cut_between(self, train, command, folder):
        train("whole")
        train("cut", "--minutes", "0.00001")
        assert len(numbers(folder / "cut")) == 2
        assert command("train", "--resume", "cut")[0] == 0
        assert_same_run(folder / "whole", folder / "cut")

    def test_no_longer_finite(self, command, folder):
        words = ["train", "--text", "text.txt", "--out", "run", *TINY, "--lr", "1e25"]
        status, _, errors = command(*words, "--warmup", "0")
        assert status == 1 and "the loss or its gradient is no longer finite at step " in errors
        assert torch.load(folder / "run" / "checkpoint.safetensors")["step"] == 0


class TestResume:
    def test_after_a_time_limit(self, train, command, folder):
        train("whole")
        shown = train("cut", "--minutes", "0.00001")
        assert "saved at step 1; go on with: " in shown
        assert len(numbers(folder / "cut")) == 2
        assert command("train", "--resume", "cut", "--minutes", "0.00001")[0] == 0
        assert command("train", "--resume", "cut")[0] == 0
        assert_same_run(folder / "whole", folder / "cut")

    @pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
    def test_after_a_signal(self, train, command, folder, name):
        train("whole")
        words = ["train", "--text", "text.txt", "--out", "cut", *TINY]
        action = f"os.kill(os.getpid(), signal.{name})"
        with start(*words, cwd=folder, action=action) as program:
            _, errors = program.communicate()
        assert program.returncode == 128 + getattr(signal, name), errors
        assert errors == (
            "\nsaving; once more quits at once without saving\n"
            "saved at step 14; go on with: tapegrad train --resume cut\n"
        )
        assert len(numbers(folder / "cut")) == 15
        assert "stopped at step 14" in (folder / "cut" / "report.html").read_text(encoding="utf-8")
        status, shown, _ = command("train", "--resume", "cut")
        assert status == 0
        assert "steps 14 to 30" in shown
        assert_same_run(folder / "whole", folder / "cut")

    def test_after_a_kill(self, train, command, folder):
        """Nothing is saved then; what was noted after the checkpoint is noted again."""
        train("whole")
        words = ["train", "--text", "text.txt", "--out", "cut", *TINY]
        with start(*words, cwd=folder, action="os.kill(os.getpid(), signal.SIGKILL)") as program:
            program.communicate()
        assert program.returncode == -signal.SIGKILL
        assert len(numbers(folder / "cut")) == 14
        status, shown, _ = command("train", "--resume", "cut")
        assert status == 0 and "steps 10 to 30" in shown
        assert_same_run(folder / "whole", folder / "cut")

    def test_after_a_crash(self, train, command, folder):
        """What was written after the checkpoint is written again, not twice."""
        train("whole")
        train("cut", "--minutes", "0.00001")
        with (folder / "cut" / "metrics.jsonl").open("a") as file:
            file.write('{"step": 2, "loss": 0.5}\n{"step": 3, "lo')
        with (folder / "cut" / "samples.jsonl").open("a") as file:
            file.write('{"step": 3, "text": "never"}\n')
        assert command("train", "--resume", "cut")[0] == 0
        assert_same_run(folder / "whole", folder / "cut")

    def test_with_a_text_that_was_moved(self, train, command, folder):
        train("whole")
        train("cut", "--minutes", "0.00001")
        (folder / "text.txt").rename(folder / "moved.txt")
        assert command("train", "--resume", "cut", "--text", "moved.txt")[0] == 0
        assert numbers(folder / "cut") == numbers(folder / "whole")

    def test_of_a_finished_run(self, train, command, folder):
        train("run")
        before = numbers(folder / "run")
        status, shown, _ = command("train", "--resume", "run")
        assert status == 0 and "validation loss" in shown
        assert numbers(folder / "run") == before

    def test_with_more_steps(self, train, command, folder):
        train("run")
        status, shown, errors = command("train", "--resume", "run", "--steps", "40")
        assert status == 0, errors
        assert "steps 30 to 40" in shown
        assert [line["step"] for line in numbers(folder / "run")] == list(range(41))
        assert json.loads((folder / "run" / "config.json").read_text())["steps"] == 40
        assert command("train", "--resume", "run", "--steps", "20")[2] == (
            "tapegrad train: --steps: expected at least 40, where the run stands, got 20\n"
        )

    def test_a_second_signal_quits(self):
        from tapegrad.cli.stopping import StopRequest

        with StopRequest() as stop:
            assert stop.signal is None
            signal.raise_signal(signal.SIGINT)
            assert stop.signal == signal.SIGINT
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


class TestSchedule:
    def test_rises_and_falls(self):
        from tapegrad.cli.settings import Settings
        from tapegrad.cli.trainer import learning_rate_factor

        settings = Settings(steps=100, warmup=10)
        factors = [learning_rate_factor(step, settings) for step in range(101)]
        assert factors[0] == pytest.approx(1 / 11)
        assert factors[10] == 1
        assert factors[55] == pytest.approx((1 + 0.05) / 2)
        assert factors[100] == pytest.approx(0.05)
        assert factors[:11] == sorted(factors[:11])
        assert factors[10:] == sorted(factors[10:], reverse=True)


class TestProgram:
    def test_importing_the_library_leaves_the_command_out(self, tmp_path):
        script = (
            "import sys, tapegrad; assert not [m for m in sys.modules if 'cli' in m.split('.')]"
        )
        subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)

    def test_help(self, tmp_path):
        with start("train", "--help", cwd=tmp_path) as program:
            shown, errors = program.communicate()
        assert (program.returncode, errors) == (0, "")
        for option in ("--text", "--out", "--resume", "--minutes", "--quiet", "--dropout"):
            assert option in shown
        for name in ("preset", "vocabulary", "dtype", "accumulate", "budget", "peak-tflops"):
            assert f"--{name}" in shown
        assert "gpt2-xl" in shown and "(default: 0.003)" in shown
        assert max(map(len, shown.splitlines())) <= 100
