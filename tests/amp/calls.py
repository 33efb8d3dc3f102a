"""Calls of every function that autocast knows, and of some that it does not, for any library.

A call is ``call(t, x)``: ``t`` is the library and ``x(*sizes)`` gives its next tensor.
"""

import numpy as np

CLASSES = [1, 0, 2]


class Maker:
    """Gives the tensors of a call: of float32, of the lower dtype, or of each in turn."""

    def __init__(self, library, kind, lower, device="cpu"):
        self.library = library
        self.dtypes = {
            "float32": ["float32"],
            "lower": [lower],
            "mixed": [lower, "float32"],
            "float64": ["float64"],
        }[kind]
        self.device = device
        self.made = []
        self.random = np.random.default_rng(0)

    def __call__(self, *sizes):
        array = self.random.uniform(0.1, 0.9, sizes)
        dtype = self.dtypes[len(self.made) % len(self.dtypes)]
        tensor = self.library.tensor(array.tolist(), dtype=getattr(self.library, dtype))
        self.made.append(tensor.to(self.device).requires_grad_())
        return self.made[-1]

    def classes(self, *sizes):
        """Return class numbers, which autocast leaves alone."""
        return self.of(np.resize(CLASSES, sizes).tolist())

    def of(self, numbers):
        """Return integers or truth values, which autocast leaves alone."""
        return self.library.tensor(numbers).to(self.device)


def functional(name, *sizes, **options):
    """Return the call of a function of nn.functional with tensors of these sizes."""
    return lambda t, x: getattr(t.nn.functional, name)(*(x(*size) for size in sizes), **options)


def function(name, *sizes, **options):
    return lambda t, x: getattr(t, name)(*(x(*size) for size in sizes), **options)


