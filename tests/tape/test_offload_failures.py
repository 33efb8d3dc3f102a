"""Offloading when values are overwritten, and when the disk fails: nothing is lost."""

import contextlib
import os
import threading

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("the tape as an object is tapegrad's own", allow_module_level=True)

from tapegrad import tape
from tapegrad.autograd.graph import saved_tensors_hooks
from tapegrad.tape._spill_file import SpillFile

from .offload_cases import ROWS, VALUE, WIDTH, chain, memory_left, plain_chain_gradient, run_program

# ---- overwritten values


@pytest.mark.parametrize("rows", [ROWS, 2])
def test_an_overwritten_value_is_an_error_as_without(tmp_path, rows):
    """Large or small, and also when the memory is given up right after the write."""
    x = torch.randn(rows, WIDTH, requires_grad=True)

    def run():
        y = x * 2
        z = torch.sin(y)
        y.add_(1)
        del y
        return chain(z, 30).sum()

    with tape.offload(tmp_path, memory=8 * VALUE):
        loss = run()
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
        loss.backward()
    text = str(caught.value)
    assert "was overwritten by add_ at" in text
    assert "test_offload_failures.py" in text
    assert any("SinBackward0" in note for note in caught.value.__notes__)


def test_a_write_to_another_part_is_no_error(tmp_path):
    weight = torch.ones(WIDTH, requires_grad=True)
    with tape.offload(tmp_path, memory=8 * VALUE) as o:
        rows = torch.zeros(ROWS, WIDTH)
        rows[0] = 1.0
        first = (rows[0] * weight).sum()
        rows[1] = 2.0
        del rows
        chain((torch.ones(ROWS, WIDTH) * weight), 20)
        first.backward()
    assert torch.equal(weight.grad, torch.ones(WIDTH))
    assert memory_left(o) == 0


def test_an_overwritten_value_under_other_hooks(tmp_path):
    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    with (
        saved_tensors_hooks(lambda t: t, lambda t: t),
        tape.offload(tmp_path, memory=8 * VALUE),
    ):
        y = x * 2
        z = torch.sin(y)
        y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_inplace_ops_that_save_their_result(tmp_path):
    def loss(x):
        y = x * 2
        for _ in range(20):
            y = torch.sigmoid_(y * 1.5)
        return y.sum()

    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    with tape.offload(tmp_path, memory=8 * VALUE) as o:
        loss(x).backward()
    z = x.detach().clone().requires_grad_()
    loss(z).backward()
    assert torch.equal(x.grad, z.grad)
    assert o.written_bytes > 0


# ---- a disk that fails


@pytest.mark.parametrize("memory", ["None", "400_000"])
def test_disk_full(tmp_path, memory):
    """The op after the failed write raises; the model is untouched, and a step without works."""
    out = run_program(
        f"""
        import errno, resource, signal
        import tapegrad as torch

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
        torch.manual_seed(0)
        layers = [torch.nn.Linear(64, 64) for _ in range(200)]
        model = torch.nn.Sequential(*[p for l in layers for p in (l, torch.nn.Tanh())])
        optimizer = torch.optim.Adam(model.parameters())
        x = torch.randn(128, 64)
        model(x).sum().backward()
        optimizer.step()
        before = [t.clone() for p in model.parameters() for t in (p.detach(), p.grad)]
        state = [s["exp_avg"].clone() for s in optimizer.state.values()]
        try:
            with torch.tape.offload(".", memory={memory}) as o:
                y = model(x)
                o.flush()  # without a limit nobody waits for the writes
                model(y).sum().backward()
        except OSError as error:
            assert error.errno == errno.EFBIG, error
            print(error)
        else:
            raise AssertionError("no error")
        after = [t for p in model.parameters() for t in (p.detach(), p.grad)]
        assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
        now = [s["exp_avg"] for s in optimizer.state.values()]
        assert all(torch.equal(a, b) for a, b in zip(state, now, strict=True))
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        import os
        print(os.listdir("."))
        """,
        tmp_path,
    )
    assert "offload: File too large when writing saved values" in out
    assert "parameters, .grad and optimizer state are as they were" in out
    assert "['program.py']" in out


