"""Parse requests of web pages, render HTML, and build previews of files."""

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
from extensions.exports.markup import build_environment
from lifecycle.state.workflow import Workflow
from projections.drawing import svg
from projections.files.progress_log import format_line_without_time
from projections.files.summary import FIGURES
from service.errors import InvalidOption, NotFound
from service.root.paths_within_root import OutsideRoot, open_within


@cache
def _build_environment() -> Environment:
    loaders = [PackageLoader("extensions.pages"), PackageLoader("extensions.exports")]
    made = build_environment(ChoiceLoader(loaders))
    made.filters.update(segment=lambda text: quote(str(text), ""))
    made.filters.update(query=lambda values: urlencode({k: v for k, v in values.items() if v}))
    made.globals["sentence"] = describe_event
    return made


def render_page(template: str, **values: Any) -> bytes:
    """Return the HTML page that a template produces, as UTF-8."""
    text = _build_environment().get_template(template).render(**values)
    return text.encode("utf-8", "replace")


@cache
def render_style() -> bytes:
    """Return the CSS style sheet of all pages."""
    colors = Markup(svg.format_color_variables(":root"))
    return render_page("pages.css.j2", colors=colors)


def describe_event(event: RecordedEvent, state: Workflow) -> str:
    """Return a sentence that describes an event. ``state`` may be a later state."""
    data = event.data
    aside = next((one for one in state.set_aside if one["version"] == event.version), None)
    if aside is not None:
        return f"{event.type}: this event is ignored, {aside['why']}"
    if event.type == "session.ended":
        return f"Session ended. Next: {data.get('next') or data.get('reason')}"
    if event.type == "cost.charged":
        return f"{data.get('stage')}: cost {data.get('weight')} ({data.get('work_class')})"
    stage = data.get("stage")
    if stage is not None and stage not in state.stages:
        return event.type
    return format_line_without_time(event, state) or event.type


#: Maximum number of characters of a requested address.
_LONGEST = 8000


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The parts of a requested path, and its query parameters.

    If a parameter is repeated, its last value is used.
    """

    path: str
    parts: tuple[str, ...]
    values: Mapping[str, str]

    def text(self, name: str) -> str | None:
        """Return a query parameter, or None if it is missing or empty."""
        return self.values.get(name, "").strip() or None

    def number(self, name: str) -> int | None:
        """Return a query parameter as a whole number, or None if it is missing.

        Raises `InvalidOption` if the value is not a number of at least 0.
        """
        text = self.text(name)
        if text is None:
            return None
        if not (text.isdecimal() and text.isascii() and len(text) < 16):
            raise InvalidOption(f"{name}: expected a whole number, found {text!r:.80}")
        return int(text)


def parse_request(target: str) -> PageRequest:
    """Return the path and the query parameters of a requested address.

    Raises `NotFound` or `InvalidOption` if the address is not valid.
    """
    if len(target) > _LONGEST or not target.startswith("/"):
        raise NotFound("expected the path of a page")
    split = urlsplit(target)
    try:
        values = parse_qs(split.query, errors="strict", max_num_fields=40)
        parts = tuple(unquote(part, errors="strict") for part in split.path.split("/")[1:])
    except ValueError as error:
        raise InvalidOption(
            f"the address of the page is not valid UTF-8 ({error}). Open the page through the "
            "list of workflows"
        ) from error
    return PageRequest(split.path, parts, {name: found[-1] for name, found in values.items()})


#: Maximum number of bytes to show from the end of a task's output.
_PRINTED = 64 << 10


def tail_of(root: Path, path: str) -> str:
    """Return the end of a text file in the folder, or an empty string if it is missing."""
    try:
        with os.fdopen(open_within(root, path), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _PRINTED))
            return file.read(_PRINTED).decode("utf-8", "replace")
    except (OSError, OutsideRoot):
        return ""


_TABLES = {".csv": ",", ".tsv": "\t"}
#: Maximum sizes in bytes: of a figure, of a text preview, and of a file whose digest is computed.
_LARGEST, _TEXT, _DIGESTED = 32 << 20, 16 << 10, 32 << 20
_ROWS, _COLUMNS, _CELL = 30, 12, 80
_FEW = 20


def build_previews(root: Path | None, files: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a preview of each recorded file. Only the first few files are read.

    ``path``, ``size`` and ``sha256`` are the recorded values. ``found`` states whether the file
    still matches them. ``kind`` is figure, table, text or none. ``rows`` or ``text`` contains the
    preview, and ``is_cut`` states whether it is incomplete.
    """
    return [
        _build_preview(root if number < _FEW else None, one) for number, one in enumerate(files)
    ]


def _build_preview(root: Path | None, one: dict[str, Any]) -> dict[str, Any]:
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
    text = _decode_text(content[:_TEXT])
    found["is_cut"] = text is not None and len(content) > _TEXT
    if text is None:
        return found
    if suffix in _TABLES:
        return found | {"kind": "table", "rows": _read_rows(text, _TABLES[suffix])}
    return found | {"kind": "text", "text": text}


def _decode_text(content: bytes) -> str | None:
    """Return the content as text, or None if it is binary.

    An incomplete character at the end is ignored.
    """
    if b"\0" in content:
        return None
    text = content.decode("utf-8", "replace")
    return text if text.count("\N{REPLACEMENT CHARACTER}") <= 1 + len(text) // 100 else None


def _read_rows(text: str, delimiter: str) -> list[list[str]]:
    rows: list[list[str]] = []
    found = islice(csv.reader(io.StringIO(text), delimiter=delimiter), _ROWS + 1)
    with suppress(csv.Error):
        rows.extend([cell[:_CELL] for cell in row[:_COLUMNS]] for row in found)
    return rows


def read_figure(root: Path | None, state: Workflow, path: str) -> tuple[str, bytes]:
    """Return the media type and the content of a figure that the log records.

    Raises `NotFound` for any other file.
    """
    kind = FIGURES.get(Path(path).suffix.lower())
    on_record = {
        str(one.get("path"))
        for stage in state.stages.values()
        for files in (stage.results, *(attempt.inputs for attempt in stage.attempts[-1:]))
        for one in files
    }
    if root is None or kind is None or path not in on_record:
        raise NotFound("the log contains no recorded figure with this path")
    with os.fdopen(open_within(root, path), "rb") as file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise NotFound(
            f"the figure is larger than {_LARGEST >> 20} MB, so this page does not show it. Open "
            "the file of the figure instead"
        )
    return kind, content
