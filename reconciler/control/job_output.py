"""Read the output and the progress of the jobs of an attempt."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO, NamedTuple

from lifecycle.state.workflow import Stage, Workflow
from lifecycle.words.rounds import stage_folder_of_round
from projections.words.stage_progress import StageProgress, format_stage_progress
from projections.words.text import describe_waiting_reason, format_elapsed
from reconciler.attempt import execution_host as machine
from reconciler.attempt import paths as genuine
from reconciler.attempt.paths import ATTEMPTS, ERROR_LOG, LAUNCH_RECORD, OUTPUT_LOG, AttemptPaths
from reconciler.context import JobContext
from reconciler.control.judge_attempts import inspect_attempt, is_possibly_running
from reconciler.errors import MachineUnreachable, ReconcilerError
from reconciler.far import query_machine
from reconciler.records import traces
from reconciler.sweep.progress_reader import ProgressReader
from reconciler.verdict.table import Action

#: Number of bytes to read at a time.
_BLOCK = 1 << 16
#: Seconds between two reads of a file on this machine, between two reads of a remote file, and
#: between two checks whether the job still runs.
_LOCAL_INTERVAL, _FAR_INTERVAL, _CHECK_INTERVAL = 0.1, 2.0, 5.0
#: Seconds to wait for the launch of an attempt that is recorded but has no running job yet.
_LAUNCH_TIMEOUT = 30.0


class OutputPiece(NamedTuple):
    """A piece of a job's output. ``path`` is the output file, relative to the root."""

    path: str
    content: bytes


@dataclass(slots=True)
class OutputFile:
    """An output file of a job, with the position up to which it was read."""

    path: str
    places: Callable[[], Iterable[Path]]
    offset: int = 0
    opened: BinaryIO | None = None

    def new(self, last: int | None) -> Iterator[OutputPiece]:
        """Yield the content that was added to the file since the last call.

        The first call opens the file. If ``last`` is set, it starts at the last ``last`` lines. A
        file that is moved later is read further. Yields nothing if the file does not exist on this
        machine.
        """
        if self.opened is None:
            place = next((place for place in self.places() if place.is_file()), None)
            self.opened = None if place is None else place.open("rb")
        if self.opened is not None and last is not None:
            self.offset = _find_start_of_last_lines(self.opened, last)
        while self.opened is not None:
            self.opened.seek(self.offset)
            if not (block := self.opened.read(_BLOCK)):
                return
            self.offset += len(block)
            yield OutputPiece(self.path, block)


@dataclass(slots=True)
class JobOutput:
    """The output of the jobs of one attempt, either stdout or stderr."""

    attempt: AttemptPaths
    mouths: list[OutputFile]
    #: Whether the files are still on the remote machine of the jobs.
    is_far: bool = False
    #: Number of existing lines of each file to print first, or None to print all lines.
    last: int | None = None
    #: Whether the remote machine reported that every started job has ended.
    ended_there: bool = field(default=False, init=False)

    def new(self) -> Iterator[OutputPiece]:
        """Yield the output that the jobs wrote since the last call.

        Raises MachineUnreachable if the files are on a remote machine that does not answer.
        """
        lines, self.last = self.last, None
        there: dict[str, tuple[bytes, int]] = {}
        if self.is_far:
            wanted = {mouth.path: mouth.offset for mouth in self.mouths}
            there, self.ended_there = query_machine.read_new_output(self.attempt, wanted, lines)
        for mouth in self.mouths:
            if mouth.path in there:
                content, mouth.offset = there[mouth.path]
                yield OutputPiece(mouth.path, content)
            else:
                yield from mouth.new(lines)

    def close(self) -> None:
        """Close all files that are open for reading."""
        for mouth in self.mouths:
            if mouth.opened is not None:
                mouth.opened.close()

    def is_ended(self) -> bool:
        """Return whether every submitted job has recorded its end."""
        if self.is_far:
            return self.ended_there
        own = {job.name: job.exit_code for job in traces.read_started_jobs(self.attempt)}
        submitted = traces.read_scheduler_job_ids(self.attempt, traces.scratch_copies(self.attempt))
        return bool(own) and all(own.get(name) is not None for name in {*own, *submitted})


