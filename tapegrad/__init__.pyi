# Written by scripts/make_package_stub.py; do not edit.
# fmt: off
# ruff: noqa
"""The public names of the package, each from the module that defines it."""

from collections.abc import Callable as _Callable
from typing import Any as _Any

from tapegrad._ops import OpRegistry as _OpRegistry

from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi
from tapegrad import __future__ as __future__
from tapegrad import _dynamo as _dynamo
from tapegrad import _utils as _utils
from tapegrad import accelerator as accelerator
from tapegrad import amp as amp
from tapegrad import ao as ao
from tapegrad import autograd as autograd
from tapegrad import backends as backends
from tapegrad import compiler as compiler
from tapegrad import cpu as cpu
from tapegrad import cuda as cuda
from tapegrad import distributed as distributed
from tapegrad import distributions as distributions
from tapegrad import fft as fft
from tapegrad import func as func
from tapegrad import futures as futures
from tapegrad import fx as fx
from tapegrad import hub as hub
from tapegrad import jit as jit
from tapegrad import library as library
from tapegrad import linalg as linalg
from tapegrad import masked as masked
from tapegrad import mps as mps
from tapegrad import mtia as mtia
from tapegrad import multiprocessing as multiprocessing
from tapegrad import nested as nested
from tapegrad import nn as nn
from tapegrad import onnx as onnx
from tapegrad import optim as optim
from tapegrad import overrides as overrides
from tapegrad import profiler as profiler
from tapegrad import quasirandom as quasirandom
from tapegrad import random as random
from tapegrad import return_types as return_types
from tapegrad import serialization as serialization
from tapegrad import signal as signal
from tapegrad import sparse as sparse
from tapegrad import special as special
from tapegrad import storage as storage
from tapegrad import tape as tape
from tapegrad import testing as testing
from tapegrad import torch_version as torch_version
from tapegrad import types as types
from tapegrad import utils as utils
from tapegrad import version as version
from tapegrad import xpu as xpu
from tapegrad._C import AcceleratorError as AcceleratorError
from tapegrad._C import Generator as Generator
from tapegrad._C import OutOfMemoryError as OutOfMemoryError
from tapegrad._C import Tensor as Tensor
from tapegrad._C import UntypedStorage as UntypedStorage
from tapegrad._C import _amp_foreach_non_finite_check_and_unscale_ as _amp_foreach_non_finite_check_and_unscale_
from tapegrad._C import _amp_update_scale_ as _amp_update_scale_
from tapegrad._C import abs as _absolute
absolute = _absolute
from tapegrad._C import abs as abs
from tapegrad._C import abs_ as abs_
from tapegrad._C import acos as _arccos
arccos = _arccos
from tapegrad._C import acos as acos
from tapegrad._C import acos_ as acos_
from tapegrad._C import acosh as _arccosh
arccosh = _arccosh
from tapegrad._C import acosh as acosh
from tapegrad._C import acosh_ as acosh_
from tapegrad._C import add as add
from tapegrad._C import addcdiv as addcdiv
from tapegrad._C import addcmul as addcmul
from tapegrad._C import addmm as addmm
from tapegrad._C import addmv as addmv
from tapegrad._C import adjoint as adjoint
from tapegrad._C import all as all
from tapegrad._C import amax as amax
from tapegrad._C import amin as amin
from tapegrad._C import angle as angle
from tapegrad._C import any as any
from tapegrad._C import arange as arange
from tapegrad._C import argmax as argmax
from tapegrad._C import argmin as argmin
from tapegrad._C import argsort as argsort
from tapegrad._C import as_strided as as_strided
from tapegrad._C import as_tensor as as_tensor
from tapegrad._C import asarray as asarray
from tapegrad._C import asin as _arcsin
arcsin = _arcsin
from tapegrad._C import asin as asin
from tapegrad._C import asin_ as asin_
from tapegrad._C import asinh as _arcsinh
arcsinh = _arcsinh
from tapegrad._C import asinh as asinh
from tapegrad._C import asinh_ as asinh_
from tapegrad._C import atan as _arctan
arctan = _arctan
from tapegrad._C import atan as atan
from tapegrad._C import atan2 as _arctan2
arctan2 = _arctan2
from tapegrad._C import atan2 as atan2
from tapegrad._C import atan_ as atan_
from tapegrad._C import atanh as _arctanh
arctanh = _arctanh
from tapegrad._C import atanh as atanh
from tapegrad._C import atanh_ as atanh_
from tapegrad._C import autocast_decrement_nesting as autocast_decrement_nesting
from tapegrad._C import autocast_increment_nesting as autocast_increment_nesting
from tapegrad._C import baddbmm as baddbmm
from tapegrad._C import bernoulli as bernoulli
from tapegrad._C import bfloat16 as bfloat16
from tapegrad._C import bincount as bincount
from tapegrad._C import bitwise_and as bitwise_and
from tapegrad._C import bitwise_left_shift as bitwise_left_shift
from tapegrad._C import bitwise_not as bitwise_not
from tapegrad._C import bitwise_not_ as bitwise_not_
from tapegrad._C import bitwise_or as bitwise_or
from tapegrad._C import bitwise_right_shift as bitwise_right_shift
from tapegrad._C import bitwise_xor as bitwise_xor
from tapegrad._C import bmm as bmm
from tapegrad._C import bool as bool
from tapegrad._C import broadcast_to as broadcast_to
from tapegrad._C import cat as _concat
concat = _concat
from tapegrad._C import cat as _concatenate
concatenate = _concatenate
from tapegrad._C import cat as cat
from tapegrad._C import cdouble as cdouble
from tapegrad._C import ceil as ceil
from tapegrad._C import ceil_ as ceil_
from tapegrad._C import celu as celu
from tapegrad._C import celu_ as celu_
from tapegrad._C import cfloat as cfloat
from tapegrad._C import chunk as _unsafe_chunk
unsafe_chunk = _unsafe_chunk
from tapegrad._C import chunk as chunk
from tapegrad._C import clamp as _clip
clip = _clip
from tapegrad._C import clamp as clamp
from tapegrad._C import clamp_max as clamp_max
from tapegrad._C import clamp_min as clamp_min
from tapegrad._C import clear_autocast_cache as clear_autocast_cache
from tapegrad._C import clone as clone
from tapegrad._C import complex128 as complex128
from tapegrad._C import complex64 as complex64
from tapegrad._C import conj as conj
from tapegrad._C import conj_physical as conj_physical
from tapegrad._C import conj_physical_ as conj_physical_
from tapegrad._C import copysign as copysign
from tapegrad._C import cos as cos
from tapegrad._C import cos_ as cos_
from tapegrad._C import cosh as cosh
from tapegrad._C import cosh_ as cosh_
from tapegrad._C import count_nonzero as count_nonzero
from tapegrad._C import cummax as cummax
from tapegrad._C import cummin as cummin
from tapegrad._C import cumprod as cumprod
from tapegrad._C import cumsum as cumsum
from tapegrad._C import default_generator as default_generator
from tapegrad._C import deg2rad as deg2rad
from tapegrad._C import deg2rad_ as deg2rad_
from tapegrad._C import detach as detach
from tapegrad._C import diag as diag
from tapegrad._C import diagonal as diagonal
from tapegrad._C import digamma as digamma
from tapegrad._C import digamma_ as digamma_
from tapegrad._C import div as _divide
divide = _divide
from tapegrad._C import div as _true_divide
true_divide = _true_divide
from tapegrad._C import div as div
from tapegrad._C import dot as dot
from tapegrad._C import double as double
from tapegrad._C import dtype as dtype
from tapegrad._C import empty as empty
from tapegrad._C import empty_cache as empty_cache
from tapegrad._C import empty_like as empty_like
from tapegrad._C import empty_strided as empty_strided
from tapegrad._C import eq as eq
from tapegrad._C import erf as erf
from tapegrad._C import erf_ as erf_
from tapegrad._C import erfc as erfc
from tapegrad._C import erfc_ as erfc_
from tapegrad._C import erfinv as erfinv
from tapegrad._C import erfinv_ as erfinv_
from tapegrad._C import exp as exp
from tapegrad._C import exp2 as exp2
from tapegrad._C import exp2_ as exp2_
from tapegrad._C import exp_ as exp_
from tapegrad._C import expm1 as expm1
from tapegrad._C import expm1_ as expm1_
from tapegrad._C import eye as eye
from tapegrad._C import flatten as flatten
from tapegrad._C import flip as flip
from tapegrad._C import float as float
from tapegrad._C import float16 as float16
from tapegrad._C import float32 as float32
from tapegrad._C import float64 as float64
from tapegrad._C import float8_e4m3fn as float8_e4m3fn
from tapegrad._C import float8_e4m3fnuz as float8_e4m3fnuz
from tapegrad._C import float8_e5m2 as float8_e5m2
from tapegrad._C import float8_e5m2fnuz as float8_e5m2fnuz
from tapegrad._C import float8_e8m0fnu as float8_e8m0fnu
from tapegrad._C import floor as floor
from tapegrad._C import floor_ as floor_
from tapegrad._C import floor_divide as floor_divide
from tapegrad._C import fmax as fmax
from tapegrad._C import fmin as fmin
from tapegrad._C import fmod as fmod
from tapegrad._C import frac as frac
from tapegrad._C import frac_ as frac_
from tapegrad._C import from_dlpack as from_dlpack
from tapegrad._C import from_numpy as from_numpy
from tapegrad._C import frombuffer as frombuffer
from tapegrad._C import full as full
from tapegrad._C import full_like as full_like
from tapegrad._C import gather as gather
from tapegrad._C import gcd as gcd
from tapegrad._C import ge as _greater_equal
greater_equal = _greater_equal
from tapegrad._C import ge as ge
from tapegrad._C import get_autocast_cpu_dtype as get_autocast_cpu_dtype
from tapegrad._C import get_autocast_dtype as get_autocast_dtype
from tapegrad._C import get_autocast_gpu_dtype as get_autocast_gpu_dtype
from tapegrad._C import get_default_dtype as get_default_dtype
from tapegrad._C import get_num_threads as get_num_threads
from tapegrad._C import get_rng_state as get_rng_state
from tapegrad._C import gt as _greater
greater = _greater
from tapegrad._C import gt as gt
from tapegrad._C import half as half
from tapegrad._C import hardshrink as hardshrink
from tapegrad._C import heaviside as heaviside
from tapegrad._C import hypot as hypot
from tapegrad._C import i0 as i0
from tapegrad._C import i0_ as i0_
from tapegrad._C import igamma as igamma
from tapegrad._C import igammac as igammac
from tapegrad._C import imag as imag
from tapegrad._C import index_add as index_add
from tapegrad._C import index_copy as index_copy
from tapegrad._C import index_fill as index_fill
from tapegrad._C import index_put as index_put
from tapegrad._C import index_select as index_select
from tapegrad._C import initial_seed as initial_seed
from tapegrad._C import int as int
from tapegrad._C import int16 as int16
from tapegrad._C import int32 as int32
from tapegrad._C import int64 as int64
from tapegrad._C import int8 as int8
from tapegrad._C import is_autocast_cache_enabled as is_autocast_cache_enabled
from tapegrad._C import is_autocast_cpu_enabled as is_autocast_cpu_enabled
from tapegrad._C import is_autocast_enabled as is_autocast_enabled
from tapegrad._C import is_complex as is_complex
from tapegrad._C import is_conj as is_conj
from tapegrad._C import is_floating_point as is_floating_point
from tapegrad._C import is_grad_enabled as is_grad_enabled
from tapegrad._C import is_neg as is_neg
from tapegrad._C import is_same_size as is_same_size
from tapegrad._C import is_signed as is_signed
from tapegrad._C import isfinite as isfinite
from tapegrad._C import isinf as isinf
from tapegrad._C import isnan as isnan
from tapegrad._C import isneginf as isneginf
from tapegrad._C import isposinf as isposinf
from tapegrad._C import kthvalue as kthvalue
from tapegrad._C import lcm as lcm
from tapegrad._C import le as _less_equal
less_equal = _less_equal
from tapegrad._C import le as le
from tapegrad._C import lerp as lerp
from tapegrad._C import lgamma as lgamma
from tapegrad._C import lgamma_ as lgamma_
from tapegrad._C import linear as linear
from tapegrad._C import linspace as linspace
from tapegrad._C import log as log
from tapegrad._C import log10 as log10
from tapegrad._C import log10_ as log10_
from tapegrad._C import log1p as log1p
from tapegrad._C import log1p_ as log1p_
from tapegrad._C import log2 as log2
from tapegrad._C import log2_ as log2_
from tapegrad._C import log_ as log_
from tapegrad._C import log_softmax as log_softmax
from tapegrad._C import logaddexp as logaddexp
from tapegrad._C import logaddexp2 as logaddexp2
from tapegrad._C import logcumsumexp as logcumsumexp
from tapegrad._C import logical_and as logical_and
from tapegrad._C import logical_not as logical_not
from tapegrad._C import logical_not_ as logical_not_
from tapegrad._C import logical_or as logical_or
from tapegrad._C import logical_xor as logical_xor
from tapegrad._C import logit as logit
from tapegrad._C import logit_ as logit_
from tapegrad._C import logspace as logspace
from tapegrad._C import logsumexp as logsumexp
from tapegrad._C import long as long
from tapegrad._C import lt as _less
less = _less
from tapegrad._C import lt as lt
from tapegrad._C import manual_seed as manual_seed
from tapegrad._C import masked_fill as masked_fill
from tapegrad._C import masked_scatter as masked_scatter
from tapegrad._C import masked_select as masked_select
from tapegrad._C import matmul as matmul
from tapegrad._C import max as max
from tapegrad._C import maximum as maximum
from tapegrad._C import mean as mean
from tapegrad._C import median as median
from tapegrad._C import memory_stats as memory_stats
from tapegrad._C import min as min
from tapegrad._C import minimum as minimum
from tapegrad._C import mm as mm
from tapegrad._C import mode as mode
from tapegrad._C import movedim as _moveaxis
moveaxis = _moveaxis
from tapegrad._C import movedim as movedim
from tapegrad._C import mul as _multiply
multiply = _multiply
from tapegrad._C import mul as mul
from tapegrad._C import multinomial as multinomial
from tapegrad._C import mv as mv
from tapegrad._C import mvlgamma as mvlgamma
from tapegrad._C import nan_to_num as nan_to_num
from tapegrad._C import narrow as narrow
from tapegrad._C import ne as _not_equal
not_equal = _not_equal
from tapegrad._C import ne as ne
from tapegrad._C import neg as _negative
negative = _negative
from tapegrad._C import neg as neg
from tapegrad._C import neg_ as neg_
from tapegrad._C import nextafter as nextafter
from tapegrad._C import nonzero as nonzero
from tapegrad._C import norm as norm
from tapegrad._C import normal as normal
from tapegrad._C import numel as numel
from tapegrad._C import ones as ones
from tapegrad._C import ones_like as ones_like
from tapegrad._C import outer as _ger
ger = _ger
from tapegrad._C import outer as outer
from tapegrad._C import permute as permute
from tapegrad._C import poisson as poisson
from tapegrad._C import polygamma as polygamma
from tapegrad._C import pow as pow
from tapegrad._C import prod as prod
from tapegrad._C import promote_types as promote_types
from tapegrad._C import put as put
from tapegrad._C import rad2deg as rad2deg
from tapegrad._C import rad2deg_ as rad2deg_
from tapegrad._C import rand as rand
from tapegrad._C import rand_like as rand_like
from tapegrad._C import randint as randint
from tapegrad._C import randint_like as randint_like
from tapegrad._C import randn as randn
from tapegrad._C import randn_like as randn_like
from tapegrad._C import randperm as randperm
from tapegrad._C import range as range
from tapegrad._C import ravel as ravel
from tapegrad._C import real as real
from tapegrad._C import reciprocal as reciprocal
from tapegrad._C import reciprocal_ as reciprocal_
from tapegrad._C import relu as relu
from tapegrad._C import relu_ as relu_
from tapegrad._C import remainder as remainder
from tapegrad._C import repeat_interleave as repeat_interleave
from tapegrad._C import reset_peak_memory_stats as reset_peak_memory_stats
from tapegrad._C import reshape as reshape
from tapegrad._C import resolve_conj as resolve_conj
from tapegrad._C import resolve_neg as resolve_neg
from tapegrad._C import result_type as result_type
from tapegrad._C import roll as roll
from tapegrad._C import round as round
from tapegrad._C import rsqrt as rsqrt
from tapegrad._C import rsqrt_ as rsqrt_
from tapegrad._C import scalar_tensor as scalar_tensor
from tapegrad._C import scatter as scatter
from tapegrad._C import scatter_add as scatter_add
from tapegrad._C import scatter_reduce as scatter_reduce
from tapegrad._C import searchsorted as searchsorted
from tapegrad._C import seed as seed
from tapegrad._C import select as select
from tapegrad._C import selu as selu
from tapegrad._C import selu_ as selu_
from tapegrad._C import set_autocast_cache_enabled as set_autocast_cache_enabled
from tapegrad._C import set_autocast_cpu_dtype as set_autocast_cpu_dtype
from tapegrad._C import set_autocast_cpu_enabled as set_autocast_cpu_enabled
from tapegrad._C import set_autocast_dtype as set_autocast_dtype
from tapegrad._C import set_autocast_enabled as set_autocast_enabled
from tapegrad._C import set_autocast_gpu_dtype as set_autocast_gpu_dtype
from tapegrad._C import set_default_dtype as set_default_dtype
from tapegrad._C import set_num_threads as set_num_threads
from tapegrad._C import set_rng_state as set_rng_state
from tapegrad._C import sgn as sgn
from tapegrad._C import short as short
from tapegrad._C import sigmoid as sigmoid
from tapegrad._C import sigmoid_ as sigmoid_
from tapegrad._C import sign as sign
from tapegrad._C import sign_ as sign_
from tapegrad._C import signbit as signbit
from tapegrad._C import sin as sin
from tapegrad._C import sin_ as sin_
from tapegrad._C import sinc as sinc
from tapegrad._C import sinc_ as sinc_
from tapegrad._C import sinh as sinh
from tapegrad._C import sinh_ as sinh_
from tapegrad._C import softmax as softmax
from tapegrad._C import sort as sort
from tapegrad._C import split as _split_with_sizes
split_with_sizes = _split_with_sizes
from tapegrad._C import split as _unsafe_split
unsafe_split = _unsafe_split
from tapegrad._C import split as _unsafe_split_with_sizes
unsafe_split_with_sizes = _unsafe_split_with_sizes
from tapegrad._C import split as split
from tapegrad._C import sqrt as sqrt
from tapegrad._C import sqrt_ as sqrt_
from tapegrad._C import square as square
from tapegrad._C import square_ as square_
from tapegrad._C import squeeze as squeeze
from tapegrad._C import stack as stack
from tapegrad._C import std as std
from tapegrad._C import std_mean as std_mean
from tapegrad._C import sub as _subtract
subtract = _subtract
from tapegrad._C import sub as sub
from tapegrad._C import sum as sum
from tapegrad._C import swapaxes as swapaxes
from tapegrad._C import t as t
from tapegrad._C import take as take
from tapegrad._C import take_along_dim as take_along_dim
from tapegrad._C import tan as tan
from tapegrad._C import tan_ as tan_
from tapegrad._C import tanh as tanh
from tapegrad._C import tanh_ as tanh_
from tapegrad._C import tensor as tensor
from tapegrad._C import tile as tile
from tapegrad._C import to_dlpack as to_dlpack
from tapegrad._C import topk as topk
from tapegrad._C import transpose as _swapdims
swapdims = _swapdims
from tapegrad._C import transpose as transpose
from tapegrad._C import tril as tril
from tapegrad._C import triu as triu
from tapegrad._C import trunc as _fix
fix = _fix
from tapegrad._C import trunc as trunc
from tapegrad._C import trunc_ as trunc_
from tapegrad._C import uint16 as uint16
from tapegrad._C import uint32 as uint32
from tapegrad._C import uint64 as uint64
from tapegrad._C import uint8 as uint8
from tapegrad._C import unbind as unbind
from tapegrad._C import unflatten as unflatten
from tapegrad._C import unique as unique
from tapegrad._C import unsqueeze as unsqueeze
from tapegrad._C import var as var
from tapegrad._C import var_mean as var_mean
from tapegrad._C import vdot as vdot
from tapegrad._C import view_as_complex as view_as_complex
from tapegrad._C import view_as_real as view_as_real
from tapegrad._C import where as where
from tapegrad._C import xlogy as xlogy
from tapegrad._C import zeros as zeros
from tapegrad._C import zeros_like as zeros_like
from tapegrad._attention_backends import _fused_sdp_choice as _fused_sdp_choice
from tapegrad._composed.calculus import cumulative_trapezoid as cumulative_trapezoid
from tapegrad._composed.calculus import diff as diff
from tapegrad._composed.calculus import gradient as gradient
from tapegrad._composed.calculus import trapezoid as _trapz
trapz = _trapz
from tapegrad._composed.calculus import trapezoid as trapezoid
from tapegrad._composed.compare import allclose as allclose
from tapegrad._composed.compare import equal as equal
from tapegrad._composed.compare import is_nonzero as is_nonzero
from tapegrad._composed.compare import is_tensor as is_tensor
from tapegrad._composed.compare import isclose as isclose
from tapegrad._composed.compare import isin as isin
from tapegrad._composed.compare import typename as typename
from tapegrad._composed.complex_numbers import complex as complex
from tapegrad._composed.complex_numbers import isreal as isreal
from tapegrad._composed.complex_numbers import polar as polar
from tapegrad._composed.distances import cdist as cdist
from tapegrad._composed.distances import dist as dist
from tapegrad._composed.einsum import einsum as einsum
from tapegrad._composed.embedding_views import as_strided_scatter as as_strided_scatter
from tapegrad._composed.embedding_views import diagonal_scatter as diagonal_scatter
from tapegrad._composed.embedding_views import index_reduce as index_reduce
from tapegrad._composed.embedding_views import select_scatter as select_scatter
from tapegrad._composed.embedding_views import slice_scatter as slice_scatter
from tapegrad._composed.histograms import histogram as histogram
from tapegrad._composed.histograms import histogramdd as histogramdd
from tapegrad._composed.linear_algebra import addbmm as addbmm
from tapegrad._composed.linear_algebra import addr as addr
from tapegrad._composed.linear_algebra import chain_matmul as chain_matmul
from tapegrad._composed.linear_algebra import cross as cross
from tapegrad._composed.linear_algebra import diag_embed as diag_embed
from tapegrad._composed.linear_algebra import diagflat as diagflat
from tapegrad._composed.linear_algebra import inner as inner
from tapegrad._composed.linear_algebra import kron as kron
from tapegrad._composed.linear_algebra import tensordot as tensordot
from tapegrad._composed.linear_algebra import trace as trace
from tapegrad._composed.linear_algebra import vander as vander
from tapegrad._composed.matrices import cholesky as cholesky
from tapegrad._composed.matrices import cholesky_inverse as cholesky_inverse
from tapegrad._composed.matrices import cholesky_solve as cholesky_solve
from tapegrad._composed.matrices import det as det
from tapegrad._composed.matrices import geqrf as geqrf
from tapegrad._composed.matrices import inverse as inverse
from tapegrad._composed.matrices import lobpcg as lobpcg
from tapegrad._composed.matrices import logdet as logdet
from tapegrad._composed.matrices import lu as lu
from tapegrad._composed.matrices import lu_solve as lu_solve
from tapegrad._composed.matrices import lu_unpack as lu_unpack
from tapegrad._composed.matrices import matrix_exp as matrix_exp
from tapegrad._composed.matrices import matrix_power as matrix_power
from tapegrad._composed.matrices import orgqr as orgqr
from tapegrad._composed.matrices import ormqr as ormqr
from tapegrad._composed.matrices import pca_lowrank as pca_lowrank
from tapegrad._composed.matrices import pinverse as pinverse
from tapegrad._composed.matrices import qr as qr
from tapegrad._composed.matrices import slogdet as slogdet
from tapegrad._composed.matrices import svd as svd
from tapegrad._composed.matrices import svd_lowrank as svd_lowrank
from tapegrad._composed.matrices import symeig as symeig
from tapegrad._composed.matrices import triangular_solve as triangular_solve
from tapegrad._composed.pointwise import float_power as float_power
from tapegrad._composed.pointwise import positive as positive
from tapegrad._composed.pointwise import rsub as rsub
from tapegrad._composed.quantize import fake_quantize_per_channel_affine as fake_quantize_per_channel_affine
from tapegrad._composed.quantize import fake_quantize_per_tensor_affine as fake_quantize_per_tensor_affine
from tapegrad._composed.scaling import can_cast as can_cast
from tapegrad._composed.scaling import fill as fill
from tapegrad._composed.scaling import frexp as frexp
from tapegrad._composed.scaling import ldexp as ldexp
from tapegrad._composed.scaling import renorm as renorm
from tapegrad._composed.segments import nonzero_static as nonzero_static
from tapegrad._composed.segments import segment_reduce as __segment_reduce
_segment_reduce = __segment_reduce
from tapegrad._composed.segments import segment_reduce as segment_reduce
from tapegrad._composed.segments import unravel_index as unravel_index
from tapegrad._composed.selection import argwhere as argwhere
from tapegrad._composed.selection import bucketize as bucketize
from tapegrad._composed.selection import histc as histc
from tapegrad._composed.selection import msort as msort
from tapegrad._composed.selection import tril_indices as tril_indices
from tapegrad._composed.selection import triu_indices as triu_indices
from tapegrad._composed.selection import unique_consecutive as unique_consecutive
from tapegrad._composed.shape import atleast_1d as atleast_1d
from tapegrad._composed.shape import atleast_2d as atleast_2d
from tapegrad._composed.shape import atleast_3d as atleast_3d
from tapegrad._composed.shape import broadcast_shapes as broadcast_shapes
from tapegrad._composed.shape import broadcast_tensors as broadcast_tensors
from tapegrad._composed.shape import cartesian_prod as cartesian_prod
from tapegrad._composed.shape import combinations as combinations
from tapegrad._composed.shape import fliplr as fliplr
from tapegrad._composed.shape import flipud as flipud
from tapegrad._composed.shape import meshgrid as meshgrid
from tapegrad._composed.shape import rot90 as rot90
from tapegrad._composed.spectral import bartlett_window as bartlett_window
from tapegrad._composed.spectral import blackman_window as blackman_window
from tapegrad._composed.spectral import hamming_window as hamming_window
from tapegrad._composed.spectral import hann_window as hann_window
from tapegrad._composed.spectral import istft as istft
from tapegrad._composed.spectral import kaiser_window as kaiser_window
from tapegrad._composed.spectral import stft as stft
from tapegrad._composed.split_and_join import block_diag as block_diag
from tapegrad._composed.split_and_join import column_stack as column_stack
from tapegrad._composed.split_and_join import dsplit as dsplit
from tapegrad._composed.split_and_join import dstack as dstack
from tapegrad._composed.split_and_join import hsplit as hsplit
from tapegrad._composed.split_and_join import hstack as hstack
from tapegrad._composed.split_and_join import tensor_split as tensor_split
from tapegrad._composed.split_and_join import vsplit as vsplit
from tapegrad._composed.split_and_join import vstack as _row_stack
row_stack = _row_stack
from tapegrad._composed.split_and_join import vstack as vstack
from tapegrad._composed.statistics import aminmax as aminmax
from tapegrad._composed.statistics import corrcoef as corrcoef
from tapegrad._composed.statistics import cov as cov
from tapegrad._composed.statistics import hash_tensor as hash_tensor
from tapegrad._composed.statistics import nanmean as nanmean
from tapegrad._composed.statistics import nanmedian as nanmedian
from tapegrad._composed.statistics import nanquantile as nanquantile
from tapegrad._composed.statistics import nansum as nansum
from tapegrad._composed.statistics import quantile as quantile
from tapegrad._control_flow import cond as cond
from tapegrad._copies import alias_copy as alias_copy
from tapegrad._copies import as_strided_copy as as_strided_copy
from tapegrad._copies import detach_copy as detach_copy
from tapegrad._copies import diagonal_copy as diagonal_copy
from tapegrad._copies import empty_permuted as empty_permuted
from tapegrad._copies import expand_copy as expand_copy
from tapegrad._copies import narrow_copy as narrow_copy
from tapegrad._copies import permute_copy as permute_copy
from tapegrad._copies import select_copy as select_copy
from tapegrad._copies import slice_copy as slice_copy
from tapegrad._copies import split_copy as split_copy
from tapegrad._copies import split_with_sizes_copy as split_with_sizes_copy
from tapegrad._copies import squeeze_copy as squeeze_copy
from tapegrad._copies import t_copy as t_copy
from tapegrad._copies import transpose_copy as transpose_copy
from tapegrad._copies import unbind_copy as unbind_copy
from tapegrad._copies import unfold_copy as unfold_copy
from tapegrad._copies import unsqueeze_copy as unsqueeze_copy
from tapegrad._copies import view_as_complex_copy as view_as_complex_copy
from tapegrad._copies import view_as_real_copy as view_as_real_copy
from tapegrad._copies import view_copy as view_copy
from tapegrad._determinism import are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled
from tapegrad._determinism import get_deterministic_debug_mode as get_deterministic_debug_mode
from tapegrad._determinism import is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled
from tapegrad._determinism import set_deterministic_debug_mode as set_deterministic_debug_mode
from tapegrad._determinism import use_deterministic_algorithms as use_deterministic_algorithms
from tapegrad._devices import get_default_device as get_default_device
from tapegrad._devices import get_device_module as get_device_module
from tapegrad._devices import set_default_device as set_default_device
from tapegrad._internal_names import _assert as _assert
from tapegrad._internal_names import _convert_indices_from_coo_to_csr as _convert_indices_from_coo_to_csr
from tapegrad._internal_names import _convert_indices_from_csr_to_coo as _convert_indices_from_csr_to_coo
from tapegrad._internal_names import _log_softmax_backward_data as _log_softmax_backward_data
from tapegrad._internal_names import _scaled_mm as _scaled_mm
from tapegrad._internal_names import _shape_as_tensor as _shape_as_tensor
from tapegrad._internal_names import _softmax_backward_data as _softmax_backward_data
from tapegrad._internal_names import from_file as from_file
from tapegrad._precision import get_float32_matmul_precision as get_float32_matmul_precision
from tapegrad._precision import set_float32_matmul_precision as set_float32_matmul_precision
from tapegrad._settings import get_num_interop_threads as get_num_interop_threads
from tapegrad._settings import init_num_threads as init_num_threads
from tapegrad._settings import is_warn_always_enabled as is_warn_always_enabled
from tapegrad._settings import set_flush_denormal as set_flush_denormal
from tapegrad._settings import set_num_interop_threads as set_num_interop_threads
from tapegrad._settings import set_warn_always as set_warn_always
from tapegrad._tensor_str import get_printoptions as get_printoptions
from tapegrad._tensor_str import printoptions as printoptions
from tapegrad._tensor_str import set_printoptions as set_printoptions
from tapegrad._typed import set_default_tensor_type as set_default_tensor_type
from tapegrad._types import Size as Size
from tapegrad._types import channels_last as channels_last
from tapegrad._types import channels_last_3d as channels_last_3d
from tapegrad._types import contiguous_format as _legacy_contiguous_format
legacy_contiguous_format = _legacy_contiguous_format
from tapegrad._types import contiguous_format as contiguous_format
from tapegrad._types import device as device
from tapegrad._types import finfo as finfo
from tapegrad._types import iinfo as iinfo
from tapegrad._types import jagged as jagged
from tapegrad._types import layout as layout
from tapegrad._types import memory_format as memory_format
from tapegrad._types import preserve_format as preserve_format
from tapegrad._types import sparse_bsc as sparse_bsc
from tapegrad._types import sparse_bsr as sparse_bsr
from tapegrad._types import sparse_coo as sparse_coo
from tapegrad._types import sparse_csc as sparse_csc
from tapegrad._types import sparse_csr as sparse_csr
from tapegrad._types import strided as strided
from tapegrad.amp import GradScaler as GradScaler
from tapegrad.amp.autocast_mode import autocast as autocast
from tapegrad.autograd.anomaly_mode import is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled
from tapegrad.autograd.anomaly_mode import is_anomaly_enabled as is_anomaly_enabled
from tapegrad.autograd.grad_mode import enable_grad as enable_grad
from tapegrad.autograd.grad_mode import inference_mode as inference_mode
from tapegrad.autograd.grad_mode import is_inference_mode_enabled as is_inference_mode_enabled
from tapegrad.autograd.grad_mode import no_grad as no_grad
from tapegrad.autograd.grad_mode import set_grad_enabled as set_grad_enabled
from tapegrad.compiler._compile import compile as compile
from tapegrad.cuda.streams import Event as Event
from tapegrad.cuda.streams import Stream as Stream
from tapegrad.distributions._sampling import binomial as binomial
from tapegrad.distributions._sampling import dirichlet_grad as __dirichlet_grad
_dirichlet_grad = __dirichlet_grad
from tapegrad.distributions._sampling import sample_dirichlet as __sample_dirichlet
_sample_dirichlet = __sample_dirichlet
from tapegrad.distributions._sampling import standard_gamma as __standard_gamma
_standard_gamma = __standard_gamma
from tapegrad.distributions._sampling import standard_gamma_grad as __standard_gamma_grad
_standard_gamma_grad = __standard_gamma_grad
from tapegrad.func.vmapping import vmap as vmap
from tapegrad.futures import Future as Future
from tapegrad.jit import ScriptModule as ScriptModule
from tapegrad.jit import fork as fork
from tapegrad.jit import wait as wait
from tapegrad.nn.functional._by_torch_order import alpha_dropout as alpha_dropout
from tapegrad.nn.functional._by_torch_order import alpha_dropout_ as alpha_dropout_
from tapegrad.nn.functional._by_torch_order import batch_norm as batch_norm
from tapegrad.nn.functional._by_torch_order import dropout as dropout
from tapegrad.nn.functional._by_torch_order import dropout_ as dropout_
from tapegrad.nn.functional._by_torch_order import embedding as embedding
from tapegrad.nn.functional._by_torch_order import feature_alpha_dropout as feature_alpha_dropout
from tapegrad.nn.functional._by_torch_order import feature_alpha_dropout_ as feature_alpha_dropout_
from tapegrad.nn.functional._by_torch_order import group_norm as group_norm
from tapegrad.nn.functional._by_torch_order import instance_norm as instance_norm
from tapegrad.nn.functional._by_torch_order import layer_norm as layer_norm
from tapegrad.nn.functional._by_torch_order import rrelu as rrelu
from tapegrad.nn.functional._by_torch_order import rrelu_ as rrelu_
from tapegrad.nn.functional._by_torch_order import threshold as threshold
from tapegrad.nn.functional._by_torch_order import threshold_ as threshold_
from tapegrad.nn.functional.activations import prelu as prelu
from tapegrad.nn.functional.blocks import channel_shuffle as _native_channel_shuffle
native_channel_shuffle = _native_channel_shuffle
from tapegrad.nn.functional.blocks import channel_shuffle as channel_shuffle
from tapegrad.nn.functional.blocks import pixel_shuffle as pixel_shuffle
from tapegrad.nn.functional.blocks import pixel_unshuffle as pixel_unshuffle
from tapegrad.nn.functional.convolutions import conv1d as conv1d
from tapegrad.nn.functional.convolutions import conv2d as conv2d
from tapegrad.nn.functional.convolutions import conv3d as conv3d
from tapegrad.nn.functional.convolutions import conv_tbc as conv_tbc
from tapegrad.nn.functional.convolutions import conv_transpose1d as conv_transpose1d
from tapegrad.nn.functional.convolutions import conv_transpose2d as conv_transpose2d
from tapegrad.nn.functional.convolutions import conv_transpose3d as conv_transpose3d
from tapegrad.nn.functional.convolutions import convolution as convolution
from tapegrad.nn.functional.distances import cosine_similarity as cosine_similarity
from tapegrad.nn.functional.distances import pairwise_distance as pairwise_distance
from tapegrad.nn.functional.distances import pdist as pdist
from tapegrad.nn.functional.norms import rms_norm as rms_norm
from tapegrad.nn.functional.pooling import adaptive_avg_pool1d as adaptive_avg_pool1d
from tapegrad.nn.functional.pooling import avg_pool1d as avg_pool1d
from tapegrad.nn.functional.pooling import max_pool1d as max_pool1d
from tapegrad.nn.functional.pooling import max_pool2d as max_pool2d
from tapegrad.nn.functional.pooling import max_pool3d as max_pool3d
from tapegrad.nn.functional.recurrent import gru as gru
from tapegrad.nn.functional.recurrent import gru_cell as gru_cell
from tapegrad.nn.functional.recurrent import lstm as lstm
from tapegrad.nn.functional.recurrent import lstm_cell as lstm_cell
from tapegrad.nn.functional.recurrent import rnn_relu as rnn_relu
from tapegrad.nn.functional.recurrent import rnn_relu_cell as rnn_relu_cell
from tapegrad.nn.functional.recurrent import rnn_tanh as rnn_tanh
from tapegrad.nn.functional.recurrent import rnn_tanh_cell as rnn_tanh_cell
from tapegrad.nn.functional.tables import bilinear as bilinear
from tapegrad.serialization import load as load
from tapegrad.serialization import save as save
from tapegrad.serialization._reader import PyTorchFileReader as PyTorchFileReader
from tapegrad.sparse._construct import sparse_compressed_tensor as sparse_compressed_tensor
from tapegrad.sparse._construct import sparse_coo_tensor as sparse_coo_tensor
from tapegrad.sparse._construct import sparse_csc_tensor as sparse_csc_tensor
from tapegrad.sparse._construct import sparse_csr_tensor as sparse_csr_tensor
from tapegrad.sparse._products import dsmm as dsmm
from tapegrad.sparse._products import hspmm as hspmm
from tapegrad.sparse._products import smm as smm
from tapegrad.sparse._products import spmm as spmm
from tapegrad.storage import Storage as Storage
from tapegrad.storage import TypedStorage as TypedStorage
from tapegrad.storage import is_storage as is_storage

