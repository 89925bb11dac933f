"""What `wfctl watch` shows: graph, running attempts, pending decisions, the log's last lines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.text import Text

from lifecycle.status import Status
from lifecycle.workflow import Stage, Workflow
from projections.terminal_graph import Part, drawn

STYLES = {
    Status.READY: "cyan",
    Status.PREPARING: "blue",
    Status.RUNNING: "bold blue",
    Status.POST_PROCESSING: "magenta",
    Status.COMPLETED: "green",
    Status.FAILED: "bold red",
    Status.INVALIDATED: "yellow",
    Status.PENDING: "dim",
    Status.SKIPPED: "dim",
}

_SPOILT = "\N{REPLACEMENT CHARACTER}"


def frame(
    state: Workflow, log: Sequence[str], now: datetime, width: int, height: int
) -> tuple[Text, ...]:
    """Return the lines for a window; ``log`` holds the newest messages, oldest first.

    Equal frames look the same. Where the window is too low the log gives way first.
    """
    lines = [_header(state), Text(), *map(_graph_line, drawn(state, width))]
    lines += _section("running", _running(state, now))
    lines += _section("waits for a person", _decisions(state))
    room = height - len(lines) - 2
    if room > 0:
        lines += _section("log", [Text(" ".join(line.split())) for line in log[-room:]])
    for line in lines:
        # What others wrote must not paint over what waits for a person.
        line.plain = "".join(c if c.isprintable() else _SPOILT for c in line.plain)
        line.truncate(width, overflow="ellipsis")
    return tuple(lines[:height])


def _header(state: Workflow) -> Text:
    status = state.workflow_status or "active"
    text = Text(state.id, style="bold")
    return text.append(f"  {status}, plan version {state.version}, log version {state.head}", "dim")


def _graph_line(parts: Sequence[Part]) -> Text:
    line = Text()
    for part in parts:
        line.append(part.text, STYLES[part.status] if part.status is not None else "dim")
    return line


def _section(title: str, lines: Sequence[Text]) -> list[Text]:
    """Return lines under a heading, nothing where there are none."""
    return [Text(), Text(title, style="bold"), *lines] if lines else []


def _running(state: Workflow, now: datetime) -> list[Text]:
    stages = [stage for stage in state.stages.values() if stage.open_attempt is not None]
    return [_attempt(stage, now) for stage in stages]


def _attempt(stage: Stage, now: datetime) -> Text:
    attempt = stage.attempts[-1]
    line = Text(f"{stage.id} {attempt.id}", style=STYLES[stage.status])
    line.append(f"  {elapsed(attempt.started_at, now)}")
    jobs = f", jobs {', '.join(attempt.job_ids)}" if attempt.job_ids else ""
    verdict = f", {attempt.verdict}" if attempt.verdict else ""
    return line.append(f"  {stage.status.value}, {attempt.mode}{jobs}{verdict}", "dim")


def _decisions(state: Workflow) -> list[Text]:
    amendments = [
        Text(f"{a.id} ({a.kind}, {a.stage or 'workflow'}): {a.description}", "yellow")
        for a in state.pending_amendments
    ]
    drifts = [
        Text(f"{d.file} was changed by hand: adopt or revert", "yellow") for d in state.drifts
    ]
    return [*amendments, *drifts]


def elapsed(since: str, now: datetime) -> str:
    """Return the time from one of the log's until now: ``4 s``, ``3 min 20 s``, ``5 h 12 min``."""
    try:
        seconds = max(int((now - datetime.fromisoformat(since)).total_seconds()), 0)
    except (TypeError, ValueError):
        return "since an unknown time"  # typed by hand in an imported file
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"
