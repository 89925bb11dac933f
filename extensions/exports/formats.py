"""The data source of an export, and the list of all export formats.

The module of a format is imported only when the format is used. This module contains the formats
``events``, ``state`` and ``log``.
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
from eventstore.store import RawEvent
from eventstore.transfer.archive import export_line
from lifecycle.fold.evolve import find_proposed_id
from lifecycle.state.workflow import Amendment, Workflow
from projections.files import progress_log, state_document
from projections.words.text import escape_json_controls

#: Types of events that may change the status of many stages without naming them.
_OF_ALL = frozenset({"workflow.created", "workflow.imported", "state.imported"})

Steps = Iterator[tuple[RecordedEvent, Workflow]]
"""Events in order, each with the state after it: one object, changed from step to step."""


@dataclass(frozen=True, slots=True)
class ExportSource:
    """The events and the state of a workflow up to a moment, for an export.

    Each call of ``steps`` or ``raw`` starts again at the first event. ``raw`` yields the events as
    they were hashed. ``state`` returns the state at the end. ``license`` is the licence of the
    data, a URI or text. ``content`` returns the bytes of a recorded file, or None if the file is
    missing or changed. ``carried`` maps the files in the same RO-Crate to their SHA-256.
    """

    steps: Callable[[], Steps]
    raw: Callable[[], Iterator[RawEvent]]
    state: Callable[[], Workflow]
    license: str | None = None
    content: Callable[[Mapping[str, Any]], bytes | None] = lambda _: None
    carried: Mapping[str, str] = field(default_factory=dict)


def list_touched_stages(event: RecordedEvent, state: Workflow) -> list[str]:
    """Return the ids of the stages whose status the event may have changed."""
    if event.type in _OF_ALL:
        return list(state.stages)
    named = event.data.get("stage")
    return [named] if named in state.stages else []


def find_event_amendment(event: RecordedEvent, state: Workflow) -> tuple[Amendment, bool] | None:
    """Return the amendment (plan change) that an event proposes or decides, or None.

    The second value is true if the event proposes the amendment, false if it decides.
    """
    proposed = find_proposed_id(event)
    amendment = state.amendments.get(proposed or str(event.data.get("amendment")))
    decides = event.type in ("amendment.approved", "amendment.rejected")
    if amendment is None or not (proposed or (decides and event.type.endswith(amendment.status))):
        return None
    return amendment, proposed is not None


def export_events(source: ExportSource) -> Iterator[str]:
    """Yield the recorded events in the form that was hashed, one JSON line for each event.

    Anyone can check the hash chain: see docs/trust/verify-without-wfctl.md.
    """
    return (export_line(raw) + "\n" for raw in source.raw())


def export_state(source: ExportSource) -> Iterator[str]:
    """Yield the content of ``workflow-state.json``."""
    yield state_document.render_state(source.state()).decode()


def export_log(source: ExportSource) -> Iterator[str]:
    """Yield the content of ``progress.log`` in parts.

    Bytes that are not UTF-8 are returned as lone surrogates.
    """
    steps = (progress_log.build_piece(*step) for step in source.steps())
    in_order = (
        part for part in steps if part is not None and part.version == part.recorded_version
    )
    # Lines that other programs wrote may belong before events that were recorded earlier. Collect
    # them in a separate pass, so that few lines are in memory.
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
    """The names of the export formats.

    An archive has no entry in `FORMATS`, because it is a zip file that combines several formats.
    """

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
    PLAN = "plan"
    ARCHIVE = "archive"


class FormatExporter(NamedTuple):
    """The function that writes a format (``module:function``), and its file suffix.

    ``chained`` is true if the format includes the hash chain. Such an export can end at a version
    of the workflow, but not at a time.
    """

    place: str
    suffix: str
    chained: bool = False

    def chunks(self, source: ExportSource) -> Iterator[str]:
        """Yield the text of the export in parts.

        Bytes that are not UTF-8 are returned as lone surrogates.
        """
        module, _, function = self.place.partition(":")
        made = getattr(import_module(f"extensions.exports.{module}"), function)
        chunks = cast("Iterator[str]", made(source))
        is_exact = self.chained or not self.suffix.startswith((".json", ".ipynb"))
        return chunks if is_exact else map(escape_json_controls, chunks)


FORMATS: dict[str, FormatExporter] = {
    "state": FormatExporter("formats:export_state", ".json"),
    "log": FormatExporter("formats:export_log", ".log"),
    "events": FormatExporter("formats:export_events", ".jsonl", chained=True),
    "mermaid": FormatExporter("graph_svg:export_mermaid", ".mmd"),
    "svg": FormatExporter("graph_svg:export_graph", ".svg"),
    "timeline": FormatExporter("timeline_svg:export_timeline", ".svg"),
    "report": FormatExporter("report:export_report", ".html"),
    "table": FormatExporter("table:export_table", ".csv"),
    "ro-crate": FormatExporter("ro_crate:export_crate", ".json"),
    "notebook": FormatExporter("notebook:export_notebook", ".ipynb"),
    "plan": FormatExporter("plan_toml:export_plan", ".toml"),
}
