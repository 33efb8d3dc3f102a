"""Layers and models under autocast on the CPU, beside PyTorch's: dtypes, values, gradients."""

import numpy as np
import pytest
from library import IS_TORCH, pytorch_for_parity, torch

pytorch, REASON = pytorch_for_parity()
if pytorch is None or IS_TORCH:
    pytest.skip(REASON or "PyTorch beside itself", allow_module_level=True)

LAYERS = {
    "Linear": (lambda nn: nn.Linear(4, 5), (3, 4)),
    "Bilinear": (lambda nn: nn.Bilinear(4, 4, 2), (3, 4), (3, 4)),
    "Conv1d": (lambda nn: nn.Conv1d(2, 3, 3), (2, 2, 8)),
    "Conv2d": (lambda nn: nn.Conv2d(2, 4, 3, padding=1, groups=2), (2, 2, 6, 6)),
    "Conv3d": (lambda nn: nn.Conv3d(2, 3, 2), (2, 2, 4, 4, 4)),
    "ConvTranspose2d": (lambda nn: nn.ConvTranspose2d(2, 3, 3, stride=2), (2, 2, 4, 4)),
    "LayerNorm": (lambda nn: nn.LayerNorm(8), (3, 8)),
    "RMSNorm": (lambda nn: nn.RMSNorm(8), (3, 8)),
    "GroupNorm": (lambda nn: nn.GroupNorm(2, 4), (2, 4, 9)),
    "BatchNorm1d": (lambda nn: nn.BatchNorm1d(4), (6, 4)),
    "BatchNorm2d": (lambda nn: nn.BatchNorm2d(3), (2, 3, 4, 4)),
    "InstanceNorm1d": (lambda nn: nn.InstanceNorm1d(4, affine=True), (2, 4, 9)),
    "PReLU": (lambda nn: nn.PReLU(), (3, 4)),
    "MultiheadAttention": (lambda nn: Attention(nn), (5, 2, 8)),
    "MultiheadAttention with weights": (lambda nn: Attention(nn, need_weights=True), (5, 2, 8)),
    "TransformerEncoderLayer": (
        lambda nn: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
        (2, 5, 8),
    ),
    "TransformerDecoderLayer": (
        lambda nn: nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
        (2, 5, 8),
        (2, 3, 8),
    ),
    "GRU": (lambda nn: nn.GRU(3, 4, 2, bidirectional=True), (5, 2, 3)),
    "RNN": (lambda nn: nn.RNN(3, 4), (5, 2, 3)),
    "RNN with relu": (lambda nn: nn.RNN(3, 4, nonlinearity="relu"), (5, 2, 3)),
    "LSTM with projection": (lambda nn: nn.LSTM(3, 4, proj_size=2), (5, 2, 3)),
    "LSTMCell": (lambda nn: nn.LSTMCell(3, 4), (2, 3)),
    "GRUCell": (lambda nn: nn.GRUCell(3, 4), (2, 3)),
    "RNNCell": (lambda nn: nn.RNNCell(3, 4), (2, 3)),
    "CosineSimilarity": (lambda nn: nn.CosineSimilarity(), (3, 4), (3, 4)),
    "PairwiseDistance": (lambda nn: nn.PairwiseDistance(), (3, 4), (3, 4)),
    "AvgPool3d": (lambda nn: nn.AvgPool3d(2), (1, 2, 4, 4, 4)),
    "MaxPool3d": (lambda nn: nn.MaxPool3d(2), (1, 2, 4, 4, 4)),
    "ReflectionPad2d": (lambda nn: nn.ReflectionPad2d(1), (1, 2, 4, 4)),
    "ReplicationPad3d": (lambda nn: nn.ReplicationPad3d(1), (1, 2, 3, 3, 3)),
    "Upsample": (lambda nn: nn.Upsample(scale_factor=2, mode="bilinear"), (1, 2, 4, 4)),
    "Sequential": (
        lambda nn: nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)
        ),
        (2, 1, 6, 6),
    ),
    "AdaptiveLogSoftmaxWithLoss": (
        lambda nn: nn.AdaptiveLogSoftmaxWithLoss(16, 6, [2, 4]).log_prob,
        (3, 16),
    ),
}


