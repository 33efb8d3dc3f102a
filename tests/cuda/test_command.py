"""``python -m tapegrad.cuda``: what it tells, and kernels that are there before they are needed."""

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
        assert "TAPEGRAD_KERNEL(kernel, " in text


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


def test_a_missing_kernel_brings_the_common_ones(tmp_path, monkeypatch):
    """They are compiled beside the program; what it asks for meanwhile is not compiled twice."""
    monkeypatch.setenv("TAPEGRAD_CACHE", str(tmp_path))
    monkeypatch.setenv("TAPEGRAD_CUDA_AHEAD", "2")
    monkeypatch.setattr(_workers, "_beside", {})
    some = [each for each in command.common_kernels() if _workers._kinds(each) == [""]][:FEW]
    monkeypatch.setattr(_workers, "common_kernels", lambda: some)
    compiled = []
    compile_here = _compiler._compile
    monkeypatch.setattr(
        _compiler,
        "_compile",
        lambda text, options: compiled.append(text) or compile_here(text, options),
    )
    first = _kernels.image("empty", 0)
    (workers,) = _workers._beside.values()
    images = [_kernels.image(each, 0) for each in reversed(some)]
    workers.join()
    assert first and all(images)
    assert len(list(tmp_path.glob("kernels/*/*.cubin"))) == FEW + 1
    assert len(compiled) == len(set(compiled)) < FEW + 1  # the rest by others


def test_halves_are_compiled_for_those_who_use_them():
    common = command.common_kernels()
    groups = {
        kind: [e for e in common if kind in _workers._kinds(e, alone=True)]
        for kind in ("", "float16", "bfloat16")
    }
    assert all(len(group) > 20 for group in groups.values())
    assert not any("float16" in each for each in groups[""])
    assert _workers._kinds("pointwise 3 -1 float32") == [""]
    assert _workers._kinds("file x.cu\nA\nf<BFloat16>") == ["", "bfloat16"]


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
