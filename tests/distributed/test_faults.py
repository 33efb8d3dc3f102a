"""Processes that die, stop or diverge, how others learn of it, and the launcher."""

import importlib.util
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from distributed.fuzz_channel import fuzz
from distributed.processes import MPIEXEC, UNDER_MPI
from tapegrad.distributed import _channel, _launcher, _worker, run
from tapegrad.distributed._hub import Judge
from tapegrad.distributed._watch import Watch

HERE = Path(__file__).parent
needs_mpi = pytest.mark.skipif(
    MPIEXEC is None or UNDER_MPI or importlib.util.find_spec("mpi4py") is None,
    reason="needs mpi4py and mpiexec, outside of mpiexec",
)


# ---- the judge


def report(begun=(), waiting=(), ranks=(0, 1, 2), **others):
    listed = [["0", number, chain, text] for number, chain, text in begun]
    return {"begun": listed, "waiting": list(waiting), "groups": {"0": list(ranks)}, **others}


def wait(number, text, seconds=0.0, peer=None):
    return ["0", number, peer, text, seconds]


def test_processes_that_agree_are_left_alone():
    judge = Judge(3, 5.0, 0.0)
    for number in range(1, 1000):
        for rank in range(3):
            assert judge.report(rank, report([(number, number, "x")]), number) is None
        assert judge.look(number + 1.0) is None
    assert len(judge.processes[0].begun["0"]) <= 256, "memory is bounded"


def test_the_first_difference_is_named():
    judge = Judge(3, 5.0, 0.0)
    assert judge.report(0, report([(1, 7, "sum a"), (2, 8, "sum b"), (3, 9, "sum c")]), 1) is None
    wrong = judge.report(1, report([(1, 7, "sum a"), (2, 5, "max b"), (3, 6, "sum c")]), 1)
    assert wrong == (
        "the processes diverge: number 2 in group 0 is max b on rank 1, and sum b on rank 0"
    )


def test_silence_is_found():
    judge = Judge(3, 5.0, 0.0)
    for rank in (0, 2):
        judge.report(rank, report([(1, 1, "sum a")]), 5.5)
    judge.report(1, report([(1, 1, "sum a")], [wait(1, "sum a")]), 0.4)
    assert judge.look(5.3) is None
    assert judge.look(6.0) == (
        "rank 1 has stopped: it was silent for 6 s; when last heard, it waited for sum a"
    )


def test_who_waits_for_one_that_has_left():
    judge = Judge(3, 5.0, 0.0)
    judge.report(1, report([(1, 1, "sum a")], left=True), 1)
    judge.report(0, report([(1, 1, "sum a")], [wait(1, "sum a")]), 1)
    assert judge.look(1.5) is None, "it has taken part in this one"
    judge.report(0, report([(2, 2, "sum b")], [wait(2, "sum b")]), 2)
    assert "rank 1 has left and will never take part in sum b" in judge.look(2.5)


def test_what_was_sent_before_leaving_may_still_arrive():
    judge = Judge(2, 5.0, 0.0)
    waits = report([], [wait(None, "recv b", 6.0, peer=1)], (0, 1))
    judge.report(0, waits, 10)
    judge.report(1, report(left=True, ranks=(0, 1)), 10)
    assert judge.look(10.1) is None
    judge.report(0, waits, 16)
    assert "rank 1 has left and will never take part in recv b" in judge.look(16.1)


def test_who_waits_for_one_that_waits():
    judge = Judge(2, 5.0, 0.0)
    judge.report(0, report([(1, 1, "sum a")], [wait(1, "sum a", 6.0)], (0, 1)), 1)
    assert judge.look(1.5) is None, "rank 1 computes"
    judge.report(1, report([], [wait(None, "recv b", 6.0, peer=0)], (0, 1)), 1)
    assert "rank 0 waits for sum a, which rank 1 has not begun" in judge.look(1.5)


def test_operations_are_chained():
    class Group:
        group_name, _ranks = "0", [0, 1]

    first, second = Watch(0, 5.0), Watch(1, 5.0)
    for watch, names in ((first, ["barrier"] * 3), (second, ["barrier"] * 3)):
        for name in names:
            watch.note(Group, name, (None,), None)
    mine, theirs = first.report()["begun"], second.report()["begun"]
    assert [each[:3] for each in mine] == [each[:3] for each in theirs]
    assert "test_faults.py" in mine[0][3], "the source line is the program's"
    assert len({chain for _, _, chain, _ in mine}) == 3 and first.report()["begun"] == []


# ---- the channel


def both():
    nonces = bytes(32)
    return (_channel.Packets(b"k", nonces, accepted=side) for side in (True, False))


def test_packets_go_both_ways():
    ours, theirs = both()
    data = ours.pack({"a": 1}) + ours.pack([2, "x"])
    found = []
    for i in range(len(data)):
        found += theirs.take(data[i : i + 1])
    assert found == [{"a": 1}, [2, "x"]]
    assert ours.take(theirs.pack("answer")) == ["answer"]


@pytest.mark.parametrize(
    "change",
    [
        lambda first, second: second,  # left out
        lambda first, second: first + first,  # repeated
        lambda first, second: first[:-1] + bytes([first[-1] ^ 1]),
        lambda first, second: bytes([255]) + first[1:],
        lambda first, second: first[:4] + bytes(16) + first[20:],
    ],
)
def test_what_is_no_packet_is_refused(change):
    ours, theirs = both()
    data = change(ours.pack(1), ours.pack(2))
    with pytest.raises(_channel.Malformed):
        theirs.take(data)


