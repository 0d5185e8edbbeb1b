"""Questions of scripts about autocast on CUDA."""

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available():
    """Yes: there is no CUDA."""
    return True
