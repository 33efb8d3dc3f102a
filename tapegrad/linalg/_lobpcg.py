"""The extreme eigenpairs of a large symmetric matrix: `torch.lobpcg`.

Each step makes the best of a small subspace: that of the current vectors X, of their residuals W,
which a preconditioner may have improved, and of the directions P in which the vectors moved last
(A. V. Knyazev, Toward the optimal preconditioned eigensolver, SIAM J. Sci. Comput. 23, 2001). The
method "basic" solves the small problem in the basis [X, P, W] as it is, by a Cholesky factor of its
Gram matrix, which fails where the basis has become dependent. The method "ortho" keeps the basis
orthonormal: new vectors are orthogonalised by the eigenvectors of their Gram matrix, and dependent
ones dropped (A. Stathopoulos and K. Wu, A block orthogonalization procedure with constant
synchronization requirements, SIAM J. Sci. Comput. 23, 2002).

Products with A are all that is asked of it. The derivative, which needs the whole matrix, is that
of the exact eigenpairs.
"""

import itertools
from collections.abc import Callable
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.amp import autocast
from tapegrad.autograd import Function, no_grad
from tapegrad.linalg._arguments import epsilon_of

__all__ = ["LOBPCG", "lobpcg"]

_TINY = {_C.float32: 2.0**-126, _C.float64: 2.0**-1022}  # the smallest normal numbers
_Tracker = Callable[["LOBPCG"], None]


