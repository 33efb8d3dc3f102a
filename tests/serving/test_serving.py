"""``tapegrad serve``: answers are never lost or mixed, whatever clients do."""

import http.client
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("the server is tapegrad's own", allow_module_level=True)

from tapegrad.serving import Limits, Server, formats

nn = torch.nn


def load(function, *example, **arguments):
    file = io.BytesIO()
    torch.jit.trace(function, example, **arguments).save(file)
    file.seek(0)
    return torch.jit.load(file)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    made = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3)).eval()
    return load(made.requires_grad_(False), torch.zeros(1, 4))


def post(server, document, path="/run", **headers):
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    host, port = server.url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    try:
        kinds = {"Content-Type": "application/json"}
        kinds |= {name.replace("_", "-"): each for name, each in headers.items()}
        connection.request("POST", path, body, kinds)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def run(server, **inputs):
    status, body = post(server, {"inputs": inputs})
    assert status == 200, body
    return torch.tensor(json.loads(body)["outputs"])


def raw(server, data, seconds=10.0):
    """Send bytes as they are; return all that comes back."""
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=seconds) as connection:
        connection.sendall(data)
        found = b""
        while True:
            try:
                part = connection.recv(65536)
            except (TimeoutError, ConnectionResetError):
                return found
            if not part:
                return found
            found += part


def status_of(answer):
    return int(answer.split(b" ", 2)[1]) if answer else 0


def get(server, path):
    with urllib.request.urlopen(server.url + path, timeout=10) as answer:
        return answer.read()


def metrics(server):
    lines = get(server, "/metrics").decode().splitlines()
    return {line.split(" ")[0]: float(line.split(" ")[1]) for line in lines if line[0] != "#"}


# ---- answers


@pytest.mark.parametrize("most_rows", [1, 16])
def test_200_clients_get_their_own_answers(model, most_rows):
    limits = Limits(most_rows=most_rows, batch_wait=0.005, most_waiting=1000)
    with Server(model, port=0, limits=limits) as server:
        begin = threading.Barrier(200)

        def client(number):
            generator = torch.Generator().manual_seed(number)
            begin.wait(30)
            for _ in range(3):
                x = torch.randn((1 + number % most_rows % 3, 4), generator=generator)
                found = run(server, input=x.tolist())
                assert torch.allclose(found, model(x), 1e-5, 1e-6), number
            return number

        with ThreadPoolExecutor(200) as pool:
            assert sorted(pool.map(client, range(200))) == list(range(200))
        found = metrics(server)
        assert found['tapegrad_requests_total{status="200"}'] == 600
        assert found["tapegrad_run_requests_total"] == 600
        if most_rows > 1:
            assert found["tapegrad_runs_total"] < 600  # rows ran together
        else:
            assert found["tapegrad_runs_total"] == 600


def test_a_bad_request_among_good_ones_spoils_none():
    embed = load(nn.Embedding(10, 3).requires_grad_(False), torch.zeros(1, 2, dtype=torch.int64))
    with Server(embed, port=0, limits=Limits(batch_wait=0.05)) as server:

        def client(number):
            token = number if number % 7 else 99
            status, body = post(server, {"inputs": [[[token % 10 if number % 7 else 99, 1]]]})
            return number, status, json.loads(body)

        with ThreadPoolExecutor(40) as pool:
            for number, status, answer in pool.map(client, range(40)):
                if number % 7 == 0:
                    assert status == 400
                    assert "cannot run on these values" in answer["error"]
                else:
                    expected = embed(torch.tensor([[number % 10, 1]]))
                    assert torch.allclose(torch.tensor(answer["outputs"]), expected)


def test_programs_that_mix_rows_run_one_by_one():
    mixing = load(lambda x: x - x.mean(0), torch.randn(3, 2))
    with Server(mixing, port=0, limits=Limits(batch_wait=0.05)) as server:

        def client(number):
            x = torch.randn(2 + number % 3, 2)
            return torch.allclose(run(server, x=x.tolist()), x - x.mean(0), 1e-4, 1e-5)

        with ThreadPoolExecutor(20) as pool:
            assert all(pool.map(client, range(20)))


