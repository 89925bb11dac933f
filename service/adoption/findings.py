"""What is wrong with a log and a state: in themselves, beside each other, and by their times."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import Any

from lifecycle.state.status import FINISHED, Status, transition
from lifecycle.words.document import STAGE_FIELDS, WORKFLOW_FIELDS, default_session_config
from service.adoption.state_file import StateFile, TypedTime, parse_time
from service.adoption.versions import LOG, STATE, ImportFinding, LogEntry, Version

_AT_WORK = frozenset({Status.READY, Status.PREPARING, Status.RUNNING, Status.POST_PROCESSING})
_COMPUTED = frozenset({Status.RUNNING, Status.POST_PROCESSING, Status.COMPLETED})


@dataclass(frozen=True, slots=True)
class ClaimedStep:
    """A status that an entry claims for a stage.

    ``before`` is what was claimed last, None where nothing was; ``retried``: a retry was logged
    since. ``others`` are the entries by which every stage came to its status, as of then.
    """

    entry: LogEntry
    stage: str
    target: Status
    before: Status | None
    retried: bool
    others: dict[str, ClaimedStep]


def steps_of(entries: Sequence[LogEntry]) -> list[ClaimedStep]:
    """Return every status that the entries claim, in order."""
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
            step = ClaimedStep(entry, stage, status, before, stage in retried, dict(last))
            retried.discard(stage)
            last[stage] = step
            found.append(step)
    return found


def log_findings(version: Version) -> list[ImportFinding]:
    """Return what is wrong with the steps that a version's log tells of."""
    state = version.state
    found = [f for step in steps_of(version.entries) for f in _step(step, state)]
    for entry in version.entries:
        found += _entry(entry, state)
    return [*found, *_sessions(version.entries), *_end(version), *_polling(version.entries)]


def _at(kind: str, entry: LogEntry, evidence: str, stage: str | None = None) -> ImportFinding:
    last = entry.line + len(entry.raw) - 1 if entry.raw[-1].strip() else None
    return ImportFinding(kind, LOG, entry.line, evidence, stage or entry.stage, last_line=last)


def _step(step: ClaimedStep, state: StateFile) -> Iterator[ImportFinding]:
    stage = next((s for s in state.stages if s["id"] == step.stage), None)
    if stage is None:
        yield _at("unknown_stage", step.entry, f"{step.stage}: {step.entry.text}")
        return
    yield from _transition(step, stage, state)
    yield from _dependencies(step, stage)
    yield from _identical(step, stage)


def _transition(
    step: ClaimedStep, stage: dict[str, object], state: StateFile
) -> Iterator[ImportFinding]:
    before, target = step.before or Status.PENDING, step.target
    if before is target:
        if step.before is not None:
            line = step.others[step.stage].entry.line
            yield _at("repeated_status", step.entry, f"{target} since line {line} already")
        return
    row = transition(before, target)
    after_retry = before is Status.FAILED and step.retried and target is Status.PREPARING
    if row is None and not after_retry:
        since = f" (line {step.others[step.stage].entry.line})" if step.before else ""
        yield _at("illegal_transition", step.entry, f"{before}{since} -> {target}")
    elif row is not None and row.by_amendment and not _amended(step.stage, state):
        yield _at("unamended_change", step.entry, f"{before} -> {target} takes an amendment")
    elif before is Status.PREPARING and target is Status.POST_PROCESSING and _remote(stage, state):
        yield _at("missing_step", step.entry, "a job on a remote backend passes through running")


def _amended(stage: str, state: StateFile) -> bool:
    return any(
        stage == record.get("stage_id") or stage in (record.get("invalidated_stages") or [])
        for record in state.document.get("amendments") or []
    )


def _remote(stage: dict[str, object], state: StateFile) -> bool:
    name = stage.get("backend") or state.document.get("default_backend") or "local"
    profiles = state.document.get("backend_profiles") or {}
    return bool(profiles.get(name, {}).get("type") == "remote")


