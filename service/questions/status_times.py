"""How long each stage was in each status, the one it is in included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lifecycle.state.status import Status
from projections.words.text import seconds
from service.reading.log import WorkflowLog
from service.reading.moment import Moment
from service.root.disk import system_clock, utc_text

_ORDER = [status.value for status in Status]


def status_times(
    rows: Sequence[dict[str, Any]], log: WorkflowLog, at: Moment | None
) -> list[dict[str, Any]]:
    """Return by stage and status how often and how long, from the rows of `questions.TIMES`.

    The present status counts until the moment: its time, else that of the last event seen from it;
    without a moment, until now.
    """
    state = log.state(at)
    if state is None:
        return []
    stages = list(state.stages)
    until = _until(log, at)
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        name, status = row["stage"], row["status"]
        empty = {"stage": name, "status": status, "times": 0, "seconds": 0.0, "is_open": False}
        entry = found.setdefault((name, status), empty)
        entry["times"] += row["times"]
        if row["since"] is not None:
            entry["is_open"] = True
            entry["seconds"] += max(0.0, seconds(row["since"], until) or 0.0)
        entry["seconds"] = round(entry["seconds"] + (row["seconds"] or 0.0), 6)
    return sorted(
        found.values(), key=lambda e: (_place(stages, e["stage"]), _place(_ORDER, e["status"]))
    )


def _place(names: Sequence[str], name: str) -> int:
    return names.index(name) if name in names else len(names)


def _until(log: WorkflowLog, at: Moment | None) -> str:
    if at is None:
        return utc_text(system_clock())
    times = [time for time in (at.so_by, at.known_by) if time is not None]
    if times:
        return min(times)
    return max(event.occurred_at for event in log.events(at))
