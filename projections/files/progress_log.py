"""``progress.log``: one line for each event that a reader cares about.

The spelling is that of the staged-workflow protocol ("The lines of progress.log"): readers
grep for it. Source of the time in brackets: ``recorded_at`` at the writer's local offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from eventstore.event import RecordedEvent
from lifecycle.event import SET_ASIDE
from lifecycle.fold.stages import TYPES
from lifecycle.state.conditions import budget_of
from lifecycle.state.workflow import Workflow
from projections.words.amendments import told, where
from projections.words.text import local_seconds, uncontrolled

FILE_NAME = "progress.log"
#: Files that a line names.
_NAMES = 10


class LogPiece(NamedTuple):
    """A part of the file: where it stands among the others, and its bytes.

    ``external``: somebody else wrote it there, and it may be any part of a line.
    """

    place: tuple[int, int, int]
    content: bytes
    external: bool

    @property
    def version(self) -> int:
        """The version that the file shows once this piece is in it."""
        return self.place[0]

    @property
    def recorded(self) -> int:
        """The version of the event that it is of: others' bytes stand before they are recorded."""
        return self.place[2]

    def due(self, fresh: bool) -> bytes:
        """Return the bytes to follow what stands before; ``fresh``: that ended a line.

        A line of ours never continues one of somebody else's.
        """
        return self.content if fresh or self.external else b"\n" + self.content


def piece(event: RecordedEvent, after: Workflow) -> LogPiece | None:
    """Return what the event adds to the file, None if that is nothing.

    ``after`` is the state once the event was folded in.
    """
    data = event.data
    if event.type == "line.imported":
        place = (event.version, 0, event.version)
        return LogPiece(place, _imported_bytes(data), True) if data["kept"] else None
    if event.type == "note.logged" and data.get("kind") == "external":
        behind = data.get("after")
        version = event.version if behind is None else behind
        return LogPiece((version, 1, event.version), external_bytes(data), behind is not None)
    text = line(event, after)
    return LogPiece((event.version, 0, event.version), text.encode(), False) if text else None


def joined(pieces: Iterable[LogPiece], fresh: bool = True) -> bytes:
    """Return the bytes of pieces in order; ``fresh``: what stands before them ended a line."""
    return b"".join(written(pieces, fresh))


def written(pieces: Iterable[LogPiece], fresh: bool = True) -> Iterator[bytes]:
    """Yield the bytes of `joined`, piece by piece."""
    for part in pieces:
        yield part.due(fresh)
        fresh = part.content.endswith(b"\n")


def _imported_bytes(data: dict[str, Any]) -> bytes:
    from base64 import b64decode

    raw: list[str] = data["raw"]
    lines = map(b64decode, raw) if data["encoding"] == "base64" else map(str.encode, raw)
    return b"\n".join(lines) + (b"\n" if data["ended"] else b"")


def external_bytes(data: dict[str, Any]) -> bytes:
    """Return the bytes of an external note."""
    from base64 import b64decode

    raw = data.get("raw")
    return f"{data['text']}\n".encode() if raw is None else b64decode(raw)


def line(event: RecordedEvent, after: Workflow) -> str | None:
    """Return the event's line with its newline, None if it has none.

    ``after`` is the state once the event was folded in.
    """
    text = message(event, after)
    if text is None or (event.type in TYPES and event.version != after.import_end):
        return None
    one_line = uncontrolled(" ".join(text.splitlines()))
    return f"[{local_seconds(event.recorded_at, event.utc_offset)}] {one_line}\n"


def message(event: RecordedEvent, after: Workflow) -> str | None:
    """Return the line without its time.

    A session begins and ends with the head of the log before the event, outside the chain and where
    people look: what it was cannot be cut off in silence.
    """
    text = _text(event.type, event.data, after)
    if event.type not in ("session.started", "session.ended"):
        return text
    return f"{text} [log at version {event.version - 1}: {event.prev_hash}]"


def shows(type_: str, data: dict[str, Any], after: Workflow) -> bool:
    """Whether an event of this type and payload adds a line."""
    return _text(type_, data, after) is not None


def _text(type_: str, data: dict[str, Any], after: Workflow) -> str | None:
    made = _MESSAGES.get(type_)
    return made.format_map(data) if isinstance(made, str) else made and made(data, after)


def _listed(names: list[str], more: int = 0) -> str:
    more += max(0, len(names) - _NAMES)
    return ", ".join(names[:_NAMES]) + (f" and {more} more" if more else "")


def _observed(data: dict[str, Any], _: Workflow) -> str:
    text = "{stage}: {attempt} found {verdict}: {reason}".format_map(data)
    return f"{text}; it waits: {data['waiting']}" if data.get("waiting") else text


def _created(data: dict[str, Any], state: Workflow) -> str:
    purpose = f" Purpose: {state.purpose.rstrip('.')}." if state.purpose else ""
    return f"Workflow created: {state.id}. {len(state.stages)} stages.{purpose}"


