"""The tape as an object: look at it, price it, keep it under a budget."""

from tapegrad.tape.budget import BudgetWarning, budget

__all__ = ["BudgetWarning", "budget"]
