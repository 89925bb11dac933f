"""The versions of the state and log files that an import reads, with their log entries.

The module also defines the kinds of problems that an import reports.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

from extensions.adoption.state_file import StateFile, decode_state_file
from extensions.adoption.typed_time import TypedTime, parse_time
from lifecycle.state.status import Status
from service.errors import NotFound, ServiceError
from service.root.atomic_files import common_start as start_of
from service.root.atomic_files import utc_text
from service.root.git import run_git
from service.root.paths_within_root import content_within

_BRACKET = re.compile(r"\[([^\]]*)\] ?(.*)", re.DOTALL)
#: Accepted forms of a stage at the start of a log line: `stage-1 (Name)` and `Stage 1 (Name):`.
_STAGE = re.compile(r"stage-([1-9][0-9]*)\b(?: \(.*?\))?:?(.*)", re.ASCII | re.DOTALL)
_SPACED_STAGE = re.compile(
    r"[Ss]tage ([1-9][0-9]*)(?: \(.*?\))?(?::|(?= retry #))(.*)", re.ASCII | re.DOTALL
)
#: The text after the name of a stage must match this pattern. Otherwise, the line only happens to
#: start with the same words.
_BEHIND = re.compile(r"(?: \(.*?\))?(?::|(?= retry #))(.*)", re.ASCII | re.DOTALL)
_STATUS = re.compile(r"\bstatus\s*(?:->|→|=>)\s*([A-Za-z_]+)")
_RETRY = re.compile(r" retry #(\d{1,4})\b", re.ASCII)
_SESSION = re.compile(r"Session (\d{1,6}) started\b", re.ASCII)
_WORDS = frozenset(Status)


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A log entry: its line number, its bytes, its time, and its content.

    ``line`` counts from 1. ``raw`` contains the lines without newlines. A blank line belongs to the
    entry before it. ``unknown`` contains unknown words that were written where a status belongs.
    """

    line: int
    raw: tuple[bytes, ...]
    text: str
    time: TypedTime | None = None
    stage: str | None = None
    statuses: tuple[Status, ...] = ()
    unknown: tuple[str, ...] = ()
    retry: int | None = None
    session: int | None = None
    workflow_completed: bool = False
    ended: bool = True

    @property
    def is_polling(self) -> bool:
        """Return whether the entry only reports that the status of a stage was checked."""
        return self.stage is not None and re.search(r": polling\b", self.text) is not None


def read_entries(
    content: bytes, zone: tzinfo | None, stages: Sequence[dict[str, Any]] = ()
) -> list[LogEntry]:
    """Return the entries of a hand-written log.

    ``zone`` is the time zone of times without UTC offset; None means local time. ``stages`` are the
    stages of the state file. A log line may start with the id or the name of a stage.
    """
    names = [str(stage.get("name") or "") for stage in stages]
    alone = {n: str(s["id"]) for n, s in zip(names, stages, strict=True) if names.count(n) == 1}
    meant = alone | {str(stage["id"]): str(stage["id"]) for stage in stages}
    known = {word: meant[word] for word in sorted(meant, key=len, reverse=True) if word}
    entries: list[LogEntry] = []
    lines = content.split(b"\n")
    for number, line in enumerate(lines if lines[-1] else lines[:-1], 1):
        if entries and not line.strip():
            entries[-1] = replace(entries[-1], raw=(*entries[-1].raw, line))
        else:
            entries.append(_parse_entry(number, line, zone, known))
    if lines[-1]:
        entries[-1] = replace(entries[-1], ended=False)
    return entries


def _parse_entry(
    number: int, line: bytes, zone: tzinfo | None, known: Mapping[str, str]
) -> LogEntry:
    text = line.decode("utf-8", "backslashreplace").strip()
    bracket = _BRACKET.fullmatch(text)
    time = parse_time(bracket[1], zone) if bracket else None
    if bracket and time is not None:
        text = bracket[2]
    entry = LogEntry(number, (line,), text, time)
    session = _SESSION.match(text)
    if session:
        return replace(entry, session=int(session[1]))
    if text.startswith("Workflow completed"):
        return replace(entry, workflow_completed=True)
    stage, said = _parse_stage_prefix(text, known)
    if stage is None:
        return entry
    words, retry = _STATUS.findall(said), _RETRY.match(said)
    return replace(
        entry,
        stage=stage,
        statuses=tuple(Status(word) for word in words if word in _WORDS),
        unknown=tuple(word for word in words if word not in _WORDS),
        retry=int(retry[1]) if retry else None,
    )


