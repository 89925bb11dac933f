"""Find problems in an imported log and state file, and contradictions between the two."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from itertools import groupby
from operator import itemgetter
from typing import Any

from extensions.adoption.state_file import StateFile
from extensions.adoption.typed_time import TypedTime, parse_time
from extensions.adoption.versions import LOG, STATE, ImportFinding, LogEntry, SourceVersion
from lifecycle.plan.fields import FREE, OF_STAGE, OF_WORKFLOW
from lifecycle.state.status import FINISHED, Status, transition
from lifecycle.words.document import default_session_config, escape_pointer_key

_AT_WORK = frozenset({Status.READY, Status.PREPARING, Status.RUNNING, Status.POST_PROCESSING})
_COMPUTED = frozenset({Status.RUNNING, Status.POST_PROCESSING, Status.COMPLETED})
_OVER = (Status.COMPLETED, Status.SKIPPED)
_RUN_AGAIN = frozenset({Status.READY, Status.PREPARING, Status.RUNNING})
_PROCESS_FIELDS = (
    *("tmux_session", "submission_json", "wrapper_script", "done_marker", "exit_code_file"),
    *("recovery_attempted", "launched_at"),
)
_AMENDMENT_FIELDS = (
    *("id", "version", "timestamp", "type", "stage_id", "description", "changes"),
    *("invalidated_stages", "approved_by"),
)
Fields = dict[str, Any]
Steps = Iterator[tuple[str, str]]
"""Yields the kind of a finding and its evidence, for one step in the log."""
Places = Iterator[tuple[str, str, str]]
"""Yields the kind, the place (a JSON pointer, or a field of the stage), and the evidence."""


@dataclass(frozen=True, slots=True)
class ClaimedStep:
    """A status that a log entry claims for a stage.

    ``before`` is the status that the log claimed previously, or None. ``retried`` is true if a
    retry was logged since then. ``others`` maps each stage to the step that set its status at that
    time.
    """

    entry: LogEntry
    stage: str
    target: Status
    before: Status | None
    retried: bool
    others: dict[str, ClaimedStep]

    @property
    def previous_line(self) -> int:
        """The number of the log line that claimed the previous status."""
        return self.others[self.stage].entry.line

    def is_same_second_as(self, other: ClaimedStep) -> bool:
        """Return whether both steps have the same time, to the second."""
        first, second = self.entry.time, other.entry.time
        return first is not None and second is not None and first.is_same_second(second)


def list_claimed_steps(entries: Sequence[LogEntry]) -> list[ClaimedStep]:
    """Return each status change that the log entries claim, in the order of the log."""
    found: list[ClaimedStep] = []
    last: dict[str, ClaimedStep] = {}
    retried: set[str] = set()
    for entry in entries:
        stage = entry.stage
        if stage is None:
            continue
        if entry.retry is not None:
            retried.add(stage)
        for status in entry.statuses:
            before = last[stage].target if stage in last else None
            last[stage] = ClaimedStep(entry, stage, status, before, stage in retried, dict(last))
            retried.discard(stage)
            found.append(last[stage])
    return found


def find_log_problems(version: SourceVersion) -> list[ImportFinding]:
    """Return the problems in a version's log, such as illegal status changes."""
    state, entries = version.state, version.entries
    stages = {stage["id"]: stage for stage in state.stages}
    found: list[ImportFinding] = []
    for step in list_claimed_steps(entries):
        if step.stage not in stages:
            found.append(
                _build_log_finding("unknown_stage", step.entry, f"{step.stage}: {step.entry.text}")
            )
            continue
        stage = stages[step.stage]
        said = (*_check_transition(step, stage, state), *_check_dependencies(step, stage))
        found += [_build_log_finding(kind, step.entry, evidence) for kind, evidence in said]
    for entry in entries:
        found += [_build_log_finding("unknown_status", entry, word) for word in entry.unknown]
        if entry.retry is not None and entry.stage not in stages:
            found.append(_build_log_finding("unknown_stage", entry, entry.text))
    return [
        *found,
        *_check_sessions(entries),
        *_find_unfinished_at_completion(version),
        *_find_polling(entries),
    ]


def _build_log_finding(
    kind: str, entry: LogEntry, evidence: str, stage: str | None = None
) -> ImportFinding:
    last = entry.line + len(entry.raw) - 1 if entry.raw[-1].strip() else None
    return ImportFinding(kind, LOG, entry.line, evidence, stage or entry.stage, last_line=last)


