"""The site: `make docs` builds it into `target/site`."""

import importlib
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docs"))

api_pages = importlib.import_module("api_pages")

project = "torchtpu"
author = "the torchtpu authors"
copyright = author  # the name that Sphinx asks for
release = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.M)[1]
repository = "https://github.com/torchtpu/torchtpu"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"torchtpu {release}"
html_show_sourcelink = False
# The prompt of an example is not copied.
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

# Headings get the anchors that GitHub gives them, so that links work in both places.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

# Docstrings write code in single backticks.
default_role = "code"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False

# Files of the repository that are no pages of the site.
OUTSIDE = re.compile(r"\]\((?:\.\./)+([A-Za-z][^)#]*)(#[^)]*)?\)")


def link_to_repository(app, name, source):
    """Send links that leave `docs` to the repository."""
    page = pathlib.PurePosixPath(name)

    def target(match):
        up = match[0].count("../")
        if up <= len(page.parents) - 1:
            return match[0]
        return f"]({repository}/blob/main/{match[1]}{match[2] or ''})"

    source[0] = OUTSIDE.sub(target, source[0])


def leave_out_of_search(app, name, source):
    """Leave decision records out of the search: they use the words of users for the inside of the library."""
    if name.startswith("decisions/"):
        source[0] = f"---\nnosearch: true\n---\n{source[0]}"


# Docstrings are plain text with code in backticks. Outside of code, these characters have no other meaning:
# `|x|`, `add_` and `**kwargs`.
CODE = re.compile(r"(`+[^`]*`+)")
MARKUP = re.compile(r"(?<!\\)(\|(?=\S)|(?<=\w)_(?!\w)|(?<![*\w])\*{1,2}(?=[a-z_]+\b(?!\*)))")


def escape_markup(app, what, name, value, options, lines):
    """Escape characters of a docstring that reStructuredText would take for markup."""
    for i, line in enumerate(lines):
        if line.lstrip().startswith((">>>", "...", "|", "+", "..")):
            continue
        parts = CODE.split(line)
        parts[::2] = [MARKUP.sub(lambda m: "".join("\\" + c for c in m[1]), part) for part in parts[::2]]
        lines[i] = "".join(parts)


SECTION = re.compile(r"(Shape|Returns|Yields|Note|Source|Overloads):$")


def lay_out_sections(app, what, name, value, options, lines):
    """Join the continuation lines of sections, make `Shape` a list, and `Overloads` a list of code.

    In these sections a line that is indented further continues the line above it.
    """
    found, section = [], None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if line and not indent:
            match = SECTION.match(line)
            section = match and match[1]
            found += [f"**{section}**", ""] if section in ("Shape", "Overloads") else [line]
        elif section and indent > 4 and found[-1].strip():
            found[-1] += " " + line.strip()
        elif section == "Shape" and line:
            found.append(f"* {line.strip()}")
        elif section == "Overloads" and line:
            found.append(f"* ``{line.strip()}``")
        else:
            found.append(line)
    lines[:] = found


def setup(app):
    app.connect("builder-inited", lambda app: api_pages.write(pathlib.Path(app.srcdir) / "api"))
    app.connect("source-read", link_to_repository)
    app.connect("source-read", leave_out_of_search)
    # Before napoleon, which takes a continuation line for a quotation.
    app.connect("autodoc-process-docstring", lay_out_sections, priority=400)
    # After napoleon, which escapes the names of parameters.
    app.connect("autodoc-process-docstring", escape_markup, priority=600)
