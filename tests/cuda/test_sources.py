"""The files of kernels compile for every architecture, with no GPU in the machine."""

import re

import pytest
from test_cuda_source import ARCHITECTURES, check_compiles, compile_program, needs_nvrtc

from tapegrad.cuda import _kernels, pointwise_source

FLOATS, HALVES = ("float", "double"), ("Half", "BFloat16")
POOLED = (
    *((s, "false, 1") for s in FLOATS),
    *((s, "true, 4") for s in HALVES),
    ("int64", "true, 1"),
)
NUMBERS = (*FLOATS, *HALVES, "unsigned char", "int", "int64")
PLACES = [("int", "int"), ("int", "int64"), ("int64", "int64")]  # as stored, as computed
CONVOLUTIONS = ("conv", "conv_grad_input", "conv_grad_weight")
CELLS = ("lstm", "gru", "tanh", "relu")
# Rules of reductions, over what is read and what is written.
FOLDS = ("Sum<float, float>", "Sum<bool, int64>", "Mean<Half, Half>", "Prod<double, double>")
FOLDS += ("Max<BFloat16, BFloat16>", "Min<unsigned char, unsigned char>", "Any<int, bool>")
FOLDS += ("All<float, bool>", "HasZero<int64, bool>", "CountNonzero<short, int64>")
FOLDS += ("AbsSum<float, float>", "SquareSum<float, float>", "AbsMax<double, double>")
FOLDS += ("AbsMin<float, float>", "ArgMax<float, float>", "ArgMin<signed char, signed char>")
FOLDS += ("Moments<float, float>", "Moments<double, double>", "LogSumExp<float, float>")
SCANS = (
    "Sum<float>",
    "Sum<int64>",
    "Prod<Half>",
    "LogSumExp<BFloat16>",
    "Max<double>",
    "Min<float>",
)
PASSES = ("kBoth", "kOnlyStates", "kOnlyResults")
# Kernels that blocks of many threads run, and how many: each may take its share of the registers.
SOFTMAX_ROWS = tuple(
    f"softmax_rows{way}<{s}, {log}, false, {shape}>"
    for way in ("", "_backward")
    for log in ("false", "true")
    for s, shape in (("float", "4, 8"), ("float", "1, 16"), ("double", "2, 8"), ("double", "1, 8"))
)
LAYER_ROWS = tuple(
    f"layer_norm_rows<{s}, false, {shape}>"
    for s, shape in (("float", "4, 4"), ("float", "1, 8"), ("double", "2, 4"), ("double", "1, 4"))
)
MERGED_LAYER_ROWS = tuple(
    f"merged_layer_norm_rows<{s}, false, {shape}, {adds}, {r}, {casts}, {h}>"
    for s, shape, adds, r, casts, h in (
        ("float", "4, 4", "true", "BFloat16", "true", "BFloat16"),
        ("float", "4, 4", "true", "float", "true", "Half"),
        ("float", "1, 8", "false", "float", "true", "Half"),
        ("float", "4, 4", "true", "Half", "false", "float"),
        ("BFloat16", "8, 2", "true", "BFloat16", "false", "BFloat16"),
    )
)
LAYER_BACKWARD_ROWS = tuple(
    f"layer_norm_backward_rows<{s}, false, {shape}, {sums}>"
    for s, shape in (("float", "4, 4"), ("float", "1, 8"), ("double", "2, 2"), ("double", "1, 2"))
    for sums in ("false", "true")
)
LAYER_BACKWARD_ROWS += tuple(
    f"layer_norm_backward_rows<float, false, 4, 4, {sums}, {adds}, {g}, true, {h}>"
    for sums, adds, g, h in (
        ("true", "true", "BFloat16", "BFloat16"),
        ("false", "true", "Half", "Half"),
        ("true", "false", "float", "BFloat16"),
    )
)
LOSS_ROWS = tuple(
    f"loss_of_rows<{s}, false, {shape}>"
    for s, shape in (("float", "4, 8"), ("float", "1, 16"), ("double", "2, 8"), ("double", "1, 8"))
)
LOSS_LINES = tuple(f"loss_of_lines<{s}>" for s in ("float, true, 4", "double, true, 1"))


