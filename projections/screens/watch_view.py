"""What `wfctl watch` shows: graph, counts, running attempts, decisions, the log's last lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

from rich.text import Text

from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from projections.drawing.terminal import SIGNS, drawn
from projections.words.account import waits
from projections.words.came_about import line_of
from projections.words.text import marked, seconds, told_span, waiting_told

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


#: Lines that running attempts, decisions and the log get at most where not all fits.
_SHARE = 5
#: Stages that are drawn as a graph; more are listed.
_DRAWN = 300


class View(NamedTuple):
    """A frame, and how far down the stages can be scrolled."""

    lines: tuple[Text, ...]
    bottom: int


def graph(state: Workflow, width: int) -> list[Text]:
    """Return the lines that show the stages; it takes a while where there are many."""
    if len(state.stages) > _DRAWN:
        every = state.stages.values()
        return [Text(f"{SIGNS[s.status]} {s.id} {s.name}", STYLES[s.status]) for s in every]
    return [
        Text.assemble(
            *((part.text, STYLES[part.status] if part.status else "dim") for part in line)
        )
        for line in drawn(state, width)
    ]


def frame(
    state: Workflow,
    stages: Sequence[Text],
    log: Sequence[str],
    now: datetime,
    size: tuple[int, int],
    scrolled: int | None = None,
    told: Mapping[str, Mapping[str, int]] = MappingProxyType({}),
) -> View:
    """Return what a window of ``size`` (columns, lines) shows.

    ``stages`` are the lines of `graph`; ``log`` holds the newest messages, oldest first; ``told``
    says by stage how many tasks stand where. ``scrolled`` is the first line of the stages that is
    shown where not all fit; None follows what is at work. Equal frames look the same.
    """
    width, height = size
    status = f"  {state.workflow_status or 'active'}, plan version {state.version}, "
    title = Text(state.id, style="bold").append(f"{status}log version {state.head}", "dim")
    head = [title, _counts(state), Text()]
    stages_ = state.stages.values()
    running = [
        line
        for stage in stages_
        if stage.open_attempt is not None
        for line in _attempt(stage, now, told.get(stage.id))
    ]
    waiting = [Text(str(wait), "yellow") for wait in waits(state)]
    below = _section("running", running) + _section("waits for a person", waiting)
    logged = [Text(" ".join(line.split())) for line in log]
    bottom = 0
    if len(head) + len(stages) + len(below) > height:
        below = _section("running", _few(running)) + _section("waits for a person", _few(waiting))
        room = max(height - len(head) - len(below) - _SHARE, 3)
        bottom = max(len(stages) - room, 0)
        first = _first_at_work(state, stages) if scrolled is None else scrolled
        stages = _window(stages, min(max(first, 0), bottom), room)
    lines = [*head, *stages, *below]
    room = height - len(lines) - 2
    if room > 0:
        lines += _section("log", logged[-room:])
    return View(tuple(_fitted(line, width) for line in lines[:height]), bottom)


def _fitted(line: Text, width: int) -> Text:
    """Return a line in which nobody's words paint over what waits for a person."""
    line = line.copy()
    line.plain = marked(line.plain)
    line.truncate(width, overflow="ellipsis")
    return line


def _few(lines: list[Text]) -> list[Text]:
    if len(lines) <= _SHARE:
        return lines
    return [*lines[: _SHARE - 1], Text(f"and {len(lines) - _SHARE + 1} more", "dim")]


def _window(stages: Sequence[Text], first: int, room: int) -> list[Text]:
    """Return so many lines from ``first`` on, the outer ones counting what is hidden."""
    shown = list(stages[first : first + room])
    below = len(stages) - first - len(shown)
    if first:
        shown[0] = Text(f"… {first + 1} lines above (k or ↑)", "dim")
    if below:
        shown[-1] = Text(f"… {below + 1} lines below (j or ↓)", "dim")
    return shown


def _first_at_work(state: Workflow, stages: Sequence[Text]) -> int:
    """Return the line before the first stage that is at work or failed, else the first."""
    wanted = {stage.id for stage in state.stages.values() if stage.status in _AT_WORK}
    found = (n for n, line in enumerate(stages) if wanted & set(line.plain.split()))
    return max(next(found, 0) - 2, 0)


def _counts(state: Workflow) -> Text:
    counts = Counter(stage.status for stage in state.stages.values())
    text = Text(f"{len(state.stages)} stages: ", "dim")
    told = [(status, counts[status]) for status in Status if counts[status]]
    for number, (status, count) in enumerate(told):
        text.append(", " if number else "", "dim")
        text.append(f"{count} {status.value}", STYLES[status])
    return text


def _section(title: str, lines: Sequence[Text]) -> list[Text]:
    """Return lines under a heading; nothing if there are no lines."""
    return [Text(), Text(title, style="bold"), *lines] if lines else []


def _attempt(stage: Stage, now: datetime, counts: Mapping[str, int] | None) -> Iterator[Text]:
    attempt = stage.attempts[-1]
    line = Text(f"{stage.id} {attempt.id}", style=STYLES[stage.status])
    line.append(f"  {elapsed(attempt.started_at, now)}")
    jobs = f", jobs {', '.join(attempt.job_ids)}" if attempt.job_ids else ""
    verdict = f", {attempt.verdict}" if attempt.verdict else ""
    yield line.append(f"  {stage.status.value}, {attempt.mode}{jobs}{verdict}", "dim")
    if waits := waiting_told(attempt):
        yield Text(f"  {waits}")
    if counts is not None:
        yield Text(f"  {line_of(counts)}")


def elapsed(since: str, now: datetime) -> str:
    """Return the time from one of the log's until now: ``4 s``, ``3 min 20 s``, ``5 h 12 min``."""
    found = seconds(since, now.isoformat())
    if found is None:
        return "since an unknown time"  # typed by hand in an imported file
    return told_span(max(int(found), 0))
