"""The version of PyTorch whose flat names are made. ``None`` is the newest, ``"2_3"`` is 2.3 and older."""

_derived_version: str | None = None
