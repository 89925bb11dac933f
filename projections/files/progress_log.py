"""Render ``progress.log``, which has one line for each event of interest to a reader.

The staged-workflow protocol defines the format ("The lines of progress.log"), because readers
search the file for it. The time in brackets is the time of recording, in the writer's local time
zone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from eventstore.event import RecordedEvent
from lifecycle.event import SET_ASIDE
from lifecycle.fold.imported import TYPES
from lifecycle.state.session_budget import maximum_session_cost
from lifecycle.state.workflow import Workflow
from lifecycle.words.mandates import format_count
from lifecycle.words.scripts import is_digest, omit_missing_init_script
from projections.words.amendments import describe_amendment, format_targets
from projections.words.text import convert_utc_to_local_seconds, mark_control_characters

FILE_NAME = "progress.log"
#: Maximum number of file names in one line.
_NAMES = 10


class LogPiece(NamedTuple):
    """A part of progress.log: its bytes, and its position among the other parts.

    ``external`` means that another program wrote the part. Such a part can be an incomplete line.
    """

    place: tuple[int, int, int]
    content: bytes
    external: bool

    @property
    def version(self) -> int:
        """The version of the log that the file shows up to and including this part."""
        return self.place[0]

    @property
    def recorded_version(self) -> int:
        """The version of the event that recorded this part.

        Text that another program wrote is in the file before its event is recorded.
        """
        return self.place[2]

    def bytes_to_append(self, fresh: bool) -> bytes:
        """Return the bytes to append to the file, with a leading newline if needed.

        ``fresh`` means that the file ends with a newline. A line of wfctl must not continue an
        incomplete line of another program.
        """
        return self.content if fresh or self.external else b"\n" + self.content


def build_piece(event: RecordedEvent, after: Workflow) -> LogPiece | None:
    """Return the part that an event adds to progress.log, or None if it adds nothing.

    ``after`` is the state after the event.
    """
    data = event.data
    if event.type == "line.imported":
        place = (event.version, 0, event.version)
        return LogPiece(place, _imported_bytes(data), True) if data["kept"] else None
    if event.type == "note.logged" and data.get("kind") == "external":
        behind = data.get("after")
        version = event.version if behind is None else behind
        return LogPiece((version, 1, event.version), external_bytes(data), behind is not None)
    text = format_line(event, after)
    return LogPiece((event.version, 0, event.version), text.encode(), False) if text else None


def join_pieces(pieces: Iterable[LogPiece], fresh: bool = True) -> bytes:
    """Return the joined bytes of several parts of progress.log, in order.

    ``fresh`` means that the text before them ends with a newline.
    """
    return b"".join(iterate_bytes(pieces, fresh))


def iterate_bytes(pieces: Iterable[LogPiece], fresh: bool = True) -> Iterator[bytes]:
    """Yield the bytes of each part of progress.log, as `join_pieces` would join them."""
    for part in pieces:
        yield part.bytes_to_append(fresh)
        fresh = part.content.endswith(b"\n")


def _imported_bytes(data: dict[str, Any]) -> bytes:
    from base64 import b64decode

    raw: list[str] = data["raw"]
    lines = map(b64decode, raw) if data["encoding"] == "base64" else map(str.encode, raw)
    return b"\n".join(lines) + (b"\n" if data["ended"] else b"")


def external_bytes(data: dict[str, Any]) -> bytes:
    """Return the original bytes of text that another program wrote to progress.log."""
    from base64 import b64decode

    raw = data.get("raw")
    return f"{data['text']}\n".encode() if raw is None else b64decode(raw)


def format_line(event: RecordedEvent, after: Workflow) -> str | None:
    """Return the line of an event in progress.log, or None if the event has no line.

    The line ends with a newline. ``after`` is the state after the event.
    """
    text = format_line_without_time(event, after)
    if text is None or (event.type in TYPES and event.version != after.import_end):
        return None
    one_line = mark_control_characters(" ".join(text.splitlines()))
    return f"[{convert_utc_to_local_seconds(event.recorded_at, event.utc_offset)}] {one_line}\n"


def format_line_without_time(event: RecordedEvent, after: Workflow) -> str | None:
    """Return the line of an event in progress.log without its time, or None for no line.

    Lines for the start and end of a session contain the hash of the previous event. This hash is
    outside the log's hash chain, so a person can notice that the end of the log was removed.
    """
    text = _format_event(event.type, event.data, after)
    if event.type not in ("session.started", "session.ended"):
        return text
    return f"{text} [log at version {event.version - 1}: {event.prev_hash}]"


def has_line(type_: str, data: dict[str, Any], after: Workflow) -> bool:
    """Return whether an event with this type and data adds a line to progress.log."""
    return _format_event(type_, data, after) is not None


def _format_event(type_: str, data: dict[str, Any], after: Workflow) -> str | None:
    made = _MESSAGES.get(type_)
    return made.format_map(data) if isinstance(made, str) else made and made(data, after)


def _join_names(names: list[str], more: int = 0) -> str:
    more += max(0, len(names) - _NAMES)
    return ", ".join(names[:_NAMES]) + (f" and {more} more" if more else "")


def _format_observed(data: dict[str, Any], _: Workflow) -> str:
    text = "{stage}: {attempt} found {verdict}: {reason}".format_map(data)
    return f"{text}; it waits: {data['waiting']}" if data.get("waiting") else text


def _format_created(data: dict[str, Any], state: Workflow) -> str:
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


def _build_status_formatter(status: str, *reasons: str) -> Message:
    """Return a function that formats a change of a stage's status.

    The message includes the value of the first field in ``reasons`` that has one.
    """

    def render(data: dict[str, Any], state: Workflow) -> str:
        detail = next((data[name] for name in reasons if data.get(name)), None)
        tail = f" ({detail})" if detail else ""
        return f"{data['stage']} ({state.stages[data['stage']].name}): status -> {status}{tail}"

    return render


def _format_readied(data: dict[str, Any], state: Workflow) -> str | None:
    if data.get("grown") is not None and data.get("reason"):
        return f"{data['stage']}: {data['reason']}"
    return _build_status_formatter("ready", "reason")(data, state)


def _attempt_started(data: dict[str, Any], state: Workflow) -> str | None:
    said = []
    if data.get("recovers") is not None:
        before = next(a for a in state.stages[data["stage"]].attempts if a.id == data["recovers"])
        said.append(
            f"{data['attempt']} computes the other tasks, because the first tasks of {before.id} "
            "succeeded"
            if before.action == "continue"
            else f"{before.id} was lost; {data['attempt']} takes its place (not counted as a retry)"
        )
    if data.get("carried"):
        names = _join_names([one["path"] for one in data["carried"]])
        said.append(f"{data['attempt']} goes on from what {data['carried_from']} left: {names}")
    return f"{data['stage']}: {'; '.join(said)}" if said else None


def _format_launched(data: dict[str, Any], state: Workflow) -> str:
    if data.get("again") or data["mode"] == "sync":
        ids = ", ".join(data.get("job_ids", [])) or "unknown"
        return f"{data['stage']}: {data['attempt']} runs as job {ids}"
    where = f"tmux: {data['session']}" if data.get("session") else data["mode"]
    return f"{data['stage']}: status -> running ({where})"


def _format_computed(data: dict[str, Any], state: Workflow) -> str | None:
    detail = data.get("detail") or f"{data['attempt']}, exit {data['exit_code']}"
    return _build_status_formatter("post_processing", "detail")({**data, "detail": detail}, state)


def _format_failed(data: dict[str, Any], state: Workflow) -> str | None:
    category = data.get("category")
    told = f"; category: {category.replace('_', ' ')}" if category else ""
    return _build_status_formatter("failed", "error")(
        {**data, "error": f"{data['error']}{told}"}, state
    )


def _format_stopped(data: dict[str, Any], state: Workflow) -> str:
    ended = f"{', '.join(data['ended'])} ended" if data["ended"] else "nothing was running"
    return f"{data['stage']}: {data['attempt']} stopped ({data['reason']}): {ended}"


def _format_leftovers(data: dict[str, Any], state: Workflow) -> str:
    files = data["files"]
    names = _join_names([one["path"] for one in files], data.get("more", 0))
    elsewhere = [one["at"] for one in files if one.get("at") is not None]
    host = f"{data['host']}:" if data.get("host") else ""
    where = f"; {len(elsewhere)} kept elsewhere, as {host}{elsewhere[0]}" if elsewhere else ""
    exchanged = _join_names(data.get("exchanged", []), 0)
    others = f"; other files at the end of the job: {exchanged}" if exchanged else ""
    left = f" left {names}{where}" if files else ""
    return f"{data['stage']}: {data['attempt']}{left}{others}"


def _format_tasks(data: dict[str, Any], state: Workflow) -> str | None:
    if data.get("record") is None:
        return None  # only a progress observation; the state has the status
    from projections.words.stage_progress import count_tasks_by_state

    counts = count_tasks_by_state(data)
    said = [f"{number:,} {name}" for name, number in counts.items() if number and name != "done"]
    told = ", ".join([f"{counts['done']:,} of {data['total']:,} tasks done", *said])
    return f"{data['stage']}: {data['attempt']}: {told}"


def _format_adopted(data: dict[str, Any], state: Workflow) -> str:
    found = {"changed by hand and adopted": data["outputs"]}
    found |= {"deleted, with the recorded digest still valid": data.get("deleted", [])}
    named = {how: ", ".join(one["path"] for one in some[:_NAMES]) for how, some in found.items()}
    told = "; ".join(f"{how}: {paths}" for how, paths in named.items() if paths)
    return f"WARNING: {data['stage']}: {told} ({data['reason']})"


def _format_retried(data: dict[str, Any], state: Workflow) -> str:
    text = f"{data['stage']}: retry #{data['retry']} after fix: {data['fix']}"
    return text + kept_tasks_note(data)


def kept_tasks_note(data: Mapping[str, Any]) -> str:
    """Return a remark for a retry that keeps finished tasks although their inputs changed.

    Return an empty string for any other retry.
    """
    if not data.get("failed_only"):
        return ""
    return f" (finished tasks kept although their inputs changed: {data.get('approved_by')})"


def _format_files(data: dict[str, Any], state: Workflow) -> str:
    scripts = omit_missing_init_script(data["scripts"]).items()
    known = [path for path, one in scripts if is_digest(one)]
    known += [f"the inputs of {stage}" for stage in data["attempts"]]
    unknown = [f"{path} ({one})" for path, one in scripts if not is_digest(one)]
    told = [f"Digests recorded: {', '.join(known)}"] if known else []
    return "; ".join(told + ([f"Without a digest: {', '.join(unknown)}"] if unknown else []))


def _format_freed(data: dict[str, Any], state: Workflow) -> str:
    count = len(data["paths"]) + data["more"]
    return (
        f"{data['stage']}: {count} leftovers of {data['attempt']} freed, {data['size']} bytes: "
        f"{', '.join(data['paths'][:_NAMES])}"
    )


def _format_reused(data: dict[str, Any], state: Workflow) -> str:
    paths = ", ".join(one["path"] for one in data["outputs"][:_NAMES])
    of = f"{data['stage']}: outputs of {data['attempt']}"
    return f"{of} reused, because it had the same inputs: {paths}"


def _format_changed(data: dict[str, Any], state: Workflow) -> str:
    if not data["files"]:
        return f"{data['stage']}: its results are as recorded again"
    names = _join_names([f"{one['path']} ({one['kind']})" for one in data["files"]])
    return f"WARNING: {data['stage']}: results are not as recorded: {names}"


def _format_note(data: dict[str, Any], state: Workflow) -> str:
    stage = data.get("stage")
    return f"{stage}: {data['text']}" if stage else str(data["text"])


def _build_amendment_message(verb: str) -> Message:
    def render(data: dict[str, Any], state: Workflow) -> str:
        amendment = state.amendments.get(data["amendment"])
        if amendment is None:
            return f"Amendment {verb}: {data['amendment']}, which nobody proposed"
        if amendment.is_plan:
            return f"Plan {verb}"
        of = f"{amendment.kind}, {format_targets(amendment)}"
        return f"Amendment {verb}: {amendment.id} ({of}): {describe_amendment(amendment)}"

    return render


def _format_approved(data: dict[str, Any], state: Workflow) -> str | None:
    amendment = state.amendments.get(data["amendment"])
    decided = (amendment.status, amendment.version) if amendment is not None else None
    if decided == ("approved", data.get("version")):
        return _build_amendment_message("approved")(data, state)
    return (
        f"WARNING: approval of {data['amendment']} has no accepted proof of consent and changes "
        "nothing; see wfctl audit bypasses"
    )


def _format_charged(data: dict[str, Any], state: Workflow) -> str:
    total = f"total={state.session.cost:g}/{maximum_session_cost(state):g}"
    return f"{data['stage']}: session_cost += {data['weight']:g} ({data['work_class']}), {total}"


_HAPPENED = {
    "changed": "was changed by hand",
    "missing": "was deleted",
    "truncated": "was cut off",
    "unreadable": "was made unreadable",
}


def _format_drift(data: dict[str, Any], state: Workflow) -> str:
    kept = f"; the edited version is kept as {data['kept_as']}" if data.get("kept_as") else ""
    return f"WARNING: {data['file']} {_HAPPENED[data['kind']]}{kept}"


def _format_round(data: dict[str, Any], state: Workflow) -> str:
    count = format_count(len(data["points"]), "point")
    of = data.get("source") or data["by"]
    why = f": {data['reason']}" if data.get("reason") else ""
    return f"Round {data['round']} of {data['loop']} began: {count} from {of}{why}"


Message = Callable[[dict[str, Any], Workflow], str | None]
#: Event type → message in progress.log: a template with field names, or a function.
_MESSAGES: dict[str, str | Message] = {
    "workflow.created": _format_created,
    "line.imported": _line_imported,
    "state.imported": _state_imported,
    "workflow.completed": _workflow_completed,
    "workflow.reopened": "Workflow reopened: {reason}",
    "stage.readied": _format_readied,
    "stage.prepared": _build_status_formatter("preparing", "detail"),
    "attempt.started": _attempt_started,
    "stage.launched": _format_launched,
    "stage.computed": _format_computed,
    "stage.completed": _build_status_formatter("completed", "detail", "evidence"),
    "stage.failed": _format_failed,
    "stage.retried": _format_retried,
    "stage.invalidated": _build_status_formatter("invalidated", "reason", "amendment"),
    "stage.skipped": _build_status_formatter("skipped", "reason", "amendment"),
    "stage.blocked": "WARNING: {stage} blocked: dependency {dependency} is {dependency_status}",
    "attempt.observed": _format_observed,
    "attempt.relaunched": "Recovering {stage}: re-launching DPDispatcher",
    "attempt.stopped": _format_stopped,
    "attempt.left": _format_leftovers,
    "tasks.observed": _format_tasks,
    "outputs.recorded": lambda data, _: (
        f"{data['stage']}: outputs: {', '.join(data['outputs']) or 'none'}"
    ),
    "results.adopted": _format_adopted,
    "claim.overruled": (
        "WARNING: {stage}: {approved_by} overruled the evidence on {attempt} ({verdict}) and calls "
        "it {claim}: {reason}"
    ),
    "audit.agreed": "{approved_by} agreed to {kind} {subject} ({text}): {reason}",
    "files.recorded": _format_files,
    "leftovers.freed": _format_freed,
    "results.changed": _format_changed,
    "outputs.reused": _format_reused,
    "outputs.archived": "{stage}: outputs will be kept as {kept_as} before it runs again",
    "checkpoint.recorded": "{stage}: checkpoint recorded",
    "note.logged": _format_note,
    "amendment.proposed": _build_amendment_message("proposed"),
    "amendment.approved": _format_approved,
    "amendment.rejected": _build_amendment_message("rejected"),
    "session.started": lambda data, state: (
        f"Session {data['number']} started. Workflow: {state.id}"
    ),
    "session.ended": lambda data, state: (
        f"Session {state.session.count} ended. Next: {data.get('next') or data['reason']}"
    ),
    "cost.charged": _format_charged,
    "round.begun": _format_round,
    "loop.stopped": "Loop {loop} is stopped: {reason}",
    "drift.detected": _format_drift,
    SET_ASIDE: "WARNING: an event is ignored: {type!r:.80}, {why}",
}
