"""What others did to the files and to the log itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from service.integrity import check_integrity
from service.log import WorkflowLog
from service.root import Root

Record = dict[str, Any]


def drift_records(rows: Iterable[Record]) -> Iterator[Record]:
    """Yield a record for each event of drift, from the rows of `questions.DRIFT`."""
    for row in rows:
        data = row["data"]
        yield {
            "version": row["version"],
            "at": row["occurred_at"],
            "what": row["type"].removeprefix("drift."),
            "file": data["file"],
            "actor": row["actor"],
            "kind": data.get("kind"),
            "fields": [_name(difference) for difference in data.get("differences", [])],
            "kept_as": data.get("kept_as"),
            "detected": data.get("detected"),
            "message": None,
        }


def _name(difference: Record) -> str:
    steps = [difference.get("stage"), *(difference.get("path") or [])]
    return ".".join(str(step) for step in steps if step is not None)


def tampering_records(root: Root, log: WorkflowLog) -> Iterator[Record]:
    """Yield a record for everything that is wrong with the log."""
    for finding in check_integrity(root, log):
        yield {
            "version": finding.version,
            "at": None,
            "what": "tampering",
            "file": None,
            "actor": None,
            "kind": finding.kind,
            "fields": [],
            "kept_as": None,
            "detected": None,
            "message": finding.message,
        }