def test_disk_full_at_the_end_of_the_forward(tmp_path):
    """What is recorded can still be swept, for nothing of it is lost; leaving the block warns."""
    out = run_program(
        """
        import resource, signal, warnings
        import tapegrad as torch

        x = torch.randn(128, 64, requires_grad=True)
        y = x
        for _ in range(40):
            y = torch.tanh(y)
        y.sum().backward()
        expected, x.grad = x.grad, None
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with torch.tape.offload(".", memory=600_000) as o:
                y = x
                for _ in range(40):
                    y = torch.tanh(y)
                resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1))
                o.flush()
                assert o._stores.host.failure is not None
                y.sum().backward()
        assert torch.equal(x.grad, expected)
        assert o.memory_now == 0
        print(len(caught), caught[0].message)
        """,
        tmp_path,
    )
    assert out.startswith("1 ")
    assert "File too large when writing saved values" in out


def test_file_cut_before_it_is_read(tmp_path):
    path = tmp_path / "values"
    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    w = torch.ones(1, requires_grad=True)
    with tape.offload(path, memory=8 * VALUE):
        y = (chain(x) * w).sum()
    os.truncate(path, 0)
    with pytest.raises(RuntimeError, match="cannot read back a saved value of 32") as caught:
        y.backward()
    text = str(caught.value)
    assert str(path) in text
    assert "the file has been truncated or changed" in text
    assert "call zero_grad()" in text
    (note,) = caught.value.__notes__
    assert "while running TanhBackward0, recorded at" in note
    assert "offload_cases.py" in note
    assert x.grad is None
    del y, caught
    chain(x).sum().backward()
    assert torch.equal(x.grad, plain_chain_gradient(x, 40))


