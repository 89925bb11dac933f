"""Compute the time that each stage spent in each status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lifecycle.state.status import Status
from service.reading.log import WorkflowLog
from service.reading.point_in_history import Moment
from service.root.atomic_files import system_clock, utc_text

_ORDER = [status.value for status in Status]


def status_times(
    rows: Sequence[dict[str, Any]], log: WorkflowLog, at: Moment | None
) -> list[dict[str, Any]]:
    """Return how often and how long each stage had each status.

    ``rows`` are results of the database query `questions.TIMES`. The current status lasts until the
    given moment, or until now without a given moment.
    """
    from projections.words.text import compute_seconds  # imports SQLAlchemy

    state = log.state(at)
    if state is None:
        return []
    stages = list(state.stages)
    until = _find_view_end_time(log, at)
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        name, status = row["stage"], row["status"]
        empty = {"stage": name, "status": status, "times": 0, "seconds": 0.0, "is_open": False}
        entry = found.setdefault((name, status), empty)
        entry["times"] += row["times"]
        if row["since"] is not None:
            entry["is_open"] = True
            entry["seconds"] += max(0.0, compute_seconds(row["since"], until) or 0.0)
        entry["seconds"] = round(entry["seconds"] + (row["seconds"] or 0.0), 6)

    def place(names: Sequence[str], name: str) -> int:
        return names.index(name) if name in names else len(names)

    return sorted(
        found.values(), key=lambda e: (place(stages, e["stage"]), place(_ORDER, e["status"]))
    )


def _find_view_end_time(log: WorkflowLog, at: Moment | None) -> str:
    if at is None:
        return utc_text(system_clock())
    times = [time for time in (at.so_by, at.known_by) if time is not None]
    return min(times) if times else max(event.occurred_at for event in log.events(at))
