"""Where calls differ from PyTorch's, and why: what `test_rows.py` and `rows.py` let pass.

A deviation names rows, as in PyTorch's op database, a kind of difference (`compare.py` lists them),
and optionally words that the call or the difference must hold. One that names its rows one by one
must be needed by each of them, in the long form; a pattern with `*` covers what may come and go.
"""

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache

MOST = 60

# Rows that are not compared at all.
LEFT_OUT = {
    "sparse.*": "sparse tensors have tests of their own beside PyTorch (tests/sparse_tensors)",
    "to_sparse": "sparse tensors have tests of their own beside PyTorch (tests/sparse_tensors)",
    "masked.*": "they have tests of their own beside PyTorch (tests/masked)",
    "jiterator_*": "kernels of CUDA that users write",
    "torch.*": "parts of PyTorch's attention and products, by names of its registry",
    "linalg.eig": "eigenvectors are known up to a complex factor",
    "linalg.eigvals": "eigenvalues come in any order, and PyTorch crashes for NaN",
    "_*": "parts of PyTorch's own functions",
    "native_*": "parts of PyTorch's own functions",
    "max_pool2d_with_indices_backward": "a part of PyTorch's own functions",
    "grid_sampler_*": "a part of PyTorch's own functions",
    "constant_pad_nd": "a part of PyTorch's own functions",
    "chalf": "no kernel takes complex32",
    "hash_tensor": "not there",
    "slice": "an op of PyTorch's registry",
}


@dataclass(frozen=True)
class Deviation:
    """Rows, a kind of difference, words that are in it, and the reason."""

    names: str
    kind: str
    reason: str
    words: str = ""

    @property
    def rows(self):
        """The names or patterns of the rows."""
        return self.names.split()

    def covers(self, row, where, found):
        """Whether it speaks of a difference."""
        kind = found.split(":")[0]
        if not re.fullmatch(self.kind, kind) or not any(fits(each, row) for each in self.rows):
            return False
        return not self.words or re.search(self.words, f"{where} {found}") is not None


