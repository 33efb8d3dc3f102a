"""``tapegrad serve``: a traced module over HTTP."""

import argparse
import signal
import threading
from pathlib import Path
from types import FrameType

import tapegrad
from tapegrad.cli.device import chosen_device
from tapegrad.cli.errors import UserError, first_line
from tapegrad.serialization import CheckpointError
from tapegrad.serving import Limits, Server

__all__ = ["serve"]

_STOP_SECONDS = 10.0


def serve(arguments: argparse.Namespace) -> int:
    """Load the file, answer requests until a signal comes, and return the exit status."""
    path = Path(arguments.program)
    device = str(chosen_device(arguments.device)) if arguments.device else None
    try:
        model = tapegrad.jit.load(path, device)
    except (CheckpointError, OSError, ValueError) as error:
        raise UserError(f"{first_line(error).removeprefix('load: ')}") from error
    limits = Limits(
        most_rows=arguments.max_batch,
        batch_wait=arguments.batch_wait / 1000,
        most_waiting=arguments.queue,
        most_connections=arguments.connections,
        most_bytes=arguments.max_bytes,
        timeout=arguments.timeout,
        read_timeout=arguments.read_timeout,
    )
    try:
        server = Server(model, arguments.host, arguments.port, limits)
    except (OSError, OverflowError) as error:
        where = f"{arguments.host}:{arguments.port}"
        raise UserError(
            f"cannot listen at {where}: {error}; choose another --port, or 0 for a free one"
        ) from error
    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop.set()

    before = {each: signal.signal(each, on_signal) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        server.start()
        if not arguments.quiet:
            _announce(server, path)
        else:
            print(server.url, flush=True)
        while not stop.wait(0.5):  # a wait without end would hold back signals on some systems
            pass
        if not arguments.quiet:
            print("stopping: answering what waits", flush=True)
        server.stop(_STOP_SECONDS)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 0


def _announce(server: Server, path: Path) -> None:
    print(f"serving {server.name} ({path.name}) at {server.url}; Ctrl-C stops")
    for each in server.described()["methods"].values():
        inputs = ", ".join(
            f"{name} {one['dtype']}[{', '.join(map(str, one['shape']))}]"
            for name, one in each["inputs"].items()
        )
        if each["rows_are_joined"]:
            how = f"rows of several requests run together, up to {server.limits.most_rows}"
        else:
            how = "requests run one by one"
        print(f"  POST {each['path']}   {inputs}   {how}")
    print("  GET  /, /health, /metrics", flush=True)
