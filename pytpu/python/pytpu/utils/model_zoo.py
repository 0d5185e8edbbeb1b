"""The older place of `torch.hub`'s functions."""

from ..hub import load_state_dict_from_url

load_url = load_state_dict_from_url
