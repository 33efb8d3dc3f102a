# Written by scripts/make_names.py; do not edit.
# fmt: off
# ruff: noqa
# mypy: disable-error-code="method-assign, assignment"
"""The public functions of the package, and those of them that are written in Python as methods."""

from tapegrad._C import (
    AcceleratorError, Generator, OutOfMemoryError, Tensor, UntypedStorage, abs, abs_, acos, acos_,
    acosh, acosh_, add, addcdiv, addcmul, addmm, addmv, adjoint, all, amax, amin, angle, any,
    arange, argmax, argmin, argsort, as_strided, as_tensor, asarray, asin, asin_, asinh, asinh_,
    atan, atan2, atan_, atanh, atanh_, autocast_decrement_nesting, autocast_increment_nesting,
    baddbmm, bernoulli, bfloat16, bincount, bitwise_and, bitwise_left_shift, bitwise_not,
    bitwise_not_, bitwise_or, bitwise_right_shift, bitwise_xor, bmm, bool, broadcast_to, cat,
    cdouble, ceil, ceil_, celu, celu_, cfloat, chunk, clamp, clamp_max, clamp_min,
    clear_autocast_cache, clone, complex128, complex64, conj, conj_physical, conj_physical_,
    copysign, cos, cos_, cosh, cosh_, count_nonzero, cummax, cummin, cumprod, cumsum,
    default_generator, deg2rad, deg2rad_, detach, diag, diagonal, digamma, digamma_, div, dot,
    double, dtype, empty, empty_cache, empty_like, empty_strided, eq, erf, erf_, erfc, erfc_,
    erfinv, erfinv_, exp, exp2, exp2_, exp_, expm1, expm1_, eye, flatten, flip, float, float16,
    float32, float64, float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu,
    floor, floor_, floor_divide, fmax, fmin, fmod, frac, frac_, from_dlpack, from_numpy, frombuffer,
    full, full_like, gather, gcd, ge, get_autocast_cpu_dtype, get_autocast_dtype,
    get_autocast_gpu_dtype, get_default_dtype, get_num_threads, get_rng_state, gt, half, heaviside,
    hypot, i0, i0_, igamma, igammac, imag, index_add, index_copy, index_fill, index_put,
    index_select, initial_seed, int, int16, int32, int64, int8, is_autocast_cache_enabled,
    is_autocast_cpu_enabled, is_autocast_enabled, is_complex, is_conj, is_floating_point,
    is_grad_enabled, is_neg, is_same_size, is_signed, isfinite, isinf, isnan, isneginf, isposinf,
    kthvalue, lcm, le, lerp, lgamma, lgamma_, linear, linspace, log, log10, log10_, log1p, log1p_,
    log2, log2_, log_, log_softmax, logaddexp, logaddexp2, logcumsumexp, logical_and, logical_not,
    logical_not_, logical_or, logical_xor, logit, logit_, logspace, logsumexp, long, lt,
    manual_seed, masked_fill, masked_scatter, masked_select, matmul, max, maximum, mean, median,
    memory_stats, min, minimum, mm, mode, movedim, mul, multinomial, mv, mvlgamma, nan_to_num,
    narrow, ne, neg, neg_, nextafter, nonzero, norm, normal, numel, ones, ones_like, outer, permute,
    poisson, polygamma, pow, prod, promote_types, put, rad2deg, rad2deg_, rand, rand_like, randint,
    randint_like, randn, randn_like, randperm, range, ravel, real, reciprocal, reciprocal_, relu,
    relu_, remainder, repeat_interleave, reset_peak_memory_stats, reshape, resolve_conj,
    resolve_neg, result_type, roll, round, rsqrt, rsqrt_, scalar_tensor, scatter, scatter_add,
    scatter_reduce, searchsorted, seed, select, selu, selu_, set_autocast_cache_enabled,
    set_autocast_cpu_dtype, set_autocast_cpu_enabled, set_autocast_dtype, set_autocast_enabled,
    set_autocast_gpu_dtype, set_default_dtype, set_num_threads, set_rng_state, sgn, short, sigmoid,
    sigmoid_, sign, sign_, signbit, sin, sin_, sinc, sinc_, sinh, sinh_, softmax, sort, split, sqrt,
    sqrt_, square, square_, squeeze, stack, std, std_mean, sub, sum, swapaxes, t, take,
    take_along_dim, tan, tan_, tanh, tanh_, tensor, tile, to_dlpack, topk, transpose, tril, triu,
    trunc, trunc_, uint16, uint32, uint64, uint8, unbind, unflatten, unique, unsqueeze, var,
    var_mean, vdot, view_as_complex, view_as_real, where, xlogy, zeros, zeros_like,
)
from tapegrad._composed.calculus import cumulative_trapezoid, diff, gradient, trapezoid
from tapegrad._composed.compare import (
    allclose, equal, is_nonzero, is_tensor, isclose, isin, typename,
)
from tapegrad._composed.complex_numbers import complex, isreal, polar
from tapegrad._composed.distances import cdist, dist
from tapegrad._composed.einsum import einsum
from tapegrad._composed.embedding_views import (
    as_strided_scatter, diagonal_scatter, index_reduce, select_scatter, slice_scatter,
)
from tapegrad._composed.histograms import histogram, histogramdd
from tapegrad._composed.linear_algebra import (
    addbmm, addr, chain_matmul, cross, diag_embed, diagflat, inner, kron, tensordot, trace, vander,
)
from tapegrad._composed.matrices import (
    cholesky, cholesky_inverse, cholesky_solve, det, geqrf, inverse, lobpcg, logdet, lu, lu_solve,
    lu_unpack, matrix_exp, matrix_power, orgqr, ormqr, pca_lowrank, pinverse, qr, slogdet, svd,
    svd_lowrank, symeig, triangular_solve,
)
from tapegrad._composed.pointwise import float_power, positive, rsub
from tapegrad._composed.quantize import (
    fake_quantize_per_channel_affine, fake_quantize_per_tensor_affine,
)
from tapegrad._composed.scaling import can_cast, fill, frexp, ldexp, renorm
from tapegrad._composed.segments import nonzero_static, segment_reduce, unravel_index
from tapegrad._composed.selection import (
    argwhere, bucketize, histc, msort, tril_indices, triu_indices, unique_consecutive,
)
from tapegrad._composed.shape import (
    atleast_1d, atleast_2d, atleast_3d, broadcast_shapes, broadcast_tensors, cartesian_prod,
    combinations, fliplr, flipud, meshgrid, rot90,
)
from tapegrad._composed.spectral import (
    bartlett_window, blackman_window, hamming_window, hann_window, istft, kaiser_window, stft,
)
from tapegrad._composed.split_and_join import (
    block_diag, column_stack, dsplit, dstack, hsplit, hstack, tensor_split, vsplit, vstack,
)
from tapegrad._composed.statistics import (
    aminmax, corrcoef, cov, hash_tensor, nanmean, nanmedian, nanquantile, nansum, quantile,
)
from tapegrad.nn.functional.recurrent import (
    gru, gru_cell, lstm, lstm_cell, rnn_relu, rnn_relu_cell, rnn_tanh, rnn_tanh_cell,
)