def _check_transition(step: ClaimedStep, stage: Fields, state: StateFile) -> Steps:
    before, target = step.before or Status.PENDING, step.target
    if before is target:
        if step.before is not None:
            yield (
                "repeated_status",
                f"the status is {target} since line {step.previous_line} already",
            )
        return
    row = transition(before, target)
    after_retry = before is Status.FAILED and step.retried and target is Status.PREPARING
    if row is None and not after_retry:
        since = f" (line {step.previous_line})" if step.before else ""
        yield "illegal_transition", f"{before}{since} -> {target}"
    elif row is not None and row.by_amendment and not _is_amended(step.stage, state):
        yield "unamended_change", f"{before} -> {target} needs an amendment"
    elif before is Status.PREPARING and target is Status.POST_PROCESSING:
        name = stage.get("backend") or state.document.get("default_backend") or "local"
        profiles = state.document.get("backend_profiles") or {}
        if profiles.get(name, {}).get("type") == "remote":
            yield (
                "missing_step",
                "a job on a remote backend must have the status running in between",
            )


def _is_amended(stage: str, state: StateFile) -> bool:
    return any(
        stage == record.get("stage_id") or stage in (record.get("invalidated_stages") or [])
        for record in state.document.get("amendments") or []
    )


def _check_dependencies(step: ClaimedStep, stage: Fields) -> Steps:
    """Yield a problem for each dependency that was not completed before the stage started.

    An end in the same second as the launch or as the end of a dependency is also a problem.
    """
    needs = [(need, step.others.get(need)) for need in stage.get("depends_on") or []]
    for need, other in needs:
        found = other.target if other is not None else Status.PENDING
        begins = step.target in _AT_WORK and step.before not in _AT_WORK
        if begins and found not in _OVER:
            yield "missing_step", f"{step.target} although {need} was {found}"
    if step.target not in _COMPUTED:
        return
    if step.before is Status.RUNNING and step.is_same_second_as(step.others[step.stage]):
        yield (
            "identical_times",
            f"{step.target} in the same second as the launch (line {step.previous_line})",
        )
    for need, other in needs:
        if other is not None and other.target is Status.COMPLETED and step.is_same_second_as(other):
            when = f"{need} was completed (line {other.entry.line})"
            yield "identical_times", f"{step.target} in the same second as {when}"


def _check_sessions(entries: Sequence[LogEntry]) -> Iterator[ImportFinding]:
    last = 0
    for entry in entries:
        if entry.session is None:
            continue
        if entry.session != last + 1:
            yield _build_log_finding(
                "session_gap", entry, f"session {entry.session} follows {last or 'none'}"
            )
        last = entry.session


def _find_unfinished_at_completion(version: SourceVersion) -> Iterator[ImportFinding]:
    """Yield a finding for each stage that was unfinished when the log reported completion."""
    for index, entry in enumerate(version.entries):
        if entry.workflow_completed:
            last = {step.stage: step.target for step in list_claimed_steps(version.entries[:index])}
            for stage in version.state.stages:
                status = last.get(stage["id"], Status.PENDING)
                if status not in _OVER:
                    evidence = f"the workflow was completed while {stage['id']} was {status}"
                    yield _build_log_finding("missing_step", entry, evidence, stage["id"])


def _find_polling(entries: Sequence[LogEntry]) -> Iterator[ImportFinding]:
    polls = [entry for entry in entries if entry.is_polling]
    for stage in dict.fromkeys(entry.stage for entry in polls):
        lines = [entry for entry in polls if entry.stage == stage]
        yield _build_spread_finding("polling", lines, lines[0].text, stage)


def _build_spread_finding(
    kind: str, entries: Sequence[LogEntry], evidence: str, stage: str | None = None
) -> ImportFinding:
    """Return a single finding that covers all given log entries."""
    line, last = entries[0].line, entries[-1].line
    return ImportFinding(kind, LOG, line, evidence, stage, last_line=last, count=len(entries))


#: Kind of problem → test whether a time has it. ``latest`` is the time by which the entry is known
#: to have existed, so a later typed time must be wrong.
_LACKS: dict[str, Callable[[TypedTime | None, str], bool]] = {
    "undated": lambda time, _: time is None,
    "no_seconds": lambda time, _: time is not None and not time.has_seconds,
    "no_offset": lambda time, _: time is not None and time.offset is None,
    "future_time": lambda time, latest: time is not None and time.moment > latest,
}


def find_time_problems(entries: Sequence[LogEntry], latest: str) -> Iterator[ImportFinding]:
    """Yield the problems with the times of log entries, such as a missing or future time.

    The entries existed by the time ``latest``. Adjacent entries with the same problem share one
    finding.
    """
    for kind, lacks in _LACKS.items():
        told = [(lacks(entry.time, latest), entry) for entry in entries]
        for is_lacking, group in groupby(told, itemgetter(0)):
            run = [entry for _, entry in group]
            if is_lacking:
                yield _build_spread_finding(
                    kind, run, run[0].time.text if run[0].time else run[0].text
                )
    newest: LogEntry | None = None
    for entry in entries:
        if entry.time is None:
            continue
        if newest is not None and newest.time is not None and entry.time.is_before(newest.time):
            evidence = f"{entry.time.text} comes after {newest.time.text} (line {newest.line})"
            yield _build_log_finding("out_of_order", entry, evidence)
        else:
            newest = entry


