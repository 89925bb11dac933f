"""Text of others, times, cells and identifiers as they are shown."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

if TYPE_CHECKING:
    from lifecycle.state.workflow import Attempt

#: Printable by its class in Unicode, and yet nothing to see: fillers, joiners, selectors, blanks.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)
_MARK = "\N{REPLACEMENT CHARACTER}"
#: What steers whatever shows it, but for tabs and the ends of lines.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def spelled(text: str) -> str:
    """Return ``text`` on one line, with what cannot be seen spelled as Python does: ``\\u202e``.

    That is control characters (also those above ASCII), what turns the direction of writing, and
    what has no width.
    """
    return _with(text, lambda letter: letter.encode("unicode_escape").decode())


def marked(text: str) -> str:
    """Return ``text`` on one line, with one sign for each character that cannot be seen."""
    return _with(text, lambda _: _MARK)


def uncontrolled(text: str) -> str:
    """Return ``text`` with one sign for each control character that is no tab or end of a line.

    No text that leaves wfctl holds one; what is shown to a person passes `marked` or `spelled` too.
    """
    return _STEERING.sub(_MARK, text.replace("\r\n", "\n"))


def without_controls(document: str) -> str:
    """Return JSON of the same value; it spells those control characters that JSON need not."""
    return _STEERING.sub(lambda found: _json(found[0]), document)


def in_lines(text: str) -> str:
    """Return ``text`` in its own lines, tabs as spaces, each line as `marked` has it."""
    if text.isprintable() and text.isascii():
        return text
    lines = text.replace("\r\n", "\n").replace("\t", "    ").split("\n")
    return "\n".join(map(marked, lines))


def on_one_line(text: str) -> str:
    """Return ``text`` on one line, every run of blanks and ends of lines as one space."""
    return marked(" ".join(text.split()))


def clipped(text: str, most: int) -> str:
    """Return ``text`` on one line, cut to so many characters; 0: to no number of them."""
    line = " ".join(text.split())
    return line if not most or len(line) <= most else f"{line[: most - 1]}…"


def spelled_json(document: str) -> str:
    """Return JSON of the same value in which every character can be seen."""
    # What cannot be seen stands inside of strings alone, but for the ends of lines.
    return "\n".join(_with(line, _json) for line in document.split("\n"))


def _with(text: str, sign: Callable[[str], str]) -> str:
    if text.isprintable() and _UNSEEN.search(text) is None:
        return text
    return "".join(
        letter if letter.isprintable() and not _UNSEEN.match(letter) else sign(letter)
        for letter in text
    )


def _json(letter: str) -> str:
    code = ord(letter)
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


_NUMBER = re.compile(r"[+-]?[\d.]+(?:e[+-]?\d+)?", re.ASCII)
#: How a formula begins, also where the letter is a full-width or a small one.
_FORMULA = "=+-@\N{MINUS SIGN}"


def shown(value: Any) -> str:
    """Return a value for a cell: nothing for null, text as it is, the rest as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def inert(text: str) -> str:
    """Return the text led by an apostrophe where a spreadsheet might take it for a formula.

    One that begins with a line end or a tab is split or trimmed first, whatever comes behind it.
    """
    if not text or _NUMBER.fullmatch(text):
        return text
    start = next((letter for letter in text if unicodedata.category(letter)[0] not in "ZC"), "")
    is_formula = unicodedata.normalize("NFKC", start)[:1] in _FORMULA if start else False
    return f"'{text}" if is_formula or text[0] in "\t\r\n" else text


#: Characters of a time in the log's form.
_LOG_FORM = 27
_UNITS = (
    ("year", 31_556_952),
    ("month", 2_629_746),
    ("week", 604_800),
    ("day", 86_400),
    ("hour", 3600),
    ("minute", 60),
    ("second", 1),
)


def waiting_told(attempt: Attempt | None) -> str:
    """Return why an attempt under way does not continue, and since when; nothing if it does."""
    if attempt is None or attempt.waiting is None or attempt.ended_at is not None:
        return ""
    return f"{attempt.waiting['reason']} (since {utc_seconds(attempt.waiting['since'])})"


def utc_seconds(moment: str | None) -> str | None:
    """Return a UTC time of the log cut to seconds; what has another form stays as it is."""
    if moment is None or len(moment) != _LOG_FORM or not moment.endswith("Z"):
        return moment
    return moment[:19] + "Z"


def local_seconds(moment: str, offset: str) -> str:
    """Return a UTC time of the log at ``offset`` (``+02:00``), in seconds: ``…T02:00:00+02:00``."""
    if offset == "+00:00":
        return moment[:19] + offset
    hours, minutes = int(offset[1:3]), int(offset[4:6])
    shift = timedelta(hours=hours, minutes=minutes)
    zone = timezone(-shift if offset[0] == "-" else shift)
    return datetime.fromisoformat(moment[:19] + "+00:00").astimezone(zone).isoformat()


