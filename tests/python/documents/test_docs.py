"""Programs in the documents run, links have targets, and pictures and tables match their sources."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob("examples/*.md"), *ROOT.glob(".github/**/*.md")]
)

# Other tests run the programs of these pages and check their results.
RUN_ELSEWHERE = {"advisor.md", "custom-kernels.md", "plan.md", "two-processes.md"}
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
WITH_PROGRAMS = [
    page.relative_to(DOCS).as_posix()
    for page in sorted(DOCS.rglob("*.md"))
    if page.name not in RUN_ELSEWHERE and PYTHON_BLOCK.search(page.read_text())
]

# Each page runs in a new process with the default settings, as its readers run it.
RUN = """
import re, sys
names = {"__name__": "__main__"}
for block in re.findall(r"^```python\\n(.*?)^```", open(sys.argv[1]).read(), re.M | re.S):
    exec(compile(block, sys.argv[1], "exec"), names)
"""


@pytest.mark.parametrize("page", WITH_PROGRAMS)
def test_the_programs_of_a_page_run(page):
    env = {name: value for name, value in os.environ.items() if name != "TORCHTPU_INTERPRET"}
    out = subprocess.run([sys.executable, "-c", RUN, DOCS / page], capture_output=True, text=True, env=env, timeout=300)
    assert out.returncode == 0, out.stdout + out.stderr


def without_code(text):
    """Return the text without blocks of code and code in backticks."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S))


def anchors(path):
    """Return the anchors that GitHub gives to a document's headings."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(document):
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(document.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        if not target.exists():
            wrong.append(f"{link}: there is no such file")
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            wrong.append(f"{link}: there is no such heading")
    assert not wrong, "\n".join(wrong)


def test_paths_in_the_documents_exist():
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")}
    made = {"target/site", "dist/"}  # by `make`
    wrong = set()
    for document in DOCUMENTS:
        for path in re.findall(r"`([\w.-]+/[\w./-]+)`", document.read_text()):
            if path.split("/")[0] in folders - {"dist", "target"} and path not in made and not (ROOT / path).exists():
                wrong.add(f"{document.relative_to(ROOT)}: {path}")
    assert not wrong, "\n".join(sorted(wrong))


def test_rust_names_in_the_documents_exist():
    crates = ("src", "tensor", "autograd", "lazy", "nn", "pytpu")
    sources = "\n".join(file.read_text() for crate in crates for file in (ROOT / crate).rglob("*.rs"))
    words = set(re.findall(r"\w+", sources))
    wrong = set()
    for document in (DOCS / "architecture.md", DOCS / "glossary.md", *(DOCS / "decisions").glob("*.md")):
        for name in re.findall(r"`((?:\w+::)+\w+)`", document.read_text()):
            wrong |= {f"{document.relative_to(ROOT)}: {name}" for part in name.split("::") if part not in words}
    assert not wrong, "\n".join(sorted(wrong))


@pytest.mark.parametrize("picture", ["crates", "call"])
def test_a_picture_has_the_labels_and_arrows_of_its_source(picture):
    source = (DOCS / "pictures" / f"{picture}.dot").read_text()
    drawn = (DOCS / "pictures" / f"{picture}.svg").read_text()
    texts = " ".join(re.findall(r"<text[^>]*>(.*?)</text>", drawn)).replace("&#39;", "'").replace("&#45;", "-")
    for label in re.findall(r'label = "([^"]*)"', source):
        for line in label.split("\\n"):
            assert line in texts, f"make pictures: {picture}.svg has no {line!r}"
    titles = {title.replace("&#45;", "-").replace("&gt;", ">") for title in re.findall(r"<title>(.*?)</title>", drawn)}
    for chain in re.findall(r"^ *(\w+(?: -> \w+)+)", source, re.M):
        names = chain.split(" -> ")
        for edge in zip(names, names[1:], strict=False):
            assert "->".join(edge) in titles, f"make pictures: {picture}.svg has no arrow {edge}"


def test_the_chart_is_drawn_from_the_tables():
    spec = importlib.util.spec_from_file_location("charts", DOCS / "charts.py")
    charts = importlib.util.module_from_spec(spec)
    sys.modules["charts"] = charts
    spec.loader.exec_module(charts)
    assert charts.PICTURE.read_text() == charts.draw(), "run `make pictures`"


def test_decisions_have_their_form_and_are_listed():
    index = (DOCS / "decisions" / "index.md").read_text()
    unnumbered = sorted(p.name for p in (DOCS / "decisions").glob("*.md") if not p.name[:4].isdigit())
    assert unnumbered == ["index.md"], "a decision takes the next number"
    numbers = set()
    for page in sorted((DOCS / "decisions").glob("[0-9]*.md")):
        number = page.name[:4]
        assert number not in numbers, f"two decisions have the number {number}"
        numbers.add(number)
        text = page.read_text()
        title = text.splitlines()[0]
        assert title.startswith(f"# {number}. "), page.name
        assert re.findall(r"^## (.*)$", text, re.M) == ["Context", "Decision", "Evidence"], page.name
        assert f"* {number} [{title.removeprefix(f'# {number}. ')}]({page.name})" in index, page.name


def test_environment_variables_are_documented():
    text = (DOCS / "environment.md").read_text()
    found = set()
    for folder in ("lazy/src", "lazy/pjrt/src", "tensor/src", "tensor/kernels/src", "pytpu/src"):
        for file in (ROOT / folder).rglob("*.rs"):
            found |= set(re.findall(r'"(TORCH(?:TPU|_TPU)_[A-Z_]+)"', file.read_text()))
    missing = sorted(name for name in found if f"`{name}" not in text)
    assert found and not missing


def test_the_glossary_is_short():
    rows = re.findall(r"^\| \*(.+?)\* \|", (DOCS / "glossary.md").read_text(), re.M)
    assert len(rows) <= 30 and rows == sorted(rows)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_patches_apply(document, tmp_path):
    for number, patch in enumerate(re.findall(r"^```diff\n(.*?)^```", document.read_text(), re.M | re.S)):
        file = tmp_path / f"{number}.patch"
        file.write_text(patch)
        out = subprocess.run(["git", "apply", "--check", file], cwd=ROOT, capture_output=True, text=True)
        assert out.returncode == 0, out.stderr
