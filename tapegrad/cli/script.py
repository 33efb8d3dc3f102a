"""Scripts of the user's, run as Python runs them, by a command that goes on afterwards."""

import os
import runpy
import sys
import traceback
from pathlib import Path
from types import TracebackType

__all__ = ["run_module", "run_script"]


def run_script(script: Path, words: list[str]) -> tuple[int, str]:
    """Run a script as ``python script words`` does; return its status and what to say of it.

    The folder and the streams are then what they were: it is the command that goes on.
    """
    return _run(str(script), words, str(script.resolve().parent))


def run_module(name: str, words: list[str]) -> tuple[int, str]:
    """Run a module as ``python -m name words`` does; return the same."""
    return _run(name, words, os.getcwd(), is_module=True)


def _run(target: str, words: list[str], folder: str, is_module: bool = False) -> tuple[int, str]:
    argv, path, before = sys.argv, sys.path[:], Path.cwd()
    streams = sys.stdout, sys.stderr
    sys.argv = [target, *words]
    sys.path[0] = folder
    try:
        if is_module:
            runpy.run_module(target, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(target, run_name="__main__")
    except SystemExit as leaving:
        return _status(leaving.code)
    except KeyboardInterrupt:
        return 130, "\nthe script was interrupted\n"
    except BaseException as error:
        return 1, "".join(traceback.format_exception(type(error), error, _from_script(error)))
    finally:
        sys.argv, sys.path[:] = argv, path
        sys.stdout, sys.stderr = streams
        os.chdir(before)
    return 0, ""


def _status(code: object) -> tuple[int, str]:
    """Read what a script gave to ``sys.exit``, as Python does."""
    if code is None or isinstance(code, int):
        return code or 0, ""
    return 1, f"{code}\n"


def _from_script(error: BaseException) -> TracebackType | None:
    """Return the frames from the script on, without what ran it; all where it did not begin."""
    own = {__file__, runpy.__file__, "<frozen runpy>"}
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename in own:
        frames = frames.tb_next
    return frames or error.__traceback__