def _parse_stage_prefix(text: str, known: Mapping[str, str]) -> tuple[str | None, str]:
    """Return the stage that a log line names, and the text after the stage.

    Returns None and an empty string if the line does not name a stage.
    """
    numbered = _STAGE.match(text)
    if numbered is not None and (f"stage-{numbered[1]}" in known or not known):
        return f"stage-{numbered[1]}", numbered[2]
    for word, stage in known.items():
        said = _BEHIND.match(text, len(word)) if text.startswith(word) else None
        if said is not None:
            return stage, said[1]
    numbered = numbered or _SPACED_STAGE.match(text)
    return (f"stage-{numbered[1]}", numbered[2]) if numbered is not None else (None, "")


def group_repeated_polls(entries: Sequence[LogEntry]) -> list[list[LogEntry]]:
    """Return the log entries in groups.

    Identical, consecutive entries that only report a status check share a group. Any other entry is
    a group of its own.
    """
    found: list[list[LogEntry]] = []
    for entry in entries:
        last = found[-1][-1] if found else None
        if last and entry.is_polling and (last.stage, last.text) == (entry.stage, entry.text):
            found[-1].append(entry)
        else:
            found.append([entry])
    return found


def count_common_entries(before: Sequence[LogEntry], now: Sequence[LogEntry]) -> int:
    """Return the number of entries at the start that two versions of a log have in common."""
    return start_of([one.raw for one in before], [one.raw for one in now])


#: Kind of problem → its meaning. Findings are listed in this order, the most important kind first.
KINDS = {
    "other_workflow": "earlier versions of another workflow, which are not imported",
    "unreadable_version": "a committed version that cannot be read",
    "no_log": "no log that describes the history",
    "unread_log": "a log in which no line names a stage",
    "missing_output": "an output is named but does not exist",
    "illegal_transition": "a change of status that the protocol does not allow",
    "missing_step": "a status without the step before it",
    "repeated_status": "a status that the stage already had",
    "unknown_status": "a line has an unknown status",
    "unknown_stage": "a stage that is not in the state",
    "unamended_change": "a definition changed without an amendment",
    "uncounted_retry": "a retry that is missing in retry_count",
    "unlogged_retry": "a retry_count that is larger than the retries in the log",
    "stale_launch": "launched_at is older than the attempt",
    "rewritten_log": "lines of an earlier version are missing",
    "begun_anew": "the files were removed, and a new workflow with the same id was started",
    "left_process": "a stage that has ended still has a running_process",
    "missing_report": "the report that the log names does not exist",
    "missing_machine": "the machine file that a profile names does not exist",
    "session_gap": "a session number out of sequence",
    "out_of_order": "a time earlier than a time on a line above",
    "future_time": "a time later than the file itself",
    "identical_times": "the same time for events that cannot happen in the same second",
    "undated": "a line or field without a readable time",
    "no_seconds": "a time without seconds",
    "no_offset": "a time without offset",
    "missing_field": "a missing field that the protocol requires",
    "named_paths": "paths with names, imported as a list",
    "unknown_field": "a field that is not part of the protocol",
    "polling": "lines that only record a check of the status",
}


