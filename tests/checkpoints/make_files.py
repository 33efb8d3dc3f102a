"""Write the files of PyTorch's that the tests read where PyTorch is not installed.

    python tests/checkpoints/make_files.py

Needs PyTorch. `state.pt` holds one of everything, `protocol4.pt` the same in a later protocol,
`training.pt` a model with its optimizer and scheduler, `legacy.pt` the format before release 1.6.
"""

import collections
from pathlib import Path

import states
import torch

HERE = Path(__file__).parent


def one_of_everything():
    """Return a state with each kind of value that a checkpoint may hold."""
    matrix = torch.arange(12.0).reshape(3, 4)
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.note = "kept"
    plain = torch.ones(2)
    plain.note = [1, 2]
    tensors = {name: torch.arange(4).to(getattr(torch, name)) for name in states.DTYPES}
    return {
        "tensors": tensors,
        "shared": [matrix, matrix[1], matrix.t()],
        "zero_size": torch.zeros(0, 3),
        "zero_dim": torch.tensor(2.5),
        "expanded": torch.ones(1).expand(3),
        "parameter": parameter,
        "frozen": torch.nn.Parameter(torch.ones(2), requires_grad=False),
        "leaf": torch.ones(2, requires_grad=True),
        "plain": plain,
        "numbers": states.numbers(),
        "text": ["", "é", "\ud800", b"", b"\x00\xff", bytearray(b"ab")],
        "types": [torch.float32, torch.device("cpu"), torch.device("cuda", 1), torch.strided],
        "containers": [
            (),
            (1, (2,)),
            {1, 2},
            frozenset([3]),
            torch.Size([1, 2]),
            collections.OrderedDict(a=1),
            collections.Counter("aab"),
            collections.defaultdict(list, a=[1]),
            {1: "int", 2.5: "float", None: "none", (1, "a"): "tuple", False: "bool"},
        ],
    }


def training():
    """Return what a program saves between two epochs."""
    model = states.model_of(torch)
    optimizer = states.OPTIMIZERS["Adam"](torch, model.parameters())
    scheduler = states.SCHEDULERS["MultiStepLR"](torch.optim.lr_scheduler, optimizer)
    states.train(torch, model, optimizer, scheduler, 3)
    model.eval()
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "output": model(torch.arange(5)).detach(),
    }


def main():
    torch.save(one_of_everything(), HERE / "files" / "state.pt")
    torch.save(one_of_everything(), HERE / "files" / "protocol4.pt", pickle_protocol=4)
    torch.save(training(), HERE / "files" / "training.pt")
    torch.save(
        {"a": torch.ones(2)}, HERE / "files" / "legacy.pt", _use_new_zipfile_serialization=False
    )


if __name__ == "__main__":
    main()