# fmt: off
DEVIATIONS = (
    # ---- of all rows
    Deviation("*", "refuses|error|grad1|accepts|missing", "complex numbers are refused by name",
              r"complex(64|128|32)|Complex(Float|Double)"),
    Deviation("*", "accepts", "there are more dtypes here",
              r"not implemented for|Unsupported|expected scalar_type|can't be cast|is not supported"
              r"|[Ee]xpected (out tensor|result|self)|following scalar types|Expected a floating"
              r"|to have dtype|Expected .* safely castable|[Uu]nsupported input|supports floating"),
    Deviation("*", "refuses", "memory that is written twice is refused", "more than one element"),
    Deviation("*", "refuses|error|accepts", "with nothing to compute, checks come in another order",
              r"emptied\("),
    Deviation("*", "error", "without dimensions, another check is the first", r"single\("),
    Deviation("*", "refuses|error", "`out` is no documented argument",
              r"argument 'out'| out .*TypeError"),
    Deviation("*", "refuses|error", "`out` has the dtype of the result",
              r"out_other .*expected out"),
    Deviation("fft.* stft istft", "values|grad1|grad2",
              "sums that overflow on the way do so in another order", r"extreme\("),
    Deviation("fft.*", "strides", "a tensor given as `out` that is resized is contiguous", r" out"),
    Deviation("*", "missing", "more than 64 dimensions, or arguments that are not there",
              r"dimensions|Options|PairwiseDistance"),
    Deviation("linalg.* *svd* *lu* *qr* *cholesky* *det *inverse *matrix_exp", "refuses|error",
              "factorizations are of float32 and float64", "float16|Expected a floating"),
    Deviation("linalg.* cholesky* triangular_solve*", "strides",
              "factors lie by columns, as LAPACK writes them"),
    Deviation("H mH conj angle", "strides",
              "conjugates are computed at once, not when they are read"),
    Deviation("nn.functional.embedding*", "refuses|grad1", "gradients are dense", "sparse"),
    # ---- values
    Deviation("nn.functional.interpolate:bicubic nn.functional.interpolate:bilinear"
              " nn.functional.upsample_bilinear", "values",
              "bytes are interpolated in float32, in PyTorch with weights of 16 bits", "uint8"),
    Deviation("polygamma special.polygamma", "values", "there are poles at integers below one"),
    Deviation("special.airy_ai special.bessel_j0 special.bessel_y1", "values",
              "PyTorch's approximations err by 2e-7"),
    Deviation("special.modified_bessel_i0 special.modified_bessel_i1 sinc", "values",
              "at infinity the value is the limit", "extreme"),
    Deviation("nn.functional.hardswish round:decimals_3 round:decimals_neg_3", "values",
              "what a product overflows to depends on the order of factors", "extreme"),
    Deviation("nn.functional.softsign gradient", "values",
              "integers become floats before anything is computed, so that nothing wraps",
              "extreme"),
    Deviation("nn.functional.grid_sample", "values", "a coordinate that is NaN gives NaN",
              "extreme|float16"),
    Deviation("matrix_exp", "values", "half types overflow in PyTorch's intermediate results",
              "float16"),
    Deviation("einsum", "dtype", "integers keep their dtype beside other operands"),
    Deviation("linalg.norm:subgradients_at_zero", "grad2", "second derivatives at zero are zero"),
    Deviation("nn.functional.linear_cross_entropy:chunked*", "grad2",
              "PyTorch's chunks have no second derivative and say zero"),
    Deviation("cholesky_inverse cholesky_solve", "grad1",
              "one triangle is read, and the other has no gradient"),
    Deviation("as_strided_scatter", "grad1|refuses", "offsets count from the first element",
              "storage_offset"),
    # ---- strides
    Deviation("diagonal_scatter select_scatter slice_scatter mvlgamma unravel_index", "strides",
              "results of composed operations have the strides that their last step gives"),
    Deviation("nn.functional.adaptive_max_pool1d nn.functional.avg_pool1d nn.functional.conv1d"
              " nn.functional.conv_transpose1d nn.functional.interpolate:area", "strides",
              "in one dimension there is no channels-last order"),
    Deviation("nn.functional.scaled_dot_product_attention", "strides",
              "results lie as the layers want them that follow"),
    # ---- refusals
    Deviation("__rmod__ __rpow__ __rsub__", "refuses",
              "a method of Tensor has a tensor before the dot"),
    Deviation("as_strided", "missing", "not there", "inplace"),
    Deviation("addbmm", "refuses", "nothing is written into a tensor of fewer dimensions",
              "inplace"),
    Deviation("complex view_as_complex", "refuses", "there are no complex numbers of half types",
              "float16"),
    Deviation("cumsum* cumprod*", "refuses", "the result of a bool is int64", "bool"),
    Deviation("gradient inner kthvalue searchsorted", "refuses", "bool is no number", "bool"),
    Deviation("histogram histogramdd", "refuses", "of float32 and float64", "float16"),
    Deviation("nn.functional.adaptive_avg_pool1d", "refuses", "of floating dtypes",
              "expected a floating"),
    Deviation("nn.functional.hardtanh", "refuses", "a limit is not cut to an integer", "uint8"),
    Deviation("nn.functional.binary_cross_entropy norm:nuc", "accepts", "NaN is let through",
              "extreme"),
    Deviation("aminmax narrow narrow_copy", "error|accepts", "another check is the first",
              "refused"),
    Deviation("linspace logspace", "error", "a tensor with dimensions is no number", "refused"),
    Deviation("nn.functional.linear", "error", "`out` is no documented argument", "out_other"),
    Deviation("nn.functional.one_hot", "error", "a number of classes beyond all integers",
              "extreme"),
)
# fmt: on


def fits(pattern, name):
    """Whether a pattern is a row, without its variant or with it."""
    return fnmatchcase(name, pattern) or fnmatchcase(name.split(":")[0], pattern)


@cache
def is_left_out(name):
    """Whether a row is not compared; operators of Python are, such as `__radd__`."""
    if name.startswith("__"):
        return name == "__rdiv__"
    return any(fits(pattern, name) for pattern in LEFT_OUT)


def find(row, dtype, form, call, found):
    """Return the deviation that covers a difference, or None."""
    where = f"{dtype} {form} {call}"
    return next((each for each in DEVIATIONS if each.covers(row, where, found)), None)


def of_row(row):
    """Return the deviations that name a row, without a pattern."""
    return [
        each
        for each in DEVIATIONS
        if any("*" not in name and fits(name, row) for name in each.rows)
    ]
