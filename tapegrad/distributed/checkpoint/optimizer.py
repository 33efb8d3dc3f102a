"""An optimizer's state that is divided between processes: refused in words."""

from tapegrad._refused import refused

__all__ = ["load_sharded_optimizer_state_dict"]

load_sharded_optimizer_state_dict = refused(
    "load_sharded_optimizer_state_dict",
    "state that is divided between processes is not supported; use load() with "
    "get_optimizer_state_dict()",
)
