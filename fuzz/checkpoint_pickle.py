"""Fuzz the pickle machine of `torch.load(weights_only=True)`, which is written in Python, with atheris.

`python checkpoint_pickle.py CORPUS -max_total_time=300`, with the options of libFuzzer; `make fuzz` runs it. An input
is the number of the checkpoint whose storages it uses, one byte, and a pickle. The first inputs are the pickles of
`tests/attack`, and half of the changes are whole opcodes. What counts as a finding is said in `tests/attack/files.py`.
"""

import io
import pathlib
import random
import sys
import tempfile
import types
import warnings
import zipfile

import atheris

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests" / "attack"))

import files
import hostile_pickles

import pytpu as torch
from pytpu import _file_globals, _weights_only, serialization

LONGEST = 1 << 16


# Files that hold the storages: those of the hostile pickles, then those of the committed checkpoints.
CHECKPOINTS = [files.contents(data) for data in (hostile_pickles.checkpoint(b""), *files.seeds("zip"))]


def pickle_of(entries):
    """The pickle among the files of a checkpoint."""
    return next(content for name, content in entries if name.endswith("data.pkl"))


def checkpoint(data):
    """The file that an input stands for."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in CHECKPOINTS[data[0] % len(CHECKPOINTS)]:
            archive.writestr(name, data[1:] if name.endswith("data.pkl") else content)
    return out.getvalue()


def write_seeds(folder):
    """Writes the first inputs, one file each. The committed checkpoints load, or what is behind their first storage
    would not be reached.
    """
    committed = [bytes([at]) + pickle_of(entries) for at, entries in enumerate(CHECKPOINTS) if at > 0]
    for data in committed:
        torch.load(io.BytesIO(checkpoint(data)))
    hostile = [b"\0" + pickle_of(files.contents(data)) for data in hostile_pickles.cases().values()]
    for number, data in enumerate(committed + hostile):
        if len(data) <= LONGEST:
            (pathlib.Path(folder) / str(number)).write_bytes(data)


def mutate(data, longest, seed):
    """Changes opcodes where the pickle can be read, otherwise bytes."""
    r = random.Random(seed)
    if r.random() < 0.5:
        try:
            return (data[:1] + files.other_opcodes(data[1:], r))[:longest]
        except ValueError:
            pass
    return atheris.Mutate(data, longest)


def instrument(module):
    """Makes the functions and methods of a module tell atheris which lines they ran."""
    for owner in (
        module,
        *(c for c in vars(module).values() if isinstance(c, type) and c.__module__ == module.__name__),
    ):
        for function in list(vars(owner).values()):
            if isinstance(function, types.FunctionType) and function.__module__ == module.__name__:
                atheris.instrument_func(function)


def main():
    warnings.simplefilter("ignore")
    for module in (_weights_only, _file_globals, serialization):
        instrument(module)
    watch = files.Watch()

    def load(data):
        if not data:
            return
        file = io.BytesIO(checkpoint(data))
        found = watch.findings(lambda: torch.load(file, weights_only=True))
        assert not found, found

    with tempfile.TemporaryDirectory() as seeds:
        write_seeds(seeds)
        atheris.Setup([*sys.argv, seeds, f"-max_len={LONGEST}"], load, custom_mutator=mutate)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
