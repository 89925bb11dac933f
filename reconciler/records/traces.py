"""Read the files that the jobs of an attempt and DPDispatcher left on the disk."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from reconciler.attempt import execution_host as machine
from reconciler.attempt import paths as genuine
from reconciler.attempt.observations import ObservedJob
from reconciler.attempt.paths import (
    ERROR_LOG,
    JOB,
    KILLED,
    OUTPUT_LOG,
    PREPARED,
    AttemptPaths,
    JobRecordSuffix,
    iterate_forwarded_paths,
)
from reconciler.context import SubmissionFacts
from reconciler.host import small_files as plain
from reconciler.host.processes import Process
from reconciler.host.scheduler_jobs import EXCEEDED, TAKEN
from reconciler.records.remaining_processes import parse_remaining_processes
from reconciler.records.resource_use import combine_resource_use, parse_resource_use
from service.root.atomic_files import write_whole
from service.root.folder_entries import is_file, is_folder, stat_of

_SUBMITS = re.compile(r"^== \S+ submit", re.MULTILINE)
_SUBMITTED = re.compile(r"job ([0-9a-f]{40}) was submitted; job_id is (\S+)")
_PLACE = re.compile(r"^.* - INFO : (?:at|remote path:) (.+)$", re.MULTILINE)
_TASK = re.compile(r"[0-9a-f]{40}_task_tag_finished")
_HASH = re.compile(r"[0-9a-f]{40}")
_ERROR_BYTES = 4000
_ERROR_LINES = 10
#: Matches the line with which Python reports the exception that ended a program. It is followed by
#: the number of log lines that are searched for a traceback.
_RAISED = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt)(: .*)?$")
_TRACEBACK = 200
_TRACED = "Traceback (most recent call last)"
#: Matches the line that Python prints between the traceback of an error and the traceback of an
#: earlier error.
_CHAINED = re.compile(r"^(During handling of|The above exception was)")


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file, or None if it is missing or incomplete."""
    try:
        found = json.loads(plain.read_text(path))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def select_text_values(record: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the values of a record that are strings.

    Other values are invalid and are omitted.
    """
    return {name: value for name, value in (record or {}).items() if isinstance(value, str)}


def read_started_jobs(attempt: AttemptPaths) -> tuple[ObservedJob, ...]:
    """Return what the records of the attempt's started jobs show, sorted by job."""
    return tuple(job for job, _, _ in iterate_started_jobs(attempt))


def iterate_started_jobs(
    attempt: AttemptPaths,
) -> Iterator[tuple[ObservedJob, str | None, Process | None]]:
    """Yield each started job of an attempt, with its scratch folder and its bash process.

    A job's claim to start has a second copy outside the attempt's folder, so a started job is found
    even if that folder was removed.
    """
    claims = {
        one.name: one
        for one in attempt.start_claims_folder.glob(f"{JOB}*{JobRecordSuffix.STARTED}")
    }
    claims |= {one.name: one for one in list_job_record_files(attempt, JobRecordSuffix.STARTED)}
    for _, place in sorted(claims.items()):
        ending, killed = (
            place.with_suffix(JobRecordSuffix.EXIT),
            place.with_suffix(JobRecordSuffix.KILLED),
        )
        code = _number_in(ending)
        if code is None and killed.exists():
            # SIGKILL also ended the shell that would have recorded the exit code, so the mark of
            # the kill counts as the end.
            code, ending = KILLED, killed
        job = ObservedJob(
            place.stem.removeprefix(JOB),
            started=True,
            exit_code=code,
            ended_at=None if code is None else ending.stat().st_mtime_ns,
            command_code=_number_in(place.with_suffix(JobRecordSuffix.CODE)),
            used=_parse_used_resources(plain.read_text(ending)),
            remaining=parse_remaining_processes(plain.read_text(ending)),
        )
        yield job, *_parse_start_claim(plain.read_text(place / "record"))


def _parse_used_resources(record: str) -> dict[str, float] | None:
    """Return the resources that a job used, or None if its record contains none.

    The record is the file with the exit code. The resources follow after the first two lines.
    """
    return combine_resource_use(map(parse_resource_use, record.splitlines()[2:])) or None


def _number_in(path: Path) -> int | None:
    return plain.parse_number(plain.read_text(path).partition("\n")[0])


def _parse_start_claim(text: str) -> tuple[str | None, Process | None]:
    lines = text.split("\n")
    pid, ticks = (
        (plain.parse_number(one) for one in lines[-5:-3]) if len(lines) > 5 else (None, None)
    )
    if pid is None or ticks is None:
        return None, None
    return "\n".join(lines[:-5]), Process(pid, ticks, lines[-3])


def read_host_of_claim(attempt: AttemptPaths) -> dict[str, str]:
    """Return the host and the boot id of the first job that claimed its start.

    Returns an empty dict if no job has recorded its claim next to the log.
    """
    for place in sorted(attempt.start_claims_folder.glob(f"{JOB}*{JobRecordSuffix.STARTED}")):
        lines = plain.read_text(place / "record").split("\n")
        if len(lines) > 5:
            return {"host": lines[-2], "boot_id": lines[-3]}
    return {}


def list_job_record_files(attempt: AttemptPaths, what: JobRecordSuffix) -> list[Path]:
    """Return the files in which jobs recorded one kind of status, sorted by job."""
    return sorted(attempt.folder.glob(f"{JOB}*{what}"))


def has_task_marks(attempt: AttemptPaths, job: str) -> bool:
    """Return whether a task of the job is running or was killed.

    Each such task has a mark in the attempt's folder.
    """
    return any(attempt.folder.glob(f"{JOB}{job}{JobRecordSuffix.TASK}.*"))


def scratch_copies(attempt: AttemptPaths) -> tuple[Path, ...]:
    """Return the scratch copies of an attempt that exist on this machine.

    A scratch copy is the folder in which DPDispatcher runs a submission. Its name is a hash.
    """
    where = machine.load_execution_host(attempt)
    return list_copies_in_folder(attempt.work if where.is_far else Path(where.scratch))


def list_copies_in_folder(folder: Path) -> tuple[Path, ...]:
    """Return the scratch copies in a folder, sorted by name.

    A scratch copy is a folder in which DPDispatcher runs a submission. Its name is a hash.
    """
    try:
        with os.scandir(folder) as found:
            names = sorted(
                one.name for one in found if _HASH.fullmatch(one.name) and is_folder(one)
            )
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return tuple(folder / name for name in names)


def list_forwarded_files(attempt: AttemptPaths) -> tuple[str, ...]:
    """Return the files that the attempt's submission sends, relative to the root."""
    own = genuine.read_attempt_submission(attempt)
    return (
        ()
        if own is None
        else tuple(os.path.relpath(p, attempt.root) for p in iterate_forwarded_paths(own))
    )


def read_scheduler_job_ids(attempt: AttemptPaths, copies: Sequence[Path]) -> dict[str, str]:
    """Return the scheduler's id of each submitted job, by job hash.

    A job that was submitted several times has its last id.
    """
    found = dict(_SUBMITTED.findall(plain.read_text(attempt.log)))
    for copy in copies:
        for path in copy.glob("*_job_id"):
            found[path.name.removesuffix("_job_id")] = plain.read_text(path).strip()
    return found


def may_be_submitted(attempt: AttemptPaths) -> bool:
    """Return whether DPDispatcher may have submitted jobs of an attempt.

    The wrapper script logs each call of DPDispatcher before the call. If the log is missing, a
    submission is possible.
    """
    text = plain.read_text(attempt.log)
    return not text or _SUBMITS.search(text) is not None


def read_job_states(copies: Sequence[Path]) -> dict[str, tuple[int, int]]:
    """Return the state and the number of failures of each job, from DPDispatcher's files.

    The keys are job hashes.
    """
    found: dict[str, tuple[int, int]] = {}
    for copy in copies:
        saved = read_json(copy / f"{copy.name}.json") or {}
        # A file in another format contains no information about jobs and is ignored.
        with suppress(AttributeError, LookupError, TypeError, ValueError):
            known = [one for entry in saved.get("belonging_jobs", []) for one in entry.items()]
            found |= {
                name: (int(job["job_state"]), int(job.get("fail_count", 0))) for name, job in known
            }
    return found


def is_tagged(copy: Path, job: str) -> bool:
    """Return whether every task of a job is tagged as finished in a scratch copy.

    The tags of the tasks are checked, because the tag of the whole job is not reliable: the shell
    also writes it if a task was killed before it could report a failure. The tag of the job is used
    only if its tasks are unknown.
    """
    tasks = set(_TASK.findall(plain.read_text(copy / f".{job}.sub.run")))
    if not tasks:
        return (copy / f"{job}_job_tag_finished").exists()
    # A worker process may move task folders during this check. `os.walk` ignores folders that
    # disappear.
    return tasks.issubset(name for _, _, files in os.walk(copy) for name in files)


def list_orphaned_jobs(attempt: AttemptPaths) -> tuple[str, ...]:
    """Return the names of jobs whose commands kept running after their shells were killed."""
    return tuple(
        place.stem.removeprefix(JOB)
        for place in list_job_record_files(attempt, JobRecordSuffix.ALONE)
    )


def describe_remaining_processes(attempt: AttemptPaths) -> tuple[str, ...]:
    """Return one line for each process that a successful command left running."""
    told = (
        plain.read_text(note)
        for note in sorted(attempt.folder.glob(f"{JOB}*{JobRecordSuffix.AWAITED}.*"))
    )
    return tuple(line for text in told for line in text.splitlines())


def read_submission_facts(attempt: AttemptPaths) -> SubmissionFacts:
    """Return the facts about an attempt's submission that its files contain."""
    launch = select_text_values(read_json(attempt.launch_record))
    place = select_text_values(read_json(attempt.place_record))
    ids = read_scheduler_job_ids(attempt, scratch_copies(attempt))
    works = [scratch for _, scratch, _ in iterate_started_jobs(attempt) if scratch]
    works += map(str, scratch_copies(attempt))
    works += _PLACE.findall(plain.read_text(attempt.log))
    work = works[0] if works else None
    return SubmissionFacts(
        submission_hash=None if work is None else Path(work).name,
        job_hashes=tuple(ids),
        job_ids=tuple(ids.values()),
        work_dir=work,
        dpdispatcher_version=launch.get("dpdispatcher_version"),
        host=launch.get("host"),
        boot_id=launch.get("boot_id"),
        job_host=place.get("host"),
        job_boot_id=place.get("boot_id"),
    )


def forward_patterns(own: Mapping[str, Any]) -> Iterator[str]:
    """Yield the patterns of the files that a submission sends to the machine of its jobs."""
    yield from own.get("forward_common_files", [])
    for task in own.get("task_list", []):
        yield from (f"{task['task_work_path']}/{path}" for path in task.get("forward_files", []))


_HEAD = re.compile("==> .* <==")


def iterate_output_ends(attempt: AttemptPaths) -> Iterator[tuple[str, str]]:
    """Yield the last lines of each output file of the jobs, after the file's name.

    Only files on this machine are read.
    """
    in_place = [attempt.root] if attempt.launch_record.exists() else []
    places = [*scratch_copies(attempt), *in_place]
    for name in (ERROR_LOG, OUTPUT_LOG):
        for place in places:
            yield name, read_file_end(place / attempt.stage / name)
    for job in read_scheduler_job_ids(attempt, ()):
        for folder in (attempt.folder, attempt.root):  # earlier versions wrote it in the root
            # DPDispatcher writes this file with `tail -v`, which adds a line with the file name.
            # That line is removed.
            text = read_file_end(folder / f"{job}_last_err_file")
            yield "err", "\n".join(one for one in text.splitlines() if not _HEAD.fullmatch(one))


def iterate_manual_output_ends(
    attempt: AttemptPaths, copies: Sequence[str], jobs: Sequence[ObservedJob]
) -> Iterator[tuple[str, str]]:
    """Yield the last lines of each output file of jobs launched by hand, after its name.

    ``copies`` are the names of DPDispatcher's folders. A file that is older than the submission
    belongs to an earlier launch and gives an empty text.
    """
    source = attempt.stage_folder / PREPARED
    given = read_json(source) or {}
    machine_ = given.get("machine")
    scratch = machine_.get("remote_root") if isinstance(machine_, dict) else None
    places = [attempt.root / str(scratch) / name for name in copies if scratch is not None]
    for name, usual in (("errlog", ERROR_LOG), ("outlog", OUTPUT_LOG)):
        for place in (*places, attempt.root):
            for path in _list_manual_output_paths(given, attempt.stage, name, usual):
                yield usual, _read_new_file_end(source, place / path)
    for job in jobs:
        yield "err", _read_new_file_end(source, attempt.root / f"{job.name}_last_err_file")


def _list_manual_output_paths(
    given: Mapping[str, Any], stage: str, name: str, usual: str
) -> Iterable[str]:
    """Return the output paths of a submission's tasks, relative to its base folder."""
    tasks = [task for task in given.get("task_list") or [] if isinstance(task, dict)]
    paths = (f"{task.get('task_work_path', '.')}/{task.get(name) or usual}" for task in tasks)
    return dict.fromkeys(paths) or [f"{stage}/{usual}"]


def _read_new_file_end(source: Path, path: Path) -> str:
    """Return the last lines of a file that is newer than the file ``source``.

    Returns an empty string if the file is older or does not exist.
    """
    with suppress(OSError):
        if path.stat().st_mtime >= source.stat().st_mtime:
            return read_file_end(path)
    return ""


def read_manual_job_errors(attempt: AttemptPaths) -> tuple[str, str]:
    """Return the errors that DPDispatcher logged for a job launched by hand.

    The two texts are as in `logged`.
    """
    text = _read_new_file_end(attempt.stage_folder / PREPARED, attempt.root / "dpdispatcher.log")
    return _parse_logged_error(
        "\n".join(line for line in text.splitlines() if " - INFO : " not in line)
    )


def read_file_end(path: Path) -> str:
    """Return the last lines of a file, or an empty string if the file does not exist."""
    if not is_file(path):
        return ""
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - _ERROR_BYTES))
        text = stream.read().decode(errors="replace")
    return "\n".join(text.strip().splitlines())


