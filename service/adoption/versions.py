"""Versions of a document that an import finds, and its findings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

from service.adoption.log_entries import LogEntry, read_entries
from service.adoption.state_file import StateFile, parse_time, read_state
from service.errors import NotFound, ServiceError
from service.root.disk import utc_text
from service.root.git import git
from service.root.safe_open import content_within

#: Kind → what it means, in the order in which findings are shown: what says that a result may be
#: wrong comes first, what says that somebody wrote little comes last.
KINDS = {
    "other_workflow": "earlier versions of another workflow, which are not taken",
    "unreadable_version": "a committed version that cannot be read",
    "no_log": "no log that says what was",
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
        return {
            "kind": self.kind,
            "file": self.file,
            "line": self.line,
            "last_line": self.last_line or self.line,
            "count": self.count,
            "stage": self.stage,
            "commit": self.commit,
            "evidence": self.evidence,
        }


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


@dataclass(frozen=True, slots=True)
class _Commit:
    hash: str
    at: str
    state: bytes
    log: bytes | None
    after_gap: bool


def read_sources(folder: Path, *, now: str, git: bool, zone: tzinfo | None) -> Sources:
    """Read the files in ``folder``, with ``git`` also every version of them in its history.

    ``zone`` holds for times without offset; None: that of ``created`` where it shows the same
    clock as the log's first entry, else the local one. ``now`` is the time now, the log's form.
    Raises `NotFound`, `UnreadablePlan`, `UnimportableState`.
    """
    state = read_state(STATE, _content(folder, STATE))
    log = content_within(folder, LOG)
    zone = zone or _zone(state, log or b"")
    last = _version(state, log, zone, now, None)
    versions: list[Version] = []
    unreadable: list[ImportFinding] = []
    for commit in _commits(folder) if git else []:
        try:
            earlier = read_state(STATE, commit.state)
        except ServiceError as error:
            unreadable.append(_unreadable(commit, error))
        else:
            version = _version(earlier, commit.log, zone, commit.at, commit.hash)
            versions.append(replace(version, after_gap=commit.after_gap))
    if versions and (versions[-1].state.content, versions[-1].log) == (state.content, log or b""):
        same = versions.pop()
        last = replace(last, known_at=same.known_at, after_gap=same.after_gap)
    own = (version for version in versions if version.workflow == last.workflow)
    foreign = (version for version in versions if version.workflow != last.workflow)
    return Sources(folder, (*own, last), zone, tuple(unreadable), tuple(foreign))


def _content(folder: Path, name: str) -> bytes:
    content = content_within(folder, name)
    if content is None:
        raise NotFound(
            f"no {name} in {folder}; expected a folder with {STATE}, and {LOG} where there is one. "
            "Nothing was written.",
            folder=str(folder),
            file=name,
        )
    return content


def _version(
    state: StateFile, log: bytes | None, zone: tzinfo | None, known_at: str, commit: str | None
) -> Version:
    entries = tuple(read_entries(log or b"", zone, state.stages))
    return Version(state, log or b"", entries, known_at, commit, log is not None)


def _zone(state: StateFile, log: bytes) -> tzinfo | None:
    """Return the zone of ``created`` where the log's first entry shows the same clock."""
    first = next((e.time for e in read_entries(log, UTC) if e.time is not None), None)
    created = parse_time(state.document.get("created") or "", None)
    if first is None or created is None or first.wall_clock != created.wall_clock:
        return None
    return created.offset


def _unreadable(commit: _Commit, error: ServiceError) -> ImportFinding:
    line = error.data.get("line") or 1
    return ImportFinding("unreadable_version", STATE, line, error.message, commit=commit.hash)


def _commits(folder: Path) -> list[_Commit]:
    """Return the commits that touched the files, oldest first, with both as of each."""
    listed = _git(
        folder,
        "log",
        "--no-ext-diff",
        "--no-textconv",
        "--reverse",
        "--format=%H %ct",
        "--",
        STATE,
        LOG,
    )
    found: list[_Commit] = []
    gone = False
    for line in listed.decode().splitlines():
        hash_, _, seconds = line.partition(" ")
        state, log = (_blob(folder, hash_, name) for name in (STATE, LOG))
        if state is not None:
            found.append(
                _Commit(
                    hash_, utc_text(datetime.fromtimestamp(int(seconds), UTC)), state, log, gone
                )
            )
        gone = state is None
    return found


def _blob(folder: Path, commit: str, name: str) -> bytes | None:
    place = f"{commit}:./{name}"
    if not _git(folder, "ls-tree", "--name-only", commit, f"./{name}").strip():
        return None
    return _git(folder, "cat-file", "blob", place)


def _git(folder: Path, *arguments: str) -> bytes:
    done = git(folder, *arguments)
    if done is None:
        raise NotFound("git is not installed, and --git needs it.")
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise NotFound(f"{folder} has no git history that can be read: {said}", git=said)
    return done.stdout