def _needs(stage: dict[str, object]) -> list[str]:
    needs = stage.get("depends_on") or []
    return list(needs) if isinstance(needs, list) else []


def _dependencies(step: ClaimedStep, stage: dict[str, object]) -> Iterator[ImportFinding]:
    if step.target not in _AT_WORK or step.before in _AT_WORK:
        return
    for need in _needs(stage):
        found = step.others[need].target if need in step.others else Status.PENDING
        if found not in (Status.COMPLETED, Status.SKIPPED):
            yield _at("missing_step", step.entry, f"{step.target} while {need} was {found}")


def _identical(step: ClaimedStep, stage: dict[str, object]) -> Iterator[ImportFinding]:
    if step.target not in _COMPUTED:
        return
    if step.before is Status.RUNNING and _same(step, step.others[step.stage]):
        line = step.others[step.stage].entry.line
        yield _at(
            "identical_times", step.entry, f"{step.target} when it was launched (line {line})"
        )
    for need in _needs(stage):
        other = step.others.get(need)
        if other is not None and other.target is Status.COMPLETED and _same(step, other):
            when = f"{need} was completed (line {other.entry.line})"
            yield _at(
                "identical_times", step.entry, f"{step.target} at the very second that {when}"
            )


def _same(one: ClaimedStep, other: ClaimedStep) -> bool:
    first, second = one.entry.time, other.entry.time
    return first is not None and second is not None and first.is_same_second(second)


def _entry(entry: LogEntry, state: StateFile) -> Iterator[ImportFinding]:
    for word in entry.unknown:
        yield _at("unknown_status", entry, word)
    if entry.retry is not None and all(stage["id"] != entry.stage for stage in state.stages):
        yield _at("unknown_stage", entry, entry.text)


def _sessions(entries: Sequence[LogEntry]) -> Iterator[ImportFinding]:
    last = 0
    for entry in entries:
        if entry.session is None:
            continue
        if entry.session != last + 1:
            yield _at("session_gap", entry, f"session {entry.session} after {last or 'none'}")
        last = entry.session


def _end(version: Version) -> Iterator[ImportFinding]:
    """A workflow called completed before its stages were."""
    for index, entry in enumerate(version.entries):
        if entry.workflow_completed:
            last = {step.stage: step.target for step in steps_of(version.entries[:index])}
            for stage in version.state.stages:
                status = last.get(stage["id"], Status.PENDING)
                if status not in (Status.COMPLETED, Status.SKIPPED):
                    evidence = f"the workflow completed while {stage['id']} was {status}"
                    yield _at("missing_step", entry, evidence, stage["id"])


def _polling(entries: Sequence[LogEntry]) -> Iterator[ImportFinding]:
    stages = dict.fromkeys(entry.stage for entry in entries if entry.is_polling)
    for stage in stages:
        lines = [entry for entry in entries if entry.is_polling and entry.stage == stage]
        yield spread("polling", lines, lines[0].text)


def spread(kind: str, entries: Sequence[LogEntry], evidence: str) -> ImportFinding:
    """Return one finding for all of the entries."""
    first, last = entries[0], entries[-1]
    return ImportFinding(
        kind, LOG, first.line, evidence, first.stage, last_line=last.line, count=len(entries)
    )


def time_findings(entries: Sequence[LogEntry], latest: str) -> list[ImportFinding]:
    """Return what is wrong with the times of entries; ``latest`` is when they were known at most.

    Neighbours with the same lack make one finding.
    """
    kinds: dict[str, Callable[[LogEntry], bool]] = {
        "undated": lambda e: e.time is None,
        "no_seconds": lambda e: e.time is not None and not e.time.has_seconds,
        "no_offset": lambda e: e.time is not None and e.time.offset is None,
        "future_time": lambda e: e.time is not None and e.time.moment > latest,
    }
    found = [f for kind, lacks in kinds.items() for f in _neighbours(kind, entries, lacks)]
    return [*found, *_disorder(entries)]


