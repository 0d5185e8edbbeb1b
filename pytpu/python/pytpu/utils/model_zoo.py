"""The older place of `torch.hub`'s functions."""

from ..hub import load_state_dict_from_url

load_url = load_state_dict_from_url


def __getattr__(name):
    if name == "tqdm":
        # Import the progress bar at its first use: its package may be absent.
        try:
            from tqdm import tqdm
        except ImportError:
            from ..hub import _Bar as tqdm
        return tqdm
    if name in ("_download_url_to_file", "download_url_to_file"):
        from ..hub import download_url_to_file

        return download_url_to_file
    raise AttributeError(f"module 'torch.utils.model_zoo' has no attribute '{name}'")