def test_bodies_of_every_kind():
    def f(x, pair, named):
        return x * pair[0], [named["a"] + 1, pair[1].sum(1)]

    example = (torch.ones(1, 2), (torch.ones(1, 2), torch.ones(1, 3)), {"a": torch.zeros(1)})
    many = load(f, *example, strict=False)
    x, one, two = torch.randn(2, 2), torch.randn(2, 2), torch.randn(2, 3)
    a = torch.randn(2)
    expected = f(x, (one, two), {"a": a})
    with Server(many, port=0) as server:
        body = {"x": x.tolist(), "pair": [one.tolist(), two.tolist()], "named": {"a": a.tolist()}}
        status, answer = post(server, {"inputs": body})
        outputs = json.loads(answer)["outputs"]
        assert torch.allclose(torch.tensor(outputs[0]), expected[0])
        assert torch.allclose(torch.tensor(outputs[1][1]), expected[1][1])
        file = io.BytesIO()
        torch.save({"x": x, "pair.0": one, "pair.1": two, "named.a": a}, file)
        status, answer = post(server, file.getvalue(), Content_Type="application/x-safetensors")
        assert status == 200, answer
        found = torch.load(io.BytesIO(answer))
        assert torch.equal(found["output.1.1"], expected[1][1])
        status, answer = post(
            server, file.getvalue(), Content_Type="application/x-safetensors", Accept="text/html"
        )
        assert status == 406
        status, answer = post(server, {"inputs": body}, Accept="application/x-npy")
        assert status == 406
        assert b"3 results" in answer
        status, answer = post(server, b"x", Content_Type="application/x-npy")
        assert status == 400
        assert b"4 tensors" in answer


def test_npy(model):
    import numpy

    with Server(model, port=0) as server:
        for array in (
            numpy.random.rand(3, 4).astype("float32"),
            numpy.asfortranarray(numpy.random.rand(3, 4).astype("float32")),
            numpy.random.rand(3, 4).astype(">f4"),
        ):
            file = io.BytesIO()
            numpy.save(file, array)
            status, answer = post(server, file.getvalue(), Content_Type="application/x-npy")
            assert status == 200, answer
            found = torch.from_numpy(numpy.load(io.BytesIO(answer)))
            expected = model(torch.from_numpy(array.astype("float32").copy(order="C")))
            assert torch.allclose(found, expected, 1e-5, 1e-6)


def test_numbers_that_json_has_not():
    same = load(lambda x: x * 1, torch.ones(1, 3))
    with Server(same, port=0) as server:
        _, answer = post(server, {"inputs": {"x": [["NaN", "Infinity", "-Infinity"]]}})
        assert json.loads(answer)["outputs"] == [["NaN", "Infinity", "-Infinity"]]


def test_what_is_there(model):
    with Server(model, port=0) as server:
        assert json.loads(get(server, "/health")) == {"status": "ok"}
        told = json.loads(get(server, "/"))["methods"]["forward"]
        assert told["inputs"] == {"input": {"dtype": "float32", "shape": ["batch", 4]}}
        assert told["rows_are_joined"]
        assert status_of(raw(server, b"GET /nothing HTTP/1.0\r\n\r\n")) == 404
        assert status_of(raw(server, b"GET /run HTTP/1.0\r\n\r\n")) == 405
        assert status_of(raw(server, b"PUT /run HTTP/1.0\r\n\r\n")) == 501
        assert post(server, {"inputs": []}, path="/run/nothing")[0] == 404
        head = raw(server, b"HEAD /health HTTP/1.0\r\n\r\n")
        assert head.endswith(b"\r\n\r\n")


def test_a_connection_is_used_again(model):
    with Server(model, port=0) as server:
        host, port = server.url.removeprefix("http://").split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=10)
        for _ in range(3):
            connection.request("POST", "/run", json.dumps({"inputs": [[[1, 2, 3, 4]]]}))
            assert connection.getresponse().read().startswith(b'{"outputs"')
            connection.request("POST", "/run", "{", {"Content-Type": "application/json"})
            answer = connection.getresponse()
            assert answer.status == 400
            answer.read()
        connection.close()


