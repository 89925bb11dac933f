"""Previews of result files on a page: tables, texts and figures."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

from lifecycle.state.workflow import Workflow
from projections.files.summary import FIGURES
from service.errors import NotFound
from service.root.paths_within_root import OutsideRoot, open_within

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
