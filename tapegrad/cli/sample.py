"""``tapegrad sample``: text from a trained model."""

import argparse
import codecs
import sys

from tapegrad.cli.device import chosen_device
from tapegrad.cli.generate import generate
from tapegrad.cli.run_folder import RunFolder, newest_run
from tapegrad.cli.settings import Settings
from tapegrad.cli.text import Vocabulary
from tapegrad.cli.trainer import first_prompt, make_model

__all__ = ["sample"]


def sample(arguments: argparse.Namespace) -> int:
    """Print the prompt and what the model makes of it, token by token."""
    device = chosen_device(arguments.device or "cpu")
    folder = RunFolder.open(arguments.run or newest_run())
    state = folder.load_checkpoint()
    vocabulary = Vocabulary(state["vocabulary"])
    model = make_model(Settings.from_dict(state["settings"]), len(vocabulary))
    model.load_state_dict(state["model"])
    model.to(device)
    prompt = vocabulary.encode(arguments.prompt) if arguments.prompt else first_prompt(vocabulary)
    numbers = generate(
        model,
        prompt,
        arguments.tokens,
        temperature=arguments.temperature,
        top_k=arguments.top_k,
        seed=arguments.seed,
    )
    sys.stdout.write(arguments.prompt)
    # A character of several bytes is shown when its last byte has come.
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    for number in numbers:
        whole = vocabulary.symbols is not None
        text = vocabulary.decode([number]) if whole else decoder.decode(bytes([number]))
        sys.stdout.write(text)
        sys.stdout.flush()
    sys.stdout.write("\n")
    return 0