def _neighbours(
    kind: str, entries: Sequence[LogEntry], lacks: Callable[[LogEntry], bool]
) -> Iterator[ImportFinding]:
    run: list[LogEntry] = []
    for entry in [*entries, None]:
        if entry is not None and lacks(entry):
            run.append(entry)
        elif run:
            evidence = run[0].time.text if run[0].time else run[0].text
            yield replace(spread(kind, run, evidence), stage=None)
            run = []


def _disorder(entries: Sequence[LogEntry]) -> Iterator[ImportFinding]:
    latest: LogEntry | None = None
    for entry in entries:
        if entry.time is None:
            continue
        if latest is not None and latest.time is not None and entry.time.is_before(latest.time):
            evidence = f"{entry.time.text} below {latest.time.text} (line {latest.line})"
            yield _at("out_of_order", entry, evidence)
        else:
            latest = entry


_PROCESS_FIELDS = (
    *("tmux_session", "submission_json", "wrapper_script", "done_marker", "exit_code_file"),
    *("recovery_attempted", "launched_at"),
)
_AMENDMENT_FIELDS = (
    *("id", "version", "timestamp", "type", "stage_id", "description", "changes"),
    *("invalidated_stages", "approved_by"),
)
_RUN_AGAIN = frozenset({Status.READY, Status.PREPARING, Status.RUNNING})
Fields = dict[str, Any]