def Attention(nn, need_weights=False):
    class SelfAttention(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(8, 2)

        def forward(self, x):
            return self.attention(x, x, x, need_weights=need_weights)

    return SelfAttention()


def tensors_in(answer):
    if isinstance(answer, (tuple, list)):
        return [found for each in answer for found in tensors_in(each)]
    return [] if answer is None else [answer]


def built(name):
    """Return the layer in both libraries, with the same parameters."""
    pytorch.manual_seed(0)
    build = LAYERS[name][0]
    ours, theirs = build(torch.nn), build(pytorch.nn)
    mine, other = (getattr(each, "__self__", each) for each in (ours, theirs))
    state = {key: torch.tensor(value.numpy()) for key, value in other.state_dict().items()}
    mine.load_state_dict(state)
    return (ours, list(mine.parameters())), (theirs, list(other.parameters()))


def run(library, layer, parameters, arrays, dtype, lower, recording):
    """Return the results under autocast and the gradients of the parameters."""
    inputs = [library.tensor(each.tolist()).to(getattr(library, dtype)) for each in arrays]
    with library.autocast("cpu", getattr(library, lower)), library.set_grad_enabled(recording):
        answer = tensors_in(layer(*inputs))
    if not recording or not parameters:
        return answer, []
    total = 0
    for each in answer:
        weights = np.cos(np.arange(each.numel())).reshape(each.shape)
        total = total + (each.double() * library.tensor(weights)).sum()
    total.backward()
    return answer, [each.grad for each in parameters if each.grad is not None]


def assert_near(ours, theirs, allowed, what):
    ours, theirs = ([t.detach().double().numpy() for t in each] for each in (ours, theirs))
    assert len(ours) == len(theirs), what
    largest = max((np.abs(each).max() for each in theirs), default=0)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.shape == other.shape, what
        assert np.abs(mine - other).max() <= allowed * largest, f"{what}: {mine}, {other}"


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")  # PyTorch's rms_norm
@pytest.mark.parametrize("recording", [True, False])
@pytest.mark.parametrize("lower", ["bfloat16", "float16"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", LAYERS)
def test_layer(name, dtype, lower, recording):
    arrays = [
        np.random.default_rng(k).standard_normal(size) for k, size in enumerate(LAYERS[name][1:])
    ]
    mine, other = built(name)
    try:
        theirs, their_grads = run(pytorch, *other, arrays, dtype, lower, recording)
    except (RuntimeError, ValueError) as error:
        if dtype == "bfloat16" and lower == "float16":
            return  # operands of two half precisions, which PyTorch's kernels do not take
        with pytest.raises(type(error)):
            run(torch, *mine, arrays, dtype, lower, recording)
        return
    ours, grads = run(torch, *mine, arrays, dtype, lower, recording)
    assert [str(each.dtype) for each in ours] == [str(each.dtype) for each in theirs]
    allowed = 2**-5 if "bfloat16" in (lower, dtype) else 2**-8
    assert_near(ours, theirs, allowed, name)
    assert all(each.dtype is torch.float32 for each in grads)
    assert_near(grads, their_grads, 2 * allowed, f"gradients of {name}")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_lstm(dtype):
    """PyTorch casts the whole layer where oneDNN runs it, which is off here: values alone."""
    mine, other = (each.nn.LSTM(3, 4, 2, bidirectional=True) for each in (torch, pytorch))
    mine.load_state_dict({k: torch.tensor(v.numpy()) for k, v in other.state_dict().items()})
    x = np.random.default_rng(0).standard_normal((5, 2, 3))
    packed = [(torch, mine), (pytorch, other)]
    found = []
    for library, layer in packed:
        with library.autocast("cpu"):
            y, (h, c) = layer(library.tensor(x.tolist()).to(getattr(library, dtype)))
        (y.double().sum() + c.double().sum()).backward()
        found.append(([y, h, c], [each.grad for each in layer.parameters()]))
    assert all(each.dtype is torch.bfloat16 for each in found[0][0])
    assert_near(found[0][0], found[1][0], 2**-5, "LSTM")
    assert_near(found[0][1], found[1][1], 2**-4, "gradients of LSTM")


def test_packed_sequences():
    rnn = torch.nn.utils.rnn
    for layer in (torch.nn.LSTM(3, 4), torch.nn.GRU(3, 4), torch.nn.RNN(3, 4)):
        sequences = [torch.randn(n, 3) for n in (4, 2, 1)]
        packed = rnn.pack_sequence(sequences)
        with torch.autocast("cpu"):
            y, _ = rnn.pad_packed_sequence(layer(packed)[0])
            alone = layer(sequences[0][:, None])[0]
        assert y.dtype is alone.dtype
        assert torch.allclose(y[:, :1].float(), alone.float(), atol=2**-6)


def test_fractional_pools_are_of_float32():
    functional = torch.nn.functional
    with torch.autocast("cpu"):
        x = torch.randn(1, 1, 5, 5, dtype=torch.bfloat16)
        assert functional.fractional_max_pool2d(x, 2, 3).dtype is torch.float32
        assert functional.fractional_max_pool3d(x[..., None], 1, 1).dtype is torch.float32


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_of_another_device_are_left_alone(kind):
    layer, x = getattr(torch.nn, kind)(3, 4), torch.randn(5, 2, 3)
    expected = layer(x)[0]
    torch.set_autocast_enabled("cuda", True)
    try:
        found = layer(x)[0]
    finally:
        torch.set_autocast_enabled("cuda", False)
    assert torch.equal(found, expected)
    with torch.autocast("cpu"):
        meta = getattr(torch.nn, kind)(3, 4, device="meta")
        assert meta(x.to("meta"))[0].dtype is torch.float32
        wide = layer.double()(x.double())[0]
    assert wide.dtype is torch.float64 and torch.allclose(wide.float(), expected, atol=1e-6)
