"""Formats of ids, paths, placeholders and durations."""

from __future__ import annotations

import re
from datetime import timedelta

#: Pattern of the ids of workflows and machines.
ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
#: Pattern of stage ids, which are also used in names of folders and tmux sessions and in dotted
#: paths. A dot is not allowed, because it separates the parts of such names.
STAGE_PATTERN = r"^[A-Za-z][A-Za-z0-9_-]{0,63}$"
#: Pattern of the name of a stage's archive folder, such as ``stage-2.v1`` or ``grow-film.v1``.
KEPT_PATTERN = r"^[A-Za-z][A-Za-z0-9_-]{0,63}\.v[1-9][0-9]{0,15}$"
#: Pattern of a set of numbers as ranges, such as 0-99,103. See `lifecycle.sweeps.definition`.
RANGES_PATTERN = r"^$|^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$"
#: Names, in lower case, that a stage cannot have, in addition to the fields of a workflow.
_TAKEN = frozenset({"docs", "pause", "workflow", "session", "purpose"})
_NUMBERED = re.compile(r"stage-([1-9][0-9]*)")
_OTHERS = re.compile(r"(?:att|amend|session)-[0-9]+")
#: Maximum number of characters of a path in an event.
MAX_PATH = 1_000
#: Pattern of one character of a file name: no slash and no control character.
_LETTER = r"[^/\x00-\x1f\x7f-\x9f\u2028\u2029]"
#: Pattern of the first character of a file name that is not hidden.
_FIRST = _LETTER.replace("[^", "[^.")
#: Pattern of the path of a report. Hidden files and other suffixes are not allowed, because a
#: program could run the report as a start-up file, hook or script.
REPORT_PATTERN = (
    rf"^({_FIRST}{_LETTER}*/)*{_FIRST}{_LETTER}*"
    r"\.([mM][dD]|[mM][aA][rR][kK][dD][oO][wW][nN]|[tT][xX][tT])$"
)
#: Pattern of the path of an archived copy of an edited file. The path must be in the folder for
#: these copies.
DRIFT_PATTERN = rf"^\.wfctl/drift/({_FIRST}{_LETTER}*|\.{_FIRST}{_LETTER}*|\.\.{_LETTER}+)$"


def is_id(text: str) -> bool:
    """Return whether a string is a valid id of a workflow or phase machine.

    A valid id can also be used as a file name.
    """
    return _ID.fullmatch(text) is not None


def stage_number(id_: str) -> int | None:
    """Return the number N of a stage named ``stage-N``, or None for any other name."""
    found = _NUMBERED.fullmatch(id_)
    return int(found[1]) if found is not None else None


def explain_unfit_stage_id(id_: str) -> str | None:
    """Return the reason why a name cannot be the id of a stage, or None if it can.

    Reserved names and names of other objects, such as attempts, are not allowed.
    """
    from lifecycle.words.document import WORKFLOW_FIELDS

    if id_.lower() in _TAKEN or id_.lower() in WORKFLOW_FIELDS:
        return f"{id_!r} means something else here; choose another name, such as {id_}-1"
    if id_.lower().startswith("stage-") and stage_number(id_) is None:
        return f"expected a number from 1 on behind 'stage-', or another name; found {id_!r}"
    if _OTHERS.fullmatch(id_):
        return f"{id_!r} is an id of attempts, amendments or sessions; choose another name"
    return None


def is_placeholder(text: str) -> bool:
    """Return whether a text is empty or a placeholder from an example, such as TEXT."""
    return text.strip(" .…\"'<>[]").lower() in ("", "text", "what you did", "what shows it")


def is_inside_base_folder(path: str) -> bool:
    """Return whether a relative path names something inside its base folder.

    The path must be normalized. The file system is not read.
    """
    is_normal = {"", ".", ".."}.isdisjoint(path.split("/"))
    return is_normal and len(path) <= MAX_PATH and not _has_control(path)


def is_base_folder_or_inside(path: str) -> bool:
    """Return whether a relative path stays inside its base folder.

    The base folder itself (``.``) and a trailing slash are allowed.
    """
    steps = [step for step in path.split("/") if step not in ("", ".")]
    return not path.startswith("/") and is_inside_base_folder("/".join(steps))


def is_valid_report_path(path: str) -> bool:
    """Return whether a path is allowed as the path of a report."""
    fits = re.fullmatch(REPORT_PATTERN.removesuffix("$"), path) is not None
    return fits and len(path) <= MAX_PATH


def _has_control(path: str) -> bool:
    """Return whether a path contains a control character, line separator or unpaired surrogate."""
    if path.isascii():
        return not path.isprintable()
    import unicodedata  # loaded only for the few names that are not ASCII

    return not {"Cc", "Cs", "Zl", "Zp"}.isdisjoint([unicodedata.category(one) for one in path])


_SPAN = re.compile(r"([0-9]{1,6}) ?([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_span(text: str) -> timedelta | None:
    """Return the duration that a text such as ``12h`` gives, or None for any other text."""
    found = _SPAN.fullmatch(text.strip())
    return timedelta(**{_UNITS[found[2]]: int(found[1])}) if found is not None else None
