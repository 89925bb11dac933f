"""Evidence: what the disk, the locks and the processes say of an attempt, at one moment.

Plain values that survive a round trip through JSON, so that a verdict can be derived again from
what was recorded. A source that gave no answer is None, which is never the same as "no".
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from reconciler import markers, processes, tmux, traces
from reconciler.attempt import Attempt
from reconciler.locks import is_held
from reconciler.markers import Marker
from reconciler.processes import Process, Tenant


class Presence(StrEnum):
    """Whether a file is there, and whether it holds anything."""

    PRESENT = "present"
    EMPTY = "empty"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Output:
    """An output of the stage; ``new`` says whether it was put in place after the launch."""

    path: str
    presence: Presence
    new: bool | None = None
    size: int | None = None
    mtime: int | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """What is known of one job.

    ``started``, ``exit_code`` and ``ended_at`` (ns) are the job's own records, ``tag``,
    ``failed_flag`` and ``state`` DPDispatcher's. ``id_alive`` goes by start time, not id alone.
    """

    name: str
    id: str | None = None
    id_alive: bool | None = None
    started: bool = False
    exit_code: int | None = None
    ended_at: int | None = None
    lock_held: bool | None = False
    tag: bool = False
    failed_flag: bool | None = None
    state: int | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that a verdict on an attempt may go by.

    ``tenants`` are the live processes in the attempt's scratch copies, ``copies`` the scratch
    copies that exist, ``recovery_file`` whether DPDispatcher has written down its submission.
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
    jobs: tuple[Job, ...]
    tenants: tuple[Tenant, ...] | None
    copies: tuple[str, ...]
    recovery_file: bool
    backward_missing: tuple[str, ...]
    exit_marker: Marker
    done_marker: Marker
    outputs: tuple[Output, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        found: dict[str, Any] = _ADAPTER.dump_python(self, mode="json")
        return found

    @staticmethod
    def from_dict(values: dict[str, Any]) -> Evidence:
        """Build evidence from what ``to_dict`` returned."""
        return _ADAPTER.validate_python(values)


_ADAPTER: TypeAdapter[Evidence] = TypeAdapter(Evidence)


def collect(
    attempt: Attempt,
    now: str,
    *,
    recorded_root: str | None = None,
    recorded_host: str | None = None,
    census: Sequence[Tenant] | None = None,
) -> Evidence:
    """Look at everything once; ``now`` is the caller's time, ISO 8601 in UTC.

    ``recorded_root`` and ``recorded_host`` are where the attempt was started as the log holds it,
    without them the launch record counts. ``census`` is one look at all processes, to be shared
    by many calls.
    """
    launch = traces.read_json(attempt.launch_record) or {}
    launched_at = _changed(attempt.launch_record)
    locked, watcher = is_held(attempt.monitor_lock), _watcher(attempt)
    tenants = _tenants(attempt, census)
    return Evidence(
        observed_at=now,
        attempt=attempt.tag,
        root_recorded=recorded_root or launch.get("root"),
        root_now=str(attempt.root),
        host_recorded=recorded_host or launch.get("host"),
        host_now=processes.host(),
        boot_recorded=launch.get("boot_id"),
        boot_now=processes.boot_id(),
        launched_at=launched_at,
        monitor_locked=locked,
        monitor_alive=None if watcher is None else watcher.is_alive(),
        session=_session(attempt) if not locked and watcher is None else None,
        jobs=_jobs(attempt, tenants),
        tenants=tenants,
        copies=tuple(copy.name for copy in traces.scratch_copies(attempt)),
        recovery_file=bool(_states(attempt)),
        backward_missing=traces.backward_missing(attempt),
        exit_marker=markers.read(attempt.exit_code_marker, attempt.tag),
        done_marker=markers.read(attempt.done_marker, attempt.tag),
        outputs=tuple(_output(attempt.root, path, launched_at) for path in attempt.outputs),
    )


def _watcher(attempt: Attempt) -> Process | None:
    found = traces.read_json(attempt.monitor_record)
    return None if found is None else Process(found["pid"], found["ticks"], found["boot_id"])


def _session(attempt: Attempt) -> bool | None:
    return tmux.is_live(attempt.session, os.environ)


def _tenants(attempt: Attempt, census: Sequence[Tenant] | None) -> tuple[Tenant, ...]:
    everyone = processes.census() if census is None else census
    return processes.below(everyone, traces.scratch_root(attempt))


def _jobs(attempt: Attempt, tenants: Iterable[Tenant]) -> tuple[Job, ...]:
    own = {job.name: job for job in traces.jobs(attempt)}
    ids, states = traces.job_ids(attempt), _states(attempt)
    live = {str(tenant.pid) for tenant in tenants}
    names = sorted({*own, *ids, *states})
    return tuple(_job(attempt, n, own.get(n), ids.get(n), states.get(n), live) for n in names)


def _job(
    attempt: Attempt,
    name: str,
    own: traces.Job | None,
    id_: str | None,
    state: int | None,
    live: set[str],
) -> Job:
    shell = None if own is None else own.shell
    return Job(
        name=name,
        id=id_,
        id_alive=shell.is_alive() if shell is not None else id_ in live,
        started=own is not None,
        exit_code=None if own is None else own.exit_code,
        ended_at=None if own is None else own.ended_at,
        lock_held=is_held(traces.lock_of(attempt, name)),
        tag=_in_a_copy(attempt, f"{name}_job_tag_finished") is not None,
        failed_flag=_flag(_in_a_copy(attempt, f"{name}_flag_if_job_task_fail")),
        state=state,
    )


def _states(attempt: Attempt) -> dict[str, int]:
    """Return the job states that DPDispatcher wrote down, by job hash."""
    found: dict[str, int] = {}
    for copy in traces.scratch_copies(attempt):
        saved = traces.read_json(copy / f"{copy.name}.json") or {}
        for entry in saved.get("belonging_jobs", []):
            found.update({name: int(job["job_state"]) for name, job in entry.items()})
    return found


def _in_a_copy(attempt: Attempt, name: str) -> Path | None:
    places = (copy / name for copy in traces.scratch_copies(attempt))
    return next((place for place in places if place.exists()), None)


def _flag(path: Path | None) -> bool | None:
    return None if path is None else path.read_text().strip() == "1"


def _changed(path: Path) -> int | None:
    try:
        return path.stat().st_ctime_ns
    except FileNotFoundError:
        return None


def _output(root: Path, path: str, launched_at: int | None) -> Output:
    try:
        found = (root / path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return Output(path, Presence.MISSING)
    presence = Presence.PRESENT if found.st_size else Presence.EMPTY
    # A file may carry an old modification time (cp -p, tar); when it came into place does not.
    new = None if launched_at is None else found.st_ctime_ns >= launched_at
    return Output(path, presence, new, found.st_size, found.st_mtime_ns)
