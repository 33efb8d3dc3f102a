"""The tape as an object: look at it, price it, keep it under a budget."""

from tapegrad.tape.budget import BudgetWarning, budget

__all__ = ["BudgetWarning", "budget"]


def load_ipython_extension(shell: object) -> None:
    """Bring ``%%tape`` to a notebook: ``%load_ext tapegrad.tape``."""
    from tapegrad.tape.magic import load

    load(shell)
