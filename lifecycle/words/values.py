"""Limits of values: ids, paths, lengths of time, and how large an event may be."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
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
    """Return why no stage can be called so, though it is spelled as one; None if it can."""
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
#: Maximum number of letters of the words of an event, such as a reason or an error.
MAX_WORDS = 20_000
#: Maximum number of bytes of one variable with its name. Linux starts no program that is given a
#: string of 128 KiB or more.
MAX_VARIABLE = 130_000
#: Letters of one text of an event that is written, and of all its texts and values together.
MAX_TEXT = 1_000_000
MAX_EVENT = 8 << 20


def shortened(text: str, most: int = MAX_WORDS) -> str:
    """Return a text of at most ``most`` letters: a longer one is cut, and its length is stated."""
    if len(text) <= most:
        return text
    remark = f"… (cut, {len(text):,} letters)"
    return text[: max(most - len(remark), 0)] + remark[:most]


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
    """Return which value of an event's data is out of bounds, None if none is."""
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
    """Return what of an event is too large to be written, None if nothing is.

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
    """Parse a length of time such as 12h; None if it is not one."""
    found = _SPAN.fullmatch(text.strip())
    return timedelta(**{_UNITS[found[2]]: int(found[1])}) if found is not None else None


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
    of all; None if nothing was written.
    """
    return stated_in(*texts) or next((lines[-1] for lines in map(_lines, texts) if lines), None)


def stated_in(*texts: str) -> str | None:
    """Return the line in which a program says itself what went wrong; None if no line does."""
    found = (find(lines) for find in (_raised, _told) for lines in map(_lines, texts))
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


def _told(lines: list[str]) -> str | None:
    return next((_whole(lines, n) for n, line in enumerate(lines) if _ERROR.match(line)), None)


def _whole(lines: list[str], at: int) -> str:
    """Return a line, with the next one where it only announces it."""
    more = lines[at + 1 : at + 2] if lines[at].endswith(":") else []
    return " ".join(line.strip() for line in [lines[at], *more])


#: Pattern of a text → what such a text is.
_PATTERNS = {
    STAGE_PATTERN: (
        "stage-N, such as stage-2, or a name of letters, digits, '_' and '-', which begins with a "
        "letter and has at most 64 of them"
    ),
    DRIFT_PATTERN: "a file of .wfctl/drift/",
    REPORT_PATTERN: "a path below the root, of a .md or .txt file that is not hidden",
    KEPT_PATTERN: "the id of a stage with .vK behind it, such as stage-2.v1",
    r"^att-[0-9]{4,}$": "att-N with four digits or more, such as att-0001",
    r"^amend-[1-9][0-9]*$": "amend-N with a number from 1 on, such as amend-1",
    r"^(plan|amend-[1-9][0-9]*)$": "plan, or amend-N with a number from 1 on, such as amend-1",
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$": (
        "a name of letters, digits, '.', '_' and '-', which begins with a letter or a digit and "
        "has at most 128 of them"
    ),
    r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$": (
        "a name of letters, digits, '.', '_' and '-', which begins with a letter and has at most "
        "64 of them"
    ),
    r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$": "a number as JSON spells it, such as 1e-4",
    RANGES_PATTERN: "numbers as ranges, such as 0-99,103",
    r"^[1-9][0-9]{0,5} ?[smhdw]$": "a length of time, such as 90s, 30m, 12h, 7d or 2w",
    r"^[^\r\n]+$": "text of one line",
    r"^[^\x00\r\n]+$": "a path of one line",
}
#: Kind of the error, as pydantic names it → what was expected.
_EXPECTED = {
    "string_type": "text",
    "string_too_short": "text of {min_length} or more characters",
    "string_too_long": "text of {max_length} or fewer characters",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "bool_type": "true or false",
    "none_required": "null",
    "literal_error": "{expected}",
    "list_type": "a list",
    "too_short": "a list of {min_length} or more entries",
    "too_long": "a list of {max_length} or fewer entries",
    "dict_type": "an object",
    "model_type": "an object",
    "invalid-json-value": "a JSON value",
    "recursion_depth_exceeded": "a value that is not nested so deeply",
    "recursion_loop": "a value that does not hold itself",
    "extra_forbidden": "no field of this name",
}


def misfit(error: Any) -> str:
    """Return what is wrong with a value, of one of the ``errors()`` of a `ValidationError`."""
    if error["type"] == "missing":
        return "this field is missing"
    said = str(error["msg"])
    if not said.startswith("expected"):  # none of our own checks
        said = f"expected {_expected(error)}"
    return f"{said}, found {error['input']!r:.80}"


def problem(error: Any) -> str:
    """Return the same with the place of the value before it, its steps with dots between."""
    steps = [str(step) for step in error["loc"]]
    return f"{'.'.join(steps)[:200] or 'the whole'}: {misfit(error)}"


def _expected(error: Any) -> str:
    context = error.get("ctx") or {}
    if error["type"] == "string_pattern_mismatch":
        pattern = context["pattern"]
        return _PATTERNS.get(pattern) or f"text that matches {pattern}"
    known = _EXPECTED.get(error["type"])
    return known.format(**context) if known is not None else f"another value ({error['msg']})"


#: What may be asked for → what it is.
FIELDS = {
    "modules": "a list of names for `module load`",
    "conda": "the name of a conda environment, or its absolute path",
    "venv": "the folder of a virtual environment: absolute, or with $HOME/ before it",
    "container": "an image for Apptainer: absolute, with $HOME/ before it, or a URI as docker://…",
    "container_options": "a list of options for `apptainer exec`, such as --nv",
}
_LISTS = ("modules", "container_options")
_NAME = re.compile(r"[A-Za-z0-9_][\w.+/@:=-]*", re.ASCII)
_PATH = re.compile(r"(?:/|\$HOME/)[^\x00-\x1f\x7f]+")
_URI = re.compile(r"[a-z]+://[^\s\x00-\x1f\x7f]+")
_OPTION = re.compile(r"[^\x00-\x1f\x7f]+")


def wanted(profile: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the environment of a stage: its profile's, and what it says itself."""
    # A stage may have a text or a number of this name, which is its command's.
    given = [one.get("environment") for one in (profile, parameters)]
    named = [pair for one in given if isinstance(one, dict) for pair in one.items()]
    return {name: value for name, value in dict(named).items() if value is not None}


def problems(given: Any) -> Iterator[str]:
    """Say what is wrong with an environment: each problem with the name of its field."""
    if not isinstance(given, dict):
        yield f"expected an object with some of {', '.join(FIELDS)}; found {given!r:.60}"
        return
    for name, value in given.items():
        if name not in FIELDS:
            yield f"{name}: expected one of {', '.join(FIELDS)}"
        elif value is not None and not _fits(name, value):
            yield f"{name}: expected {FIELDS[name]}; found {value!r:.60}"
    if given.get("conda") is not None and given.get("venv") is not None:
        yield "conda and venv: expected one of them; the later would hide the other"


def _fits(name: str, value: Any) -> bool:
    if name in _LISTS:
        form = _NAME if name == "modules" else _OPTION
        return isinstance(value, list) and all(_is(form, one) for one in value)
    if name == "venv":
        return _is(_PATH, value)
    return _is(_PATH, value) or _is(_NAME if name == "conda" else _URI, value)


def _is(form: re.Pattern[str], value: Any) -> bool:
    return isinstance(value, str) and form.fullmatch(value) is not None
