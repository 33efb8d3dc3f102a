"""pixel_shuffle, channel_shuffle, fold, unfold and their modules, beside PyTorch."""

import pytest

from .side_by_side import expect_near, expect_same, numbers, tensor_of

SHUFFLES = [
    ("pixel_shuffle", (8, 3, 2), 2),
    ("pixel_shuffle", (2, 9, 3, 2), 3),
    ("pixel_shuffle", (2, 1, 4, 1, 2), 2),
    ("pixel_unshuffle", (2, 4, 6), 2),
    ("pixel_unshuffle", (2, 3, 6, 9), 3),
    ("pixel_unshuffle", (1, 2, 3, 4, 4), 2),
    ("channel_shuffle", (2, 6, 3), 2),
    ("channel_shuffle", (1, 6, 3, 2), 3),
    ("channel_shuffle", (1, 4, 2, 1, 2), 4),
]


@pytest.mark.parametrize(("name", "shape", "factor"), SHUFFLES)
def test_shuffles(both, name, shape, factor):
    expect_same(
        both, lambda lib: lambda x: getattr(lib.nn.functional, name)(x, factor), [numbers(*shape)]
    )


def test_shuffles_of_nothing_and_of_integers(torch):
    functional = torch.nn.functional
    assert functional.pixel_shuffle(torch.ones(2, 0, 3, 2), 2).shape == (2, 0, 6, 4)
    channels = torch.arange(6).reshape(1, 6, 1, 1)
    for shuffle in (functional.channel_shuffle, functional.native_channel_shuffle):
        assert shuffle(channels, 3).flatten().tolist() == [0, 2, 4, 1, 3, 5]


WINDOWS = [
    ((4, 5), {"kernel_size": 2}),
    ((4, 5), {"kernel_size": (2, 3), "stride": (1, 2)}),
    ((5, 6), {"kernel_size": 3, "padding": (1, 2), "stride": 2}),
    ((7, 8), {"kernel_size": (3, 2), "dilation": (2, 3), "padding": 1}),
    ((7, 6), {"kernel_size": (2, 2), "dilation": (3, 1), "stride": (2, 3)}),
    ((4, 4), {"kernel_size": 1, "stride": 3}),
]


@pytest.mark.parametrize("batch", [(), (2,), (0,)])
@pytest.mark.parametrize(("size", "kwargs"), WINDOWS)
def test_unfold_and_fold(both, size, kwargs, batch):
    values = numbers(*batch, 3, *size)
    results = []
    for library in both:
        x = library.tensor(values.tolist(), dtype=library.float64).reshape(values.shape)
        x.requires_grad_()
        columns = library.nn.functional.unfold(x, **kwargs)
        image = library.nn.functional.fold(columns.sin(), size, **kwargs)
        (grad,) = library.autograd.grad((image * image).sum(), x)
        results.append((columns, image, grad))
    for ours, theirs, what in zip(*results, ("unfold", "fold", "gradient"), strict=True):
        expect_near(ours, theirs, what)


