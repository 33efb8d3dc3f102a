"""Datasets, samplers, and the loader that makes batches of them, in worker processes if asked to.

>>> from tapegrad.utils.data import DataLoader, TensorDataset
>>> dataset = TensorDataset(torch.arange(5), torch.arange(5) * 10)
>>> for x, y in DataLoader(dataset, batch_size=2):
...     print(x, y)
tensor([0, 1]) tensor([ 0, 10])
tensor([2, 3]) tensor([20, 30])
tensor([4]) tensor([40])
"""

from typing import TYPE_CHECKING

from tapegrad._missing import names_of_torch as _names_of_torch
from tapegrad.utils.data.collate import default_collate, default_convert
from tapegrad.utils.data.dataloader import DataLoader
from tapegrad.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from tapegrad.utils.data.distributed import DistributedSampler
from tapegrad.utils.data.fetch import get_worker_info
from tapegrad.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]

if not TYPE_CHECKING:
    __getattr__ = _names_of_torch(__name__)
