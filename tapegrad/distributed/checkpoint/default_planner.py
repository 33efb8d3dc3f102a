"""What is saved and loaded of a state."""

__all__ = ["DefaultLoadPlanner", "DefaultSavePlanner"]


class DefaultSavePlanner:
    """Saves everything.

    Args:
        flatten_state_dict: accepted: names are always those of nested dicts, joined by dots.
        flatten_sharded_tensors: accepted.
        dedup_replicated_tensors: accepted.
        dedup_save_to_lowest_rank: accepted.
        enable_plan_caching: accepted.
    """

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        dedup_replicated_tensors: bool | None = None,
        dedup_save_to_lowest_rank: bool = False,
        enable_plan_caching: bool = False,
    ) -> None:
        self.flatten_state_dict = flatten_state_dict


class DefaultLoadPlanner:
    """Loads everything that the state asks for.

    Args:
        flatten_state_dict: accepted: names are always those of nested dicts, joined by dots.
        flatten_sharded_tensors: accepted.
        allow_partial_load: whether what the checkpoint lacks stays as it is.
    """

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        allow_partial_load: bool = False,
    ) -> None:
        self.flatten_state_dict = flatten_state_dict
        self.allow_partial_load = allow_partial_load
