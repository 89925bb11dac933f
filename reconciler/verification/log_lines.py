"""The lines of a computation's log that speak of errors and warnings."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from reconciler.verification.outputs.lines import lines
from reconciler.verification.outputs.reading import Cut

_ERROR = re.compile(
    r"\b(errors?|fatal|traceback|exception|segmentation fault|aborted|out of memory)\b"
    r"|\boom[- ]kill"
    r"|\w(Error|Exception)\b",
    re.IGNORECASE,
)
_WARNING = re.compile(r"\bwarn(ing)?s?\b", re.IGNORECASE)
#: What looks like an error and is none: a count of zero, and the words of statistics.
_HARMLESS = re.compile(
    r"\b(no|0|zero|without) (errors?|warnings?)\b|\b(errors?|warnings?)\s*[:=]\s*(0|none)\b"
    r"|\b(standard|std|relative|rms|mean|max|absolute|squared?|statistical) errors?\b"
    r"|\berror (bars?|estimates?|tolerance)\b",
    re.IGNORECASE,
)
#: Lines that are quoted, and characters of each.
_SHOWN, _WIDTH = 5, 160


@dataclass(frozen=True, slots=True)
class LogLines:
    """How many lines of a log speak of errors and warnings, and the first of them."""

    errors: int
    warnings: int
    first: list[str]

    @property
    def words(self) -> str:
        """The counts in words."""
        return f"{_counted(self.errors, 'error')}, {_counted(self.warnings, 'warning')}"


def scan(path: Path) -> LogLines:
    """Look through a log, a line at a time."""
    found: Counter[str] = Counter()
    first: list[str] = []
    with path.open("rb") as stream:
        try:
            for line in lines(stream):
                kind = _kind(line.text)
                if kind is None:
                    continue
                found[kind] += 1
                if len(first) < _SHOWN:
                    first.append(f"line {line.number}: {_clean(line.text)}")
        except Cut as cut:
            first.append(str(cut))
    return LogLines(found["error"], found["warning"], first)


def _kind(text: str) -> str | None:
    rest = _HARMLESS.sub("", text)
    if _ERROR.search(rest):
        return "error"
    return "warning" if _WARNING.search(rest) else None


def _clean(text: str) -> str:
    shown = text.strip()[:_WIDTH].encode("utf-8", "replace").decode()
    return "".join(c if c.isprintable() else " " for c in shown)


def _counted(count: int, word: str) -> str:
    return f"{count or 'no'} {word} {'line' if count == 1 else 'lines'}"
