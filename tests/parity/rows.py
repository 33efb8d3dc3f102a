"""Compares the library with PyTorch over PyTorch's own op database, and says what differs.

    python tests/parity/rows.py --all                  the long form: every sample of every row
    python tests/parity/rows.py add nn.functional.relu only these rows
    python tests/parity/rows.py --all --dtypes float64,int64 --json found.jsonl

Each row runs in a process of its own, so that a crash is a finding, not the end.
"""

import argparse
import json
import os
import re
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from library import torch

from parity import deviations, samples, translate
from parity.compare import Refused, Rule, attempt, difference, flat, is_tensor
from parity.pytorch_ops import databases, infos, pytorch
from parity.samples import DTYPES, copied
from parity.translate import MissingName, here

SECONDS_PER_ROW = 600
# In the short form other strides and sizes are tried with these dtypes alone.
VARIED = ("float64", "bfloat16", "int64", "bool")


class Forms:
    """The forms of a row's function in both libraries: function, method, in place."""

    def __init__(self, info):
        self.info = info
        self.pairs = {"function": (self.function(), info.op)}
        for form, theirs in (("method", info.method_variant), ("inplace", info.inplace_variant)):
            if theirs is not None:
                try:
                    self.pairs[form] = (translate.function_here(theirs), theirs)
                except MissingName:
                    self.pairs[form] = (None, theirs)

    def function(self):
        info = self.info
        try:
            return translate.function_here(info.op)
        except MissingName:
            try:
                return translate.resolve_here(info.name)
            except MissingName:
                return None


def run(function, args, kwargs, process=None):
    """Return what a call gives after the same seed in either library."""
    torch.manual_seed(0)
    pytorch.manual_seed(0)
    answer = attempt(lambda: function(*args, **kwargs))
    if process is not None and not isinstance(answer, Refused):
        processed = attempt(lambda: process(answer))
        answer = answer if isinstance(processed, Refused) else processed
    return answer


def is_random(info):
    """Whether values are drawn, or left as they lie in memory: there is nothing to compare."""
    code = getattr(info.op, "__code__", None)
    drawn = code is not None and {"wrapper_set_seed", "seed"} & set(code.co_names)
    return bool(drawn) or "empty" in info.name or info.name in RANDOM


# Rows whose results are drawn although nothing in the row says so.
RANDOM = {
    "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "normal", "uniform",
    "nn.functional.dropout2d", "nn.functional.dropout3d", "rand_like", "randn_like", "randint",
    "randint_like", "randn", "multinomial", "nn.functional.rrelu", "native_dropout_backward",
    "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d", "rand",
    "svd_lowrank", "pca_lowrank", "resize_", "resize_as_",
}  # fmt: skip
# Rows that choose one of several equal elements, and say its index.
TIED = {
    "sort",
    "argsort",
    "topk",
    "kthvalue",
    "mode",
    "median",
    "nanmedian",
    "msort",
    "max:reduction_with_dim",
}
# Rows of factorizations: a singular matrix has many, and rounding chooses.
FACTORIZATIONS = re.compile(
    r"linalg|svd|qr|lu|cholesky|pinverse|geqrf|ormqr|orgqr|triangular_solve|logdet|det|inverse"
    r"|matrix_exp|pca_lowrank|norm:nuc"
)


def rule_of(info, call, dtype=""):
    """Return what is compared of a call."""
    elementwise = isinstance(info, elementwise_rows())
    return Rule(
        values=not is_random(info),
        spread=0 if elementwise else 1,
        infinities=call.kind != "extreme" or samples.is_of_one_number(call),
        untied=info.name not in TIED,
        dtype=dtype,
    )


def elementwise_rows():
    core = databases().opinfo.core
    return core.UnaryUfuncInfo, core.BinaryUfuncInfo


def is_empty(answer):
    parts = [part for part in flat(answer) if is_tensor(part)]
    return not isinstance(answer, Refused) and parts and all(p.numel() == 0 for p in parts)


def compare_call(info, pair, call):
    """Return how the answers of a form differ, the arguments that it wrote to included."""
    mine, theirs = pair
    their_args, their_kwargs = copied(call.args), copied(call.kwargs)
    my_args, my_kwargs = here(call.args), here(call.kwargs)
    process, my_process = processes(call)
    rule = rule_of(info, call)
    expected = run(theirs, their_args, their_kwargs, process)
    answer = run(mine, my_args, my_kwargs, my_process)
    if isinstance(answer, Refused) and is_empty(expected) and "not implemented" in repr(answer):
        return ""  # With nothing to compute, PyTorch never gets to look at the dtype.
    found = difference(answer, expected, rule)
    if not found and rule.values and not isinstance(expected, Refused):
        written = difference((my_args, my_kwargs), (their_args, their_kwargs), rule)
        found = f"arguments: {written}" if written else ""
    return found


def processes(call):
    """Return what makes results comparable, in both libraries: signs of vectors, and the like."""
    try:
        return call.process, translate.function_here(call.process) if call.process else None
    except MissingName:
        return None, None


