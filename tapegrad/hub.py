"""Weights from the network, and models from repositories with a `hubconf.py`.

Files are kept under `get_dir()`: ``$TORCH_HOME/hub``, or ``~/.cache/torch/hub``.
"""

import hashlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlparse
from urllib.request import Request, urlopen

__all__ = [
    "download_url_to_file",
    "get_dir",
    "help",
    "list",
    "load",
    "load_state_dict_from_url",
    "set_dir",
]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
READ_DATA_CHUNK = 128 * 1024
_hub_dir: str | None = None


class _Bar:
    """What stands for `tqdm.tqdm` where that is not installed: it counts and shows nothing."""

    def __init__(self, iterable: Any = None, total: float | None = None, **options: Any) -> None:
        self._iterable, self.total, self.n = iterable, total, 0

    def __iter__(self) -> Iterator[Any]:
        for item in self._iterable:
            yield item
            self.update()

    def __enter__(self) -> "_Bar":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def update(self, n: int = 1) -> None:
        self.n += n

    def set_postfix(self, *facts: Any, **more: Any) -> None:
        """Nothing is shown."""

    def close(self) -> None:
        """Nothing is open."""


def __getattr__(name: str) -> Any:
    if name != "tqdm":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from tqdm import tqdm
    except ImportError:
        return _Bar
    return tqdm


