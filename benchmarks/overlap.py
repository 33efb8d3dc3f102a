"""Measure how much of the communication of a step is exposed, for a GPT in several processes.

Each round takes two steps of the same model: after (all gradients are averaged when the backward is
over), and overlapped (as `DistributedDataParallel` does). What counts as exposed is the time that
the program itself spends on averages: between the end of the backward and the results, and in the
hooks while it runs. The rest of a step is the same for both, and not timed: the figure also holds
where other programs take turns on the cores.

With --link a network takes the place of shared memory. Its time is computed: the clock is the CPU
time of the program and what it would have waited, an average ends when its bytes have passed the
link behind those before it, and nothing is moved. So the figure holds on a busy machine, too. In
shared memory of one machine moving bytes is work of the same cores, which cannot be hidden.

Usage: mpiexec -n 2 python benchmarks/overlap.py [--link GB/s] [--rounds N] [...]
"""

import argparse
import statistics
import time

import tapegrad as torch
import tapegrad.distributed as dist
from tapegrad.distributed import _mpi
from tapegrad.distributed.engine import Pending
from tapegrad.nn.parallel import DistributedDataParallel


class Link:
    """A network of a bandwidth, over which bytes pass one after another, and its clock."""

    def __init__(self, bandwidth):
        self.bandwidth, self.free, self.waited = bandwidth, 0.0, 0.0

    def now(self):
        """Return the time."""
        return time.thread_time() + self.waited

    def all_reduce(self, engine, buffer, op):
        """Begin an average, in place of an engine."""
        nbytes = 2 * (engine.size - 1) / engine.size * buffer.numel() * buffer.element_size()
        self.free = max(self.free, self.now()) + nbytes / self.bandwidth
        return Passing(self, self.free)


class Passing(Pending):
    """Bytes on a link; whoever asks for their end has waited for it."""

    def __init__(self, link, end):
        self.link, self.end = link, end

    def done(self):
        """Let the time go on to the end."""
        self.link.waited += max(0.0, self.end - self.link.now())
        return True


class Block(torch.nn.Module):
    """Attention and a feed-forward layer."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = torch.nn.ModuleList([torch.nn.LayerNorm(width) for _ in range(2)])
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        split = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, -1)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norms[1](x))))


class Gpt(torch.nn.Module):
    """A decoder of text."""

    def __init__(self, layers, width, vocabulary=2048):
        super().__init__()
        self.tokens = torch.nn.Embedding(vocabulary, width)
        self.blocks = torch.nn.Sequential(*(Block(width, width // 64) for _ in range(layers)))
        self.head = torch.nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        return self.head(self.blocks(self.tokens(tokens)))


class Clock:
    """Adds up the seconds that functions take."""

    def __init__(self, now):
        self.now, self.seconds = now, 0.0

    def around(self, function):
        """Return a function that is timed."""

        def timed(*args):
            begin = self.now()
            result = function(*args)
            self.seconds += self.now() - begin
            return result

        return timed

    def take(self):
        """Return the most seconds of all processes, and begin again."""
        found = [None] * dist.get_world_size()
        dist.all_gather_object(found, self.seconds)
        self.seconds = 0.0
        return max(found)


def average_after(model):
    """Average all gradients in buckets of 25 MB, when the backward is over."""
    works, grads, filled = [], [], 0
    for param in [*reversed(list(model.parameters())), None]:
        if grads and (param is None or filled >= 25 << 20):
            buffer = torch.cat([grad.reshape(-1) for grad in grads])
            works.append((dist.all_reduce(buffer, dist.ReduceOp.AVG, async_op=True), buffer, grads))
            grads, filled = [], 0
        if param is not None:
            grads.append(param.grad)
            filled += 4 * param.numel()
    for work, buffer, parts in works:
        work.wait()
        for part, grad in zip(buffer.split([g.numel() for g in parts]), parts, strict=True):
            grad.copy_(part.view(grad.shape))


def main():
    """Print medians over rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--link", type=float, help="GB/s; shared memory if left out")
    for name, default in [("rounds", 9), ("layers", 6), ("width", 384), ("batch", 4)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("mpi")
    torch.manual_seed(0)
    model = Gpt(options.layers, options.width)
    wrapped = DistributedDataParallel(model, gradient_as_bucket_view=True)
    tokens = torch.randint(2048, (options.batch, 129))

    def step(net):
        net.zero_grad()
        logits = net(tokens[:, :-1])
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()

    now, reducer = time.perf_counter, wrapped._reducer
    if options.link:
        link = Link(options.link * 1e9)
        now = link.now
        _mpi.MpiEngine.all_reduce = lambda engine, buffer, op: link.all_reduce(engine, buffer, op)
    clock = Clock(now)
    for name in ("_finish", "_begin_ready", "_move_on"):  # the last two in hooks
        setattr(reducer, name, clock.around(getattr(reducer, name)))

    def after():
        with wrapped.no_sync():
            step(wrapped)
        clock.around(average_after)(model)

    found = {"after": [], "overlapped": []}
    for number in range(options.rounds + 2):
        for name, run in (("after", after), ("overlapped", lambda: step(wrapped))):
            dist.barrier()
            run()
            seconds = clock.take()
            if number >= 2:
                found[name].append(seconds)
    if dist.get_rank() == 0:
        report(found, sum(p.numel() for p in model.parameters()), options)
    dist.destroy_process_group()


def report(found, count, options):
    """Print what was found."""
    place = f"a link of {options.link} GB/s" if options.link else "shared memory"
    print(f"{count / 1e6:.1f} million parameters, {place}, {options.rounds} rounds")
    for name, times in found.items():
        low, middle, high = statistics.quantiles(times, n=4)
        print(f"exposed, {name:12}{1e3 * middle:7.1f} ms ({1e3 * low:.1f} to {1e3 * high:.1f})")
    pairs = zip(found["overlapped"], found["after"], strict=True)
    print(f"of that after: {100 * statistics.median([a / b for a, b in pairs]):.0f} %")


if __name__ == "__main__":
    main()
