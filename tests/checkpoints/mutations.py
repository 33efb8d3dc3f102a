"""Damaged files: small changes to sound ones, at random and with knowledge of the formats."""

import io
import json
import random
import struct
import zipfile

INTERESTING = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, 1 << 62,
               (1 << 63) - 1, (1 << 64) - 1)  # fmt: skip
OPERATIONS = b"(.012NJKMGXBCTU]})letdasuqrhjcRbQ\x80\x81\x82\x85\x86\x87\x88\x89\x8a\x8b\x8c" \
             b"\x8d\x8e\x8f\x90\x91\x93\x94\x95\x96"  # fmt: skip
NAMES = (b"os\nsystem", b"builtins\neval", b"torch\nFloatStorage", b"torch\nDoubleStorage",
         b"collections\nOrderedDict", b"collections\ndefaultdict", b"builtins\nset",
         b"torch._utils\n_rebuild_tensor_v2", b"torch._utils\n_rebuild_parameter",
         b"torch\nSize", b"_codecs\nencode", b"torch\nBoolStorage")  # fmt: skip


# ---- bytes


def flip_bits(data, rng, other):
    for _ in range(rng.choice((1, 1, 2, 8))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def truncate(data, rng, other):
    del data[rng.randrange(len(data)) :]


def insert(data, rng, other):
    place = rng.randrange(len(data) + 1)
    data[place:place] = rng.randbytes(rng.choice((1, 2, 8, 64)))


def delete(data, rng, other):
    place = rng.randrange(len(data))
    del data[place : place + rng.choice((1, 2, 8, 64))]


def overwrite_number(data, rng, other):
    size = rng.choice((1, 2, 4, 8))
    if len(data) >= size:
        place = rng.randrange(len(data) - size + 1)
        number = rng.choice(INTERESTING) & ((1 << 8 * size) - 1)
        data[place : place + size] = number.to_bytes(size, rng.choice(("little", "big")))


def splice(data, rng, other):
    start, place = rng.randrange(len(other)), rng.randrange(len(data))
    piece = other[start : start + rng.randrange(1, 200)]
    data[place : place + rng.choice((0, len(piece)))] = piece


def swap_pieces(data, rng, other):
    size = rng.choice((1, 4, 16, 64))
    if len(data) >= size:
        one, two = (rng.randrange(len(data) - size + 1) for _ in range(2))
        data[one : one + size], data[two : two + size] = (
            data[two : two + size],
            data[one : one + size],
        )


BYTES = (flip_bits, truncate, insert, delete, overwrite_number, splice, swap_pieces)


# ---- JSON


def random_value(rng, values):
    kind = rng.randrange(8)
    if kind == 0:
        return rng.choice((*INTERESTING, -1, -(1 << 63), 2.5, 1e308, True, False, None))
    if kind == 1:
        return rng.choice(
            ("", "F32", "BOOL", "F64", "U8", "C64", "\ud800", "cpu", "cuda", "x" * 50)
        )
    if kind == 2:
        return rng.choice(([], {}, [[]], {"@": 0}, {"@": 1}, {"tensor": 0}, {"int": "0x10"},
                           {"bytes": "AAAA"}, {"entry": "w"}, {"float": "7ff0000000000000"},
                           {"numpy": ["float64", "AAAAAAAA8D8="]}, {"device": "cpu"}))  # fmt: skip
    return rng.choice(values)


def places_in(tree):
    """Return (container, key) of every value of a JSON tree."""
    found, rest = [], [tree]
    while rest:
        value = rest.pop()
        keys = list(value) if isinstance(value, dict) else range(len(value))
        for key in keys:
            found.append((value, key))
            if isinstance(value[key], (dict, list)):
                rest.append(value[key])
    return found


def edit_json(tree, rng):
    """Change a JSON tree in one to three places."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        places = places_in(tree)
        if not places:
            return
        container, key = rng.choice(places)
        values = [json.loads(json.dumps(owner[name])) for owner, name in rng.sample(places, 1)]
        kind = rng.randrange(7)
        if kind > 4:  # A value that stands under the same name elsewhere has the right form.
            owner, _ = rng.choice([place for place in places if place[1] == key])
            container[key] = json.loads(json.dumps(owner[key]))
        elif kind == 0:
            del container[key]
        elif kind == 1 and isinstance(container, dict):
            container[
                rng.choice(("dtype", "shape", "@", "tensor", "entry", "list", "set", "x"))
            ] = container.pop(key)
        elif kind == 2 and isinstance(container, list):
            container.insert(key, random_value(rng, values))
        elif kind == 3 and type(container[key]) is int:
            container[key] += rng.choice((-8, -4, -1, 1, 4, 8, 1 << 32))
        else:
            container[key] = random_value(rng, values)


def edit_header(data, rng, other):
    """Change the header of a safetensors file, keeping its length right."""
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(bytes(data[8 : 8 + length]))
    if rng.random() < 0.75 and "tapegrad" in header.get("__metadata__", {}):
        document = json.loads(header["__metadata__"]["tapegrad"])
        edit_json(document, rng)
        header["__metadata__"]["tapegrad"] = json.dumps(document)
    else:
        edit_json(header, rng)
    text = json.dumps(header).encode()
    data[: 8 + length] = struct.pack("<Q", len(text)) + text


def edit_length(data, rng, other):
    """Change the length of a safetensors header."""
    (length,) = struct.unpack_from("<Q", data)
    wrong = rng.choice((*INTERESTING, length - 1, length + 1, len(data) - 8, len(data)))
    data[:8] = struct.pack("<Q", wrong & ((1 << 64) - 1))


# ---- zip archives


def edit_pickle(data, rng, other):
    """Change the pickle of an archive, and write a sound archive around it."""
    with zipfile.ZipFile(io.BytesIO(bytes(data))) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = next(name for name in members if name.endswith("/data.pkl"))
    pickled = bytearray(members[name])
    for _ in range(rng.choice((1, 1, 2, 4))):
        place = rng.randrange(len(pickled))
        kind = rng.randrange(6)
        if kind == 0:
            pickled[place] = rng.choice(OPERATIONS)
        elif kind == 1:
            pickled.insert(place, rng.choice(OPERATIONS))
        elif kind == 2:
            at = pickled.find(b"c", place)
            end = pickled.find(b"\n", pickled.find(b"\n", at) + 1)
            if 0 <= at < end:
                pickled[at + 1 : end] = rng.choice(NAMES)
        elif kind == 3:
            size = rng.randrange(1, 60)
            start = rng.randrange(len(pickled))
            pickled[place:place] = pickled[start : start + size]
        else:
            rng.choice(BYTES)(pickled, rng, bytes(pickled))
        if not pickled:
            break
    members[name] = bytes(pickled)
    if rng.random() < 0.1:
        members[name.replace("data.pkl", "byteorder")] = rng.choice((b"big", b"middle", b""))
    packed = io.BytesIO()
    method = zipfile.ZIP_DEFLATED if rng.random() < 0.05 else zipfile.ZIP_STORED
    with zipfile.ZipFile(packed, "w", method) as archive:
        for each, content in members.items():
            archive.writestr(each, content)
    data[:] = packed.getvalue()


def edit_directory(data, rng, other):
    """Change a number in the directory of an archive, or in its end."""
    places = []
    start = data.find(b"PK\x01\x02")
    while start >= 0:
        fields = ((8, 2), (10, 2), (20, 4), (24, 4), (28, 2), (30, 2), (32, 2), (42, 4))
        places += [(start + offset, size) for offset, size in fields]
        start = data.find(b"PK\x01\x02", start + 4)
    end = data.rfind(b"PK\x05\x06")
    places += [(end + 4, 2), (end + 8, 2), (end + 10, 2), (end + 12, 4), (end + 16, 4)]
    locator = data.rfind(b"PK\x06\x07")
    if locator >= 0:
        places += [(locator + 8, 8)]
    for _ in range(rng.choice((1, 1, 2))):
        place, size = rng.choice(places)
        former = int.from_bytes(data[place : place + size], "little")
        changed = rng.choice((*INTERESTING, former + 1, former - 1, former * 2, former ^ 64))
        data[place : place + size] = (changed & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def mutate(files, seed):
    """Return a damaged file: a name for what was done, and its bytes.

    Args:
        files: sound files by name.
        seed: the same seed gives the same file.
    """
    rng = random.Random(seed)
    name = rng.choice(
        sorted(files, key=lambda name: (-len(files[name]), name))[: rng.choice((5, 6))]
    )
    data = bytearray(files[name])
    is_zip = data.startswith(b"PK")
    own = (edit_pickle, edit_directory) if is_zip else (edit_header, edit_length)
    change = rng.choices(own, (0.8, 0.2))[0] if rng.random() < 0.7 else rng.choice(BYTES)
    change(data, rng, files[rng.choice(sorted(files))])
    if rng.random() < 0.15 and data:
        rng.choice(BYTES)(data, rng, files[rng.choice(sorted(files))])
    return f"{name}: {change.__name__}", bytes(data)