def open_job_output(
    jobs: JobContext, state: Workflow, stage: Stage, id_: str, *, err: bool, last: int | None = None
) -> JobOutput:
    """Open the stdout of an attempt's jobs for reading, or the stderr if ``err`` is set.

    ``last`` limits the output that exists already to the given number of lines per file. None means
    all lines.
    """
    attempt = jobs.attempt(state, stage, id_)
    # A rerun may have renamed the folder of the stage, so the attempt is searched in the renamed
    # folders.
    kept = attempt.root.glob(f"{attempt.stage}.v*/{ATTEMPTS}/{attempt.name}")
    places = [] if attempt.folder.exists() else [place.parents[1] for place in kept]
    home = places[0] if places else attempt.stage_folder
    taken_over = any(one.taken_over for one in stage.attempts if one.id == id_)
    later = (home / ATTEMPTS / one.name for one in stage.attempts if one.id > id_)
    in_place = (
        attempt.launch_record.exists() or taken_over or home != attempt.stage_folder
    ) and not any((folder / LAUNCH_RECORD).exists() for folder in later)
    paths = _find_output_paths(attempt, err=err)
    kept_round = _find_round_folder(stage, id_, home)
    mouths = [
        OutputFile(path, partial(_find_candidate_files, attempt, home, path, in_place, kept_round))
        for path in paths
    ]
    is_open = stage.open_attempt is not None and stage.open_attempt.id == id_
    return JobOutput(attempt, mouths, machine.load_execution_host(attempt).is_far and is_open, last)


def _find_round_folder(stage: Stage, id_: str, home: Path) -> Path | None:
    """Return the folder that keeps the outputs of the round in which an attempt ran.

    Returns None if the attempt does not belong to a round, or was not the last attempt of its
    round.
    """
    number = next((one.round for one in stage.attempts if one.id == id_), 0)
    last = [one.id for one in stage.attempts if one.round == number][-1:]
    return (
        home / Path(stage_folder_of_round(stage.id, number)).name
        if number and last == [id_]
        else None
    )


def _find_output_paths(attempt: AttemptPaths, *, err: bool) -> list[str]:
    """Return the paths of the output files of an attempt's tasks, relative to the root."""
    own = genuine.read_attempt_submission(attempt) or {}
    name, usual = ("errlog", ERROR_LOG) if err else ("outlog", OUTPUT_LOG)
    given = [
        f"{own.get('work_base', '.')}/{task.get('task_work_path', '.')}/{task.get(name) or usual}"
        for task in own.get("task_list", [])
        if isinstance(task, dict)
    ]
    found = dict.fromkeys(map(os.path.normpath, given or [f"{attempt.stage}/{usual}"]))
    return [path for path in found if path.split("/")[0] not in ("", "..")]


def _find_candidate_files(
    attempt: AttemptPaths, home: Path, path: str, in_place: bool, kept_round: Path | None
) -> Iterator[Path]:
    """Yield each local path at which a job's output file may be, newest location first.

    ``kept_round`` is the folder with the outputs of the attempt's round. It is None if the attempt
    was not the last attempt of a round.
    """
    own = PurePosixPath(path)
    is_own = own.is_relative_to(attempt.stage)
    yield from (copy / path for copy in traces.scratch_copies(attempt))
    folder = home / ATTEMPTS / attempt.name
    yield folder / "left" / path
    if in_place:
        moved = home != attempt.stage_folder and is_own
        yield home / own.relative_to(attempt.stage) if moved else attempt.root / path
    elif kept_round is not None and is_own:
        yield kept_round / own.relative_to(attempt.stage)
    yield folder / "kept" / path


def _find_start_of_last_lines(stream: BinaryIO, lines: int) -> int:
    """Return the position in a file at which its last ``lines`` lines start.

    A newline at the end of the file ends the last line and does not start another one.
    """
    end = start = stream.seek(0, os.SEEK_END)
    found = b""
    # Read back until one more newline than requested lines is found. The additional newline is the
    # end of the line before the first requested line.
    while start and found.count(b"\n") <= lines:
        start = max(0, start - _BLOCK)
        stream.seek(start)
        found = stream.read(end - start)
    kept = found.splitlines(keepends=True)
    return end - sum(map(len, kept[len(kept) - min(lines, len(kept)) :]))


