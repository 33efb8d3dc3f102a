"""HTTP for a program, from the standard library: who may ask what, how long, how much.

A connection has a thread. A request is read against the clock, so that a client that sends a byte
now and then holds its thread no longer than one that sends nothing. Whatever is wrong with a
request is answered by a status and a line of JSON; where its end is not known, the connection is
closed.
"""

import io
import json
import socket
import threading
import time
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from tapegrad._version import __version__
from tapegrad.jit._modules import LoadedModule
from tapegrad.jit._traced import LoadedMethod
from tapegrad.serving import formats
from tapegrad.serving.worker import Job, Refused, Worker

__all__ = ["Limits", "Server"]

_KINDS = {
    "application/json": formats.JSON,
    "application/x-www-form-urlencoded": formats.JSON,  # as curl calls what it is given
    "application/x-npy": formats.NPY,
    "application/npy": formats.NPY,
    "application/x-safetensors": formats.SAFETENSORS,
    "application/safetensors": formats.SAFETENSORS,
    "application/octet-stream": formats.SAFETENSORS,
}


class Limits(NamedTuple):
    """What a server allows.

    Attributes:
        most_rows: of several requests that are run at a time, and of one.
        batch_wait: seconds to wait for the rows of further requests.
        most_waiting: requests in the queue.
        most_connections: at a time.
        most_bytes: of a body.
        timeout: seconds for an answer.
        read_timeout: seconds for a request to arrive, and of silence between two.
    """

    most_rows: int = 32
    batch_wait: float = 0.002
    most_waiting: int = 256
    most_connections: int = 512
    most_bytes: int = 64 << 20
    timeout: float = 30.0
    read_timeout: float = 15.0


class Server:
    """Answers requests for a traced module.

    Args:
        model: what `tapegrad.jit.load` gave.
        host, port: where to listen; port 0 takes a free one.
        limits: what is allowed.

    Example:
        >>> import io
        >>> from tapegrad.serving import Server
        >>> file = io.BytesIO()
        >>> torch.jit.trace(lambda x: x * 2, torch.zeros(1, 3)).save(file)
        >>> file.seek(0)
        0
        >>> with Server(torch.jit.load(file), port=0) as server:
        ...     server.url.startswith("http://127.0.0.1:")
        True
    """

    def __init__(
        self,
        model: LoadedModule,
        host: str = "127.0.0.1",
        port: int = 8000,
        limits: Limits | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.methods: dict[str, LoadedMethod] = model._loaded_methods()
        self.name = model.original_name
        self.is_stopping = False
        self.answers: Counter[int] = Counter()  # by status
        self.seconds = 0.0
        self._lock = threading.Lock()
        self._devices = {
            name: next((str(x.device) for x in model.state_dict().values()), "cpu")
            for name in self.methods
        }
        self._http = _Listener((host, port), _Handler, self)
        self.worker = Worker(
            self.limits.most_rows, self.limits.batch_wait, self.limits.most_waiting
        )
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = self._http.server_address[:2]
        name = f"[{host!s}]" if ":" in str(host) else str(host)
        return f"http://{name}:{port}"

    def start(self) -> None:
        """Listen, in a thread."""
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )
        self._thread.start()

    def stop(self, seconds: float = 10.0) -> None:
        """Take no more requests, answer those that wait, for so long at most, and close."""
        self.is_stopping = True
        if self._thread is not None:
            self._http.shutdown()
            self._thread.join()
            self._thread = None
        end = time.monotonic() + seconds
        self.worker.close(seconds)
        self._http.wait_for_answers(max(end - time.monotonic(), 0.5))
        self._http.server_close()
        self._http.close_connections()

    def __enter__(self) -> "Server":
        self.start()
        return self

    def __exit__(self, *args: Any) -> None:
        self.stop()

    # ---- what handlers ask

    def run(self, name: str, kind: str, body: bytes) -> Any:
        """Return the result for a body."""
        method = self.methods[name]
        try:
            leaves = formats.read(kind, body, method.arguments, method.template)
            method.template.sizes(method.arguments, leaves)
        except formats.BadBody as error:
            raise Refused(400, str(error)) from None
        except RuntimeError as error:
            raise Refused(400, str(error)) from None
        device = self._devices[name]
        if device != "cpu":
            leaves = [x.to(device) for x in leaves]
        rows = leaves[0].shape[0] if method.template.is_batch else 0
        if rows > self.limits.most_rows:
            raise Refused(
                400,
                f"expected at most {self.limits.most_rows} rows in a request, got {rows}; send "
                "several",
            )
        job = Job(method, leaves, rows, time.monotonic() + self.limits.timeout)
        self.worker.submit(job)
        return job.wait()

    def note(self, status: int, seconds: float) -> None:
        """Count an answer."""
        with self._lock:
            self.answers[status] += 1
            self.seconds += seconds

    def described(self) -> dict[str, Any]:
        """Return what can be asked."""
        methods = {}
        for name, method in self.methods.items():
            names = formats.leaf_names(method.arguments.names, method.arguments.structure)
            inputs = {
                each: {"dtype": dtype, "shape": shape}
                for each, dtype, shape in zip(
                    names, method.template.dtypes, method.template.shapes, strict=True
                )
            }
            methods[name] = {
                "path": "/run" if name == "forward" else f"/run/{name}",
                "inputs": inputs,
                "rows_are_joined": method.template.is_batch,
            }
        return {"model": self.name, "tapegrad": __version__, "methods": methods}

    def metrics(self) -> str:
        """Return counts in the text format of Prometheus."""
        counts = dict(self.worker.counts)
        lines = ["# TYPE tapegrad_requests_total counter"]
        with self._lock:
            for status, count in sorted(self.answers.items()):
                lines.append(f'tapegrad_requests_total{{status="{status}"}} {count}')
            seconds = self.seconds
        numbers = (
            ("request_seconds_total", "counter", f"{seconds:.6f}"),
            ("runs_total", "counter", counts.get("runs", 0)),
            ("run_requests_total", "counter", counts.get("jobs", 0)),
            ("run_rows_total", "counter", counts.get("rows", 0)),
            ("run_seconds_total", "counter", f"{counts.get('nanoseconds', 0) / 1e9:.6f}"),
            ("runs_repeated_total", "counter", counts.get("retries", 0)),
            ("waiting", "gauge", len(self.worker)),
            ("connections", "gauge", self._http.connections()),
        )
        for name, kind, value in numbers:
            lines += [f"# TYPE tapegrad_{name} {kind}", f"tapegrad_{name} {value}"]
        return "\n".join(lines) + "\n"


