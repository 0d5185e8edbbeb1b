"""Compare the names that libraries ask for at import (`wanted.txt`) with those of this package.

Prints the names that are missing and not in `absent.txt`, and names in `absent.txt` that are there by now. The exit
status is 1 if there are any. `--write` writes `absent.txt` anew.
"""

import pathlib
import sys
import warnings

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))


def main():
    """Compare, and return the exit status."""
    import pytpu

    pytpu.install()
    from scan import is_there

    lines = (line.partition(": ") for line in (HERE / "wanted.txt").read_text().splitlines())
    wanted = {name: libraries for name, _, libraries in lines}
    missing = {name for name in wanted if not is_there(name)}
    if "--write" in sys.argv:
        (HERE / "absent.txt").write_text("".join(f"{name}: {wanted[name]}\n" for name in sorted(missing)))
    known = {line.partition(":")[0] for line in (HERE / "absent.txt").read_text().splitlines()}
    for name in sorted(missing - known):
        print(f"{name} is missing: imported by {wanted[name]}")
    for name in sorted(known - missing):
        print(f"{name} is there: remove it from tests/library_names/absent.txt")
    print(f"{len(wanted) - len(missing)} of {len(wanted)} names are there")
    return int(missing != known)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
