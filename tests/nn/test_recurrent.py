"""Recurrent layers and cells beside PyTorch's, with the same weights."""

import warnings

import numpy as np
import pytest

from .side_by_side import copy_state, expect_near, numbers, tensor_of

# name, arguments, keyword arguments
LAYERS = [
    ("RNN", (3, 4), {}),
    ("RNN", (3, 4), {"nonlinearity": "relu", "num_layers": 2, "bidirectional": True}),
    ("RNN", (3, 4, 2, "relu", False, True), {}),
    ("LSTM", (3, 4), {}),
    ("LSTM", (3, 4, 2), {"bias": False, "batch_first": True}),
    ("LSTM", (3, 4, 2), {"bidirectional": True}),
    ("LSTM", (3, 4, 2), {"proj_size": 2, "bidirectional": True}),
    ("LSTM", (3, 4), {"proj_size": 3, "bias": False, "batch_first": True}),
    ("GRU", (3, 4), {}),
    ("GRU", (3, 4, 3), {"bidirectional": True, "batch_first": True}),
    ("GRU", (3, 4), {"bias": False}),
]
CELLS = [
    ("RNNCell", (3, 4), {}),
    ("RNNCell", (3, 4), {"nonlinearity": "relu", "bias": False}),
    ("LSTMCell", (3, 4), {}),
    ("LSTMCell", (3, 4), {"bias": False}),
    ("GRUCell", (3, 4), {}),
    ("GRUCell", (3, 4, False), {}),
]


def names(case):
    return f"{case[0]}{case[1]}{case[2] or ''}"


def make_pair(both, case):
    """Return a layer in both libraries, in float64, with PyTorch's weights."""
    name, args, kwargs = case
    ours, theirs = (getattr(library.nn, name)(*args, **kwargs).double() for library in both)
    copy_state(theirs, ours, both[0])
    return ours, theirs


def states_for(layer, batch=None):
    """Return arrays for the hidden state, and the cell state of an LSTM."""
    rows = layer.num_layers * (2 if layer.bidirectional else 1)
    middle = () if batch is None else (batch,)
    hidden = numbers(rows, *middle, layer.proj_size or layer.hidden_size, seed=3)
    if layer.mode != "LSTM":
        return [hidden]
    return [hidden, numbers(rows, *middle, layer.hidden_size, seed=4)]


def flat(result):
    """Return all tensors of what a layer or cell returned; of a packed sequence, its data."""
    if hasattr(result, "batch_sizes"):
        return [result.data]
    if isinstance(result, (tuple, list)):
        return [tensor for part in result for tensor in flat(part)]
    return [result]


def expect_same_run(both, layers, call, inputs):
    """Call both layers, sweep back from all outputs, compare outputs and all gradients."""
    found = []
    for library, layer in zip(both, layers, strict=True):
        tensors = [tensor_of(library, value) for value in inputs]
        outputs = flat(call(library, layer, *tensors))
        loss = sum(
            (output * tensor_of(library, numbers(*output.shape, seed=9 + place)).detach()).sum()
            for place, output in enumerate(outputs)
        )
        grads = library.autograd.grad(loss, [*tensors, *layer.parameters()])
        found.append([*outputs, *grads])
    for place, (own, their) in enumerate(zip(*found, strict=True)):
        expect_near(own, their, f"outputs and gradients, number {place}", 1e-10)


def call_layer(library, layer, x, *states):
    hx = states if len(states) == 2 else (states[0] if states else None)
    return layer(x, hx)


