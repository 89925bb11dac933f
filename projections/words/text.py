"""Format times, numbers, table cells, and text from other programs for display."""

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

#: Unicode characters that Python regards as printable but that are invisible: fillers, joiners,
#: selectors and blanks.
_UNSEEN = (
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)
_MARK = "\N{REPLACEMENT CHARACTER}"
#: Control characters, except tab and newline.
_STEERING = "[\x00-\x08\x0b-\x1f\x7f-\x9f]"


def spell_unseen(text: str) -> str:
    """Return ``text`` on one line, with invisible characters escaped like Python: ``\\u202e``.

    These are control characters (also those above ASCII), characters that change the writing
    direction, and characters without width.
    """
    return _replace_unseen(text, lambda letter: letter.encode("unicode_escape").decode())


def mark_invisible_characters(text: str) -> str:
    """Return ``text`` with a visible mark for each invisible character and line break."""
    return _replace_unseen(text, lambda _: _MARK)


def mark_control_characters(text: str) -> str:
    """Return ``text`` with a visible mark in place of each control character.

    Tabs and newlines stay. All output of wfctl passes through this function. Text for a person also
    passes through `mark_invisible_characters` or `spell_unseen`.
    """
    return re.sub(_STEERING, _MARK, text.replace("\r\n", "\n"))


def escape_json_controls(document: str) -> str:
    """Return an equivalent JSON document in which all control characters are escaped."""
    return re.sub(_STEERING, lambda found: _escape_letter(found[0]), document)


def mark_invisible_in_each_line(text: str) -> str:
    """Return ``text`` with marks for invisible characters, and with tabs as spaces.

    Line breaks are kept.
    """
    if text.isprintable() and text.isascii():
        return text
    lines = text.replace("\r\n", "\n").replace("\t", "    ").split("\n")
    return "\n".join(map(mark_invisible_characters, lines))


def collapse_whitespace(text: str) -> str:
    """Return ``text`` on one line. Each run of whitespace becomes one space."""
    return mark_invisible_characters(" ".join(text.split()))


def clip_text(text: str, most: int) -> str:
    """Return ``text`` on one line, shortened to ``most`` characters. 0 means no limit."""
    line = " ".join(text.split())
    return line if not most or len(line) <= most else f"{line[: most - 1]}…"


def escape_invisible_in_json(document: str) -> str:
    """Return an equivalent JSON document in which all characters are visible."""
    # Escape each line separately to keep the line breaks. All other invisible characters are inside
    # JSON strings, where escapes are allowed.
    return "\n".join(_replace_unseen(line, _escape_letter) for line in document.split("\n"))


def _replace_unseen(text: str, sign: Callable[[str], str]) -> str:
    if text.isprintable() and re.search(_UNSEEN, text) is None:
        return text
    return "".join(
        letter if letter.isprintable() and not re.match(_UNSEEN, letter) else sign(letter)
        for letter in text
    )


def _escape_letter(letter: str) -> str:
    code = ord(letter)
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


_NUMBER = re.compile(r"[+-]?[\d.]+(?:e[+-]?\d+)?", re.ASCII)
#: Characters that start a formula in a spreadsheet. Text is normalised before the comparison, to
#: include full-width and small forms.
_FORMULA = "=+-@\N{MINUS SIGN}"


