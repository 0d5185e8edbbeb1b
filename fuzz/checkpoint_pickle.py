"""Fuzz the pickle machine of `torch.load(weights_only=True)`, which is written in Python, with atheris.

`python checkpoint_pickle.py CORPUS -max_total_time=300`, with the options of libFuzzer; `make fuzz` runs it. An input is the pickle of a
checkpoint. The first inputs are the pickles of `tests/attack`, and half of the changes are whole opcodes. What counts as a finding is said in
`tests/attack/files.py`.
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


def write_seeds(folder):
    """Writes the pickles of the committed checkpoints, one file each."""
    for number, data in enumerate([*files.seeds("zip"), *hostile_pickles.cases().values()]):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            name = next(name for name in archive.namelist() if name.endswith("data.pkl"))
            pickle = archive.read(name)
        if len(pickle) <= LONGEST:
            (pathlib.Path(folder) / str(number)).write_bytes(pickle)


def mutate(data, longest, seed):
    """Changes opcodes where the pickle can be read, otherwise bytes."""
    r = random.Random(seed)
    if r.random() < 0.5:
        try:
            return files.other_opcodes(data, r)[:longest]
        except ValueError:
            pass
    return atheris.Mutate(data, longest)


def instrument(module):
    """Makes the functions and methods of a module tell atheris which lines they ran."""
    for owner in (module, *(c for c in vars(module).values() if isinstance(c, type) and c.__module__ == module.__name__)):
        for function in list(vars(owner).values()):
            if isinstance(function, types.FunctionType) and function.__module__ == module.__name__:
                atheris.instrument_func(function)


def main():
    warnings.simplefilter("ignore")
    for module in (_weights_only, _file_globals, serialization):
        instrument(module)
    watch = files.Watch()

    def load(data):
        checkpoint = hostile_pickles.checkpoint(data)
        found = watch.findings(lambda: torch.load(io.BytesIO(checkpoint), weights_only=True))
        assert not found, found

    with tempfile.TemporaryDirectory() as seeds:
        write_seeds(seeds)
        atheris.Setup([*sys.argv, seeds, f"-max_len={LONGEST}"], load, custom_mutator=mutate)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
