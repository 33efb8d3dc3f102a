"""``tapegrad sample``: text from a trained model."""

import argparse
import codecs
import sys

from tapegrad.cli.device import chosen_device
from tapegrad.cli.generate import generate
from tapegrad.cli.run_folder import RunFolder, newest_run
from tapegrad.cli.settings import Settings
from tapegrad.cli.trainer import make_model
from tapegrad.cli.vocabulary import restore_vocabulary

__all__ = ["sample"]


def sample(arguments: argparse.Namespace) -> int:
    """Print the prompt and what the model makes of it, token by token."""
    device = chosen_device(arguments.device or "cpu")
    folder = RunFolder.open(arguments.run or newest_run())
    state = folder.load_checkpoint()
    vocabulary = restore_vocabulary(state["vocabulary"])
    model = make_model(Settings.from_dict(state["settings"]), len(vocabulary))
    model.load_state_dict(state["model"])
    model.to(device)
    numbers = generate(
        model,
        vocabulary.encode(arguments.prompt) or vocabulary.first_prompt(),
        arguments.tokens,
        known=len(vocabulary),
        temperature=arguments.temperature,
        top_k=arguments.top_k,
        seed=arguments.seed,
    )
    sys.stdout.write(arguments.prompt)
    # A character of several bytes is shown when its last byte has come.
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    for number in numbers:
        sys.stdout.write(decoder.decode(vocabulary.to_bytes([number])))
        sys.stdout.flush()
    sys.stdout.write(decoder.decode(b"", final=True) + "\n")
    return 0
