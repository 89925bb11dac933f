"""What an id or a path that an event names may look like, wherever the event came from.

One grammar for the ids that become names of files, streams and sessions. A log may hold others,
since it may be anybody's: it can be read, but nothing is named by them.
"""

from __future__ import annotations

import re

#: Of workflows and machines.
ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
#: Of stages: what folders, tmux sessions and the steps of a field's path can all be called. No dot,
#: which parts the steps of a path, and the number from the name of a folder that was kept.
STAGE_PATTERN = r"^[A-Za-z][A-Za-z0-9_-]{0,63}$"
#: Of the folder of a stage as it was kept before it ran again: ``stage-2.v1``, ``grow-film.v1``.
KEPT_PATTERN = r"^[A-Za-z][A-Za-z0-9_-]{0,63}\.v[1-9][0-9]{0,15}$"
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
    from lifecycle.words.document import WORKFLOW_FIELDS  # only where a definition is written

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
