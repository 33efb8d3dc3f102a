"""Points that fill a cube more evenly than random ones: Sobol sequences.

Example:
    >>> torch.quasirandom.SobolEngine(dimension=2).draw(4)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500],
            [0.2500, 0.7500]])
"""

from typing import Any

import numpy as np

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.quasirandom._directions import BITS, DIMENSIONS, Integers, directions

__all__ = ["SobolEngine"]


class SobolEngine:
    """A Sobol sequence in a cube of up to 21,201 dimensions.

    The points are PyTorch's, without scrambling to the last bit. Scrambled ones are made of them in
    the same way, of other random numbers, as random tensors are.

    Args:
        dimension: the number of dimensions.
        scramble: whether the points are scrambled at random, as Owen proposed: linearly, and
            shifted by bits. The sequence then begins somewhere else than in the origin.
        seed: that of the scrambling; the default generator's next numbers scramble if left out.

    Attributes:
        num_generated: how many points were drawn or skipped.

    Example:
        >>> engine = torch.quasirandom.SobolEngine(dimension=3)
        >>> engine.fast_forward(2).draw(1)
        tensor([[0.7500, 0.2500, 0.2500]])
    """

    MAXBIT = BITS
    MAXDIM = DIMENSIONS

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(
                f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]; "
                f"got {dimension}"
            )
        self.seed = seed
        self.scramble = scramble
        self.dimension = dimension
        self.sobolstate = _C.from_numpy(directions(dimension))
        if scramble:
            self._scramble()
        else:
            self.shift = _C.zeros(dimension, dtype=_C.int64, device="cpu")
        self.quasi = self.shift.clone()
        self._first_point = (self.quasi / 2**BITS).reshape(1, -1)
        self.num_generated = 0

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """Return the next points, one in a row.

        Args:
            n: how many.
            out: a tensor to write them into, which is resized.
            dtype: float32 or float64; the default dtype if left out.

        Returns:
            A tensor of shape (n, dimension).
        """
        kind = _C.get_default_dtype() if dtype is None else dtype
        if kind not in (_C.float32, _C.float64):
            raise NotImplementedError(f"SobolEngine.draw: not implemented for {kind}; use float32")
        if n < 0:
            raise RuntimeError(f"SobolEngine.draw: expected n of at least 0, got {n}")
        first = self.num_generated == 0 and n > 0
        points = self._advance(n)
        result = _C.from_numpy(points).to(kind).mul_(2.0**-BITS)
        if first:
            result[:1] = self._first_point.to(kind)
        if out is None:
            return result
        return out.resize_as_(result).copy_(result)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """Return the next ``2**m`` points, after which the number of points is a power of two.

        Args:
            m: the exponent.
            out: a tensor to write them into, which is resized.
            dtype: float32 or float64; the default dtype if left out.
        """
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1) != 0:
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: "
                f"n={self.num_generated}+2**{m}={total}. If you still want to do this, please use "
                "'SobolEngine.draw()' instead."
            )
        return self.draw(n=n, out=out, dtype=dtype)

    def reset(self) -> "SobolEngine":
        """Begin the sequence anew, scrambled as it was."""
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> "SobolEngine":
        """Skip points.

        Args:
            n: how many.
        """
        if n < 0:
            raise ValueError(f"SobolEngine.fast_forward: expected n of at least 0, got {n}")
        self._check_left(n)
        # A point is made of the directions at which its number has a one in Gray code.
        before, after = max(self.num_generated - 1, 0), max(self.num_generated + n - 1, 0)
        changed = (before ^ (before >> 1)) ^ (after ^ (after >> 1))
        columns = [bit for bit in range(BITS) if changed >> bit & 1]
        quasi = self.quasi.numpy()
        quasi ^= np.bitwise_xor.reduce(self.sobolstate.numpy()[:, columns], axis=1)
        self.num_generated += n
        return self

    def _check_left(self, n: int) -> None:
        if self.num_generated + n > 2**BITS:
            raise RuntimeError(
                f"SobolEngine: a sequence has 2**{BITS} points, of which {self.num_generated} were "
                f"drawn and {n} are asked for; call reset()"
            )

    def _advance(self, n: int) -> Integers:
        """Return the next points as whole numbers, the last of which becomes the state."""
        self._check_left(n)
        begin = self.num_generated == 0
        rows = np.empty((n + (not begin), self.dimension), np.int64)
        if not len(rows):
            return rows
        # Points that follow each other differ in one direction: at the lowest zero of a number.
        numbers = np.arange(len(rows) - 1) + max(self.num_generated - 1, 0)
        lowest_zero = np.frexp((~numbers & (numbers + 1)).astype(np.float64))[1] - 1
        rows[0] = self.quasi.numpy()
        rows[1:] = self.sobolstate.numpy().T[lowest_zero]
        np.bitwise_xor.accumulate(rows, axis=0, out=rows)
        self.quasi.numpy()[:] = rows[-1]
        self.num_generated += n
        return rows if begin else rows[1:]

    def _scramble(self) -> None:
        generator = None
        if self.seed is not None:
            generator = _C.Generator()
            generator.manual_seed(self.seed)
        bits = _C.randint(2, (self.dimension, BITS), device="cpu", generator=generator)
        self.shift = (bits << _C.arange(BITS, device="cpu")).sum(1)
        shape = (self.dimension, BITS, BITS)
        matrices = _C.randint(2, shape, device="cpu", generator=generator).tril()
        self.sobolstate = _C.from_numpy(_transform(matrices.numpy(), self.sobolstate.numpy()))

    def __repr__(self) -> str:
        said = [f"dimension={self.dimension}"]
        said += ["scramble=True"] if self.scramble else []
        said += [f"seed={self.seed}"] if self.seed is not None else []
        return f"{type(self).__name__}({', '.join(said)})"


def _transform(matrices: Integers, state: Integers) -> Integers:
    """Multiply the bits of directions, the highest first, by lower triangular matrices of bits."""
    matrices = matrices | np.eye(BITS, dtype=np.int64)
    masks = (matrices << np.arange(BITS - 1, -1, -1)).sum(2)
    found = np.zeros_like(state)
    for row in range(BITS):
        common = masks[:, row, None] & state
        for shift in (16, 8, 4, 2, 1):  # to the parity of its ones
            common ^= common >> shift
        found |= (common & 1) << (BITS - 1 - row)
    return found
