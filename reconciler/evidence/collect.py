"""Evidence: what the disk, the locks and the processes say of an attempt, at one moment.

Plain values that survive a round trip through JSON, so that a verdict can be derived again from
what was recorded. A source that gave no answer is None, which is never the same as "no".
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reconciler.attempt import markers
from reconciler.attempt.markers import Marker, SeenMarker
from reconciler.attempt.observed import Far, ObservedJob
from reconciler.attempt.paths import AttemptPaths
from reconciler.errors import ReconcilerError
from reconciler.evidence.collectors import Survey, here, surveyed, there
from reconciler.host import processes, tmux
from reconciler.host.locks import is_held
from reconciler.host.processes import Host, Process, Tenant
from reconciler.host.program import Queue
from reconciler.records import traces

if TYPE_CHECKING:
    from pydantic import TypeAdapter


class Presence(StrEnum):
    """Whether a file is there, and whether it holds anything."""

    PRESENT = "present"
    EMPTY = "empty"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class OutputEvidence:
    """An output of the stage; ``new`` says whether it was put in place after the launch.

    ``sha256`` is taken where its job is seen to have ended well.
    """

    path: str
    presence: Presence
    new: bool | None = None
    size: int | None = None
    mtime: int | None = None
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that a verdict on an attempt may go by.

    ``tenants`` are the live processes in the attempt's scratch copies, ``copies`` the scratch
    copies that exist, ``recovery_file`` whether DPDispatcher has written down its submission.
    ``scheduler`` names the one that the jobs wait for, ``queue`` is its answer where it can be
    asked, ``far`` that of the machine where the jobs run. ``looked_twice`` says that what is
    missing was missing at two looks, some seconds apart, ``last_chance`` that this attempt stands
    for one that was lost, so that no other would follow it, ``moved`` that it was begun where the
    root was before, and can only be watched, ``in_vain`` that monitors of it ended again and again
    for the same reason, so that another one is of no use, ``monitor_stopped`` that the monitor was
    told to stop where it is, ``verifiable`` that a command of the stage tells whether its outputs
    are right. ``awaited`` names processes that a command which ended well has left at work.
    """

    observed_at: str
    attempt: str
    root_recorded: str | None
    root_now: str
    host_recorded: str | None
    host_now: str
    boot_recorded: str | None
    boot_now: str
    launched_at: int | None
    monitor_locked: bool | None
    monitor_alive: bool | None
    session: bool | None
    jobs: tuple[ObservedJob, ...]
    tenants: tuple[Tenant, ...] | None
    copies: tuple[str, ...]
    recovery_file: bool
    backward_missing: tuple[str, ...]
    exit_marker: Marker
    done_marker: Marker
    outputs: tuple[OutputEvidence, ...]
    scheduler: str | None = None
    queue: Queue | None = None
    far: Far | None = None
    looked_twice: bool = False
    last_chance: bool = False
    moved: bool = False
    in_vain: bool = False
    monitor_stopped: bool = False
    verifiable: bool = False
    awaited: tuple[str, ...] = ()

    @staticmethod
    def of_nothing(now: str, attempt: AttemptPaths, host: str, boot_id: str) -> Evidence:
        """Return the evidence on an attempt of which nothing could be read."""
        return Evidence(
            observed_at=now,
            attempt=attempt.tag,
            root_recorded=None,
            root_now=str(attempt.root),
            host_recorded=None,
            host_now=host,
            boot_recorded=None,
            boot_now=boot_id,
            launched_at=None,
            monitor_locked=None,
            monitor_alive=None,
            session=None,
            jobs=(),
            tenants=None,
            copies=(),
            recovery_file=False,
            backward_missing=(),
            exit_marker=Marker(SeenMarker.NONE),
            done_marker=Marker(SeenMarker.NONE),
            outputs=(),
        )

    @property
    def open_jobs(self) -> list[ObservedJob]:
        """The jobs that have not been seen to end."""
        return [job for job in self.jobs if not job.is_over and not job.is_finished]

    @property
    def silence(self) -> str | None:
        """Why a machine or scheduler that was asked gave no answer; None where each did."""
        if self.far is not None and self.far.error is not None:
            return self.far.error
        if self.queue is not None and self.queue.listed is None:
            return self.queue.error or "the scheduler is silent"
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        found: dict[str, Any] = _adapter().dump_python(self, mode="json")
        return found

    @staticmethod
    def from_dict(values: dict[str, Any]) -> Evidence:
        """Build evidence from what ``to_dict`` returned."""
        return _adapter().validate_python(values)