def read_logged_error(attempt: AttemptPaths) -> tuple[str, str]:
    """Return the error that DPDispatcher logged, and the last lines of its log.

    The error is the first error of the last traceback, because an error that was raised while
    another was handled says less about the cause. Without a traceback, the last lines are returned
    twice. If DPDispatcher's log is empty, the log of the monitor is read.
    """
    return _parse_logged_error(plain.read_text(attempt.log) or plain.read_text(attempt.monitor_log))


def _parse_logged_error(text: str) -> tuple[str, str]:
    lines = text.strip().splitlines()[-_TRACEBACK:]
    starts = [
        n
        for n, line in enumerate(lines)
        if line.startswith(_TRACED) and _is_first_traceback(lines, n)
    ]
    told = lines[starts[-1] :] if starts else lines
    raised = [n for n, line in enumerate(told) if _RAISED.match(line)]
    cause = takewhile(str.strip, told[raised[0] :]) if raised else lines[-_ERROR_LINES:]
    return "\n".join(list(cause)[:_ERROR_LINES]), "\n".join(lines[-_ERROR_LINES:])


def _is_first_traceback(lines: list[str], start: int) -> bool:
    """Return whether a traceback is the first of its chain, not caused by another error."""
    before = (line for line in reversed(lines[:start]) if line.strip())
    return not _CHAINED.search(next(before, ""))