def each(arguments, *calls):
    return [(arguments, call) for call in calls]


# What 16-bit floats are computed in.
COMPUTED = {"float": "float", "double": "double", "Half": "float", "BFloat16": "float"}
WORDS = ("unsigned char", "unsigned short", "unsigned", "uint64")
OPTIMIZERS = {
    "Sgd": 0,
    "SgdMomentum": 1,
    "Adam<false>": 2,
    "Adam<true>": 3,
    "RmsProp<false, false>": 1,
    "RmsProp<true, true>": 3,
    "Adagrad": 1,
    "Adadelta": 2,
    "Adamax": 2,
    "NAdam": 2,
    "RAdam": 2,
    "Asgd": 1,
    "Rprop": 2,
}


def random():
    for name in ("Uniform", "Normal", "LogNormal", "Exponential", "Cauchy"):
        yield "SampleArguments", f"sample<{name}<double>, double>"
        for stored in ("float", "Half", "BFloat16"):
            yield "SampleArguments", f"sample<{name}<float>, {stored}>"
    for stored in ("float", "double", "Half", "bool", "unsigned char", "int64"):
        for name in ("Integers<false>", "Integers<true>", "Bernoulli<false>", "Bernoulli<true>"):
            yield "SampleArguments", f"sample<{name}, {stored}>"
        for name in ("Geometric", "BernoulliEach<float>", "BernoulliEach<double>"):
            yield "SampleArguments", f"sample<{name}, {stored}>"
    for stored in COMPUTED:
        yield "PoissonArguments", f"poisson<{stored}>"


def multinomial():
    for function in ("accumulate", "draw_with_replacement", "draw_few"):
        yield "MultinomialArguments", function
    for function in ("start_race", "finish_race"):
        yield "RaceArguments", function
    for function in ("merge_far", "merge_near"):
        yield "SortArguments", function


def optimizer():
    for name, states in OPTIMIZERS.items():
        for stored, compute in COMPUTED.items():
            if name.startswith("Adam<") or stored in ("float", "double"):
                yield (
                    f"StepArguments<{compute}, {2 + states}, 72>",
                    f"optimizer_step<{name}, {stored}, 72>",
                )
        yield "PrepareArguments", f"prepare_step<{name}>"
        yield f"PreparedArguments<{2 + states}, 72>", f"prepared_step<{name}, float, 72>"


def compress():
    for stored in COMPUTED:
        for width in (4, 8):
            yield "QuantizeArguments", f"quantize<{stored}, {width}, 32>"
            yield "DequantizeArguments", f"dequantize<{stored}, {width}>"
        for store in ("true", "false"):
            yield "UnscaledArguments", f"copy_unscaled<{stored}, {store}>"
    for stored in ("float", "double"):
        yield "UnscaledArguments", f"count_unscaled<{stored}>"
        yield "RoundArguments", f"round_to_bfloat16<{stored}>"
    for word in WORDS:
        for second in ("true", "false"):
            yield "PairArguments", f"find_other<{word}, {second}>"
        yield "BitsArguments", f"pack_bits<{word}>"
        yield "BitsArguments", f"unpack_bits<{word}>"
    for stored in ("short", "int", "int64", "void"):
        yield "RangeArguments", f"integer_range<{stored}>"
    for word in WORDS[1:]:
        for code in WORDS[: WORDS.index(word)]:
            yield "NarrowArguments", f"narrow_integers<{word}, {code}>"
            yield "NarrowArguments", f"widen_integers<{word}, {code}>"
    for stored in ("int", "int64"):
        yield "PlacesArguments", f"pack_places<{stored}>"
        yield "PlacesArguments", f"unpack_places<{stored}>"


