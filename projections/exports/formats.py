"""Every format there is, and what makes it. A format's module is loaded where it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module

from projections.exports.plain import ExportSource


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
    ARCHIVE = "archive"


@dataclass(frozen=True, slots=True)
class Maker:
    """What makes a format: ``module:function``, from a source to chunks of text.

    ``chained``: its events carry the chain, which can be cut at a version only.
    """

    place: str
    suffix: str
    chained: bool = False

    def chunks(self, source: ExportSource) -> Iterator[str]:
        """Yield the export's text; bytes that are no UTF-8 as lone surrogates."""
        module, _, function = self.place.partition(":")
        found: Iterator[str] = getattr(import_module(f"projections.exports.{module}"), function)(
            source
        )
        return found


FORMATS: dict[str, Maker] = {
    "state": Maker("plain:state", ".json"),
    "log": Maker("plain:log", ".log"),
    "events": Maker("plain:events", ".jsonl", chained=True),
    "mermaid": Maker("mermaid:export", ".mmd"),
    "svg": Maker("graph_svg:export", ".svg"),
    "timeline": Maker("timeline_svg:export", ".svg"),
    "report": Maker("report:export", ".html"),
    "table": Maker("table:export", ".csv"),
    "otel": Maker("otel:export", ".jsonl"),
    "prov": Maker("prov:export", ".json"),
    "ro-crate": Maker("ro_crate:export", ".json"),
}