def record_scheduler_ends(attempt: AttemptPaths, jobs: Iterable[ObservedJob]) -> None:
    """Record the end of each job that the scheduler reports as ended from outside.

    Schedulers forget such states. The record of a job that the scheduler lists as running again is
    removed.
    """
    kept = _read_recorded_ends(attempt)
    said = {job.id: job.queued for job in jobs if job.id is not None and job.queued is not None}
    ends = {id_: word for id_, word in {**kept, **said}.items() if word in TAKEN | EXCEEDED}
    if ends != kept:
        write_whole(attempt.last_words, json.dumps(ends).encode() + b"\n")


def add_recorded_ends(
    attempt: AttemptPaths, jobs: Iterable[ObservedJob]
) -> tuple[ObservedJob, ...]:
    """Add the recorded final state to each job if nothing else shows that the job has ended."""
    kept = _read_recorded_ends(attempt)
    return tuple(
        replace(job, queued=kept.get(job.id or ""))
        if (job.queued is None and not (job.is_over or job.is_finished or job.tag))
        else job
        for job in jobs
    )


def _read_recorded_ends(attempt: AttemptPaths) -> dict[str, str]:
    return select_text_values(read_json(attempt.last_words))


def identify_output_files(attempt: AttemptPaths) -> dict[str, list[int] | None]:
    """Return the identity of the file at each output path, or None for a missing file.

    The identities show later which outputs are new. For an attempt that was launched before, all
    values are None, because its first launch moved old outputs away.
    """
    begun = attempt.log.exists() or bool(list_job_record_files(attempt, JobRecordSuffix.STARTED))
    return {path: None if begun else identify_file(attempt.root / path) for path in attempt.outputs}


