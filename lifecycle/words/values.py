"""Limits of values: ids, paths, lengths of time, and how large an event may be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

#: Of workflows and machines.
ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
#: Of stages: what folders, tmux sessions and the steps of a field's path can all be called. No dot,
#: which parts the steps of a path, and the number from the name of a folder that was kept.
STAGE_PATTERN = r"^[A-Za-z][A-Za-z0-9_-]{0,63}$"
#: Of the folder of a stage as it was kept before it ran again: ``stage-2.v1``, ``grow-film.v1``.
KEPT_PATTERN = r"^[A-Za-z][A-Za-z0-9_-]{0,63}\.v[1-9][0-9]{0,15}$"
#: Numbers as ranges; `lifecycle.sweeps.definition` reads and writes them.
RANGES_PATTERN = r"^$|^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$"
#: What else has a meaning where a stage is named, in small letters, beside a workflow's fields.
_TAKEN = frozenset({"docs", "pause", "workflow", "session", "purpose"})
_NUMBERED = re.compile(r"stage-([1-9][0-9]*)")
_OTHERS = re.compile(r"(?:att|amend|session)-[0-9]+")
#: Letters of a path that an event names.
MAX_PATH = 1_000
#: A letter of a step of a path: no separator, and nothing that a terminal obeys.
_LETTER = r"[^/\x00-\x1f\x7f-\x9f\u2028\u2029]"
#: The same at the beginning of a step that is not hidden.
_FIRST = _LETTER.replace("[^", "[^.")
#: Of a report: in no hidden file or folder, and with an ending that no program runs. A start-up
#: file, a hook or a script would be run by others for what stands in it.
REPORT_PATTERN = (
    rf"^({_FIRST}{_LETTER}*/)*{_FIRST}{_LETTER}*"
    r"\.([mM][dD]|[mM][aA][rR][kK][dD][oO][wW][nN]|[tT][xX][tT])$"
)
#: Of a foreign version of a file: in the folder that holds them.
DRIFT_PATTERN = rf"^\.wfctl/drift/({_FIRST}{_LETTER}*|\.{_FIRST}{_LETTER}*|\.\.{_LETTER}+)$"


def is_id(text: str) -> bool:
    """Whether a text is the id of a workflow or a machine, and so may name a file."""
    return _ID.fullmatch(text) is not None


def stage_number(id_: str) -> int | None:
    """Return the N of a stage that is called ``stage-N``, None of one with a name of its own."""
    found = _NUMBERED.fullmatch(id_)
    return int(found[1]) if found is not None else None


def unfit_for_stage(id_: str) -> str | None:
    """Return why no stage can be called so, though it is spelled as one; None where it can."""
    from lifecycle.words.document import WORKFLOW_FIELDS

    if id_.lower() in _TAKEN or id_.lower() in WORKFLOW_FIELDS:
        return f"{id_!r} means something else here; choose another name, such as {id_}-1"
    if id_.lower().startswith("stage-") and stage_number(id_) is None:
        return f"expected a number from 1 on behind 'stage-', or another name; found {id_!r}"
    if _OTHERS.fullmatch(id_):
        return f"{id_!r} is an id of attempts, amendments or sessions; choose another name"
    return None


def is_placeholder(text: str) -> bool:
    """Whether a text only stands where somebody's own words belong, as in an example."""
    return text.strip(" .…\"'<>[]").lower() in ("", "text", "what you did", "what shows it")


def is_below(path: str) -> bool:
    """Whether a path names something below the root that it is relative to, by its words alone."""
    steps = path.split("/")
    plain = all(step not in ("", ".", "..") for step in steps)
    return plain and len(path) <= MAX_PATH and not any(map(_is_control, path))


def stays_below(path: str) -> bool:
    """Whether a path does not leave what it is relative to; ``.`` and a last ``/`` are allowed."""
    steps = [step for step in path.split("/") if step not in ("", ".")]
    return not path.startswith("/") and is_below("/".join(steps))


def is_report(path: str) -> bool:
    """Whether a report may be written at a path."""
    fits = re.fullmatch(REPORT_PATTERN.removesuffix("$"), path) is not None
    return fits and len(path) <= MAX_PATH


