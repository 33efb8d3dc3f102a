"""Function transforms: derivatives and batches of whole functions, freely nested.

A transform takes a function of tensors and returns another. The reverse-mode ones run the function
on inputs that mark the beginning of their part of the tape; the forward-mode ones on inputs with
tangents; `vmap` on tensors that stand for a whole batch. All of them see the ordinary ops below, so
they compose in any order.
"""

from typing import TYPE_CHECKING

from tapegrad._missing import names_of_torch as _names_of_torch
from tapegrad.func.functional_call import functional_call, stack_module_state
from tapegrad.func.jacobians import hessian, jacfwd, jacrev
from tapegrad.func.modules import functionalize, replace_all_batch_norm_modules_
from tapegrad.func.transforms import grad, grad_and_value, jvp, linearize, vjp
from tapegrad.func.vmapping import vmap

__all__ = [
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]

if not TYPE_CHECKING:
    __getattr__ = _names_of_torch(__name__)