class StateFindings:
    """The problems found in the state file of one imported version."""

    def __init__(self, version: SourceVersion, zone: tzinfo | None) -> None:
        self.version = version
        self.state = version.state
        self.zone = zone
        self.steps = list_claimed_steps(version.entries)

    def all(self) -> list[ImportFinding]:
        """Return the problems within the state file, and its contradictions to the log."""
        found = [*self._check_workflow(), *self._find_unknown_fields()]
        for pointer in self.state.named:
            _, _, place, field = pointer.split("/")
            stage = self.state.stages[int(place)]
            evidence = (
                f"{field}: paths with names, imported as the list {format_short_json(stage[field])}"
            )
            found.append(self._build_finding("named_paths", pointer, evidence, stage["id"]))
        rules = (self._check_status, self._check_retries, self._check_launch, self._check_order)
        for index, stage in enumerate(self.state.stages):
            for kind, place, evidence in (said for rule in rules for said in rule(stage)):
                pointer = place if place.startswith("/") else f"/stages/{index}/{place}"
                found.append(self._build_finding(kind, pointer, evidence, stage["id"]))
        return [*found, *self._check_times()]

    def _build_finding(
        self, kind: str, place: str, evidence: str, stage: str | None = None
    ) -> ImportFinding:
        return ImportFinding(kind, STATE, self.state.line(place), evidence, stage)

    def _parse_time(self, value: Any) -> TypedTime | None:
        return parse_time(value, self.zone) if isinstance(value, str) else None

    def _check_workflow(self) -> Iterator[ImportFinding]:
        document = self.state.document
        if not self.version.has_log:
            yield self._build_finding(
                "no_log", "", f"{LOG} does not exist, so only the state describes the history"
            )
        entries = self.version.entries
        has_begun = any(stage.get("status", "pending") != "pending" for stage in self.state.stages)
        if entries and has_begun and not any(entry.stage for entry in entries):
            evidence = f"{len(entries)} entries, the first: {entries[0].text:.100}"
            yield _build_spread_finding("unread_log", entries, evidence)
        if document.get("workflow_status") == "completed":
            for stage in self.state.stages:
                if stage.get("status") not in FINISHED:
                    evidence = (
                        f"the workflow is completed, but {stage['id']} is {stage.get('status')}"
                    )
                    yield self._build_finding(
                        "missing_step", "/workflow_status", evidence, stage["id"]
                    )
        count = (document.get("session_config") or {}).get("session_count")
        logged = [entry.session for entry in self.version.entries if entry.session is not None]
        if count is not None and logged and logged[-1] != count:
            evidence = f"session_count is {count}, but the last session in the log is {logged[-1]}"
            yield self._build_finding("session_gap", "/session_config/session_count", evidence)

    def _check_status(self, stage: Fields) -> Places:
        status = stage.get("status") or "pending"
        last = next((step for step in reversed(self.steps) if step.stage == stage["id"]), None)
        logged = self._find_logged_status(stage["id"], last)
        if status != logged and self.version.has_log:
            where = f" (line {last.entry.line})" if last else ""
            yield "missing_step", "status", f"{status} in the state, {logged} in the log{where}"
        needed = {"completed": ("started_at", "completed_at"), "running": ("running_process",)}
        for name in needed.get(status, ()):
            if not stage.get(name):
                yield "missing_step", name, f"{status} without {name}"

    def _find_logged_status(self, stage: str, last: ClaimedStep | None) -> str:
        """Return the final status of a stage according to the log.

        A stage that was retried after its last failure is ``ready``; a stage without entries is
        ``pending``.
        """
        if last is None:
            return "pending"
        later = [e for e in self.version.entries if e.line > last.entry.line and e.stage == stage]
        retried = last.target is Status.FAILED and any(e.retry is not None for e in later)
        return "ready" if retried else last.target.value

    def _check_retries(self, stage: Fields) -> Places:
        amendments = self.state.document.get("amendments") or []
        rerun = any(record.get("type") == "stage_rerun" for record in amendments)
        if rerun or not self.version.has_log:
            return
        count, id_ = stage.get("retry_count") or 0, stage["id"]
        lines = [e.line for e in self.version.entries if e.stage == id_ and e.retry is not None]
        own = [step for step in self.steps if step.stage == id_ and step.before is Status.FAILED]
        again = [step.entry.line for step in own if step.target in _RUN_AGAIN]
        logged, where = max(len(lines), len(again)), lines if len(lines) >= len(again) else again
        if logged != count:
            kind = "uncounted_retry" if logged > count else "unlogged_retry"
            at = f" (lines {', '.join(map(str, where))})" if where else ""
            evidence = f"retry_count is {count}, but the log has {logged} retries{at}"
            yield kind, "retry_count", evidence

    def _check_launch(self, stage: Fields) -> Places:
        process = stage.get("running_process")
        if not process:
            return
        place = "running_process"
        if "submission_json" not in process:
            yield "missing_field", place, "submission_json"
        is_of_wfctl = "/.attempts/" in str(process.get("submission_json"))
        if stage.get("status") in FINISHED and not is_of_wfctl:
            named = process.get("tmux_session") or process.get("launched_at") or "a process"
            yield (
                "left_process",
                place,
                f"the stage is {stage['status']}, but running_process still names {named}",
            )
        launched, started = map(
            self._parse_time, (process.get("launched_at"), stage.get("started_at"))
        )
        runs = [s for s in self.steps if s.stage == stage["id"] and s.target is Status.RUNNING]
        logged = runs[-1].entry.time if runs else None
        since = ""
        if launched is not None and logged is not None and launched.is_long_before(logged):
            since = f"but the log has the launch at {logged.text} (line {runs[-1].entry.line})"
        elif launched is not None and started is not None and launched.is_long_before(started):
            since = f"but started_at is {started.text}"
        if launched is not None and since:
            yield "stale_launch", f"{place}/launched_at", f"{launched.text}, {since}"

    def _check_order(self, stage: Fields) -> Places:
        """Yield times in the wrong order, and equal times of events that cannot coincide."""
        launched = (stage.get("running_process") or {}).get("launched_at")
        started, completed = stage.get("started_at"), stage.get("completed_at")
        ordered = [("completed_at", "completed", completed, "started", started)]
        apart = [("completed_at", completed, "it was started", started)]
        for need in (s for s in self.state.stages if s["id"] in (stage.get("depends_on") or [])):
            id_, done = need["id"], need.get("completed_at")
            ordered.append(("started_at", "started", started, f"{id_} completed", done))
            apart += [
                ("started_at", started, f"{id_} was", need.get("started_at")),
                ("completed_at", completed, f"{id_} was", done),
                ("running_process/launched_at", launched, f"{id_} was completed", done),
            ]
        updated = self.state.document.get("updated")
        ordered.append(("/updated", "updated", updated, f"{stage['id']} completed", completed))
        for place, what, value, before, other in ordered:
            one, two = self._parse_time(value), self._parse_time(other)
            if one is not None and two is not None and one.is_before(two):
                yield "out_of_order", place, f"{what} {one.text}, {before} {two.text}"
        for place, value, what, other in apart:
            one, two = self._parse_time(value), self._parse_time(other)
            if one is not None and two is not None and one.is_same_second(two):
                yield "identical_times", place, f"{one.text}, in the same second in which {what}"

    def _iterate_state_objects(
        self,
    ) -> Iterator[tuple[str, Fields, Sequence[str], Sequence[str], str | None]]:
        """Yield each object in the state file, such as a stage, process or amendment.

        Each item has the object's JSON pointer, its values, its permitted fields, its time fields,
        and the id of its stage, if any.
        """
        document = self.state.document
        yield "", document, OF_WORKFLOW, ("created", "updated"), None
        config = document.get("session_config") or {}
        yield "/session_config", config, tuple(default_session_config()), ("session_id",), None
        for index, record in enumerate(document.get("amendments") or []):
            place, stage_id = f"/amendments/{index}", record.get("stage_id")
            yield place, record, _AMENDMENT_FIELDS, ("timestamp",), stage_id
        for index, stage in enumerate(self.state.stages):
            place, process = f"/stages/{index}", stage.get("running_process") or {}
            yield place, stage, OF_STAGE, ("started_at", "completed_at"), stage["id"]
            place = f"{place}/running_process"
            yield place, process, _PROCESS_FIELDS, ("launched_at",), stage["id"]

    def _find_unknown_fields(self) -> Iterator[ImportFinding]:
        for place, values, known, _, stage in self._iterate_state_objects():
            for key in (key for key in values if key not in known and not key.startswith(FREE)):
                evidence = f"{key}: {format_short_json(values[key])}"
                yield self._build_finding(
                    "unknown_field", f"{place}/{escape_pointer_key(key)}", evidence, stage
                )

    def _check_times(self) -> Iterator[ImportFinding]:
        for place, values, _, times, stage in self._iterate_state_objects():
            for name in (name for name in times if values.get(name)):
                time = self._parse_time(values[name])
                for kind, lacks in _LACKS.items():
                    if lacks(time, self.version.known_at):
                        yield self._build_finding(
                            kind, f"{place}/{name}", f"{name} {values[name]}", stage
                        )


def format_short_json(value: Any) -> str:
    """Return a value as JSON of at most 120 characters. Longer JSON ends with three dots."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else f"{text[:117]}..."