def _line_imported(data: dict[str, Any], state: Workflow) -> str:
    count = f" ({data['count']} times)" if data["count"] > 1 else ""
    return f"{data['text']}{count}{'' if data['kept'] else ' (no longer in the file)'}"


def _state_imported(data: dict[str, Any], state: Workflow) -> str:
    if state.head < state.import_end:
        return f"{data['source'].get('file')} as of commit {data['source'].get('commit')}"
    return f"Workflow imported: {state.id}. {len(state.stages)} stages."


def _workflow_completed(data: dict[str, Any], state: Workflow) -> str:
    report = f" Report: {data['report']}" if data.get("report") else ""
    return f"Workflow completed. All {data['stages']} stages verified.{report}"


def _status(status: str, *reasons: str) -> Message:
    """Tell of a stage's new status, with the first of the fields that hold a reason."""

    def render(data: dict[str, Any], state: Workflow) -> str:
        detail = next((data[name] for name in reasons if data.get(name)), None)
        tail = f" ({detail})" if detail else ""
        return f"{data['stage']} ({state.stages[data['stage']].name}): status -> {status}{tail}"

    return render


def _attempt_started(data: dict[str, Any], state: Workflow) -> str | None:
    said = []
    if data.get("recovers") is not None:
        said.append(
            f"{data['recovers']} was lost; {data['attempt']} takes its place "
            "(not counted as a retry)"
        )
    if data.get("carried"):
        names = _listed([one["path"] for one in data["carried"]])
        said.append(f"{data['attempt']} goes on from what {data['carried_from']} left: {names}")
    return f"{data['stage']}: {'; '.join(said)}" if said else None


def _launched(data: dict[str, Any], state: Workflow) -> str:
    if data.get("again") or data["mode"] == "sync":
        ids = ", ".join(data.get("job_ids", [])) or "unknown"
        return f"{data['stage']}: {data['attempt']} runs as job {ids}"
    where = f"tmux: {data['session']}" if data.get("session") else data["mode"]
    return f"{data['stage']}: status -> running ({where})"


def _computed(data: dict[str, Any], state: Workflow) -> str | None:
    detail = data.get("detail") or f"{data['attempt']}, exit {data['exit_code']}"
    return _status("post_processing", "detail")({**data, "detail": detail}, state)


def _failed(data: dict[str, Any], state: Workflow) -> str | None:
    category = data.get("category")
    told = f"; category: {category.replace('_', ' ')}" if category else ""
    return _status("failed", "error")({**data, "error": f"{data['error']}{told}"}, state)


def _stopped(data: dict[str, Any], state: Workflow) -> str:
    ended = f"{', '.join(data['ended'])} ended" if data["ended"] else "nothing was at work"
    return f"{data['stage']}: {data['attempt']} stopped ({data['reason']}): {ended}"


def _left(data: dict[str, Any], state: Workflow) -> str:
    files = data["files"]
    names = _listed([one["path"] for one in files], data.get("more", 0))
    elsewhere = [one["at"] for one in files if one.get("at") is not None]
    host = f"{data['host']}:" if data.get("host") else ""
    where = f"; {len(elsewhere)} kept elsewhere, as {host}{elsewhere[0]}" if elsewhere else ""
    return f"{data['stage']}: {data['attempt']} left {names}{where}"


def _tasks(data: dict[str, Any], state: Workflow) -> str | None:
    if data.get("record") is None:
        return None  # a look on the way; the state has where it stands
    from projections.words.came_about import counts_of

    counts = counts_of(data)
    said = [f"{number:,} {name}" for name, number in counts.items() if number and name != "done"]
    told = ", ".join([f"{counts['done']:,} of {data['total']:,} tasks done", *said])
    return f"{data['stage']}: {data['attempt']}: {told}"


def _adopted(data: dict[str, Any], state: Workflow) -> str:
    paths = ", ".join(one["path"] for one in data["outputs"][:_NAMES])
    return f"WARNING: {data['stage']}: changed by hand and adopted: {paths} ({data['reason']})"


def _retried(data: dict[str, Any], state: Workflow) -> str:
    text = f"{data['stage']}: retry #{data['retry']} after fix: {data['fix']}"
    return text + kept_tasks_note(data)


def kept_tasks_note(data: Mapping[str, Any]) -> str:
    """Return the end of the line of a retry that keeps finished tasks; else nothing."""
    if not data.get("failed_only"):
        return ""
    return f" (finished tasks kept although their inputs changed: {data.get('approved_by')})"


def _files(data: dict[str, Any], state: Workflow) -> str:
    known = [*data["scripts"], *(f"what {stage} rests on" for stage in data["attempts"])]
    return f"Known by their digests: {', '.join(known)}"


def _freed(data: dict[str, Any], state: Workflow) -> str:
    count = len(data["paths"]) + data["more"]
    return (
        f"{data['stage']}: {count} leftovers of {data['attempt']} freed, {data['size']} bytes: "
        f"{', '.join(data['paths'][:_NAMES])}"
    )