Tensor.addbmm = addbmm
Tensor.addr = addr
Tensor.allclose = allclose
Tensor.aminmax = aminmax
Tensor.argwhere = argwhere
Tensor.as_strided_scatter = as_strided_scatter
Tensor.cholesky = cholesky
Tensor.cholesky_inverse = cholesky_inverse
Tensor.cholesky_solve = cholesky_solve
Tensor.corrcoef = corrcoef
Tensor.cov = cov
Tensor.cross = cross
Tensor.det = det
Tensor.diag_embed = diag_embed
Tensor.diagflat = diagflat
Tensor.diagonal_scatter = diagonal_scatter
Tensor.diff = diff
Tensor.dist = dist
Tensor.dsplit = dsplit
Tensor.equal = equal
Tensor.fliplr = fliplr
Tensor.flipud = flipud
Tensor.float_power = float_power
Tensor.frexp = frexp
Tensor.geqrf = geqrf
Tensor.hash_tensor = hash_tensor
Tensor.histc = histc
Tensor.histogram = histogram
Tensor.hsplit = hsplit
Tensor.index_reduce = index_reduce
Tensor.inner = inner
Tensor.inverse = inverse
Tensor.is_nonzero = is_nonzero
Tensor.isclose = isclose
Tensor.isreal = isreal
Tensor.istft = istft
Tensor.kron = kron
Tensor.ldexp = ldexp
Tensor.logdet = logdet
Tensor.lu = lu
Tensor.lu_solve = lu_solve
Tensor.matrix_exp = matrix_exp
Tensor.matrix_power = matrix_power
Tensor.msort = msort
Tensor.nanmean = nanmean
Tensor.nanmedian = nanmedian
Tensor.nanquantile = nanquantile
Tensor.nansum = nansum
Tensor.nonzero_static = nonzero_static
Tensor.orgqr = orgqr
Tensor.ormqr = ormqr
Tensor.pinverse = pinverse
Tensor.positive = positive
Tensor.qr = qr
Tensor.quantile = quantile
Tensor.renorm = renorm
Tensor.rot90 = rot90
Tensor.rsub = rsub
Tensor.select_scatter = select_scatter
Tensor.slice_scatter = slice_scatter
Tensor.slogdet = slogdet
Tensor.stft = stft
Tensor.svd = svd
Tensor.tensor_split = tensor_split
Tensor.trace = trace
Tensor.triangular_solve = triangular_solve
Tensor.unique_consecutive = unique_consecutive
Tensor.vsplit = vsplit
