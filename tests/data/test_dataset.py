"""Datasets and datasets made of others, the same in both libraries."""

import pytest


def count_to(data, n):
    class Count(data.IterableDataset):
        def __iter__(self):
            return iter(range(n))

        def __len__(self):
            return n

    return Count()


class Several:
    """A dataset that fetches many samples by one call, and notes it."""

    def __init__(self, n, missing=0):
        self.n = n
        self.missing = missing
        self.calls = []

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        return index * 10

    def __getitems__(self, indices):
        self.calls.append(list(indices))
        return [index * 10 for index in indices][self.missing :]


def test_what_subclasses_must_have(data):
    with pytest.raises(NotImplementedError, match="should implement __getitem__"):
        data.Dataset()[0]
    with pytest.raises(TypeError):
        len(data.Dataset())
    with pytest.raises(NotImplementedError):
        iter(data.Sampler()).__next__()


def test_tensor_dataset(torch, data):
    dataset = data.TensorDataset(torch.arange(4), torch.arange(8).reshape(4, 2))
    assert len(dataset) == 4
    x, y = dataset[2]
    assert (x.item(), y.tolist()) == (2, [4, 5])
    x, y = dataset[1:3]
    assert (x.tolist(), y.tolist()) == ([1, 2], [[2, 3], [4, 5]])
    with pytest.raises(IndexError):
        dataset[4]


def test_tensor_dataset_refuses_different_sizes(torch, data):
    with pytest.raises(AssertionError, match="Size mismatch between tensors"):
        data.TensorDataset(torch.ones(2), torch.ones(3))


def test_stack_dataset(data):
    pairs = data.StackDataset([1, 2, 3], "abc")
    assert len(pairs) == 3
    assert pairs[1] == (2, "b")
    assert pairs.__getitems__([2, 0]) == [(3, "c"), (1, "a")]
    named = data.StackDataset(x=[1, 2], y="ab")
    assert named[0] == {"x": 1, "y": "a"}
    assert named.__getitems__([1]) == [{"x": 2, "y": "b"}]


def test_stack_dataset_fetches_many_by_one_call(data):
    several = Several(3)
    dataset = data.StackDataset(several, "abc")
    assert dataset.__getitems__([0, 2]) == [(0, "a"), (20, "c")]
    assert several.calls == [[0, 2]]
    named = data.StackDataset(n=Several(3, missing=1))
    with pytest.raises(ValueError, match=r"output size mismatch. Expected 2, got 1"):
        named.__getitems__([0, 1])
    with pytest.raises(ValueError, match=r"output size mismatch. Expected 2, got 1"):
        data.StackDataset(Several(3, missing=1)).__getitems__([0, 1])


def test_stack_dataset_refuses(data):
    with pytest.raises(ValueError, match="both types are given"):
        data.StackDataset([1], x=[1])
    with pytest.raises(ValueError, match="At least one dataset should be passed"):
        data.StackDataset()
    with pytest.raises(ValueError, match="Size mismatch between datasets"):
        data.StackDataset([1], [1, 2])
    with pytest.raises(ValueError, match="Size mismatch between datasets"):
        data.StackDataset(a=[1], b=[1, 2])


def test_concat_dataset(data):
    dataset = data.ConcatDataset([[0, 1], [], [2, 3, 4]])
    assert len(dataset) == 5
    assert [dataset[i] for i in range(5)] == [0, 1, 2, 3, 4]
    assert [dataset[i] for i in range(-5, 0)] == [0, 1, 2, 3, 4]
    assert dataset.cumulative_sizes == [2, 2, 5]
    with pytest.raises(ValueError, match="should not exceed dataset length"):
        dataset[-6]
    with pytest.raises(IndexError):
        dataset[5]


def test_concat_dataset_refuses(data):
    with pytest.raises(AssertionError, match="should not be an empty iterable"):
        data.ConcatDataset([])
    with pytest.raises(AssertionError, match="does not support IterableDataset"):
        data.ConcatDataset([count_to(data, 2)])


def test_plus(torch, data):
    one = data.TensorDataset(torch.arange(2))
    both = one + one
    assert isinstance(both, data.ConcatDataset)
    assert [sample[0].item() for sample in (both[i] for i in range(4))] == [0, 1, 0, 1]
    streams = count_to(data, 2) + count_to(data, 3)
    assert isinstance(streams, data.ChainDataset)
    assert list(streams) == [0, 1, 0, 1, 2]
    assert len(streams) == 5


def test_chain_dataset_refuses_others(data):
    chain = data.ChainDataset([[1, 2]])
    with pytest.raises(AssertionError, match="only supports IterableDataset"):
        list(chain)
    with pytest.raises(AssertionError, match="only supports IterableDataset"):
        len(chain)


def test_subset(torch, data):
    subset = data.Subset("abcdef", [5, 0, 2])
    assert len(subset) == 3
    assert [subset[i] for i in range(3)] == ["f", "a", "c"]
    assert subset.__getitems__([2, 0]) == ["c", "f"]
    rows = data.Subset(torch.arange(10) * 2, [1, 3, 5])
    assert rows[[0, 2]].tolist() == [2, 10]
    several = Several(6)
    assert data.Subset(several, [4, 5]).__getitems__([1, 0]) == [50, 40]
    assert several.calls == [[5, 4]]


def test_subset_with_half_an_override(data):
    class Half(data.Subset):
        def __getitem__(self, idx):
            return super().__getitem__(idx) * 2

    class Whole(Half):
        def __getitems__(self, indices):
            return [self[i] for i in indices]

    with pytest.raises(NotImplementedError, match="overrides __getitem__ but not __getitems__"):
        Half([1, 2], [0])
    assert Whole([1, 2], [1]).__getitems__([0]) == [4]


def generator(torch, seed):
    return torch.Generator().manual_seed(seed)


def test_random_split_by_counts(torch, data):
    parts = data.random_split(range(10), [3, 7], generator=generator(torch, 0))
    assert [len(part) for part in parts] == [3, 7]
    assert sorted(sample for part in parts for sample in part) == list(range(10))
    again = data.random_split(range(10), [3, 7], generator=generator(torch, 0))
    assert [list(part) for part in again] == [list(part) for part in parts]
    other = data.random_split(range(10), [3, 7], generator=generator(torch, 1))
    assert [list(part) for part in other] != [list(part) for part in parts]


@pytest.mark.parametrize(
    ("total", "fractions", "counts"),
    [
        (10, [0.3, 0.7], [3, 7]),
        (10, [0.25, 0.25, 0.5], [3, 2, 5]),
        (11, [0.5, 0.5], [6, 5]),
        (7, [1 / 3, 1 / 3, 1 / 3], [3, 2, 2]),
        (3, [1.0], [3]),
    ],
)
def test_random_split_by_fractions(data, total, fractions, counts):
    parts = data.random_split(range(total), fractions)
    assert [len(part) for part in parts] == counts
    assert sorted(sample for part in parts for sample in part) == list(range(total))


def test_random_split_warns_of_empty_parts(data):
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        parts = data.random_split(range(1), [0.5, 0.5])
    assert [len(part) for part in parts] == [1, 0]


def test_random_split_refuses(data):
    with pytest.raises(ValueError, match="does not equal the length of the input dataset"):
        data.random_split(range(10), [3, 8])
    with pytest.raises(ValueError, match="Fraction at index 0 is not between 0 and 1"):
        data.random_split(range(10), [1.5, -0.5])