def ago(moment: str, now: str) -> str:
    """Return how long before ``now`` a UTC time of the log was: ``2 hours ago``, ``just now``."""
    before = int((datetime.fromisoformat(now) - datetime.fromisoformat(moment)).total_seconds())
    for unit, length in _UNITS:
        number = abs(before) // length
        if number:
            words = f"{number} {unit}{'s' if number > 1 else ''}"
            return f"{words} ago" if before > 0 else f"in {words}"
    return "just now"


def age(moment: str, now: str) -> int:
    """Return the whole seconds from one UTC time (``…Z``) to another, at least 0."""
    passed = datetime.fromisoformat(now) - datetime.fromisoformat(moment)
    return max(int(passed.total_seconds()), 0)


#: Seconds by which two clocks that tell of one thing may differ.
_PRECISION = 1.0


def seconds(start: str | None, end: str | None) -> float | None:
    """Return the seconds between two times, None if one is unknown or typed another way.

    An end that lies before the start by no more than two clocks differ is 0. By more a clock was
    set back in between, and nobody knows how long it took.
    """
    try:
        found = datetime.fromisoformat(end or "") - datetime.fromisoformat(start or "")
    except (TypeError, ValueError):
        return None
    return lasting(found.total_seconds())


def lasting(span: float) -> float | None:
    """Return a span of seconds as it is told: never negative, None if it cannot be so."""
    return None if span < -_PRECISION else round(max(span, 0.0), 6)


#: Unit → how many of it a larger one holds, the smallest first.
_BYTES = (("B", 1024), ("kB", 1024), ("MB", 1024), ("GB", 1024), ("TB", 1 << 62))


def told_used(resources: Mapping[str, float]) -> str:
    """Return what jobs used, in words: ``1.9 s of processors, at most 305 MB of memory``."""
    told = []
    if "cpu_seconds" in resources:
        told.append(f"{told_seconds(resources['cpu_seconds'])} of processors")
    if "peak_memory_bytes" in resources:
        told.append(f"at most {told_bytes(resources['peak_memory_bytes'])} of memory")
    if resources.get("written_bytes"):
        told.append(f"{told_bytes(resources['written_bytes'])} written")
    return ", ".join(told)


def told_seconds(span: float) -> str:
    """Return seconds, above two hours in hours."""
    return f"{span:.1f} s" if span < 7200 else f"{span / 3600:.1f} h"


def told_bytes(count: float) -> str:
    """Return bytes in the largest unit of which there is one."""
    for unit, times in _BYTES:
        if count < times:
            return f"{count:.3g} {unit}" if count < 1000 else f"{count:.0f} {unit}"
        count /= times
    return f"{count:.0f}"


def told_span(span: float) -> str:
    """Return seconds in one or two units: ``4 s``, ``3 min 20 s``, ``5 h 12 min``."""
    whole = round(span)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


_LENGTHS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def duration(start: str | None, end: str | None) -> str:
    """Return the time between two in its two largest units, a dash if one is unknown."""
    found = seconds(start, end)
    if found is None:
        return "-"
    if found < 60:
        return f"{max(found, 0):.1f} s"
    rest, parts = int(found), []
    for size, unit in _LENGTHS:
        number, rest = divmod(rest, size)
        parts += [f"{number} {unit}"] if number else []
    return " ".join(parts[:2])


def epoch(moment: str | None) -> float | None:
    """Return a time in seconds since the epoch; None for what is no time, as people may type it."""
    try:
        return datetime.fromisoformat(moment or "").timestamp()
    except (ValueError, OverflowError):
        return None


def passed(moment: str, now: str) -> float | None:
    """Return the seconds from a time to ``now`` (UTC), negative where it is yet to come.

    A time that was typed without an offset is local; None for what is no time.
    """
    try:
        then = datetime.fromisoformat(moment).astimezone()
    except (ValueError, OverflowError):
        return None
    return (datetime.fromisoformat(now) - then).total_seconds()


def workflow_uri(workflow: str) -> str:
    """Return the URN of a workflow."""
    return f"urn:wfctl:workflow:{quoted(workflow)}"


def schema_uri(name: str, version: int) -> str:
    """Return the URN of a JSON Schema: an event type's at a schema version, or another's."""
    return f"urn:wfctl:schema:{quoted(name)}:{version}"


def quoted(value: str) -> str:
    """Return ``value`` with everything percent-encoded that a URI cannot hold as it is."""
    return quote(value, safe="-._~")


class NextAction(NamedTuple):
    """A command and why one would call it.

    ``needs`` names what is to be put in place of the words in capitals, or to be there first;
    ``person``: only a person decides it. ``verb`` and ``target`` are what it does to what.
    """

    command: str
    reason: str
    needs: tuple[str, ...] = ()
    person: bool = False
    verb: str | None = None
    target: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; what does not hold is left out."""
        found: dict[str, Any] = {"command": self.command, "reason": self.reason}
        if self.verb is not None:
            found |= {"verb": self.verb, "target": self.target}
        if self.needs:
            found["needs"] = list(self.needs)
        return {**found, "person": True} if self.person else found

    def __str__(self) -> str:
        notes = [f"give {', '.join(self.needs)}"] if self.needs else []
        notes += ["a person decides"] if self.person else []
        return f"{self.command}  ({'; '.join([self.reason, *notes])})"
