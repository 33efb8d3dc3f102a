"""Packets between processes of one job, sealed with a token that only they have.

A packet is its length (4 bytes), a seal (16 bytes) and JSON. The seal is an HMAC of a key, of who
sends, of how many packets came before, and of the text: packets that were changed, repeated, left
out or sent back are refused, and with them the connection. The key of a connection is made of the
token and of random numbers of both sides. What comes before the seal was checked is never parsed.
"""

import contextlib
import hashlib
import hmac
import json
import secrets
import socket
from typing import Any

__all__ = ["NONCE", "Malformed", "Packets", "Sealed", "connect"]

NONCE, SEAL = 16, 16
LARGEST = 1 << 16  # bytes of a packet


class Malformed(Exception):
    """What came is no packet of this job."""


class Packets:
    """Seals packets of one connection, and opens those of the other side.

    Args:
        token: the secret of the job.
        nonces: what both sides have chosen, first that of who accepted the connection.
        accepted: whether this side has accepted it.
    """

    def __init__(self, token: bytes, nonces: bytes, accepted: bool) -> None:
        self._key = hmac.digest(token, b"connection" + nonces, hashlib.sha256)
        self._accepted = accepted
        self._sent = self._received = 0
        self._buffer = b""

    def _seal(self, accepted: bool, number: int, text: bytes) -> bytes:
        head = bytes([accepted]) + number.to_bytes(8, "big")
        return hmac.digest(self._key, head + text, hashlib.sha256)[:SEAL]

    def pack(self, value: Any) -> bytes:
        """Return the bytes of a packet."""
        text = json.dumps(value, separators=(",", ":")).encode()
        if len(text) > LARGEST:
            raise ValueError(f"a packet of {len(text)} bytes is larger than {LARGEST}")
        seal = self._seal(self._accepted, self._sent, text)
        self._sent += 1
        return len(text).to_bytes(4, "big") + seal + text

    def take(self, data: bytes) -> list[Any]:
        """Return the values of all packets that are complete."""
        self._buffer += data
        found = []
        while len(self._buffer) >= 4:
            length = int.from_bytes(self._buffer[:4], "big")
            if length > LARGEST:
                raise Malformed(f"a packet of {length} bytes")
            end = 4 + SEAL + length
            if len(self._buffer) < end:
                break
            seal, text = self._buffer[4 : 4 + SEAL], self._buffer[4 + SEAL : end]
            if not hmac.compare_digest(seal, self._seal(not self._accepted, self._received, text)):
                raise Malformed("a packet with another seal")
            self._received += 1
            self._buffer = self._buffer[end:]
            found.append(json.loads(text))
        return found


class Sealed:
    """A connection on which packets go both ways, without waiting.

    Args:
        link: a connected socket.
        packets: its packets.
    """

    def __init__(self, link: socket.socket, packets: Packets) -> None:
        self.link, self._packets = link, packets
        self._unsent = b""
        link.setblocking(False)

    def send(self, value: Any) -> None:
        """Send a packet, or as much of it as fits; the rest goes with the next."""
        if len(self._unsent) > 4 * LARGEST:
            return  # the other side does not read; it is found out by its silence
        self._unsent += self._packets.pack(value)
        with contextlib.suppress(BlockingIOError):
            self._unsent = self._unsent[self.link.send(self._unsent) :]

    def receive(self) -> list[Any] | None:
        """Return the packets that have come, or None if the other side is gone."""
        try:
            data = self.link.recv(LARGEST)
        except BlockingIOError:
            return []
        except OSError:
            return None
        return self._packets.take(data) if data else None


def connect(address: Any, token: bytes, rank: int, seconds: float) -> Sealed:
    """Return a connection to who listens at an address, which is told this rank."""
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    link = socket.socket(family, socket.SOCK_STREAM)
    try:
        link.settimeout(seconds)
        link.connect(address if isinstance(address, str) else tuple(address))
        theirs = b""
        while len(theirs) < NONCE:
            part = link.recv(NONCE - len(theirs))
            if not part:
                raise ConnectionError("the other side has closed the connection")
            theirs += part
        mine = secrets.token_bytes(NONCE)
        packets = Packets(token, theirs + mine, accepted=False)
        link.sendall(mine + packets.pack({"rank": rank}))
    except OSError:
        link.close()
        raise
    return Sealed(link, packets)
