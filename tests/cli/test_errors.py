"""What goes wrong says what and what to do, in one line, without a traceback."""

import resource

import pytest
from library import torch

from cli.conftest import TINY, assert_same_run, numbers, start


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("train --text none.txt", "--text: expected a text file, got 'none.txt': no such file"),
        ("train --text .", "--text: expected a text file, got '.': a folder"),
        ("train --heads 3", "--heads: expected a divisor of the width 128, got 3"),
        ("train --steps 0", "--steps: expected a whole number above 0, got '0'"),
        ("train --steps 1e3", "--steps: expected a whole number above 0, got '1e3'"),
        ("train --lr nan", "--lr: expected a number above 0, got 'nan'"),
        ("train --seed 99999999999999999999", "--seed: expected a whole number of at least 0"),
        ("train --dropout 1", "--dropout: expected a number of at least 0 and below 1, got '1'"),
        (
            "train --resume x --out y --tokens-per-step 9",
            "--out, --tokens-per-step cannot change in a resumed run",
        ),
        ("train --preset gpt3", "--preset: invalid choice: 'gpt3' (choose from "),
        ("train --preset gpt2 --width 32", "--heads: expected a divisor of the width 32, got 12"),
        ("train --vocabulary 500", "--vocabulary: characters have their own; add --tokens bpe"),
        (
            "train --preset gpt2 --vocabulary 255",
            "--vocabulary: expected a whole number from 256, one for each byte, to 1,000,000, "
            "got '255'",
        ),
        ("train --tokens bpe --vocabulary 1000001", "to 1,000,000, got '1000001'"),
        (
            "train --preset gpt2 --tokens-per-step 100000",
            "--tokens-per-step: expected a multiple of 32,768 (batch 32 times context 1024), got "
            "100,000; take 98,304 or 131,072",
        ),
        (
            "train --tokens-per-step 768 --accumulate 1",
            "--tokens-per-step and --accumulate say the same: leave one of them out",
        ),
        (
            "train --budget much",
            "--budget: expected a size such as \"20 GiB\" or a share of 1 such as 0.4, got 'much'",
        ),
        ("train --budget 0", "--budget: expected a size"),
        ("train --dtype int8", "--dtype: invalid choice: 'int8'"),
        ("train --peak-tflops 0", "--peak-tflops: expected a number above 0, got '0'"),
        ("sample --temperature -1", "--temperature: expected a number of at least 0, got '-1'"),
        ("", "the following arguments are required: COMMAND"),
    ],
)
def test_bad_options(command, words, message):
    status, _, errors = command(*words.split())
    assert status == 2
    assert message in errors


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("train --resume nowhere", "no such run: nowhere is not a folder; there are none in runs/"),
        ("train --resume .", ". has no checkpoint.safetensors: nothing was saved there"),
        ("sample nowhere", "no such run: nowhere is not a folder"),
        ("sample", "there is no run in runs/; name one, or train first"),
        ("train --text text.txt --out text.txt", "cannot write text.txt: File exists; choose"),
        ("train --text text.txt --out text.txt/x", "cannot write text.txt/x: Not a directory; "),
    ],
)
def test_bad_places(command, words, message):
    status, _, errors = command(*words.split())
    assert status == 1
    assert errors.startswith(f"tapegrad {words.split()[0]}: {message}")
    assert errors.count("\n") == 1


class TestText:
    def test_too_short(self, command, folder):
        (folder / "text.txt").write_text("to be or not to be")
        status, _, errors = command("train", "--text", "text.txt")
        assert status == 1
        assert errors == (
            "tapegrad train: the text is too short: a context of 64 needs at least 650 tokens, "
            "got 18; give a longer --text or a smaller --context\n"
        )
        assert not (folder / "runs").exists()

    def test_other_files_stay(self, command, folder):
        """A run that never began takes away what it wrote, and nothing else."""
        (folder / "text.txt").write_text("to be or not to be")
        (folder / "mine").mkdir()
        (folder / "mine" / "config.json").write_text("mine")
        assert command("train", "--text", "text.txt", "--out", "mine")[0] == 1
        assert [path.name for path in (folder / "mine").iterdir()] == ["config.json"]
        assert (folder / "mine" / "config.json").read_text() == "mine"

    def test_empty(self, command, folder):
        (folder / "text.txt").write_text("")
        status, _, errors = command("train", "--text", "text.txt")
        assert status == 1 and "too short" in errors and "got 0" in errors

    @pytest.mark.parametrize("length", [17, 169, 170, 171, 180])
    def test_the_least_length_works(self, command, folder, length):
        """No length between too short and enough fails in another way."""
        (folder / "text.txt").write_text(("ab " * length)[:length])
        status, _, errors = command("train", "--text", "text.txt", *TINY, "--steps", "1")
        assert status == 0 or "too short" in errors
        assert (status == 0) == (length >= 170)

    def test_not_utf8(self, command, folder):
        (folder / "text.txt").write_bytes("grün ".encode("latin-1") * 100)
        status, _, errors = command("train", "--text", "text.txt")
        assert status == 1
        assert "the text is not UTF-8: byte 0xfc at position 2; convert it" in errors
        assert "--tokens bytes" in errors


