"""What a path holds while and after it is saved to, whatever goes wrong."""

import contextlib
import errno
import os
import signal
import stat
import subprocess
import sys
import threading
import tracemalloc

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("how files are written is tapegrad's own", allow_module_level=True)
if os.name != "posix":
    pytest.skip("permissions and links are those of POSIX", allow_module_level=True)

from tapegrad.serialization import _atomic

from . import kill_while_saving
from .states import expect_same

OLD, NEW = {"x": [1]}, {"x": [2]}


@pytest.fixture(params=["unnamed", "named"])
def temporary(request, monkeypatch):
    """Run a test with temporaries of both kinds."""
    if request.param == "named":
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    elif not hasattr(os, "O_TMPFILE"):
        pytest.skip("this system gives every file a name")
    return request.param


@pytest.fixture
def path(tmp_path):
    """Give a path that holds an older checkpoint, and check that nothing is left beside it."""
    found = tmp_path / "checkpoint"
    torch.save(OLD, found)
    yield found
    assert sorted(os.listdir(tmp_path)) == ["checkpoint"]


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


# ---- when all goes well


def test_a_file_is_replaced(temporary, path):
    before = os.stat(path).st_ino
    torch.save(NEW, path)
    assert torch.load(path) == NEW
    assert os.stat(path).st_ino != before


def test_the_order_of_what_makes_it_durable(temporary, path, monkeypatch):
    calls = []

    def spy(name):
        original = getattr(os, name)

        def called(first, *rest, **options):
            kind = "folder" if name == "fsync" and stat.S_ISDIR(os.fstat(first).st_mode) else "file"
            calls.append((name, kind))
            return original(first, *rest, **options)

        monkeypatch.setattr(os, name, called)

    for name in ("write", "fsync", "replace"):
        spy(name)
    torch.save({"x": torch.ones(3)}, path)
    monkeypatch.undo()
    steps = [call for place, call in enumerate(calls) if place == 0 or call != calls[place - 1]]
    assert steps == [("write", "file"), ("fsync", "file"), ("replace", "file"), ("fsync", "folder")]


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_a_new_file_has_the_permissions_of_open(temporary, tmp_path, mask):
    former = os.umask(mask)
    try:
        torch.save(OLD, tmp_path / "saved")
        open(tmp_path / "opened", "w").close()
    finally:
        os.umask(former)
    assert mode_of(tmp_path / "saved") == mode_of(tmp_path / "opened")


def test_an_old_file_keeps_its_permissions(temporary, path):
    os.chmod(path, 0o640)
    torch.save(NEW, path)
    assert mode_of(path) == 0o640


def test_a_link_stays_a_link(temporary, tmp_path):
    (tmp_path / "store").mkdir()
    target, link = tmp_path / "store" / "target", tmp_path / "link"
    torch.save(OLD, target)
    link.symlink_to(os.path.join("store", "target"))
    torch.save(NEW, link)
    assert link.is_symlink() and not target.is_symlink()
    assert torch.load(target) == NEW
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "store" / "made")
    torch.save(NEW, dangling)
    assert torch.load(tmp_path / "store" / "made") == NEW
    assert sorted(os.listdir(tmp_path / "store")) == ["made", "target"]