def identify_file(path: Path) -> list[int] | None:
    """Return the identity of a file or folder: device, inode, and change time in ns.

    Returns None if it does not exist.
    """
    found = stat_of(path)
    return None if found is None else [found.st_dev, found.st_ino, found.st_ctime_ns]


def is_output_new(attempt: AttemptPaths, path: str) -> bool | None:
    """Return whether an output was written after the launch of the attempt.

    Returns None if this cannot be decided.
    """
    places = (read_json(attempt.launch_record) or {}).get("places")
    if isinstance(places, dict) and path in places:
        return bool(places[path] != identify_file(attempt.root / path))
    # The launch recorded no identities of files. A change time before the launch proves nothing,
    # because clocks may be set back.
    launched_at, found = read_valid_launch_time(attempt), identify_file(attempt.root / path)
    return True if launched_at and found and found[2] >= launched_at else None


def read_valid_launch_time(attempt: AttemptPaths) -> int | None:
    """Return the time of the attempt's launch in ns, if its record is valid.

    Returns None if the record is missing or damaged.
    """
    return read_launch_time(attempt) if read_json(attempt.launch_record) else None


def read_launch_time(attempt: AttemptPaths) -> int | None:
    """Return the time of the attempt's launch in ns, or None if it was not launched.

    The time is given by the clock of the file system.
    """
    # The change time is used, because the modification time may have been preserved by a copy (cp
    # -p, tar).
    found = identify_file(attempt.launch_record)
    return None if found is None else found[2]
