"""Write `wanted.txt`: the names of PyTorch that installed libraries ask for when they are imported.

    python tests/library_names/scan.py SITE_PACKAGES

Run it with real PyTorch: names that PyTorch lacks are left out. The syntax trees of all packages in the folder are
read, except for tests. A name counts if a module or a class body uses it outside of `try` and `if`. `.ecosystem` of
`make ecosystem` has the folder.
"""

import ast
import collections
import importlib
import importlib.metadata
import pathlib
import sys
import warnings

HERE = pathlib.Path(__file__).parent
SKIPPED = ("test", "tests", "testing")


class Reader:
    """The names of torch that one module uses when it is imported."""

    def __init__(self, tree):
        self.names, self.alias = set(), {}
        self.is_lazy = any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)
        self.statements(tree.body, guarded=False)

    def statements(self, nodes, guarded):
        """Read statements of a module or a class. Those within `try` and `if` only give names to modules."""
        for node in nodes:
            if isinstance(node, ast.Import):
                self.imports((a.name, a.asname) for a in node.names if a.name.partition(".")[0] == "torch")
                if not guarded:
                    self.names.update(a.name for a in node.names if a.name.startswith("torch."))
            elif isinstance(node, ast.ImportFrom):
                if node.level == 0 and (node.module or "").partition(".")[0] == "torch":
                    found = [(f"{node.module}.{a.name}", a.asname or a.name) for a in node.names if a.name != "*"]
                    self.imports(found)
                    if not guarded:
                        self.names.update(full for full, _ in found)
            elif isinstance(node, (ast.Try, ast.If)):
                for block in (node.body, *(h.body for h in getattr(node, "handlers", ())), node.orelse):
                    self.statements(block, guarded=True)
            elif isinstance(node, ast.With):
                self.statements(node.body, guarded)
            elif isinstance(node, ast.ClassDef):
                self.expressions([*node.bases, *node.decorator_list], guarded)
                self.statements(node.body, guarded)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                arguments = node.args
                self.expressions(
                    [*node.decorator_list, *arguments.defaults, *filter(None, arguments.kw_defaults)], guarded
                )
                if not self.is_lazy:
                    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
                    self.expressions(
                        [*(a.annotation for a in every if a.annotation), *filter(None, [node.returns])], guarded
                    )
            else:
                self.expressions([node], guarded)

    def imports(self, pairs):
        """Keep the local names of modules and names."""
        for full, name in pairs:
            self.alias[name or "torch"] = full if name else "torch"

    def expressions(self, nodes, guarded):
        """Collect the dotted names of expressions."""
        nodes = [] if guarded else list(nodes)
        while nodes:
            node = nodes.pop()
            if isinstance(node, ast.AnnAssign) and self.is_lazy:
                nodes += [node.value] if node.value else []
            elif isinstance(node, ast.Attribute) and (full := self.dotted(node)):
                self.names.add(full)
            elif not isinstance(node, ast.Lambda):
                nodes += ast.iter_child_nodes(node)

    def dotted(self, node):
        """Return the full name of an attribute of torch, or `None`."""
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name) and node.id in self.alias:
            return ".".join([self.alias[node.id], *reversed(parts)])
        return None


def files_of(distribution):
    """Return the Python files of a distribution, without tests."""
    for file in distribution.files or ():
        if file.suffix == ".py" and not any(part in SKIPPED for part in file.parts[:-1]):
            yield pathlib.Path(distribution.locate_file(file))


def is_there(name):
    """Return whether a name of torch can be read or imported."""
    parts = name.split(".")
    found = importlib.import_module("torch")
    for i, part in enumerate(parts[1:], 2):
        try:
            found = getattr(found, part)
        except AttributeError:
            try:
                found = importlib.import_module(".".join(parts[:i]))
            except (ImportError, RuntimeError):
                return False
    return True


def main():
    """Scan the folder of the command line."""
    wanted = collections.defaultdict(set)
    for distribution in importlib.metadata.distributions(path=[sys.argv[1]]):
        library = distribution.metadata["Name"].lower().replace("_", "-")
        if library in ("torch", "pytpu"):
            continue
        for file in files_of(distribution):
            text = file.read_text(errors="ignore") if file.is_file() else ""
            if "torch" not in text:
                continue
            try:
                tree = ast.parse(text)
            except SyntaxError:
                continue
            for name in Reader(tree).names:
                wanted[name].add(library)
    lines = [f"{name}: {' '.join(sorted(wanted[name]))}\n" for name in sorted(wanted) if is_there(name)]
    (HERE / "wanted.txt").write_text("".join(lines))
    print(f"{len(lines)} names of {len(set().union(*wanted.values()))} libraries")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
