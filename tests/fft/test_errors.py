"""What is refused, by both libraries, in PyTorch's words."""

import pytest
from library import torch

CALLS = {
    "no length": lambda t, f: f.fft(t.ones(4), n=0),
    "negative length": lambda t, f: f.ifft(t.ones(4), n=-1),
    "nothing": lambda t, f: f.rfft(t.ones(0)),
    "nothing back": lambda t, f: f.irfft(t.ones(0)),
    "one back": lambda t, f: f.irfft(t.ones(1)),
    "one hermitian": lambda t, f: f.hfft(t.ones(1)),
    "no size": lambda t, f: f.fftn(t.ones(4, 4), s=(2, 0)),
    "complex": lambda t, f: f.rfft(t.ones(4) + 0j),
    "complex inverse": lambda t, f: f.ihfft(t.ones(4) + 0j),
    "half": lambda t, f: f.fft(t.ones(4).half()),
    "bfloat16": lambda t, f: f.irfft(t.ones(4).bfloat16()),
    "number": lambda t, f: f.fft(t.tensor(1.0)),
    "number and dim": lambda t, f: f.fftn(t.tensor(1.0), dim=(0,)),
    "number and dim of a half": lambda t, f: f.irfftn(t.tensor(1.0), dim=(-1,)),
    "number and two dims": lambda t, f: f.hfft2(t.tensor(1.0)),
    "dim": lambda t, f: f.fft(t.ones(4), dim=1),
    "dims": lambda t, f: f.fft2(t.ones(4)),
    "norm": lambda t, f: f.fft(t.ones(4), norm="x"),
    "same dims": lambda t, f: f.fftn(t.ones(4, 4), dim=(0, -2)),
    "sizes": lambda t, f: f.fftn(t.ones(4, 4), s=(1, 2, 3)),
    "sizes and dims": lambda t, f: f.fftn(t.ones(4, 4), s=(1,), dim=(0, 1)),
    "no axes": lambda t, f: f.rfftn(t.ones(4, 4), dim=()),
    "no axes back": lambda t, f: f.irfftn(t.tensor(1.0)),
    "real out": lambda t, f: f.fft(t.ones(4), out=t.ones(4)),
    "complex out": lambda t, f: f.irfft(t.ones(4), out=t.ones(4) + 0j),
    "list": lambda t, f: f.fft([1.0, 2.0]),
    "float length": lambda t, f: f.fft(t.ones(4), n=2.0),
    "number norm": lambda t, f: f.fft(t.ones(4), norm=1),
    "shift number": lambda t, f: f.fftshift(t.tensor(1.0)),
    "shift dim": lambda t, f: f.ifftshift(t.ones(4), 1),
    "integer frequencies": lambda t, f: f.fftfreq(4, dtype=t.int64),
    "integer half": lambda t, f: f.rfftfreq(4, dtype=t.int32),
    "negative count": lambda t, f: f.fftfreq(-1),
}


def outcome(library, call):
    try:
        call(library, library.fft)
    except Exception as error:
        return error
    return None


def words(error):
    """Return what both texts should share: ours opens with the function, and ends with advice."""
    text = str(error).split("\n")[0].split(";")[0]
    return text.split(": ", 1)[-1].rstrip(".")


# Where ours says it in other words.
OTHER_WORDS = {
    "complex", "complex inverse", "no axes", "no axes back", "real out", "complex out",
    "list", "float length", "number norm", "integer frequencies", "integer half", "negative count",
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_both_refuse(name, pytorch):
    ours, theirs = (outcome(library, CALLS[name]) for library in (torch, pytorch))
    assert theirs is not None and ours is not None
    assert isinstance(ours, type(theirs)) or isinstance(theirs, type(ours))
    if name not in OTHER_WORDS:
        opening = words(theirs)[:28]
        assert opening in str(ours), f"{ours} beside {theirs}"


def test_texts_say_what_to_do():
    with pytest.raises(RuntimeError, match=r"fft: Unsupported dtype Half; call \.float\(\) first"):
        torch.fft.fft(torch.ones(4).half())
    with pytest.raises(RuntimeError, match=r"rfft: expects a real input tensor, but got complex64"):
        torch.fft.rfft(torch.ones(4) + 0j)
    with pytest.raises(RuntimeError, match='expected "forward", "backward" or "ortho"'):
        torch.fft.fft(torch.ones(4), norm="none")


def test_refused_calls_leave_out_alone():
    out = torch.ones(2, dtype=torch.complex64)
    with pytest.raises(RuntimeError):
        torch.fft.fft(torch.ones(4), n=0, out=out)
    assert out.tolist() == [1, 1]


def test_lengths_that_cannot_be():
    with pytest.raises((RuntimeError, MemoryError)):
        torch.fft.fft(torch.ones(4), n=2**60)
