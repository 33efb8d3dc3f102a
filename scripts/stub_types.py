"""What scripts/make_stubs.py must be told: types that the native module does not state itself."""

import re

# Results of functions and methods whose docstring or binding says no more than "object" or "tuple".
RESULTS = {
    **{
        name: f"_return_types.{name}"
        for name in [
            "cummax",
            "cummin",
            "kthvalue",
            "max",
            "median",
            "min",
            "mode",
            "sort",
            "topk",
            "aminmax",
            "frexp",
            "histogram",
            "histogramdd",
            "geqrf",
            "qr",
            "slogdet",
            "svd",
            "triangular_solve",
        ]
    },
    **dict.fromkeys(
        [
            "chunk",
            "split",
            "split_with_sizes",
            "tensor_split",
            "unbind",
            "unsafe_chunk",
            "unsafe_split",
            "unsafe_split_with_sizes",
            "where",
        ],
        "tuple[Tensor, ...]",
    ),
    **dict.fromkeys(
        [
            "as_subclass",
            "ccol_indices",
            "coalesce",
            "col_indices",
            "crow_indices",
            "indices",
            "row_indices",
            "sparse_resize_",
            "sparse_resize_and_clear_",
            "values",
            "_coalesced_",
            "_indices",
            "_values",
        ],
        "Tensor",
    ),
    "_nnz": "builtins.int",
    "is_coalesced": "builtins.bool",
    "item": "Number",
    "lu": "tuple[Tensor, ...]",
    "storage": "TypedStorage",
    "__array__": "ndarray[Any, Any]",
    "__copy__": "UntypedStorage",
    "numpy": "ndarray[Any, Any]",
    "_sequence_nr": "builtins.int",
    "name": "str",
    "element_size": "builtins.int",
}

# Whole signatures, of methods as `Class.name`: those whose result depends on an argument, and
# those whose arguments nothing states.
_UNIQUE = "sorted: builtins.bool = True, "
_DIM = "dim: builtins.int | None = None"


def _unique(first: str, ordered: str) -> list[str]:
    """Return the forms of `unique`, by the number of its results."""
    inverse, counts = "return_inverse: ", "return_counts: "
    yes, no, no_default = "Literal[True]", "Literal[False]", "Literal[False] = False"
    pair = "tuple[Tensor, Tensor]"
    order = ordered and "sorted: builtins.bool, "
    return [
        f"({first}, {ordered}{inverse}{no_default}, {counts}{no_default}, {_DIM}) -> Tensor",
        f"({first}, {ordered}*, {inverse}{yes}, {counts}{yes}, {_DIM}) -> {pair[:-1]}, Tensor]",
        f"({first}, {ordered}*, {inverse}{yes}, {counts}{no_default}, {_DIM}) -> {pair}",
        f"({first}, {ordered}*, {inverse}{no_default}, {counts}{yes}, {_DIM}) -> {pair}",
        f"({first}, {order}{inverse}{yes}, {counts}{yes}, {_DIM}) -> {pair[:-1]}, Tensor]",
        f"({first}, {order}{inverse}{yes}, {counts}{no_default}, {_DIM}) -> {pair}",
        f"({first}, {order}{inverse}{no}, {counts}{yes}, {_DIM}) -> {pair}",
        f"({first}, {ordered}{inverse}builtins.bool = ..., {counts}builtins.bool = ..., {_DIM})"
        " -> Any",
    ]


def _nonzero(first: str) -> list[str]:
    return [
        f"({first}, *, as_tuple: Literal[False] = False, out: Tensor | None = None) -> Tensor",
        f"({first}, *, as_tuple: Literal[True], out: None = None) -> tuple[Tensor, ...]",
        f"({first}, *, as_tuple: builtins.bool, out: Tensor | None = None) -> Any",
    ]


