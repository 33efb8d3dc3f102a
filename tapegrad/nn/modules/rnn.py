"""Recurrent layers over whole sequences, and their cells, which take one step."""

import math
import numbers
import warnings
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._composed.arguments import expect_count
from tapegrad.nn import init
from tapegrad.nn.functional import recurrent
from tapegrad.nn.modules.module import Module
from tapegrad.nn.parameter import Parameter
from tapegrad.nn.utils.rnn import PackedSequence

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "GRUCell",
    "LSTMCell",
    "RNNBase",
    "RNNCell",
    "RNNCellBase",
]


class RNNBase(Module):
    """What recurrent layers share: their parameters, their checks, the way through the layers.

    Args:
        mode: ``"LSTM"``, ``"GRU"``, ``"RNN_TANH"`` or ``"RNN_RELU"``.
        input_size: the number of features of the input.
        hidden_size: the number of features of the hidden state.
        num_layers: the number of layers, each fed with the outputs of the one before.
        bias: whether there are biases.
        batch_first: whether inputs and outputs are ``(batch, time, features)``.
        dropout: the probability of a zero in the outputs of all layers but the last.
        bidirectional: whether each layer also runs backward in time.
        proj_size: of an LSTM, the size that the hidden state is projected to; 0 for none.
        device: where the parameters are.
        dtype: of the parameters; the default dtype if None.
    """

    mode: str
    input_size: int
    hidden_size: int
    num_layers: int
    bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool
    proj_size: int

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_sizes(input_size, hidden_size, num_layers, proj_size)
        _check_options(bias, batch_first, dropout, num_layers)
        if mode not in recurrent.GATES:
            raise ValueError(f"Unrecognized RNN mode: {mode}")
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._all_weights: list[list[str]] = []
        expect_count("num_layers", num_layers, "layers", bytes_each=1024)
        for layer in range(num_layers):
            for suffix in ("", "_reverse") if bidirectional else ("",):
                shapes = self._weight_shapes(layer)
                for name, shape in shapes.items():
                    empty = _C.empty(shape, device=device, dtype=dtype)
                    setattr(self, f"{name}_l{layer}{suffix}", Parameter(empty))
                self._all_weights.append([f"{name}_l{layer}{suffix}" for name in shapes])
        self._flat_weights_names = [name for names in self._all_weights for name in names]
        self.reset_parameters()

    def _weight_shapes(self, layer: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the weights of one layer and direction, in their order."""
        rows = recurrent.GATES[self.mode] * self.hidden_size
        output_size = self.proj_size or self.hidden_size
        below = output_size * (2 if self.bidirectional else 1)
        input_size = self.input_size if layer == 0 else below
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ih": (rows, input_size),
            "weight_hh": (rows, output_size),
        }
        if self.bias:
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        return shapes

    @property
    def _flat_weights(self) -> list[Any]:
        """The weights of all layers and directions, one after the other."""
        own = self._parameters
        try:
            return [own[name] for name in self._flat_weights_names]
        except KeyError:  # A parametrised or replaced weight is an ordinary attribute.
            return [getattr(self, name, None) for name in self._flat_weights_names]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The weights of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def reset_parameters(self) -> None:
        """Draw all weights evenly within ``1 / sqrt(hidden_size)`` of zero."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Do nothing: weights need not be one block of memory here."""

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Refuse an input of another dtype, number of dimensions or number of features."""
        dtype = self._flat_weights[0].dtype
        if input.dtype != dtype and not _C._autocast_devices():
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({dtype}). Convert "
                f"input: input.to({dtype}), or convert model: model.to({input.dtype})"
            )
        expected = 2 if batch_sizes is not None else 3
        if input.dim() != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {input.dim()}")
        if self.input_size != input.shape[-1]:
            raise RuntimeError(
                "input.size(-1) must be equal to input_size. Expected "
                f"{self.input_size}, got {input.shape[-1]}"
            )

    def get_expected_hidden_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """Return the shape that the hidden state must have for an input."""
        size = self.proj_size or self.hidden_size
        return self._state_shape(_batch_of(input, batch_sizes, self.batch_first), size)

    def _state_shape(self, batch: int, size: int) -> tuple[int, int, int]:
        return self.num_layers * (2 if self.bidirectional else 1), batch, size

    def check_hidden_size(
        self,
        hx: Tensor,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        """Refuse a hidden state of another shape."""
        if tuple(hx.shape) != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.shape)))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Refuse inputs and hidden states that do not fit."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Return a hidden state with its sequences in another order."""
        return hx if permutation is None else hx.index_select(1, permutation)

    def _zeros(self, input: Tensor, batch: int) -> Any:
        """Return the state to begin from if none is given."""
        return _zeros(input, *self._state_shape(batch, self.hidden_size))

    def _unsqueezed(self, hx: Any, is_batched: bool) -> Any:
        """Return a given state with a batch dimension, or refuse it."""
        _check_state_dims(is_batched, hx.dim())
        return hx if is_batched else hx.unsqueeze(1)

    def _run(self, input: Any, hx: Any) -> tuple[Any, Any]:
        """Go through all layers."""
        if isinstance(input, PackedSequence):
            return self._run_packed(input, hx)
        if input.dim() not in (2, 3):
            raise ValueError(
                f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.dim()}D instead"
            )
        is_batched = input.dim() == 3
        batch_dim = 0 if self.batch_first else 1
        x = input if is_batched else input.unsqueeze(batch_dim)
        given = hx is not None
        hx = self._unsqueezed(hx, is_batched) if given else self._zeros(x, x.shape[batch_dim])
        self.check_forward_args(x, hx, None)
        output, finals = self._call_layers(x, hx, None)
        if not is_batched:
            output = output.squeeze(batch_dim)
            finals = tuple(final.squeeze(1) for final in finals)
        return output, finals if self.mode == "LSTM" else finals[0]

    def _run_packed(self, input: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        data, batch_sizes, sorted_indices, unsorted_indices = input
        if hx is None:
            hx = self._zeros(data, int(batch_sizes[0]))
        else:
            hx = self.permute_hidden(hx, sorted_indices)
        self.check_forward_args(data, hx, batch_sizes)
        output, finals = self._call_layers(data, hx, batch_sizes)
        packed = PackedSequence(output, batch_sizes, sorted_indices, unsorted_indices)
        hidden = finals if self.mode == "LSTM" else finals[0]
        return packed, self.permute_hidden(hidden, unsorted_indices)

    def _call_layers(
        self, x: Tensor, hx: Any, batch_sizes: Tensor | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        return recurrent.run_layers(
            self.mode,
            x,
            tuple(hx) if self.mode == "LSTM" else (hx,),
            self._flat_weights,
            self.bias,
            self.num_layers,
            self.dropout,
            self.training,
            self.bidirectional,
            self.batch_first,
            batch_sizes,
        )

    def extra_repr(self) -> str:
        """Return the sizes and what differs from the defaults."""
        parts = [f"{self.input_size}, {self.hidden_size}"]
        defaults = {
            "proj_size": 0,
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0,
            "bidirectional": False,
        }
        for name, default in defaults.items():
            if getattr(self, name) != default:
                parts.append(f"{name}={getattr(self, name)}")
        return ", ".join(parts)


class RNN(RNNBase):
    """Layers of plain recurrences: ``h = tanh(x @ w_ih.T + b_ih + h @ w_hh.T + b_hh)``.

    Args:
        input_size: the number of features of the input.
        hidden_size: the number of features of the hidden state.
        num_layers: the number of layers, each fed with the outputs of the one before.
        nonlinearity: ``"tanh"`` or ``"relu"``.
        bias: whether there are biases.
        batch_first: whether inputs and outputs are ``(batch, time, features)``.
        dropout: the probability of a zero in the outputs of all layers but the last.
        bidirectional: whether each layer also runs backward in time.
        proj_size: must be 0: only an LSTM projects.
        device: where the parameters are.
        dtype: of the parameters; the default dtype if None.

    Shape:
        ``(time, batch, input_size)`` to outputs ``(time, batch, directions * hidden_size)`` and a
        last state ``(num_layers * directions, batch, hidden_size)``; or the same without the batch
        dimension; or a PackedSequence to a PackedSequence and a last state.

    Example:
        >>> layer = torch.nn.RNN(10, 20, num_layers=2)
        >>> output, h = layer(torch.ones(5, 3, 10))
        >>> output.shape, h.shape
        (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        _refuse_projection(proj_size)
        modes = {"tanh": "RNN_TANH", "relu": "RNN_RELU"}
        if nonlinearity not in modes:
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        options = (num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype)
        super().__init__(modes[nonlinearity], input_size, hidden_size, *options)
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        """Return the outputs of the last layer and the last hidden states of all."""
        return self._run(input, hx)


class GRU(RNNBase):
    """Layers of gated recurrent units; `gru_cell` says how one takes a step.

    Args:
        input_size: the number of features of the input.
        hidden_size: the number of features of the hidden state.
        num_layers: the number of layers, each fed with the outputs of the one before.
        bias: whether there are biases.
        batch_first: whether inputs and outputs are ``(batch, time, features)``.
        dropout: the probability of a zero in the outputs of all layers but the last.
        bidirectional: whether each layer also runs backward in time.
        proj_size: must be 0: only an LSTM projects.
        device: where the parameters are.
        dtype: of the parameters; the default dtype if None.

    Shape:
        As of RNN.

    Example:
        >>> layer = torch.nn.GRU(10, 20, batch_first=True, bidirectional=True)
        >>> output, h = layer(torch.ones(3, 5, 10))
        >>> output.shape, h.shape
        (torch.Size([3, 5, 40]), torch.Size([2, 3, 20]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        _refuse_projection(proj_size)
        options = (num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype)
        super().__init__("GRU", input_size, hidden_size, *options)

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        """Return the outputs of the last layer and the last hidden states of all."""
        return self._run(input, hx)


class LSTM(RNNBase):
    """Layers of long short-term memory; `lstm_cell` says how one takes a step.

    Args:
        input_size: the number of features of the input.
        hidden_size: the number of features of the cell state, and of the hidden state.
        num_layers: the number of layers, each fed with the outputs of the one before.
        bias: whether there are biases.
        batch_first: whether inputs and outputs are ``(batch, time, features)``.
        dropout: the probability of a zero in the outputs of all layers but the last.
        bidirectional: whether each layer also runs backward in time.
        proj_size: the size that the hidden state is projected to; 0 for no projection.
        device: where the parameters are.
        dtype: of the parameters; the default dtype if None.

    Shape:
        As of RNN, but for the state, which is a pair: hidden states of `proj_size` or `hidden_size`
        features, cell states of `hidden_size`.

    Example:
        >>> layer = torch.nn.LSTM(10, 20, proj_size=4)
        >>> output, (h, c) = layer(torch.ones(5, 3, 10))
        >>> output.shape, h.shape, c.shape
        (torch.Size([5, 3, 4]), torch.Size([1, 3, 4]), torch.Size([1, 3, 20]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        options = (num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype)
        super().__init__("LSTM", input_size, hidden_size, *options)

    def get_expected_cell_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """Return the shape that the cell state must have for an input."""
        batch = _batch_of(input, batch_sizes, self.batch_first)
        return self._state_shape(batch, self.hidden_size)

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Refuse inputs, hidden and cell states that do not fit."""
        self.check_input(input, batch_sizes)
        expected = self.get_expected_hidden_size(input, batch_sizes)
        self.check_hidden_size(hidden[0], expected, "Expected hidden[0] size {}, got {}")
        expected = self.get_expected_cell_size(input, batch_sizes)
        self.check_hidden_size(hidden[1], expected, "Expected hidden[1] size {}, got {}")

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Return hidden and cell states with their sequences in another order."""
        if permutation is None:
            return hx
        return hx[0].index_select(1, permutation), hx[1].index_select(1, permutation)

    def _zeros(self, input: Tensor, batch: int) -> Any:
        size = self.proj_size or self.hidden_size
        return (
            _zeros(input, *self._state_shape(batch, size)),
            _zeros(input, *self._state_shape(batch, self.hidden_size)),
        )

    def _unsqueezed(self, hx: Any, is_batched: bool) -> Any:
        _check_state_dims(is_batched, hx[0].dim(), hx[1].dim())
        return hx if is_batched else (hx[0].unsqueeze(1), hx[1].unsqueeze(1))

    def forward(
        self, input: Any, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Any, tuple[Tensor, Tensor]]:
        """Return the outputs of the last layer and the last hidden and cell states of all."""
        return self._run(input, hx)


# ---- cells


class RNNCellBase(Module):
    """What the cells share: their parameters."""

    input_size: int
    hidden_size: int
    bias: bool
    weight_ih: Tensor
    weight_hh: Tensor

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(_C.empty(rows, input_size, device=device, dtype=dtype))
        self.weight_hh = Parameter(_C.empty(rows, hidden_size, device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            empty = Parameter(_C.empty(rows, device=device, dtype=dtype)) if bias else None
            self.register_parameter(name, empty)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights evenly within ``1 / sqrt(hidden_size)`` of zero."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        """Return the sizes and what differs from the defaults."""
        parts = [f"{self.input_size}, {self.hidden_size}"]
        if self.bias is not True:
            parts.append(f"bias={self.bias}")
        nonlinearity = self.__dict__.get("nonlinearity", "tanh")
        if nonlinearity != "tanh":
            parts.append(f"nonlinearity={nonlinearity}")
        return ", ".join(parts)

    def _step(self, cell: Any, input: Tensor, hx: Tensor | None) -> Tensor:
        """Call a cell with one hidden state, batched or not."""
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        if hx is not None and hx.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected hidden to be 1D or 2D, got {hx.dim()}D instead")
        is_batched = input.dim() == 2
        if not is_batched:
            input = input.unsqueeze(0)
            hx = None if hx is None else hx.unsqueeze(0)
        if hx is None:
            hx = _zeros(input, input.shape[0], self.hidden_size)
        result = cell(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return result if is_batched else result.squeeze(0)


class RNNCell(RNNCellBase):
    """One step of a plain recurrence.

    Args:
        input_size: the number of features of the input.
        hidden_size: the number of features of the hidden state.
        bias: whether there are biases.
        nonlinearity: ``"tanh"`` or ``"relu"``.
        device: where the parameters are.
        dtype: of the parameters; the default dtype if None.

    Example:
        >>> cell = torch.nn.RNNCell(10, 20)
        >>> cell(torch.ones(3, 10)).shape
        torch.Size([3, 20])
    """

    nonlinearity: str

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next hidden state; without one, the step begins from zeros."""
        if self.nonlinearity == "tanh":
            return self._step(recurrent.rnn_tanh_cell, input, hx)
        if self.nonlinearity == "relu":
            return self._step(recurrent.rnn_relu_cell, input, hx)
        raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")


class LSTMCell(RNNCellBase):
    """One step of long short-term memory.

    Args:
        input_size: the number of features of the input.
        hidden_size: the number of features of the hidden and the cell state.
        bias: whether there are biases.
        device: where the parameters are.
        dtype: of the parameters; the default dtype if None.

    Example:
        >>> cell = torch.nn.LSTMCell(10, 20)
        >>> h, c = cell(torch.ones(3, 10))
        >>> h, c = cell(torch.ones(3, 10), (h, c))
        >>> h.shape
        torch.Size([3, 20])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the next hidden and cell state; without a state, the step begins from zeros."""
        if input.dim() not in (1, 2):
            raise ValueError(f"LSTMCell: Expected input to be 1D or 2D, got {input.dim()}D instead")
        for place, part in enumerate(hx or ()):
            if part.dim() not in (1, 2):
                raise ValueError(
                    f"LSTMCell: Expected hx[{place}] to be 1D or 2D, got {part.dim()}D instead"
                )
        is_batched = input.dim() == 2
        x = input if is_batched else input.unsqueeze(0)
        if hx is None:
            zeros = _zeros(x, x.shape[0], self.hidden_size)
            hx = (zeros, zeros)
        elif not is_batched:
            hx = (hx[0].unsqueeze(0), hx[1].unsqueeze(0))
        h, c = recurrent.lstm_cell(
            x, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        )
        return (h, c) if is_batched else (h.squeeze(0), c.squeeze(0))


class GRUCell(RNNCellBase):
    """One step of a gated recurrent unit.

    Args:
        input_size: the number of features of the input.
        hidden_size: the number of features of the hidden state.
        bias: whether there are biases.
        device: where the parameters are.
        dtype: of the parameters; the default dtype if None.

    Example:
        >>> cell = torch.nn.GRUCell(10, 20)
        >>> cell(torch.ones(3, 10), torch.zeros(3, 20)).shape
        torch.Size([3, 20])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next hidden state; without one, the step begins from zeros."""
        return self._step(recurrent.gru_cell, input, hx)


# ---- helpers


def _zeros(like: Tensor, *shape: int) -> Tensor:
    return _C.zeros(shape, dtype=like.dtype, device=like.device)


def _batch_of(input: Tensor, batch_sizes: Tensor | None, batch_first: bool) -> int:
    if batch_sizes is not None:
        return int(batch_sizes[0])
    return int(input.shape[0 if batch_first else 1])


def _check_state_dims(is_batched: bool, *dims: int) -> None:
    """Refuse a state with a batch dimension for an input without one, or the other way round."""
    expected = 3 if is_batched else 2
    if all(dim == expected for dim in dims):
        return
    batched = "batched" if is_batched else "unbatched"
    if len(dims) == 1:
        raise RuntimeError(
            f"For {batched} {expected}-D input, hx should also be {expected}-D but got "
            f"{dims[0]}-D tensor"
        )
    raise RuntimeError(
        f"For {batched} {expected}-D input, hx and cx should also be {expected}-D but got "
        f"({dims[0]}-D, {dims[1]}-D) tensors"
    )


def _refuse_projection(proj_size: int) -> None:
    if proj_size != 0:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


def _check_options(bias: Any, batch_first: Any, dropout: Any, num_layers: int) -> None:
    is_number = isinstance(dropout, numbers.Number) and not isinstance(dropout, bool)
    if not is_number or not 0 <= dropout <= 1:
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element "
            f"being zeroed, got {dropout!r}"
        )
    if dropout > 0 and num_layers == 1:
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout "
            f"expects num_layers greater than 1, but got dropout={dropout} and "
            f"num_layers={num_layers}",
            stacklevel=4,
        )
    for name, value in (("bias", bias), ("batch_first", batch_first)):
        if not isinstance(value, bool):
            raise TypeError(f"{name} should be of type bool, got: {type(value).__name__}")


def _check_sizes(input_size: Any, hidden_size: Any, num_layers: int, proj_size: int) -> None:
    for name, value in (("input_size", input_size), ("hidden_size", hidden_size)):
        if not isinstance(value, int):
            raise TypeError(f"{name} should be of type int, got: {type(value).__name__}")
        if value <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if num_layers <= 0:
        raise ValueError("num_layers must be greater than zero")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")