@pytest.mark.parametrize("case", LAYERS, ids=names)
def test_layer(both, case):
    ours, theirs = make_pair(both, case)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert ours.state_dict()._metadata == theirs.state_dict()._metadata
    assert ours._flat_weights_names == theirs._flat_weights_names
    shape = (2, 5, 3) if ours.batch_first else (5, 2, 3)
    expect_same_run(both, (ours, theirs), call_layer, [numbers(*shape)])
    expect_same_run(both, (ours, theirs), call_layer, [numbers(*shape), *states_for(ours, 2)])
    expect_same_run(both, (ours, theirs), call_layer, [numbers(5, 3)])
    expect_same_run(both, (ours, theirs), call_layer, [numbers(5, 3), *states_for(ours)])
    expect_same_run(both, (ours, theirs), call_layer, [numbers(*shape)[:1, :1]])


@pytest.mark.parametrize("lengths", [(5, 3, 3, 1), (1, 4, 2, 4), (2, 2, 2, 2)], ids=str)
@pytest.mark.parametrize("case", LAYERS, ids=names)
def test_packed_layer(both, case, lengths):
    layers = make_pair(both, case)
    is_sorted = sorted(lengths, reverse=True) == list(lengths)

    def call(library, layer, x, *states):
        rnn = library.nn.utils.rnn
        packed = rnn.pack_padded_sequence(
            x, list(lengths), batch_first=layer.batch_first, enforce_sorted=is_sorted
        )
        output, hidden = call_layer(library, layer, packed, *states)
        assert isinstance(output, rnn.PackedSequence)
        padded, counts = rnn.pad_packed_sequence(output, batch_first=layer.batch_first)
        assert counts.tolist() == list(lengths)
        return padded, hidden

    shape = (4, 5, 3) if layers[0].batch_first else (5, 4, 3)
    expect_same_run(both, layers, call, [numbers(*shape)])
    expect_same_run(both, layers, call, [numbers(*shape), *states_for(layers[0], 4)])


def test_a_packed_sequence_gives_what_each_sequence_alone_gives(torch):
    layer = torch.nn.LSTM(3, 4, 2, bidirectional=True).double()
    sequences = [
        torch.tensor(numbers(length, 3, seed=length).tolist()).double() for length in (2, 5)
    ]
    packed = torch.nn.utils.rnn.pack_sequence(sequences, enforce_sorted=False)
    output, (h, c) = layer(packed)
    together = torch.nn.utils.rnn.unpack_sequence(output)
    for place, sequence in enumerate(sequences):
        alone, (own_h, own_c) = layer(sequence)
        assert torch.allclose(together[place], alone)
        assert torch.allclose(h[:, place], own_h)
        assert torch.allclose(c[:, place], own_c)


@pytest.mark.parametrize("case", CELLS, ids=names)
def test_cell(both, case):
    ours, theirs = make_pair(both, case)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    parts = 2 if case[0] == "LSTMCell" else 1
    for x, shape in ((numbers(2, 3), (2, 4)), (numbers(3), (4,))):
        states = [numbers(*shape, seed=place) for place in range(parts)]
        expect_same_run(both, (ours, theirs), call_layer, [x])
        expect_same_run(both, (ours, theirs), call_layer, [x, *states])


FUNCTIONS = [
    ("rnn_tanh_cell", 1, 1),
    ("rnn_relu_cell", 1, 1),
    ("lstm_cell", 4, 2),
    ("gru_cell", 3, 1),
]


def cell_arguments(library, gates, parts, biases=True):
    arrays = [numbers(2, 3), *(numbers(2, 4, seed=place) for place in range(parts))]
    weights = [numbers(4 * gates, 3), numbers(4 * gates, 4)]
    weights += [numbers(4 * gates, seed=1), numbers(4 * gates, seed=2)] if biases else []
    x, *state = (tensor_of(library, array) for array in arrays)
    return x, state, [tensor_of(library, weight) for weight in weights]


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("name, gates, parts", FUNCTIONS)
def test_cell_function(both, name, gates, parts, biases):
    found = []
    for library in both:
        x, state, weights = cell_arguments(library, gates, parts, biases)
        result = getattr(library, name)(x, state if parts == 2 else state[0], *weights)
        outputs = flat(result)
        loss = sum(output.square().sum() for output in outputs)
        found.append([*outputs, *library.autograd.grad(loss, [x, *state, *weights])])
    for own, their in zip(*found, strict=True):
        expect_near(own, their, name, 1e-10)


