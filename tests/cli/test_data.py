"""What is learned and what is held out, in what order, from a file that is never read whole."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from library import IS_TORCH, torch

if not IS_TORCH:
    from tapegrad.cli.data import (
        Batches,
        Joined,
        held_out_windows,
        kept_numbers,
        split,
        write_numbers,
    )
    from tapegrad.cli.errors import UserError
    from tapegrad.cli.run_folder import RunFolder
    from tapegrad.cli.text import Text
    from tapegrad.cli.vocabulary import Bytes, Characters, Tokens

CPU = torch.device("cpu")
BLOCK = 1 << 20


def everything(joined):
    return joined.window(0, len(joined))


class TestSplit:
    def test_covers_the_text_once(self):
        train, held_out = map(everything, split(np.arange(1003), context=4))
        assert np.array_equal(np.sort(np.concatenate([train, held_out])), np.arange(1003))
        assert len(held_out) == pytest.approx(100, abs=10)
        for part in range(10):  # a piece of each tenth
            assert ((held_out >= 100 * part) & (held_out < 100 * (part + 1) + 3)).any()

    @given(
        st.lists(st.integers(0, 5), min_size=1, max_size=6).filter(any),
        st.data(),
    )
    def test_windows_cross_the_seams(self, sizes, data):
        pieces = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
        joined = Joined(pieces)
        assert len(joined) == sum(sizes)
        start = data.draw(st.integers(0, len(joined) - 1))
        length = data.draw(st.integers(1, len(joined) - start))
        assert joined.window(start, length).tolist() == list(range(start, start + length))


class TestBatches:
    def batches(self, batch=3, accumulate=1, seed=0):
        return Batches(Joined([np.arange(30), np.arange(30, 50)]), batch, accumulate, 5, seed)

    def test_pieces_of_the_text(self):
        batches, starts = self.batches(), set()
        for _ in range(200):
            ((inputs, targets),) = batches.draw()
            assert inputs.shape == targets.shape == (3, 5) and inputs.dtype == torch.int64
            assert torch.equal(inputs + 1, targets)
            assert torch.equal(inputs - inputs[:, :1], torch.arange(5).expand(3, 5))
            starts |= set(inputs[:, 0].tolist())
        assert starts == set(range(45))  # the first piece and the last are among them

    def test_a_step_has_the_same_pieces_however_it_is_divided(self):
        for _ in range(3):
            whole, parts = self.batches(batch=12), self.batches(batch=3, accumulate=4)
            for _ in range(3):
                ((inputs, targets),) = whole.draw()
                pairs = parts.draw()
                assert torch.equal(torch.cat([first for first, _ in pairs]), inputs)
                assert torch.equal(torch.cat([second for _, second in pairs]), targets)

    def test_held_out_windows_are_spread_over_the_text(self):
        text = Joined([np.arange(1000)])
        windows = held_out_windows(text, count=10, context=5, batch=4, device=CPU)
        assert [len(inputs) for inputs, _ in windows] == [4, 4, 2]
        assert windows[0][0][0, 0] == 0 and windows[-1][1][-1, -1] == 999
        few = held_out_windows(Joined([np.arange(7)]), count=10, context=5, batch=4, device=CPU)
        assert len(few[0][0]) == 2


class TestFile:
    def test_what_is_read_at_a_time(self):
        from tapegrad.cli import text

        assert text.BLOCK == BLOCK

    @pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5])
    def test_blocks_are_the_text(self, tmp_path, size):
        content = bytes(np.random.default_rng(0).integers(0, 256, size, np.uint8))
        path = tmp_path / "file"
        path.write_bytes(content)
        text = Text("file", path)
        assert b"".join(text.blocks()) == content and text.size == size
        assert text.sha256 == Text("same", content=content).sha256
        shown = "".join(text.any_characters())
        assert shown.encode("utf-8", "surrogateescape") == content

    def test_a_character_across_two_blocks(self):
        content = ("\ufeff" + "a" * (BLOCK - 5) + "🙂" + "b" * 7).encode()
        text = Text("text", content=content)
        assert "".join(text.characters()) == content.decode("utf-8-sig")
        vocabulary = Characters.learn(text)
        assert vocabulary.symbols == "ab🙂"
        numbers = np.concatenate(list(vocabulary.numbers(text)))
        assert vocabulary.decode(numbers) == content.decode("utf-8-sig")

    @pytest.mark.parametrize(
        ("content", "byte", "place"),
        [
            (b"a" * BLOCK + b"b\xff", "0xff", BLOCK + 1),
            (b"a" * (BLOCK - 1) + b"\xc3(", "0xc3", BLOCK - 1),
            (b"abc\xe2\x82", "0xe2", 3),
        ],
    )
    def test_where_it_is_no_utf_8(self, content, byte, place):
        with pytest.raises(UserError, match=f"not UTF-8: byte {byte} at position {place};"):
            list(Text("text", content=content).characters())

    def test_numbers_lie_in_a_file(self, tmp_path, book):
        text, folder = Text("books", content=book[:50000]), RunFolder(tmp_path)
        for vocabulary, size in (
            (Bytes(), 1),
            (Characters.learn(text), 1),
            (Tokens.learn(text, 300), 2),
        ):
            numbers = write_numbers(text, vocabulary, folder)
            assert isinstance(numbers, np.memmap) and numbers.dtype.itemsize == size
            assert vocabulary.to_bytes(numbers) == book[:50000]
            assert [path.name for path in tmp_path.iterdir()] == ["tokens.bin"]
            assert np.array_equal(kept_numbers(vocabulary, folder), numbers)

    def test_no_numbers(self, tmp_path):
        folder = RunFolder(tmp_path)
        assert len(kept_numbers(Bytes(), folder)) == 0
        assert len(write_numbers(Text("empty"), Bytes(), folder)) == 0