class LOBPCG:
    """The state of an iteration, which a tracker sees after each step.

    Attributes:
        A, B, iK: the matrices of ``A X = B X E``, and the preconditioner; B and iK may be None.
        X, E: the vectors as columns, and their values.
        R: the residuals ``A X - B X E``.
        S: the basis of the last step.
        iparams, fparams, bparams: parameters that are integers, floats, booleans.
        ivars, fvars, bvars, tvars: variables of these kinds, and tensors. An entry
            ``bvars["force_stop"]`` that is true ends the iteration.
    """

    def __init__(
        self,
        A: Tensor,
        B: Tensor | None,
        X: Tensor,
        iK: Tensor | None,
        iparams: dict[str, int],
        fparams: dict[str, float],
        bparams: dict[str, bool],
        method: str,
        tracker: _Tracker | None,
    ) -> None:
        self.A, self.B, self.X, self.iK = A, B, X, iK
        self.iparams, self.fparams, self.bparams = iparams, fparams, bparams
        self.method, self.tracker = method, tracker
        self.ivars = {
            "istep": 0, "converged_count": 0, "iterations_left": iparams["niter"],
            "converged_end": 0,
        }  # fmt: skip
        self.fvars: dict[str, float] = {}
        self.bvars = {"force_stop": False}
        self.tvars: dict[str, Tensor] = {}
        self.E = self.R = X.new_empty(0)
        self.S = X.new_empty((*X.shape[:-1], 0))
        self.P = self.S

    def run(self) -> None:
        """Iterate until enough pairs have converged."""
        self._start()
        limit = self.iparams["niter"]
        steps = itertools.count() if limit < 0 else range(limit)
        for _ in steps:
            if self._has_converged() or self.bvars["force_stop"]:
                return
            self._step()
            self.ivars["istep"] += 1
            self.ivars["iterations_left"] -= 1
            self._update_residual()
            if self.tracker is not None:
                self.tracker(self)

    # ---- the parts of a step

    def _times_B(self, x: Tensor) -> Tensor:
        return x if self.B is None else self.B.mm(x)

    def _start(self) -> None:
        X = self.X
        size = X.norm()
        of_A, of_B = self.A.mm(X).norm() / size, self._times_B(X).norm() / size
        self.fvars.update(X_norm=size.item(), A_norm=of_A.item(), B_norm=of_B.item())
        self.X = self._independent(X, self.P)
        if self.X.shape[-1] < X.shape[-1]:
            raise RuntimeError("lobpcg: the columns of X are linearly dependent; give others")
        self.E, vectors = self._best(self.X.mT.mm(self.A.mm(self.X)), X.shape[-1])
        self.X = self.X.mm(vectors)
        self._update_residual()

    def _update_residual(self) -> None:
        """Compute residuals, and how many of the leading pairs have converged."""
        image = self._times_B(self.X)
        self.R = self.A.mm(self.X) - image * self.E
        scale = self.fvars["A_norm"] + self.E.abs() * self.fvars["B_norm"]
        lengths = self.X.norm(dim=0)
        # Where A is zero, so are the residuals.
        error = self.R.norm(dim=0) / (lengths * scale).clamp(min=_TINY[self.X.dtype])
        self.tvars["rerr"] = error
        done = (error < self.fparams["tol"]).tolist()
        self.ivars["converged_count"] = sum(1 for _ in itertools.takewhile(bool, done))

    def _has_converged(self) -> bool:
        return self.ivars["converged_count"] >= min(self.iparams["k"], self.iparams["n"])

    def _step(self) -> None:
        if self.method == "basic":
            self._basic_step()
        else:
            self._ortho_step()
        self.ivars["converged_end"] = self.S.shape[-1]

    def _new_directions(self) -> Tensor:
        """Return the residuals of what has not converged, preconditioned."""
        W = self.R[:, self.ivars["converged_count"] :]
        return W if self.iK is None else self.iK.mm(W)

    def _best(self, small: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Return the wanted eigenpairs of a small symmetric matrix."""
        small = 0.5 * (small + small.mT)
        values, vectors = _C._linalg_eigh("linalg.eigh", small, False, True)
        if self.bparams["largest"]:
            values, vectors = values.flip(0), vectors.flip(1)
        return values[:count], vectors[:, :count]

    def _basic_step(self) -> None:
        n = self.X.shape[-1]
        parts = [
            each / each.norm(dim=0)
            for each in map(_without_zeros, (self.P, self._new_directions()))
        ]
        S = _C.cat([self.X, *parts], dim=1)
        gram = S.mT.mm(self._times_B(S))
        # Unit diagonals make the factor as accurate as it can be.
        scales = gram.diagonal().rsqrt()
        gram = gram * scales * scales.unsqueeze(-1)
        factor = _C._linalg_cholesky("linalg.cholesky", gram, False, True)[0]
        small = S.mT.mm(self.A.mm(S)) * scales * scales.unsqueeze(-1)
        half = _C._linalg_solve_triangular(factor, small, False, True, False)
        whole = _C._linalg_solve_triangular(factor, half.mT, False, True, False)
        self.E, vectors = self._best(whole, n)
        vectors = _C._linalg_solve_triangular(factor.mT, vectors, True, True, False)
        vectors = vectors * scales.unsqueeze(-1)
        self.S, self.X = S, S.mm(vectors)
        self.P = S[:, n:].mm(vectors[n:, self.ivars["converged_count"] :])

    def _ortho_step(self) -> None:
        n, known = self.X.shape[-1], _C.cat([self.X, self.P], dim=1)
        W = self._independent(self._new_directions(), known)
        # Nothing new to the last digit: more steps would give the same.
        is_stuck = not (W.shape[-1] or self.P.shape[-1])
        self.bvars["force_stop"] = self.bvars["force_stop"] or is_stuck
        self.S = S = _C.cat([known, W], dim=1)
        self.E, vectors = self._best(S.mT.mm(self.A.mm(S)), n)
        # The part of the step that is not in X, orthogonal to the new X: in coordinates of S, where
        # the inner product is the usual one.
        moved = vectors[:, self.ivars["converged_count"] :].clone()
        moved[:n] = 0
        moved = _independent(moved, vectors, None, self.fparams, self.iparams)
        self.X, self.P = S.mm(vectors), S.mm(moved)

    def _independent(self, x: Tensor, known: Tensor) -> Tensor:
        return _independent(x, known, self.B, self.fparams, self.iparams)


def _without_zeros(x: Tensor) -> Tensor:
    return x[:, x.norm(dim=0) > 0]


def _independent(
    x: Tensor,
    known: Tensor,
    B: Tensor | None,
    fparams: dict[str, float],
    iparams: dict[str, int],
) -> Tensor:
    """Return an orthonormal basis of what x adds to known columns, which are orthonormal.

    Under the inner product of B; it may have fewer columns than x.
    """
    for _ in range(iparams["ortho_i_max"]):
        if known.shape[-1]:
            image = known if B is None else B.mm(known)
            before = x.norm(dim=0)
            x = x - known.mm(image.mT.mm(x))
            # A column that was known is noise now, which must not be made long again.
            kept = x.norm(dim=0) > fparams["ortho_tol_drop"] * before
            x = x[:, kept]
        for _ in range(iparams["ortho_j_max"]):
            x, is_orthonormal = _orthonormalized(x, B, fparams)
            if is_orthonormal or not x.shape[-1]:
                break
        if not x.shape[-1] or not known.shape[-1]:
            break
        overlap = image.mT.mm(x).norm().item()
        if overlap < fparams["ortho_tol"]:
            break
    return x


def _orthonormalized(x: Tensor, B: Tensor | None, fparams: dict[str, float]) -> tuple[Tensor, bool]:
    """Make columns orthonormal by the eigenvectors of their Gram matrix; tell whether they were."""
    x = _without_zeros(x)
    x = x / x.norm(dim=0)
    gram = x.mT.mm(x if B is None else B.mm(x))
    off = (gram - _C.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)).norm().item()
    if off < fparams["ortho_tol"]:
        return x, True
    scales = gram.diagonal().rsqrt()
    gram = gram * scales * scales.unsqueeze(-1)
    values, vectors = _C._linalg_eigh("linalg.eigh", 0.5 * (gram + gram.mT), False, True)
    kept = values > fparams["ortho_tol_drop"] * values[-1:]
    vectors = vectors[:, kept] * values[kept].rsqrt() * scales.unsqueeze(-1)
    return x.mm(vectors), False


# ---- the function


class _Eigenpairs(Function):
    """The derivative of exact eigenpairs, written with recorded ops of the pairs and the matrix."""

    @staticmethod
    def forward(ctx: Any, A: Tensor, solve: Any) -> tuple[Tensor, Tensor]:
        E, X = solve(A.detach())
        ctx.save_for_backward(A, E, X)
        return E, X

    @staticmethod
    def backward(ctx: Any, grad_E: Tensor, grad_X: Tensor) -> tuple[Tensor, None]:
        A, E, X = ctx.saved_tensors
        # A vector moves by (e I - A)^+ dA x. What is added for x makes the matrix regular, and
        # changes nothing where it is applied to what is orthogonal to x.
        x, g = X.mT.unsqueeze(-1), grad_X.mT.unsqueeze(-1)
        outside = g - x.matmul(x.mT.matmul(g))
        identity = _C.eye(A.shape[-1], dtype=A.dtype, device=A.device)
        size = E.detach().abs().max() + A.detach().abs().max()
        shifted = E.unsqueeze(-1).unsqueeze(-1) * identity - A.unsqueeze(-3) + size * x.matmul(x.mT)
        y = _C._linalg_solve("linalg.solve", shifted, outside, False)[0]
        y = (y - x.matmul(x.mT.matmul(y))).squeeze(-1).mT
        return (X * grad_E.unsqueeze(-2) + y).matmul(X.mT), None


def lobpcg(
    A: Tensor,
    k: int | None,
    B: Tensor | None,
    X: Tensor | None,
    n: int | None,
    iK: Tensor | None,
    niter: int | None,
    tol: float | None,
    largest: bool | None,
    method: str | None,
    tracker: _Tracker | None,
    iparams: dict[str, int] | None,
    fparams: dict[str, float] | None,
    bparams: dict[str, bool] | None,
) -> tuple[Tensor, Tensor]:
    """See `torch.lobpcg`."""
    _check(A, B, X, iK)
    method = "ortho" if method is None else method
    if method not in ("basic", "ortho"):
        raise ValueError(f"lobpcg: expected method 'basic' or 'ortho', got {method!r}")
    m = A.shape[-1]
    if k is None:
        k = 1 if X is None else X.shape[-1]
    n = (k if n is None else n) if X is None else X.shape[-1]
    if k < 1 or n < 1:
        raise ValueError(f"lobpcg: expected at least one eigenpair, got k={k} and n={n}")
    if m < 3 * n:
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={m}) is smaller than "
            f"3 x the number of requested eigenpairs (={n})"
        )
    epsilon = epsilon_of(A)
    options: Any = (
        {"m": m, "n": n, "k": k, "niter": 1000 if niter is None else niter, "ortho_i_max": 3,
         "ortho_j_max": 3, **_named(iparams)},
        {"tol": epsilon**0.5 if tol is None else tol, "ortho_tol": 100 * epsilon,
         "ortho_tol_drop": m * epsilon, **_named(fparams)},
        {"largest": largest is not False, **_named(bparams)},
        method,
        tracker,
    )  # fmt: skip

    def solve(matrix: Tensor) -> tuple[Tensor, Tensor]:
        # Products of a lower precision would keep pairs from converging.
        with no_grad(), autocast(matrix.device.type, enabled=False):
            return _solved(matrix, B, X, iK, options)

    if not (_C._is_recorded(A) or (B is not None and _C._is_recorded(B))):
        return solve(A)
    if B is not None:
        raise ValueError("lobpcg.backward does not support backward with B != I yet.")
    pairs: tuple[Tensor, Tensor] = _Eigenpairs.apply(0.5 * (A + A.mT), solve)
    return pairs


def _named(options: dict[str, Any] | None) -> dict[str, Any]:
    return {f"ortho_{name}": value for name, value in (options or {}).items()}


def _check(A: Any, B: Any, X: Any, iK: Any) -> None:
    if not isinstance(A, Tensor):
        raise TypeError(f"lobpcg: expected A to be a Tensor, got {type(A).__name__}")
    if A.dim() < 2 or A.shape[-1] != A.shape[-2]:
        raise AssertionError(f"A must be square, got shape {tuple(A.shape)}")
    if A.dtype not in (_C.float32, _C.float64):
        raise NotImplementedError(
            f"lobpcg: not implemented for {A.dtype}; expected float32 or float64"
            + ("; torch.linalg.eigh takes complex matrices" if A.is_complex() else "")
        )
    for name, other in (("B", B), ("X", X), ("iK", iK)):
        if other is None:
            continue
        if not isinstance(other, Tensor):
            raise TypeError(f"lobpcg: expected {name} to be a Tensor, got {type(other).__name__}")
        if other.dtype != A.dtype:
            raise RuntimeError(
                f"lobpcg: expected {name} to have the dtype of A, but got {other.dtype} and "
                f"{A.dtype}"
            )
        if name == "X" and (other.dim() < 2 or other.shape[-2] != A.shape[-1]):
            raise AssertionError(
                f"X shape mismatch: got {tuple(other.shape)}, expected {A.shape[-1]} rows"
            )
        if name != "X" and other.shape != A.shape:
            raise AssertionError(
                f"A and {name} must have same shape, got {tuple(A.shape)} vs {tuple(other.shape)}"
            )


def _solved(
    A: Tensor, B: Tensor | None, X: Tensor | None, iK: Tensor | None, options: Any
) -> tuple[Tensor, Tensor]:
    """Solve the problems of a batch one after the other."""
    m, n, k = (options[0][name] for name in "mnk")
    batch, count = A.shape[:-2], min(k, n)

    def flat(x: Tensor) -> Any:
        return x.detach().expand(*batch, *x.shape[-2:]).reshape(-1, *x.shape[-2:])

    given = [None if x is None else flat(x) for x in (B, X, iK)]
    values, vectors = [], []
    for i, one in enumerate(flat(A)):
        of_B, start, of_K = (None if x is None else x[i] for x in given)
        if start is None:
            start = _C.randn((m, n), dtype=A.dtype, device=A.device)
        params: Any = (dict(each) for each in options[:3])
        state = LOBPCG(one, of_B, start, of_K, *params, *options[3:])
        state.run()
        values.append(state.E[:k])
        vectors.append(state.X[:, :k])
    if not values:
        return A.new_empty((*batch, count)), A.new_empty((*batch, m, count))
    return (
        _C.stack(values).reshape(*batch, count),
        _C.stack(vectors).reshape(*batch, m, count),
    )
