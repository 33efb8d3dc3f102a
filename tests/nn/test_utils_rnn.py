"""nn.utils.rnn: sequences of different lengths, padded and packed."""

import pickle

import pytest

from .side_by_side import array_of, expect_near, expect_same, numbers

LENGTHS = [[5, 3, 3, 1], [5, 5, 5, 5], [4, 4, 2, 1]]
SHUFFLED = [[1, 5, 3, 3], [3, 4, 1, 4], [2, 1, 1, 1]]


def expect_same_pack(ours, theirs):
    assert type(ours).__name__ == type(theirs).__name__ == "PackedSequence"
    assert ours._fields == theirs._fields
    for name in ours._fields:
        expect_near(getattr(ours, name), getattr(theirs, name), name)


def each_pack(both, lengths, batch_first, enforce_sorted):
    """Pack the same numbers in both libraries."""
    values = numbers(4, 5, 2) if batch_first else numbers(5, 4, 2)
    for library in both:
        data = library.tensor(values.tolist(), dtype=library.float64)
        yield library.nn.utils.rnn.pack_padded_sequence(data, lengths, batch_first, enforce_sorted)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize(
    ("lengths", "enforce_sorted"),
    [(lengths, sorted_) for lengths in LENGTHS for sorted_ in (True, False)]
    + [(lengths, False) for lengths in SHUFFLED],
)
def test_pack_padded_sequence(both, lengths, batch_first, enforce_sorted):
    expect_same_pack(*each_pack(both, lengths, batch_first, enforce_sorted))


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("total_length", [None, 7])
@pytest.mark.parametrize("lengths", [*LENGTHS, *SHUFFLED])
def test_there_and_back_has_the_same_gradients(both, lengths, batch_first, total_length):
    shape = (4, 5, 2) if batch_first else (5, 4, 2)

    def through(library):
        rnn = library.nn.utils.rnn

        def call(values):
            packed = rnn.pack_padded_sequence(values, lengths, batch_first, enforce_sorted=False)
            packed = packed._replace(data=packed.data * packed.data)
            padded, found = rnn.pad_packed_sequence(packed, batch_first, -1.5, total_length)
            assert found.tolist() == lengths
            return padded

        return call

    expect_same(both, through, [numbers(*shape)])


@pytest.mark.parametrize("padding_side", ["left", "right"])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("counts", [(2, 4, 1), (3, 3, 3), (0, 2, 1)])
def test_pad_sequence(both, counts, batch_first, padding_side):
    def pad(library):
        return lambda *sequences: library.nn.utils.rnn.pad_sequence(
            sequences, batch_first, 0.5, padding_side
        )

    values = [numbers(count, 2, seed=place) for place, count in enumerate(counts)]
    if 0 in counts:  # The empty one comes as an empty list: give it its shape back.
        for library in both:
            tensors = [library.tensor(v.tolist()).reshape(-1, 2) for v in values]
            result = library.nn.utils.rnn.pad_sequence(
                tensors, batch_first, 0.5, padding_side=padding_side
            )
            rows = result if batch_first else result.transpose(0, 1)
            assert rows[0].tolist() == [[0.5, 0.5], [0.5, 0.5]]
            assert array_of(rows[1]).tolist() == array_of(tensors[1]).tolist()
        return
    expect_same(both, pad, values)


def test_sequences_of_tensors_and_other_dtypes(torch):
    rnn = torch.nn.utils.rnn
    assert rnn.pad_sequence(torch.arange(6).reshape(2, 3)).tolist() == [[0, 3], [1, 4], [2, 5]]
    mixed = rnn.pad_sequence([torch.ones(2), torch.ones(1, dtype=torch.float64)])
    assert mixed.dtype == torch.float32 and mixed.tolist() == [[1, 1], [1, 0]]
    padded = rnn.pad_sequence([torch.tensor([True]), torch.tensor([True, False])])
    assert padded.dtype == torch.bool and padded.tolist() == [[True, True], [False, False]]


def test_pack_and_unpack_lists(torch):
    rnn = torch.nn.utils.rnn
    sequences = [torch.tensor([1.0]), torch.tensor([2.0, 3.0, 4.0]), torch.tensor([5.0, 6.0])]
    packed = rnn.pack_sequence(sequences, enforce_sorted=False)
    assert packed.data.tolist() == [2, 5, 1, 3, 6, 4]
    assert packed.batch_sizes.tolist() == [3, 2, 1] and packed.batch_sizes.dtype == torch.int64
    assert packed.sorted_indices.tolist() == [1, 2, 0]
    assert packed.unsorted_indices.tolist() == [2, 0, 1]
    assert [part.tolist() for part in rnn.unpack_sequence(packed)] == [[1], [2, 3, 4], [5, 6]]
    padded = rnn.pad_sequence(sequences)
    lengths = torch.tensor([1, 3, 2])
    assert [part.tolist() for part in rnn.unpad_sequence(padded, lengths)] == [
        [1],
        [2, 3, 4],
        [5, 6],
    ]


