"""The source of an export, and all formats; the module of a format is loaded on demand.

This module makes ``events``, ``state`` and ``log``, which wfctl itself writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import merge
from importlib import import_module
from operator import attrgetter
from typing import Any, NamedTuple, cast

from eventstore.event import RecordedEvent
from eventstore.store import Raw
from eventstore.transfer.archive import export_line
from lifecycle.fold.evolve import find_proposed_id
from lifecycle.state.workflow import Amendment, Workflow
from projections.files import progress_log, state_document
from projections.words.text import without_controls

#: Events that may change the status of stages without naming them.
_OF_ALL = frozenset({"workflow.created", "workflow.imported", "state.imported"})

Steps = Iterator[tuple[RecordedEvent, Workflow]]
"""Events in order, each with the state after it: one object, changed from step to step."""


@dataclass(frozen=True, slots=True)
class ExportSource:
    """One stream up to a moment. Each call reads again from the first event.

    ``raw`` yields the events as they were hashed; ``state`` is the state at the end. ``license`` is
    the licence of the data, a URI or text. ``content`` returns the bytes of a recorded file, None
    if the file is missing or changed. ``carried`` maps the files in the same crate to their
    SHA-256.
    """

    steps: Callable[[], Steps]
    raw: Callable[[], Iterator[Raw]]
    state: Callable[[], Workflow]
    license: str | None = None
    content: Callable[[Mapping[str, Any]], bytes | None] = lambda _: None
    carried: Mapping[str, str] = field(default_factory=dict)


def list_touched_stages(event: RecordedEvent, state: Workflow) -> list[str]:
    """Return the stages whose status the event may have changed."""
    if event.type in _OF_ALL:
        return list(state.stages)
    named = event.data.get("stage")
    return [named] if named in state.stages else []


def amended_by(event: RecordedEvent, state: Workflow) -> tuple[Amendment, bool] | None:
    """Return the amendment that an event proposes (with True) or decides (with False), or None."""
    proposed = find_proposed_id(event)
    amendment = state.amendments.get(proposed or str(event.data.get("amendment")))
    decides = event.type in ("amendment.approved", "amendment.rejected")
    if amendment is None or not (proposed or (decides and event.type.endswith(amendment.status))):
        return None
    return amendment, proposed is not None


def export_events(source: ExportSource) -> Iterator[str]:
    """Yield the recorded events, one JSON line each, as they were hashed.

    Anyone can check the chain (docs/trust/verify-without-wfctl.md).
    """
    return (export_line(raw) + "\n" for raw in source.raw())


def export_state(source: ExportSource) -> Iterator[str]:
    """Yield ``workflow-state.json``."""
    yield state_document.render_state(source.state()).decode()


def export_log(source: ExportSource) -> Iterator[str]:
    """Yield ``progress.log`` in parts; bytes that are not UTF-8 become lone surrogates."""
    steps = (progress_log.build_piece(*step) for step in source.steps())
    in_order = (part for part in steps if part is not None and part.version == part.recorded)
    # Foreign lines with an earlier position are read twice, to keep few lines in memory.
    displaced = []
    for event, after in source.steps():
        if event.type == "note.logged" and event.data.get("after") is not None:
            part = progress_log.build_piece(event, after)
            if part is not None and part.version != event.version:
                displaced.append(part)
    displaced.sort(key=attrgetter("place"))
    for content in progress_log.iterate_bytes(merge(displaced, in_order, key=attrgetter("place"))):
        yield content.decode("utf-8", "surrogateescape")


class ExportFormat(StrEnum):
    """The names of the formats. An archive is a zip file of several formats, without a maker."""

    STATE = "state"
    LOG = "log"
    EVENTS = "events"
    MERMAID = "mermaid"
    SVG = "svg"
    TIMELINE = "timeline"
    REPORT = "report"
    TABLE = "table"
    RO_CRATE = "ro-crate"
    NOTEBOOK = "notebook"
    ARCHIVE = "archive"


class Maker(NamedTuple):
    """The function that makes a format: ``module:function``, from a source to chunks of text.

    ``chained``: the events contain the hash chain, so the export can end only at a version.
    """

    place: str
    suffix: str
    chained: bool = False

    def chunks(self, source: ExportSource) -> Iterator[str]:
        """Yield the text of the export; bytes that are not UTF-8 become lone surrogates."""
        module, _, function = self.place.partition(":")
        made = getattr(import_module(f"extensions.exports.{module}"), function)
        chunks = cast("Iterator[str]", made(source))
        is_exact = self.chained or not self.suffix.startswith((".json", ".ipynb"))
        return chunks if is_exact else map(without_controls, chunks)


FORMATS: dict[str, Maker] = {
    "state": Maker("formats:export_state", ".json"),
    "log": Maker("formats:export_log", ".log"),
    "events": Maker("formats:export_events", ".jsonl", chained=True),
    "mermaid": Maker("graph_svg:export_mermaid", ".mmd"),
    "svg": Maker("graph_svg:export_graph", ".svg"),
    "timeline": Maker("timeline_svg:export_timeline", ".svg"),
    "report": Maker("report:export_report", ".html"),
    "table": Maker("table:export_table", ".csv"),
    "ro-crate": Maker("ro_crate:export_crate", ".json"),
    "notebook": Maker("notebook:export_notebook", ".ipynb"),
}