def test_relative_paths(temporary, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save(NEW, "here")
    assert torch.load("here") == NEW


def test_the_longest_name(temporary, tmp_path):
    name = "x" * 255
    torch.save(NEW, tmp_path / name)
    assert os.listdir(tmp_path) == [name]


def test_devices_are_written_to_and_stay():
    before = os.stat("/dev/null")
    torch.save({"x": torch.ones(1000)}, "/dev/null")
    assert os.stat("/dev/null").st_rdev == before.st_rdev


def test_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received = []
    thread = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    thread.start()
    torch.save(NEW, pipe)
    thread.join()
    (tmp_path / "copy").write_bytes(received[0])
    assert torch.load(tmp_path / "copy") == NEW
    with pytest.raises(torch.serialization.CheckpointError, match="not a regular file"):
        torch.load(pipe)  # and does not wait for a writer


def test_saving_over_what_is_mapped(temporary, path):
    """The tensors lie on the former file, which lives on without a name."""
    torch.save({"x": torch.arange(1000.0)}, path)
    mapped = torch.load(path, mmap=True)
    torch.save({"x": mapped["x"] + 1}, path)
    assert mapped["x"].sum().item() == 499_500
    torch.save({"x": mapped["x"]}, path)
    assert torch.load(path)["x"].sum().item() == 499_500


def test_large_tensors_are_not_copied(tmp_path):
    """Neither in Python's memory nor in tapegrad's."""
    state = {"a": torch.ones(4 << 20), "b": torch.ones(4 << 20)[1:]}
    torch.reset_peak_memory_stats()
    before = torch.memory_stats()["peak_bytes"]
    tracemalloc.start()
    torch.save(state, tmp_path / "file")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20
    assert torch.memory_stats()["peak_bytes"] - before < 1 << 20
    assert os.path.getsize(tmp_path / "file") > 32 << 20


def test_threads_that_save_to_one_path(path):
    """The last one wins; nobody sees a mixture."""
    states = [{"x": torch.full((10_000,), float(number))} for number in range(4)]

    def save(state):
        for _ in range(5):
            torch.save(state, path)

    threads = [threading.Thread(target=save, args=(state,)) for state in states]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        found = torch.load(path)["x"]
        assert found == [1] or bool((found == found[0]).all())
    for thread in threads:
        thread.join()


# ---- when it does not


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_a_failing_disk(temporary, path, monkeypatch, call, number):
    def fail(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match=os.strerror(number)) as caught:
        torch.save({"x": torch.ones(1000)}, path)
    monkeypatch.undo()
    assert caught.value.errno == number
    assert caught.value.filename == str(path)
    assert "save: " in str(caught.value) and "the former file is unchanged" in str(caught.value)
    assert torch.load(path) == OLD


@pytest.mark.parametrize("number", [errno.EIO, errno.EINVAL])
def test_a_folder_that_does_not_reach_the_disk(temporary, path, monkeypatch, number):
    original = os.fsync

    def fail(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(number, os.strerror(number))
        original(descriptor)

    monkeypatch.setattr(os, "fsync", fail)
    if number == errno.EINVAL:  # The file system has no such thing.
        torch.save(NEW, path)
    else:
        with pytest.raises(OSError, match="the new file is in place, but perhaps not on the disk"):
            torch.save(NEW, path)
    assert torch.load(path) == NEW


def test_an_interruption(temporary, path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        torch.save(NEW, path)
    monkeypatch.undo()
    assert torch.load(path) == OLD


PROGRAM = """
import os, resource, signal, sys
import tapegrad as torch
if sys.argv[2] == "named":
    del os.O_TMPFILE
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    torch.save({"x": torch.ones(100_000)}, sys.argv[1])
except OSError as error:
    print(error)
"""


def test_a_file_system_that_takes_no_more(temporary, path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, path, temporary],
        capture_output=True, text=True, check=True, cwd=path.parent,
    )  # fmt: skip
    assert "save: File too large; the former file is unchanged" in done.stdout
    assert str(path) in done.stdout
    assert torch.load(path) == OLD


def test_a_system_that_cannot_name_what_has_no_name(path, monkeypatch):
    def fail(*_, **__):
        raise PermissionError(errno.EPERM, "not permitted")

    monkeypatch.setattr(os, "link", fail)
    torch.save(NEW, path)
    assert torch.load(path) == NEW


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"save: .*missing/file"):
        torch.save(NEW, tmp_path / "missing" / "file")


def test_a_folder_as_the_path(tmp_path):
    for path in (tmp_path, f"{tmp_path}{os.sep}", tmp_path / "file" / ""):
        with pytest.raises(IsADirectoryError, match="save: is a directory"):
            torch.save(NEW, f"{path}{os.sep}")
    with pytest.raises(IsADirectoryError):
        torch.load(tmp_path)


def as_nobody(function):
    """Run a function in a process without root's rights; return its exit status."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if os.getuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            function()
            status = 0
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@contextlib.contextmanager
def open_to_others(folder):
    """Let everybody go through a folder and those above it, for a while."""
    closed = {each: mode_of(each) for each in (folder, *folder.parents)}
    closed = {each: mode for each, mode in closed.items() if not mode & 0o001}
    try:
        for each, mode in closed.items():
            os.chmod(each, mode | 0o011)
        yield
    finally:
        for each, mode in closed.items():
            os.chmod(each, mode)


def expect_denied(path):
    try:
        torch.save(NEW, path)
    except PermissionError as error:
        assert error.filename == str(path) and "save: " in str(error), error
    else:
        raise AssertionError("it was written")


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_no_permission(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "file"
    torch.save(OLD, path)
    with open_to_others(tmp_path):
        os.chmod(folder, 0o555)
        os.chmod(path, 0o666)
        assert as_nobody(lambda: expect_denied(path)) == 0, "a folder that cannot be written to"
        os.chmod(folder, 0o777)
        os.chmod(path, 0o444)
        assert as_nobody(lambda: expect_denied(path)) == 0, "a file that cannot be written to"
        assert torch.load(path) == OLD
        assert os.listdir(folder) == ["file"]
        os.chmod(path, 0o666)
        os.chmod(folder, 0o333)
        assert as_nobody(lambda: torch.save(NEW, path)) == 0, "a folder that cannot be listed"
        os.chmod(folder, 0o777)
    assert torch.load(path) == NEW
    assert os.listdir(folder) == ["file"]


def test_what_cannot_be_saved_does_not_touch_the_file(path):
    with pytest.raises(TypeError):
        torch.save({"x": [lambda: 0]}, path)
    assert torch.load(path) == OLD


# ---- when the process is killed


def memory_folder(tmp_path):
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else tmp_path


def test_kills_while_saving(tmp_path):
    """The short form of kill_while_saving.py."""
    ends = kill_while_saving.run(12, seed=1, where=memory_folder(tmp_path))
    assert sum(ends[name] for name in ends if "sav" in name) == 12
    assert ends["left over"] <= 2  # There is an instant in which the complete file has two names.


def test_kills_while_saving_with_named_temporaries(tmp_path):
    kill_while_saving.run(3, seed=2, where=memory_folder(tmp_path), named=True)


def test_the_check_of_kills_sees_a_torn_file(tmp_path):
    state = kill_while_saving.state_of(torch, 3)
    kill_while_saving.expect_step(torch, state, 3)
    state["model"]["layer5.weight"][-1] += 1
    with pytest.raises(AssertionError, match=r"layer5\.weight of step 3 differs"):
        kill_while_saving.expect_step(torch, state, 3)
    assert signal.SIGKILL


def test_write_stream_writes_all():
    written = bytearray()

    class Slow:
        def write(self, data):
            written.extend(data[:3])
            return min(3, len(data))

    _atomic.write_stream(Slow(), lambda: [memoryview(b"0123456789"), memoryview(b"")])
    assert written == b"0123456789"
    expect_same(bytes(written), b"0123456789")