@pytest.mark.parametrize("name, gates, parts", FUNCTIONS)
def test_cell_derivatives(torch, name, gates, parts):
    x, state, weights = cell_arguments(torch, gates, parts)

    def step(x, *rest):
        hx = rest[:2] if parts == 2 else rest[0]
        return getattr(torch, name)(x, hx, *rest[parts:])

    assert torch.autograd.gradcheck(step, (x, *state, *weights))
    assert torch.autograd.gradgradcheck(step, (x, *state, *weights))


@pytest.mark.parametrize("mode", ["LSTM", "GRU", "RNN"])
def test_second_derivatives_through_a_layer(torch, mode):
    layer = getattr(torch.nn, mode)(2, 2, bidirectional=True).double()
    x = tensor_of(torch, numbers(3, 2, 2))
    weights = list(layer.parameters())

    def run(x, *weights):
        named = dict(zip([name for name, _ in layer.named_parameters()], weights, strict=True))
        return torch.func.functional_call(layer, named, (x,))[0]

    leaves = [weight.detach().requires_grad_() for weight in weights]
    assert torch.autograd.gradcheck(run, (x, *leaves))
    assert torch.autograd.gradgradcheck(run, (x, *leaves))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("mode", ["lstm", "gru", "rnn_tanh", "rnn_relu"])
def test_sequence_function(both, mode, packed):
    found = []
    for library in both:
        gates = {"lstm": 4, "gru": 3}.get(mode, 1)
        weights = [numbers(4 * gates, 3), numbers(4 * gates, 4)]
        weights = [tensor_of(library, weight) for weight in weights]
        state = tensor_of(library, numbers(1, 2, 4))
        hx = (state, state * 2) if mode == "lstm" else state
        function = getattr(library, mode)
        if packed:
            data = tensor_of(library, numbers(5, 3))
            sizes = library.tensor([2, 2, 1])
            result = function(data, sizes, hx, weights, False, 1, 0.0, True, False)
        else:
            x = tensor_of(library, numbers(2, 5, 3))
            result = function(x, hx, weights, False, 1, 0.0, True, False, batch_first=True)
        loss = sum(output.square().sum() for output in result)
        found.append([*result, *library.autograd.grad(loss, [state, *weights])])
    assert len(found[0]) == len(found[1])
    for own, their in zip(*found, strict=True):
        expect_near(own, their, mode, 1e-10)


def test_dropout_is_between_layers_only(torch):
    for mode in ("LSTM", "GRU", "RNN"):
        layer = getattr(torch.nn, mode)(3, 64, 2, dropout=0.5)
        x = torch.ones(4, 2, 3)
        assert not torch.equal(layer(x)[0], layer(x)[0])
        layer.eval()
        assert torch.equal(layer(x)[0], layer(x)[0])
        kept = getattr(torch.nn, mode)(3, 64, 2)
        kept.load_state_dict(layer.state_dict())
        assert torch.equal(kept(x)[0], layer(x)[0])
        assert not (layer.train()(x)[0] == 0).any()  # Not behind the last layer.


def test_all_dropped_leaves_the_biases(torch):
    """With everything dropped, the second layer sees zeros, whatever the input."""
    layer = torch.nn.GRU(3, 4, 2, dropout=1.0)
    a, b = layer(torch.ones(5, 2, 3))[0], layer(torch.zeros(5, 2, 3))[0]
    assert torch.equal(a, b)


def test_dropout_keeps_the_mean(torch):
    layer = torch.nn.RNN(1, 2000, 2, nonlinearity="relu", dropout=0.3, bias=False)
    with torch.no_grad():
        layer.weight_ih_l0.fill_(1.0)
        layer.weight_ih_l1.zero_()[:, 0] = 1.0
        layer.weight_hh_l0.zero_()
        layer.weight_hh_l1.zero_()
    rows = layer(torch.ones(1, 4000, 1))[0][0, :, 0]
    assert abs(float(rows.mean().detach()) - 1.0) < 0.05
    assert abs(float((rows == 0).float().mean()) - 0.3) < 0.05


