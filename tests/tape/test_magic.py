"""``%%tape`` in IPython."""

import html
import re
import sys

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("the tape is tapegrad's own", allow_module_level=True)

pytest.importorskip("IPython", reason="pip install ipython")

CELL = """\
x = torch.ones(3, requires_grad=True)
y = x.exp().sum()
y.backward()
"""


@pytest.fixture
def shell(tmp_path, monkeypatch):
    """Give a shell with the extension, which displays into a list."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    # The shell puts a module of its own there.
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    found = InteractiveShell.instance(config=config)
    found.shown = []
    found.display_pub.publish = lambda data, *args, **kwargs: found.shown.append(data)
    found.user_ns["torch"] = torch
    assert found.extension_manager.load_extension("tapegrad.tape") is None
    yield found
    found.reset(new_session=False)
    InteractiveShell.clear_instance()


def run(shell, cell):
    result = shell.run_cell(cell)
    result.raise_error()


def test_the_page_is_shown_inline(shell):
    run(shell, f"%%tape --height 400\n{CELL}")
    (data,) = shell.shown
    frame = data["text/html"]
    assert frame.startswith("<div><iframe ") and "height: 400px" in frame
    page = html.unescape(re.search(r'srcdoc="([^"]*)"', frame)[1])
    assert page.startswith("<!DOCTYPE html>")
    assert "<title>backward 1 of 1 of the cell</title>" in page
    assert shell.user_ns["x"].grad is not None


def test_a_cell_without_backward_shows_what_it_recorded(shell):
    run(shell, "%%tape\nkept = torch.ones(3, requires_grad=True).exp().sum()")
    assert "what the cell recorded" in shell.shown[0]["text/html"]


def test_nothing_to_show(shell, capsys):
    run(shell, "%%tape\nz = 3")
    assert shell.shown == []
    assert capsys.readouterr().out == "%%tape: the cell ran no backward and recorded nothing\n"
    assert shell.user_ns["z"] == 3


def test_text_and_file(shell, capsys, tmp_path):
    run(shell, f"%%tape --text -o {tmp_path}/page.html\n{CELL}")
    out = capsys.readouterr().out
    assert out.startswith(f"page: {tmp_path}/page.html\n") and " entries keep 12 B" in out
    assert shell.shown == [] and (tmp_path / "page.html").exists()


def test_times(shell, capsys):
    run(shell, f"%%tape --text --profile\n{CELL}")
    assert " forward, " in capsys.readouterr().out
    run(shell, f"%%tape --text\n{CELL}")
    assert " forward, " not in capsys.readouterr().out


def test_errors_of_the_cell_are_shown_and_the_tape_too(shell, capsys):
    run(shell, f"%%tape\n{CELL}\n1 / 0")
    assert "ZeroDivisionError" in capsys.readouterr().out
    assert len(shell.shown) == 1


def test_wrong_options(shell):
    with pytest.raises(ValueError, match=r"%%tape: unrecognized arguments: --wide"):
        run(shell, f"%%tape --wide\n{CELL}")
