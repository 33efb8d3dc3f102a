"""Writing: draw a token, put it behind the text, look again."""

from collections.abc import Iterator

import tapegrad
from tapegrad import Tensor
from tapegrad.cli.model import GPT

__all__ = ["generate"]

_LENGTHS = 64  # a GPU gets a multiple of so many tokens


def generate(
    model: GPT,
    prompt: list[int],
    count: int,
    *,
    known: int | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    seed: int = 0,
) -> Iterator[int]:
    """Yield token numbers that go on from a prompt.

    The generator is its own, so that writing a sample leaves a training run as it was. It draws the
    same numbers on all devices.

    Args:
        model: put into eval mode while a token is computed, then back.
        prompt: at least one token number.
        count: how many tokens to write.
        known: choose among this many of the first tokens, those that stand for something; all if
            None.
        temperature: divides the scores; 0 always takes the likeliest token.
        top_k: choose among this many of the likeliest; all if None.
        seed: of the choice.
    """
    device = model.token.weight.device
    generator = tapegrad.Generator(device).manual_seed(seed)
    tokens = list(prompt)
    for _ in range(count):
        scores = _last_scores(model, tokens[-model.context :])[:known]
        token = _choose(scores, temperature, top_k, generator)
        tokens.append(token)
        yield token


def _last_scores(model: GPT, tokens: list[int]) -> Tensor:
    training, device = model.training, model.token.weight.device
    last = len(tokens) - 1
    if device.type == "cuda":  # which prepares itself for every new length; what follows is unseen
        length = min(model.context, -(-len(tokens) // _LENGTHS) * _LENGTHS)
        tokens = tokens + [0] * (length - len(tokens))
    model.eval()
    try:
        with tapegrad.no_grad():
            return model(tapegrad.tensor([tokens], device=device))[0, last]
    finally:
        model.train(training)


def _choose(
    scores: Tensor, temperature: float, top_k: int | None, generator: tapegrad.Generator
) -> int:
    if temperature == 0:
        return int(scores.argmax().item())
    if top_k is not None and top_k < len(scores):
        least = tapegrad.topk(scores, top_k).values[-1]
        scores = scores.masked_fill(scores < least, -tapegrad.inf)
    # In float64 and less the largest, so that the least temperature divides into numbers.
    chances = tapegrad.softmax((scores - scores.max()).double() / temperature, 0)
    return int(tapegrad.multinomial(chances, 1, generator=generator).item())