def _reused(data: dict[str, Any], state: Workflow) -> str:
    paths = ", ".join(one["path"] for one in data["outputs"][:_NAMES])
    of = f"{data['stage']}: outputs of {data['attempt']}"
    return f"{of} reused, which computed from the same: {paths}"


def _changed(data: dict[str, Any], state: Workflow) -> str:
    if not data["files"]:
        return f"{data['stage']}: its results are as recorded again"
    names = _listed([f"{one['path']} ({one['kind']})" for one in data["files"]])
    return f"WARNING: {data['stage']}: results are not as recorded: {names}"


def _note(data: dict[str, Any], state: Workflow) -> str:
    stage = data.get("stage")
    return f"{stage}: {data['text']}" if stage else str(data["text"])


def _amendment(verb: str) -> Message:
    def render(data: dict[str, Any], state: Workflow) -> str:
        amendment = state.amendments.get(data["amendment"])
        if amendment is None:
            return f"Amendment {verb}: {data['amendment']}, which nobody proposed"
        if amendment.is_plan:
            return f"Plan {verb}"
        of = f"{amendment.kind}, {where(amendment)}"
        return f"Amendment {verb}: {amendment.id} ({of}): {told(amendment)}"

    return render


def _approved(data: dict[str, Any], state: Workflow) -> str | None:
    amendment = state.amendments.get(data["amendment"])
    decided = (amendment.status, amendment.version) if amendment is not None else None
    if decided == ("approved", data.get("version")):
        return _amendment("approved")(data, state)
    return (
        f"WARNING: approval of {data['amendment']} has no accepted proof of consent and changes "
        "nothing; see wfctl audit bypasses"
    )


def _charged(data: dict[str, Any], state: Workflow) -> str:
    total = f"total={state.session.cost:g}/{budget_of(state):g}"
    return f"{data['stage']}: session_cost += {data['weight']:g} ({data['work_class']}), {total}"


_HAPPENED = {
    "changed": "was changed by hand",
    "missing": "was deleted",
    "truncated": "was cut off",
    "unreadable": "was made unreadable",
}


def _drift(data: dict[str, Any], state: Workflow) -> str:
    kept = f"; the foreign version is kept as {data['kept_as']}" if data.get("kept_as") else ""
    return f"WARNING: {data['file']} {_HAPPENED[data['kind']]}{kept}"


def _round(data: dict[str, Any], state: Workflow) -> str:
    count = len(data["points"])
    of = data.get("source") or data["by"]
    why = f": {data['reason']}" if data.get("reason") else ""
    return f"Round {data['round']} of {data['loop']} began: {count} points from {of}{why}"


Message = Callable[[dict[str, Any], Workflow], str | None]
#: Event type → its line: a text in which the names of fields stand, or what makes it.
_MESSAGES: dict[str, str | Message] = {
    "workflow.created": _created,
    "line.imported": _line_imported,
    "state.imported": _state_imported,
    "workflow.completed": _workflow_completed,
    "workflow.reopened": "Workflow reopened: {reason}",
    "stage.readied": _status("ready", "reason"),
    "stage.prepared": _status("preparing", "detail"),
    "attempt.started": _attempt_started,
    "stage.launched": _launched,
    "stage.computed": _computed,
    "stage.completed": _status("completed", "detail", "evidence"),
    "stage.failed": _failed,
    "stage.retried": _retried,
    "stage.invalidated": _status("invalidated", "reason", "amendment"),
    "stage.skipped": _status("skipped", "reason", "amendment"),
    "stage.blocked": "WARNING: {stage} blocked: dependency {dependency} is {dependency_status}",
    "attempt.observed": _observed,
    "attempt.relaunched": "Recovering {stage}: re-launching DPDispatcher",
    "attempt.stopped": _stopped,
    "attempt.left": _left,
    "tasks.observed": _tasks,
    "outputs.recorded": lambda data, _: (
        f"{data['stage']}: outputs: {', '.join(data['outputs']) or 'none'}"
    ),
    "results.adopted": _adopted,
    "claim.overruled": (
        "WARNING: {stage}: {approved_by} overruled the evidence on {attempt} ({verdict}) and calls "
        "it {claim}: {reason}"
    ),
    "files.recorded": _files,
    "leftovers.freed": _freed,
    "results.changed": _changed,
    "outputs.reused": _reused,
    "outputs.archived": "{stage}: outputs will be kept as {kept_as} before it runs again",
    "checkpoint.recorded": "{stage}: checkpoint recorded",
    "note.logged": _note,
    "amendment.proposed": _amendment("proposed"),
    "amendment.approved": _approved,
    "amendment.rejected": _amendment("rejected"),
    "session.started": lambda data, state: (
        f"Session {data['number']} started. Workflow: {state.id}"
    ),
    "session.ended": lambda data, state: (
        f"Session {state.session.count} ended. Next: {data.get('next') or data['reason']}"
    ),
    "cost.charged": _charged,
    "round.begun": _round,
    "loop.stopped": "Loop {loop} is stopped: {reason}",
    "drift.detected": _drift,
    SET_ASIDE: "WARNING: an event is ignored: {type!r:.80}, {why}",
}
