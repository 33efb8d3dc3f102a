"""Matrix products: square, skinny, transposed, batched, in both precisions."""

from __future__ import annotations

from benchmarks.case import Benchmark, Case

_SQUARE = (64, 128, 256, 512, 1024, 2048)

# name -> (shape of a, shape of b, statement)
_OTHERS = {
    "skinny_inner_4096x16x4096": ((4096, 16), (16, 4096), "a @ b"),
    "skinny_outer_16x4096x16": ((16, 4096), (4096, 16), "a @ b"),
    "skinny_batch_32x1024x1024": ((32, 1024), (1024, 1024), "a @ b"),
    "skinny_one_row_1x1024x1024": ((1, 1024), (1024, 1024), "a @ b"),
    "matrix_vector_2048": ((2048, 2048), (2048,), "a @ b"),
    "dot_1M": ((1 << 20,), (1 << 20,), "a @ b"),
    "transposed_left_512": ((512, 512), (512, 512), "a.t() @ b"),
    "transposed_right_512": ((512, 512), (512, 512), "a @ b.t()"),
    "transposed_both_512": ((512, 512), (512, 512), "a.t() @ b.t()"),
    "linear_64x256x256": ((64, 256), (256, 256), "torch.addmm(bias, a, b.t())"),
    "batched_64x64x64x64": ((64, 64, 64), (64, 64, 64), "a @ b"),
    "batched_512x16x16x16": ((512, 16, 16), (512, 16, 16), "torch.bmm(a, b)"),
    "batched_8x256x256x256": ((8, 256, 256), (8, 256, 256), "torch.bmm(a, b)"),
    "batched_transposed_64x64x64x64": ((64, 64, 64), (64, 64, 64), "a @ b.transpose(1, 2)"),
    "batched_shared_right_32x64x128x128": ((32, 64, 128), (128, 128), "a @ b"),
}


def cases(table: object) -> list[Benchmark]:
    shapes = {f"square_{n}": ((n, n), (n, n), "a @ b") for n in _SQUARE} | _OTHERS
    found: list[Benchmark] = []
    for dtype in ("float32", "float64"):
        for name, (shape_a, shape_b, statement) in shapes.items():
            setup = (
                f"a = uniform(*{shape_a}, dtype={dtype!r})\n"
                f"b = uniform(*{shape_b}, dtype={dtype!r})\n"
                f"bias = uniform(256, dtype={dtype!r})\n"
            )
            found.append(
                Case(
                    "matmul",
                    f"{name}.{dtype}",
                    statement,
                    setup,
                    quick=name != "square_2048",
                )
            )
    return found
