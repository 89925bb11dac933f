"""``events``, ``state`` and ``log``: what wfctl itself writes."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from operator import attrgetter

from eventstore.transfer.lines import exported
from projections.exports.source import ExportSource
from projections.files import progress_log, state_document
from projections.files.progress_log import LogPiece


def events(source: ExportSource) -> Iterator[str]:
    """Yield the recorded events, one JSON line each, as they were hashed.

    Anyone can check the chain (docs/trust/verify-without-wfctl.md).
    """
    return (exported(raw) + "\n" for raw in source.raw())


def state(source: ExportSource) -> Iterator[str]:
    """Yield ``workflow-state.json``."""
    yield state_document.render(source.state()).decode()


def log(source: ExportSource) -> Iterator[str]:
    """Yield ``progress.log`` piece by piece; bytes that are no UTF-8 as lone surrogates."""
    fresh = True
    for part in merge(_displaced(source), _in_order(source), key=attrgetter("place")):
        yield part.due(fresh).decode("utf-8", "surrogateescape")
        fresh = part.content.endswith(b"\n")


def _in_order(source: ExportSource) -> Iterator[LogPiece]:
    """Yield the pieces that stand where their event stands."""
    for event, after in source.steps():
        part = progress_log.piece(event, after)
        if part is not None and part.version == event.version:
            yield part


def _displaced(source: ExportSource) -> list[LogPiece]:
    """Return what others wrote that lies behind an earlier line; it is read twice, never kept."""
    found = []
    for event, after in source.steps():
        if event.type == "note.logged" and event.data.get("after") is not None:
            part = progress_log.piece(event, after)
            if part is not None and part.version != event.version:
                found.append(part)
    return sorted(found, key=attrgetter("place"))