class TestRun:
    def test_a_folder_that_holds_a_run(self, train, command):
        train("run")
        status, _, errors = command("train", "--text", "text.txt", *TINY, "--out", "run")
        assert status == 1
        assert "run holds a run already; go on with it by --resume run" in errors

    def test_settings_of_a_run_that_cannot_change(self, train, command):
        train("run", "--minutes", "0.00001")
        words = ["train", "--resume", "run"]
        status, _, errors = command(*words, "--width", "8", "--lr", "0.01", "--no-tie", "--seed", 1)
        assert status == 1
        assert errors == (
            "tapegrad train: --seed (the run has 0, got 1), --width (the run has 16, got 8) cannot "
            "change in a resumed run: leave out, or start a new run instead of going on with run\n"
        )
        status, _, errors = command(*words, "--batch", "2", "--accumulate", "3")
        assert status == 1
        assert "--accumulate (the run has 1, got 3), --batch (the run has 4, got 2)" in errors
        assert command(*words, "--lr", "0.01", "--preset", "small", "--width", "16")[0] == 0

    def test_the_text_changed(self, train, command, folder):
        train("run", "--minutes", "0.00001")
        (folder / "text.txt").write_text("x" * 20000)
        status, _, errors = command("train", "--resume", "run")
        assert status == 1
        assert "the text text.txt is not the one that run was trained on; restore it" in errors

    def test_the_text_is_gone(self, train, command, folder):
        train("run", "--minutes", "0.00001")
        (folder / "text.txt").unlink()
        status, _, errors = command("train", "--resume", "run")
        assert status == 1
        assert "cannot read the text text.txt: No such file or directory; say where it is" in errors

    @pytest.mark.parametrize("kind", ["cut", "garbage", "empty", "another"])
    @pytest.mark.parametrize("words", ["train --resume run", "sample run"])
    def test_a_damaged_checkpoint(self, train, command, folder, kind, words):
        train("run", "--minutes", "0.00001")
        path = folder / "run" / "checkpoint.safetensors"
        if kind == "another":
            torch.save({"x": torch.ones(2)}, path)
        else:
            content = path.read_bytes()
            damaged = {"cut": content[: len(content) // 2], "garbage": b"\x93" * 500, "empty": b""}
            path.write_bytes(damaged[kind])
        status, _, errors = command(*words.split())
        assert status == 1
        assert f"cannot read the checkpoint {path.relative_to(folder)}: " in errors
        assert "Traceback" not in errors

    def test_the_loss_is_no_longer_finite(self, command):
        options = [*TINY, "--lr", "1e25", "--warmup", "0"]
        status, _, errors = command("train", "--text", "text.txt", "--out", "run", *options)
        assert status == 1
        assert "the loss or its gradient is no longer finite at step" in errors
        assert "start again with a smaller --lr" in errors

    def test_out_of_memory(self, command, folder, monkeypatch):
        from tapegrad.cli.trainer import Trainer

        evaluate, take_step = Trainer.evaluate, Trainer.take_step

        def fail(self):
            torch.empty(1 << 50)

        def fail_later(self):
            return fail(self) if self.step == 13 else take_step(self)

        words = ["train", "--text", "text.txt", "--out", "run", *TINY]
        status, _, errors = command(*words, "--width", str(1 << 40))
        assert status == 1 and errors.count("\n") == 1
        assert errors.startswith("tapegrad train: out of memory: ")
        assert errors.endswith("; the model does not fit: choose fewer --layers or less --width\n")
        assert not (folder / "run").exists()
        monkeypatch.setattr(Trainer, "evaluate", fail)
        status, _, errors = command(*words)
        assert status == 1 and errors.count("\n") == 1
        assert errors.startswith("tapegrad train: out of memory at step 1: ")
        assert (
            "; start again with --batch 2 --accumulate 2 (the same steps in smaller parts) or "
            "--budget 0.4, which keeps less of each batch and computes the rest again\n"
        ) in errors
        monkeypatch.setattr(Trainer, "evaluate", evaluate)
        monkeypatch.setattr(Trainer, "take_step", fail_later)
        status, _, errors = command(*words)
        assert status == 1
        assert errors.startswith("tapegrad train: out of memory at step 14: ")
        assert "; go on with " in errors
        assert "train --resume run and --batch 2 --accumulate 2 " in errors
        monkeypatch.setattr(Trainer, "take_step", take_step)
        assert command("train", "--resume", "run", "--batch", "2", "--accumulate", "2")[0] == 0
        assert len(numbers(folder / "run")) == 31

    def test_a_disk_that_is_full_from_the_start(self, command, folder):
        """A limit on the size of files fails as a full disk does: in the middle of a write."""
        words = ["train", "--text", "text.txt", "--out", "run", *TINY]
        limit = (20000, 20000)
        with start(
            *words,
            cwd=folder,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
        ) as program:
            _, errors = program.communicate()
        assert program.returncode == 1
        assert errors.startswith("tapegrad train: cannot write run/checkpoint.safetensors: ")
        assert errors.endswith("; make room, then start again\n")
        assert not [path for path in (folder / "run").iterdir() if "checkpoint" in path.name]
        assert command(*words)[0] == 0  # the folder is free again

    def test_a_disk_that_fills_up(self, train, command, folder):
        train("whole")
        words = ["train", "--text", "text.txt", "--out", "cut", *TINY]
        action = "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))"
        with start(*words, cwd=folder, action=action) as program:
            _, errors = program.communicate()
        assert program.returncode == 1
        assert errors.startswith("tapegrad train: cannot write cut/metrics.jsonl: ")
        assert "make room, then go on with: " in errors and "train --resume cut\n" in errors
        assert "Traceback" not in errors
        assert command("train", "--resume", "cut")[0] == 0
        assert_same_run(folder / "whole", folder / "cut")


@pytest.mark.parametrize(
    "words", ["sample run --tokens 100000", "train --resume run --steps 99999"]
)
def test_a_reader_that_goes_away(train, folder, words):
    train("run", "--minutes", "0.00001")
    with start(*words.split(), cwd=folder) as program:
        program.stdout.read(1)
        program.stdout.close()
        errors = program.stderr.read()
        assert program.wait(60) == 1
    assert errors == ""
