"""Layers and whole models as graphs: of fixed sizes, and with dynamic axes."""

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("PyTorch's exporter is its own", allow_module_level=True)
pytest.importorskip("onnx.checker")
pytest.importorskip("onnxruntime")

from onnx_comparing import Calls, exported, exported_dynamic
from tape.models import GPT, ResNet18, UNet

from tapegrad.cli.model import GPT as CommandGPT

nn, functional = torch.nn, torch.nn.functional
randn, randint = torch.randn, torch.randint
B, T = {0: "batch"}, {0: "batch", 1: "time"}
SIZES = ({"batch": 1}, {"batch": 4}, {"batch": 9})
TIMES = ({"batch": 1, "time": 7}, {"batch": 4, "time": 2}, {"batch": 3, "time": 8})
PLANES = ({"batch": 1, "height": 12}, {"batch": 3, "height": 16})
H = {0: "batch", 2: "height"}
TIME_FIRST = {0: "time", 1: "batch"}


def attend(q, k, v, **options):
    return functional.scaled_dot_product_attention(q, k, v, **options)


def written(x):
    y = x * 2
    y.mul_(3).add_(x).mul_(x)
    y.neg_().sigmoid_()
    return y * y


def encoder(**options):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, **options)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


# A model, its arguments, and its dynamic axes with sizes to try, or None.
CASES = {
    "mlp": lambda: (
        nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3)),
        (randn(2, 4),),
        (B,),
        SIZES,
    ),
    "resnet18": lambda: (
        ResNet18(),
        (randn(2, 3, 32, 32),),
        ({0: "batch", 2: "height", 3: "width"},),
        ({"batch": 1, "height": 32, "width": 32}, {"batch": 3, "height": 64, "width": 48}),
    ),
    "unet": lambda: (UNet(), (randn(2, 1, 8, 8),), (H,), PLANES),
    "gpt": lambda: (GPT(), (randint(17, (2, 8)),), (T,), TIMES),
    "command_gpt": lambda: (
        CommandGPT(11, 8, 2, 16, 2, 0.1, True, "tanh"),
        (randint(11, (2, 8)),),
        (T,),
        TIMES,
    ),
    "lstm": lambda: (nn.LSTM(6, 5, 2, bidirectional=True), (randn(7, 3, 6),), (TIME_FIRST,), TIMES),
    "lstm_with_state": lambda: (
        nn.LSTM(6, 5),
        (randn(7, 3, 6), (randn(1, 3, 5), randn(1, 3, 5))),
        (TIME_FIRST, ({1: "batch"}, {1: "batch"})),
        TIMES,
    ),
    "lstm_projected": lambda: (nn.LSTM(6, 5, proj_size=3), (randn(7, 3, 6),), None, ()),
    "lstm_without_bias": lambda: (nn.LSTM(6, 5, bias=False), (randn(7, 3, 6),), None, ()),
    "lstm_of_one": lambda: (nn.LSTM(6, 5), (randn(7, 6),), None, ()),
    "gru": lambda: (
        nn.GRU(6, 5, 2, batch_first=True, bidirectional=True),
        (randn(3, 7, 6),),
        (T,),
        TIMES,
    ),
    "gru_without_bias": lambda: (nn.GRU(6, 5, bias=False), (randn(7, 3, 6),), None, ()),
    "rnn": lambda: (nn.RNN(6, 5, 2, batch_first=True), (randn(3, 7, 6),), (T,), TIMES),
    "rnn_relu": lambda: (nn.RNN(6, 5, nonlinearity="relu"), (randn(3, 7, 6),), None, ()),
    "lstm_cell": lambda: (nn.LSTMCell(4, 6), (randn(2, 4),), (B,), SIZES),
    "gru_cell": lambda: (nn.GRUCell(4, 6), (randn(2, 4),), (B,), SIZES),
    "encoder": lambda: (encoder(), (randn(2, 5, 8),), (T,), TIMES),
    "encoder_norm_first": lambda: (
        encoder(norm_first=True, activation="gelu"),
        (randn(2, 5, 8),),
        (T,),
        TIMES,
    ),
    "transformer": lambda: (
        nn.Transformer(8, 2, 2, 2, 16, batch_first=True),
        (randn(2, 5, 8), randn(2, 4, 8)),
        (T, {0: "batch", 1: "other"}),
        ({"batch": 1, "time": 7, "other": 3}, {"batch": 4, "time": 2, "other": 11}),
    ),
    "attention": lambda: (
        nn.MultiheadAttention(8, 2, batch_first=True),
        (randn(2, 5, 8),) * 3,
        (T,) * 3,
        TIMES,
    ),
    "causal": lambda: (
        Calls(lambda *a: attend(*a, is_causal=True)),
        (randn(2, 2, 5, 4), randn(2, 2, 6, 4), randn(2, 2, 6, 3)),
        ({0: "batch", 2: "t"}, {0: "batch", 2: "s"}, {0: "batch", 2: "s"}),
        ({"batch": 1, "t": 7, "s": 3}, {"batch": 4, "t": 2, "s": 11}),
    ),
    "masked": lambda: (
        Calls(lambda q, k, v, m: attend(q, k, v, attn_mask=m)),
        (randn(2, 2, 5, 4), randn(2, 2, 6, 4), randn(2, 2, 6, 3), torch.rand(5, 6) > 0.7),
        None,
        (),
    ),
    "batch_norm_1d": lambda: (nn.BatchNorm1d(6), (randn(4, 6, 5),), (H,), PLANES),
    "batch_norm_2d": lambda: (nn.BatchNorm2d(6, affine=False), (randn(4, 6, 5, 3),), (H,), PLANES),
    "batch_norm_of_the_batch": lambda: (
        nn.BatchNorm1d(6, track_running_stats=False),
        (randn(4, 6),),
        (B,),
        SIZES[1:],
    ),
    "group_norm": lambda: (nn.GroupNorm(3, 6), (randn(4, 6, 5),), (H,), PLANES),
    "instance_norm": lambda: (
        nn.InstanceNorm2d(6, affine=True),
        (randn(4, 6, 5, 3),),
        (H,),
        PLANES,
    ),
    "layer_norm": lambda: (nn.LayerNorm((6, 5)), (randn(4, 6, 5),), (B,), SIZES),
    "layer_norm_plain": lambda: (
        nn.LayerNorm(5, elementwise_affine=False),
        (randn(4, 5),),
        (B,),
        SIZES,
    ),
    "layer_norm_without_bias": lambda: (nn.LayerNorm(5, bias=False), (randn(4, 5),), (B,), SIZES),
    "rms_norm": lambda: (nn.RMSNorm(5), (randn(4, 6, 5),), (T,), TIMES),
    "local_response": lambda: (nn.LocalResponseNorm(2), (randn(2, 4, 5, 5),), (B,), SIZES),
    "conv_1d": lambda: (nn.Conv1d(4, 6, 3, stride=2, groups=2), (randn(2, 4, 9),), (H,), PLANES),
    "conv_2d_of_one": lambda: (nn.Conv2d(3, 4, 3), (randn(3, 8, 8),), None, ()),
    "conv_3d": lambda: (nn.Conv3d(1, 2, 2), (randn(1, 1, 3, 4, 4),), (B,), SIZES),
    "depthwise": lambda: (
        nn.Conv2d(4, 4, 3, groups=4, dilation=2),
        (randn(1, 4, 8, 8),),
        (H,),
        PLANES,
    ),
    "conv_same": lambda: (nn.Conv2d(3, 4, 4, padding="same"), (randn(1, 3, 8, 8),), (B,), SIZES),
    "conv_reflect": lambda: (
        nn.Conv1d(4, 4, 3, padding=2, padding_mode="reflect"),
        (randn(2, 4, 9),),
        (H,),
        PLANES,
    ),
    "conv_circular": lambda: (
        nn.Conv2d(2, 4, 3, padding=1, padding_mode="circular"),
        (randn(2, 2, 6, 7),),
        (H,),
        PLANES,
    ),
    "conv_replicate": lambda: (
        nn.Conv2d(2, 4, 3, padding=1, padding_mode="replicate"),
        (randn(2, 2, 6, 7),),
        (B,),
        SIZES,
    ),
    "conv_transpose": lambda: (
        nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1, groups=2),
        (randn(2, 4, 5, 5),),
        (H,),
        PLANES,
    ),
    "channels_last": lambda: (
        nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last),
        (randn(2, 3, 8, 8).to(memory_format=torch.channels_last),),
        (B,),
        SIZES,
    ),
    "pools": lambda: (
        nn.Sequential(nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(2, ceil_mode=True), nn.LPPool2d(2, 2)),
        (randn(2, 3, 17, 19),),
        (B,),
        SIZES,
    ),
    "adaptive_pools": lambda: (
        nn.Sequential(nn.AdaptiveMaxPool2d((7, 5)), nn.AdaptiveAvgPool2d(3)),
        (randn(2, 3, 9, 11),),
        (B,),
        SIZES,
    ),
    "global_pools": lambda: (nn.AdaptiveMaxPool2d(1), (randn(2, 3, 9, 11),), (H,), PLANES),
    "unpool": lambda: (
        Calls(
            lambda x: functional.max_unpool2d(*functional.max_pool2d(x, 2, return_indices=True), 2)
        ),
        (randn(2, 3, 6, 6),),
        (B,),
        SIZES,
    ),
    "upsample_nearest": lambda: (nn.Upsample(scale_factor=2), (randn(2, 3, 4, 5),), (B,), SIZES),
    "upsample_bilinear": lambda: (
        nn.Upsample(scale_factor=2, mode="bilinear"),
        (randn(2, 3, 4, 5),),
        (H,),
        PLANES,
    ),
    "upsample_bicubic": lambda: (
        nn.Upsample((7, 9), mode="bicubic", align_corners=True),
        (randn(2, 3, 4, 5),),
        (B,),
        SIZES,
    ),
    "grid_sample": lambda: (
        Calls(lambda x, g: functional.grid_sample(x, g, align_corners=False)),
        (randn(2, 3, 4, 5), torch.rand(2, 6, 7, 2) * 2 - 1),
        (B, B),
        SIZES,
    ),
    "embedding": lambda: (nn.Embedding(9, 4, padding_idx=0), (randint(9, (3, 5)),), (T,), TIMES),
    "embedding_bag": lambda: (nn.EmbeddingBag(9, 4), (randint(9, (3, 5)),), (T,), TIMES),
    "einsum": lambda: (
        Calls(lambda a, b: torch.einsum("bij,bkj->bik", a, b)),
        (randn(2, 3, 4), randn(2, 5, 4)),
        (B, B),
        SIZES,
    ),
    "pad": lambda: (
        Calls(lambda x: functional.pad(x, (1, 2, 0, 3), value=2.0)),
        (randn(2, 3, 4, 5),),
        (H,),
        PLANES,
    ),
    "unfold": lambda: (nn.Unfold(3, padding=1, stride=2), (randn(2, 3, 6, 6),), (B,), SIZES),
    "fold": lambda: (nn.Fold((6, 6), 3, padding=1, stride=2), (randn(2, 27, 9),), (B,), SIZES),
    "pixel_shuffle": lambda: (nn.PixelShuffle(2), (randn(2, 8, 3, 3),), (B,), SIZES),
    "in_place": lambda: (Calls(written), (randn(4, 6),), (T,), TIMES),
    "cross_entropy": lambda: (
        Calls(lambda x, t: functional.cross_entropy(x, t, label_smoothing=0.1)),
        (randn(4, 6), randint(6, (4,))),
        (B, B),
        SIZES,
    ),
    "bilinear": lambda: (nn.Bilinear(3, 4, 5), (randn(2, 3), randn(2, 4)), (B, B), SIZES),
    "weight_norm": lambda: (
        nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)),
        (randn(2, 3),),
        (B,),
        SIZES,
    ),
    "spectral_norm": lambda: (
        nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4)),
        (randn(2, 3),),
        None,
        (),
    ),
    "activations": lambda: (
        nn.Sequential(nn.PReLU(3), nn.SELU(), nn.Mish(), nn.Hardswish(), nn.Softplus(), nn.GLU(2)),
        (randn(2, 3, 4),),
        (B,),
        SIZES,
    ),
    "distances": lambda: (
        Calls(torch.cdist),
        (randn(3, 4), randn(5, 4)),
        ({0: "a"}, {0: "b"}),
        ({"a": 1, "b": 7},),
    ),
    "sorted": lambda: (
        Calls(lambda x: (x.sort(1).values, x.topk(2).indices, x.argmax(1))),
        (randn(3, 4),),
        (B,),
        SIZES,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_model(name):
    model, args, shapes, sizes = CASES[name]()
    exported(model, args)
    if shapes is not None:
        exported_dynamic(model, args, shapes, *sizes)


@pytest.mark.parametrize("opset", [18, 20, 23])
def test_opset_versions(opset):
    program = exported(GPT(), (randint(17, (2, 8)),), opset_version=opset)
    assert program.opset_version == opset
    assert program.model_proto.opset_import[0].version == opset
