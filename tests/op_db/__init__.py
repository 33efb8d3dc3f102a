"""The op database: one row per op, from which most tests, and the benchmarks, are generated.

A new op gets one row in the file of its family (see ``op_db.row.Op`` for the fields); the tests in
``test_ops.py``, ``test_op_gradients.py``, ``test_parity.py`` and ``test_bad_input.py`` follow from
it.
"""

from dataclasses import replace

from op_db import (
    activation,
    arithmetic,
    composed,
    conv,
    create,
    fft,
    index,
    linalg,
    matmul,
    pointwise,
    pooling,
    random,
    reduce,
    select,
    sort,
    special,
    views,
)

FAMILIES = {
    "pointwise": pointwise.ROWS + activation.ROWS + arithmetic.ROWS + select.ROWS + special.ROWS,
    "reduce": reduce.ROWS,
    "views": views.ROWS,
    "matmul": matmul.ROWS,
    "linalg": linalg.ROWS,
    "index": index.ROWS,
    "sort": sort.ROWS,
    "conv": conv.ROWS,
    "pooling": pooling.ROWS,
    "fft": fft.ROWS,
    "create": create.ROWS,
    "random": random.ROWS,
    "composed": composed.ROWS,
}

OPS = tuple(replace(op, family=family) for family, rows in FAMILIES.items() for op in rows)

BY_NAME = {op.name: op for op in OPS}
