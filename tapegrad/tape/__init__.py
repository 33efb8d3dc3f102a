"""The tape as an object: what is recorded for backward, and how much of it is kept."""

from tapegrad.tape.revolve import revolve
from tapegrad.tape.revolve_plan import revolve_cost, revolve_schedule

__all__ = ["revolve", "revolve_cost", "revolve_schedule"]
