"""The directory of a zip archive, as far as checkpoints need it: entries stored as they are.

Compressed and encrypted entries are refused, and so are entries that overlap, so no archive can
become larger by being read.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tapegrad.serialization._source import Source

__all__ = ["Archive", "Member", "archive_chunks"]

LOCAL = struct.Struct("<4s5H3I2H")
CENTRAL = struct.Struct("<4s6H3I5H2I")
END = struct.Struct("<4s4H2IH")
END64 = struct.Struct("<4sQ2H2I4Q")
LOCATOR64 = struct.Struct("<4sIQI")
LONGEST_COMMENT = 65535
ENCRYPTED = 0x1 | 0x40 | 0x2000
UTF8 = 0x800  # of names
ALIGNMENT = 64  # of the bytes of entries, so that they can be mapped
LARGEST = 0xFFFFFFFF
DATE = 0x21  # the first of January 1980: equal states are equal files
VERSION = 45  # of the format, which has 64-bit numbers


class Member(NamedTuple):
    """An entry: where its header begins, how long it is, where it must have ended."""

    name: str
    header: int
    nbytes: int
    limit: int


class Archive:
    """The entries of an archive by name."""

    def __init__(self, source: Source) -> None:
        self.source = source
        start, nbytes, count = self._find_directory()
        directory = source.read(start, nbytes, "the archive's directory")
        self.members = self._parse(directory, count, start)

    def place(self, member: Member) -> int:
        """Return where the bytes of an entry begin."""
        header = self.source.read(member.header, LOCAL.size, "an entry's header")
        signature, _, flags, method, _, _, _, _, _, name_size, extra_size = LOCAL.unpack(header)
        name = self.source.read(member.header + LOCAL.size, name_size, "an entry's name")
        place = member.header + LOCAL.size + name_size + extra_size
        sound = signature == b"PK\x03\x04" and method == 0 and not flags & ENCRYPTED
        if not sound or name.decode("utf-8", "replace") != member.name:
            raise self.source.fail(f"the archive's entry {member.name!r:.80} is damaged")
        if place + member.nbytes > member.limit:
            raise self.source.fail(f"the archive's entry {member.name!r:.80} overlaps what follows")
        return place

    def read(self, member: Member) -> bytes:
        """Return the bytes of an entry."""
        return self.source.read(self.place(member), member.nbytes, f"{member.name!r:.80}")

    def _find_directory(self) -> tuple[int, int, int]:
        """Return where the directory begins, its length, and its number of entries."""
        source = self.source
        tail_size = min(source.size, END.size + LONGEST_COMMENT)
        tail = source.read(source.size - tail_size, tail_size, "the archive's end")
        found = tail.rfind(b"PK\x05\x06")
        if found < 0 or len(tail) - found < END.size:
            raise source.fail("a zip archive without its directory; it is damaged or cut short")
        _, disk, first, _, count, nbytes, start, _ = END.unpack_from(tail, found)
        limit = source.size - tail_size + found
        locator = limit - LOCATOR64.size
        if locator >= 0:
            data = source.read(locator, LOCATOR64.size, "the archive's end")
            signature, _, end64, _ = LOCATOR64.unpack(data)
            if signature == b"PK\x06\x07":
                data = source.read(end64, END64.size, "the archive's end")
                signature, _, _, _, disk, first, _, count, nbytes, start = END64.unpack(data)
                if signature != b"PK\x06\x06":
                    raise source.fail("the archive's end is damaged")
                limit = end64
        if disk or first or start + nbytes > limit or count * CENTRAL.size > nbytes:
            raise source.fail("the archive's directory is damaged")
        return start, nbytes, count

    def _parse(self, directory: bytes, count: int, limit: int) -> dict[str, Member]:
        members: list[Member] = []
        place = 0
        for _ in range(count):
            if len(directory) - place < CENTRAL.size:
                raise self.source.fail("the archive's directory is damaged")
            fields = CENTRAL.unpack_from(directory, place)
            name_size, extra_size, comment_size = fields[10:13]
            place += CENTRAL.size
            text = directory[place : place + name_size]
            extra = directory[place + name_size : place + name_size + extra_size]
            place += name_size + extra_size + comment_size
            if fields[0] != b"PK\x01\x02" or place > len(directory):
                raise self.source.fail("the archive's directory is damaged")
            members.append(self._member(fields, text, extra))
        return self._without_overlap(members, limit)

    def _member(self, fields: tuple[int, ...], text: bytes, extra: bytes) -> Member:
        flags, method = fields[3:5]
        packed, nbytes, header = fields[8], fields[9], fields[16]
        try:
            name = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.source.fail("the archive's directory is damaged: a name") from error
        if flags & ENCRYPTED or method != 0:
            raise self.source.fail(
                f"the archive's entry {name!r:.80} is compressed or encrypted; torch.save() stores "
                "entries as they are: save it again"
            )
        wide = _wide_numbers(extra)
        numbers = [
            wide.pop(0) if number == LARGEST and wide else number
            for number in (nbytes, packed, header)
        ]
        if numbers[0] != numbers[1]:
            raise self.source.fail(f"the archive's entry {name!r:.80} is damaged")
        return Member(name, numbers[2], numbers[0], 0)

    def _without_overlap(self, members: list[Member], limit: int) -> dict[str, Member]:
        """Give each entry the place where the next one begins, which it may not reach."""
        found: dict[str, Member] = {}
        for member in sorted(members, key=lambda member: -member.header):
            end = member.header + LOCAL.size + len(member.name.encode("utf-8")) + member.nbytes
            if end > limit or member.name in found:
                raise self.source.fail(
                    f"the archive's entry {member.name!r:.80} overlaps another or stands twice"
                )
            found[member.name] = member._replace(limit=limit)
            limit = member.header
        return found


def _wide_numbers(extra: bytes) -> list[int]:
    """Return the 64-bit numbers of an entry's extra field."""
    place = 0
    while place + 4 <= len(extra):
        kind, size = struct.unpack_from("<2H", extra, place)
        if kind == 1:
            data = extra[place + 4 : place + 4 + size]
            whole = len(data) // 8 * 8
            return [number for (number,) in struct.iter_unpack("<Q", data[:whole])]
        place += 4 + size
    return []


