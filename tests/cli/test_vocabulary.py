"""Texts become numbers and come back: byte pairs beside a slow reference that defines them."""

import json
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from library import IS_TORCH, torch

if not IS_TORCH:
    from tapegrad.cli.bpe import BytePairs, whole_words, words_of
    from tapegrad.cli.text import Text
    from tapegrad.cli.vocabulary import (
        Bytes,
        Characters,
        Tokens,
        restore_vocabulary,
    )

SIGNS = "ab \n\t'sdmtlver._-12é\u00a0\u3000計🙂"  # letters, digits, signs and spaces of all kinds
texts = st.text(SIGNS, max_size=80) | st.text(max_size=40)


def merged(tokens, pair, token):
    out = []
    for item in tokens:
        out.append(item)
        if tuple(out[-2:]) == pair:
            out[-2:] = [token]
    return out


def learn_slowly(counts, size):
    """What learning means: count all pairs anew, take the most frequent and lowest, and again."""
    words = {word: list(word.encode("utf-8", "surrogateescape")) for word in counts}
    merges = []
    while 256 + len(merges) < size:
        pairs = Counter()
        for word, tokens in words.items():
            for pair in pairwise(tokens):
                pairs[pair] += counts[word]
        best = max(pairs, key=lambda pair: (pairs[pair], -pair[0], -pair[1]), default=None)
        if best is None or pairs[best] < 2:
            break
        words = {w: merged(tokens, best, 256 + len(merges)) for w, tokens in words.items()}
        merges.append(best)
    return merges


def encode_slowly(merges, text):
    """What encoding means: every merge, in order, over every word."""
    out = []
    for word in words_of(text):
        tokens = list(word.encode("utf-8", "surrogateescape"))
        for place, pair in enumerate(merges):
            tokens = merged(tokens, pair, 256 + place)
        out += tokens
    return out


@pytest.fixture(scope="module")
def learned(book):
    """Give tokens that were learned from a part of the books."""
    return Tokens.learn(Text("books", content=book[:100000]), 1000)


class TestWords:
    @given(texts)
    def test_words_are_the_text(self, text):
        words = words_of(text)
        assert "".join(words) == text
        assert all(1 <= len(word) <= 65 for word in words)
        for word in words:
            assert not word[1:].strip() or not any(map(str.isspace, word[1:]))

    @given(st.lists(texts, max_size=6))
    def test_blocks_end_where_words_end(self, blocks):
        whole = "".join(blocks)
        cut = list(whole_words(blocks))
        assert "".join(cut) == whole
        assert [word for block in cut for word in words_of(block)] == words_of(whole)

    def test_a_long_line_without_spaces(self):
        assert max(map(len, words_of("x" * 1000 + "1" * 1000 + " " * 1000 + "." * 1000))) == 65
        assert list(whole_words(["x" * 10] * 3)) == ["x" * 30]


class TestLearning:
    @given(st.text("abc ", max_size=120), st.integers(256, 290))
    @example("aaaa aaa aaaaa", 270)
    @settings(max_examples=200)
    def test_beside_the_reference(self, text, size):
        counts = Counter(words_of(text))
        pairs = BytePairs.learn(counts, size)
        assert pairs.merges == learn_slowly(counts, size)
        assert pairs.encode(text) == encode_slowly(pairs.merges, text)

    def test_a_book(self, book):
        counts = Counter(words_of(book[:20000].decode()))
        pairs = BytePairs.learn(counts, 500)
        assert pairs.merges == learn_slowly(counts, 500) and len(pairs) == 500
        assert b" the" in pairs.pieces and b" Alice" in pairs.pieces

    def test_the_order_of_words_does_not_matter(self, book):
        counts = Counter(words_of(book[:20000].decode()))
        turned = dict(reversed(counts.items()))
        assert BytePairs.learn(turned, 400).merges == BytePairs.learn(counts, 400).merges

    def test_no_pair_occurs_twice(self):
        assert len(BytePairs.learn(Counter(words_of("abc")), 300)) == 256
        assert len(BytePairs.learn({}, 300)) == 256

    def test_a_long_text_is_learnt_from_in_parts(self, monkeypatch):
        from tapegrad.cli import text, vocabulary

        monkeypatch.setattr(vocabulary, "BLOCK", 100)
        monkeypatch.setattr(text, "BLOCK", 100)
        monkeypatch.setattr(vocabulary, "_LEARNT_BLOCKS", 2)
        content = b"".join(bytes([letter]) * 100 for letter in b"abcdefgh")
        pieces = Tokens.learn(Text("text", content=content), 300).pairs.pieces[256:]
        assert {piece[:1] for piece in pieces} == {b"a", b"e"}


class TestRoundTrip:
    @given(st.binary(max_size=200) | texts.map(str.encode))
    def test_any_bytes(self, learned, content):
        text = Text("text", content=content)
        numbers = [number for block in learned.numbers(text) for number in block.tolist()]
        assert learned.to_bytes(numbers) == content
        assert max(numbers, default=0) < len(learned)

    @given(texts)
    def test_prompts(self, learned, text):
        numbers = learned.encode(text)
        assert learned.decode(numbers) == text
        assert numbers == encode_slowly(learned.pairs.merges, text)

    def test_words_that_are_not_kept(self, learned, book, monkeypatch):
        from tapegrad.cli import bpe

        text = book[100000:110000].decode()
        expected = learned.encode(text)
        monkeypatch.setattr(bpe, "_MOST_KEPT", 5)
        assert BytePairs(learned.pairs.merges).encode(text) == expected

    def test_fewer_tokens_than_bytes(self, learned, book):
        assert len(learned.encode(book[:100000].decode())) < 100000 / 2.5

    def test_characters(self):
        vocabulary = Characters.learn(Text("text", content="añb🙂a".encode()))
        assert vocabulary.symbols == "abñ🙂" and len(vocabulary) == 4
        assert vocabulary.decode(vocabulary.encode("🙂bañ")) == "🙂bañ"
        assert vocabulary.first_prompt() == [0]

    def test_bytes(self):
        assert len(Bytes()) == 256 and Bytes().first_prompt() == [10]
        assert Bytes().decode(Bytes().encode("ñ")) == "ñ"
        assert Bytes().decode([0xC3]) == "\ufffd"


class TestState:
    def test_all_come_back(self, learned, tmp_path):
        for vocabulary in (Characters("abc\n"), Bytes(), learned, Tokens(BytePairs([]))):
            torch.save({"vocabulary": vocabulary.state()}, tmp_path / "file.safetensors")
            state = torch.load(tmp_path / "file.safetensors")["vocabulary"]
            other = restore_vocabulary(state)
            assert type(other) is type(vocabulary) and len(other) == len(vocabulary)
            assert other.encode("ab\ncab") == vocabulary.encode("ab\ncab")

    def test_a_file_for_other_programs(self, learned):
        content = json.loads(learned.as_json())
        assert content["size"] == len(learned) == 256 + len(content["merges"])
        assert [tuple(pair) for *pair, _ in content["merges"]] == learned.pairs.merges
        assert [piece for *_, piece in content["merges"]][:3] == [
            piece.decode() for piece in learned.pairs.pieces[256:259]
        ]
