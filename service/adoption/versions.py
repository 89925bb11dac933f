"""Versions of a document that an import finds: the entries of its log, and its findings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

from lifecycle.state.status import Status
from service.adoption.state_file import StateFile, TypedTime, parse_time, read_state
from service.errors import NotFound, ServiceError
from service.root.disk import common_start as start_of
from service.root.disk import content_within, utc_text
from service.root.git import git

_BRACKET = re.compile(r"\[([^\]]*)\] ?(.*)", re.DOTALL)
#: The spellings of a stage in the published texts: `stage-1 (Name)`, and `Stage 1 (Name):`.
_STAGE = re.compile(r"stage-([1-9][0-9]*)\b(?: \(.*?\))?:?(.*)", re.ASCII | re.DOTALL)
_SPACED_STAGE = re.compile(
    r"[Ss]tage ([1-9][0-9]*)(?: \(.*?\))?(?::|(?= retry #))(.*)", re.ASCII | re.DOTALL
)
#: What stands behind the name of a stage: without it the line only begins with the same words.
_BEHIND = re.compile(r"(?: \(.*?\))?(?::|(?= retry #))(.*)", re.ASCII | re.DOTALL)
_STATUS = re.compile(r"\bstatus\s*(?:->|→|=>)\s*([A-Za-z_]+)")
_RETRY = re.compile(r" retry #(\d{1,4})\b", re.ASCII)
_SESSION = re.compile(r"Session (\d{1,6}) started\b", re.ASCII)
_WORDS = frozenset(Status)


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry: where it stands, its bytes, its time, and what it says.

    ``line`` counts from 1. ``raw`` are the lines without their newlines: a blank line belongs to
    the entry before it. ``unknown`` are words that stand where a status should.
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
        """Whether it only says that somebody looked."""
        return self.stage is not None and re.search(r": polling\b", self.text) is not None


def read_entries(
    content: bytes, zone: tzinfo | None, stages: Sequence[dict[str, Any]] = ()
) -> list[LogEntry]:
    """Return the entries of a log; ``zone`` holds for times without offset (None: local).

    ``stages`` are those of the state: a line may begin with the id of one, or with its name.
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
            entries.append(_entry(number, line, zone, known))
    if lines[-1]:
        entries[-1] = replace(entries[-1], ended=False)
    return entries


def _entry(number: int, line: bytes, zone: tzinfo | None, known: Mapping[str, str]) -> LogEntry:
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
    stage, said = _of_stage(text, known)
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


def _of_stage(text: str, known: Mapping[str, str]) -> tuple[str | None, str]:
    """Return the stage that a line is about, and what the line says of it; None for no stage."""
    numbered = _STAGE.match(text)
    if numbered is not None and (f"stage-{numbered[1]}" in known or not known):
        return f"stage-{numbered[1]}", numbered[2]
    for word, stage in known.items():
        said = _BEHIND.match(text, len(word)) if text.startswith(word) else None
        if said is not None:
            return stage, said[1]
    numbered = numbered or _SPACED_STAGE.match(text)
    return (f"stage-{numbered[1]}", numbered[2]) if numbered is not None else (None, "")


def runs(entries: Sequence[LogEntry]) -> list[list[LogEntry]]:
    """Return the entries with neighbours joined that say the same of a poll."""
    found: list[list[LogEntry]] = []
    for entry in entries:
        last = found[-1][-1] if found else None
        if last and entry.is_polling and (last.stage, last.text) == (entry.stage, entry.text):
            found[-1].append(entry)
        else:
            found.append([entry])
    return found


def common_start(before: Sequence[LogEntry], now: Sequence[LogEntry]) -> int:
    """Return how many entries two versions of a log have in common from the first on."""
    return start_of([one.raw for one in before], [one.raw for one in now])


#: Kind → what it means, in the order in which findings are shown: what says that a result may be
#: wrong comes first, what says that somebody wrote little comes last.
KINDS = {
    "other_workflow": "earlier versions of another workflow, which are not taken",
    "unreadable_version": "a committed version that cannot be read",
    "no_log": "no log that says what was",
    "unread_log": "a log of which no line can be given to a stage",
    "missing_output": "an output is named but not there",
    "illegal_transition": "a change of status that the protocol does not have",
    "missing_step": "a status claimed without the step before it",
    "repeated_status": "a status claimed that was already so",
    "unknown_status": "a word that is no status",
    "unknown_stage": "a stage that the state does not have",
    "unamended_change": "a definition changed without an amendment",
    "uncounted_retry": "a retry that retry_count does not count",
    "unlogged_retry": "a retry_count that the log does not account for",
    "stale_launch": "launched_at is older than the attempt",
    "rewritten_log": "lines of an earlier version are gone",
    "begun_anew": "the files were gone, and the workflow begun anew under its id",
    "left_process": "running_process stands on a stage that is over",
    "missing_report": "the report that the log names is not there",
    "missing_machine": "the machine file that a profile names is not there",
    "session_gap": "a session number that does not follow",
    "out_of_order": "a time before one that stands above it",
    "future_time": "a time later than its file",
    "identical_times": "the same time for what cannot have been at once",
    "undated": "a line or field without a time that can be read",
    "no_seconds": "a time without seconds",
    "no_offset": "a time without offset",
    "missing_field": "a field that the protocol asks for",
    "named_paths": "paths that were given names, taken as a list",
    "unknown_field": "a field that the protocol does not have",
    "polling": "lines that only say that somebody looked",
}


