"""The tape as an object: price it, budget it, compress it, offload it, compute it again."""

from tapegrad.tape.budget import BudgetWarning, budget
from tapegrad.tape.compress import compress
from tapegrad.tape.offload import offload
from tapegrad.tape.revolve import revolve
from tapegrad.tape.revolve_plan import revolve_cost, revolve_schedule

__all__ = [
    "BudgetWarning",
    "budget",
    "compress",
    "offload",
    "revolve",
    "revolve_cost",
    "revolve_schedule",
]