@dataclass(frozen=True, slots=True)
class ImportFinding:
    """A problem in the imported files: its kind, its place, and the evidence for it.

    The place is a file, a line that counts from 1, and a commit. ``count`` is the number of lines
    or fields that have the problem; ``last_line`` is the last of these lines.
    """

    kind: str
    file: str
    line: int
    evidence: str
    stage: str | None = None
    commit: str | None = None
    last_line: int | None = None
    count: int = 1

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as a dictionary of plain JSON values."""
        order = ("kind", "file", "line", "last_line", "count", "stage", "commit", "evidence")
        known = {**asdict(self), "last_line": self.last_line or self.line}
        return {name: known[name] for name in order}


STATE = "workflow-state.json"
LOG = "progress.log"


@dataclass(frozen=True, slots=True)
class SourceVersion:
    """The state file and the log at one time.

    ``commit`` is the Git commit of the files, or None for the files on disk. ``known_at`` is the
    UTC time by which the files existed, as proven by the commit.
    """

    state: StateFile
    log: bytes
    entries: tuple[LogEntry, ...]
    known_at: str
    commit: str | None = None
    has_log: bool = True
    #: Whether the files were missing in the commit before this version.
    after_gap: bool = False

    @property
    def workflow(self) -> str:
        """The id of the workflow."""
        return str(self.state.document["workflow_id"])


@dataclass(frozen=True, slots=True)
class Sources:
    """The versions of the files to import, oldest first.

    ``zone`` is the time zone of times without UTC offset. ``foreign`` contains versions of another
    workflow in the same folder, which are not imported.
    """

    folder: Path
    versions: tuple[SourceVersion, ...]
    zone: tzinfo | None
    unreadable: tuple[ImportFinding, ...] = ()
    foreign: tuple[SourceVersion, ...] = ()

    @property
    def last(self) -> SourceVersion:
        """The newest version: the files on disk."""
        return self.versions[-1]


def read_sources(folder: Path, *, now: str, git: bool, zone: tzinfo | None) -> Sources:
    """Read the state file and the log in ``folder``.

    With ``git``, all committed versions of both files are read too.

    ``zone`` is the time zone of times without UTC offset. If ``zone`` is None, the UTC offset of
    the field ``created`` is used, if the first log entry shows the same clock time. Otherwise,
    local time is assumed. ``now`` is the current UTC time. Raises `NotFound`, `UnreadablePlan` or
    `UnimportableState`.
    """
    content, log = content_within(folder, STATE), content_within(folder, LOG)
    if content is None:
        raise NotFound(
            f"the folder {folder} contains no file {STATE}. Name a folder that contains {STATE} "
            f"and, if the workflow has a log, also {LOG}. Nothing was written.",
            folder=str(folder),
            file=STATE,
        )
    state = decode_state_file(STATE, content)
    zone = zone or _guess_zone(state, log or b"")
    last = _build_version(state, log, zone, now, None)
    versions: list[SourceVersion] = []
    unreadable: list[ImportFinding] = []
    for commit, at, earlier, log_then, after_gap in _iterate_commits(folder) if git else ():
        try:
            version = _build_version(decode_state_file(STATE, earlier), log_then, zone, at, commit)
        except ServiceError as error:
            line, why = error.data.get("line") or 1, error.message
            unreadable.append(ImportFinding("unreadable_version", STATE, line, why, commit=commit))
        else:
            versions.append(replace(version, after_gap=after_gap))
    if versions and (versions[-1].state.content, versions[-1].log) == (content, log or b""):
        same = versions.pop()
        last = replace(last, known_at=same.known_at, after_gap=same.after_gap)
    own = (version for version in versions if version.workflow == last.workflow)
    foreign = (version for version in versions if version.workflow != last.workflow)
    return Sources(folder, (*own, last), zone, tuple(unreadable), tuple(foreign))


def _build_version(
    state: StateFile, log: bytes | None, zone: tzinfo | None, known_at: str, commit: str | None
) -> SourceVersion:
    entries = tuple(read_entries(log or b"", zone, state.stages))
    return SourceVersion(state, log or b"", entries, known_at, commit, log is not None)


def _guess_zone(state: StateFile, log: bytes) -> tzinfo | None:
    """Return the time zone of the field ``created``, or None.

    The zone is returned only if the first log entry shows the same clock time.
    """
    first = next((e.time for e in read_entries(log, UTC) if e.time is not None), None)
    created = parse_time(state.document.get("created") or "", None)
    if first is None or created is None:
        return None
    clocks = {time.text[:16].replace(" ", "T") for time in (first, created)}
    return created.offset if len(clocks) == 1 else None


def _iterate_commits(folder: Path) -> Iterator[tuple[str, str, bytes, bytes | None, bool]]:
    """Yield the commits that changed the state or log file, oldest first.

    Each item has the commit hash, the time, the contents of both files, and whether the state file
    was missing in the previous commit. Commits without a state file are left out.
    """
    how = ("--no-ext-diff", "--no-textconv", "--reverse", "--format=%H %ct")
    gone = False
    for line in _run_git(folder, "log", *how, "--", STATE, LOG).decode().splitlines():
        hash_, _, seconds = line.partition(" ")
        state, log = (_read_blob(folder, hash_, name) for name in (STATE, LOG))
        if state is not None:
            yield hash_, utc_text(datetime.fromtimestamp(int(seconds), UTC)), state, log, gone
        gone = state is None


def _read_blob(folder: Path, commit: str, name: str) -> bytes | None:
    if not _run_git(folder, "ls-tree", "--name-only", commit, f"./{name}").strip():
        return None
    return _run_git(folder, "cat-file", "blob", f"{commit}:./{name}")


def _run_git(folder: Path, *arguments: str) -> bytes:
    done = run_git(folder, *arguments)
    if done is None:
        raise NotFound(
            "the option --git needs the program git, which is not installed. Install git, or "
            "remove --git."
        )
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise NotFound(f"git cannot read the history of {folder}: {said}", git=said)
    return done.stdout
