"""Recurrences: one step of each cell, one layer in one direction, stacks of layers.

Two layouts go through the same code. A padded sequence is ``(time, batch, features)``. A packed one
is ``(steps, features)`` with the number of sequences that are still running at each time step, as
`nn.utils.rnn.PackedSequence` has it.

`_layer` is the one seam: whatever computes a whole layer at once goes there.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._casts import casts
from tapegrad._composed.registry import function
from tapegrad.nn.functional.dropouts import dropout as _dropout

__all__ = [
    "gru",
    "gru_cell",
    "lstm",
    "lstm_cell",
    "rnn_relu",
    "rnn_relu_cell",
    "rnn_tanh",
    "rnn_tanh_cell",
]

GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}

_NATIVE = (_C.float32, _C.float64)

State = tuple[Tensor, ...]  # The hidden state; of an LSTM, the cell state too.


# ---- cells


@function
@casts(cuda="lower", transparent=True)
def rnn_tanh_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """Return the next hidden state: ``tanh(x @ w_ih.T + b_ih + h @ w_hh.T + b_hh)``.

    Args:
        input: of shape ``(batch, input_size)``.
        hx: the hidden state, of shape ``(batch, hidden_size)``.
        w_ih: of shape ``(hidden_size, input_size)``.
        w_hh: of shape ``(hidden_size, hidden_size)``.
        b_ih: of shape ``(hidden_size,)``.
        b_hh: of shape ``(hidden_size,)``.

    Returns:
        A tensor of the shape of `hx`.

    Example:
        >>> x, h = torch.ones(1, 2), torch.zeros(1, 1)
        >>> torch.rnn_tanh_cell(x, h, torch.ones(1, 2), torch.ones(1, 1))
        tensor([[0.9640]])
    """
    _check_cell("rnn_tanh_cell", 1, input, (hx,), w_ih, w_hh)
    return _tanh_step(_C.linear(input, w_ih, b_ih), (hx,), w_hh, b_hh)[0]


@function
@casts(cuda="lower", transparent=True)
def rnn_relu_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """Return the next hidden state: ``relu(x @ w_ih.T + b_ih + h @ w_hh.T + b_hh)``.

    Args:
        input: of shape ``(batch, input_size)``.
        hx: the hidden state, of shape ``(batch, hidden_size)``.
        w_ih: of shape ``(hidden_size, input_size)``.
        w_hh: of shape ``(hidden_size, hidden_size)``.
        b_ih: of shape ``(hidden_size,)``.
        b_hh: of shape ``(hidden_size,)``.

    Returns:
        A tensor of the shape of `hx`.

    Example:
        >>> x, h = torch.ones(1, 2), torch.zeros(1, 1)
        >>> torch.rnn_relu_cell(x, h, torch.ones(1, 2), torch.ones(1, 1))
        tensor([[2.]])
    """
    _check_cell("rnn_relu_cell", 1, input, (hx,), w_ih, w_hh)
    return _relu_step(_C.linear(input, w_ih, b_ih), (hx,), w_hh, b_hh)[0]


@function
@casts(cuda="lower", transparent=True)
def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the next hidden and cell state of an LSTM.

    The rows of the weights are those of the input, forget, cell and output gates, in this order.

    Args:
        input: of shape ``(batch, input_size)``.
        hx: the hidden state and the cell state, each of shape ``(batch, hidden_size)``.
        w_ih: of shape ``(4 * hidden_size, input_size)``.
        w_hh: of shape ``(4 * hidden_size, hidden_size)``.
        b_ih: of shape ``(4 * hidden_size,)``.
        b_hh: of shape ``(4 * hidden_size,)``.

    Returns:
        The two states.

    Example:
        >>> state = torch.zeros(1, 1), torch.ones(1, 1)
        >>> h, c = torch.lstm_cell(torch.ones(1, 2), state, torch.zeros(4, 2), torch.zeros(4, 1))
        >>> c
        tensor([[0.5000]])
    """
    if len(hx) != 2:
        raise RuntimeError(f"lstm_cell: expects two hidden states, got {len(hx)}")
    _check_cell("lstm_cell", 4, input, tuple(hx), w_ih, w_hh)
    h, c = _lstm_step(_C.linear(input, w_ih, b_ih), tuple(hx), w_hh, b_hh)
    return h, c


