"""Rules of functions of elements, of sums and of products."""

from typing import Any

from tapegrad.distributed.tensor._dispatch import Call, rule
from tapegrad.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

__all__ = ["along_dim", "dims_of", "largest_shard", "multiplied", "reduced_dims"]


def _names(text: str) -> list[str]:
    return text.split()


POINTWISE = _names("""
abs absolute acos acosh add addcdiv addcmul angle arccos arccosh arcsin arcsinh arctan arctan2
arctanh asin asinh atan atan2 atanh bitwise_and bitwise_not bitwise_or bitwise_xor bool
ceil celu clamp clamp_max clamp_min clip clone conj contiguous copy copysign cos cosh deg2rad detach
digamma div divide double elu eq erf erfc erfinv exp exp2 expm1 fill float floor floor_divide fmax
fmin fmod frac ge gelu greater greater_equal gt half hardshrink hardsigmoid hardswish hardtanh
heaviside hypot i0 int isclose isfinite isinf isnan isneginf isposinf le leaky_relu lerp less
less_equal lgamma log log10 log1p log2 logaddexp logaddexp2 logical_and logical_not logical_or
logical_xor logit logsigmoid long lt masked_fill maximum minimum mish mul multiply nan_to_num ne
neg negative nextafter not_equal ones_like positive pow rad2deg real reciprocal relu relu6
remainder round rsqrt rsub selu sgn sigmoid sign signbit silu sin sinc sinh softplus softshrink
softsign sqrt square sub subtract tan tanh threshold trunc true_divide type type_as where xlogy
zero zeros_like empty_like full_like bfloat16 alias fix
""")
OPERATORS = _names("""
__add__ __radd__ __iadd__ __sub__ __rsub__ __isub__ __mul__ __rmul__ __imul__ __truediv__
__rtruediv__ __itruediv__ __floordiv__ __rfloordiv__ __mod__ __rmod__ __pow__ __rpow__ __neg__
__pos__ __abs__ __invert__ __and__ __or__ __xor__ __rand__ __ror__ __rxor__ __eq__ __ne__ __lt__
__le__ __gt__ __ge__ __lshift__ __rshift__
""")
# Of one tensor, f(a + b) = f(a) + f(b).
LINEAR = set(_names("neg negative clone contiguous detach alias positive __neg__ __pos__ zero"))
SUMS = set(_names("add sub subtract __add__ __sub__ __radd__ __rsub__ __iadd__ __isub__"))
PRODUCTS = set(_names("mul multiply __mul__ __rmul__ __imul__"))
QUOTIENTS = set(_names("div divide true_divide __truediv__ __itruediv__"))


def largest_shard(call: Call, given: list[Placement]) -> list[int]:
    """Return the numbers of tensors that are divided, the largest first."""

    def numel(number: int) -> int:
        count = 1
        for size in call.shapes[number]:
            count *= size
        return -count

    divided = [i for i, placement in enumerate(given) if isinstance(placement, Shard)]
    return sorted(divided, key=numel)


def _kept_partial(call: Call, given: list[Placement]) -> Partial | None:
    """Return how the result is Partial, if the function keeps reductions apart."""
    partial = [each for each in given if isinstance(each, Partial)]
    if not partial or partial[0].reduce_op not in ("sum", "avg") or len(set(partial)) > 1:
        return None
    kept = False
    if call.name in LINEAR:
        kept = True
    elif call.name in SUMS:
        numbers = [each for each in call.args if isinstance(each, int | float)]
        kept = len(partial) == len(given) > 1 and not numbers
    elif call.name in PRODUCTS:
        kept = len(partial) == 1
    elif call.name in QUOTIENTS:
        kept = (
            len(partial) == 1
            and isinstance(given[0], Partial)
            and "rounding_mode" not in (call.kwargs)
        )
    others = [each for each in given if not isinstance(each, Partial)]
    return partial[0] if kept and all(each.is_replicate() for each in others) else None


@rule(*POINTWISE, *OPERATORS)
def pointwise(call: Call, given: list[Placement]) -> tuple[list[Placement], Any]:
    """All tensors are divided where the largest is, but for those that are broadcast there."""
    kept = _kept_partial(call, given)
    if kept is not None:
        return given, kept
    out = call.outs[0]
    places = [len(out) - len(shape) for shape in call.shapes]
    for number in [0] if call.writes else largest_shard(call, given):
        placement = given[number]
        if not isinstance(placement, Shard):
            continue
        target = placement.dim + places[number]
        if call.shapes[number][placement.dim] == out[target]:
            inputs: list[Placement] = []
            for shape, place in zip(call.shapes, places, strict=True):
                fits = target >= place and shape[target - place] == out[target]
                inputs.append(Shard(target - place) if fits else Replicate())
            return inputs, Shard(target)
    return [Replicate()] * len(given), Replicate()


