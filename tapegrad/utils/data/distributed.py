"""The share of a dataset that one of several processes trains on."""

import math
from collections.abc import Iterator, Sized

from tapegrad import _C
from tapegrad.utils.data.sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[int]):
    """Gives each of several processes its own samples, all of them equally many.

    Args:
        dataset: what has a length.
        num_replicas: the number of processes; that of the world if left out.
        rank: which of them this is; the rank in the world if left out.
        shuffle: whether the order is drawn anew for every epoch.
        seed: the seed of the order, the same in all processes.
        drop_last: leave out what cannot be shared equally, instead of giving some samples twice.

    Example:
        >>> from tapegrad.utils.data import DistributedSampler
        >>> list(DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False))
        [1, 3, 0]
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            from tapegrad import distributed

            num_replicas = distributed.get_world_size() if num_replicas is None else num_replicas
            rank = distributed.get_rank() if rank is None else rank
        if rank >= num_replicas or rank < 0:
            raise ValueError(
                f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.epoch, self.shuffle, self.seed, self.drop_last = 0, shuffle, seed, drop_last
        count = len(dataset)
        if drop_last and count % num_replicas:
            self.num_samples = math.ceil((count - num_replicas) / num_replicas)
        else:
            self.num_samples = math.ceil(count / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def _order(self) -> list[int]:
        if not self.shuffle:
            return list(range(len(self.dataset)))
        generator = _C.Generator()
        generator.manual_seed(self.seed + self.epoch)
        order: list[int] = _C.randperm(
            len(self.dataset), generator=generator, device="cpu"
        ).tolist()
        return order

    def __iter__(self) -> Iterator[int]:
        order = self._order()
        if self.drop_last:
            order = order[: self.total_size]
        else:
            missing = self.total_size - len(order)
            order += (order * math.ceil(missing / max(len(order), 1)))[:missing]
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch comes next, so that its order is another.

        Args:
            epoch: its number.
        """
        self.epoch = epoch
