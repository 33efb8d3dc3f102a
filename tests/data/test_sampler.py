"""Samplers. Orders are random and not PyTorch's: what is checked is what they have in common."""

import pytest


def generator(torch, seed=0):
    return torch.Generator().manual_seed(seed)


def test_sequential(data):
    sampler = data.SequentialSampler("abcd")
    assert list(sampler) == [0, 1, 2, 3]
    assert len(sampler) == 4


def test_random_order_is_a_permutation(data):
    sampler = data.RandomSampler(range(50))
    first, second = list(sampler), list(sampler)
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second
    assert len(sampler) == sampler.num_samples == 50


def test_random_order_follows_the_seed(torch, data):
    sampler = data.RandomSampler(range(50))
    torch.manual_seed(3)
    first = list(sampler)
    torch.manual_seed(3)
    assert list(sampler) == first
    seeded = data.RandomSampler(range(50), generator=generator(torch, 1))
    order = list(seeded)
    assert list(seeded) != order  # the generator has gone on
    assert list(data.RandomSampler(range(50), generator=generator(torch, 1))) == order


def test_random_order_longer_and_shorter(data):
    longer = list(data.RandomSampler(range(10), num_samples=25))
    assert len(longer) == 25
    assert sorted(longer[:10]) == sorted(longer[10:20]) == list(range(10))
    assert len(set(longer[20:])) == 5
    shorter = list(data.RandomSampler(range(10), num_samples=4))
    assert len(shorter) == len(set(shorter)) == 4


@pytest.mark.parametrize("count", [5, 32, 100])
def test_random_with_replacement(data, count):
    drawn = list(data.RandomSampler(range(3), replacement=True, num_samples=count))
    assert len(drawn) == count
    assert set(drawn) <= {0, 1, 2}
    assert all(isinstance(each, int) for each in drawn)


def test_random_with_replacement_repeats(data):
    drawn = list(data.RandomSampler(range(100), replacement=True))
    assert len(drawn) == 100
    assert len(set(drawn)) < 100


def test_random_refuses(data):
    with pytest.raises(TypeError, match="replacement should be a boolean value"):
        data.RandomSampler(range(3), replacement=1)
    for count in (0, -1, 2.0):
        with pytest.raises(ValueError, match="num_samples should be a positive integer value"):
            data.RandomSampler(range(3), num_samples=count)
    with pytest.raises(ValueError, match="num_samples=0"):
        data.RandomSampler([])


def test_subset_random(torch, data):
    indices = [3, 1, 4, 15, 9, 2, 6]
    sampler = data.SubsetRandomSampler(indices, generator=generator(torch))
    order = list(sampler)
    assert sorted(order) == sorted(indices)
    assert len(sampler) == len(indices)
    assert list(data.SubsetRandomSampler(indices, generator=generator(torch))) == order


def test_weighted(torch, data):
    sampler = data.WeightedRandomSampler([0, 1, 0, 9], 1000, generator=generator(torch))
    drawn = list(sampler)
    assert len(sampler) == len(drawn) == 1000
    assert set(drawn) == {1, 3}
    assert 800 < drawn.count(3) < 970
    once = list(data.WeightedRandomSampler([1.0, 2.0, 3.0], 3, replacement=False))
    assert sorted(once) == [0, 1, 2]


def test_weighted_refuses(data):
    with pytest.raises(ValueError, match="num_samples should be a positive integer value"):
        data.WeightedRandomSampler([1.0], 0)
    with pytest.raises(ValueError, match="num_samples should be a positive integer value"):
        data.WeightedRandomSampler([1.0], True)
    with pytest.raises(ValueError, match="replacement should be a boolean value"):
        data.WeightedRandomSampler([1.0], 1, replacement=None)
    with pytest.raises(ValueError, match=r"weights should be a 1d sequence .*\(1, 2\)"):
        data.WeightedRandomSampler([[1.0, 2.0]], 1)


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("total", [0, 1, 5, 6])
def test_batch_sampler(data, total, drop_last):
    sampler = data.BatchSampler(data.SequentialSampler(range(total)), 3, drop_last)
    expected = [list(range(total))[start : start + 3] for start in range(0, total, 3)]
    if drop_last:
        expected = [batch for batch in expected if len(batch) == 3]
    assert list(sampler) == expected
    assert len(sampler) == len(expected)


def test_batch_sampler_refuses(data):
    for size in (0, -2, True, 1.5, "2"):
        with pytest.raises(ValueError, match="batch_size should be a positive integer value"):
            data.BatchSampler(range(3), size, False)
    with pytest.raises(ValueError, match="drop_last should be a boolean value"):
        data.BatchSampler(range(3), 2, 1)