@function
@casts(cuda="lower", transparent=True)
def gru_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """Return the next hidden state of a GRU.

    The rows of the weights are those of the reset, update and new gates, in this order.

    Args:
        input: of shape ``(batch, input_size)``.
        hx: the hidden state, of shape ``(batch, hidden_size)``.
        w_ih: of shape ``(3 * hidden_size, input_size)``.
        w_hh: of shape ``(3 * hidden_size, hidden_size)``.
        b_ih: of shape ``(3 * hidden_size,)``.
        b_hh: of shape ``(3 * hidden_size,)``.

    Returns:
        A tensor of the shape of `hx`.

    Example:
        >>> torch.gru_cell(torch.ones(1, 2), torch.ones(1, 1), torch.zeros(3, 2), torch.zeros(3, 1))
        tensor([[0.5000]])
    """
    _check_cell("gru_cell", 3, input, (hx,), w_ih, w_hh)
    return _gru_step(_C.linear(input, w_ih, b_ih), (hx,), w_hh, b_hh)[0]


def _check_cell(
    name: str, gates: int, input: Tensor, state: State, w_ih: Tensor, w_hh: Tensor
) -> None:
    """Refuse shapes that do not fit, in the order in which PyTorch looks at them."""
    if input.shape[1] != w_ih.shape[1]:
        raise RuntimeError(
            f"{name}: input has inconsistent input_size: got {input.shape[1]} expected "
            f"{w_ih.shape[1]}"
        )
    rows = gates * w_hh.shape[1]
    for label, weight in (("weight_ih", w_ih), ("weight_hh", w_hh)):
        if weight.shape[0] != rows:
            raise RuntimeError(
                f"{name}: {label} first dim must be {gates} * hidden_size = {rows}, but got "
                f"{weight.shape[0]}"
            )
    for place, hidden in enumerate(state):
        if input.shape[0] != hidden.shape[0]:
            raise RuntimeError(
                f"{name}: Input batch size {input.shape[0]} doesn't match hidden{place} batch size "
                f"{hidden.shape[0]}"
            )
        if hidden.shape[1] != w_hh.shape[1]:
            raise RuntimeError(
                f"{name}: hidden{place} has inconsistent hidden_size: got {hidden.shape[1]}, "
                f"expected {w_hh.shape[1]}"
            )


# ---- one step, the input's product done: what the cells and the layers share


def _tanh_step(x_gates: Tensor, state: State, w_hh: Tensor, b_hh: Tensor | None) -> State:
    return ((x_gates + _C.linear(state[0], w_hh, b_hh)).tanh(),)


def _relu_step(x_gates: Tensor, state: State, w_hh: Tensor, b_hh: Tensor | None) -> State:
    return ((x_gates + _C.linear(state[0], w_hh, b_hh)).relu(),)


