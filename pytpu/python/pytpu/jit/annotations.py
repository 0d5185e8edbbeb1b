"""Names of types, from before `typing` was common."""

from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union  # noqa: F401


class _BroadcastingList:
    """A type of lists that also accepts a single value for equal items."""

    def __getitem__(self, types):
        return List[types]


BroadcastingList1 = _BroadcastingList()
BroadcastingList2 = _BroadcastingList()
BroadcastingList3 = _BroadcastingList()
BroadcastingList4 = _BroadcastingList()
BroadcastingList5 = _BroadcastingList()
BroadcastingList6 = _BroadcastingList()