def format_cell(value: Any) -> str:
    """Return a value as the text of a table cell.

    Null becomes empty, strings stay unchanged, and other values are written as JSON.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def escape_formula(text: str) -> str:
    """Return the text with an apostrophe in front if it could run as a formula.

    Text that starts with a newline or tab always gets the apostrophe, because a spreadsheet may
    split or trim the text first.
    """
    if not text or _NUMBER.fullmatch(text):
        return text
    start = next((letter for letter in text if unicodedata.category(letter)[0] not in "ZC"), "")
    is_formula = unicodedata.normalize("NFKC", start)[:1] in _FORMULA if start else False
    return f"'{text}" if is_formula or text[0] in "\t\r\n" else text


#: Number of characters of a time as the log stores it.
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


def describe_waiting_reason(attempt: Attempt | None) -> str:
    """Return the reason why a running attempt does not continue, and the time since then.

    Return an empty string if the attempt has ended or continues normally.
    """
    if attempt is None or attempt.ended_at is not None:
        return ""
    if attempt.waiting is None:
        return attempt.obstacle or ""
    return (
        f"{attempt.waiting['reason']} (since {truncate_utc_to_seconds(attempt.waiting['since'])})"
    )


def truncate_utc_to_seconds(moment: str | None) -> str | None:
    """Return a UTC time of the log without fractions of a second.

    Other strings stay unchanged.
    """
    if moment is None or len(moment) != _LOG_FORM or not moment.endswith("Z"):
        return moment
    return moment[:19] + "Z"


def convert_utc_to_local_seconds(moment: str, offset: str) -> str:
    """Return a UTC time of the log in another time zone, without fractions of a second.

    ``offset`` has the form ``+02:00``, and the result the form ``…T02:00:00+02:00``.
    """
    if offset == "+00:00":
        return moment[:19] + offset
    hours, minutes = int(offset[1:3]), int(offset[4:6])
    shift = timedelta(hours=hours, minutes=minutes)
    zone = timezone(-shift if offset[0] == "-" else shift)
    return datetime.fromisoformat(moment[:19] + "+00:00").astimezone(zone).isoformat()


def format_age(moment: str, now: str) -> str:
    """Return the age of an event as text, such as ``2 hours ago`` or ``just now``.

    ``moment`` is its UTC time, and ``now`` is the current UTC time.
    """
    before = int((datetime.fromisoformat(now) - datetime.fromisoformat(moment)).total_seconds())
    for unit, length in _UNITS:
        number = abs(before) // length
        if number:
            words = f"{number} {unit}{'s' if number > 1 else ''}"
            return f"{words} ago" if before > 0 else f"in {words}"
    return "just now"


def compute_age(moment: str, now: str) -> int:
    """Return the whole seconds between two UTC times, at least 0."""
    passed = datetime.fromisoformat(now) - datetime.fromisoformat(moment)
    return max(int(passed.total_seconds()), 0)


#: Maximum difference in seconds between two clocks that is not treated as an error.
_PRECISION = 1.0


def compute_seconds(start: str | None, end: str | None) -> float | None:
    """Return the seconds between two times, or None if a time is unknown or invalid.

    If the end is slightly before the start, the result is 0, because clocks can differ. If it is
    much earlier, a clock was set back, and the result is None.
    """
    try:
        found = datetime.fromisoformat(end or "") - datetime.fromisoformat(start or "")
    except (TypeError, ValueError):
        return None
    return round_span(found.total_seconds())


def round_span(span: float) -> float | None:
    """Return a rounded number of seconds, at least 0, or None if it is clearly negative."""
    return None if span < -_PRECISION else round(max(span, 0.0), 6)


#: Unit of file size → number of these units in the next larger unit, smallest unit first.
_BYTES = (("B", 1024), ("kB", 1024), ("MB", 1024), ("GB", 1024), ("TB", 1 << 62))


def describe_used_resources(resources: Mapping[str, float]) -> str:
    """Return a message about used resources: ``1.9 s of processors, at most 305 MB of memory``."""
    told = []
    if "cpu_seconds" in resources:
        told.append(f"{format_seconds_or_hours(resources['cpu_seconds'])} of processors")
    if "peak_memory_bytes" in resources:
        told.append(f"at most {format_byte_count(resources['peak_memory_bytes'])} of memory")
    if resources.get("written_bytes"):
        told.append(f"{format_byte_count(resources['written_bytes'])} written")
    return ", ".join(told)


def describe_requested_resources(requested: Mapping[str, float]) -> str:
    """Return a message about requested resources, such as ``8 GB of memory per node``."""
    from lifecycle.words.resources import format_amount  # most attempts request no resources

    return ", ".join(format_amount(name, amount) for name, amount in requested.items())


def format_seconds_or_hours(span: float) -> str:
    """Return a duration as text in seconds, or in hours if it is longer than two hours."""
    return f"{span:.1f} s" if span < 7200 else f"{span / 3600:.1f} h"


def format_byte_count(count: float) -> str:
    """Return a number of bytes as text, in the largest suitable unit."""
    for unit, times in _BYTES:
        if count < times:
            return f"{count:.3g} {unit}" if count < 1000 else f"{count:.0f} {unit}"
        count /= times
    return f"{count:.0f}"


def format_two_unit_duration(span: float) -> str:
    """Return a duration in one or two units: ``4 s``, ``3 min 20 s``, ``5 h 12 min``."""
    whole = round(span)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def format_elapsed(since: str, now: datetime) -> str:
    """Return the time since an event as text: ``4 s``, ``3 min 20 s``, ``5 h 12 min``."""
    found = compute_seconds(since, now.isoformat())
    if found is None:
        return "since an unknown time"  # typed by a person in an imported file
    return format_two_unit_duration(max(int(found), 0))


_LENGTHS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def format_duration(start: str | None, end: str | None) -> str:
    """Return the time between two times as text, or a dash if a time is unknown."""
    found = compute_seconds(start, end)
    if found is None:
        return "-"
    if found < 60:
        return f"{max(found, 0):.1f} s"
    rest, parts = int(found), []
    for size, unit in _LENGTHS:
        number, rest = divmod(rest, size)
        parts += [f"{number} {unit}"] if number else []
    return " ".join(parts[:2])


def parse_time_to_epoch(moment: str | None) -> float | None:
    """Return a time in seconds since the epoch, or None if the string is not a time."""
    try:
        return datetime.fromisoformat(moment or "").timestamp()
    except (ValueError, OverflowError):
        return None


def seconds_since(moment: str, now: str) -> float | None:
    """Return the seconds from a time to ``now`` (UTC).

    The result is negative for a future time. A time without an offset is a local time. Return None
    if the string is not a time.
    """
    try:
        then = datetime.fromisoformat(moment).astimezone()
    except (ValueError, OverflowError):
        return None
    return (datetime.fromisoformat(now) - then).total_seconds()


def workflow_uri(workflow: str) -> str:
    """Return the URN (a permanent identifier) of a workflow."""
    return f"urn:wfctl:workflow:{percent_encode(workflow)}"


def schema_uri(name: str, version: int) -> str:
    """Return the URN of the JSON Schema for a version of an event type or of a document."""
    return f"urn:wfctl:schema:{percent_encode(name)}:{version}"


def percent_encode(value: str) -> str:
    """Return ``value`` with each character percent-encoded that a URI does not allow."""
    return quote(value, safe="-._~")


class NextAction(NamedTuple):
    """A suggested command, and the reason to run it.

    ``needs`` lists the placeholders in the command, and files that must exist first. ``person``
    means that only a person may decide. ``verb`` and ``target`` name the action and its object.
    """

    command: str
    reason: str
    needs: tuple[str, ...] = ()
    person: bool = False
    verb: str | None = None
    target: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the suggested command as a dict of JSON values. Omit empty fields."""
        found: dict[str, Any] = {"command": self.command, "reason": self.reason}
        if self.verb is not None:
            found |= {"verb": self.verb, "target": self.target}
        if self.needs:
            found["needs"] = list(self.needs)
        return {**found, "person": True} if self.person else found

    def __str__(self) -> str:
        # The reader sees the placeholders in the command itself, so list only the other
        # requirements.
        missing = [one for one in self.needs if one not in self.command]
        notes = [f"needs {', '.join(missing)}"] if missing else []
        notes += ["only a person can decide; an agent waits"] if self.person else []
        return f"{self.command}  ({'; '.join([self.reason, *notes])})"


def name_approver(by: str | None, database_user: str | None) -> str | None:
    """Return the name of a person who approved, or None.

    If the database account of the person has another name, add the name of this account.
    """
    if by is None or database_user is None or by.partition(":")[2] == database_user:
        return by
    return f"{by} (as the database user {spell_unseen(str(database_user))})"