TRANSFORMS = (
    *("fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "ifft2", "rfft2", "irfft2"),
    *("fftn", "ifftn", "rfftn", "irfftn"),
)


def transform(name):
    """Return the call of a function of torch.fft, whose result is told by its parts."""

    def call(t, x):
        result = getattr(t.fft, name)(x(4, 4))
        return t.view_as_real(result.resolve_conj()) if result.is_complex() else result

    return call


def short_time_transform(t, x):
    signal = x(16)
    window = t.ones(4, device=signal.device)
    return t.view_as_real(t.stft(signal, 4, window=window, return_complex=True))


SPECTRA = {
    **{f"fft_{name}": transform(name) for name in TRANSFORMS},
    "stft": short_time_transform,
}


def images(rank, batch=2, channels=2, size=4):
    return (batch, channels, *[size] * rank)


def regular(t, x):
    """Return a matrix whose diagonal outweighs the rest."""
    a = x(3, 3)
    return a + t.diag(t.tensor([2.0, 3.0, 4.0])).to(a.dtype)


def symmetric(t, x):
    a = regular(t, x)
    return a + a.mT


def with_leaf(function, a):
    """Return a result that has no derivative, and something that has one."""
    return function(a), a


PRODUCTS = {
    "matmul": function("matmul", (3, 4), (4, 5)),
    "matmul of vectors": function("matmul", (4,), (4,)),
    "matmul of a matrix and a vector": function("matmul", (3, 4), (4,)),
    "matmul of batches": function("matmul", (2, 3, 4), (2, 4, 5)),
    "operator": lambda t, x: x(3, 4) @ x(4, 5),
    "mm": function("mm", (3, 4), (4, 5)),
    "bmm": function("bmm", (2, 3, 4), (2, 4, 5)),
    "mv": function("mv", (3, 4), (4,)),
    "dot": function("dot", (4,), (4,)),
    "vdot": function("vdot", (4,), (4,)),
    "outer": function("outer", (4,), (4,)),
    "addmm": function("addmm", (3, 5), (3, 4), (4, 5)),
    "addmv": function("addmv", (3,), (3, 4), (4,)),
    "addr": function("addr", (3, 4), (3,), (4,)),
    "addbmm": function("addbmm", (3, 5), (2, 3, 4), (2, 4, 5)),
    "baddbmm": function("baddbmm", (2, 3, 5), (2, 3, 4), (2, 4, 5)),
    "chain_matmul": function("chain_matmul", (2, 3), (3, 4), (4, 2)),
    "einsum": lambda t, x: t.einsum("ij,jk->ik", x(3, 4), x(4, 5)),
    "einsum without a sum": lambda t, x: t.einsum("i,j->ij", x(3), x(4)),
    "einsum of vectors": lambda t, x: t.einsum("i,i", x(4), x(4)),
    "tensordot": lambda t, x: t.tensordot(x(3, 4), x(4, 5), 1),
    "inner": function("inner", (3, 4), (5, 4)),
    "linear": functional("linear", (3, 4), (5, 4), (5,)),
    "linear of sequences": functional("linear", (2, 3, 4), (5, 4), (5,)),
    "linear without bias": functional("linear", (3, 4), (5, 4)),
    "bilinear": functional("bilinear", (3, 4), (3, 5), (2, 4, 5), (2,)),
    "prelu": functional("prelu", (3, 4), (4,)),
    "scaled_dot_product_attention": functional("scaled_dot_product_attention", *[(2, 2, 3, 4)] * 3),
    "masked attention": lambda t, x: t.nn.functional.scaled_dot_product_attention(
        x(2, 2, 3, 4), x(2, 2, 3, 4), x(2, 2, 3, 4), attn_mask=x(3, 3).detach()
    ),
    "causal attention": functional(
        "scaled_dot_product_attention", *[(2, 2, 3, 4)] * 3, is_causal=True
    ),
}

CONVOLUTIONS = {
    f"conv{kind}{rank}d": functional(
        f"conv{kind}{rank}d", images(rank), (2, 2, *[3] * rank), (2,), padding=1
    )
    for rank in (1, 2, 3)
    for kind in ("", "_transpose")
} | {
    "conv2d with padding by name": functional(
        "conv2d", images(2), (3, 2, 3, 3), (3,), padding="same"
    ),
    "convolution": lambda t, x: t.convolution(
        x(*images(1)), x(3, 2, 2), x(3), (1,), (0,), (1,), False, (0,), 1
    ),
}

POINTWISE = {
    name: function(name, (3, 4))
    for name in (
        *("acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log2", "log1p"),
        *("reciprocal", "rsqrt", "sinh", "tan", "tanh", "sigmoid", "sin", "sqrt", "relu", "neg"),
        *("abs", "exp2", "erf", "atan", "square"),
    )
} | {
    "pow": lambda t, x: x(3, 4) ** 3,
    "pow of two": lambda t, x: x(3, 4) ** 2,
    "pow of tensors": function("pow", (3, 4), (3, 4)),
    "pow of a number": lambda t, x: 2 ** x(3, 4),
    "softplus": functional("softplus", (3, 4)),
    "gelu": functional("gelu", (3, 4)),
    "silu": functional("silu", (3, 4)),
    "logsigmoid": functional("logsigmoid", (3, 4)),
    "elu": functional("elu", (3, 4)),
    "addcdiv": function("addcdiv", (3, 4), (3, 4), (3, 4)),
    "addcmul": function("addcmul", (3, 4), (3, 4), (3, 4)),
    "atan2": function("atan2", (3, 4), (3, 4)),
    "add": lambda t, x: x(3, 4) + x(3, 4),
    "mul": lambda t, x: x(3, 4) * x(3, 4),
    "where": lambda t, x: t.where(x.of([True, False]), x(2), x(2)),
}

REDUCTIONS = {
    "sum": lambda t, x: x(3, 4).sum(),
    "sum over a dimension": lambda t, x: x(3, 4).sum(0),
    "sum in a dtype": lambda t, x: x(3, 4).sum(dtype=t.float64),
    "mean": lambda t, x: x(3, 4).mean(),
    "var": lambda t, x: x(3, 4).var(),
    "std": lambda t, x: x(3, 4).std(1),
    "nansum": lambda t, x: x(3, 4).nansum(),
    "prod": lambda t, x: x(3, 4).prod(),
    "prod over a dimension": lambda t, x: x(3, 4).prod(1),
    "cumsum": lambda t, x: x(3, 4).cumsum(0),
    "cumprod": lambda t, x: x(3, 4).cumprod(0),
    "logcumsumexp": lambda t, x: x(3, 4).logcumsumexp(0),
    "logsumexp": lambda t, x: x(3, 4).logsumexp(1),
    "softmax": lambda t, x: x(3, 4).softmax(1),
    "log_softmax": lambda t, x: t.nn.functional.log_softmax(x(3, 4), 1),
    "softmin": lambda t, x: t.nn.functional.softmin(x(3, 4), 1),
    "norm": lambda t, x: x(3, 4).norm(),
    "norm over a dimension": lambda t, x: t.norm(x(3, 4), p=3, dim=1),
    "normalize": functional("normalize", (3, 4)),
    "linalg_cholesky": lambda t, x: t.linalg.cholesky(symmetric(t, x)),
    "linalg_cholesky_ex": lambda t, x: t.linalg.cholesky_ex(symmetric(t, x))[0],
    "linalg_qr": lambda t, x: t.linalg.qr(regular(t, x))[1],
    "linalg_householder_product": lambda t, x: t.linalg.householder_product(x(3, 2), x(2)),
    "linalg_inv": lambda t, x: t.linalg.inv(regular(t, x)),
    "linalg_inv_ex": lambda t, x: t.linalg.inv_ex(regular(t, x))[0],
    "linalg_solve": lambda t, x: t.linalg.solve(regular(t, x), x(3, 2)),
    "linalg_lstsq": lambda t, x: t.linalg.lstsq(regular(t, x), x(3, 2))[0],
    "linalg_tensorinv": lambda t, x: t.linalg.tensorinv(regular(t, x), ind=1),
    "linalg_tensorsolve": lambda t, x: t.linalg.tensorsolve(regular(t, x), x(3)),
    "linalg_eig": lambda t, x: t.linalg.eig(regular(t, x))[0].abs(),
    "linalg_eigvals": lambda t, x: t.linalg.eigvals(regular(t, x)).abs(),
    "linalg_eigh": lambda t, x: t.linalg.eigh(symmetric(t, x))[0],
    "linalg_eigvalsh": lambda t, x: t.linalg.eigvalsh(symmetric(t, x)),
    "linalg_svd": lambda t, x: t.linalg.svd(regular(t, x))[1],
    "linalg_svdvals": lambda t, x: t.linalg.svdvals(regular(t, x)),
    "linalg_cond": lambda t, x: t.linalg.cond(regular(t, x)),
    "linalg_matrix_rank": lambda t, x: with_leaf(t.linalg.matrix_rank, regular(t, x)),
    "inverse": lambda t, x: t.inverse(regular(t, x)),
    "pinverse": lambda t, x: t.pinverse(regular(t, x)),
    "cholesky": lambda t, x: t.cholesky(symmetric(t, x)),
    "cholesky_solve": lambda t, x: t.cholesky_solve(x(3, 2), regular(t, x).tril()),
    "cholesky_inverse": lambda t, x: t.cholesky_inverse(regular(t, x).tril()),
    "qr": lambda t, x: t.qr(regular(t, x))[1],
    "svd": lambda t, x: t.svd(regular(t, x))[1],
    "geqrf": lambda t, x: with_leaf(lambda a: t.geqrf(a.detach())[0], regular(t, x)),
    "orgqr": lambda t, x: t.orgqr(x(3, 2), x(2)),
    "ormqr": lambda t, x: t.ormqr(x(3, 2), x(2), x(3, 2)),
    "triangular_solve": lambda t, x: t.triangular_solve(x(3, 2), regular(t, x))[0],
    "trace": function("trace", (3, 3)),
    "quantile": lambda t, x: t.quantile(x(3, 4), 0.3),
    "nanquantile": lambda t, x: t.nanquantile(x(3, 4), 0.3),
    "cov": function("cov", (3, 4)),
    "median": lambda t, x: x(3, 4).median(),
    "amax": lambda t, x: x(3, 4).amax(1),
}

DISTANCES = {
    "cdist": function("cdist", (3, 4), (5, 4)),
    "dist": function("dist", (3, 4), (3, 4)),
    "pdist": functional("pdist", (3, 4)),
    "cosine_similarity": functional("cosine_similarity", (3, 4), (3, 4)),
    "pairwise_distance": functional("pairwise_distance", (3, 4), (3, 4)),
    "cross": lambda t, x: t.cross(x(4, 3), x(4, 3), dim=1),
}

NORMS = {
    "layer_norm": lambda t, x: t.nn.functional.layer_norm(x(3, 4), (4,), x(4), x(4)),
    "layer_norm without weight": lambda t, x: t.nn.functional.layer_norm(x(3, 4), (4,)),
    "rms_norm": lambda t, x: t.nn.functional.rms_norm(x(3, 4), (4,), x(4)),
    "group_norm": lambda t, x: t.nn.functional.group_norm(x(2, 4, 3), 2, x(4), x(4)),
    "batch_norm": lambda t, x: t.nn.functional.batch_norm(
        x(3, 4), None, None, x(4), x(4), training=True
    ),
    "instance_norm": lambda t, x: t.nn.functional.instance_norm(x(2, 4, 9)),
    "local_response_norm": functional("local_response_norm", (2, 4, 3), size=2),
}

PAIRS = "l1_loss mse_loss smooth_l1_loss huber_loss poisson_nll_loss"
LOSSES = {name: functional(name, (3, 4), (3, 4)) for name in PAIRS.split()} | {
    "binary_cross_entropy": functional("binary_cross_entropy", (3, 4), (3, 4)),
    "binary_cross_entropy_with_logits": functional(
        "binary_cross_entropy_with_logits", (3, 4), (3, 4)
    ),
    "nll_loss": lambda t, x: t.nn.functional.nll_loss(x(3, 4), x.classes(3)),
    "nll_loss of images": lambda t, x: t.nn.functional.nll_loss(x(2, 4, 3, 3), x.classes(2, 3, 3)),
    "cross_entropy": lambda t, x: t.nn.functional.cross_entropy(x(3, 4), x.classes(3)),
    "cross_entropy with weight": lambda t, x: t.nn.functional.cross_entropy(
        x(3, 4), x.classes(3), x(4).detach()
    ),
    "cross_entropy of probabilities": functional("cross_entropy", (3, 4), (3, 4)),
    "cross_entropy with smoothing": lambda t, x: t.nn.functional.cross_entropy(
        x(3, 4), x.classes(3), label_smoothing=0.1
    ),
    "kl_div": functional("kl_div", (3, 4), (3, 4), reduction="batchmean"),
    "soft_margin_loss": lambda t, x: t.nn.functional.soft_margin_loss(x(3, 4), x(3, 4).detach()),
    "hinge_embedding_loss": functional("hinge_embedding_loss", (3, 4), (3, 4)),
    "margin_ranking_loss": functional("margin_ranking_loss", (3,), (3,), (3,)),
    "cosine_embedding_loss": lambda t, x: t.nn.functional.cosine_embedding_loss(
        x(3, 4), x(3, 4), x.of([1, -1, 1])
    ),
    "triplet_margin_loss": functional("triplet_margin_loss", (3, 4), (3, 4), (3, 4)),
    "multi_margin_loss": lambda t, x: t.nn.functional.multi_margin_loss(x(3, 4), x.classes(3)),
    "multilabel_margin_loss": lambda t, x: t.nn.functional.multilabel_margin_loss(
        x(3, 4), x.classes(3, 4)
    ),
    "multilabel_soft_margin_loss": functional("multilabel_soft_margin_loss", (3, 4), (3, 4)),
    "gaussian_nll_loss": functional("gaussian_nll_loss", (3, 4), (3, 4), (3, 4)),
    "ctc_loss": lambda t, x: t.nn.functional.ctc_loss(
        x(5, 2, 4).log_softmax(2), x.of([[1, 2], [2, 3]]), (5, 5), (2, 2)
    ),
}

POOLS = {
    f"{kind}_pool{rank}d": functional(f"{kind}_pool{rank}d", images(rank), **how)
    for rank in (1, 2, 3)
    for kind, how in {
        "max": {"kernel_size": 2},
        "avg": {"kernel_size": 2},
        "adaptive_avg": {"output_size": 2},
        "adaptive_max": {"output_size": 2},
        "lp": {"norm_type": 2.0, "kernel_size": 2},
    }.items()
} | {
    f"max_unpool{rank}d": lambda t, x, rank=rank: getattr(t.nn.functional, f"max_unpool{rank}d")(
        *getattr(t.nn.functional, f"max_pool{rank}d")(x(*images(rank)), 2, return_indices=True), 2
    )
    for rank in (1, 2, 3)
}

SHAPES = (
    {
        f"pad {mode} {rank}": functional("pad", images(rank), pad=[1] * 2 * rank, mode=mode)
        for mode in ("reflect", "replicate", "circular", "constant")
        for rank in (1, 2, 3)
    }
    | {
        f"interpolate {mode}": functional("interpolate", images(rank), scale_factor=2, mode=mode)
        for mode, rank in {
            "nearest": 2,
            "nearest-exact": 1,
            "linear": 1,
            "bilinear": 2,
            "bicubic": 2,
            "trilinear": 3,
            "area": 2,
        }.items()
    }
    | {
        "interpolate area 3": functional("interpolate", images(3), size=(2, 2, 2), mode="area"),
        "grid_sample": functional("grid_sample", images(2), (2, 3, 3, 2), align_corners=False),
        "affine_grid": lambda t, x: t.nn.functional.affine_grid(
            x(2, 2, 3), (2, 1, 3, 3), align_corners=False
        ),
        "cat": lambda t, x: t.cat([x(2, 3), x(2, 3)]),
        "stack": lambda t, x: t.stack([x(2, 3), x(2, 3)]),
        "hstack": lambda t, x: t.hstack([x(2, 3), x(2, 3)]),
        "index_copy": lambda t, x: x(4, 2).index_copy(0, x.classes(3), x(3, 2)),
        "index_put": lambda t, x: x(4, 2).index_put((x.classes(3),), x(3, 2)),
        "scatter_add": lambda t, x: x(4, 2).scatter_add(0, x.classes(3, 2), x(3, 2)),
        "embedding": lambda t, x: t.nn.functional.embedding(x.classes(3), x(4, 2)),
        "embedding_bag": lambda t, x: t.nn.functional.embedding_bag(x.classes(2, 3), x(4, 2)),
        "dropout": functional("dropout", (3, 4), training=False),
        "glu": functional("glu", (3, 4)),
    }
)

CELLS = {
    "rnn_tanh_cell": function("rnn_tanh_cell", (2, 3), (2, 4), (4, 3), (4, 4), (4,), (4,)),
    "rnn_relu_cell": function("rnn_relu_cell", (2, 3), (2, 4), (4, 3), (4, 4), (4,), (4,)),
    "gru_cell": function("gru_cell", (2, 3), (2, 4), (12, 3), (12, 4), (12,), (12,)),
    "lstm_cell": lambda t, x: t.lstm_cell(
        x(2, 3), (x(2, 4), x(2, 4)), x(16, 3), x(16, 4), x(16), x(16)
    ),
}

CALLS = (
    PRODUCTS
    | CONVOLUTIONS
    | POINTWISE
    | REDUCTIONS
    | DISTANCES
    | NORMS
    | LOSSES
    | POOLS
    | SHAPES
    | CELLS
    | SPECTRA
    | {"view_as_complex": lambda t, x: t.view_as_real(t.view_as_complex(x(3, 2)))}
)