def test_initial_weights_are_as_wide_as_pytorchs(torch):
    for name in ("RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell"):
        for parameter in getattr(torch.nn, name)(50, 100).parameters():
            largest = float(parameter.detach().abs().max())
            assert 0.08 < largest <= 0.1
            assert abs(float(parameter.detach().mean())) < 0.03


def test_all_weights_are_the_parameters(torch):
    layer = torch.nn.LSTM(3, 4, 2, bidirectional=True, proj_size=2)
    layer.flatten_parameters()
    assert [len(weights) for weights in layer.all_weights] == [5, 5, 5, 5]
    assert layer.all_weights[3][4] is layer.weight_hr_l1_reverse
    flat_weights = [weight for weights in layer.all_weights for weight in weights]
    for own, listed in zip(layer.parameters(), flat_weights, strict=True):
        assert own is listed


def test_a_replaced_weight_is_used(torch):
    layer = torch.nn.RNN(2, 1, bias=False)
    layer.weight_ih_l0 = torch.nn.Parameter(torch.zeros(1, 2))
    assert layer(torch.ones(3, 2))[0].tolist() == [[0.0]] * 3
    named = {"weight_ih_l0": torch.ones(1, 2)}
    output = torch.func.functional_call(layer, named, (torch.ones(1, 2),))[0]
    assert abs(float(output.detach()) - np.tanh(2.0)) < 1e-6


def test_pickled_and_copied_layers_run(torch):
    import copy
    import pickle

    layer = torch.nn.GRU(3, 4, 2)
    x = torch.ones(2, 1, 3)
    expected = layer(x)[0]
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(other(x)[0], expected)
        assert other.weight_ih_l0 is not layer.weight_ih_l0
        with torch.no_grad():
            other.weight_ih_l0.zero_()
        assert not torch.equal(other(x)[0], expected)


def test_single_layer_dropout_warns(torch):
    with pytest.warns(UserWarning, match="num_layers greater than 1"):
        torch.nn.GRU(3, 4, dropout=0.5)


def test_a_batch_of_nothing(torch):
    y, (h, c) = torch.nn.LSTM(3, 4)(torch.ones(2, 0, 3))
    assert tuple(y.shape) == (2, 0, 4)
    assert tuple(h.shape) == tuple(c.shape) == (1, 0, 4)


def lstm(t, *args, **kwargs):
    return t.nn.LSTM(3, 4, *args, **kwargs)


def pack(t, *shape, lengths):
    return t.nn.utils.rnn.pack_padded_sequence(t.ones(*shape), lengths)


