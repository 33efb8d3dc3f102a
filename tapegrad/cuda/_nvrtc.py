"""NVRTC itself: from a text to an image. As a program, it compiles what it is sent.

It imports nothing of the package, so that ``python _nvrtc.py LIBRARY`` starts at once. A line of
its input is a JSON object with a text, options and the file that the image goes to; a line of its
output is an error, or an empty string where there was none.
"""

import ctypes
import json
import os
import sys
import tempfile
from pathlib import Path

__all__ = ["Nvrtc", "write_whole"]


class Nvrtc:
    """The library.

    Args:
        path: of its file, or its name where the system finds it.
    """

    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path)
        self.library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def version(self) -> tuple[int, int]:
        """Return the version of CUDA that the library belongs to."""
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._check(self.library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
        return major.value, minor.value

    def compile(self, text: str, options: tuple[str, ...]) -> bytes:
        """Return the image of a program."""
        library, program = self.library, ctypes.c_void_p()
        handle = ctypes.byref(program)
        source = text.encode()
        self._check(library.nvrtcCreateProgram(handle, source, b"tapegrad.cu", 0, None, None))
        try:
            array = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            if library.nvrtcCompileProgram(program, len(options), array):
                raise RuntimeError(f"cuda: a kernel does not compile:\n{self._log(program)}")
            size = ctypes.c_size_t()
            self._check(library.nvrtcGetCUBINSize(program, ctypes.byref(size)))
            image = ctypes.create_string_buffer(size.value)
            self._check(library.nvrtcGetCUBIN(program, image))
            return image.raw
        finally:
            library.nvrtcDestroyProgram(handle)

    def _check(self, status: int) -> None:
        if status:
            reason = self.library.nvrtcGetErrorString(status).decode()
            raise RuntimeError(f"cuda: NVRTC failed: {reason}")

    def _log(self, program: ctypes.c_void_p) -> str:
        size = ctypes.c_size_t()
        self._check(self.library.nvrtcGetProgramLogSize(program, ctypes.byref(size)))
        log = ctypes.create_string_buffer(size.value)
        self._check(self.library.nvrtcGetProgramLog(program, log))
        return log.value.decode(errors="replace")


def write_whole(path: Path, image: bytes) -> None:
    """Put a file in its place whole, whoever else writes it at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(image)
    os.replace(file.name, path)


def _serve(library: str) -> None:
    """Compile until the input ends, which it does when the process that asks is gone."""
    nvrtc = Nvrtc(library)
    for line in sys.stdin:
        job = json.loads(line)
        error = ""
        try:
            write_whole(Path(job["path"]), nvrtc.compile(job["text"], tuple(job["options"])))
        except (OSError, RuntimeError) as problem:
            error = str(problem)
        print(json.dumps(error), flush=True)


if __name__ == "__main__":
    _serve(sys.argv[1])
