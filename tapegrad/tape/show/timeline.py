"""Live saved bytes along a tape: the forward adds them up, the sweep frees them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Timeline", "timeline"]


@dataclass(frozen=True)
class Timeline:
    """Saved bytes that are alive after every step.

    Attributes:
        forward: after each entry was recorded, in tape order.
        backward: after each entry was swept, in the sweep's order, which is the reverse.
        peak: the most bytes alive at once.
        peak_step: the first step after which they are; steps of the sweep follow those of the
            forward, so that step ``n`` of ``n`` entries is the first of the sweep.
    """

    forward: list[int]
    backward: list[int]
    peak: int
    peak_step: int


def timeline(document: Mapping[str, Any]) -> Timeline:
    """Return the live bytes of a tape's document.

    An entry brings the bytes that it pays for. The sweep runs the entries in reverse; a storage
    goes when the last entry that saved it has run, whoever paid for it.

    Example:
        >>> saved = [{"storage": 1, "bytes": 8}]
        >>> user = [{"storage": 1, "bytes": 0}, {"storage": 2, "bytes": 4}]
        >>> entries = [{"bytes": 8, "saved": saved}, {"bytes": 4, "saved": user}]
        >>> timeline({"entries": entries})
        Timeline(forward=[8, 12], backward=[8, 0], peak=12, peak_step=1)
    """
    entries = document["entries"]
    last_user: dict[int, int] = {}
    for index in range(len(entries) - 1, -1, -1):
        for value in entries[index]["saved"]:
            last_user[value["storage"]] = index
    freed = [0] * len(entries)
    forward, live = [], 0
    for entry in entries:
        for value in entry["saved"]:
            freed[last_user[value["storage"]]] += value["bytes"]
        live += sum(value["bytes"] for value in entry["saved"])
        forward.append(live)
    backward = []
    for amount in reversed(freed):
        live -= amount
        backward.append(live)
    steps = forward + backward
    peak = max(steps, default=0)
    return Timeline(forward, backward, peak, steps.index(peak) if steps else 0)
