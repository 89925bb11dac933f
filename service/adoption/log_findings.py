"""What is wrong with a log in itself: steps that cannot be, times that say little."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from lifecycle.state.status import Status, transition
from service.adoption.log_entries import LogEntry
from service.adoption.state_file import StateFile
from service.adoption.versions import LOG, ImportFinding, Version

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
