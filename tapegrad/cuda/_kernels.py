"""From what the back end calls a kernel to its image."""

from functools import cache
from pathlib import Path

from tapegrad import _C
from tapegrad.cuda import _compiler, pointwise_source

__all__ = ["image", "source"]

_FOLDER = Path(__file__).parent / "kernels"
_USES = "// uses: "


def source(description: str) -> str:
    """Return the text of the kernel that csrc/cuda describes.

    A description is a family and what the family needs to know: ``pointwise``, or ``columns``
    where columns are added up as well, and what `pointwise_source.described` reads; or ``file``,
    then in lines of their own the name of a file of the folder ``kernels``, the struct of the
    kernel's arguments, the function to be called with them, mostly an instance of a template, and
    perhaps the launch bounds: threads of a block, and blocks that are to fit on a multiprocessor.
    A file may begin with lines ``// uses: NAME``: files of that folder that come before it, each
    once.
    """
    family, _, rest = description.partition(" ")
    if family == "pointwise":
        text = pointwise_source.kernel(pointwise_source.described(rest))
        return pointwise_source.prelude() + text + pointwise_source.functions(text)
    if family == "columns":
        text = pointwise_source.column_kernel(pointwise_source.described(rest))
        return pointwise_source.prelude() + text + pointwise_source.functions(text)
    if family == "empty":
        return (
            pointwise_source.prelude()
            + "TAPEGRAD_KERNEL(kernel, int64) { wait_for_earlier_work(); }\n"
        )
    name, arguments, function, *bounds = rest.splitlines()
    kernel = f"__launch_bounds__({bounds[0]}) kernel" if bounds else "kernel"
    body = f"wait_for_earlier_work(); {function}(arguments);"
    call = f"TAPEGRAD_KERNEL({kernel}, {arguments}) {{ {body} }}\n"
    return pointwise_source.prelude() + "".join(map(_file, _files(name))) + call


@cache
def _file(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


@cache
def _files(name: str) -> tuple[str, ...]:
    """Return the files that a file uses, and itself, in the order in which they must stand."""
    found: dict[str, None] = {}
    for line in _file(name).splitlines():
        if not line.startswith(_USES):
            break
        found.update(dict.fromkeys(_files(line.removeprefix(_USES).strip())))
    return (*found, name)


def image(description: str, device: int) -> bytes:
    """Return the image of a kernel for a device."""
    properties = _C._cuda_properties(device)
    architecture = f"sm_{properties['major']}{properties['minor']}"
    return _compiler.compiled(source(description), architecture, pointwise_source.COMPILE_OPTIONS)
