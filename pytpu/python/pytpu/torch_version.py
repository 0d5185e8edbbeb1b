"""`torch.torch_version`: the version as a string that compares as versions do."""

_VERSION = r"(?i)v?(\d+(?:\.\d+)*)[._-]?(?:(a|b|rc|alpha|beta|c|pre|preview|dev|post)[._-]?(\d*))?[^+]*(\+.*)?$"
_STAGES = {
    "dev": -4,
    "a": -3,
    "alpha": -3,
    "b": -2,
    "beta": -2,
    "c": -1,
    "rc": -1,
    "pre": -1,
    "preview": -1,
    None: 0,
    "post": 1,
}


def _key(version):
    """Return the key that orders versions, or `None` for a text that is not a version."""
    import re  # It is slow to import, and scripts seldom compare versions.

    if isinstance(version, (tuple, list)):
        version = ".".join(map(str, version))
    found = re.match(_VERSION, str(version).strip())
    if found is None:
        return None
    release = [int(n) for n in found[1].split(".")]
    while release and release[-1] == 0:
        release.pop()
    stage = found[2] and found[2].lower()
    return release, _STAGES[stage], int(found[3] or 0), found[4] or ""


class TorchVersion(str):
    """A version that can be compared with strings, tuples and other versions.

    Texts that are not versions are compared as strings.
    """

    __slots__ = ()

    def _compare(self, other, how):
        mine, theirs = _key(self), _key(other)
        if theirs is None:
            return getattr(str, how)(self, other)
        return getattr((mine > theirs) - (mine < theirs), how)(0)

    def __lt__(self, other):
        return self._compare(other, "__lt__")

    def __le__(self, other):
        return self._compare(other, "__le__")

    def __gt__(self, other):
        return self._compare(other, "__gt__")

    def __ge__(self, other):
        return self._compare(other, "__ge__")

    def __eq__(self, other):
        return self._compare(other, "__eq__")

    def __ne__(self, other):
        return self._compare(other, "__ne__")

    __hash__ = str.__hash__