# ---- writing


def archive_chunks(members: Sequence[tuple[str, memoryview]]) -> Iterator[memoryview]:
    """Yield the bytes of an archive that stores entries as they are."""
    place, directory = 0, b""
    for name, data in members:
        text, checksum, nbytes = name.encode("utf-8"), zlib.crc32(data), data.nbytes
        extra = _wide(nbytes, nbytes) if nbytes >= LARGEST else b""
        extra += _padding(place + LOCAL.size + len(text) + len(extra))
        fields = VERSION, UTF8, 0, 0, DATE, checksum, min(nbytes, LARGEST), min(nbytes, LARGEST)
        yield memoryview(LOCAL.pack(b"PK\x03\x04", *fields, len(text), len(extra)) + text + extra)
        yield data
        wide = _wide(*(number for number in (nbytes, nbytes, place) if number >= LARGEST))
        sizes = len(text), len(wide), 0, 0, 0, 0, min(place, LARGEST)
        directory += CENTRAL.pack(b"PK\x01\x02", VERSION, *fields, *sizes) + text + wide
        place += LOCAL.size + len(text) + len(extra) + nbytes
    count, nbytes, end = len(members), len(directory), place + len(directory)
    rest = END64.size - 12, VERSION, VERSION, 0, 0, count, count, nbytes, place
    directory += END64.pack(b"PK\x06\x06", *rest) + LOCATOR64.pack(b"PK\x06\x07", 0, end, 1)
    few, short = min(count, 0xFFFF), min(nbytes, LARGEST)
    directory += END.pack(b"PK\x05\x06", 0, 0, few, few, short, min(place, LARGEST), 0)
    yield memoryview(directory)


def _wide(*numbers: int) -> bytes:
    """Return the extra field that holds numbers of 64 bits."""
    if not numbers:
        return b""
    return struct.pack(f"<2H{len(numbers)}Q", 1, 8 * len(numbers), *numbers)


def _padding(place: int) -> bytes:
    """Return an extra field after which the bytes of an entry are aligned."""
    size = -(place + 4) % ALIGNMENT
    return struct.pack("<2s H", b"FB", size) + b"Z" * size