SIGNATURES = {
    "Tensor.nonzero": _nonzero("self"),
    "nonzero": _nonzero("input: Tensor"),
    "Tensor.unique": _unique("self", _UNIQUE),
    "unique": _unique("input: Tensor", _UNIQUE),
    "Tensor.unique_consecutive": _unique("self", ""),
    "Tensor.size": [
        "(self, dim: None = None) -> Size",
        "(self, dim: builtins.int) -> builtins.int",
    ],
    "Tensor.stride": [
        "(self, dim: None = None) -> tuple[builtins.int, ...]",
        "(self, dim: builtins.int) -> builtins.int",
    ],
    "Tensor.type": [
        "(self, dtype: None = None, non_blocking: builtins.bool = False, *, "
        "memory_format: _memory_format | None = None) -> str",
        "(self, dtype: _dtype | str | builtins.type[Any], non_blocking: builtins.bool = False, *, "
        "memory_format: _memory_format | None = None) -> Tensor",
    ],
    "Tensor.to": [
        "(self, dtype: _dtype, non_blocking: builtins.bool = False, copy: builtins.bool = False, "
        "*, memory_format: _memory_format | None = None) -> Tensor",
        "(self, device: Device = None, dtype: _dtype | None = None, "
        "non_blocking: builtins.bool = False, copy: builtins.bool = False, *, "
        "memory_format: _memory_format | None = None) -> Tensor",
        "(self, other: Tensor, non_blocking: builtins.bool = False, copy: builtins.bool = False, "
        "*, memory_format: _memory_format | None = None) -> Tensor",
    ],
    "Tensor.__iter__": ["(self) -> Iterator[Tensor]"],
    "Tensor._make_subclass": [
        "(cls: builtins.type[Any], data: Tensor, require_grad: builtins.bool = False) -> Any"
    ],
    "UntypedStorage.from_buffer": [
        "(buffer: Any, byte_order: str = 'native', *, count: builtins.int = -1, "
        "offset: builtins.int = 0, dtype: Any = None) -> UntypedStorage"
    ],
    "UntypedStorage.from_file": [
        "(filename: Any, shared: builtins.bool = False, nbytes: builtins.int = 0) -> UntypedStorage"
    ],
    **{
        f"Tensor.{name}": ["(self) -> Tensor"]
        for name in [
            "_indices",
            "_values",
            "ccol_indices",
            "coalesce",
            "col_indices",
            "crow_indices",
            "indices",
            "row_indices",
            "values",
        ]
    },
    "Tensor._coalesced_": ["(self, coalesced: builtins.bool) -> Tensor"],
    "Tensor._nnz": ["(self) -> builtins.int"],
    "Tensor.is_coalesced": ["(self) -> builtins.bool"],
    **{
        f"Tensor.{name}": [
            "(self, size: Sequence[builtins.int], sparse_dim: builtins.int, "
            "dense_dim: builtins.int) -> Tensor"
        ]
        for name in ("sparse_resize_", "sparse_resize_and_clear_")
    },
    "Node._sequence_nr": ["(self) -> builtins.int"],
    "Node.name": ["(self) -> str"],
}

PROPERTIES = {
    "H": "Tensor",
    "T": "Tensor",
    "mH": "Tensor",
    "mT": "Tensor",
    "imag": "Tensor",
    "real": "Tensor",
    "_base": "Tensor | None",
    "_cdata": "builtins.int",
    "_version": "builtins.int",
    "data": "Tensor",
    "device": "_device",
    "dtype": "_dtype",
    "grad": "Tensor | None",
    "grad_fn": "Node | None",
    "layout": "_layout",
    "metadata": "dict[Any, Any]",
    "next_functions": "tuple[tuple[Node | None, builtins.int], ...]",
    "output_nr": "builtins.int",
    "shape": "Size",
    "source_line": "str",
    "variable": "Tensor",
    "is_leaf": "builtins.bool",
    "is_quantized": "builtins.bool",
    "is_sparse": "builtins.bool",
    "itemsize": "builtins.int",
    "nbytes": "builtins.int",
    "ndim": "builtins.int",
    "requires_grad": "builtins.bool",
    "retains_grad": "builtins.bool",
}
PROPERTIES |= dict.fromkeys(
    [
        "is_cpu",
        "is_cuda",
        "is_ipu",
        "is_maia",
        "is_meta",
        "is_mkldnn",
        "is_mps",
        "is_mtia",
        "is_nested",
        "is_sparse_csr",
        "is_vulkan",
        "is_xla",
        "is_xpu",
    ],
    "builtins.bool",
)

_PARAMETERS = {
    "tuple": "tuple[Any, ...]",
    "list": "list[Any]",
    "dict": "dict[Any, Any]",
    "Callable": "Callable[..., Any]",
    "Sequence": "Sequence[Any]",
    "Iterable": "Iterable[Any]",
}
_BARE = re.compile(rf"(?<![\w.])({'|'.join(_PARAMETERS)})(?![\w\[.(])")


def with_parameters(annotation: str) -> str:
    """Return an annotation in which `tuple` is `tuple[Any, ...]`, and so on."""
    return _BARE.sub(lambda found: _PARAMETERS[found[1]], annotation)


def result_type(name: str, stated: str) -> str:
    """Return the type of a result, where what its own signature states is too little."""
    too_little = ("Any", "tuple[Any, ...]", "object")
    return RESULTS.get(name, stated) if stated in too_little else stated
