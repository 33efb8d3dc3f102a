"""The tape as an object: look at it, price it, keep it under a budget or in fewer bytes."""

from tapegrad.tape.budget import BudgetWarning, budget
from tapegrad.tape.compress import compress

__all__ = ["BudgetWarning", "budget", "compress"]