class StateFindings:
    """The findings on one version's state."""

    def __init__(self, version: Version, zone: tzinfo | None) -> None:
        self.version = version
        self.state = version.state
        self.zone = zone
        self.steps = steps_of(version.entries)
        self.entries: tuple[LogEntry, ...] = version.entries

    def all(self) -> list[ImportFinding]:
        """Return what is wrong with the state in itself and beside its log."""
        found = [*self._workflow(), *self._unknown(), *self._named()]
        for index, stage in enumerate(self.state.stages):
            place = f"/stages/{index}"
            found += self._status(place, stage)
            found += self._retries(place, stage) if self.version.has_log else []
            found += self._launch(place, stage)
            found += self._order(place, stage)
            found += self._identical(place, stage)
        return [*found, *self._times()]

    def _at(
        self, kind: str, pointer: str, evidence: str, stage: str | None = None
    ) -> ImportFinding:
        return ImportFinding(kind, STATE, self.state.line(pointer), evidence, stage)

    def _time(self, value: Any) -> TypedTime | None:
        return parse_time(value, self.zone) if isinstance(value, str) else None

    def _workflow(self) -> Iterator[ImportFinding]:
        document = self.state.document
        if not self.version.has_log:
            yield self._at("no_log", "", f"there is no {LOG}: the state alone says what was")
        if document.get("workflow_status") == "completed":
            for stage in self.state.stages:
                if stage.get("status") not in FINISHED:
                    evidence = f"the workflow is completed, {stage['id']} {stage.get('status')}"
                    yield self._at("missing_step", "/workflow_status", evidence, stage["id"])
        count = (document.get("session_config") or {}).get("session_count")
        logged = [entry.session for entry in self.entries if entry.session is not None]
        if count is not None and logged and logged[-1] != count:
            evidence = f"session_count {count}, the log's last session is {logged[-1]}"
            yield self._at("session_gap", "/session_config/session_count", evidence)

    def _last(self, stage: str) -> ClaimedStep | None:
        return next((step for step in reversed(self.steps) if step.stage == stage), None)

    def _status(self, place: str, stage: Fields) -> Iterator[ImportFinding]:
        status, last = stage.get("status") or "pending", self._last(stage["id"])
        logged = self._logged(stage["id"], last)
        if status != logged and self.version.has_log:
            where = f" (line {last.entry.line})" if last else ""
            evidence = f"{status} in the state, {logged} by the log{where}"
            yield self._at("missing_step", f"{place}/status", evidence, stage["id"])
        if status == "completed":
            for name in ("started_at", "completed_at"):
                if not stage.get(name):
                    evidence = f"completed without {name}"
                    yield self._at("missing_step", f"{place}/{name}", evidence, stage["id"])
        if status == "running" and not stage.get("running_process"):
            evidence = "running without running_process"
            yield self._at("missing_step", f"{place}/running_process", evidence, stage["id"])

    def _logged(self, stage: str, last: ClaimedStep | None) -> str:
        """Return the status that the log comes to, a retry that nothing follows included."""
        if last is None:
            return "pending"
        later = [e for e in self.entries if e.line > last.entry.line and e.stage == stage]
        retried = last.target is Status.FAILED and any(e.retry is not None for e in later)
        return "ready" if retried else last.target.value

    def _retries(self, place: str, stage: Fields) -> Iterator[ImportFinding]:
        amendments = self.state.document.get("amendments") or []
        if any(record.get("type") == "stage_rerun" for record in amendments):
            return
        count = stage.get("retry_count") or 0
        lines = [e.line for e in self.entries if e.stage == stage["id"] and e.retry is not None]
        again = [
            step.entry.line
            for step in self.steps
            if step.stage == stage["id"]
            and step.before is Status.FAILED
            and step.target in _RUN_AGAIN
        ]
        logged, where = max(len(lines), len(again)), lines if len(lines) >= len(again) else again
        if logged != count:
            kind = "uncounted_retry" if logged > count else "unlogged_retry"
            at = f" (lines {', '.join(map(str, where))})" if where else ""
            evidence = f"retry_count {count}, retried {logged} times by the log{at}"
            yield self._at(kind, f"{place}/retry_count", evidence, stage["id"])

    def _launch(self, place: str, stage: Fields) -> Iterator[ImportFinding]:
        process = stage.get("running_process")
        if not process:
            return
        pointer = f"{place}/running_process"
        if "submission_json" not in process:
            yield self._at("missing_field", pointer, "submission_json", stage["id"])
        if stage.get("status") in FINISHED:
            evidence = f"{stage['status']}, and it names {_of_process(process)}"
            yield self._at("left_process", pointer, evidence, stage["id"])
        launched = self._time(process.get("launched_at"))
        runs = [s for s in self.steps if s.stage == stage["id"] and s.target is Status.RUNNING]
        logged = runs[-1].entry.time if runs else None
        started = self._time(stage.get("started_at"))
        if launched is not None and logged is not None and launched.is_long_before(logged):
            evidence = (
                f"{launched.text}, launched {logged.text} by the log (line {runs[-1].entry.line})"
            )
            yield self._at("stale_launch", f"{pointer}/launched_at", evidence, stage["id"])
        elif launched is not None and started is not None and launched.is_long_before(started):
            evidence = f"{launched.text}, started_at {started.text}"
            yield self._at("stale_launch", f"{pointer}/launched_at", evidence, stage["id"])

    def _needs(self, stage: Fields) -> list[Fields]:
        return [s for s in self.state.stages if s["id"] in (stage.get("depends_on") or [])]

    def _order(self, place: str, stage: Fields) -> Iterator[ImportFinding]:
        started, completed = (
            self._time(stage.get(f"{name}_at")) for name in ("started", "completed")
        )
        if started is not None and completed is not None and completed.is_before(started):
            evidence = f"completed {completed.text}, started {started.text}"
            yield self._at("out_of_order", f"{place}/completed_at", evidence, stage["id"])
        for need in self._needs(stage):
            done = self._time(need.get("completed_at"))
            if started is not None and done is not None and started.is_before(done):
                evidence = f"started {started.text}, {need['id']} completed {done.text}"
                yield self._at("out_of_order", f"{place}/started_at", evidence, stage["id"])
        updated = self._time(self.state.document.get("updated"))
        if updated is not None and completed is not None and updated.is_before(completed):
            evidence = f"updated {updated.text}, {stage['id']} completed {completed.text}"
            yield self._at("out_of_order", "/updated", evidence, stage["id"])

    def _identical(self, place: str, stage: Fields) -> Iterator[ImportFinding]:
        launched = (stage.get("running_process") or {}).get("launched_at")
        started, completed = stage.get("started_at"), stage.get("completed_at")
        pairs = [("completed_at", completed, "it was started", started)]
        for need in self._needs(stage):
            id_, done = need["id"], need.get("completed_at")
            pairs += [
                ("started_at", started, f"{id_} was", need.get("started_at")),
                ("completed_at", completed, f"{id_} was", done),
                ("running_process/launched_at", launched, f"{id_} was completed", done),
            ]
        for name, value, what, other in pairs:
            one, two = self._time(value), self._time(other)
            if one is not None and two is not None and one.is_same_second(two):
                evidence = f"{one.text}, the very second that {what}"
                yield self._at("identical_times", f"{place}/{name}", evidence, stage["id"])

    def _unknown(self) -> Iterator[ImportFinding]:
        document = self.state.document
        yield from self._fields("", document, WORKFLOW_FIELDS, None)
        config = document.get("session_config") or {}
        yield from self._fields("/session_config", config, tuple(default_session_config()), None)
        for index, record in enumerate(document.get("amendments") or []):
            stage = record.get("stage_id")
            yield from self._fields(f"/amendments/{index}", record, _AMENDMENT_FIELDS, stage)
        for index, stage in enumerate(self.state.stages):
            place = f"/stages/{index}"
            yield from self._fields(place, stage, STAGE_FIELDS, stage["id"])
            process = stage.get("running_process") or {}
            place = f"{place}/running_process"
            yield from self._fields(place, process, _PROCESS_FIELDS, stage["id"])

    def _named(self) -> Iterator[ImportFinding]:
        for pointer in self.state.named:
            _, _, index, field = pointer.split("/")
            stage = self.state.stages[int(index)]
            evidence = f"{field}: paths with names, taken as {shown(stage[field])}"
            yield self._at("named_paths", pointer, evidence, stage["id"])

    def _fields(
        self, place: str, values: Fields, known: tuple[str, ...], stage: str | None
    ) -> Iterator[ImportFinding]:
        for key, value in values.items():
            if key not in known:
                pointer = f"{place}/{key.replace('~', '~0').replace('/', '~1')}"
                yield self._at("unknown_field", pointer, f"{key}: {shown(value)}", stage)

    def _times(self) -> Iterator[ImportFinding]:
        for pointer, value, stage in self._typed():
            time = self._time(value)
            evidence = f"{pointer.rpartition('/')[2]} {value}"
            if time is None:
                yield self._at("undated", pointer, evidence, stage)
                continue
            if not time.has_seconds:
                yield self._at("no_seconds", pointer, evidence, stage)
            if time.offset is None:
                yield self._at("no_offset", pointer, evidence, stage)
            if time.moment > self.version.known_at:
                yield self._at("future_time", pointer, evidence, stage)

    def _typed(self) -> Iterator[tuple[str, Any, str | None]]:
        document = self.state.document
        found: list[tuple[str, Any, str | None]] = [
            ("/created", document.get("created"), None),
            ("/updated", document.get("updated"), None),
            ("/session_config/session_id", _below(document, "session_config", "session_id"), None),
        ]
        for index, record in enumerate(document.get("amendments") or []):
            place = f"/amendments/{index}/timestamp"
            found.append((place, record.get("timestamp"), record.get("stage_id")))
        for index, stage in enumerate(self.state.stages):
            place, id_ = f"/stages/{index}", stage["id"]
            found.append((f"{place}/started_at", stage.get("started_at"), id_))
            found.append((f"{place}/completed_at", stage.get("completed_at"), id_))
            launched = _below(stage, "running_process", "launched_at")
            found.append((f"{place}/running_process/launched_at", launched, id_))
        return (entry for entry in found if entry[1])


def _below(values: Fields, key: str, inner: str) -> Any:
    return (values.get(key) or {}).get(inner)


def _of_process(process: Fields) -> str:
    return str(process.get("tmux_session") or process.get("launched_at") or "a process")


def shown(value: Any) -> str:
    """Return a value as short JSON."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else f"{text[:117]}..."
