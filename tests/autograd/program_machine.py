"""What random programs run in: a library, the variables made so far, and a few definitions."""

import functools
import re
from contextlib import nullcontext
from dataclasses import dataclass, field

from library import pytorch_for_parity

pytorch, REASON = pytorch_for_parity()

REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, AttributeError)

# What programs may use besides the library.
PRELUDE = """
def apart(x):  # An operand that shows what is written: PyTorch reads it in no fixed order.
    return x.clone() if torch.__name__ == "torch" else x

class AddInPlace(torch.autograd.Function):
    @staticmethod
    def forward(context, target, other):
        context.mark_dirty(target)
        return target.add_(other)

    @staticmethod
    def backward(context, grad):
        return grad, grad
"""


@functools.cache
def prelude(library):
    names = {"torch": library}
    exec(PRELUDE, names)
    return {name: names[name] for name in ("torch", "apart", "AddInPlace")}


@dataclass
class Machine:
    """A library and the variables that statements run in it have made.

    It is alone with them: a statement may use ``torch``, ``log``, what the prelude defines, and
    earlier variables. Tensors are made on the device, if one is given.
    """

    library: object
    device: str | None = None
    variables: dict = field(default_factory=dict)

    def __post_init__(self):
        self.variables |= prelude(self.library) | {"log": []}

    def run(self, line):
        """Run one statement; return the exception that it raised, or None."""
        place = self.library.device(self.device) if self.device else nullcontext()
        try:
            with place:
                exec(compiled(line), self.variables)
        except REFUSALS as error:
            error.__traceback__ = None
            return error
        return None

    def tensors(self):
        kind = self.library.Tensor
        return {
            name: value
            for name, value in self.variables.items()
            if name[0] == "v" and isinstance(value, kind)
        }

    def clear(self):
        """Forget everything, and break cycles.

        They are of leaves and gradients that were recorded, and of tensors that were saved, then
        written to with what had been computed from them, and never swept back from.
        """
        for tensor in self.tensors().values():
            tensor.grad = None
            base = tensor if tensor._base is None else tensor._base
            base.detach_()
        self.variables.clear()


_COMPILED = {}


def compiled(line):
    code = _COMPILED.get(line)
    if code is None:
        if len(_COMPILED) > 1000:
            _COMPILED.clear()
        code = _COMPILED[line] = compile(line, "<program>", "exec")
    return code


def is_sweep(line):
    return ".backward(" in line or "autograd.grad(" in line


def ends_when_refused(line):
    """Whether a refused statement leaves gradients and buffers behind that are nobody's promise."""
    return ".backward(" in line or (is_sweep(line) and "retain_graph=True" not in line)


def writes(line):
    """Whether a statement may change tensors other than those it names on its left."""
    if line.startswith("with torch.no_grad(): "):
        line = line.removeprefix("with torch.no_grad(): ")
    return not re.match(r"(?:[vg]\d+,? ?)+= ", line) or is_sweep(line)


def has_history(tensor):
    try:
        return tensor.is_leaf in (True, False)
    except RuntimeError:
        return False
