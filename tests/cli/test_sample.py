"""``tapegrad sample``: text from a trained model, the same for the same seed."""

import os

import pytest
from library import torch


@pytest.fixture
def run(train):
    train("runs/one", "--steps", "60")


@pytest.mark.usefixtures("run")
class TestSample:
    def test_it_can_be_repeated(self, command):
        words = ["sample", "runs/one", "--tokens", "80", "--prompt", "Alice "]
        status, first, errors = command(*words, "--seed", "3")
        assert (status, errors) == (0, "")
        assert first.startswith("Alice ") and len(first) == len("Alice ") + 80 + 1
        torch.rand(5)
        assert command(*words, "--seed", "3")[1] == first
        assert command(*words, "--seed", "4")[1] != first

    def test_no_temperature_leaves_nothing_to_chance(self, command):
        words = ["sample", "runs/one", "--tokens", "40", "--prompt", "A"]
        likeliest = command(*words, "--temperature", "0")[1]
        assert command(*words, "--temperature", "0", "--seed", "1")[1] == likeliest
        assert command(*words, "--top-k", "1", "--seed", "2")[1] == likeliest
        assert command(*words, "--temperature", "1e-300")[1] == likeliest
        assert command(*words, "--temperature", "100")[1] != likeliest

    def test_the_newest_run_without_a_name(self, command, train, folder):
        train("runs/two", "--seed", "5")
        for name, age in (("one", 100), ("two", 50)):
            os.utime(folder / "runs" / name / "checkpoint.safetensors", (age, age))
        assert command("sample", "--tokens", "30") == command(
            "sample", "runs/one", "--tokens", "30"
        )

    def test_a_prompt_longer_than_the_context(self, command):
        status, shown, _ = command("sample", "runs/one", "--prompt", "ab" * 50, "--tokens", "5")
        assert status == 0 and len(shown) == 106

    def test_a_symbol_that_the_model_never_saw(self, command):
        status, shown, errors = command("sample", "runs/one", "--prompt", "naïve §")
        assert (status, shown) == (1, "")
        assert errors == (
            "tapegrad sample: the model was trained without '§' 'ï'; leave it out of the prompt\n"
        )

    def test_a_missing_run_tells_which_there_are(self, command):
        assert "there are: runs/one" in command("sample", "runs/none")[2]


def test_bytes_that_make_a_character_are_shown_whole(command, folder):
    (folder / "text.txt").write_text("ä" * 2000, encoding="utf-8")
    command(
        *("train", "--text", "text.txt", "--tokens", "bytes", "--out", "run", "--layers", "1"),
        *("--width", "16", "--heads", "1", "--context", "8", "--lr", "0.05", "--steps", "60"),
        *("--warmup", "0"),
    )
    shown = command("sample", "run", "--prompt", "ä", "--tokens", "20", "--temperature", "0")[1]
    assert shown == "ä" * 11 + "\n"
