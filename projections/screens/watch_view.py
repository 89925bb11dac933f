"""The live view of a workflow: stages, running attempts, open decisions and log lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

from rich.text import Text

from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from projections.words.account import list_waiting_items
from projections.words.stage_progress import StageProgress, format_stage_progress
from projections.words.text import (
    describe_waiting_reason,
    format_elapsed,
    mark_invisible_characters,
)

SIGNS = {
    Status.PENDING: "·",
    Status.READY: "○",
    Status.PREPARING: "◐",
    Status.RUNNING: "▶",
    Status.POST_PROCESSING: "◑",
    Status.COMPLETED: "✓",
    Status.FAILED: "✗",
    Status.INVALIDATED: "↺",
    Status.SKIPPED: "»",
}
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
_AT_WORK = frozenset({Status.PREPARING, Status.RUNNING, Status.POST_PROCESSING, Status.FAILED})


#: Maximum number of lines for each of the sections running attempts, decisions and log, if the
#: window is too small for everything.
_SHARE = 5


class View(NamedTuple):
    """The lines of the live view, and the maximum scroll position of its list of stages."""

    lines: tuple[Text, ...]
    bottom: int


def render_frame(
    state: Workflow,
    log: Sequence[str],
    now: datetime,
    size: tuple[int, int],
    scrolled: int | None = None,
    progress: Mapping[str, StageProgress] = MappingProxyType({}),
) -> View:
    """Return the lines of the live view for a window of ``size`` (columns, lines).

    ``log`` contains the newest messages, oldest first. ``progress`` contains the progress
    of running stages, by stage id. If the stages do not fit, ``scrolled`` is the index of the first
    visible stage, or None to show the stages that are running.
    """
    width, height = size
    status = f"  {state.workflow_status or 'active'}, plan version {state.version}, "
    title = Text(state.id, style="bold").append(f"{status}log version {state.head}", "dim")
    head = [title, _format_counts(state), Text()]
    every = state.stages.values()
    stages = [Text(f"{SIGNS[s.status]} {s.id} {s.name}", STYLES[s.status]) for s in every]
    running = [
        line
        for stage in every
        if stage.open_attempt is not None
        for line in _format_attempt(stage, now, progress.get(stage.id))
    ]
    waiting = [Text(str(wait), "yellow") for wait in list_waiting_items(state)]
    below = _format_section("running", running) + _format_section("waits for a person", waiting)
    logged = [Text(" ".join(line.split())) for line in log]
    bottom = 0
    if len(head) + len(stages) + len(below) > height:
        below = _format_section("running", _limit_lines(running)) + _format_section(
            "waits for a person", _limit_lines(waiting)
        )
        room = max(height - len(head) - len(below) - _SHARE, 3)
        bottom = max(len(stages) - room, 0)
        first = _first_visible_stage_index(every) if scrolled is None else scrolled
        stages = _select_visible_stage_lines(stages, min(max(first, 0), bottom), room)
    lines = [*head, *stages, *below]
    room = height - len(lines) - 2
    if room > 0:
        lines += _format_section("log", logged[-room:])
    return View(tuple(_fit_line(line, width) for line in lines[:height]), bottom)


def _fit_line(line: Text, width: int) -> Text:
    """Return a line shortened to the width, with visible marks for invisible characters."""
    line = line.copy()
    line.plain = mark_invisible_characters(line.plain)
    line.truncate(width, overflow="ellipsis")
    return line


def _limit_lines(lines: list[Text]) -> list[Text]:
    if len(lines) <= _SHARE:
        return lines
    return [*lines[: _SHARE - 1], Text(f"and {len(lines) - _SHARE + 1} more", "dim")]


def _select_visible_stage_lines(stages: Sequence[Text], first: int, room: int) -> list[Text]:
    """Return ``room`` stage lines, starting at index ``first``.

    If lines above or below are hidden, the first or last line states how many.
    """
    shown = list(stages[first : first + room])
    below = len(stages) - first - len(shown)
    if first:
        shown[0] = Text(f"… {first + 1} lines above (k or ↑)", "dim")
    if below:
        shown[-1] = Text(f"… {below + 1} lines below (j or ↓)", "dim")
    return shown


def _first_visible_stage_index(stages: Iterable[Stage]) -> int:
    """Return the index of the first stage line to show.

    It is two lines above the first running or failed stage, or 0 if there is no such stage.
    """
    at_work = (n for n, stage in enumerate(stages) if stage.status in _AT_WORK)
    return max(next(at_work, 0) - 2, 0)


def _format_counts(state: Workflow) -> Text:
    counts = Counter(stage.status for stage in state.stages.values())
    text = Text(f"{len(state.stages)} stages: ", "dim")
    told = [(status, counts[status]) for status in Status if counts[status]]
    for number, (status, count) in enumerate(told):
        text.append(", " if number else "", "dim")
        text.append(f"{count} {status.value}", STYLES[status])
    return text


def _format_section(title: str, lines: Sequence[Text]) -> list[Text]:
    """Return lines under a heading, or an empty list if there are no lines."""
    return [Text(), Text(title, style="bold"), *lines] if lines else []


def _format_attempt(stage: Stage, now: datetime, progress: StageProgress | None) -> Iterator[Text]:
    attempt = stage.attempts[-1]
    line = Text(f"{stage.id} {attempt.id}", style=STYLES[stage.status])
    line.append(f"  {format_elapsed(attempt.started_at, now)}")
    jobs = f", jobs {', '.join(attempt.job_ids)}" if attempt.job_ids else ""
    verdict = f", {attempt.verdict}" if attempt.verdict else ""
    yield line.append(f"  {stage.status.value}, {attempt.mode}{jobs}{verdict}", "dim")
    if waits := describe_waiting_reason(attempt):
        yield Text(f"  {waits}")
    if progress is not None and progress.has_bar:
        yield Text(f"  {format_stage_progress(progress)}")