# ---- what does not fit


BAD = {
    "no json": (b"{", "expected JSON"),
    "not an object": (b"[1]", "inputs"),
    "no inputs": (b"{}", "inputs"),
    "unknown input": (b'{"inputs": {"x": [[1,2,3,4]]}}', '"input": ...'),
    "NaN": (b'{"inputs": {"input": [[NaN,2,3,4]]}}', "the string"),
    "too large": (b'{"inputs": {"input": [[1e999,2,3,4]]}}', "expected float32"),
    "huge integer": (b'{"inputs": {"input": [[' + b"9" * 5000 + b",2,3,4]]}}", "expected"),
    "text": (b'{"inputs": {"input": [["a",2,3,4]]}}', "expected float32, got"),
    "true": (b'{"inputs": {"input": [[true,2,3,4]]}}', "expected float32, got true"),
    "null": (b'{"inputs": {"input": [[null,2,3,4]]}}', "expected float32"),
    "ragged": (b'{"inputs": {"input": [[1,2,3,4],[1]]}}', "lists of one length"),
    "deeper": (b'{"inputs": {"input": [[[1],2,3,4]]}}', "expected 2 dimensions, got 3"),
    "narrow": (b'{"inputs": {"input": [[1,2,3]]}}', "float32[batch, 4]"),
    "no rows": (b'{"inputs": {"input": []}}', "expected 2 dimensions"),
    "brackets": (b"[" * 200_000, "brackets"),
    "rows": (json.dumps({"inputs": [[[0] * 4] * 33]}).encode(), "at most 32 rows"),
    "bytes": (b"\xff\xfe\x00", "expected JSON"),
}


@pytest.mark.parametrize("case", BAD)
def test_bodies_that_do_not_fit(model, case):
    body, text = BAD[case]
    with Server(model, port=0) as server:
        status, answer = post(server, body)
        assert status == 400
        assert text in json.loads(answer)["error"]
        assert run(server, input=[[1, 2, 3, 4]]).shape == (1, 3)


def npy(header, data=b""):
    text = header.encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


HOSTILE = {
    "empty": b"",
    "huge shape": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 4), }\n"),
    "negative": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 4), }\n"),
    "objects": npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n", b"x" * 8),
    "text": npy("{'descr': '<U4', 'fortran_order': False, 'shape': (1,), }\n", b"x" * 16),
    "code": npy("__import__('os').system('true')\n"),
    "cut": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 4), }\n", b"x" * 15),
    "version": b"\x93NUMPY\x09\x00\x00\x00",
    "complex": npy("{'descr': '<c8', 'fortran_order': False, 'shape': (1, 4), }\n", b"x" * 32),
    "dtype": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 4), }\n", b"\0" * 32),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_arrays_that_do_not_fit(model, case):
    with Server(model, port=0) as server:
        status, answer = post(server, HOSTILE[case], Content_Type="application/x-npy")
        assert status == 400, answer


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff" * 8,
        (1 << 40).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"{}",
        b'\x40\0\0\0\0\0\0\0{"input":{"dtype":"F32","shape":[1,4],"data_offsets":[0,16]}}   ',
    ],
)
def test_safetensors_that_do_not_fit(model, body):
    with Server(model, port=0) as server:
        status, answer = post(server, body, Content_Type="application/x-safetensors")
        assert status == 400, answer


def request(*lines, body=b""):
    return b"\r\n".join([b"POST /run HTTP/1.1", b"Host: x", *lines, b"", b""]) + body


