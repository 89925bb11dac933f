"""``python -m tests.house``: the size of the house, and what stands in it twice, in figures.

``--phrases`` names each place whose words another phrase says better, and fails if there is one.

Lines and files are those of the program; a name counts where a module defines it at its top.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from tests.test_house import HERE, ROOMS, functions, names, sources

#: What reads as a translation → what a reader of any first language understands at once.
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
    """Yield the pages that people read."""
    for pattern in _TOLD:
        yield from sorted(HERE.glob(pattern))


def refused() -> Iterator[str]:
    """Yield each place in code, docs and tests that says what `PHRASES` has better words for."""
    own = Path(__file__)
    tests = (path for path in sorted((HERE / "tests").rglob("*.py")) if path != own)
    for path in (*sources(), *pages(), *tests):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            for phrase, better in PHRASES.items():
                for found in re.findall(phrase, line):
                    yield f"{path.relative_to(HERE)}:{number}: {found!r}; better: {better}"


def rows() -> Iterator[tuple[str, str]]:
    """Yield each figure with what it is of."""
    texts = {path: path.read_text("utf-8") for path in sources()}
    lines = sum(len(text.splitlines()) for text in texts.values())
    yield "product lines, files", f"{lines:,}; {len(texts)}"
    for room in ROOMS:
        own = [text for path, text in texts.items() if path.relative_to(HERE).parts[0] == room]
        yield f"  {room}", f"{sum(len(text.splitlines()) for text in own):,}; {len(own)}"
    sizes = [size for path in texts for _, size in functions(path)]
    yield "lines of a function: usual, longest", f"{median(sizes):g}; {max(sizes)}"
    for kind, what in ((ast.ClassDef, "classes"), (ast.FunctionDef, "functions")):
        found = names(kind)
        most = sorted(found, key=lambda name: (-len(found[name]), name))[:_EXAMPLES]
        listed = ", ".join(f"{name} {len(found[name])}" for name in most)
        yield f"public {what} in several files", f"{len(found)}" + (f" ({listed})" if most else "")
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