def _lstm_step(x_gates: Tensor, state: State, w_hh: Tensor, b_hh: Tensor | None) -> State:
    h, c = state
    i, f, g, o = (x_gates + _C.linear(h, w_hh, b_hh)).chunk(4, 1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _gru_step(x_gates: Tensor, state: State, w_hh: Tensor, b_hh: Tensor | None) -> State:
    (h,) = state
    size = h.shape[1]
    x_rz, x_n = x_gates.split([2 * size, size], 1)
    h_rz, h_n = _C.linear(h, w_hh, b_hh).split([2 * size, size], 1)
    r, z = (x_rz + h_rz).sigmoid().chunk(2, 1)
    n = (x_n + r * h_n).tanh()
    return ((h - n) * z + n,)


_STEPS = {"RNN_TANH": _tanh_step, "RNN_RELU": _relu_step, "LSTM": _lstm_step, "GRU": _gru_step}


# ---- one layer in one direction


def _layer(
    kind: str,
    x: Tensor,
    state: State,
    weights: Sequence[Tensor | None],
    reverse: bool,
    batch_sizes: list[int] | None = None,
) -> tuple[Tensor, State]:
    """Run one layer in one direction over a whole sequence, as autocast wants it if it is on."""
    if not _C._autocast_devices():
        return _run_layer(kind, x, state, weights, reverse, batch_sizes)
    run = _cast_lstm_layer if kind == "LSTM" and weights[4] is None else _cast_layer
    return run(kind, x, state, weights, reverse, batch_sizes)


def _run_layer(
    kind: str,
    x: Tensor,
    state: State,
    weights: Sequence[Tensor | None],
    reverse: bool,
    batch_sizes: list[int] | None,
) -> tuple[Tensor, State]:
    """Run one layer in one direction over a whole sequence.

    A native op runs the layer at once; what it does not take (projections, half precision) is made
    of steps.

    Args:
        kind: a key of `GATES`.
        x: ``(time, batch, features)``, or ``(steps, features)`` with `batch_sizes`.
        state: where the recurrence begins, each ``(batch, size)``.
        weights: w_ih, w_hh, b_ih, b_hh, w_hr; None for those that the layer has not.
        reverse: whether time runs backwards.
        batch_sizes: the number of sequences at each time step of packed data, never increasing.

    Returns:
        The hidden states of all steps, in the layout of x, and the last state of each sequence.
    """
    w_ih, w_hh, b_ih, b_hh, w_hr = weights
    assert w_ih is not None and w_hh is not None
    if kind != "GRU" and b_ih is not None and b_hh is not None:
        # The reset gate of a GRU multiplies a part of b_hh; otherwise the two biases only add up.
        b_ih, b_hh = b_ih + b_hh, None
    if w_hr is None and x.dtype in _NATIVE:
        return _native_layer(kind, x, state, (w_ih, w_hh), (b_ih, b_hh), reverse, batch_sizes)
    return _run_steps(kind, x, state, (w_ih, w_hh, b_ih, b_hh, w_hr), reverse, batch_sizes)


def _run_steps(
    kind: str,
    x: Tensor,
    state: State,
    weights: Sequence[Tensor | None],
    reverse: bool,
    batch_sizes: list[int] | None,
) -> tuple[Tensor, State]:
    w_ih, w_hh, b_ih, b_hh, w_hr = weights
    assert w_ih is not None and w_hh is not None
    x_gates = _C.linear(x, w_ih, b_ih)  # One product for all time steps.
    step = _STEPS[kind]

    def advance(x_step: Tensor, state: State) -> State:
        state = step(x_step, state, w_hh, b_hh)
        return state if w_hr is None else (_C.linear(state[0], w_hr), *state[1:])

    if batch_sizes is None:
        return _run_padded(advance, x_gates.unbind(0), state, reverse)
    run = _run_packed_backwards if reverse else _run_packed
    return run(advance, x_gates.split(batch_sizes), state, batch_sizes)


# On CUDA devices PyTorch's autocast casts whole layers, and on the CPU those that oneDNN runs. Of
# others it casts the products in them, and the rest is promoted: those are made of steps.
_cast_lstm_layer = casts(cpu="lower", cuda="lower", of="lstm")(_run_layer)


def _cast_layer(
    kind: str,
    x: Tensor,
    state: State,
    weights: Sequence[Tensor | None],
    reverse: bool,
    batch_sizes: list[int] | None,
) -> tuple[Tensor, State]:
    device = x.device.type
    run = _CAST_ON_CUDA[kind] if device == "cuda" else _run_steps
    if device == "meta" or not _C.is_autocast_enabled(device):
        run = _run_layer
    return run(kind, x, state, weights, reverse, batch_sizes)


_CAST_ON_CUDA = {kind: casts(cuda="lower", of=kind.lower())(_run_layer) for kind in GATES}


# A long sequence is several ops of so many steps, or of so many rows if that is more: the tape can
# let go of a part at a time, and each part is large enough to cost nothing.
_PART_STEPS, _PART_ROWS = 32, 512


def _native_layer(
    kind: str,
    x: Tensor,
    state: State,
    weights: tuple[Tensor, Tensor],
    biases: tuple[Tensor | None, Tensor | None],
    reverse: bool,
    batch_sizes: list[int] | None,
) -> tuple[Tensor, State]:
    if batch_sizes is not None:
        return _native_part(kind, x, state, weights, biases, reverse, batch_sizes)
    steps, batch, features = x.shape
    length = max(_PART_STEPS, _PART_ROWS // max(batch, 1))
    parts = x.split(length) if steps >= 4 * length else (x,)
    outputs = []
    for part in reversed(parts) if reverse else parts:
        counts = [batch] * part.shape[0]
        rows = part.reshape(sum(counts), features)
        output, state = _native_part(kind, rows, state, weights, biases, reverse, counts)
        outputs.append(output)
    output = outputs[0] if len(outputs) == 1 else _C.cat(outputs[::-1] if reverse else outputs)
    return output.view(steps, batch, output.shape[1]), state


def _native_part(
    kind: str,
    x: Tensor,
    state: State,
    weights: tuple[Tensor, Tensor],
    biases: tuple[Tensor | None, Tensor | None],
    reverse: bool,
    counts: list[int],
) -> tuple[Tensor, State]:
    output, *final = _C._recurrent(kind, x, *weights, state, *biases, counts, reverse)
    return output, tuple(final)


def _run_padded(
    advance: Any, steps: Sequence[Tensor], state: State, reverse: bool
) -> tuple[Tensor, State]:
    outputs = []
    for x_step in reversed(steps) if reverse else steps:
        state = advance(x_step, state)
        outputs.append(state[0])
    return _C.stack(outputs[::-1] if reverse else outputs), state


def _run_packed(
    advance: Any, steps: Sequence[Tensor], state: State, sizes: list[int]
) -> tuple[Tensor, State]:
    """Go forward in time: sequences end, the shortest first, which are the last rows."""
    outputs, ended = [], []
    running = sizes[0]
    for x_step, size in zip(steps, sizes, strict=True):
        if size < running:
            pieces = [part.split([size, running - size]) for part in state]
            state = tuple(rest for rest, _ in pieces)
            ended.append(tuple(done for _, done in pieces))
            running = size
        state = advance(x_step, state)
        outputs.append(state[0])
    ended.append(state)
    final = tuple(_C.cat(parts[::-1]) for parts in zip(*ended, strict=True))
    return _C.cat(outputs), final


def _run_packed_backwards(
    advance: Any, steps: Sequence[Tensor], state: State, sizes: list[int]
) -> tuple[Tensor, State]:
    """Go backward in time: sequences join, each with the state that it begins from."""
    outputs = []
    begin, running = state, sizes[-1]
    state = tuple(part[:running] for part in begin)
    for x_step, size in zip(reversed(steps), reversed(sizes), strict=True):
        if size > running:
            joining = (part[running:size] for part in begin)
            state = tuple(_C.cat(pair) for pair in zip(state, joining, strict=True))
            running = size
        state = advance(x_step, state)
        outputs.append(state[0])
    return _C.cat(outputs[::-1]), state


# ---- stacks of layers


def run_layers(
    kind: str,
    x: Tensor,
    states: State,
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool = False,
    batch_sizes: Tensor | None = None,
) -> tuple[Tensor, State]:
    """Run a stack of layers, in one direction or both.

    Args:
        kind: a key of `GATES`.
        x: a padded sequence, or packed data with `batch_sizes`.
        states: where the recurrences begin, each ``(layers * directions, batch, size)``.
        params: the weights of all layers and directions, one after the other.
        has_biases: whether there are biases among them.
        num_layers: the number of layers.
        dropout: the probability of a zero between layers.
        train: whether dropout is done at all.
        bidirectional: whether each layer runs in both directions.
        batch_first: whether a padded sequence is ``(batch, time, features)``.
        batch_sizes: the number of sequences at each time step of packed data.

    Returns:
        The outputs of the last layer, in the layout of x, and the last states of all.
    """
    directions = 2 if bidirectional else 1
    projected = kind == "LSTM" and states[0].shape[2] != states[1].shape[2]
    groups = _group_weights(kind, params, has_biases, projected)
    begins = list(zip(*(part.unbind(0) for part in states), strict=True))
    if not len(begins) >= num_layers * directions <= len(groups):
        raise RuntimeError(
            f"{kind.lower()}: expected weights and hidden states for {num_layers * directions} "
            f"layers and directions, got {len(groups)} and {len(begins)}"
        )
    batch_first = batch_first and batch_sizes is None
    if batch_first:
        x = x.transpose(0, 1)
    sizes = None if batch_sizes is None else _check_batch_sizes(kind, x, states, batch_sizes)
    if sizes is None and x.shape[0] == 0:
        raise RuntimeError(f"{kind.lower()}: Expected sequence length to be larger than 0 in RNN")
    finals = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            place = layer * directions + direction
            output, final = _layer(kind, x, begins[place], groups[place], direction == 1, sizes)
            outputs.append(output)
            finals.append(final)
        x = outputs[0] if len(outputs) == 1 else _C.cat(outputs, -1)
        if dropout and train and layer < num_layers - 1:
            x = _dropout(x, dropout)
    if batch_first:
        x = x.transpose(0, 1)
    return x, tuple(_C.stack(parts) for parts in zip(*finals, strict=True))


def _group_weights(
    kind: str, params: Sequence[Tensor], has_biases: bool, projected: bool
) -> list[tuple[Tensor | None, ...]]:
    """Return w_ih, w_hh, b_ih, b_hh, w_hr of each layer and direction."""
    count = (4 if has_biases else 2) + projected
    if len(params) % count:
        raise RuntimeError(
            f"{kind.lower()}: expected {count} weights for each layer and direction, got "
            f"{len(params)} in all, which is no multiple of it"
        )
    groups: list[tuple[Tensor | None, ...]] = []
    for start in range(0, len(params), count):
        group = params[start : start + count]
        biases = group[2:4] if has_biases else (None, None)
        groups.append((*group[:2], *biases, group[-1] if projected else None))
    return groups


def _check_batch_sizes(kind: str, data: Tensor, states: State, batch_sizes: Tensor) -> list[int]:
    sizes: list[int] = batch_sizes.tolist()
    falling = all(after <= before for before, after in pairwise(sizes))
    if not sizes or not falling or sizes[-1] <= 0:
        raise RuntimeError(
            f"{kind.lower()}: expected batch_sizes that are positive and never increase, got "
            f"{sizes}"
        )
    if sum(sizes) != data.shape[0]:
        raise RuntimeError(
            f"{kind.lower()}: expected batch_sizes that add up to the {data.shape[0]} rows of the "
            f"packed data, got {sizes}, which add up to {sum(sizes)}"
        )
    if states[0].shape[1] != sizes[0]:
        raise RuntimeError(
            f"{kind.lower()}: expected hidden states for the {sizes[0]} packed sequences, got "
            f"{states[0].shape[1]}"
        )
    return sizes


# ---- the functions of the package: two signatures each, for padded and for packed sequences

_REST = ("has_biases", "num_layers", "dropout", "train", "bidirectional")
_PADDED = ("input", "hx", "params", *_REST, "batch_first")
_PACKED = ("data", "batch_sizes", "hx", "params", *_REST)


def _call(
    name: str, kind: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Tensor, ...]:
    """Sort the arguments of either signature, and run."""
    packed = "batch_sizes" in kwargs or (len(args) > 3 and not isinstance(args[3], (bool, int)))
    names = _PACKED if packed else _PADDED
    named = dict(zip(names, args, strict=False)) | kwargs
    if len(args) + len(kwargs) != len(names) or named.keys() != set(names):
        raise TypeError(
            f"{name}: expected the arguments {', '.join(names)}, got {len(args)} in place and "
            f"{sorted(kwargs)} by name"
        )
    hx = named.pop("hx")
    states = tuple(hx) if kind == "LSTM" else (hx,)
    if kind == "LSTM" and len(states) != 2:
        raise RuntimeError(f"lstm: expects two hidden states, got {len(states)}")
    x = named.pop("data" if packed else "input")
    output, finals = run_layers(kind, x, states, **named)
    return (output, *finals)


@function
def lstm(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    """Run an LSTM: what `nn.LSTM` calls.

    Args:
        args: ``input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
            batch_first``; of packed sequences ``data, batch_sizes, hx, params, has_biases,
            num_layers, dropout, train, bidirectional``.
        kwargs: the same by name.

    Returns:
        The outputs, the last hidden states, the last cell states.

    Example:
        >>> layer = torch.nn.LSTM(2, 3)
        >>> state = torch.zeros(1, 4, 3), torch.zeros(1, 4, 3)
        >>> x, weights = torch.ones(5, 4, 2), list(layer.parameters())
        >>> y, h, c = torch.lstm(x, state, weights, True, 1, 0.0, True, False, False)
        >>> y.shape, h.shape
        (torch.Size([5, 4, 3]), torch.Size([1, 4, 3]))
    """
    return _call("lstm", "LSTM", args, kwargs)


@function
def gru(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    """Run a GRU: what `nn.GRU` calls.

    Args:
        args: ``input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
            batch_first``; of packed sequences ``data, batch_sizes, hx, params, has_biases,
            num_layers, dropout, train, bidirectional``.
        kwargs: the same by name.

    Returns:
        The outputs and the last hidden states.

    Example:
        >>> layer = torch.nn.GRU(2, 3)
        >>> x, weights = torch.ones(5, 4, 2), list(layer.parameters())
        >>> h = torch.zeros(1, 4, 3)
        >>> y, h = torch.gru(x, h, weights, True, 1, 0.0, True, False, False)
        >>> y.shape, h.shape
        (torch.Size([5, 4, 3]), torch.Size([1, 4, 3]))
    """
    return _call("gru", "GRU", args, kwargs)


@function
def rnn_tanh(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    """Run a plain recurrence with tanh: what `nn.RNN` calls.

    Args:
        args: ``input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
            batch_first``; of packed sequences ``data, batch_sizes, hx, params, has_biases,
            num_layers, dropout, train, bidirectional``.
        kwargs: the same by name.

    Returns:
        The outputs and the last hidden states.

    Example:
        >>> layer = torch.nn.RNN(2, 3)
        >>> x, weights = torch.ones(5, 4, 2), list(layer.parameters())
        >>> h = torch.zeros(1, 4, 3)
        >>> y, h = torch.rnn_tanh(x, h, weights, True, 1, 0.0, True, False, False)
        >>> y.shape, h.shape
        (torch.Size([5, 4, 3]), torch.Size([1, 4, 3]))
    """
    return _call("rnn_tanh", "RNN_TANH", args, kwargs)


@function
def rnn_relu(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    """Run a plain recurrence with relu: what `nn.RNN` calls.

    Args:
        args: ``input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
            batch_first``; of packed sequences ``data, batch_sizes, hx, params, has_biases,
            num_layers, dropout, train, bidirectional``.
        kwargs: the same by name.

    Returns:
        The outputs and the last hidden states.

    Example:
        >>> layer = torch.nn.RNN(2, 3, nonlinearity="relu")
        >>> x, weights = torch.ones(5, 4, 2), list(layer.parameters())
        >>> h = torch.zeros(1, 4, 3)
        >>> y, h = torch.rnn_relu(x, h, weights, True, 1, 0.0, True, False, False)
        >>> y.shape, h.shape
        (torch.Size([5, 4, 3]), torch.Size([1, 4, 3]))
    """
    return _call("rnn_relu", "RNN_RELU", args, kwargs)
