"""Print figures about the size of the code: ``python -m tests.house``.

``--phrases`` instead lists each unclear phrase that has a clearer alternative, and fails if there
is one. The figures of lines and files cover the program without its tests. The figures of repeated
names cover names at the top level of a module.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from tests.test_house import HERE, PACKAGES, functions, names, sources

#: Regular expressions for unidiomatic phrases, with their clearer alternatives.
PHRASES = {
    r"\b(?:is|are|was|were) none\b": "is not one; does not exist; is unknown",
    r"\bcount(?:s|ed)? for nothing\b": "is ignored",
    r"\b[Ww]hoever\b": "anyone who; no matter who",
    r"\b(?:None|nothing|empty|zero|null|0) where\b": "if",
    r"\bwhere (?:nobody|nothing|no one)\b": "if nobody; if nothing",
}
_TOLD = ("README.md", "CONTRIBUTING.md", "docs/*.md", "docs/*/*.md")
_EXAMPLES = 6


def pages() -> Iterator[Path]:
    """Yield the documentation pages."""
    for pattern in _TOLD:
        yield from sorted(HERE.glob(pattern))


def refused() -> Iterator[str]:
    """Yield a line for each phrase of `PHRASES` in the code, the docs and the tests."""
    own = Path(__file__)
    tests = (path for path in sorted((HERE / "tests").rglob("*.py")) if path != own)
    for path in (*sources(), *pages(), *tests):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            for phrase, better in PHRASES.items():
                for found in re.findall(phrase, line):
                    yield f"{path.relative_to(HERE)}:{number}: {found!r}; better: {better}"


#: Program that runs a wfctl command, and prints the number of source files whose functions it
#: called.
_PASSED = """
import sys, threading
top, ran = sys.argv[1], set()
def hear(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_name != "<module>" and code.co_filename.startswith(top):
        ran.add(code.co_filename)
from cli.main import run
threading.setprofile(hear)
sys.setprofile(hear)
code = run(sys.argv[2:], is_only=True)
sys.setprofile(None)
print(len([one for one in ran if "/.venv/" not in one and "/tests/" not in one]), file=sys.stderr)
sys.exit(code)
"""
_PLAN = """
workflow_id = "house"
[[stages]]
id = "stage-1"
name = "one"
parameters = { command = "true" }
"""


def passed(*lines: str) -> Iterator[int]:
    """Run each wfctl command in a new workflow; yield the number of source files it uses."""
    with TemporaryDirectory() as folder:
        root, environ = Path(folder) / "root", {**os.environ, "XDG_STATE_HOME": folder}
        root.mkdir()
        (root / "plan.toml").write_text(_PLAN)
        for line in ("init plan.toml --consent trust", *lines):
            told = subprocess.run(
                [sys.executable, "-c", _PASSED, f"{HERE}/", "--root", root, *line.split()],
                cwd=root,
                env={**environ, "PYTHONPATH": str(HERE)},
                capture_output=True,
                text=True,
                check=True,
                timeout=120,
            )
            if line in lines:
                yield int(told.stderr.split()[-1])


def rows() -> Iterator[tuple[str, str]]:
    """Yield the rows of the table: a description and its figure."""
    texts = {path: path.read_text("utf-8") for path in sources()}
    lines = sum(len(text.splitlines()) for text in texts.values())
    yield "product lines, files", f"{lines:,}; {len(texts)}"
    for package in PACKAGES:
        own = [text for path, text in texts.items() if path.relative_to(HERE).parts[0] == package]
        yield f"  {package}", f"{sum(len(text.splitlines()) for text in own):,}; {len(own)}"
    sizes = [size for path in texts for _, size in functions(path)]
    yield "lines of a function: usual, longest", f"{median(sizes):g}; {max(sizes)}"
    for kind, what in ((ast.ClassDef, "classes"), (ast.FunctionDef, "functions")):
        found = names(kind)
        most = sorted(found, key=lambda name: (-len(found[name]), name))[:_EXAMPLES]
        listed = ", ".join(f"{name} {len(found[name])}" for name in most)
        yield f"public {what} in several files", f"{len(found)}" + (f" ({listed})" if most else "")
    note, dispatch = passed("note hello", "dispatch stage-1 --sync")
    yield "files a note and a dispatch pass", f"{note}; {dispatch}"
    yield "words of docs", f"{sum(len(page.read_text('utf-8').split()) for page in pages()):,}"
    yield "records of decisions", f"{len(list((HERE / 'docs/adr').glob('0*.md')))}"
    yield "phrases with better words", f"{len(list(refused()))}"


if __name__ == "__main__":
    if sys.argv[1:] == ["--phrases"]:
        places = list(refused())
        print("\n".join(places) or "no phrase that reads as a translation")
        sys.exit(bool(places))
    for what, figure in rows():
        print(f"{what:<38} {figure}")