def follow_output(jobs: JobContext, stage: str, heard: JobOutput) -> Iterator[OutputPiece]:
    """Yield the output of an attempt's jobs as they write it, until the jobs have ended.

    If the remote machine does not answer, a warning is printed and the machine is asked again.
    """
    began = looked = time.monotonic()
    over = False
    while not over:
        over = heard.is_ended()
        if not over and time.monotonic() - looked > _CHECK_INTERVAL:
            over, looked = not _may_continue(jobs, stage, heard, began), time.monotonic()
        try:
            yield from heard.new()
        except MachineUnreachable as error:
            jobs.say(error.message, level="warning", stage=stage)
            over = False
        if not over:
            time.sleep(_FAR_INTERVAL if heard.is_far else _LOCAL_INTERVAL)


def _may_continue(jobs: JobContext, id_: str, heard: JobOutput, began: float) -> bool:
    """Return whether the jobs of an attempt may write more output.

    This is true while a job runs, waits in the queue, or is about to be launched. ``began`` is the
    time at which the caller started to wait.
    """
    state = jobs.service.state()
    stage = state.stage(id_)
    if stage.open_attempt is None or stage.open_attempt.id != heard.attempt.id:
        return False
    found = inspect_attempt(jobs, state, stage).verdict
    if found.action is Action.LAUNCH:
        return time.monotonic() - began < _LAUNCH_TIMEOUT
    return is_possibly_running(found) and not found.is_elsewhere


#: Maximum number of characters that are printed of a job's last line of output.
_MAX_LINE_WIDTH = 80
#: Minimum number of seconds between two checks of the queue.
_QUEUE_INTERVAL = 15.0


class Progress:
    """Describes the progress of running stages from data that is available immediately."""

    def __init__(self, jobs: JobContext) -> None:
        self._jobs = jobs
        self._reader = ProgressReader(jobs.root, jobs.service.clock)
        self._asked_at: float | None = None
        self._waiting: list[str] = []

    def read(self, state: Workflow, stage: Stage) -> StageProgress:
        """Return the progress of a running stage. Its task counts may be some seconds old."""
        return self._reader.read(state, stage)

    def describe(self, state: Workflow, stage: Stage, progress: StageProgress) -> str:
        """Return one line that describes the progress of a running stage.

        The last line of output is included only for a plain stage, because the tasks of a sweep
        write their output to different files.
        """
        elapsed = format_elapsed(stage.attempts[-1].started_at, self._jobs.service.clock())
        place = self._describe_queue_position(state, stage)
        is_hidden = place or progress.is_sweep
        words = "" if is_hidden else read_last_line(self._jobs, state, stage)
        # The status of a stage whose launch is recorded can still be `preparing` if a caller waits
        # for it.
        status = "running" if stage.attempts[-1].launched_at else stage.status.value
        told = [
            f"{stage.id} {status}, {elapsed}",
            format_stage_progress(progress),
            describe_waiting_reason(stage.attempts[-1]),
            place,
            words,
        ]
        return ": ".join(filter(None, told))

    def _describe_queue_position(self, state: Workflow, stage: Stage) -> str:
        """Return a message with the position of the stage's jobs in the local Slurm queue.

        Returns an empty string if no job waits in that queue.
        """
        newest = stage.attempts[-1]
        ids, where = set(newest.job_ids), None
        with suppress(ReconcilerError, OSError):
            where = (
                machine.load_execution_host(self._jobs.attempt(state, stage, newest.id))
                if ids
                else None
            )
        if where is None or not where.has_slurm or where.is_far:
            return ""
        if self._asked_at is None or time.monotonic() - self._asked_at > _QUEUE_INTERVAL:
            self._waiting = query_machine.list_pending_jobs(where.query_interval)
            self._asked_at = time.monotonic()
        places = [number for number, id_ in enumerate(self._waiting, 1) if id_ in ids]
        return f"job {min(places)} of {len(self._waiting)} in the queue" if places else ""


def read_last_line(jobs: JobContext, state: Workflow, stage: Stage) -> str:
    """Return the last line that the jobs of the stage printed.

    Returns an empty string if the jobs have printed nothing or run on another machine.
    """

    with suppress(ReconcilerError, OSError):
        with closing(
            open_job_output(jobs, state, stage, stage.attempts[-1].id, err=False, last=1)
        ) as heard:
            if heard.is_far:
                return ""
            lines = b"".join(said.content for said in heard.new()).decode(errors="replace")
        return " ".join(lines.split())[-_MAX_LINE_WIDTH:]
    return ""