# ---- sums and their like


def dims_of(dim: Any, ndim: int) -> set[int]:
    """Return dimensions as a set; None and an empty list stand for all."""
    if dim is None or (isinstance(dim, list | tuple) and not dim):
        return set(range(ndim))
    several = dim if isinstance(dim, list | tuple) else [dim]
    return {each % ndim if ndim else 0 for each in several}


def reduced_dims(call: Call, index: int = 1) -> set[int]:
    """Return the dimensions that a call reduces."""
    dim = call.get(index, "dim", call.kwargs.get("axis"))
    dim = None if isinstance(dim, bool) or not isinstance(dim, int | list | tuple) else dim
    return dims_of(dim, len(call.shapes[0]))


def after_reduction(call: Call, dim: int, reduced: set[int]) -> int:
    """Return where a dimension that stays is in the result."""
    if len(call.outs[0]) == len(call.shapes[0]):
        return dim
    return dim - sum(each < dim for each in reduced)


def _reduction(call: Call, given: list[Placement], partial: Partial | None) -> Any:
    (placement,) = given
    if isinstance(placement, Partial):
        if placement == partial == Partial("sum"):
            return given, placement
        return [Replicate()], Replicate()
    if not isinstance(placement, Shard):
        return given, Replicate()
    reduced = reduced_dims(call)
    if placement.dim not in reduced:
        return given, Shard(after_reduction(call, placement.dim, reduced))
    if partial is None:
        return [Replicate()], Replicate()
    return given, partial


@rule("sum", "nansum", "count_nonzero")
def sums(call: Call, given: list[Placement]) -> Any:
    """A sum over a divided dimension is Partial."""
    return _reduction(call, given, Partial("sum"))


@rule("amax", "amin")
def extremes(call: Call, given: list[Placement]) -> Any:
    """Without a gradient an extreme is Partial, if every process has elements."""
    (placement,) = given
    whole = call.tensors[0].requires_grad
    if isinstance(placement, Shard):
        whole = whole or call.leaves_some_empty(0, placement.dim)
    return _reduction(call, given, None if whole else Partial(call.name[1:]))


@rule("all", "any", "prod", "var", "std", "logsumexp", "argmax", "argmin", "median", "var_mean",
      "std_mean", "nanmean", "mode", "aminmax")  # fmt: skip
def other_reductions(call: Call, given: list[Placement]) -> Any:
    """What has no form by parts needs what it reduces as a whole."""
    return _reduction(call, given, None)


@rule("max", "min")
def maximum_or_max(call: Call, given: list[Placement]) -> Any:
    """Two tensors are compared element by element; one is reduced."""
    return pointwise(call, given) if len(given) > 1 else _reduction(call, given, None)


def along_dim(call: Call, given: list[Placement], dim: int, first: int = 1) -> Any:
    """All tensors lie alike, and no dimension is divided that the function works along."""
    ndim = len(call.shapes[0])
    for number in largest_shard(call, given):
        placement = given[number]
        if placement != Shard(dim % ndim) and len(call.shapes[number]) == ndim:
            return [placement] * len(given), placement
    return [Replicate()] * len(given), Replicate()


@rule("softmax", "log_softmax", "cumsum", "cumprod", "sort", "topk", "argsort", "flip", "roll",
      "logcumsumexp", "cummax", "cummin", "glu", "normalize", "softmin")  # fmt: skip
def along_one_dim(call: Call, given: list[Placement]) -> Any:
    """A function that works along one dimension needs it whole."""
    index = 2 if call.name in ("topk", "roll", "normalize") else 1
    default = {"flip": None, "roll": None, "normalize": 1}.get(call.name, -1)
    dim = call.get(index, "dim" if call.name != "flip" else "dims", default)
    if isinstance(dim, int) and not isinstance(dim, bool) and call.shapes[0]:
        return along_dim(call, given, dim)
    return [Replicate()] * len(given), Replicate()


@rule("renorm")
def renorm(call: Call, given: list[Placement]) -> Any:
    """Norms are taken over all dimensions but one, which alone may be divided."""
    dim = call.get(2, "dim")
    if isinstance(dim, int) and given[0] == Shard(dim % max(1, len(call.shapes[0]))):
        return given[:1], given[0]
    return [Replicate()], Replicate()


