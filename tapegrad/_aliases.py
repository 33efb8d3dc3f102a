# mypy: disable-error-code="method-assign, assignment"
"""Second names. Each is the very object of the first: no wrapper, no cost.

Where the operation is also a Tensor method, the method and its in-place form have them, too.
"""

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._composed import calculus, split_and_join

__all__ = [
    "absolute",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "clip",
    "concat",
    "concatenate",
    "divide",
    "fix",
    "ger",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "moveaxis",
    "multiply",
    "negative",
    "not_equal",
    "row_stack",
    "split_with_sizes",
    "subtract",
    "swapdims",
    "trapz",
    "true_divide",
    "unsafe_chunk",
    "unsafe_split",
    "unsafe_split_with_sizes",
]

absolute = _C.abs
Tensor.absolute = Tensor.abs
Tensor.absolute_ = Tensor.abs_

arccos = _C.acos
Tensor.arccos = Tensor.acos
Tensor.arccos_ = Tensor.acos_

arccosh = _C.acosh
Tensor.arccosh = Tensor.acosh
Tensor.arccosh_ = Tensor.acosh_

arcsin = _C.asin
Tensor.arcsin = Tensor.asin
Tensor.arcsin_ = Tensor.asin_

arcsinh = _C.asinh
Tensor.arcsinh = Tensor.asinh
Tensor.arcsinh_ = Tensor.asinh_

arctan = _C.atan
Tensor.arctan = Tensor.atan
Tensor.arctan_ = Tensor.atan_

arctan2 = _C.atan2
Tensor.arctan2 = Tensor.atan2
Tensor.arctan2_ = Tensor.atan2_

arctanh = _C.atanh
Tensor.arctanh = Tensor.atanh
Tensor.arctanh_ = Tensor.atanh_

clip = _C.clamp
Tensor.clip = Tensor.clamp
Tensor.clip_ = Tensor.clamp_

concat = _C.cat

concatenate = _C.cat

divide = _C.div
Tensor.divide = Tensor.div
Tensor.divide_ = Tensor.div_

fix = _C.trunc
Tensor.fix = Tensor.trunc
Tensor.fix_ = Tensor.trunc_

ger = _C.outer
Tensor.ger = Tensor.outer

greater = _C.gt
Tensor.greater = Tensor.gt
Tensor.greater_ = Tensor.gt_

greater_equal = _C.ge
Tensor.greater_equal = Tensor.ge
Tensor.greater_equal_ = Tensor.ge_

less = _C.lt
Tensor.less = Tensor.lt
Tensor.less_ = Tensor.lt_

less_equal = _C.le
Tensor.less_equal = Tensor.le
Tensor.less_equal_ = Tensor.le_

moveaxis = _C.movedim
Tensor.moveaxis = Tensor.movedim

multiply = _C.mul
Tensor.multiply = Tensor.mul
Tensor.multiply_ = Tensor.mul_

negative = _C.neg
Tensor.negative = Tensor.neg
Tensor.negative_ = Tensor.neg_

not_equal = _C.ne
Tensor.not_equal = Tensor.ne
Tensor.not_equal_ = Tensor.ne_

row_stack = split_and_join.vstack

split_with_sizes = _C.split
Tensor.split_with_sizes = Tensor.split

subtract = _C.sub
Tensor.subtract = Tensor.sub
Tensor.subtract_ = Tensor.sub_

swapdims = _C.transpose
Tensor.swapdims = Tensor.transpose
Tensor.swapdims_ = Tensor.transpose_

trapz = calculus.trapezoid

true_divide = _C.div
Tensor.true_divide = Tensor.div
Tensor.true_divide_ = Tensor.div_

unsafe_chunk = _C.chunk
Tensor.unsafe_chunk = Tensor.chunk
unsafe_split = _C.split
Tensor.unsafe_split = Tensor.split
unsafe_split_with_sizes = _C.split
Tensor.unsafe_split_with_sizes = Tensor.split