__version__: str
addmv_ = Tensor.addmv_
arccos_ = Tensor.arccos_
arccosh_ = Tensor.arccosh_
arcsin_ = Tensor.arcsin_
arcsinh_ = Tensor.arcsinh_
arctan_ = Tensor.arctan_
arctanh_ = Tensor.arctanh_
clamp_ = Tensor.clamp_
clamp_max_ = Tensor.clamp_max_
clamp_min_ = Tensor.clamp_min_
class BFloat16Storage(TypedStorage): ...
class BFloat16Tensor(Tensor): ...
class BoolStorage(TypedStorage): ...
class BoolTensor(Tensor): ...
class ByteStorage(TypedStorage): ...
class ByteTensor(Tensor): ...
class CharStorage(TypedStorage): ...
class CharTensor(Tensor): ...
class DoubleStorage(TypedStorage): ...
class DoubleTensor(Tensor): ...
class FloatStorage(TypedStorage): ...
class FloatTensor(Tensor): ...
class HalfStorage(TypedStorage): ...
class HalfTensor(Tensor): ...
class IntStorage(TypedStorage): ...
class IntTensor(Tensor): ...
class LongStorage(TypedStorage): ...
class LongTensor(Tensor): ...
class ShortStorage(TypedStorage): ...
class ShortTensor(Tensor): ...
clip_ = Tensor.clip_
detach_ = Tensor.detach_
fill_ = Tensor.fill_
fix_ = Tensor.fix_
gcd_ = Tensor.gcd_
get_device = Tensor.get_device
index_put_ = Tensor.index_put_
is_inference = Tensor.is_inference
lcm_ = Tensor.lcm_
nan_to_num_ = Tensor.nan_to_num_
negative_ = Tensor.negative_
newaxis: None
ops: _OpRegistry
resize_as_ = Tensor.resize_as_
round_ = Tensor.round_
xlogy_ = Tensor.xlogy_
zero_ = Tensor.zero_

