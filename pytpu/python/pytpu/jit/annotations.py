"""Names of types, from when ``typing`` was not everywhere."""

from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union  # noqa: F401
