"""The older place of `torch.hub`'s functions."""

from ..hub import load_state_dict_from_url

load_url = load_state_dict_from_url


def __getattr__(name):
    if name == "tqdm":
        # The progress bar is imported when it is asked for: the package need not be there.
        try:
            from tqdm import tqdm
        except ImportError:
            from ..hub import _Bar as tqdm
        return tqdm
    if name in ("_download_url_to_file", "download_url_to_file"):
        from ..hub import download_url_to_file

        return download_url_to_file
    raise AttributeError(f"module 'torch.utils.model_zoo' has no attribute '{name}'")