class _Listener(ThreadingHTTPServer):
    """Accepts connections, so many at a time."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 512
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], handler: Any, owner: Server) -> None:
        self.owner = owner
        self._open: set[Any] = set()
        self.answering = 0
        self.changed = threading.Condition()
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, handler)

    def server_bind(self) -> None:
        """Bind, without asking a name server for the host's name."""
        import socketserver

        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give a connection a thread, or refuse it."""
        with self.changed:
            is_full = len(self._open) >= self.owner.limits.most_connections
            if not is_full:
                self._open.add(request)
        if is_full:
            self._refuse(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread can be started
            self._refuse(request)

    def _refuse(self, request: Any) -> None:
        body = b'{"error":"too many connections; try again later"}'
        head = (
            "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"
        )
        self.owner.note(503, 0.0)
        with suppress(OSError):
            request.settimeout(0.5)
            request.sendall(head.encode() + body)
        self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self.changed:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that went away."""
        import sys

        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def connections(self) -> int:
        """Return how many there are."""
        return len(self._open)

    def wait_for_answers(self, seconds: float) -> None:
        """Wait until all answers are written."""
        with self.changed:
            self.changed.wait_for(lambda: self.answering == 0, seconds)

    def close_connections(self) -> None:
        """Close what is open still."""
        with self.changed:
            found = list(self._open)
        for request in found:
            with suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)


class _Clocked(io.RawIOBase):
    """A socket that is read until a time, however slowly the bytes come."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.deadline = 0.0

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, memory: Any) -> int:
        """Read what is there, or wait."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._connection.settimeout(left)
        return int(self._connection.recv_into(memory))