ERRORS = [
    (lambda f, t: f.unfold(t.ones(2, 3, 4, 5), 5), RuntimeError, "at least one"),
    (lambda f, t: f.unfold(t.ones(2, 3, 4, 5), (2, 2, 2)), RuntimeError, "equals to 2"),
    (lambda f, t: f.unfold(t.ones(2, 3, 4, 5), 0), RuntimeError, "kernel size should be"),
    (lambda f, t: f.unfold(t.ones(2, 3, 4, 5), 2, 0), RuntimeError, "dilation should be"),
    (lambda f, t: f.unfold(t.ones(2, 3, 4, 5), 2, 1, -1), RuntimeError, "padding should be"),
    (lambda f, t: f.unfold(t.ones(2, 3, 4, 5), 2, stride=0), RuntimeError, "stride should be"),
    (lambda f, t: f.unfold(t.ones(4, 5), 2), IndexError, "out of range"),
    (lambda f, t: f.unfold(t.ones(2, 0, 4, 5), 2), RuntimeError, "possibly 0 batch size"),
    (lambda f, t: f.unfold(t.ones(2, 4, 5).long(), 2), NotImplementedError, "not implemented"),
    (lambda f, t: f.fold(t.ones(2, 12, 12), 4, 2), RuntimeError, "3 \\* 3 = 9"),
    (lambda f, t: f.fold(t.ones(2, 12, 12), (4, 5), 5), RuntimeError, "divisible"),
    (lambda f, t: f.fold(t.ones(12), (4, 5), 2), RuntimeError, "2D or 3D"),
    (lambda f, t: f.fold(t.ones(12, 12).long(), (4, 5), 2), NotImplementedError, "not impl"),
    (lambda f, t: f.pixel_shuffle(t.ones(3, 4, 5), 2), RuntimeError, "not divisible by 4"),
    (lambda f, t: f.pixel_shuffle(t.ones(3, 4, 5), 0), RuntimeError, "positive upscale"),
    (lambda f, t: f.pixel_shuffle(t.ones(4, 5), 1), RuntimeError, "at least 3 dim"),
    (lambda f, t: f.pixel_unshuffle(t.ones(3, 4, 5), 2), RuntimeError, "width to be div"),
    (lambda f, t: f.pixel_unshuffle(t.ones(3, 5, 4), 2), RuntimeError, "height to be div"),
    (lambda f, t: f.pixel_unshuffle(t.ones(3, 4, 5), -1), RuntimeError, "positive downscale"),
    (lambda f, t: f.channel_shuffle(t.ones(2, 3, 5), 2), RuntimeError, "divisible by groups"),
    (lambda f, t: f.channel_shuffle(t.ones(2, 3, 5), 0), RuntimeError, "must be positive"),
    (lambda f, t: f.channel_shuffle(t.ones(2, 3), 1), RuntimeError, "> 2 dims"),
]


@pytest.mark.parametrize(("call", "error", "text"), ERRORS)
def test_errors(torch, call, error, text):
    with pytest.raises(error, match=text):
        call(torch.nn.functional, torch)


MODULES = [
    ("PixelShuffle", (2,), (1, 8, 2, 3)),
    ("PixelUnshuffle", (2,), (1, 2, 4, 6)),
    ("ChannelShuffle", (2,), (1, 4, 2, 3)),
    ("Unfold", ((2, 3), 1, 1, 2), (1, 2, 4, 6)),
    ("Fold", ((4, 5), 2), (1, 8, 12)),
]


@pytest.mark.parametrize(("name", "args", "shape"), MODULES)
def test_modules(both, name, args, shape):
    expect_same(both, lambda library: getattr(library.nn, name)(*args), [numbers(*shape)])
    ours, theirs = (getattr(library.nn, name)(*args) for library in both)
    assert repr(ours) == repr(theirs)


def test_gradients(both):
    torch = both[0]
    functional = torch.nn.functional
    x = tensor_of(torch, numbers(1, 4, 4, 4))
    columns = tensor_of(torch, numbers(1, 8, 9))
    for function, value in (
        (lambda x: functional.pixel_shuffle(x.sin(), 2), x),
        (lambda x: functional.pixel_unshuffle(x.sin(), 2), x),
        (lambda x: functional.channel_shuffle(x.sin(), 2), x),
        (lambda x: functional.unfold(x.sin(), (2, 3), 1, 1, 2), x),
        (lambda c: functional.fold(c.sin(), 4, 2), columns),
    ):
        assert torch.autograd.gradcheck(function, value)
        assert torch.autograd.gradgradcheck(function, value)
    rows = tensor_of(torch, numbers(3, 2, 4, 4)).detach()
    batched = torch.vmap(lambda row: functional.unfold(row, 2))(rows)
    expect_near(batched, functional.unfold(rows, 2), "vmap")
