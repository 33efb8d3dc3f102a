"""The tape as an object: look at it, price it, keep it under a budget, move it to a file."""

from tapegrad.tape.budget import BudgetWarning, budget
from tapegrad.tape.offload import offload

__all__ = ["BudgetWarning", "budget", "offload"]