@pytest.mark.parametrize("content", [b"\0", b"\x3f\x80"], ids=["zeros", "numbers"])
def test_file_overwritten_in_the_middle(tmp_path, content):
    """A part of one value, and not what stands behind it."""
    path = tmp_path / "values"
    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    with tape.offload(path, memory=8 * VALUE, prefetch=0):
        y = chain(x).sum()
    with open(path, "r+b") as file:
        file.seek(VALUE // 2)
        file.write(content * (64 // len(content)))
    with pytest.raises(RuntimeError, match="the bytes are not those that were written") as caught:
        y.backward()
    assert str(path) in str(caught.value) and "call zero_grad()" in str(caught.value)
    assert x.grad is None
    del y, caught


def test_file_deleted_before_it_is_read(tmp_path):
    """An open file lives on without its name: nothing is lost."""
    path = tmp_path / "values"
    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    with tape.offload(path, memory=8 * VALUE):
        y = chain(x).sum()
    path.unlink()
    y.backward()
    assert torch.equal(x.grad, plain_chain_gradient(x, 40))


def test_read_error_of_the_device(tmp_path, monkeypatch):
    def fail(self, buffer, offset, expected):
        raise OSError(5, "Input/output error")

    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    with tape.offload(tmp_path, memory=8 * VALUE):
        y = chain(x).sum()
    monkeypatch.setattr(SpillFile, "read", fail)
    with pytest.raises(RuntimeError, match=r"from '.*': Input/output error"):
        y.backward()
    monkeypatch.undo()
    del y


@pytest.mark.parametrize("broken", ["write", "read"])
def test_an_interrupt_leaves_nothing_stuck(tmp_path, monkeypatch, broken):
    """Ctrl-C in the middle of a transfer; afterwards the same graph can be swept."""
    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    original = getattr(SpillFile, broken)
    calls = []

    def interrupted(self, *args):
        if threading.current_thread() is threading.main_thread() and not calls:
            calls.append(0)
            raise KeyboardInterrupt
        return original(self, *args)

    monkeypatch.setattr(SpillFile, broken, interrupted)
    with tape.offload(tmp_path, memory=8 * VALUE, prefetch=0):
        y = x
        for _ in range(40):
            with contextlib.suppress(KeyboardInterrupt):
                y = torch.tanh(y)
        y = y.sum()
        if broken == "read":
            with pytest.raises(KeyboardInterrupt):
                torch.autograd.grad(y, x, retain_graph=True)
        y.backward()
    steps = 39 if broken == "write" and calls else 40
    assert calls
    assert torch.equal(x.grad, plain_chain_gradient(x, steps))


# ---- places that cannot be used


def test_no_such_folder(tmp_path):
    with (
        pytest.raises(FileNotFoundError, match="offload: there is no such folder"),
        tape.offload(tmp_path / "none" / "file"),
    ):
        pass


def test_a_file_that_exists_is_not_overwritten(tmp_path):
    path = tmp_path / "thesis.txt"
    path.write_text("years of work")
    with pytest.raises(FileExistsError, match="would be lost"), tape.offload(path):
        pass
    assert path.read_text() == "years of work"


def test_below_a_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(NotADirectoryError, match="no such folder"), tape.offload(path / "x"):
        pass


def test_hooks_are_disabled(tmp_path):
    with (
        torch.autograd.graph.disable_saved_tensors_hooks("none of that here"),
        pytest.raises(RuntimeError, match="none of that here"),
        tape.offload(tmp_path / "values"),
    ):
        pass
    assert os.listdir(tmp_path) == []


def test_unwritable_folder(tmp_path):
    """As a user without the right to write there."""
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)
    out = run_program(
        f"""
        import os
        import tapegrad as torch
        import tapegrad.tape
        if os.geteuid() == 0:
            os.seteuid(65534)
        try:
            with torch.tape.offload({str(folder)!r}):
                pass
        except PermissionError as error:
            print(error)
        x = torch.ones(3, requires_grad=True)  # the block has left no hooks behind
        (x * x).sum().backward()
        print(x.grad)
        """,
        tmp_path,
    )
    assert "offload: cannot make a file there (Permission denied); name another folder" in out
    assert "tensor([2., 2., 2.])" in out


@pytest.mark.parametrize("where", [".", "values"])
def test_a_fork_leaves_the_file_to_its_process(tmp_path, where):
    """What it saves itself stays in its memory, and what was saved before it can read."""
    out = run_program(
        f"""
        import os, sys
        import tapegrad as torch

        def chain(y, n):
            for _ in range(n):
                y = torch.tanh(y)
            return y

        x = torch.randn(128, 64, requires_grad=True)
        expected = [torch.autograd.grad(chain(x, n).sum(), x)[0] for n in (60, 80)]
        with torch.tape.offload({where!r}, memory="300 KiB", prefetch=2) as o:
            y = chain(x, 40)
            child = os.fork() == 0
            written = o.written_bytes
            y = chain(y, 40 if child else 20).sum()
            if child:
                y.backward()
                assert torch.equal(x.grad, expected[1])
                assert 0 < written == o.written_bytes
                sys.exit()  # with all that is done at the end of a program
            assert os.wait()[1] == 0
            y.backward()
            print(torch.equal(x.grad, expected[0]))
        """,
        tmp_path,
    )
    assert out == "True\n"
    assert os.listdir(tmp_path) == ["program.py"]


def test_nothing_is_left_when_the_process_ends(tmp_path):
    """In the middle of a block, with values on the tape; and without a goodbye."""
    for end in ("", "os._exit(0)"):
        out = run_program(
            f"""
            import os
            import tapegrad as torch
            os.mkdir("folder") if not os.path.exists("folder") else None
            x = torch.randn(128, 64, requires_grad=True)
            block = torch.tape.offload("folder", memory="300 KiB")
            block.__enter__()
            y = x
            for _ in range(40):
                y = torch.tanh(y)
            print(block.written_bytes > 0, flush=True)
            {end}
            """,
            tmp_path,
        )
        assert out == "True\n"
        assert os.listdir(tmp_path / "folder") == []


def test_a_named_file_goes_with_the_process(tmp_path):
    run_program(
        """
        import tapegrad as torch
        x = torch.randn(128, 64, requires_grad=True)
        block = torch.tape.offload("values", memory="300 KiB")
        block.__enter__()
        y = x
        for _ in range(40):
            y = torch.tanh(y)
        """,
        tmp_path,
    )
    assert os.listdir(tmp_path) == ["program.py"]