def leaves_of(value):
    return [x for x in flat(value) if is_tensor(x) and x.requires_grad]


def cotangents(results, library):
    found = []
    for y in results:
        weights = library.linspace(0.5, 1.5, max(1, y.numel()), dtype=library.float64)
        if y.numel() == 0:
            weights = weights[:0]
        if y.dtype.is_complex:
            weights = weights * (1 + 0.5j)
        found.append(weights.reshape(tuple(y.shape)).to(y.dtype))
    return found


def swept(function, args, kwargs, process, library):
    """Return the gradients of a call's results, and those of the gradients."""
    leaves = leaves_of((args, kwargs))
    answer = run(function, args, kwargs, process)
    if isinstance(answer, Refused):
        return answer, answer
    results = [y for y in flat(answer) if is_tensor(y) and y.requires_grad]
    if not results:
        return (), ()
    weights = cotangents(results, library)
    first = attempt(lambda: library.autograd.grad(
        results, leaves, weights, allow_unused=True, create_graph=True))  # fmt: skip
    if isinstance(first, Refused):
        return first, first
    live = [g for g in first if g is not None and g.requires_grad]
    plain = [None if g is None else g.detach() for g in first]
    if not live:
        return plain, ()
    weights = cotangents(live, library)
    second = attempt(lambda: library.autograd.grad(live, leaves, weights, allow_unused=True))
    return plain, second


def zeros_for_none(grads, args):
    """Return gradients with zeros for those that are not connected."""
    leaves = leaves_of(args)
    return [
        torch.zeros(tuple(x.shape)).to(translate.dtype_here(x.dtype)) if g is None else g
        for g, x in zip(grads, leaves, strict=True)
    ]


def compare_gradients(pair, call):
    mine, theirs = pair
    their_args, their_kwargs = copied(call.args), copied(call.kwargs)
    my_args, my_kwargs = here(call.args), here(call.kwargs)
    process, mine_process = processes(call)
    expected = swept(theirs, their_args, their_kwargs, process, pytorch)
    answer = swept(mine, my_args, my_kwargs, mine_process, torch)
    for order, (a, b) in enumerate(zip(answer, expected, strict=True), start=1):
        if isinstance(b, Refused):
            return ""  # PyTorch has no gradient here: nothing to compare with
        if isinstance(a, Refused):
            return f"grad{order}: {a!r}"
        if not b and not a:
            continue
        leaves = leaves_of((their_args, their_kwargs))
        if order == 2:
            b = b or [None] * len(leaves)
            a = a or [None] * len(leaves)
        if order == 1 and bool(a) != bool(b):
            return f"grad1: {'no ' if not a else ''}gradients here"
        if order == 1:
            missing = [(x is None) != (y is None) for x, y in zip(a, b, strict=True)]
            if any(missing):
                return f"grad1: None for some input in one library only {missing}"
        filled = [x if x is not None else zero_like(y) for x, y in zip(a, leaves, strict=True)]
        wanted = [
            x if x is not None else pytorch.zeros_like(y) for x, y in zip(b, leaves, strict=True)
        ]
        found = difference(filled, wanted, Rule(strides=False, factor=10, spread=1))
        if found:
            return f"grad{order}: {found}"
    return ""


def zero_like(theirs):
    return torch.zeros(tuple(theirs.shape), dtype=translate.dtype_here(theirs.dtype))


def out_difference(info, pair, call, dtype=None):
    """Return how results written into `out` differ, from empty tensors of the right dtype."""
    mine, theirs = pair
    expected = run(theirs, copied(call.args), copied(call.kwargs))
    if isinstance(expected, Refused):
        return ""
    plain = [y for y in flat(expected) if isinstance(y, pytorch.Tensor)]
    outs = [pytorch.empty(0, dtype=dtype or y.dtype) for y in plain]
    if not outs:
        return ""
    tupled = isinstance(expected, tuple | list)
    my_outs = [torch.empty(0, dtype=translate.dtype_here(o.dtype)) for o in outs]
    their_kwargs = {**copied(call.kwargs), "out": tuple(outs) if tupled else outs[0]}
    my_kwargs = {**here(call.kwargs), "out": tuple(my_outs) if tupled else my_outs[0]}
    process, my_process = processes(call)
    expected = run(theirs, copied(call.args), their_kwargs, process)
    answer = run(mine, here(call.args), my_kwargs, my_process)
    return difference(answer, expected, rule_of(info, call, samples.least_precise(call, plain)))


def compare_row(name, dtype, most):
    """Yield (form, call, difference) for each difference in a row and a dtype."""
    info = infos()[name]
    forms = Forms(info)
    if forms.pairs["function"][0] is None:
        yield "function", "", "missing"
        return
    yield from compare_values(info, forms, dtype, most)
    if has_gradients(info, dtype):
        calls = samples.from_info(info, dtype, requires_grad=True)
        for call in samples.spread(calls, most):
            yield "gradient", call, guarded(compare_gradients, forms.pairs["function"], call)


