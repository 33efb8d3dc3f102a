"""An engine whose ranks are threads of one process: what proves that nothing assumes one rank."""

import threading
from collections import defaultdict

import tapegrad as torch
from tapegrad import distributed
from tapegrad.distributed import _groups
from tapegrad.distributed.engine import Engine, Pending

SECONDS = 30
KINDS = distributed.ReduceOp.RedOpType


class Late(Pending):
    """An operation that ends when it is waited for, or asked for the second time."""

    def __init__(self, run):
        self.run, self.asked, self.found = run, 0, None

    def done(self):
        self.asked += 1
        if self.asked > 1:
            self.wait(None)
        return self.asked > 1

    def wait(self, timeout):
        if self.run is not None:
            run, self.run = self.run, None
            self.found = run()
        self.asked = 2

    def source(self):
        return self.found


class Room:
    """Where the ranks of one group meet."""

    def __init__(self, size):
        self.barrier = threading.Barrier(size, timeout=SECONDS)
        self.mail = defaultdict(list)
        self.arrived = threading.Condition()
        self.rounds = {}


class ThreadEngine(Engine):
    """Every collective is: put what this rank gives into a table, wait for all, read the table."""

    def __init__(self, options, rooms):
        super().__init__(options)
        self.room = rooms.setdefault(tuple(options.global_ranks_in_group), Room(self.size))
        self.number = 0

    def exchange(self, value):
        """Return what all ranks give, in order."""
        number, self.number = self.number, self.number + 1
        table = self.room.rounds.setdefault(number, {})
        table[self.rank] = value
        self.room.barrier.wait()
        return [table[rank] for rank in range(self.size)]

    def broadcast(self, buffer, root):
        buffer.copy_(self.exchange(buffer.clone())[root])

    def all_reduce(self, buffer, op):
        buffer.copy_(reduced(self.exchange(buffer.clone()), op))

    def reduce(self, buffer, root, op):
        values = self.exchange(buffer.clone())
        buffer.copy_(reduced(values, op) if self.rank == root else torch.full_like(buffer, 77))

    def all_gather(self, output, input):
        mine = input.clone()
        return Late(lambda: output.copy_(torch.cat(self.exchange(mine))))

    def gather(self, output, input, root):
        values = self.exchange(input.clone())
        assert (output is None) == (self.rank != root)
        if output is not None:
            output.copy_(torch.cat(values))

    def scatter(self, output, input, root):
        values = self.exchange(None if input is None else input.clone())
        assert [value is None for value in values] == [r != root for r in range(self.size)]
        output.copy_(values[root].view(self.size, -1)[self.rank])

    def reduce_scatter(self, output, input, op):
        output.copy_(reduced(self.exchange(input.clone()), op).view(self.size, -1)[self.rank])

    def all_to_all(self, output, output_counts, input, input_counts):
        sent = self.exchange([part.clone() for part in input.split(list(input_counts))])
        parts = [row[self.rank] for row in sent]
        assert [part.numel() for part in parts] == list(output_counts)
        output.copy_(torch.cat(parts))

    def send(self, buffer, peer, tag):
        with self.room.arrived:
            self.room.mail[peer].append((self.rank, tag, buffer.clone()))
            self.room.arrived.notify_all()

    def recv(self, buffer, peer, tag):
        def take():
            box = self.room.mail[self.rank]
            fits = [m for m in box if m[1] == tag and peer in (None, m[0])]
            if fits:
                box[:] = [message for message in box if message is not fits[0]]
            return fits[0] if fits else None

        def run():
            with self.room.arrived:
                found = []
                came = self.room.arrived.wait_for(
                    lambda: found or found.extend(filter(None, [take()])) or found, SECONDS
                )
                assert came, "no message came"
            source, _, value = found[0]
            buffer.copy_(value)
            return source

        return Late(run)

    def barrier(self, timeout):
        self.exchange(None)


def reduced(values, op):
    """Return one value of several."""
    result = values[0].clone()
    for value in values[1:]:
        if op is KINDS.SUM:
            result = result | value if value.dtype is torch.bool else result + value
        elif op is KINDS.PRODUCT:
            result = result * value
        elif op in (KINDS.MIN, KINDS.MAX):
            result = (torch.minimum if op is KINDS.MIN else torch.maximum)(result, value)
        else:
            result = {
                KINDS.BAND: torch.bitwise_and,
                KINDS.BOR: torch.bitwise_or,
                KINDS.BXOR: torch.bitwise_xor,
            }[op](result, value)
    return result


class Ranks:
    """Runs a function as several ranks, each in a thread with a world of its own."""

    def __init__(self, monkeypatch):
        self.rooms = {}
        worlds = threading.local()

        def world():
            if not hasattr(worlds, "mine"):
                worlds.mine = _groups.World()
            return worlds.mine

        monkeypatch.setattr(_groups, "world", world)
        plugins = distributed.Backend._plugins
        monkeypatch.setattr(distributed.Backend, "_plugins", dict(plugins))
        monkeypatch.setattr(distributed.Backend, "backend_list", distributed.Backend.backend_list)
        capability = distributed.Backend.backend_capability
        monkeypatch.setattr(distributed.Backend, "backend_capability", capability)
        monkeypatch.setattr(distributed.Backend, "THREADS", None, raising=False)
        distributed.Backend.register_backend("threads", self.make, extended_api=True, devices="cpu")

    def make(self, options, pg_options):
        return ThreadEngine(options, self.rooms)

    def __call__(self, size, function):
        """Return what the function returns for each rank; raise the first error."""
        store, results, errors = distributed.HashStore(), [None] * size, []

        def run(rank):
            try:
                distributed.init_process_group("threads", store=store, rank=rank, world_size=size)
                results[rank] = function(rank)
                distributed.destroy_process_group()
            except BaseException as error:
                errors.append(error)
                for room in self.rooms.values():
                    room.barrier.abort()

        threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * SECONDS)
        real = [e for e in errors if not isinstance(e, threading.BrokenBarrierError)]
        if errors:
            raise (real or errors)[0]
        assert not any(thread.is_alive() for thread in threads)
        return results
