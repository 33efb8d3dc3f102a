"""The network, the text and the writing."""

import itertools
import math

import pytest
from library import IS_TORCH, torch

if not IS_TORCH:
    from tapegrad.cli.generate import generate
    from tapegrad.cli.model import GPT
    from tapegrad.cli.text import Batches, Vocabulary, held_out_windows, read_text, split


def small_model(**options):
    return GPT(vocabulary=11, context=8, layers=2, width=16, heads=2, **options)


class TestModel:
    def test_no_token_sees_what_comes_after_it(self):
        model = small_model().eval()
        tokens = torch.randint(0, 11, (1, 8))
        before = model(tokens)
        tokens[0, 5] = (tokens[0, 5] + 1) % 11
        after = model(tokens)
        assert torch.equal(before[:, :5], after[:, :5])
        assert ((before[:, 5:] - after[:, 5:]).abs().amax(2) > 0).all()

    def test_starts_knowing_nothing(self):
        scores = small_model()(torch.randint(0, 11, (4, 8)))
        loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), torch.arange(32) % 11)
        assert loss.item() == pytest.approx(math.log(11), abs=0.1)

    def test_tied_weights_are_one_parameter(self):
        tied, free = small_model(tie=True), small_model()
        assert tied.scores.weight is tied.token.weight
        sizes = [sum(p.numel() for p in model.parameters()) for model in (tied, free)]
        assert sizes[1] - sizes[0] == 11 * 16

    def test_dropout_only_in_training(self):
        model = small_model(dropout=0.5)
        tokens = torch.randint(0, 11, (2, 8))
        assert not torch.equal(model(tokens), model(tokens))
        model.eval()
        assert torch.equal(model(tokens), model(tokens))

    def test_more_than_the_context_is_refused(self):
        with pytest.raises(ValueError, match="GPT: expected at most 8 tokens, got 9"):
            small_model()(torch.zeros(1, 9, dtype=torch.int64))

    def test_every_parameter_learns(self):
        model = small_model()
        model(torch.randint(0, 11, (2, 8))).logsumexp(2).sum().backward()
        still = [name for name, p in model.named_parameters() if not (p.grad != 0).any()]
        assert not still


class TestGenerate:
    def test_leaves_chance_and_mode_alone(self):
        model = small_model(dropout=0.5)
        state = torch.get_rng_state()
        first = list(generate(model, torch.tensor([1]), 12, seed=2))
        assert torch.equal(torch.get_rng_state(), state)
        assert model.training
        assert list(generate(model, torch.tensor([1]), 12, seed=2)) == first

    def test_draws_from_the_distribution(self):
        """With one token of context the model is a table; its rows are met in the long run."""
        model = GPT(vocabulary=3, context=1, layers=1, width=8, heads=1)
        with torch.no_grad():
            model.scores.weight.mul_(8)
        tokens = torch.tensor(list(generate(model, torch.tensor([0]), 2000, seed=1)))
        chances = torch.softmax(model(torch.arange(3).unsqueeze(1))[:, 0], 1).detach()
        for token in range(3):
            followers = tokens[1:][tokens[:-1] == token]
            assert len(followers) > 300
            seen = torch.bincount(followers, minlength=3) / len(followers)
            assert (seen - chances[token]).abs().max().item() < 0.1

    def test_top_k_leaves_the_others_out(self):
        model = GPT(vocabulary=5, context=1, layers=1, width=8, heads=1)
        best = model(torch.arange(5).unsqueeze(1))[:, 0].topk(2).indices.tolist()
        tokens = [0, *generate(model, torch.tensor([0]), 200, top_k=2)]
        follows = set(itertools.pairwise(tokens))
        assert all(b in best[a] for a, b in follows)
        assert len({b for _, b in follows}) > 1


class TestText:
    def test_the_text_in_the_package(self, book):
        text = book.decode("ascii")
        assert len(text) > 500_000
        assert set(text) <= set(map(chr, range(32, 127))) | {"\n"}
        assert "gutenberg" not in text.lower()
        for line in ("Down the Rabbit-Hole", "All the world's a stage", "Of Man's first dis"):
            assert line in text
        assert read_text(None).content == book

    def test_split_covers_the_text_once(self):
        train, held_out = split(torch.arange(1003), context=4)
        both = torch.cat([train, held_out]).sort().values
        assert torch.equal(both, torch.arange(1003))
        assert len(held_out) == pytest.approx(100, abs=10)
        for part in range(10):  # a piece of each tenth
            assert ((held_out >= 100 * part) & (held_out < 100 * (part + 1) + 3)).any()

    def test_batches_are_pieces_of_the_text(self):
        batches = Batches(torch.arange(50), batch=3, context=5, seed=0)
        starts = set()
        for _ in range(200):
            inputs, targets = batches.draw()
            assert inputs.shape == targets.shape == (3, 5)
            assert torch.equal(inputs + 1, targets)
            assert torch.equal(inputs - inputs[:, :1], torch.arange(5).expand(3, 5))
            starts |= set(inputs[:, 0].tolist())
        assert starts == set(range(45))  # the first piece and the last are among them

    def test_windows_are_spread_over_the_text(self):
        windows = held_out_windows(torch.arange(1000), count=10, context=5, batch=4)
        assert [len(inputs) for inputs, _ in windows] == [4, 4, 2]
        assert windows[0][0][0, 0] == 0 and windows[-1][1][-1, -1] == 999
        assert len(held_out_windows(torch.arange(7), count=10, context=5, batch=4)[0][0]) == 2

    def test_vocabulary(self):
        vocabulary = Vocabulary.of("añb🙂a".encode(), "characters")
        assert vocabulary.symbols == "abñ🙂"
        assert vocabulary.numbers("b🙂ñ".encode()).tolist() == [1, 3, 2]
        assert vocabulary.decode(vocabulary.encode("🙂bañ").tolist()) == "🙂bañ"
        as_bytes = Vocabulary.of(b"", "bytes")
        assert len(as_bytes) == 256
        assert as_bytes.decode(as_bytes.encode("ñ").tolist()) == "ñ"
        assert as_bytes.decode([0xC3]) == "\ufffd"
