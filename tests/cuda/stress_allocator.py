"""Random allocations on four streams, with their contents checked on the device.

Every tensor is filled with a number on the stream that it was allocated on, may be used on others,
and is compared with its number before it is freed, on its own stream or on another. All of that is
queued: the host waits for nothing until the end, so that memory that is handed out too early holds
the wrong number by then. Differences are summed up in one counter for each stream.

Usage: python tests/cuda/stress_allocator.py [--count 1000000] [--largest BYTES] [--limit BYTES]

Prints a line of figures; exits with 1 if a tensor had other contents than it was given.
"""

import argparse
import math
import random
import sys
import time

import tapegrad as torch

cuda = torch.cuda


class Live:
    """A tensor with what it should hold, and on which stream it was made."""

    __slots__ = ("number", "stream", "tensor")

    def __init__(self, tensor, number, stream):
        self.tensor, self.number, self.stream = tensor, number, stream


class Stress:
    """Four streams, live tensors, and counters of what was wrong.

    Args:
        seed: of the random choices.
        largest: the most bytes of a tensor.
        limit: the bytes of the device that may be used; running out of them is a part of the test.
        forgets: leave record_stream() out, to see that this is found.
    """

    def __init__(self, seed, largest, limit, forgets=False):
        self.draw = random.Random(seed)
        self.sizes = math.log(largest)
        self.limit, self.forgets = limit, forgets
        self.streams = [cuda.default_stream(), *(cuda.Stream() for _ in range(3))]
        self.wrong = []
        for stream in self.streams:
            with stream:
                self.wrong.append(torch.zeros((), dtype=torch.int64, device="cuda"))
        self.live = []
        self.bytes = self.allocations = self.shared = self.out_of_memory = self.flushes = 0

    def allocate(self):
        place = self.draw.randrange(4)
        size = int(math.exp(self.draw.uniform(0, self.sizes)))
        number = self.draw.randrange(1, 256)
        with self.streams[place]:
            try:
                tensor = torch.empty(size, dtype=torch.uint8, device="cuda")
            except torch.OutOfMemoryError:
                self.out_of_memory += 1
                self.free_some(len(self.live) // 2)
                return
            tensor.fill_(number)
        self.allocations += 1
        self.bytes += size
        self.live.append(Live(tensor, number, place))

    def compare(self, each, place):
        """Compare a tensor with its number on a stream."""
        own, other = self.streams[each.stream], self.streams[place]
        if place != each.stream:
            self.shared += 1
            other.wait_stream(own)
            if not self.forgets:
                each.tensor.record_stream(other)
        with other:
            try:
                # In place: where memory has run out there is none for a result as large.
                wrong = each.tensor.ne_(each.number).sum()
            except torch.OutOfMemoryError:
                self.out_of_memory += 1
                cuda.synchronize()
                cuda.empty_cache()
                wrong = each.tensor.sum()
            self.wrong[place].add_(wrong)

    def free(self):
        at = self.draw.randrange(len(self.live))
        self.live[at], self.live[-1] = self.live[-1], self.live[at]
        each = self.live.pop()
        self.bytes -= each.tensor.nbytes
        shares = self.draw.random() < 0.2
        self.compare(each, self.draw.randrange(4) if shares else each.stream)

    def free_some(self, count):
        for _ in range(count):
            self.free()

    def run(self, count):
        """Make so many allocations; return how many elements were wrong."""
        draw, most = self.draw, 50
        while self.allocations < count:
            if draw.random() < 0.0005:
                most = draw.choice((10, 50, 100, 200)) if draw.random() < 0.98 else 1600
            hurry = 0.9 if len(self.live) < most // 2 else 0.5
            if not self.live or (len(self.live) < most and draw.random() < hurry):
                self.allocate()
            else:
                self.free()
            if draw.random() < max(0.00005, 5 / count):
                self.flushes += 1
                cuda.empty_cache()
        self.free_some(len(self.live))
        cuda.synchronize()
        return sum(int(wrong) for wrong in self.wrong)


def run(count, seed=0, largest=100_000_000, limit=4 << 30, forgets=False):
    """Run a stress with at most so many bytes of the device; return it and the wrong elements."""
    total = cuda.get_device_properties().total_memory
    cuda.set_per_process_memory_fraction(min(1.0, limit / total))
    try:
        stress = Stress(seed, largest, limit, forgets)
        return stress, stress.run(count)
    finally:
        cuda.set_per_process_memory_fraction(1.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--largest", type=int, default=100_000_000)
    parser.add_argument("--limit", type=int, default=4 << 30)
    options = parser.parse_args()
    start = time.perf_counter()
    stress, wrong = run(options.count, options.seed, options.largest, options.limit)
    seconds = time.perf_counter() - start
    stats = cuda.memory_stats()
    print(
        f"{stress.allocations:,} allocations in {seconds:.1f} s, {stress.shared:,} used on another "
        f"stream, {stress.out_of_memory} times out of memory, {stress.flushes} times emptied, "
        f"{stats['num_device_alloc']:,} segments; {wrong:,} elements wrong"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