# a call, the error, what it says
ERRORS = [
    (lambda t: t.nn.RNN(3, 4, nonlinearity="x"), ValueError, "Unknown nonlinearity 'x'"),
    (lambda t: t.nn.GRU(3, 4, proj_size=2), ValueError, "only supported for LSTM"),
    (lambda t: t.nn.RNN(3, 4, proj_size=2), ValueError, "only supported for LSTM"),
    (lambda t: t.nn.RNNBase("X", 3, 4), ValueError, "Unrecognized RNN mode: X"),
    (lambda t: t.nn.RNNBase("LSTM", 3, 4)(t.ones(2, 3)), NotImplementedError, "RNNBase"),
    (lambda t: lstm(t, bias=1), TypeError, "bias should be of type bool, got: int"),
    (lambda t: lstm(t, batch_first=1), TypeError, "batch_first should be of type bool, got: int"),
    (lambda t: lstm(t, dropout=True), ValueError, r"dropout should be a number in range \[0, 1\]"),
    (lambda t: lstm(t, dropout=2), ValueError, r"dropout should be a number in range \[0, 1\]"),
    (lambda t: lstm(t, dropout="x"), ValueError, None),
    (lambda t: lstm(t, 0), ValueError, "num_layers must be greater than zero"),
    (lambda t: lstm(t, proj_size=4), ValueError, "proj_size has to be smaller than hidden_size"),
    (lambda t: lstm(t, proj_size=-1), ValueError, "positive integer or zero"),
    (lambda t: t.nn.LSTM(3, 0), ValueError, "hidden_size must be greater than zero"),
    (lambda t: t.nn.LSTM(0, 3), ValueError, "input_size must be greater than zero"),
    (lambda t: t.nn.LSTM(3.0, 3), TypeError, "input_size should be of type int, got: float"),
    (lambda t: t.nn.LSTM(3, 4.0), TypeError, "hidden_size should be of type int, got: float"),
    (lambda t: lstm(t)(t.ones(3)), ValueError, "LSTM: Expected input to be 2D or 3D, got 1D"),
    (lambda t: t.nn.GRU(3, 4)(t.ones(3)), ValueError, "GRU: Expected input to be 2D or 3D, got 1D"),
    (lambda t: t.nn.RNN(3, 4)(t.ones(3)), ValueError, "RNN: Expected input to be 2D or 3D, got 1D"),
    (
        lambda t: lstm(t)(t.ones(5, 2, 4)),
        RuntimeError,
        r"input.size\(-1\) must be equal to input_size. Expected 3, got 4",
    ),
    (
        lambda t: lstm(t)(t.ones(5, 2, 3).double()),
        ValueError,
        r"RNN input dtype \(torch.float64\) does not match weight dtype \(torch.float32\)",
    ),
    (
        lambda t: t.nn.GRU(3, 4)(t.ones(5, 2, 3), t.ones(1, 3, 4)),
        RuntimeError,
        r"Expected hidden size \(1, 2, 4\), got \[1, 3, 4\]",
    ),
    (
        lambda t: lstm(t)(t.ones(5, 2, 3), (t.ones(1, 2, 3), t.ones(1, 2, 4))),
        RuntimeError,
        r"Expected hidden\[0\] size \(1, 2, 4\), got \[1, 2, 3\]",
    ),
    (
        lambda t: lstm(t, proj_size=2)(t.ones(5, 2, 3), (t.ones(1, 2, 2), t.ones(1, 2, 2))),
        RuntimeError,
        r"Expected hidden\[1\] size \(1, 2, 4\), got \[1, 2, 2\]",
    ),
    (
        lambda t: t.nn.GRU(3, 4)(t.ones(5, 2, 3), t.ones(1, 4)),
        RuntimeError,
        "For batched 3-D input, hx should also be 3-D but got 2-D tensor",
    ),
    (
        lambda t: t.nn.RNN(3, 4)(t.ones(5, 3), t.ones(1, 1, 4)),
        RuntimeError,
        "For unbatched 2-D input, hx should also be 2-D but got 3-D tensor",
    ),
    (
        lambda t: lstm(t)(t.ones(5, 3), (t.ones(1, 1, 4), t.ones(1, 4))),
        RuntimeError,
        r"For unbatched 2-D input, hx and cx should also be 2-D but got \(3-D, 2-D\) tensors",
    ),
    (
        lambda t: lstm(t)(t.ones(5, 1, 3), (t.ones(1, 1, 4), t.ones(1, 4))),
        RuntimeError,
        r"For batched 3-D input, hx and cx should also be 3-D but got \(3-D, 2-D\) tensors",
    ),
    (
        lambda t: lstm(t)(t.ones(0, 2, 3)),
        RuntimeError,
        "Expected sequence length to be larger than 0",
    ),
    (
        lambda t: t.nn.GRU(3, 4)(pack(t, 5, 2, 3, lengths=[5, 1]), t.ones(1, 3, 4)),
        RuntimeError,
        r"Expected hidden size \(1, 2, 4\), got \[1, 3, 4\]",
    ),
    (
        lambda t: t.nn.GRU(3, 4)(pack(t, 5, 2, 2, lengths=[5, 1])),
        RuntimeError,
        r"input.size\(-1\) must be equal to input_size. Expected 3, got 2",
    ),
    (lambda t: t.nn.GRUCell(3, 4)(t.ones(2, 2, 3)), ValueError, "GRUCell: Expected input to be 1D"),
    (
        lambda t: t.nn.RNNCell(3, 4)(t.ones(2, 3), t.ones(1, 2, 4)),
        ValueError,
        "RNNCell: Expected hidden to be 1D or 2D, got 3D instead",
    ),
    (
        lambda t: t.nn.LSTMCell(3, 4)(t.ones(2, 3), (t.ones(2, 4), t.ones(1, 2, 4))),
        ValueError,
        r"LSTMCell: Expected hx\[1\] to be 1D or 2D, got 3D instead",
    ),
    (
        lambda t: t.nn.LSTMCell(3, 4)(t.ones(1, 2, 3)),
        ValueError,
        "LSTMCell: Expected input to be 1D",
    ),
    (
        lambda t: t.nn.LSTMCell(3, 4)(t.ones(2, 5)),
        RuntimeError,
        "input has inconsistent input_size: got 5 expected 3",
    ),
    (
        lambda t: t.nn.GRUCell(3, 4)(t.ones(5, 3), t.ones(2, 4)),
        RuntimeError,
        "Input batch size 5 doesn't match hidden0 batch size 2",
    ),
    (
        lambda t: t.nn.GRUCell(3, 4)(t.ones(2, 3), t.ones(2, 5)),
        RuntimeError,
        "hidden0 has inconsistent hidden_size: got 5, expected 4",
    ),
    (
        lambda t: t.nn.RNNCell(3, 4, nonlinearity="x")(t.ones(2, 3)),
        RuntimeError,
        "Unknown nonlinearity: x",
    ),
    (
        lambda t: t.lstm_cell(t.ones(2, 3), (t.ones(2, 4),), t.ones(16, 3), t.ones(16, 4)),
        RuntimeError,
        "expects two hidden states",
    ),
    (
        lambda t: t.gru_cell(t.ones(2, 3), t.ones(2, 4), t.ones(5, 3), t.ones(12, 4)),
        RuntimeError,
        r"weight_ih first dim must be 3 \* hidden_size = 12, but got 5",
    ),
    (
        lambda t: t.gru(
            t.ones(2, 2, 3), t.ones(1, 2, 4), [t.ones(12, 3)], False, 1, 0.0, True, False, False
        ),
        RuntimeError,
        None,
    ),
    (
        lambda t: t.gru(
            t.ones(2, 2, 3),
            t.ones(1, 2, 4),
            [t.ones(12, 3), t.ones(12, 4)] * 2,
            False,
            2,
            0.0,
            True,
            False,
            False,
        ),
        RuntimeError,
        None,
    ),
    (
        lambda t: t.lstm(
            t.ones(2, 2, 3),
            (t.ones(1, 2, 4),),
            [t.ones(16, 3), t.ones(16, 4)],
            False,
            1,
            0.0,
            True,
            False,
            False,
        ),
        RuntimeError,
        "lstm:? expects two hidden states",
    ),
    (
        lambda t: t.gru(
            t.ones(3, 3),
            t.tensor([2, 2]),
            t.ones(1, 2, 4),
            [t.ones(12, 3), t.ones(12, 4)],
            False,
            1,
            0.0,
            True,
            False,
        ),
        RuntimeError,
        None,
    ),
    (lambda t: t.gru(t.ones(3, 3)), TypeError, None),
]


@pytest.mark.parametrize("call, error, text", ERRORS, ids=range(len(ERRORS)))
def test_error(torch, call, error, text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(error, match=text):
            call(torch)
