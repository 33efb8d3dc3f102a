"""``python -m tapegrad.cuda``: what it tells, and kernels that are there before they are needed."""

import re

import pytest
from library import torch

from tapegrad.cuda import __main__ as command
from tapegrad.cuda import _compiler, _kernels, _workers, pointwise_source

FEW = 3


def test_info_tells_what_is_there(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("TAPEGRAD_CACHE", str(tmp_path))
    assert command.main(["info"]) == 0
    rows = dict(row.split(maxsplit=1) for row in capsys.readouterr().out.splitlines())
    assert torch.cuda.get_device_name(0) in rows["cuda:0"]
    assert "version" in rows["NVRTC"]
    assert rows["kernels"] == f"{tmp_path}, 0 kernels in 0 B"


def test_common_kernels_can_be_written():
    """Each of them: lines of the table have not been renamed, nor files and their folders."""
    descriptions = command.common_kernels()
    blocks = _workers._COMMON.read_text(encoding="utf-8").strip().split("\n\n")
    assert len(descriptions) == len(blocks) > 100
    for description in descriptions:
        text = _kernels.source(description)
        assert text.startswith(pointwise_source.prelude())
        start = r"TAPEGRAD_KERNEL\((__launch_bounds__\(.*\) )?kernel, .*\) {"
        # See Note [Kernels start early].
        assert re.search(start + r"\s*wait_for_earlier_work\(\);", text)


def test_warm_compiles_into_the_cache(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("TAPEGRAD_CACHE", str(tmp_path))
    some = command.common_kernels()[:FEW]
    monkeypatch.setattr(command, "common_kernels", lambda: some)
    assert command.main(["warm", "--jobs", "2"]) == 0
    assert f"{FEW} kernels are compiled" in capsys.readouterr().out
    images = list(tmp_path.glob("kernels/*/*.cubin"))
    assert len(images) == FEW
    times = [path.stat().st_mtime_ns for path in images]
    assert command.main(["warm"]) == 0
    assert [path.stat().st_mtime_ns for path in images] == times  # not again


def test_warm_tells_what_does_not_compile(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("TAPEGRAD_CACHE", str(tmp_path))
    broken = "file create.cu\nNoSuchArguments\nno_such_function"
    monkeypatch.setattr(command, "common_kernels", lambda: [broken])
    assert command.main(["warm"]) == 1
    assert "warm: cuda: a kernel does not compile" in capsys.readouterr().err


def test_a_full_cache_needs_no_compiler(tmp_path, monkeypatch):
    """NVRTC is not even loaded where every kernel is there."""
    monkeypatch.setenv("TAPEGRAD_CACHE", str(tmp_path))
    image = _kernels.image("empty", 0)

    def refuse():
        raise AssertionError("was loaded")

    monkeypatch.setattr(_compiler, "_library", refuse)
    assert _kernels.image("empty", 0) == image


@pytest.mark.parametrize("name", ["90", "compute_90", "sm_", "sm_x"])
def test_architectures_are_checked(name, capsys):
    assert command.main(["warm", "--arch", name]) == 1
    assert f"expected an architecture such as sm_90, got {name!r}" in capsys.readouterr().err


def test_help_teaches(capsys):
    for words in (["--help"], ["warm", "--help"], ["info", "--help"]):
        with pytest.raises(SystemExit) as ending:
            command.main(words)
        assert ending.value.code == 0
    text = capsys.readouterr().out
    assert "python -m tapegrad.cuda warm --arch sm_90" in text
    assert "what to install" in text