def test_packed_sequences_are_tuples(torch):
    rnn = torch.nn.utils.rnn
    packed = rnn.pack_padded_sequence(torch.arange(6.0).reshape(3, 2), [3, 1])
    data, batch_sizes, sorted_indices, unsorted_indices = packed
    assert data is packed.data and batch_sizes is packed.batch_sizes
    assert sorted_indices is None and unsorted_indices is None
    assert str(packed) == (
        "PackedSequence(data=tensor([0., 1., 2., 4.]), batch_sizes=tensor([2, 1, 1]), "
        "sorted_indices=None, unsorted_indices=None)"
    )
    assert packed.double().data.dtype == torch.float64
    assert not packed.is_cuda and not packed.is_pinned()
    assert packed.to(torch.float32) is packed and packed.cpu() is packed
    assert packed.double().float().data.tolist() == packed.data.tolist()
    again = rnn.PackedSequence(packed.data, packed.batch_sizes, torch.tensor([1, 0]))
    assert again.unsorted_indices.tolist() == [1, 0]
    for name in ("half", "long", "int", "short", "char", "byte"):
        assert getattr(again, name)().data.tolist() == [0, 1, 2, 4]
        assert getattr(again, name)().sorted_indices.tolist() == [1, 0]
    assert rnn.PackedSequence((packed.data, packed.batch_sizes)).data is packed.data
    loaded = pickle.loads(pickle.dumps(packed))
    assert type(loaded) is rnn.PackedSequence and loaded.data.tolist() == packed.data.tolist()


ERRORS = [
    (lambda r, t: r.pack_padded_sequence(t.ones(3, 2), [2, 3]), RuntimeError, "enforce_sorted"),
    (lambda r, t: r.pack_padded_sequence(t.ones(3, 2), [2, 0]), RuntimeError, "greater than 0"),
    (lambda r, t: r.pack_padded_sequence(t.ones(3, 2), [2]), RuntimeError, "batch_size=2"),
    (lambda r, t: r.pack_padded_sequence(t.ones(0, 2), [2, 1]), RuntimeError, "empty"),
    (lambda r, t: r.pack_padded_sequence(t.ones(3), [3]), IndexError, "out of range"),
    (lambda r, t: r.pack_padded_sequence(t.ones(3, 2), t.ones(1, 2)), RuntimeError, "1D CPU int64"),
    (
        lambda r, t: r.pad_packed_sequence(r.pack_sequence([t.ones(3)]), total_length=2),
        ValueError,
        "total_length=2",
    ),
    (lambda r, t: r.pad_sequence(3), RuntimeError, "Expected iterable"),
    (lambda r, t: r.pad_sequence([]), RuntimeError, "empty list"),
    (lambda r, t: r.pad_sequence([t.ones(1), t.ones(2)], False, 0, "x"), RuntimeError, "one of"),
    (lambda r, t: r.pad_sequence([t.ones(2, 2), t.ones(3, 3)]), RuntimeError, "must match"),
    (lambda r, t: r.PackedSequence(t.ones(3)), AssertionError, "length 2"),
]


@pytest.mark.parametrize(("call", "error", "text"), ERRORS)
def test_errors(torch, call, error, text):
    with pytest.raises(error, match=text):
        call(torch.nn.utils.rnn, torch)


def test_lengths_beyond_the_input_are_refused(both):
    """PyTorch reads past the batch here."""
    with pytest.raises(RuntimeError, match="at most 3"):
        both[0].nn.utils.rnn.pack_padded_sequence(both[0].ones(3, 2), [4, 2])


def test_gradients(both):
    torch = both[0]
    rnn = torch.nn.utils.rnn

    def through(first, second):
        packed = rnn.pack_sequence([first, second.tanh()], enforce_sorted=False)
        return rnn.pad_packed_sequence(packed._replace(data=packed.data**3))[0]

    inputs = [torch.tensor(numbers(n, 2).tolist(), dtype=torch.float64) for n in (2, 4)]
    inputs = [value.requires_grad_() for value in inputs]
    assert torch.autograd.gradcheck(through, inputs)
    assert torch.autograd.gradgradcheck(through, inputs)
