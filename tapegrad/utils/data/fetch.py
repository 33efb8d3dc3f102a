"""How samples become a batch: the part of loading that runs alike here and in a worker."""

from collections.abc import Callable
from typing import Any, NamedTuple

from tapegrad.utils.data.dataset import IterableDataset

__all__ = ["Fetcher", "Recipe", "WorkerInfo", "get_worker_info"]


class WorkerInfo:
    """What a worker process knows of itself; see `get_worker_info`. It cannot be changed."""

    id: int
    num_workers: int
    seed: int
    dataset: Any

    def __init__(self, **values: Any) -> None:
        vars(self).update(values)

    def __setattr__(self, name: str, value: Any) -> None:
        raise RuntimeError(f"Cannot assign attributes to WorkerInfo objects: '{name}'")

    def __repr__(self) -> str:
        return f"WorkerInfo({', '.join(f'{key}={value}' for key, value in vars(self).items())})"


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Return which worker process this is, or None outside of one.

    Returns:
        An object with ``id`` (from 0), ``num_workers``, ``seed`` (the loader's base seed plus the
        id) and ``dataset``, this worker's copy.

    Example:
        >>> torch.utils.data.get_worker_info() is None
        True
    """
    return _worker_info


def set_worker_info(info: WorkerInfo) -> None:
    """Declare this process a worker."""
    global _worker_info
    _worker_info = info


class Recipe(NamedTuple):
    """What makes batches of a dataset."""

    dataset: Any
    auto_collation: bool
    collate_fn: Callable[[Any], Any]
    drop_last: bool


class Fetcher:
    """Makes batches for one epoch."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.ended = False
        self.stream = iter(recipe.dataset) if isinstance(recipe.dataset, IterableDataset) else None

    def fetch(self, index: Any) -> Any:
        """Return the batch of an index or a list of them; raise StopIteration after a stream."""
        if self.stream is None:
            return self.recipe.collate_fn(self._look_up(index))
        if self.ended:
            raise StopIteration
        if not self.recipe.auto_collation:
            return self.recipe.collate_fn(next(self.stream))
        samples = []
        for _ in index:
            try:
                samples.append(next(self.stream))
            except StopIteration:
                self.ended = True
                break
        if not samples or (self.recipe.drop_last and len(samples) < len(index)):
            raise StopIteration
        return self.recipe.collate_fn(samples)

    def _look_up(self, index: Any) -> Any:
        dataset = self.recipe.dataset
        if not self.recipe.auto_collation:
            return dataset[index]
        if callable(getattr(dataset, "__getitems__", None)):
            return dataset.__getitems__(index)
        return [dataset[each] for each in index]