_foreach_abs: _Callable[..., _Any]
_foreach_abs_: _Callable[..., _Any]
_foreach_acos: _Callable[..., _Any]
_foreach_acos_: _Callable[..., _Any]
_foreach_add: _Callable[..., _Any]
_foreach_add_: _Callable[..., _Any]
_foreach_addcdiv: _Callable[..., _Any]
_foreach_addcdiv_: _Callable[..., _Any]
_foreach_addcmul: _Callable[..., _Any]
_foreach_addcmul_: _Callable[..., _Any]
_foreach_asin: _Callable[..., _Any]
_foreach_asin_: _Callable[..., _Any]
_foreach_atan: _Callable[..., _Any]
_foreach_atan_: _Callable[..., _Any]
_foreach_ceil: _Callable[..., _Any]
_foreach_ceil_: _Callable[..., _Any]
_foreach_clamp_max: _Callable[..., _Any]
_foreach_clamp_max_: _Callable[..., _Any]
_foreach_clamp_min: _Callable[..., _Any]
_foreach_clamp_min_: _Callable[..., _Any]
_foreach_copy_: _Callable[..., _Any]
_foreach_cos: _Callable[..., _Any]
_foreach_cos_: _Callable[..., _Any]
_foreach_cosh: _Callable[..., _Any]
_foreach_cosh_: _Callable[..., _Any]
_foreach_div: _Callable[..., _Any]
_foreach_div_: _Callable[..., _Any]
_foreach_erf: _Callable[..., _Any]
_foreach_erf_: _Callable[..., _Any]
_foreach_erfc: _Callable[..., _Any]
_foreach_erfc_: _Callable[..., _Any]
_foreach_exp: _Callable[..., _Any]
_foreach_exp_: _Callable[..., _Any]
_foreach_expm1: _Callable[..., _Any]
_foreach_expm1_: _Callable[..., _Any]
_foreach_floor: _Callable[..., _Any]
_foreach_floor_: _Callable[..., _Any]
_foreach_frac: _Callable[..., _Any]
_foreach_frac_: _Callable[..., _Any]
_foreach_lerp: _Callable[..., _Any]
_foreach_lerp_: _Callable[..., _Any]
_foreach_lgamma: _Callable[..., _Any]
_foreach_lgamma_: _Callable[..., _Any]
_foreach_log: _Callable[..., _Any]
_foreach_log10: _Callable[..., _Any]
_foreach_log10_: _Callable[..., _Any]
_foreach_log1p: _Callable[..., _Any]
_foreach_log1p_: _Callable[..., _Any]
_foreach_log2: _Callable[..., _Any]
_foreach_log2_: _Callable[..., _Any]
_foreach_log_: _Callable[..., _Any]
_foreach_max: _Callable[..., _Any]
_foreach_maximum: _Callable[..., _Any]
_foreach_maximum_: _Callable[..., _Any]
_foreach_minimum: _Callable[..., _Any]
_foreach_minimum_: _Callable[..., _Any]
_foreach_mul: _Callable[..., _Any]
_foreach_mul_: _Callable[..., _Any]
_foreach_neg: _Callable[..., _Any]
_foreach_neg_: _Callable[..., _Any]
_foreach_norm: _Callable[..., _Any]
_foreach_pow: _Callable[..., _Any]
_foreach_pow_: _Callable[..., _Any]
_foreach_reciprocal: _Callable[..., _Any]
_foreach_reciprocal_: _Callable[..., _Any]
_foreach_round: _Callable[..., _Any]
_foreach_round_: _Callable[..., _Any]
_foreach_rsqrt: _Callable[..., _Any]
_foreach_rsqrt_: _Callable[..., _Any]
_foreach_sigmoid: _Callable[..., _Any]
_foreach_sigmoid_: _Callable[..., _Any]
_foreach_sign: _Callable[..., _Any]
_foreach_sign_: _Callable[..., _Any]
_foreach_sin: _Callable[..., _Any]
_foreach_sin_: _Callable[..., _Any]
_foreach_sinh: _Callable[..., _Any]
_foreach_sinh_: _Callable[..., _Any]
_foreach_sqrt: _Callable[..., _Any]
_foreach_sqrt_: _Callable[..., _Any]
_foreach_sub: _Callable[..., _Any]
_foreach_sub_: _Callable[..., _Any]
_foreach_tan: _Callable[..., _Any]
_foreach_tan_: _Callable[..., _Any]
_foreach_tanh: _Callable[..., _Any]
_foreach_tanh_: _Callable[..., _Any]
_foreach_trunc: _Callable[..., _Any]
_foreach_trunc_: _Callable[..., _Any]
_foreach_zero_: _Callable[..., _Any]
