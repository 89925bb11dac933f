"""A browser's request, HTML, and previews of files."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

from jinja2 import ChoiceLoader, Environment, PackageLoader
from markupsafe import Markup

from eventstore.event import RecordedEvent
from lifecycle.state.workflow import Workflow
from projections.drawing import svg
from projections.exports.markup import environment
from projections.files.progress_log import message
from projections.files.summary import FIGURES
from service.errors import InvalidOption, NotFound
from service.root.disk import OutsideRoot, open_within


@cache
def _environment() -> Environment:
    loaders = [PackageLoader("pages"), PackageLoader("projections", "exports/templates")]
    made = environment(ChoiceLoader(loaders))
    made.filters.update(segment=lambda text: quote(str(text), ""))
    made.filters.update(query=lambda values: urlencode({k: v for k, v in values.items() if v}))
    made.globals["sentence"] = sentence
    return made


def page(template: str, **values: Any) -> bytes:
    """Return a page as UTF-8."""
    text = _environment().get_template(template).render(**values)
    return text.encode("utf-8", "replace")


@cache
def style() -> bytes:
    """Return the one style sheet."""
    colors = Markup(svg.variables(":root"))
    return page("pages.css.j2", colors=colors)


def sentence(event: RecordedEvent, state: Workflow) -> str:
    """Return what an event says, by itself: ``state`` may be a later one."""
    data = event.data
    aside = next((one for one in state.set_aside if one["version"] == event.version), None)
    if aside is not None:
        return f"{event.type}: is ignored, {aside['why']}"
    if event.type == "session.ended":
        return f"Session ended. Next: {data.get('next') or data.get('reason')}"
    if event.type == "cost.charged":
        return f"{data.get('stage')}: cost {data.get('weight')} ({data.get('work_class')})"
    stage = data.get("stage")
    if stage is not None and stage not in state.stages:
        return event.type
    return message(event, state) or event.type


#: Letters of an address that are looked at.
_LONGEST = 8000


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A path in its parts, decoded, and the values behind it, the last of each name."""

    path: str
    parts: tuple[str, ...]
    values: Mapping[str, str]

    def text(self, name: str) -> str | None:
        """Return a value, None if it is not given or empty."""
        return self.values.get(name, "").strip() or None

    def number(self, name: str) -> int | None:
        """Return a whole number from 0 on; raises `InvalidOption`."""
        text = self.text(name)
        if text is None:
            return None
        if not (text.isdecimal() and text.isascii() and len(text) < 16):
            raise InvalidOption(f"{name}: expected a whole number, found {text!r:.80}")
        return int(text)


def parsed(target: str) -> PageRequest:
    """Return what a request's line asks for; raises `NotFound`, `InvalidOption`."""
    if len(target) > _LONGEST or not target.startswith("/"):
        raise NotFound("expected the path of a page")
    split = urlsplit(target)
    try:
        values = parse_qs(split.query, errors="strict", max_num_fields=40)
        parts = tuple(unquote(part, errors="strict") for part in split.path.split("/")[1:])
    except ValueError as error:
        raise InvalidOption(f"expected an address in UTF-8, found another: {error}") from error
    return PageRequest(split.path, parts, {name: found[-1] for name, found in values.items()})


#: Bytes of what a task printed that are shown, its last.
_PRINTED = 64 << 10


def tail_of(root: Path, path: str) -> str:
    """Return the end of a text below the root; nothing of what is not there."""
    try:
        with os.fdopen(open_within(root, path), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _PRINTED))
            return file.read(_PRINTED).decode("utf-8", "replace")
    except (OSError, OutsideRoot):
        return ""


_TABLES = {".csv": ",", ".tsv": "\t"}
#: Bytes of a figure that is sent, of text that is shown, and of a file that is digested at a look.
_LARGEST, _TEXT, _DIGESTED = 32 << 20, 16 << 10, 32 << 20
_ROWS, _COLUMNS, _CELL = 30, 12, 80
_FEW = 20


def previews(root: Path | None, files: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a preview of each file on record; of more than a few only what is on record.

    ``path``, ``size``, ``sha256`` are on record; ``found`` says how the file is to that. ``kind``:
    figure, table, text, or none; ``rows`` or ``text`` is what is shown, ``is_cut`` not all of it.
    """
    return [_preview(root if number < _FEW else None, one) for number, one in enumerate(files)]


def _preview(root: Path | None, one: dict[str, Any]) -> dict[str, Any]:
    path, digest = str(one.get("path")), one.get("sha256")
    found = {"path": path, "size": one.get("size"), "sha256": digest}
    found |= {"kind": "none", "found": "", "is_cut": False}
    if root is None:
        return found
    try:
        with os.fdopen(open_within(root, path), "rb") as file:
            content = file.read(_DIGESTED + 1)
    except (OSError, OutsideRoot) as error:
        reason = "is not here" if isinstance(error, FileNotFoundError) else str(error)
        return found | {"found": reason}
    if digest is None or len(content) > _DIGESTED:
        found["found"] = "not compared"
    else:
        is_same = sha256(content).hexdigest() == digest
        found["found"] = "as recorded" if is_same else "changed since it was recorded"
    suffix = Path(path).suffix.lower()
    if suffix in FIGURES:
        return found | {"kind": "figure"}
    text = _text(content[:_TEXT])
    found["is_cut"] = text is not None and len(content) > _TEXT
    if text is None:
        return found
    if suffix in _TABLES:
        return found | {"kind": "table", "rows": _rows(text, _TABLES[suffix])}
    return found | {"kind": "text", "text": text}


def _text(content: bytes) -> str | None:
    """Return text; None if it is not text; a letter that was cut in two is left out."""
    if b"\0" in content:
        return None
    text = content.decode("utf-8", "replace")
    return text if text.count("\N{REPLACEMENT CHARACTER}") <= 1 + len(text) // 100 else None


def _rows(text: str, delimiter: str) -> list[list[str]]:
    rows: list[list[str]] = []
    found = islice(csv.reader(io.StringIO(text), delimiter=delimiter), _ROWS + 1)
    with suppress(csv.Error):
        rows.extend([cell[:_CELL] for cell in row[:_COLUMNS]] for row in found)
    return rows


def figure(root: Path | None, state: Workflow, path: str) -> tuple[str, bytes]:
    """Return the type and the bytes of a figure that a stage has on record; raises `NotFound`."""
    kind = FIGURES.get(Path(path).suffix.lower())
    on_record = {
        str(one.get("path"))
        for stage in state.stages.values()
        for files in (stage.results, *(attempt.inputs for attempt in stage.attempts[-1:]))
        for one in files
    }
    if root is None or kind is None or path not in on_record:
        raise NotFound("expected the path of a figure that is on record, found another")
    with os.fdopen(open_within(root, path), "rb") as file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise NotFound(f"the figure is larger than {_LARGEST >> 20} MB, and is not sent")
    return kind, content