def _is_control(letter: str) -> bool:
    if letter.isascii():
        return not letter.isprintable()
    import unicodedata  # a library of its own, for the few names that are not ASCII

    return unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp")


#: What a whole number may be: every reader of JSON and every engine can hold it.
MAX_COUNT = 2**53 - 1
#: The largest number that is finite in every reader of JSON.
MAX_NUMBER = 1.7976931348623157e308
#: Letters of an id such as ``stage-3`` or ``att-0001``.
MAX_ID = 64
#: How deep values may be nested in each other.
MAX_DEPTH = 100
#: What one piece of work may cost, and what the budget of a session may be.
MAX_WEIGHT = 1e9
#: Tasks of one sweep.
MAX_TASKS = 100_000
#: Letters of one text of an event that is written, and of all its texts and values together.
MAX_TEXT = 1_000_000
MAX_EVENT = 8 << 20

#: What was found is recorded as it was found: it is as large as what it was found in.
_AS_FOUND = frozenset(
    {
        "drift.detected",
        "line.imported",
        "machine.created",
        "machine.imported",
        "note.logged",
        "state.imported",
        "workflow.created",
        "workflow.imported",
    }
)

#: Fields of an observation that name tasks by their places, as ranges.
_PLACES = ("done", "failed", "lost", "running")

_NESTED: frozenset[type] = frozenset({dict, list})
_FLAT = frozenset({str, int, float, bool, type(None)})


def excess(type_: str, data: Mapping[str, Any]) -> str | None:
    """Return which value of an event's data is out of bounds, None where none is."""
    if type_ == "tasks.observed" and (why := misplaced(data)) is not None:
        return why
    if not _FLAT.issuperset(map(type, data.values())) and _is_deep(data, MAX_DEPTH):
        return f"expected values nested at most {MAX_DEPTH} deep, found deeper ones"
    return None


def misplaced(data: Mapping[str, Any]) -> str | None:
    """Return which ranges name a task that there is not, or one twice."""
    total = data["total"]
    for field in _PLACES:
        before = -1
        for part in data.get(field, "").split(",") if data.get(field) else ():
            first, _, last = part.partition("-")
            if (
                len(first) > 8
                or len(last) > 8
                or not before < int(first) <= int(last or first) < total
            ):
                return f"{field}: expected places from 0 to {total - 1} in order, found {part:.40}"
            before = int(last or first)
    return None


def too_much(type_: str, data: Mapping[str, Any]) -> str | None:
    """Return what of an event is too large to be written, None where nothing is.

    What is read is not held to it: an older log may have more.
    """
    if type_ in _AS_FOUND:
        return None
    sizes = {field: _letters(value) for field, value in data.items()}
    longest = next((field for field, (_, most) in sizes.items() if most > MAX_TEXT), None)
    if longest is not None:
        found = sizes[longest][1]
        return f"{longest}: expected texts of {MAX_TEXT:,} letters at most, found {found:,}"
    whole = sum(letters for letters, _ in sizes.values())
    if whole > MAX_EVENT:
        return f"expected an event of {MAX_EVENT:,} letters at most, found {whole:,}"
    return None


def _letters(value: Any) -> tuple[int, int]:
    """Return the letters of all texts and values in one, each of which counts, and the longest."""
    if isinstance(value, str):
        return len(value), len(value)
    if isinstance(value, dict):
        parts = [_letters(part) for entry in value.items() for part in entry]
    elif isinstance(value, list):
        parts = [_letters(part) for part in value]
    else:
        return 1, 0
    return 1 + sum(whole for whole, _ in parts), max((most for _, most in parts), default=0)


def _is_deep(value: Any, left: int) -> bool:
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list):
        return False
    if left == 0:
        return True
    nested = [one for one in value if one and one.__class__ in _NESTED]
    return bool(nested) and any(_is_deep(one, left - 1) for one in nested)


_SPAN = re.compile(r"([0-9]{1,6}) ?([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def span(text: str) -> timedelta | None:
    """Return a length of time, None for what is none."""
    found = _SPAN.fullmatch(text.strip())
    return timedelta(**{_UNITS[found[2]]: int(found[1])}) if found is not None else None
