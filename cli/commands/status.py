"""``wfctl status``: where it stands, on a screen."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from cli.frame.options import AsOf, option
from cli.frame.workspace import Reading, journal_of, reading, settings_of
from cli.settings import Color, Format
from cli.terminal.output import Output
from lifecycle.rules.impact import acting_on
from lifecycle.state.conditions import reason
from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage as StageState
from lifecycle.state.workflow import Workflow
from lifecycle.sweeps.definition import is_sweep
from projections.files.progress_log import message
from projections.words.account import Seen, account, stale, to_dicts, waits
from projections.words.amendments import held
from projections.words.answers import answers
from projections.words.came_about import decisions, line_of, missing
from projections.words.mandates import standings
from projections.words.text import clipped, utc_seconds, waiting_told
from service.consent.doubts import doubts_of
from service.errors import InvalidOption
from service.files.inspection import kept
from service.reading import stream_log
from service.root.disk import system_clock
from service.root.root import original_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from cli.commands.machine.reads import MachineFollower
    from projections.screens.watch_view import View
    from projections.words.rounds import LoopTold
    from reconciler.loop.detached import Detached
    from service.reading.moment import Moment
    from service.root.root import Root


#: Stages that are listed one by one; of more than these only so many that want a look.
_SCREEN, _FEW_STAGES = 20, 8
#: Characters of a line that others may have written.
_WIDE = 160
#: Those that want a look, the most urgent first.
_TOLD_FIRST = (
    Status.FAILED,
    Status.RUNNING,
    Status.PREPARING,
    Status.POST_PROCESSING,
    Status.INVALIDATED,
    Status.READY,
)
_NOT_BEGUN = (Status.PENDING, Status.READY, Status.INVALIDATED)
_COLORS = {
    Status.COMPLETED: "32",
    Status.RUNNING: "36",
    Status.PREPARING: "36",
    Status.POST_PROCESSING: "36",
    Status.READY: "34",
    Status.FAILED: "31",
    Status.INVALIDATED: "33",
}


def status(context: typer.Context, view: AsOf = None) -> None:
    """Show the state of the workflow and the next step."""
    with reading(context) as workflow:
        found = status_of(workflow, view)
        state, seen = found.state, found.seen
        workflow.output.result(
            found.data,
            lambda: _with_runner(
                _text(state, found.notices, workflow.output, found.tasks, seen), found.data
            ),
            state=state,
            seen=seen,
        )


class StatusAnswer(NamedTuple):
    """Where a workflow stands: ``data`` is the answer, ``notices`` are what people are told."""

    data: dict[str, Any]
    notices: list[str]
    state: Workflow
    tasks: dict[str, dict[str, int]]
    seen: Seen | None


def status_of(workflow: Reading, view: Moment | None = None) -> StatusAnswer:
    """Return where a workflow stands, or stood at a moment."""
    state = workflow.state(view)
    is_now = view is None
    seen: Seen | None = None
    files: list[str] = []
    doubts: list[str] = []
    if is_now:
        from reconciler.files.freshness import look

        seen = look(workflow.root, workflow.log, state)
        files += (f"{name} {text}" for name, text in seen.files.items())
        files += map(kept, state.drifts)
        doubts += doubts_of(workflow.log.approvals, state)
    stands = account(state, seen)
    told = _tasks(workflow, state, live=is_now)
    journal = journal_of(workflow.root)
    original = original_of(workflow.root)
    marks = [str(one) for one in seen.log] if seen is not None else []
    runner = _last_runner(workflow.root) if is_now else None
    notices = [*marks, *([f"this root is a copy of {original}"] if original else [])]
    notices += files + doubts + stream_log.told(state)
    notices += [str(one) for one in stands if not one.person and str(one) not in marks]
    if journal and journal.mode != "wal":
        notices.append(f"the log has a {journal.mode} journal: {journal.reason}")
    data = {
        "workflow": state.id,
        "status": state.workflow_status or "active",
        "purpose": state.purpose,
        "results": [one.to_dict() for one in answers(state, seen)],
        "workflow_version": state.version,
        "stages": [_summary(state, one, told.get(one.id)) for one in state.stages.values()],
        "pending_amendments": [a.id for a in state.pending_amendments],
        "copy_of": original,
        "files": files,
        "set_aside": state.set_aside,
        "account": to_dicts(stands),
        "stale": stale(state, seen.deviations) if seen else {},
        "changed": [one.to_dict() for one in seen.deviations if one.what == "result"]
        if seen
        else [],
        "consent": {"policy": state.consent, "warnings": doubts, "decisions": decisions(state)},
        "mandates": [one.to_dict() for one in standings(state)],
        "rounds": [one.to_dict() for one in _loops(state)],
        "journal": journal._asdict() if journal else None,
        **({"runner": {**runner.to_dict(), "text": str(runner)}} if runner is not None else {}),
    }
    return StatusAnswer(data, notices, state, told, seen)


def _last_runner(root: Root) -> Detached | None:
    """Return the autonomous runner that was started last, None if an attended loop followed it."""
    if not root.runner_record.exists():
        return None
    from reconciler.loop.detached import last_runner  # only where a runner was

    return last_runner(root)


def _summary(state: Workflow, stage: StageState, tasks: dict[str, int] | None) -> dict[str, Any]:
    unmet = list(state.unmet(stage)) if stage.status in _NOT_BEGUN else []
    return {
        "id": stage.id,
        "name": stage.name,
        "status": stage.status.value,
        "depends_on": stage.depends_on,
        "retry_count": stage.retry_count,
        "last_error": stage.error,
        "attempt": stage.attempt.id if stage.attempt else None,
        "started_at": stage.started_at,
        "completed_at": stage.completed_at,
        **({"waits_for": unmet} if unmet else {}),
        **({"tasks": tasks} if tasks else {}),
    }


def _tasks(workflow: Reading, state: Workflow, *, live: bool) -> dict[str, dict[str, int]]:
    """Return by stage how many tasks stand where; what runs is looked at where it is ``live``."""
    stages = [stage for stage in state.stages.values() if is_sweep(stage.parameters)]
    if not stages:
        return {}
    from reconciler.sweep.tasks import counts_told

    root = workflow.root.path
    found = {one.id: counts_told(root, state, one, live=live) for one in stages}
    return {id_: counts for id_, counts in found.items() if counts is not None}


def _text(
    state: Workflow,
    notices: list[str],
    output: Output,
    told: dict[str, dict[str, int]],
    seen: Seen | None,
) -> str:
    found = [
        clipped(str(one), _WIDE) for one in answers(state, seen) if state.is_finished or one.number
    ]
    lines = [output.style(one, "1") for one in _few(found, 3)] if state.is_finished else []
    lines += [
        (
            f"{output.style(state.id, '1')}  {state.workflow_status or 'active'}, "
            f"plan version {state.version}, log version {state.head}"
        )
    ]
    lines += [clipped(state.purpose, _WIDE)] if state.purpose else []
    lines += _stages(state, output, told, seen.gone if seen is not None else {})
    lines += [] if state.is_finished else _few((f"so far: {one}" for one in found), 3)
    agreed = (f"{', '.join(_few(ids, 4))} {how}" for how, ids in decisions(state).items())
    lines += _few((f"decided: {one}" for one in agreed), 2)
    lines += _few((f"loop {clipped(str(one), _WIDE)}" for one in _loops(state)), 3)
    lines += _few((f"mandate {clipped(str(one), _WIDE)}" for one in standings(state)), 3)
    waiting = waits(state, seen)
    lines += ["waits for a person:"] if waiting else []
    lines += _few((f"  {clipped(str(one), _WIDE)}" for one in waiting), 4)
    lines += _few((f"warning: {notice}" for notice in notices), 4)
    lines += _few((f"next: {action}" for action in output.next_actions(state, seen)), 4)
    return "\n".join(lines)


def _with_runner(text: str, data: dict[str, Any]) -> str:
    """Put what became of the autonomous runner before the rest: who looks in the morning asks."""
    runner = data.get("runner")
    return text if runner is None else f"{clipped(runner['text'], _WIDE)}\n{text}"


def _loops(state: Workflow) -> list[LoopTold]:
    if not state.loops:
        return []
    from projections.words.rounds import loops_told  # only if there is one

    return loops_told(state)


def _few(lines: Iterable[str], most: int) -> list[str]:
    every = list(lines)
    if len(every) <= most + 1:
        return every
    return [*every[:most], f"  and {len(every) - most} more (`-o json` has all)"]


def _stages(
    state: Workflow,
    output: Output,
    told: dict[str, dict[str, int]],
    gone: Mapping[str, Sequence[str]],
) -> list[str]:
    stages = list(state.stages.values())
    head, most = [], _SCREEN
    if len(stages) > _SCREEN:
        counts = Counter(stage.status for stage in stages)
        known = (f"{counts[one]} {one.value}" for one in Status if counts[one])
        head, most = [f"  {len(stages)} stages: {', '.join(known)}"], _FEW_STAGES
        # Those that want a look.
        stages = [stage for status in _TOLD_FIRST for stage in stages if stage.status is status]
    shown, more = stages[:most], len(stages) - most
    wide = min(max((len(stage.name) for stage in shown), default=0), 40)
    width = max((len(stage.id) for stage in shown), default=9)
    acting = acting_on(state)
    lines = []
    for stage in shown:
        status = output.style(f"{stage.status.value:<15}", _COLORS.get(stage.status, "0"))
        note = _note(state, stage, told, gone, acting)
        line = f"  {stage.id:<{max(width, 9)}} {stage.name[:40]:<{wide}}  {status} {note}"
        lines.append(" ".join(line.splitlines()).rstrip())
    return [*head, *lines, *([f"  and {more} more of these"] if more > 0 else [])]


def _note(
    state: Workflow,
    stage: StageState,
    told: dict[str, dict[str, int]],
    gone: Mapping[str, Sequence[str]],
    acting: Mapping[str, list[str]],
) -> str:
    unmet = list(state.unmet(stage))
    more = f" and {len(unmet) - 3} more" if len(unmet) > 4 else ""
    named = ", ".join(unmet[:3] if more else unmet) + more
    if stage.id in gone:
        return f"taken over, {missing(gone[stage.id])}"
    if stage.status is Status.FAILED:
        return reason(stage)[:100]
    if stage.id in told:
        return line_of(told[stage.id])
    if stage.status is Status.COMPLETED:
        return utc_seconds(stage.completed_at) or ""
    if stage.status is Status.PENDING:
        return f"waits for {named}"
    if stage.status is Status.READY and unmet:
        return f"not yet: {named} is to be completed again"
    if stage.status is Status.READY and stage.id in acting:
        return held(acting[stage.id])
    attempt = stage.open_attempt
    return ": ".join(filter(None, [attempt.id, waiting_told(attempt)])) if attempt else ""


#: Seconds between two looks at the log's head, which cost less than a millisecond each.
_EVERY = 0.25
#: Events before the head that are read for the log's last lines.
_BACK = 60
#: Lines of a view that nobody's window limits.
_TALL = 10_000
#: Key → how far it scrolls, in lines or half screens.
_STEPS = {"j": 1, "k": -1, "\x1b[B": 1, "\x1b[A": -1, " ": 1, "\x1b[6~": 1, "b": -1, "\x1b[5~": -1}
_PAGES = frozenset({" ", "b", "\x1b[6~", "\x1b[5~"})


def watch(
    context: typer.Context,
    once: bool = option("Print one view and exit."),
    machine: str | None = option("ID", "Follow a phase machine instead of the workflow."),
) -> None:
    """Follow the workflow in the terminal.

    Show the graph, running stages, open decisions and the log while it grows. Keys: j and k or the
    arrows, space and b, g and G scroll; f follows the running stages; q quits.
    """
    settings = settings_of(context)
    if settings.format is not Format.TEXT:
        raise InvalidOption(
            "watch is for people: `wfctl status -o json` and `log --follow` are not"
        )
    if not (once or sys.stdout.isatty()):
        raise InvalidOption(
            "expected a terminal; without one, `wfctl watch --once` prints one view"
        )
    from rich.console import Console

    plain = bool(os.environ.get("NO_COLOR")) if settings.color is Color.AUTO else False
    forced = True if settings.color is Color.ALWAYS else None
    with reading(context) as workflow:
        console = Console(
            no_color=plain or settings.color is Color.NEVER,
            force_terminal=forced,
            highlight=False,
            soft_wrap=True,
        )
        follower: _Follower | MachineFollower
        if machine is None:
            follower = _Follower(workflow)
        else:
            from cli.commands.machine.reads import MachineFollower

            follower = MachineFollower(workflow.machine(machine), workflow.root.path, _BACK)
        if once:
            console.print(*follower.view((console.width, _TALL)).lines, sep="\n")
        else:
            _live(console, follower)


def _live(console: Console, follower: _Follower | MachineFollower) -> None:
    from rich.console import Group
    from rich.live import Live

    shown: tuple[Text, ...] = ()
    scrolled: int | None = None
    with _keys() as key, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            found = follower.view(console.size, scrolled)
            if found.lines != shown:
                live.update(Group(*found.lines), refresh=True)
                shown = found.lines
            pressed = key(_EVERY)
            if pressed in ("q", "Q"):
                return
            scrolled = _moved(pressed, scrolled, found.bottom, console.size.height // 2)


def _moved(pressed: str, scrolled: int | None, bottom: int, page: int) -> int | None:
    """Return the first line of the stages after a key; None follows what is at work."""
    if pressed in ("g", "\x1b[H"):
        return 0
    if pressed in ("G", "\x1b[F"):
        return bottom
    if pressed == "f":
        return None
    step = _STEPS.get(pressed, 0) * (page if pressed in _PAGES else 1)
    return min(max((scrolled or 0) + step, 0), bottom) if step else scrolled


@contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """Yield what waits so many seconds for a key; without a terminal to type at it only waits."""
    is_typed = sys.stdin.isatty()
    descriptor = sys.stdin.fileno() if is_typed else -1

    def key(seconds: float) -> str:
        if not select.select([descriptor] if is_typed else [], [], [], seconds)[0]:
            return ""
        return os.read(descriptor, 16).decode(errors="replace")

    if not is_typed:
        yield key
        return
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield key
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


class _Follower:
    """The state and the last lines, kept up to date with the log."""

    def __init__(self, workflow: Reading) -> None:
        self._workflow = workflow
        self._log = workflow.log
        self._state: Workflow = workflow.state()
        self._lines: deque[str] = deque(maxlen=_BACK)
        self._drawn = (-1, -1)
        self._graph: list[Text] = []
        self._read(max(self._state.head - _BACK, 0), None)

    def view(self, size: tuple[int, int], scrolled: int | None = None) -> View:
        """Return what is to be seen now in a window of so many columns and lines."""
        from projections.screens.watch_view import frame, graph

        head = self._log.store.head(self._log.stream)
        if head is not None and head.version > self._state.head:
            self._read(self._state.head, self._state)
        if self._drawn != (self._state.head, size[0]):
            self._drawn = (self._state.head, size[0])
            self._graph = graph(self._state, size[0])
        lines = list(self._lines)
        told = _tasks(self._workflow, self._state, live=True)
        return frame(self._state, self._graph, lines, system_clock(), size, scrolled, told)

    def _read(self, after: int, start: Workflow | None) -> None:
        for event, state in self._log.steps(after, start):
            self._state = state
            text = message(event, state)
            if text is not None:
                self._lines.append(f"{event.recorded_at[11:19]}Z {text}")