def indexing():
    """Yield the file, the arguments and the call of kernels that find elements by indices."""
    for geometry in ("NarrowGeometry<2, 3>", "WideGeometry<4, 3>"):
        lines = f"LineArguments<{geometry}>"
        for word in WORDS:
            yield "scatter.cu", lines, f"gather<{word}, {geometry}>"
        for stored in ("float", "bool"):
            for mode in ("kSet", "kAdd", "kMultiply", "kMaximum", "kMinimum"):
                yield "scatter.cu", lines, f"scatter_few<{stored}, {mode}, {geometry}>"
        for stored in ("float", "double", "int", "int64"):
            for mode in ("kAdd",) if stored in FLOATS else ("kSet", "kAdd", "kMaximum", "kMinimum"):
                call = f"scatter_in_any_order<{stored}, {mode}, {geometry}>"
                yield "scatter.cu", lines, call
        for stored, place in (("unsigned char", "unsigned"), ("int64", "uint64")):
            yield "scatter.cu", lines, f"scatter_places<{stored}, {place}, {geometry}>"
        yield "join.cu", f"TriangleArguments<{geometry}>", f"triangle<unsigned, {geometry}>"
    for stored, place in (("float", "unsigned"), ("Half", "uint64"), ("int64", "unsigned")):
        for mode in ("kSet", "kAdd", "kMaximum"):
            yield "meet.cu", "MeetArguments", f"meet<{stored}, {place}, {mode}>"
            yield "meet.cu", "MeetArguments", f"meet_across<{stored}, {place}, {mode}>"
    for split, columns, before, after in (
        ("NarrowSplit", 1, "NarrowGeometry<1, 1>", "NarrowGeometry<1, 1>"),
        ("WideSplit", 3, "NarrowGeometry<2, 1>", "WideGeometry<3, 1>"),
    ):
        index = f"IndexArguments<{split}, {columns}, {before}, {after}>"
        for unit in ("unsigned char", "unsigned", "Vector<uint64, 2>"):
            yield "index.cu", index, f"index_read<{unit}>"
        yield "index.cu", index, "index_places<short, unsigned>"
        yield "index.cu", index, "index_numbers<uint64>"
        for stored, mode in (("unsigned char", "kSet"), ("float", "kAdd"), ("int64", "kAdd")):
            yield "index.cu", index, f"index_in_any_order<{stored}, {mode}>"
        for stored, width in (("float", 4), ("double", 1), ("BFloat16", 8), ("int64", 2)):
            for mode in ("kSet", "kAdd"):
                yield "index.cu", index, f"index_write_few<{stored}, {mode}>"
                yield "index.cu", index, f"index_rows<{stored}, {mode}, unsigned, {width}>"
    for geometry in ("NarrowGeometry<2, 2>", "WideGeometry<3, 2>"):
        for call in ("embed<float", "embed<bool", "embed<Half", "embed_places<int, unsigned"):
            yield "join.cu", f"EmbedArguments<{geometry}>", f"{call}, {geometry}>"
    for unit in (*WORDS, "Vector<uint64, 2>"):
        yield "join.cu", "CatArguments<4>", f"cat<{unit}, false>"
    yield "join.cu", "CatArguments<64>", "cat<unsigned, true>"
    yield "join.cu", "RepeatArguments", "repeat_indices"
    for call in ("count_mask", "nonzero"):
        yield "mask.cu", "MaskArguments", call
    for word, width in zip(WORDS, (16, 8, 4, 1), strict=True):
        yield "mask.cu", "MaskArguments", f"masked_select<{word}>"
        yield "mask.cu", "MaskArguments", f"masked_scatter<{word}>"
        yield "mask.cu", "MaskedFillArguments", f"masked_fill<{word}, {width}>"


