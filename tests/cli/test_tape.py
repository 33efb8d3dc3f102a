"""``tapegrad tape``: a script runs as ever, and its last backward is shown."""

import json
import sys

import pytest

from cli.conftest import start

SCRIPT = """\
import sys
import tapegrad as torch

model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2))
for step in range(3):
    loss = model(torch.ones(5 + step, 4)).square().sum()
    loss.backward()
print("done", __name__, sys.argv[1:])
"""


@pytest.fixture
def script(folder):
    path = folder / "step.py"
    path.write_text(SCRIPT, encoding="utf-8")
    return path


class TestTape:
    def test_the_page_is_of_the_last_backward(self, command, script, folder):
        status, shown, errors = command(
            "tape", "--json", "tape.json", "step.py", "-o", "x", "--quiet"
        )
        assert (status, errors) == (0, "")
        assert shown.startswith("done __main__ ['-o', 'x', '--quiet']\n")
        assert "step.py: backward 3 of 3, called at step.py:7" in shown
        assert "page   step.tape.html (" in shown and "json   tape.json (" in shown
        page = (folder / "step.tape.html").read_text(encoding="utf-8")
        assert "<title>step.py: backward 3 of 3</title>" in page
        document = json.loads((folder / "tape.json").read_text(encoding="utf-8"))
        assert document["format"] == "tapegrad.tape/1"
        saved = [e for e in document["entries"] if e["op"] == "tanh"]
        assert [v["shape"] for v in saved[0]["saved"]] == [[7, 3]]  # the third step's
        assert {e["module"] for e in document["entries"]} >= {"0", "1", "2"}
        assert all("step.py:6" in e["line"] for e in document["entries"] if e["leaf"] is None)
        assert "return" not in shown and "tanh" in shown

    def test_all_files(self, command, script, folder):
        words = ("--dot", "t.dot", "--perfetto", "t.json", "-o", "t.html", "--quiet", "step.py")
        status, shown, _ = command("tape", *words)
        assert status == 0
        assert [line.split()[0] for line in shown.splitlines()[1:]] == ["page", "dot", "trace"]
        assert (folder / "t.dot").read_text().startswith('digraph "step.py: backward 3 of 3" {')
        assert json.loads((folder / "t.json").read_text())["traceEvents"]

    def test_times(self, command, script, folder):
        words = ("--profile", "--json", "t.json", "--perfetto", "t.trace", "step.py")
        status, shown, _ = command("tape", *words)
        assert status == 0 and " forward, " in shown and " backward" in shown
        entries = json.loads((folder / "t.json").read_text())["entries"]
        timed = [e for e in entries if e["op"] in ("addmm", "tanh", "square", "sum")]
        assert len(timed) == 5
        assert all(e["forward_us"] > 0 and e["backward_us"] > 0 for e in timed)
        trace = json.loads((folder / "t.trace").read_text())
        assert trace["metadata"]["durations"] == "every duration is measured"
        command("tape", "--json", "t.json", "step.py")
        entries = json.loads((folder / "t.json").read_text())["entries"]
        assert {entry["forward_us"] for entry in entries} == {None}

    def test_one_backward_by_its_number(self, command, script, folder):
        words = ("--backward", "2", "--json", "tape.json", "step.py")
        status, shown, _ = command("tape", *words)
        assert status == 0 and "backward 2 of 3" in shown
        document = json.loads((folder / "tape.json").read_text(encoding="utf-8"))
        assert [6, 3] in [v["shape"] for e in document["entries"] for v in e["saved"]]
        status, _, errors = command("tape", "--backward", "9", "step.py")
        assert status == 1
        assert (
            errors == "tapegrad tape: the script ran 3 backwards, so there is none with number 9\n"
        )

    def test_a_script_that_goes_elsewhere(self, command, folder):
        """The files are written, and said to be, where the command was given."""
        text = "import os, sys\nos.mkdir('far')\nos.chdir('far')\n" + SCRIPT
        text += "sys.stdout = open('out.txt', 'w')\nprint('lost')\nsys.stdout.close()\n"
        (folder / "step.py").write_text(text)
        status, shown, errors = command("tape", "--json", "t.json", "step.py")
        assert (status, errors) == (0, "")
        assert "page   step.tape.html (" in shown and "lost" not in shown
        assert (folder / "step.tape.html").exists() and (folder / "t.json").exists()
        assert [each.name for each in (folder / "far").iterdir()] == ["out.txt"]

    def test_neighbours_of_the_script_can_be_imported(self, command, folder):
        (folder / "deep").mkdir()
        (folder / "deep" / "neighbour.py").write_text("SIZE = 4\n")
        text = "from neighbour import SIZE\n" + SCRIPT.replace(
            "torch.nn.Linear(4", "torch.nn.Linear(SIZE"
        )
        (folder / "deep" / "step.py").write_text(text)
        before = list(sys.path), list(sys.argv)
        status, _, errors = command("tape", "deep/step.py")
        assert (status, errors) == (0, "")
        assert (folder / "step.tape.html").exists()
        assert (list(sys.path), list(sys.argv)) == before

    def test_the_browser_is_opened(self, command, script, folder, monkeypatch):
        opened = []
        monkeypatch.setattr("webbrowser.open", opened.append)
        assert command("tape", "--open", "step.py")[0] == 0
        assert opened == [(folder / "step.tape.html").as_uri()]


