"""How much a GPU is used: the work of the model's arithmetic, and what the GPU could do at most."""

import re

import tapegrad
from tapegrad import nn
from tapegrad.cli.model import GPT

__all__ = ["flops_per_token", "peak_flops", "shown_share"]

# What NVIDIA states, in TFLOP/s without sparsity, for 16 bits (summed in 32), TF32 and float32.
# The first name that is found in the name of the device counts.
_PEAKS: list[tuple[str, tuple[float, float, float]]] = [
    (r"\bG?B200\b", (2250, 1125, 75)),
    (r"\bH[12]00 NVL\b", (835, 418, 60)),
    (r"\bH100 PCIe\b", (756, 378, 51.2)),
    (r"\b(G?H200|H[18]00)\b", (989, 495, 66.9)),
    (r"\bA[18]00\b", (312, 156, 19.5)),
    (r"\bA40\b", (149.7, 74.8, 37.4)),
    (r"\bA10\b", (125, 62.5, 31.2)),
    (r"\bL40S\b", (362, 183, 91.6)),
    (r"\bL40\b", (181, 90.5, 90.5)),
    (r"\bL4\b", (121, 60, 30.3)),
    (r"\bRTX 5090$", (209.5, 104.8, 104.8)),
    (r"\bRTX 4090$", (165.2, 82.6, 82.6)),
    (r"\bRTX 3090$", (71, 35.6, 35.6)),
    (r"\bRTX 6000 Ada\b", (364, 182, 91.1)),
    (r"\bRTX A6000\b", (154.8, 77.4, 38.7)),
]
_COLUMNS = {"bfloat16": 0, "float16": 0, "tf32": 1, "float32": 2}


def flops_per_token(model: GPT) -> int:
    """Return the floating-point operations that a token takes in a training step.

    As is usual for this figure: two for every weight of a matrix product, and those of attention
    over the whole context; twice as many again for the gradients. What a budget computes again is
    not counted, for it teaches nothing.
    """
    weights = [module.weight for module in model.modules() if isinstance(module, nn.Linear)]
    width, layers = model.position.weight.shape[1], len(model.blocks)
    products = sum(weight.numel() for weight in weights)
    return 6 * products + 12 * layers * width * model.context


def peak_flops(device: tapegrad.device, dtype: str) -> float | None:
    """Return the operations that a device does in a second at most, or None if not known."""
    if device.type != "cuda":
        return None
    return peak_of(tapegrad.cuda.get_device_name(device), dtype)


def peak_of(name: str, dtype: str) -> float | None:
    """Return the same for a name of a device.

    >>> peak_of("NVIDIA H200", "bfloat16"), peak_of("NVIDIA A100-SXM4-80GB", "tf32")
    (989000000000000.0, 156000000000000.0)
    """
    found = next((peaks for pattern, peaks in _PEAKS if re.search(pattern, name)), None)
    return None if found is None else found[_COLUMNS[dtype]] * 1e12


def shown_share(share: float | None) -> str:
    """Return a share of the peak in percent, or ``n/a``."""
    return "n/a" if share is None else f"{100 * share:.1f}%"
