"""The cause of a failure: of all that was written, the one line that tells what went wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator

#: Characters of a cause: a line, and what still can be read at a glance.
_LONGEST = 500
_TRACED = re.compile(r"Traceback \(most recent call last\):")
#: As Python ends: the name of an exception, with the package it is of, and what it says.
_RAISED = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt|Warning)(: .*)?$")
#: As solvers, shells and schedulers begin the line that counts; a number alone is no sentence.
_ERROR = re.compile(
    r"\W*(?:[\w./-]+: )?(?:FATAL|ERROR|[Ff]atal|[Ee]rror)\b[^:]{0,60}:(?!\s*[-+\d.eE]+\s*$)"
)
_MARKS = re.compile(r"[\s^~]*$")


def cause_of(*texts: str) -> str | None:
    """Return the line that tells what went wrong, of texts of which the first says most.

    The words of an exception come before the ``ERROR:`` of a solver, and these before the last line
    of all; None where nothing was written.
    """
    return stated_in(*texts) or next((lines[-1] for lines in map(_lines, texts) if lines), None)


def stated_in(*texts: str) -> str | None:
    """Return the line in which a program says itself what went wrong; None where no line does."""
    found = (find(lines) for find in (_raised, _said) for lines in map(_lines, texts))
    return next((line[:_LONGEST] for line in found if line), None)


def in_one_line(text: str) -> tuple[str, str | None]:
    """Return the cause of a failure that somebody tells of, and the whole where it is more."""
    return (cause_of(text) or text, text) if "\n" in text.strip() else (text, None)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def _raised(lines: list[str]) -> str | None:
    """Return the last exception and its message; of one without a message the code that raised."""
    traced = [n for n, line in enumerate(lines) if _TRACED.search(line)]
    below = lines[traced[-1] + 1 :] if traced else []
    after = [n for n, line in enumerate(lines) if _RAISED.match(line)]
    first = next((len(lines) - len(below) + n for n, x in enumerate(below) if x[:1] != " "), None)
    at = first if first is not None else (after[-1] if after else None)
    if at is None:
        return None
    return _whole(lines, at) if ":" in lines[at] else ": ".join([lines[at], *_code(lines[:at])])


def _code(above: list[str]) -> Iterator[str]:
    """Yield the line of code above an exception, if it is there."""
    shown = [line for line in above if not _MARKS.match(line)]
    if shown and shown[-1].startswith("    "):
        yield shown[-1].strip()


def _said(lines: list[str]) -> str | None:
    return next((_whole(lines, n) for n, line in enumerate(lines) if _ERROR.match(line)), None)


def _whole(lines: list[str], at: int) -> str:
    """Return a line, with the next one where it only announces it."""
    more = lines[at + 1 : at + 2] if lines[at].endswith(":") else []
    return " ".join(line.strip() for line in [lines[at], *more])