def test_packets_do_not_come_back():
    ours, _ = both()
    with pytest.raises(_channel.Malformed):
        ours.take(ours.pack(1))
    with pytest.raises(ValueError, match="larger than"):
        ours.pack("x" * (1 << 17))


def test_strangers_are_refused():
    assert fuzz(1000) >= 1000


def test_nobody_listens_without_a_token():
    with socket.socket() as link:
        link.bind(("127.0.0.1", 0))
        link.listen()
        with pytest.raises(OSError):  # who accepts and says nothing is no hub
            _channel.connect(list(link.getsockname()), b"t", 1, 0.2)


# ---- the launcher


def launched(*words, program=HERE / "fault_program.py", seconds=120):
    done = subprocess.run(
        [sys.executable, "-m", "tapegrad", "launch", *map(str, words[0]), program]
        + [str(word) for word in words[1:]],
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    return done.returncode, done.stdout, done.stderr


@needs_mpi
def test_a_killed_rank_and_a_restart_with_fewer(tmp_path):
    options = "-n", 3, "--restarts", 1, "--min-ranks", 2, "--timeout", 4
    status, out, err = launched(options, "kill", 1, 3, 6, tmp_path / "state")
    assert status == 0, out + err
    steps = re.findall(r"STEP (\d) (\d) (\S+)", out)
    assert [step for step, _, _ in steps] == list("012345")
    # The step before may not have been saved when the rank died.
    assert re.fullmatch("3{2,3}2{3,4}", "".join(size for _, size, _ in steps))
    assert "DONE 0 0 127.0.0.1" in out and "[rank 1] DONE 1 1" in out
    died = r"DistBackendError: torch\.distributed, rank {}( in .* at .*)?: rank 1 has died"
    assert re.search(died.format(0), err) and re.search(r"\[rank 2\] .*" + died.format(2), err)
    assert re.search(r"of shape \(.*\) .* at .*fault_program\.py:\d+", err), "what was last begun"
    assert "rank 1 was ended by SIGKILL" in err and "starting again with 2 processes" in err
    assert re.search(r"rank +seconds +cpu +waited +operations", err)
    # The curve goes on as if nothing had happened.
    alone = launched(("-n", 1, "--quiet"), "none", 0, 0, 6, tmp_path / "other")[1]
    expected = re.findall(r"STEP \d 1 (\S+)", alone)
    for (_, _, ours), theirs in zip(steps, expected, strict=True):
        assert float(ours) == pytest.approx(float(theirs), rel=1e-5)


@needs_mpi
@pytest.mark.parametrize(
    "mode, text",
    [
        ("stop", r"rank 1 has stopped: it was silent for [2-9] s"),
        ("shape", r"diverge: number \d+ in group 0 is .*all_reduce of shape \(4,\).*:\d\d"),
    ],
)
def test_ranks_that_stop_or_diverge(tmp_path, mode, text):
    begin = time.monotonic()
    options = "-n", 2, "--timeout", 2
    status, out, err = launched(options, mode, 1, 2, 4, tmp_path / "state")
    assert status == 1, out + err
    assert re.search(text, err), err
    assert "DistBackendError" in err and "fault_program.py:" in err
    assert time.monotonic() - begin < 60, "nobody hangs"


@needs_mpi
def test_torchrun_under_the_switch(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import os, sys\n"
        "import torch\n"
        "torch.distributed.init_process_group('gloo')\n"
        "x = torch.ones(2)\n"
        "torch.distributed.all_reduce(x)\n"
        "names = 'RANK', 'LOCAL_RANK', 'WORLD_SIZE', 'LOCAL_WORLD_SIZE'\n"
        "print(torch.__name__, [os.environ[n] for n in names], x.tolist(), sys.argv[1:])\n"
    )
    code = (
        "import sys, runpy, tapegrad.compat.torch as switch\n"
        "switch.install(); switch.install_in_children()\n"
        "sys.argv = ['run', '--nproc_per_node=2', '--standalone', sys.argv[1], '--lr', '3']\n"
        "runpy.run_module('torch.distributed.run', run_name='__main__')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, script], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    lines = sorted(done.stdout.splitlines())
    assert "['0', '0', '2', '2'] [2.0, 2.0] ['--lr', '3']" in lines[1]
    assert lines[0].startswith("[rank 1]") and "['1', '1', '2', '2']" in lines[0]


def test_what_the_launcher_refuses(monkeypatch, capsys):
    with pytest.raises(_launcher.Failure, match="at least one process, got 0"):
        _launcher.launch(_launcher.Options(["true"], 0))
    with pytest.raises(SystemExit):
        run.main(["--nnodes=2", "train.py"])
    assert "one machine is supported" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run.main(["--nproc-per-node=gpu", "train.py"])
    assert "expected a number" in capsys.readouterr().err
    monkeypatch.setattr(shutil, "which", lambda *args, **kwargs: None)
    with pytest.raises(_launcher.Failure, match="there is no mpiexec"):
        _launcher.launch(_launcher.Options(["true"], 1))


def test_files_of_workers_are_whole(tmp_path):
    _worker.write(str(tmp_path), "rank0.status", {"code": 1})
    assert [path.name for path in tmp_path.iterdir()] == ["rank0.status"]