def sorting():
    """Yield the file, the arguments and the call of kernels that sort, search and count."""
    for stored in ("float", "double", "Half", "int", "bool"):
        yield "radix.cu", "RadixArguments", f"radix_count<{stored}>"
        yield "radix.cu", "RadixArguments", f"radix_move<{stored}, Numbered, unsigned>"
    yield "radix.cu", "RadixArguments", "radix_move<float, unsigned, int64>"
    for stored in (*NUMBERS, "bool", "signed char", "short"):
        yield "sort_rows.cu", "RowArguments", f"sort_short_rows<{stored}>"
        yield "sort_rows.cu", "MatrixArguments", f"sort_few_matrix_rows<{stored}>"
        yield "pick.cu", "PickArguments", f"pick_median<{stored}>"
        yield "pick.cu", "PickArguments", f"pick_mode<{stored}>"
        yield "select.cu", "SelectArguments", f"select_count<{stored}>"
        yield "select.cu", "SelectArguments", f"select_split<{stored}>"
        yield "select.cu", "SelectArguments", f"select_write<{stored}>"
        yield "search.cu", "SearchArguments", f"searchsorted<{stored}, int>"
        yield "search.cu", "SearchArguments", f"searchsorted<{stored}, int64>"
        yield "prefix.cu", "PrefixArguments", f"prefix<Changes<{stored}>>"
        yield "prefix.cu", "PrefixArguments", f"prefix_tiles<Changes<{stored}>>"
        yield "create.cu", "StepArguments", f"arange<{stored}>"
        yield "create.cu", "LinspaceArguments", f"linspace<{stored}>"
        yield "create.cu", "EyeArguments", f"eye<{stored}>"
    yield "radix.cu", "RadixArguments", "radix_scan"
    for key in ("unsigned", "uint64"):
        yield "radix.cu", "RadixArguments", f"radix_count<{key}>"
        for word in ("unsigned char", "uint64"):
            yield "radix.cu", "RadixArguments", f"radix_move<{key}, {word}, {word}>"
    for word in WORDS:
        yield "pick.cu", "PickArguments", f"pick_range<{word}>"
        yield "pick.cu", "ColumnArguments", f"take_column<{word}>"
    yield "search.cu", "CountArguments", "bincount"
    for call in ("prefix<Repeats>", "prefix_tiles<Repeats>", "prefix_of_tiles"):
        yield "prefix.cu", "PrefixArguments", call
    yield "prefix.cu", "RunArguments", "run_starts"
    for call in ("bounds", "total_repeats"):
        yield "prefix.cu", "WholeArguments", call


def by_file(instances):
    """Return the instances of each of several files."""
    files = {}
    for name, arguments, call in instances:
        files.setdefault(name, []).append((arguments, call))
    return files


