"""Find the cause of a failure in the output of a job."""

from __future__ import annotations

import re
from collections.abc import Iterator

#: Maximum number of characters of a failure's cause, which is shown in one line.
_LONGEST = 500
_TRACED = re.compile(r"Traceback \(most recent call last\):")
#: Pattern of the last line of a Python traceback: the exception, and its message.
_RAISED = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt|Warning)(: .*)?$")
#: Pattern of a line in which a program or scheduler reports an error. A line such as ``error:
#: 1e-5`` reports a number and is excluded.
_ERROR = re.compile(
    r"\W*(?:[\w./-]+: )?(?:FATAL|ERROR|[Ff]atal|[Ee]rror)\b[^:]{0,60}:(?!\s*[-+\d.eE]+\s*$)"
)
_MARKS = re.compile(r"[\s^~]*$")


def find_cause(*texts: str) -> str | None:
    """Return the line that explains a failure, from texts in order of importance.

    The message of an exception is preferred to an ``ERROR:`` line, and this line to the last line
    of a text. Return None if all texts are empty.
    """
    return find_stated_cause(*texts) or next(
        (lines[-1] for lines in map(_nonempty_lines, texts) if lines), None
    )


def find_stated_cause(*texts: str) -> str | None:
    """Return the line in which a program reports its error, or None without such a line."""
    found = (
        find(lines)
        for find in (_find_exception, _find_error_line)
        for lines in map(_nonempty_lines, texts)
    )
    return next((line[:_LONGEST] for line in found if line), None)


def get_cause_and_full_text(text: str) -> tuple[str, str | None]:
    """Return the cause that an error text states, and the full text.

    The full text is None if it has only one line.
    """
    return (find_cause(text) or text, text) if "\n" in text.strip() else (text, None)


def _nonempty_lines(text: str) -> list[str]:
    """Return the lines that are not blank."""
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def _find_exception(lines: list[str]) -> str | None:
    """Return the last exception in the output of a program, with its message.

    Without a message, add the line of code that raised it. Return None if there is no exception.
    """
    traced = [n for n, line in enumerate(lines) if _TRACED.search(line)]
    below = lines[traced[-1] + 1 :] if traced else []
    after = [n for n, line in enumerate(lines) if _RAISED.match(line)]
    first = next((len(lines) - len(below) + n for n, x in enumerate(below) if x[:1] != " "), None)
    at = first if first is not None else (after[-1] if after else None)
    if at is None:
        return None
    return (
        _join_with_next_line(lines, at)
        if ":" in lines[at]
        else ": ".join([lines[at], *_find_raising_code(lines[:at])])
    )


def _find_raising_code(above: list[str]) -> Iterator[str]:
    """Yield the last line of code in a Python traceback, if the traceback shows code."""
    shown = [line for line in above if not _MARKS.match(line)]
    if shown and shown[-1].startswith("    "):
        yield shown[-1].strip()


def _find_error_line(lines: list[str]) -> str | None:
    """Return the first line that reports an error, or None without such a line."""
    return next(
        (_join_with_next_line(lines, n) for n, line in enumerate(lines) if _ERROR.match(line)), None
    )


def _join_with_next_line(lines: list[str], at: int) -> str:
    """Return the line number ``at``. If it ends with a colon, append the next line."""
    more = lines[at + 1 : at + 2] if lines[at].endswith(":") else []
    return " ".join(line.strip() for line in [lines[at], *more])
