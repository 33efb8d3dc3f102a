"""How this build of tapegrad was made and what it runs on."""

from tapegrad import _C

__all__ = ["show"]


def show() -> str:
    """Return version, compiler, instruction set in use, BLAS and number of threads as text.

    Example:
        >>> print(torch.__config__.show())  # doctest: +ELLIPSIS
        tapegrad...
    """
    facts = {name.replace("_", " "): value for name, value in _C.build_info().items()}
    version = facts.pop("version", "")
    width = max((len(name) for name in facts), default=0)
    lines = [f"  {name:<{width}}  {value}" for name, value in facts.items()]
    return "\n".join([f"tapegrad {version}".rstrip(), *lines])