# Of the instances that csrc/cuda asks for, those that differ: arguments and call.
INSTANCES = {
    "matmul.cu": each(
        "ProductArguments", *(f"product<{s}, {per}>" for s in NUMBERS for per in (1, 4))
    ),
    "vector_product.cu": each(
        "VectorArguments",
        *(f"vector_rows<{s}>" for s in ("float, 256, 4", "Half, 32, 8", "int64, 256, 1")),
        *(f"vector_columns<{s}>" for s in ("float, 4", "BFloat16, 8", "signed char, 16")),
        *(f"vector_parts<{s}>" for s in ("float", "double", "BFloat16", "int64")),
    ),
    "pooling.cu": [
        *each(
            "PoolArguments",
            *(
                f"max_pool<{s}, {p}, {i}, {warps}, {last}>"
                for s, last in POOLED
                for p, i in PLACES
                for warps in ("true", "false")
            ),
            *(
                f"avg_pool<{s}, {i}, {warps}, {last}>"
                for s, last in POOLED
                for i in ("int", "int64")
                for warps in ("true", "false")
            ),
            *(
                f"avg_pool_backward<{s}, {i}, {last}>"
                for s, last in POOLED[:-1]
                for i in ("int", "int64")
            ),
            *(
                f"max_pool_backward<{s}, {p}, {i}, {last}>"
                for s, last in POOLED[:-1]
                for p, i in PLACES
            ),
        ),
        *each(
            "PlaneArguments",
            *(f"plane_gather<{s}, {p}>" for s in FLOATS for p in ("int", "int64")),
            *(f"plane_add<{s}, {p}>" for s in FLOATS for p in ("int", "int64")),
            *(f"plane_places<{s}, {p}>" for s in FLOATS for p in ("int", "int64")),
            *(f"plane_compete<{p}>" for p in ("int", "int64")),
            *(f"plane_take<{s}>" for s in FLOATS),
        ),
    ],
    "attention.cu": [
        *each(
            "AttentionArguments",
            *(
                f"{name}<{s}>"
                for name in ("attention", "attention_backward_query", "attention_backward_key")
                for s in ("float, 2", "double, 8", "Half, 1", "BFloat16, 4")
            ),
        ),
        *each("SeedArguments", "attention_seed"),
        *(
            (arguments, f"{name}<{s}, {m}>")
            for arguments, name in (
                ("BiasArguments", "attention_bias"),
                ("UnseenArguments", "attention_unseen"),
            )
            for s, m in (("Half", "bool"), ("BFloat16", "BFloat16"), ("Half", "float"))
        ),
        *each("BiasArguments", "attention_bias<float, float>"),
    ],
    "recurrent.cu": [
        *each("CellArguments", *(f"{cell}_cell<{s}>" for cell in CELLS for s in FLOATS)),
        *each(
            "CellBackwardArguments",
            *(f"{cell}_cell_backward<{s}>" for cell in CELLS for s in FLOATS),
        ),
        *each("ColumnSumArguments", *(f"column_sum<{s}>" for s in FLOATS)),
    ],
    "conv.cu": [
        *each(
            "ConvArguments",
            *(
                f"{name}<{s}>"
                for name in CONVOLUTIONS
                for s in ("float, int, 4", "double, int64, 1")
            ),
            *(f"{name}_few<{s}>" for name in CONVOLUTIONS for s in ("float, int", "double, int64")),
        ),
        *each("PartsArguments", *(f"add_parts<{s}>" for s in FLOATS)),
    ],
    "depthwise.cu": [
        *each(
            "DepthwiseArguments",
            *(
                f"depthwise<{s}, {side}, {stride}, {width}, {tile}, {channels}>"
                for s, width in (("BFloat16", 2), ("Half", 1), ("float", 2), ("double", 1))
                for side, stride, tile, channels in (
                    (7, 1, "14, 2", 384),
                    (7, 1, "7, 4", 0),
                    (5, 1, "14, 2", 0),
                    (3, 2, "7, 2", 96),
                    (7, 2, "7, 2", 0),
                )
            ),
            *(
                f"depthwise_grad_weight<{s}, {side}, {stride}, {width}, {columns}, {channels}>"
                for s, width in (("BFloat16", 2), ("Half", 1), ("float", 2), ("double", 1))
                for side, stride, columns, channels in (
                    (7, 1, 14, 384),
                    (5, 1, 7, 0),
                    (3, 2, 7, 96),
                )
            ),
            *(
                f"depthwise_any<{s}, {way}>"
                for s in (*FLOATS, *HALVES)
                for way in ("true", "false")
            ),
            *(f"depthwise_grad_weight_any<{s}>" for s in (*FLOATS, *HALVES)),
        ),
        *each(
            "DepthwisePartsArguments", *(f"add_depthwise_parts<{s}>" for s in (*FLOATS, *HALVES))
        ),
    ],
    "compress.cu": list(compress()),
    "multinomial.cu": list(multinomial()),
    "nextafter.cu": each("NeighbourArguments", "neighbours<Half>", "neighbours<BFloat16>"),
    "optimizer.cu": list(optimizer()),
    "random.cu": list(random()),
    **by_file(indexing()),
    **by_file(sorting()),
    "reduce.cu": [
        *each(
            "ReduceArguments<1>",
            *(f"reduce_rows<{rule}, 2>" for rule in FOLDS),
            *(f"reduce_columns<{rule}, 1>" for rule in FOLDS),
            *(f"reduce_parts<{rule}>" for rule in FOLDS[::4]),
        ),
        *each("ReduceArguments<4>", "reduce_rows<Sum<float, float>, 4>"),
        *each("ReduceArguments<64>", "reduce_columns<Sum<Half, Half>, 4>"),
    ],
    "softmax.cu": each(
        "SoftmaxArguments",
        *SOFTMAX_ROWS,
        "softmax_rows<float, false, true, 4, 4>",
        "softmax_rows_backward<double, true, true, 1, 4>",
        *(
            f"softmax_{walk}<{s}, {way}<{s}, {log}>, {width}{passes}>"
            for walk, width in (("long_rows", "2, "), ("columns", ""))
            for s, log in (("float", "false"), ("double", "true"))
            for way in ("Forward", "Backward")
            for passes in PASSES
        ),
    ),
    "cross_entropy.cu": each(
        "LossArguments",
        *LOSS_ROWS,
        *LOSS_LINES,
        "loss_of_rows<float, true, 4, 1>",
        *(f"loss_of_lines<{s}, false, 1>" for s in FLOATS),
        *(
            f"loss_{name}<{s}>"
            for name in ("total", "of_parts", "of_few", "backward_elements")
            for s in FLOATS
        ),
        *(f"loss_backward_rows<{s}>" for s in ("float, 4", "float, 1", "double, 2")),
    ),
    "layer_norm.cu": each(
        "LayerArguments",
        *LAYER_ROWS,
        *MERGED_LAYER_ROWS,
        *LAYER_BACKWARD_ROWS,
        *(
            f"layer_norm_{name}<{s}>"
            for name in ("long_rows", "backward_long_rows", "column_sums", "sums")
            for s in FLOATS
        ),
    ),
    "batch_norm.cu": [
        *each("ReduceArguments<4>", *(f"reduce_rows<BatchSums<{s}, {s}>, 2>" for s in FLOATS)),
        *each(
            "ReduceArguments<1>",
            *(f"reduce_columns<BatchSums<{s}, {s}>, 2>" for s in FLOATS),
            *(
                f"reduce_{walk}<{rule}<{s}, float>, 4>"
                for walk in ("rows", "columns")
                for rule in ("BatchSums", "HalfMoments")
                for s in HALVES
            ),
            *(f"reduce_parts<HalfMoments<{s}, float>>" for s in HALVES),
        ),
        *each(
            "BatchArguments",
            *(
                f"batch_norm_{walk}<{s}, Norm{way}<{p}>, {width}>"
                for s, p in (*((s, s) for s in FLOATS), *((s, "float") for s in HALVES))
                for walk in ("planes", "rows")
                for way in ("Forward", "Backward")
                for width in (1, 2 if s in FLOATS else 8)
            ),
            *(f"batch_norm_channels<NormBackward<{s}>>" for s in FLOATS),
        ),
    ],
    "scan.cu": each(
        "ScanArguments",
        *(
            f"scan_{walk}<{rule[rule.index('<') + 1 : -1]}, Scan{rule}, {shape}{passes}>"
            for rule in SCANS
            for walk, shape, passes in (
                ("rows", "false, 2, ", "kOnlyStates"),
                ("rows", "false, 1, ", "kOnlyResults"),
                ("columns", "", "kBoth"),
            )
        ),
        *(
            f"scan_tiles<{rule[rule.index('<') + 1 : -1]}, Scan{rule}, {shape}>"
            for rule, width in (("Sum<float>", 4), ("Sum<int64>", 2), ("Prod<Half>", 8))
            for shape in (f"{width}, false", "1, true")
        ),
        "scan_rows<float, ScanSum<float>, true, 4, kBoth>",
        "scan_rows<float, ScanRecurrence<float>, false, 4, kBoth>",
        "scan_rows<double, ScanRecurrence<double>, true, 1, kBoth>",
        "scan_columns<Half, ScanRecurrence<Half>, kBoth>",
    ),
    "transpose.cu": each(
        "TransposeArguments",
        *(f"transpose<{word}, 1, {64 if k < 2 else 32}>" for k, word in enumerate(WORDS)),
        "transpose<unsigned short, 4, 64>",
        "transpose<unsigned, 4, 32>",
        "transpose<uint64, 2, 32>",
    ),
    "clip.cu": [
        *each(
            "TotalNormArguments",
            *(f"total_norm_parts<{s}, Norm{p}<{s}>>" for s in FLOATS for p in ("One", "Infinity")),
        ),
        *each("NormOfPartsArguments", *(f"norm_of_parts<{s}, NormTwo<{s}>>" for s in FLOATS)),
        *each("ScaleArguments", "scale_pieces<float, float>", "scale_pieces<double, float>"),
        *each("UnscaleArguments", *(f"unscale_pieces<{s}>" for s in (*FLOATS, "Half", "BFloat16"))),
        *each("CastArguments", "cast_pieces<float, Half>", "cast_pieces<float, BFloat16>"),
        *each("UpdateScaleArguments", "update_scale"),
    ],
}

