"""What others did to the files and to the log itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from service.questions.integrity import check_integrity
from service.reading.log import WorkflowLog
from service.root.root import Root

Record = dict[str, Any]


def drift_records(rows: Iterable[Record]) -> Iterator[Record]:
    """Yield a record for each event of drift, from the rows of `questions.DRIFT`."""
    for row in rows:
        data = row["data"]
        if row["type"].startswith("results."):
            yield from _of_results(row)
            continue
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


def _of_results(row: Record) -> Iterator[Record]:
    """Yield a record for each result that was seen changed, or was adopted."""
    data = row["data"]
    is_adopted = row["type"] == "results.adopted"
    for one in data["outputs"] if is_adopted else data["files"]:
        yield {
            "version": row["version"],
            "at": row["occurred_at"],
            "what": "adopted" if is_adopted else "detected",
            "file": one["path"],
            "actor": row["actor"],
            "kind": "result" if is_adopted else f"{one['kind']} result",
            "fields": [],
            "kept_as": None,
            "detected": None,
            "message": data.get("reason"),
        }


def _name(difference: Record) -> str:
    path = difference.get("path")
    steps = [difference.get("stage"), *(path if isinstance(path, list) else [path])]
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
