"""The old names of functions of `torch.hub`."""

from tapegrad.hub import load_state_dict_from_url as load_url
from tapegrad.hub import tqdm

__all__ = ["load_url", "tqdm"]