REGISTERS = 65536  # of a multiprocessor
# File, arguments, kernels, and the threads of the largest block that runs them.
LARGE_BLOCKS = {
    "softmax": ("softmax.cu", "SoftmaxArguments", SOFTMAX_ROWS, 512),
    "cross_entropy": ("cross_entropy.cu", "LossArguments", LOSS_ROWS + LOSS_LINES, 512),
    "layer_norm": ("layer_norm.cu", "LayerArguments", LAYER_ROWS, 512),
    "merged_layer_norm": ("layer_norm.cu", "LayerArguments", MERGED_LAYER_ROWS, 512),
    "layer_norm_backward": ("layer_norm.cu", "LayerArguments", LAYER_BACKWARD_ROWS, 384),
    "reduce_rows": (
        "reduce.cu",
        "ReduceArguments<64>",
        ("reduce_rows<Moments<double, double>, 2>", "reduce_rows<ArgMax<bool, bool>, 16>"),
        512,
    ),
}


def program(name, instances=None):
    """Return a program of all instances of a file, or of some."""
    kernels = [
        f"TAPEGRAD_KERNEL(kernel{k}, {arguments}) {{ {call}(arguments); }}\n"
        for k, (arguments, call) in enumerate(instances or INSTANCES[name])
    ]
    files = map(_kernels._file, _kernels._files(name))
    return pointwise_source.prelude() + "".join(files) + "".join(kernels)


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", INSTANCES)
def test_file_compiles(name, architecture):
    check_compiles(program(name), architecture)


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", LARGE_BLOCKS)
def test_registers_suffice_for_large_blocks(name, architecture, monkeypatch):
    file, arguments, calls, threads = LARGE_BLOCKS[name]
    options = (*pointwise_source.COMPILE_OPTIONS, "--ptxas-options=-v")
    monkeypatch.setattr(pointwise_source, "COMPILE_OPTIONS", options)
    text = program(file, each(arguments, *calls))
    compiled, log = compile_program(text, architecture)
    assert compiled, log
    used = re.findall(r"entry function 'kernel(\d+)'.*?Used (\d+) registers", log, re.DOTALL)
    assert len(used) == len(calls), log
    for k, count in used:
        granted = -(-int(count) // 8) * 8
        context = f"{calls[int(k)]} takes {count} registers on {architecture}"
        assert granted * threads <= REGISTERS, context