@cache
def _adapter() -> TypeAdapter[Evidence]:
    from pydantic import TypeAdapter  # only where evidence is there to be written or read

    return TypeAdapter(Evidence)


def collect(
    attempt: AttemptPaths,
    now: str,
    *,
    recorded_root: str | None = None,
    recorded_host: str | None = None,
    recorded_boot: str | None = None,
    survey: Survey | None = None,
) -> Evidence:
    """Look at everything once; ``now`` is the caller's time, ISO 8601 in UTC.

    ``recorded_root`` and ``recorded_host`` are where the attempt was started as the log holds it,
    without them the launch record counts; ``recorded_boot`` is that host's. ``survey`` is one look
    at what attempts have in common, to be shared by many calls. Raises `OSError` where the
    attempt's folder cannot be read: that it seems to hold nothing then says nothing.
    """
    traces.check_listed(attempt)
    survey = survey or surveyed([attempt])
    where = survey.machines[attempt.tag]
    record = attempt.launch_record
    launch, launched_at = traces.texts(traces.read_json(record)), traces.launched(attempt)
    name, boot_id = recorded_host or launch.get("host"), recorded_boot or launch.get("boot_id")
    began_on = Host(name, boot_id, launch.get("machine_id"))
    began_here = name is not None and began_on.is_here(attempt.root)
    locked, watcher = is_held(attempt.monitor_lock), _watcher(attempt)
    found = there(attempt, survey) if where.is_far else here(attempt, where, survey)
    return Evidence(
        observed_at=now,
        attempt=attempt.tag,
        root_recorded=recorded_root or launch.get("root"),
        root_now=str(attempt.root),
        host_recorded=processes.host() if began_here else began_on.name,
        host_now=processes.host(),
        boot_recorded=launch.get("boot_id"),
        boot_now=processes.boot_id(),
        launched_at=launched_at,
        monitor_locked=locked,
        monitor_alive=None if watcher is None else watcher.is_alive(),
        monitor_stopped=watcher is not None and _is_stopped(watcher),
        session=_session(attempt) if not locked and watcher is None else None,
        jobs=found.jobs,
        tenants=found.tenants,
        copies=found.copies,
        recovery_file=found.recovery_file,
        backward_missing=found.backward_missing,
        exit_marker=markers.exit_code(attempt),
        done_marker=markers.read(attempt.done_marker, attempt.tag),
        outputs=tuple(_output(attempt, path) for path in attempt.outputs),
        scheduler=where.batch_type if where.has_scheduler else None,
        queue=found.queue,
        far=found.far,
        awaited=found.awaited,
    )


def with_digests(root: Path, evidence: Evidence) -> Evidence:
    """Return the evidence with what its outputs are by their digest; of a folder by all files."""
    return replace(evidence, outputs=tuple(_digested(root, one) for one in evidence.outputs))


def _digested(root: Path, output: OutputEvidence) -> OutputEvidence:
    try:
        (found,) = markers.digests(root, [output.path])
        times = [file.stat().st_mtime_ns for file in (root / output.path).rglob("*")]
    except (OSError, ReconcilerError):
        return output
    return replace(output, sha256=found.sha256, mtime=max([*times, output.mtime or 0]))


def _watcher(attempt: AttemptPaths) -> Process | None:
    found = traces.read_json(attempt.monitor_record) or {}
    match found:
        case {"pid": int(pid), "ticks": int(ticks), "boot_id": str(boot_id)}:
            return Process(pid, ticks, boot_id)
    return None


def _is_stopped(watcher: Process) -> bool:
    return watcher.is_alive() and processes.is_stopped(watcher.pid)


def _session(attempt: AttemptPaths) -> bool | None:
    return tmux.is_live(attempt.session, os.environ)


def _output(attempt: AttemptPaths, path: str) -> OutputEvidence:
    try:
        found = (attempt.root / path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return OutputEvidence(path, Presence.MISSING)
    presence = Presence.PRESENT if found.st_size else Presence.EMPTY
    new = traces.is_new(attempt, path)
    return OutputEvidence(path, presence, new, found.st_size, found.st_mtime_ns)