REQUESTS = {
    "negative length": (request(b"Content-Length: -1"), 400),
    "length of words": (request(b"Content-Length: ten"), 400),
    "digits of another script": (request("Content-Length: \u0663".encode()), 400),
    "two lengths": (request(b"Content-Length: 2", b"Content-Length: 3", body=b"{}"), 400),
    "endless length": (request(b"Content-Length: " + b"9" * 40), 400),
    "too much": (request(b"Content-Length: 99999999999"), 413),
    "no length": (request(), 411),
    "chunks": (request(b"Transfer-Encoding: chunked", body=b"0\r\n\r\n"), 411),
    "both": (request(b"Transfer-Encoding: chunked", b"Content-Length: 5", body=b"0\r\n\r\n"), 411),
    "expect": (request(b"Content-Length: 99999999999", b"Expect: 100-continue"), 413),
    "huge header": (request(b"X: " + b"y" * 100_000), 431),
    "many headers": (request(*[b"X%d: y" % i for i in range(200)]), 431),
    "long line": (b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n", 414),
    "no request": (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
    "version": (b"GET / HTTP/9.9\r\n\r\n", 505),
}


@pytest.mark.parametrize("case", REQUESTS)
def test_requests_that_are_none(model, case):
    data, status = REQUESTS[case]
    with Server(model, port=0) as server:
        assert status_of(raw(server, data)) == status
        assert run(server, input=[[1, 2, 3, 4]]).shape == (1, 3)


def test_a_body_that_ends_early(model):
    with Server(model, port=0) as server:
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(request(b"Content-Length: 100", body=b'{"inputs"'))
            connection.shutdown(socket.SHUT_WR)
            assert status_of(connection.recv(65536)) == 400
        assert run(server, input=[[1, 2, 3, 4]]).shape == (1, 3)


def test_clients_that_are_slow(model):
    with Server(model, port=0, limits=Limits(read_timeout=0.5)) as server:
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            start = time.monotonic()
            connection.sendall(request(b"Content-Length: 100000"))
            with pytest.raises(OSError):  # a byte now and then does not keep it open
                for _ in range(100):
                    connection.sendall(b" ")
                    time.sleep(0.05)
            assert time.monotonic() - start < 4.5
        assert raw(server, b"") == b""  # nothing is asked
        assert run(server, input=[[1, 2, 3, 4]]).shape == (1, 3)


def test_clients_that_go_away(model):
    limits = Limits(batch_wait=0.02)
    with Server(model, port=0, limits=limits) as server:
        body = json.dumps({"inputs": [[[1, 2, 3, 4]]]}).encode()
        whole = request(b"Content-Length: %d" % len(body), body=body)
        host, port = server.url.removeprefix("http://").split(":")

        def leave(number):
            with socket.create_connection((host, int(port)), timeout=10) as connection:
                connection.sendall(whole[: len(whole) - number % 3])

        def stay(number):
            x = torch.full((1, 4), float(number))
            return torch.allclose(run(server, input=x.tolist()), model(x), 1e-5, 1e-6)

        with ThreadPoolExecutor(40) as pool:
            leaving = [pool.submit(leave, i) for i in range(60)]
            assert all(pool.map(stay, range(60)))
            for each in leaving:
                each.result()
        wait_until(lambda: metrics(server)["tapegrad_connections"] <= 1)


def wait_until(holds, seconds=10.0):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


# ---- too much


class Slow:
    """A method of a loaded module that takes its time."""

    def __init__(self, method, gate):
        self._method, self._gate = method, gate
        self.arguments, self.template = method.arguments, method.template

    def __call__(self, *args):
        assert self._gate.wait(20)
        return self._method(*args)


def slow_server(model, limits):
    server = Server(model, port=0, limits=limits)
    gate = threading.Event()
    server.methods["forward"] = Slow(server.methods["forward"], gate)
    return server, gate


def test_a_full_queue_refuses(model):
    server, gate = slow_server(model, Limits(most_rows=1, most_waiting=3))
    with server, ThreadPoolExecutor(20) as pool:
        first = pool.submit(run, server, input=[[0, 0, 0, 0]])
        wait_until(lambda: server.answers.total() == 0 and server._http.answering == 1)
        time.sleep(0.1)
        waiting = [pool.submit(run, server, input=[[i, 0, 0, 0]]) for i in range(3)]
        wait_until(lambda: len(server.worker) == 3)
        status, answer = post(server, {"inputs": [[[1, 2, 3, 4]]]})
        assert status == 503
        assert "requests are waiting already" in json.loads(answer)["error"]
        gate.set()
        for i, each in enumerate(waiting):
            assert torch.allclose(each.result(), model(torch.tensor([[float(i), 0, 0, 0]])))
        first.result()


def test_answers_that_take_too_long(model):
    server, gate = slow_server(model, Limits(most_rows=1, timeout=0.3))
    with server:
        status, answer = post(server, {"inputs": [[[1, 2, 3, 4]]]})
        assert status == 504
        assert "took too long" in json.loads(answer)["error"]
        status, _ = post(server, {"inputs": [[[1, 2, 3, 4]]]})
        assert status == 504
        gate.set()
        wait_until(lambda: len(server.worker) == 0)
        assert run(server, input=[[1, 2, 3, 4]]).shape == (1, 3)
        assert server.worker.counts["jobs"] <= 2  # nobody waited for the second


def test_too_many_connections(model):
    with Server(model, port=0, limits=Limits(most_connections=2)) as server:
        host, port = server.url.removeprefix("http://").split(":")
        held = [socket.create_connection((host, int(port))) for _ in range(2)]
        wait_until(lambda: server._http.connections() == 2)
        assert status_of(raw(server, b"GET /health HTTP/1.0\r\n\r\n")) == 503
        for each in held:
            each.close()
        wait_until(lambda: server._http.connections() == 0)
        assert status_of(raw(server, b"GET /health HTTP/1.0\r\n\r\n")) == 200


def test_stopping_answers_what_waits(model):
    server, gate = slow_server(model, Limits(most_rows=1))
    server.start()
    with ThreadPoolExecutor(5) as pool:
        asked = [pool.submit(run, server, input=[[i, 0, 0, 0]]) for i in range(4)]
        wait_until(lambda: server._http.answering == 4 and len(server.worker) == 3)
        stopping = pool.submit(server.stop)
        wait_until(lambda: server.is_stopping)
        gate.set()
        stopping.result(20)
        for i, each in enumerate(asked):
            assert torch.allclose(each.result(), model(torch.tensor([[float(i), 0, 0, 0]])))
    with pytest.raises(OSError):
        urllib.request.urlopen(server.url + "/health", timeout=2)
    assert not server.worker._thread.is_alive()


# ---- the command


def start_command(folder, *words):
    root = str(Path(torch.__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, "-m", "tapegrad", "serve", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": root},
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command(tmp_path, number):
    linear = nn.Linear(2, 1).requires_grad_(False)
    torch.jit.trace(linear, torch.zeros(1, 2)).save(tmp_path / "model.tg")
    process = start_command(tmp_path, "model.tg", "--port", "0")
    try:
        line, told = process.stdout.readline(), process.stdout.readline()
        url = line.split(" at ")[1].split(";")[0]
        body = json.dumps({"inputs": {"input": [[1, 2], [3, 4]]}}).encode()
        with urllib.request.urlopen(url + "/run", body, timeout=20) as answer:
            found = torch.tensor(json.loads(answer.read())["outputs"])
        assert torch.allclose(found, linear(torch.tensor([[1.0, 2.0], [3.0, 4.0]])))
        process.send_signal(number)
        shown, errors = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, errors) == (0, "")
    assert "POST /run   input float32[batch, 2]   rows of several requests run together" in told
    assert shown.endswith("stopping: answering what waits\n")


def test_the_command_says_what_is_wrong(tmp_path):
    torch.save({"a": torch.ones(1)}, tmp_path / "other")
    for words, text in (
        (("nowhere.tg",), "does not exist"),
        (("other",), "expected what torch.jit.save wrote"),
        (("other", "--port", "99999"), "expected a number from 0 to 65535"),
        (("other", "--max-bytes", "-1"), "--max-bytes"),
    ):
        process = start_command(tmp_path, *words)
        _, errors = process.communicate(timeout=60)
        assert process.returncode in (1, 2)
        assert text in errors
        assert "Traceback" not in errors


def test_names_of_tensors_in_containers():
    from tapegrad.utils._pytree import tree_flatten

    _, structure = tree_flatten([1, (2, [3]), {"a": 4}])
    assert formats.leaf_names(["x", "y", "z"], structure) == ["x", "y.0", "y.1.0", "z.a"]
