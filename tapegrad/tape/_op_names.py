"""The names that entries of the tape can have, to tell a slip of the pen from a rare op.

A name that no entry has would pick nothing, and say nothing. The list is that of the native core,
which a test holds it to; custom functions are found when they are asked for.
"""

import difflib
from collections.abc import Iterable

__all__ = ["expect_ops", "plain"]

_NATIVE = """
abs accumulate_grad acos acosh add addcdiv addcmul addmm addmv alias amax amin as_strided asin asinh
atan atan2 atanh avg_pool avg_pool_backward baddbmm bernoulli bitwise_and bitwise_left_shift
bitwise_not bitwise_or bitwise_right_shift bitwise_xor bmm cat cauchy ceil celu clamp clamp_max
clamp_min clone convolution copysign cos cosh cummax cummin cumprod cumsum deg2rad diagonal digamma
div dot elu embed eq erase erf erfc erfinv exp exp2 expand expm1 exponential fill flip floor
floor_divide fmax fmin fmod frac gather ge gelu geometric gru gt hardshrink hardsigmoid hardswish
hardtanh heaviside hypot index index_add index_copy index_fill index_put index_select isfinite isinf
isnan isneginf isposinf kthvalue le leaky_relu lerp lgamma link log log10 log1p log2 log_normal
log_softmax log_softmax_backward_data logaddexp logaddexp2 logcumsumexp logical_and logical_not
logical_or logical_xor logsigmoid logsumexp lstm lt masked_fill masked_scatter masked_select max
max_pool max_pool_backward max_pool_double max_unpool maximum mean median min minimum mish mm mul mv
nan_to_num native_batch_norm native_layer_norm ne neg nextafter norm normal permute poisson
polygamma pow prod rad2deg random reciprocal recurrence relu relu6 remainder repeat
repeat_interleave rms_norm rnn_relu rnn_tanh roll round rsqrt scaled_dot_product_attention scatter
scatter_add scatter_reduce select selu sigmoid sign signbit silu sin sinc sinh slice softmax
softmax_backward_data softplus softshrink softsign sort split_with_sizes sqrt square squeeze stack
std std_mean sub sum tan tanh threshold to_copy topk transpose tril triu trunc unbind unfold uniform
unique2 unique_dim unsafe_view unsqueeze var var_mean view vmap_in vmap_out where xlogy
"""


def plain(name: str) -> str:
    """Return what all spellings of an op's name have in common.

    Example:
        >>> from tapegrad.tape._op_names import plain
        >>> plain("LogSoftmaxBackward0"), plain("log_softmax")
        ('logsoftmax', 'logsoftmax')
    """
    at = name.rfind("Backward")
    return (name[:at] if at > 0 else name).replace("_", "").lower()


def expect_ops(who: str, names: Iterable[str], more: Iterable[str] = ()) -> None:
    """Raise if no entry can have one of the names.

    Args:
        who: who asks, for the error.
        names: what the program gave, in any spelling.
        more: names that are right, too.
    """
    known = {plain(name): name for name in (*_NATIVE.split(), *more)}
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{who}: expected names of ops, got {type(name).__name__}")
        if plain(name) in known:
            continue
        custom = {plain(each): each for each in _custom_functions()}
        if plain(name) not in custom:
            known |= {key: each for key, each in custom.items() if not each.startswith("_")}
            near = difflib.get_close_matches(plain(name), known, 3, 0.7)
            hint = " or ".join(repr(known[each]) for each in near)
            raise ValueError(
                f"{who}: expected the op of an entry, such as 'mm' or 'native_layer_norm', got "
                f"{name!r}; {f'did you mean {hint}? ' if near else ''}"
                "print(tape.of(loss)) shows the ops of a program"
            )


def _custom_functions() -> list[str]:
    """Return the names of all functions with a backward of their own that there are now."""
    from tapegrad.autograd.function import Function

    found, waiting = [], [Function]
    while waiting:
        kinds = waiting.pop().__subclasses__()
        found += [kind.__name__ for kind in kinds]
        waiting += kinds
    return found
