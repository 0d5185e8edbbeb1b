"""`torch.utils.weak`: mappings that do not keep their keys alive and compare them by identity."""

import weakref
from collections.abc import MutableMapping

from .. import _C

WeakRef = weakref.ref


class WeakIdRef(weakref.ref):
    """A weak reference that is equal to another one of the same object."""

    __slots__ = ["_id"]

    def __init__(self, key, callback=None):
        self._id = id(key)
        super().__init__(key, callback)

    def __call__(self):
        found = super().__call__()
        if isinstance(found, _C.Tensor) and hasattr(found, "_fix_weakref"):
            found._fix_weakref()
        return found

    def __hash__(self):
        return self._id

    def __eq__(self, other):
        a, b = self(), other()
        return a is b if a is not None and b is not None else self is other


TensorWeakRef = WeakIdRef


class WeakIdKeyDictionary(MutableMapping):
    """A dictionary that drops an entry when its key is freed. Keys are compared by identity."""

    def __init__(self, dict=None, ref_type=WeakIdRef):
        self.data, self.ref_type = {}, ref_type
        me = weakref.ref(self)

        def remove(reference):
            there = me()
            if there is not None:
                there.data.pop(reference, None)

        self._remove = remove
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key):
        return self.data[self.ref_type(key)]

    def __setitem__(self, key, value):
        self.data[self.ref_type(key, self._remove)] = value

    def __delitem__(self, key):
        del self.data[self.ref_type(key)]

    def __contains__(self, key):
        try:
            return self.ref_type(key) in self.data
        except TypeError:
            return False

    def __iter__(self):
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def __len__(self):
        return len(self.data)

    def __repr__(self):
        return f"<{type(self).__name__} at {id(self):#x}>"

    def copy(self):
        """Return a dictionary of the same entries."""
        new = type(self)()
        new.update(self)
        return new

    __copy__ = copy


WeakTensorKeyDictionary = WeakIdKeyDictionary