class TestTrouble:
    def test_a_script_that_raises_is_shown_all_the_same(self, command, script, folder):
        script.write_text(SCRIPT + "raise ValueError('oh no')\n")
        status, shown, errors = command("tape", "step.py")
        assert status == 1 and "page   step.tape.html" in shown
        assert errors.startswith("Traceback (most recent call last):\n  File ")
        assert errors.endswith("ValueError: oh no\n")
        assert "runpy" not in errors and "step.py" in errors

    def test_a_script_that_raises_before(self, command, script):
        script.write_text("import nothing_of_this_name\n")
        status, shown, errors = command("tape", "step.py")
        assert (status, shown) == (1, "")
        assert "ModuleNotFoundError" in errors
        assert errors.endswith("tapegrad tape: the script ended before a backward ran\n")
        script.write_text("x = = 3\n")
        status, _, errors = command("tape", "step.py")
        assert status == 1 and "SyntaxError" in errors

    @pytest.mark.parametrize(
        ("end", "status", "message"),
        [("sys.exit()", 0, ""), ("sys.exit(3)", 3, ""), ("sys.exit('no')", 1, "no\n")],
    )
    def test_exit_status_is_the_scripts(self, command, script, folder, end, status, message):
        script.write_text(SCRIPT + end + "\n")
        found, _, errors = command("tape", "step.py")
        assert (found, errors) == (status, message)
        assert (folder / "step.tape.html").exists()

    def test_no_backward(self, command, script, folder):
        script.write_text("print('hello')\n")
        status, shown, errors = command("tape", "step.py")
        assert (status, shown) == (1, "hello\n")
        assert errors == (
            "tapegrad tape: the script ran no backward, so there is no tape to show; "
            "it must call loss.backward(), autograd.backward or autograd.grad\n"
        )
        assert not (folder / "step.tape.html").exists()

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ("none.py", "SCRIPT: expected a Python file, got 'none.py': no such file"),
            (".", "SCRIPT: expected a Python file, got '.': a folder"),
            ("--backward 0 step.py", "--backward: expected a whole number above 0, got '0'"),
            ("", "the following arguments are required: SCRIPT"),
        ],
    )
    def test_bad_words(self, command, script, words, message):
        status, _, errors = command("tape", *words.split())
        assert status == 2 and message in errors

    def test_a_place_that_cannot_be_written(self, command, script):
        status, _, errors = command("tape", "-o", "none/x.html", "step.py")
        assert status == 1
        assert errors == (
            "tapegrad tape: cannot write none/x.html: No such file or directory; "
            "choose another place for the file\n"
        )


def test_as_a_program(script, tmp_path):
    running = start("tape", "step.py", "one", cwd=tmp_path)
    shown, errors = running.communicate(timeout=120)
    assert (running.returncode, errors) == (0, "")
    assert "done __main__ ['one']" in shown and (tmp_path / "step.tape.html").exists()
