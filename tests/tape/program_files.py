"""Files of programs taken apart and put together, whatever they say."""

import hashlib
import json


def parts(content):
    """Return the header and the bytes behind it."""
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length]), content[8 + length : -32]


def written(path, header, data=b""):
    """Write a file that is whole, whatever it says."""
    text = json.dumps(header).encode() if isinstance(header, dict | list) else header
    body = len(text).to_bytes(8, "little") + text + data
    path.write_bytes(body + hashlib.sha256(body).digest())
    return path