@rule("gather", "take_along_dim")
def gather(call: Call, given: list[Placement]) -> Any:
    """Dimensions that an index has as many of as the tensor may be divided."""
    index = 1 if call.name == "gather" else 2
    if call.get(index, "dim") is None or len({len(shape) for shape in call.shapes}) > 1:
        return [Replicate()] * len(given), Replicate()
    (dim,) = dims_of(call.get(index, "dim"), len(call.shapes[0]))
    for number in largest_shard(call, given):
        placement = given[number]
        assert isinstance(placement, Shard)
        sizes = {shape[placement.dim] for shape in call.shapes}
        if placement.dim != dim and len(sizes) == 1:
            return [placement] * len(given), placement
    return [Replicate()] * len(given), Replicate()


@rule("tril", "triu", "diagonal", "trace")
def of_matrices(call: Call, given: list[Placement]) -> Any:
    """Only what is before the last two dimensions may be divided."""
    (placement,) = given
    stays = isinstance(placement, Shard) and placement.dim < len(call.shapes[0]) - 2
    if stays and call.name in ("tril", "triu"):
        return given, placement
    return [Replicate()], Replicate()


# ---- products


def multiplied(
    call: Call, given: list[Placement], terms: list[str], out: str, added: int | None = None
) -> Any:
    """Return the plan of a product that is written as for ``einsum``.

    Args:
        call: the call.
        given: how its tensors lie.
        terms: a letter for each dimension of each tensor.
        out: letters of the result.
        added: the number of a tensor that is added to the product.
    """
    factors = [i for i in range(len(given)) if i != added]
    partial = [i for i in factors if given[i] == Partial("sum")]
    rest = [given[i] for i in factors if i not in partial]
    if len(partial) == 1 and all(each.is_replicate() for each in rest):
        return [given[i] if i in partial else _addend(i, added) for i in range(len(given))], (
            Partial()
        )
    for number in largest_shard(call, given):
        placement = given[number]
        if number == added or not isinstance(placement, Shard):
            continue
        letter = terms[number][placement.dim]
        if letter.isupper():  # of size 1, and repeated
            continue
        inputs: list[Placement] = [
            Shard(term.index(letter)) if letter in term else Replicate() for term in terms
        ]
        if letter in out:
            return inputs, Shard(out.index(letter))
        return [
            _addend(i, added) if i == added else each for i, each in enumerate(inputs)
        ], Partial()
    return [Replicate()] * len(given), Replicate()


def _addend(number: int, added: int | None) -> Placement:
    return Partial() if number == added else Replicate()


_LETTERS = "abcdefghijlopqrstuvwxyz"  # m, n and k are those of the matrices


def _of_matmul(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[str, str, str]:
    batch = max(len(a), len(b)) - 2
    letters = _LETTERS[: max(batch, 0)]

    def lead(shape: tuple[int, ...], other: tuple[int, ...], alone: str) -> str:
        own = shape[:-2] if len(shape) > 1 else ()
        text = letters[len(letters) - len(own) :]
        beside = other[:-2] if len(other) > 1 else ()
        found = ""
        for back, letter in enumerate(reversed(text), 1):
            meets = beside[-back] if back <= len(beside) else own[-back]
            stretched = own[-back] == 1 and meets != 1
            found = (alone[back] if stretched else letter) + found
        return found

    left = lead(a, b, "ABCDEFGHIJ") + ("mk" if len(a) > 1 else "k")
    right = lead(b, a, "KLMNOPQRST") + ("kn" if len(b) > 1 else "k")
    out = letters + ("m" if len(a) > 1 else "") + ("n" if len(b) > 1 else "")
    return left, right, out


@rule("matmul", "mm", "bmm", "mv", "dot", "__matmul__", "__rmatmul__")
def matmul(call: Call, given: list[Placement]) -> Any:
    """A product is Partial where it sums over what is divided."""
    left, right, out = _of_matmul(*call.shapes)
    return multiplied(call, given, [left, right], out)


@rule("addmm", "baddbmm", "addmv")
def addmm(call: Call, given: list[Placement]) -> Any:
    """What is added to a Partial product must be Partial as well."""
    left, right, out = _of_matmul(call.shapes[1], call.shapes[2])
    own = call.shapes[0]
    addend = "".join(
        letter if size == whole else "#"
        for letter, size, whole in zip(out[len(out) - len(own) :], own, call.outs[0][-len(own) :]
                                       if own else (), strict=True)
    )  # fmt: skip
    return multiplied(call, given, [addend, left, right], out, added=0)


@rule("linear")
def linear(call: Call, given: list[Placement]) -> Any:
    """A layer's rows give a divided result, its columns a Partial one."""
    batch = _LETTERS[: len(call.shapes[0]) - 1]
    if len(call.shapes[1]) != 2:
        return [Replicate()] * len(given), Replicate()
    terms = [batch + "k", "nk", "n"][: len(given)]
    return multiplied(call, given, terms, batch + "n", added=2 if len(given) == 3 else None)
