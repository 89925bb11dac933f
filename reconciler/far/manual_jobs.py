"""Inspect the folder in which DPDispatcher works for a job that a person launched by hand.

The folder is ``remote_root/HASH``, and the submission file determines the hash. wfctl has no
records of such a job. The evidence is its processes, its scheduler and DPDispatcher's own files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reconciler.attempt import execution_host as machine
from reconciler.attempt.observations import ObservedAttempt, ObservedJob
from reconciler.attempt.paths import digest_submission
from reconciler.errors import ReconcilerError
from reconciler.far import query_machine
from reconciler.host import processes
from reconciler.host import small_files as plain
from reconciler.host.processes import FolderProcess
from reconciler.host.scheduler_jobs import Queue
from reconciler.records import backward_files, traces


@dataclass(frozen=True, slots=True)
class ManualJobs:
    """The observations of jobs that a person launched by hand.

    ``submitted_at`` is the submission time of the first job, in seconds since the epoch.
    ``why_unknown`` is the reason why the folder of the jobs cannot be determined, or None.
    """

    observed: ObservedAttempt = field(default_factory=ObservedAttempt)
    scheduler: str | None = None
    is_watched: bool = False
    submitted_at: float | None = None
    why_unknown: str | None = None


def observe_manual_jobs(
    root: Path, submission: Path, wrapper: Path, recorded_sha256: str = "", interval: int = 0
) -> ManualJobs:
    """Observe the jobs of a submission that a person sent to DPDispatcher by hand.

    Reads the processes, the scheduler and DPDispatcher's files. ``recorded_sha256`` is the digest
    of the submission file at the launch, or empty if it was not recorded. If the file was changed
    since then, the result contains only the reason why nothing is known. ``interval`` is that of
    `query_local_queue`.
    """
    text = plain.read_text(submission)
    given = (traces.read_json(submission) or {}).get("machine")
    if not isinstance(given, dict) or ("$ref" not in given and "remote_root" not in given):
        return ManualJobs()
    if recorded_sha256 not in ("", digest_submission(text)):
        return ManualJobs(why_unknown=f"{submission.name} was changed after the launch")
    if "$ref" not in given and not traces.list_copies_in_folder(root / str(given["remote_root"])):
        # The folder of the jobs does not exist, so only a process that runs the wrapper can be
        # observed.
        return ManualJobs(is_watched=_is_watched(root, submission, wrapper))
    try:
        described = query_machine.query_submission_settings(submission, given, root)
        batch, context = machine.extract_machine_types(described)
    except ReconcilerError as error:
        return ManualJobs(why_unknown=error.message)
    if context != "LocalContext":
        return ManualJobs(why_unknown=f"the jobs run through {context}")
    folder = Path(str(described["folder"]))
    where = machine.ExecutionHost(batch, context, str(folder))
    queue = query_machine.query_local_queue([where.scratch], interval) if where.has_slurm else None
    # The processes are listed before the records are read. A job that ends in between is then seen
    # as ended, not as lost.
    tenants = processes.find_processes_below(processes.list_user_processes(), folder)
    is_watched = _is_watched(root, submission, wrapper)
    copies = (folder,) if folder.is_dir() else ()
    states = traces.read_job_states(copies)
    jobs = tuple(_read_jobs(folder, described["jobs"], states, tenants, queue))
    submitted = [path.stat().st_mtime for path in folder.glob("*_job_id")]
    return ManualJobs(
        ObservedAttempt(
            jobs=jobs,
            tenants=tenants,
            copies=tuple(copy.name for copy in copies),
            recovery_file=bool(states),
            backward_missing=_find_missing_files(traces.read_json(submission) or {}, folder),
            queue=queue,
        ),
        scheduler=batch if where.has_scheduler else None,
        is_watched=is_watched,
        submitted_at=min(submitted, default=None),
    )


def _read_jobs(
    folder: Path,
    names: list[str],
    states: Mapping[str, tuple[int, int]],
    tenants: tuple[FolderProcess, ...],
    queue: Queue | None,
) -> Iterator[ObservedJob]:
    """Yield each submitted job with its state in the scheduler and DPDispatcher's files."""
    listed = {one.id: one for one in (queue.listed or ())} if queue is not None else {}
    live = {str(tenant.pid) for tenant in tenants}
    for name in names:
        id_ = plain.read_text(folder / f"{name}_job_id").strip() or None
        if id_ is None:
            continue
        entry, (state, fail_count) = listed.get(id_), states.get(name, (None, None))
        flag = folder / f"{name}_flag_if_job_task_fail"
        yield ObservedJob(
            name,
            id=id_,
            id_alive=entry.is_alive if entry is not None else id_ in live,
            tag=traces.is_tagged(folder, name),
            failed_flag=plain.read_text(flag).strip() == "1" if flag.exists() else None,
            state=state,
            fail_count=fail_count,
            queued=entry.state if entry is not None else None,
        )


def _find_missing_files(given: Mapping[str, Any], folder: Path) -> tuple[str, ...]:
    """Return the patterns of result files that match no file in the folder."""
    return tuple(
        one for one in backward_files.backward_patterns(given) if not any(folder.glob(one))
    )


def _is_watched(root: Path, submission: Path, wrapper: Path) -> bool:
    """Return whether a process that works in the root runs the wrapper or the submission."""
    place = os.path.realpath(root)
    for tenant in processes.list_user_processes():
        if tenant.folder == place:
            words = processes.command_line(tenant.pid)
            files = {os.path.realpath(Path(place, word)) for word in words[1:]}
            runs = Path(words[0]).name in ("bash", "sh") if words else False
            if (runs and os.path.realpath(wrapper) in files) or (
                "submit" in words and os.path.realpath(submission) in files
            ):
                return True
    return False