@dataclass(frozen=True, slots=True)
class ImportFinding:
    """One finding: its kind, its place (file, lines from 1, commit), the evidence.

    ``count`` is how many lines or fields it stands for, the last one on ``last_line``.
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
        """Return plain JSON values."""
        order = ("kind", "file", "line", "last_line", "count", "stage", "commit", "evidence")
        known = {**asdict(self), "last_line": self.last_line or self.line}
        return {name: known[name] for name in order}


STATE = "workflow-state.json"
LOG = "progress.log"


@dataclass(frozen=True, slots=True)
class Version:
    """State and log as they were at one time; ``commit`` is None for the files on disk.

    ``known_at``: when somebody else can bear witness that they were so (UTC, the log's form).
    """

    state: StateFile
    log: bytes
    entries: tuple[LogEntry, ...]
    known_at: str
    commit: str | None = None
    has_log: bool = True
    #: Whether the files were gone before it.
    after_gap: bool = False

    @property
    def workflow(self) -> str:
        """Whose version it is."""
        return str(self.state.document["workflow_id"])


@dataclass(frozen=True, slots=True)
class Sources:
    """What is imported: the versions, oldest first, and how their times are to be read.

    ``foreign`` are those of another workflow in the same place, which are not taken.
    """

    folder: Path
    versions: tuple[Version, ...]
    zone: tzinfo | None
    unreadable: tuple[ImportFinding, ...] = ()
    foreign: tuple[Version, ...] = ()

    @property
    def last(self) -> Version:
        """The version on disk."""
        return self.versions[-1]


def read_sources(folder: Path, *, now: str, git: bool, zone: tzinfo | None) -> Sources:
    """Read the files in ``folder``, with ``git`` also every version of them in its history.

    ``zone`` holds for times without offset; None: that of ``created`` where it shows the same
    clock as the log's first entry, else the local one. ``now`` is the time now, the log's form.
    Raises `NotFound`, `UnreadablePlan`, `UnimportableState`.
    """
    content, log = content_within(folder, STATE), content_within(folder, LOG)
    if content is None:
        raise NotFound(
            f"no {STATE} in {folder}; expected a folder with {STATE}, and {LOG} where there is "
            "one. Nothing was written.",
            folder=str(folder),
            file=STATE,
        )
    state = read_state(STATE, content)
    zone = zone or _zone(state, log or b"")
    last = _version(state, log, zone, now, None)
    versions: list[Version] = []
    unreadable: list[ImportFinding] = []
    for commit, at, earlier, log_then, after_gap in _commits(folder) if git else ():
        try:
            version = _version(read_state(STATE, earlier), log_then, zone, at, commit)
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


def _version(
    state: StateFile, log: bytes | None, zone: tzinfo | None, known_at: str, commit: str | None
) -> Version:
    entries = tuple(read_entries(log or b"", zone, state.stages))
    return Version(state, log or b"", entries, known_at, commit, log is not None)


def _zone(state: StateFile, log: bytes) -> tzinfo | None:
    """Return the zone of ``created`` where the log's first entry shows the same clock."""
    first = next((e.time for e in read_entries(log, UTC) if e.time is not None), None)
    created = parse_time(state.document.get("created") or "", None)
    if first is None or created is None:
        return None
    clocks = {time.text[:16].replace(" ", "T") for time in (first, created)}
    return created.offset if len(clocks) == 1 else None


def _commits(folder: Path) -> Iterator[tuple[str, str, bytes, bytes | None, bool]]:
    """Yield the commits that touched the files, oldest first: hash, time, state and log, after gap.

    A commit without a state is a gap.
    """
    how = ("--no-ext-diff", "--no-textconv", "--reverse", "--format=%H %ct")
    gone = False
    for line in _git(folder, "log", *how, "--", STATE, LOG).decode().splitlines():
        hash_, _, seconds = line.partition(" ")
        state, log = (_blob(folder, hash_, name) for name in (STATE, LOG))
        if state is not None:
            yield hash_, utc_text(datetime.fromtimestamp(int(seconds), UTC)), state, log, gone
        gone = state is None


def _blob(folder: Path, commit: str, name: str) -> bytes | None:
    if not _git(folder, "ls-tree", "--name-only", commit, f"./{name}").strip():
        return None
    return _git(folder, "cat-file", "blob", f"{commit}:./{name}")


def _git(folder: Path, *arguments: str) -> bytes:
    done = git(folder, *arguments)
    if done is None:
        raise NotFound("git is not installed, and --git needs it.")
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise NotFound(f"{folder} has no git history that can be read: {said}", git=said)
    return done.stdout
