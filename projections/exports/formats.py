"""What an export is made from, and every format there is: its module is loaded if it is asked for.

``events``, ``state`` and ``log``, which wfctl itself writes, are made here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from heapq import merge
from importlib import import_module
from operator import attrgetter
from typing import Any, NamedTuple, cast

from eventstore.event import RecordedEvent
from eventstore.store import Raw
from eventstore.transfer.archive import exported
from lifecycle.fold.evolve import proposed_in
from lifecycle.state.workflow import Amendment, Workflow
from projections.files import progress_log, state_document
from projections.words.text import without_controls

#: Events that may change the status of stages that they do not name.
_OF_ALL = frozenset({"workflow.created", "workflow.imported", "state.imported"})

Steps = Iterator[tuple[RecordedEvent, Workflow]]
"""Events in order, each with the state after it: one object, changed from step to step."""


@dataclass(frozen=True, slots=True)
class ExportSource:
    """One stream up to a moment. Each call starts anew from the first event.

    ``raw`` yields the events as they were hashed; ``state`` is the state at the end. ``license``
    is what somebody says of it, a URI or words. ``content`` returns the bytes of a file on record,
    None if it is not here or not as recorded.
    """

    steps: Callable[[], Steps]
    raw: Callable[[], Iterator[Raw]]
    state: Callable[[], Workflow]
    license: str | None = None
    content: Callable[[Mapping[str, Any]], bytes | None] = lambda _: None


def touched(event: RecordedEvent, state: Workflow) -> list[str]:
    """Return the stages whose status the event may have changed."""
    if event.type in _OF_ALL:
        return list(state.stages)
    named = event.data.get("stage")
    return [named] if named in state.stages else []


def amended_by(event: RecordedEvent, state: Workflow) -> tuple[Amendment, bool] | None:
    """Return the amendment that an event proposes (then it is true) or decides, None of others."""
    proposed = proposed_in(event)
    amendment = state.amendments.get(proposed or str(event.data.get("amendment")))
    decides = event.type in ("amendment.approved", "amendment.rejected")
    if amendment is None or not (proposed or (decides and event.type.endswith(amendment.status))):
        return None
    return amendment, proposed is not None


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
    steps = (progress_log.piece(*step) for step in source.steps())
    in_order = (part for part in steps if part is not None and part.version == part.recorded)
    # What others wrote that lies behind an earlier line is read twice, never kept.
    displaced = []
    for event, after in source.steps():
        if event.type == "note.logged" and event.data.get("after") is not None:
            part = progress_log.piece(event, after)
            if part is not None and part.version != event.version:
                displaced.append(part)
    displaced.sort(key=attrgetter("place"))
    for content in progress_log.written(merge(displaced, in_order, key=attrgetter("place"))):
        yield content.decode("utf-8", "surrogateescape")


class ExportFormat(StrEnum):
    """The names of the formats; an archive is a zip file of several, and has no maker here."""

    STATE = "state"
    LOG = "log"
    EVENTS = "events"
    MERMAID = "mermaid"
    SVG = "svg"
    TIMELINE = "timeline"
    REPORT = "report"
    TABLE = "table"
    OTEL = "otel"
    PROV = "prov"
    RO_CRATE = "ro-crate"
    NOTEBOOK = "notebook"
    ARCHIVE = "archive"


class Maker(NamedTuple):
    """What makes a format: ``module:function``, from a source to chunks of text.

    ``chained``: its events carry the chain, which can be cut at a version only.
    """

    place: str
    suffix: str
    chained: bool = False

    def chunks(self, source: ExportSource) -> Iterator[str]:
        """Yield the export's text; bytes that are no UTF-8 as lone surrogates."""
        module, _, function = self.place.partition(":")
        made = getattr(import_module(f"projections.exports.{module}"), function)
        chunks = cast("Iterator[str]", made(source))
        is_exact = self.chained or not self.suffix.startswith((".json", ".ipynb"))
        return chunks if is_exact else map(without_controls, chunks)


FORMATS: dict[str, Maker] = {
    "state": Maker("formats:state", ".json"),
    "log": Maker("formats:log", ".log"),
    "events": Maker("formats:events", ".jsonl", chained=True),
    "mermaid": Maker("graph_svg:mermaid", ".mmd"),
    "svg": Maker("graph_svg:export", ".svg"),
    "timeline": Maker("timeline_svg:export", ".svg"),
    "report": Maker("report:export", ".html"),
    "table": Maker("table:export", ".csv"),
    "otel": Maker("otel:export", ".jsonl"),
    "prov": Maker("prov:export", ".json"),
    "ro-crate": Maker("ro_crate:export", ".json"),
    "notebook": Maker("notebook:export", ".ipynb"),
}
