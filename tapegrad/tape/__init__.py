"""The tape as an object: look at it, price it, keep it under a budget, compute it again."""

from tapegrad.tape.budget import BudgetWarning, budget
from tapegrad.tape.revolve import revolve
from tapegrad.tape.revolve_plan import revolve_cost, revolve_schedule

__all__ = ["BudgetWarning", "budget", "revolve", "revolve_cost", "revolve_schedule"]


def load_ipython_extension(shell: object) -> None:
    """Bring ``%%tape`` to a notebook: ``%load_ext tapegrad.tape``."""
    from tapegrad.tape.magic import load

    load(shell)