class _Handler(BaseHTTPRequestHandler):
    """Answers the requests of a connection."""

    protocol_version = "HTTP/1.1"
    server_version = f"tapegrad/{__version__}"
    sys_version = ""
    server: _Listener
    disable_nagle_algorithm = True
    wbufsize = -1

    def setup(self) -> None:
        """Read by the clock."""
        super().setup()
        self.rfile.close()
        self._clocked = _Clocked(self.connection)
        self.rfile = io.BufferedReader(self._clocked)

    def handle_one_request(self) -> None:
        """Answer one request."""
        self._clocked.deadline = time.monotonic() + self.server.owner.limits.read_timeout
        self._begin = 0.0
        super().handle_one_request()

    def log_message(self, format: str, *args: Any) -> None:
        """Write no log: /metrics counts."""

    # ---- what is asked

    def do_GET(self) -> None:
        """Tell about the server."""
        self._answer(self._get)

    def do_HEAD(self) -> None:
        """Tell about the server, without a body."""
        self._answer(self._get)

    def do_POST(self) -> None:
        """Run the program."""
        self._answer(self._post)

    def _answer(self, respond: Any) -> None:
        self._begin = time.monotonic()
        with self.server.changed:
            self.server.answering += 1
        try:
            try:
                status, kind, body = respond()
            except Refused as refused:
                status, kind, body = refused.status, formats.JSON, _error(str(refused))
            except TimeoutError:
                self.close_connection = True
                status, kind, body = 408, formats.JSON, _error("the request came too slowly")
            self._send(status, kind, body)
        finally:
            with self.server.changed:
                self.server.answering -= 1
                self.server.changed.notify_all()

    def _get(self) -> tuple[int, str, bytes]:
        path = self.path.split("?", 1)[0]
        self._body()  # some clients send one
        owner = self.server.owner
        if path == "/health":
            if owner.is_stopping:
                raise Refused(503, "the server is stopping")
            return 200, formats.JSON, b'{"status":"ok"}'
        if path == "/metrics":
            return 200, "text/plain; version=0.0.4", owner.metrics().encode()
        if path == "/":
            return 200, formats.JSON, json.dumps(owner.described()).encode()
        if path == "/run" or path.startswith("/run/"):
            raise Refused(405, f"expected POST {path}, got GET")
        raise Refused(404, f"there is no {path[:80]}; try /, /run, /health or /metrics")

    def _post(self) -> tuple[int, str, bytes]:
        body = self._body()
        path = self.path.split("?", 1)[0].rstrip("/")
        name = "forward" if path == "/run" else path.removeprefix("/run/")
        if not path.startswith("/run") or name not in self.server.owner.methods:
            raise Refused(404, f"there is no {path[:80]}; GET / tells what can be run")
        given = (self.headers.get_content_type() or "").lower()
        if "Content-Type" not in self.headers:
            given = formats.JSON
        if given not in _KINDS:
            raise Refused(
                415,
                f"expected a body of {formats.JSON}, {formats.NPY} or {formats.SAFETENSORS}, got "
                f"{given[:80]}",
            )
        kind = _KINDS[given]
        wanted = self._accepted(kind)
        result = self.server.owner.run(name, kind, body)
        try:
            return 200, wanted, formats.write(wanted, result)
        except formats.BadBody as error:
            raise Refused(406, str(error)) from None

    def _accepted(self, kind: str) -> str:
        """Return how the answer is written: as asked for, else as the request is."""
        for each in self.headers.get("Accept", "*/*").split(","):
            wanted = each.split(";", 1)[0].strip().lower()
            if wanted in ("*/*", "application/*", ""):
                return kind
            if wanted in _KINDS:
                return _KINDS[wanted]
        raise Refused(406, f"answers are {formats.JSON}, {formats.NPY} or {formats.SAFETENSORS}")

    # ---- bodies

    def handle_expect_100(self) -> bool:
        """Ask for a body only if it will be read."""
        try:
            self._length()
        except Refused as refused:
            self._begin = time.monotonic()
            self._send(refused.status, formats.JSON, _error(str(refused)))
            return False
        return super().handle_expect_100()

    def _length(self) -> int:
        """Return how long the body is. Where that is not known, nothing that follows is read."""
        is_open, self.close_connection = self.close_connection, True
        if "Transfer-Encoding" in self.headers:
            raise Refused(411, "expected a body with Content-Length, not in chunks")
        found = self.headers.get_all("Content-Length") or ["0"]
        text = found[0].strip()
        if len(set(found)) > 1 or not (text.isascii() and text.isdecimal()) or len(text) > 18:
            raise Refused(400, f"expected one number as Content-Length, got {text[:40]!r}")
        most = self.server.owner.limits.most_bytes
        if int(text) > most:
            raise Refused(413, f"expected a body of at most {most} bytes, got {text}")
        self.close_connection = is_open
        return int(text)

    def _body(self) -> bytes:
        length = self._length()
        is_open, self.close_connection = self.close_connection, True
        if self.command == "POST" and "Content-Length" not in self.headers:
            raise Refused(411, "expected a body with Content-Length")
        body = self.rfile.read(length)
        if len(body) < length:
            raise Refused(400, f"expected a body of {length} bytes, got {len(body)}")
        self.close_connection = is_open
        return body

    # ---- answers

    def _send(self, status: int, kind: str, body: bytes) -> None:
        if self.server.owner.is_stopping:
            self.close_connection = True
        self.server.owner.note(status, time.monotonic() - self._begin)
        try:
            self.connection.settimeout(self.server.owner.limits.read_timeout)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            if status in (503, 504):
                self.send_header("Retry-After", "1")
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)
            self.wfile.flush()
        except OSError:  # nobody is there to read it
            self.close_connection = True

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what is no request of HTTP."""
        self.close_connection = True
        self._begin = self._begin or time.monotonic()
        self.command = getattr(self, "command", None) or ""
        if getattr(self, "request_version", "") in ("", "HTTP/0.9"):
            self.request_version = "HTTP/1.0"  # with a status and headers
        self._send(int(code), formats.JSON, _error(message or "this is no request of HTTP"))


def _error(text: str) -> bytes:
    return json.dumps({"error": text}).encode()