def has_gradients(info, dtype):
    if dtype not in ("float64", "complex128") or not info.supports_autograd or is_random(info):
        return False
    return getattr(pytorch, dtype) in info.supported_backward_dtypes("cpu")


def compare_values(info, forms, dtype, most):
    calls = samples.from_info(info, dtype)
    chosen = samples.spread(calls, most)
    few = None if most is None else max(1, most // 2)
    varied = samples.variations(calls, dtype, 6 if few is None else few)
    if FACTORIZATIONS.match(info.name):
        varied = [call for call in varied if call.kind not in ("extreme", "expanded", "emptied")]
    if most is not None and dtype not in VARIED:
        varied = [call for call in varied if call.kind == "extreme"]
    if most is None:
        chosen = chosen + samples.spread(samples.from_info(info, dtype, reference=True), 60)
    for form, pair in forms.pairs.items():
        if pair[0] is None:
            yield form, "", f"missing: {form}"
            continue
        # The forms of one function share its kernel: in the short form its samples are enough.
        others = varied if most is None or form == "function" else []
        for call in [*chosen, *others]:
            yield form, call, guarded(compare_call, info, pair, call)
    if dtype == "float32":
        for call in samples.refused(info):
            pair = forms.pairs["function"]
            yield "refused", call, guarded(compare_call, info, pair, call)
    if info.supports_out:
        for call in samples.spread(chosen, few):
            pair = forms.pairs["function"]
            yield "out", call, guarded(out_difference, info, pair, call)
            other = pytorch.int64 if dtype[0] in "fc" else pytorch.float64
            yield "out_other", call, guarded(out_difference, info, pair, call, other)


def guarded(function, *args):
    try:
        return function(*args)
    except MissingName as error:
        return f"missing: {error}"


# ---- the long form ------------------------------------------------------------------------------


def rows_of(options):
    return options.rows or sorted(name for name in infos() if not deviations.is_left_out(name))


def child(name, options, path):
    """Compare a row, writing what differs to a file."""
    signal.alarm(SECONDS_PER_ROW)
    os.nice(5)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    most = None if options.all else options.most
    with Path(path).open("a", encoding="utf-8") as file:
        for dtype in options.dtypes:
            count = 0
            file.write(json.dumps([name, dtype, "begin", "", ""]) + "\n")
            file.flush()
            try:
                for form, call, found in compare_row(name, dtype, most):
                    count += 1
                    if found:
                        file.write(json.dumps([name, dtype, form, repr(call), found]) + "\n")
                        file.flush()
            except Exception as error:
                text = f"harness: {type(error).__name__}: {error}"
                file.write(json.dumps([name, dtype, "harness", "", text]) + "\n")
            file.write(json.dumps([name, dtype, "end", "", count]) + "\n")


def compare_in_process(name, options):
    """Return the findings of a row, the end of its process included, and the number of calls."""
    with tempfile.NamedTemporaryFile() as file:
        process = os.fork()
        if process == 0:
            status = 1
            try:
                child(name, options, file.name)
                status = 0
            finally:
                os._exit(status)
        _, status = os.waitpid(process, 0)
        lines = [json.loads(line) for line in Path(file.name).read_text("utf-8").splitlines()]
    found = [line for line in lines if line[2] not in ("begin", "end")]
    count = sum(line[4] for line in lines if line[2] == "end")
    if status:
        last = lines[-1] if lines else [name, "", "", "", ""]
        found.append([name, last[1], "crash", last[3], f"crash: status {status}"])
    return found, count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], fromfile_prefix_chars="@")
    parser.add_argument("rows", nargs="*")
    parser.add_argument("--all", action="store_true", help="every sample")
    parser.add_argument("--most", type=int, default=4, help="samples of a row and dtype")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--json", help="append findings to this file")
    parser.add_argument("--raw", action="store_true", help="show what deviations.py explains, too")
    parser.add_argument("--quiet", action="store_true")
    options = parser.parse_args()
    options.dtypes = options.dtypes.split(",")
    torch.set_num_threads(1)
    pytorch.set_num_threads(1)
    databases()
    kinds, calls, begun = Counter(), 0, time.monotonic()
    for name in rows_of(options):
        found, count = compare_in_process(name, options)
        calls += count
        explained = [deviations.find(*line) for line in found]
        unneeded = [each for each in deviations.of_row(name) if each not in explained]
        if not options.raw:
            pairs = zip(found, explained, strict=True)
            found = [line for line, reason in pairs if reason is None]
        if options.all:  # fewer samples need not meet every deviation
            found += [[name, "", "unneeded", "", f"unneeded: {each.reason}"] for each in unneeded]
        kinds.update(line[4].split(":")[0] for line in found)
        if options.json:
            with Path(options.json).open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in found)
        if not options.quiet:
            for line in found:
                print(" | ".join(map(str, line)), flush=True)
    minutes = (time.monotonic() - begun) / 60
    print(f"{calls} comparisons in {minutes:.1f} min: {dict(kinds)}")
    return 1 if kinds else 0


if __name__ == "__main__":
    sys.exit(main())
