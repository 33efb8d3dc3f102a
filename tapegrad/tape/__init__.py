"""The tape as an object."""


def load_ipython_extension(shell: object) -> None:
    """Bring ``%%tape`` to a notebook: ``%load_ext tapegrad.tape``."""
    from tapegrad.tape.magic import load

    load(shell)