def _get_torch_home() -> str:
    cache = os.getenv("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir() -> str:
    """Return the folder where downloaded models and weights are kept.

    Example:
        >>> torch.hub.get_dir().endswith("hub")
        True
    """
    return os.path.join(_get_torch_home(), "hub") if _hub_dir is None else _hub_dir


def set_dir(d: str | os.PathLike[str]) -> None:
    """Set the folder where downloaded models and weights are kept.

    Args:
        d: the folder.
    """
    global _hub_dir
    _hub_dir = os.path.expanduser(d)


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Download a file; it is there whole, or not at all.

    Args:
        url: where it is.
        dst: where it goes.
        hash_prefix: how its SHA-256 begins, in hexadecimal.
        progress: whether to say on stderr how far it is.

    Raises:
        RuntimeError: the file has another hash.
    """
    target = Path(dst).expanduser()
    digest = hashlib.sha256()
    handle, partial = tempfile.mkstemp(dir=target.parent, prefix=target.name, suffix=".partial")
    try:
        with os.fdopen(handle, "wb") as file:
            for chunk in _chunks(url, progress):
                digest.update(chunk)
                file.write(chunk)
        found = digest.hexdigest()
        if hash_prefix is not None and not found.startswith(hash_prefix):
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{found}")')
        os.replace(partial, target)
    finally:
        if os.path.exists(partial):
            os.remove(partial)


def _chunks(url: str, progress: bool) -> Iterator[bytes]:
    with urlopen(Request(url, headers={"User-Agent": "tapegrad.hub"})) as response:
        total, done = response.headers.get("Content-Length"), 0
        while chunk := response.read(READ_DATA_CHUNK):
            yield chunk
            done += len(chunk)
            if progress:
                share = f" of {int(total) / 1e6:.1f}" if total else ""
                print(f"\r{url}: {done / 1e6:.1f}{share} MB", end="", file=sys.stderr)
        if progress:
            print(file=sys.stderr)


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> Any:
    """Load a checkpoint by its address; the file is downloaded if it is not there yet.

    Args:
        url: where the checkpoint is.
        model_dir: where to keep it; ``get_dir()/checkpoints`` if left out.
        map_location: as in `torch.load`.
        progress: whether to say on stderr how far the download is.
        check_hash: whether the name of the file ends in the first digits of its SHA-256.
        file_name: the name to keep it under; that of the address if left out.
        weights_only: accepted; `torch.load` never runs code of a file.
    """
    folder = Path(os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir)
    folder.mkdir(parents=True, exist_ok=True)
    name = os.path.basename(urlparse(url).path) if file_name is None else file_name
    path = folder / name
    if not path.exists():
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, str(path), found[1] if found else None, progress)
    from tapegrad.serialization import load as load_checkpoint

    return load_checkpoint(path, map_location=map_location)


# ---- models of repositories


def _trusted_list() -> Path:
    return Path(get_dir()) / "trusted_list"


def _expect_trust(owner: str, repository: str, trust_repo: Any) -> None:
    """Ask, unless the caller or an earlier answer says that the code may run."""
    if trust_repo not in (True, False, None, "check"):
        raise ValueError(f"trust_repo: expected True, False, None or 'check', got {trust_repo!r}")
    name = f"{owner}_{repository}"
    path = _trusted_list()
    known = path.read_text("utf-8").split() if path.is_file() else []
    if name in known:
        return
    if trust_repo is not True:
        print(
            f"You are about to download and run code from the repository {owner}/{repository}, "
            "which is not in the list of trusted ones. Do you trust it? (y/N)",
            file=sys.stderr,
        )
        if input().strip().lower() not in ("y", "yes"):
            raise Exception("Untrusted repository.")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*known, name]) + "\n", "utf-8")


def _repository(github: str, force_reload: bool, trust_repo: Any, verbose: bool) -> str:
    """Return the folder of a repository ``owner/name[:ref]``, downloaded if it must be."""
    place, _, ref = github.partition(":")
    owner, slash, name = place.partition("/")
    if not slash or "/" in name:
        raise ValueError(f"hub: expected owner/name[:ref], got {github!r}")
    ref = ref or "main"
    folder = Path(get_dir()) / f"{owner}_{name}_{ref.replace('/', '_')}"
    _expect_trust(owner, name, trust_repo)
    if folder.is_dir() and not force_reload:
        if verbose:
            print(f"Using cache found in {folder}", file=sys.stderr)
        return str(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        archive = os.path.join(temporary, "archive.zip")
        download_url_to_file(f"https://github.com/{place}/zipball/{ref}", archive, None, verbose)
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(temporary)
            top = opened.namelist()[0].split("/")[0]
        shutil.rmtree(folder, ignore_errors=True)
        shutil.move(os.path.join(temporary, top), folder)
    return str(folder)


def _hubconf(folder: str) -> ModuleType:
    path = os.path.join(folder, "hubconf.py")
    spec = importlib.util.spec_from_file_location("hubconf", path)
    if spec is None or spec.loader is None or not os.path.isfile(path):
        raise FileNotFoundError(f"hub: there is no hubconf.py in {folder}")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    missing = [
        name for name in getattr(module, "dependencies", ()) if not importlib.util.find_spec(name)
    ]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    return module


def _entry(module: ModuleType, name: str) -> Callable[..., Any]:
    if not isinstance(name, str):
        raise ValueError("Invalid input: model should be a string of function name")
    found = getattr(module, name, None)
    if not callable(found):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return found  # type: ignore[no-any-return]


def load(
    repo_or_dir: str,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: Any = "check",
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """Call a function of the `hubconf.py` of a repository or of a folder.

    That runs the repository's code; it must be written for tapegrad, or import it as torch.

    Args:
        repo_or_dir: ``owner/name[:ref]`` on GitHub, where ref is ``main`` if left out, or a folder.
        model: the name of the function.
        args: its arguments.
        source: ``"github"`` or ``"local"``.
        trust_repo: whether the code may run; ``"check"`` and False ask where nobody said so before.
        force_reload: download again what is there.
        verbose: say on stderr what is used.
        skip_validation: accepted; what is asked for is downloaded or not found.
        kwargs: named arguments of the function.
    """
    source = source.lower()
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    folder = repo_or_dir
    if source == "github":
        folder = _repository(repo_or_dir, force_reload, trust_repo, verbose)
    return _entry(_hubconf(folder), model)(*args, **kwargs)


def list(
    github: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = "check",
    verbose: bool = True,
) -> Any:
    """Return the names of the functions that the `hubconf.py` of a repository offers.

    Args:
        github: ``owner/name[:ref]``.
        force_reload: download again what is there.
        skip_validation: accepted.
        trust_repo: as in `load`.
        verbose: say on stderr what is used.
    """
    module = _hubconf(_repository(github, force_reload, trust_repo, verbose))
    return [name for name in dir(module) if callable(getattr(module, name)) and name[0] != "_"]


def help(
    github: str,
    model: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = "check",
) -> Any:
    """Return the docstring of a function that the `hubconf.py` of a repository offers.

    Args:
        github: ``owner/name[:ref]``.
        model: the name of the function.
        force_reload: download again what is there.
        skip_validation: accepted.
        trust_repo: as in `load`.
    """
    module = _hubconf(_repository(github, force_reload, trust_repo, verbose=True))
    return _entry(module, model).__doc__
