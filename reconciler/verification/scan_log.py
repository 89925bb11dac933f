"""Search the output of a job for patterns of failure."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from reconciler.verification.file_types import InvalidFile, read_lines
from reconciler.verification.output_checks import _MAX_LINE_WIDTH, _MAX_QUOTED_LINES

_ERROR = re.compile(
    r"\b(errors?|fatal|traceback|exception|segmentation fault|aborted|out of memory)\b"
    r"|\boom[- ]kill"
    r"|\w(Error|Exception)\b",
    re.IGNORECASE,
)
_WARNING = re.compile(r"\bwarn(ing)?s?\b", re.IGNORECASE)
#: Matches phrases that contain the word "error" but are harmless, such as "0 errors" and "standard
#: error".
_HARMLESS_ERROR = re.compile(
    r"\b(no|0|zero|without) (errors?|warnings?)\b|\b(errors?|warnings?)\s*[:=]\s*(0|none)\b"
    r"|\b(standard|std|relative|rms|mean|max|absolute|squared?|statistical) errors?\b"
    r"|\berror (bars?|estimates?|tolerance)\b",
    re.IGNORECASE,
)


def scan_log(path: Path) -> tuple[str, list[str]]:
    """Search a log for lines with errors and warnings.

    Returns a text with the number of such lines, and the first few of them.
    """
    found: Counter[str] = Counter()
    first: list[str] = []
    with path.open("rb") as stream:
        try:
            for line in read_lines(stream):
                rest = _HARMLESS_ERROR.sub("", line.text)
                is_error = _ERROR.search(rest)
                if not is_error and not _WARNING.search(rest):
                    continue
                found["error" if is_error else "warning"] += 1
                if len(first) < _MAX_QUOTED_LINES:
                    shown = line.text.strip()[:_MAX_LINE_WIDTH].encode("utf-8", "replace").decode()
                    clean = "".join(c if c.isprintable() else " " for c in shown)
                    first.append(f"line {line.number}: {clean}")
        except InvalidFile as cut:
            first.append(str(cut))
    counts = ((word, found[word]) for word in ("error", "warning"))
    told = (f"{n or 'no'} {word} {'line' if n == 1 else 'lines'}" for word, n in counts)
    return ", ".join(told), first
