"""The network, the text and the writing."""

import itertools
import math

import pytest
from library import IS_TORCH, torch

if not IS_TORCH:
    from tapegrad.cli.generate import generate
    from tapegrad.cli.model import GPT
    from tapegrad.cli.settings import Settings
    from tapegrad.cli.text import read_text
    from tapegrad.cli.trainer import make_model


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

    @pytest.mark.parametrize(
        ("name", "parameters"),
        [
            ("gpt2", 124_439_808),
            ("gpt2-medium", 354_823_168),
            ("gpt2-large", 774_030_080),
            ("gpt2-xl", 1_557_611_200),
        ],
    )
    def test_presets_are_gpt_2(self, name, parameters):
        """The numbers of parameters are those of the models that were published."""
        settings = Settings.of({"preset": name, "pad_vocabulary": 1})
        with torch.device("meta"):
            model = make_model(settings, 50257)
        assert sum(p.numel() for p in model.parameters()) == parameters
        assert model.blocks[0].feed[1].approximate == "tanh"

    def test_how_gpt_2_starts(self):
        torch.manual_seed(0)
        model = GPT(vocabulary=512, context=64, layers=8, width=64, heads=4, tie=True)
        deviations = {name: p.std().item() for name, p in model.named_parameters() if p.dim() > 1}
        assert len(deviations) == 2 + 8 * 4
        for name, deviation in deviations.items():
            adds = name.endswith(("attention.out.weight", "feed.2.weight"))
            assert deviation == pytest.approx(0.02 / 4 if adds else 0.02, rel=0.05), name
        biases = [p for name, p in model.named_parameters() if name.endswith("bias")]
        assert all(not bias.any() for bias in biases)

    def test_rows_for_more_tokens_than_there_are(self):
        settings = Settings.of({"layers": 1, "width": 8, "heads": 1, "pad_vocabulary": 128})
        model = make_model(settings, 300)
        assert model.scores.weight.shape == (384, 8)
        with torch.no_grad():
            model.scores.weight[300:] = 100 * model.scores.weight[:84].abs()
        for temperature in (0, 1):
            tokens = generate(model, [0], 50, known=300, temperature=temperature)
            assert max(tokens) < 300

    def test_every_parameter_learns(self):
        model = small_model()
        model(torch.randint(0, 11, (2, 8))).logsumexp(2).sum().backward()
        still = [name for name, p in model.named_parameters() if not (p.grad != 0).any()]
        assert not still


class TestGenerate:
    def test_leaves_chance_and_mode_alone(self):
        model = small_model(dropout=0.5)
        state = torch.get_rng_state()
        first = list(generate(model, [1], 12, seed=2))
        assert torch.equal(torch.get_rng_state(), state)
        assert model.training
        assert list(generate(model, [1], 12, seed=2)) == first

    def test_draws_from_the_distribution(self):
        """With one token of context the model is a table; its rows are met in the long run."""
        model = GPT(vocabulary=3, context=1, layers=1, width=8, heads=1)
        with torch.no_grad():
            model.scores.weight.mul_(8)
        tokens = torch.tensor(list(generate(model, [0], 2000, seed=1)))
        chances = torch.softmax(model(torch.arange(3).unsqueeze(1))[:, 0], 1).detach()
        for token in range(3):
            followers = tokens[1:][tokens[:-1] == token]
            assert len(followers) > 300
            seen = torch.bincount(followers, minlength=3) / len(followers)
            assert (seen - chances[token]).abs().max().item() < 0.1

    def test_top_k_leaves_the_others_out(self):
        model = GPT(vocabulary=5, context=1, layers=1, width=8, heads=1)
        best = model(torch.arange(5).unsqueeze(1))[:, 0].topk(2).indices.tolist()
        tokens = [0, *generate(model, [0], 200, top_k=2)]
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
        assert b"".join(read_text(None).blocks()) == book
