"""Sends packets to a hub that no process of the job has made: it refuses them all, and goes on.

Usage: python tests/distributed/fuzz_channel.py [PACKETS] [SEED]
"""

import random
import resource
import socket
import sys
import threading

from tapegrad.distributed import _channel
from tapegrad.distributed._hub import STRANGERS, Hub

TOKEN = b"t" * 32
REPORT = {"begun": [], "waiting": [], "groups": {}, "pid": 1}


def packet(rng, nonce):
    """Return bytes that a stranger might send: noise, changed packets, packets of another token."""
    kind = rng.randrange(7)
    if kind == 0:
        return rng.randbytes(rng.choice([0, 1, 15, 16, 17, 40, 600]))
    if kind == 1:  # a length that would need much memory
        return rng.randbytes(16) + (2**32 - 1 - rng.randrange(9)).to_bytes(4, "big") + b"x" * 40
    if kind == 2:  # a length that never comes
        return rng.randbytes(16) + (60_000).to_bytes(4, "big") + b"x" * rng.randrange(3000)
    mine = rng.randbytes(16)
    token = rng.randbytes(32) if kind == 3 else TOKEN
    theirs = rng.randbytes(16) if kind == 4 else nonce  # kind 4: one that was recorded elsewhere
    sealed = _channel.Packets(token, theirs + mine, accepted=False).pack({"rank": 1})
    if kind == 5:  # the seal of the other side
        sealed = _channel.Packets(TOKEN, theirs + mine, accepted=True).pack({"rank": 1})
    data = bytearray(mine + sealed)
    if kind == 6:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def fuzz(count, seed=0):
    """Send packets while a process of the job reports; return how many were refused."""
    rng, failures = random.Random(seed), []
    hub = Hub(3, TOKEN, 600.0, failures.append)
    ends = threading.Event()

    def serve():
        while not ends.is_set():
            hub.step(0.05)
            assert len(hub._strangers) <= STRANGERS

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        known = _channel.connect(hub.address, TOKEN, 2, 10.0)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for number in range(count):
            with socket.socket(socket.AF_UNIX) as link:
                link.settimeout(10)
                link.connect(hub.address)
                nonce = link.recv(16)
                try:
                    link.sendall(packet(rng, nonce))
                except OSError:
                    continue  # it was refused before it was sent
            if number % 100 == 0:
                known.send(REPORT)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        known.send({**REPORT, "left": True})
        for _ in range(200):
            hub.wake()
            if hub.judge.processes[2].left and hub.refused >= count:
                break
            ends.wait(0.05)
    finally:
        ends.set()
        hub.wake()
        thread.join()
    known.link.close()
    left = hub.judge.processes[2].left
    hub.close()
    assert left, "the process of the job was heard to the end"
    assert not failures, failures
    assert hub.judge.processes[1].begun == {} and not hub.judge.processes[1].left
    assert grown < 30_000, f"memory grew by {grown} kB"
    return hub.refused


if __name__ == "__main__":
    words = [int(word) for word in sys.argv[1:]]
    count = words[0] if words else 100_000
    print(f"{fuzz(*words) if words else fuzz(count)} of {count} refused, nothing accepted")
