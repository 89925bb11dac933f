"""What the jobs of an attempt say, and how far it is."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO, NamedTuple

from lifecycle.state.workflow import Stage, Workflow
from lifecycle.words.rounds import folder_of
from projections.words.text import waiting_told
from reconciler.attempt import execution_host as machine
from reconciler.attempt import paths as genuine
from reconciler.attempt.paths import ATTEMPTS, LAUNCH_RECORD, AttemptPaths
from reconciler.context import Jobs
from reconciler.control.strangers import look, may_compute
from reconciler.errors import MachineUnreachable, ReconcilerError
from reconciler.far import ask
from reconciler.records import traces
from reconciler.submission import build as submission
from reconciler.verdict.table import Action

#: Bytes that are read at once.
_BLOCK = 1 << 16
#: Seconds between two looks at a file here, at one on another machine, and at whether a job lives.
_GLANCE, _FAR_GLANCE, _LOOK = 0.1, 2.0, 5.0
#: What may follow where an attempt is only recorded: it is just being launched.
_LAUNCHED_WITHIN = 30.0


class Said(NamedTuple):
    """A piece of what was said; ``path`` is where the job writes it, relative to the root."""

    path: str
    content: bytes


@dataclass(slots=True)
class Mouth:
    """One file that a job prints into, and how far it was read."""

    path: str
    places: Callable[[], Iterable[Path]]
    offset: int = 0
    opened: BinaryIO | None = None

    def new(self, last: int | None) -> Iterator[Said]:
        """Yield what this machine has of it and was not read yet, or its ``last`` lines.

        A file that is open is read on wherever it was moved meanwhile.
        """
        if self.opened is None:
            place = next((place for place in self.places() if place.is_file()), None)
            self.opened = None if place is None else place.open("rb")
        if self.opened is not None and last is not None:
            self.offset = _start_of_last(self.opened, last)
        while self.opened is not None:
            self.opened.seek(self.offset)
            if not (block := self.opened.read(_BLOCK)):
                return
            self.offset += len(block)
            yield Said(self.path, block)


@dataclass(slots=True)
class Saying:
    """What the jobs of one attempt say, on stdout or on stderr."""

    attempt: AttemptPaths
    mouths: list[Mouth]
    #: Whether it still lies on the machine of the jobs, which is another one.
    is_far: bool = False
    #: Lines of each file that are wanted of what was said so far; None for all.
    last: int | None = None
    #: Whether the far machine said that each job that began has ended.
    ended_there: bool = field(default=False, init=False)

    def new(self) -> Iterator[Said]:
        """Yield what was said since the last call; raises MachineUnreachable."""
        lines, self.last = self.last, None
        there: dict[str, tuple[bytes, int]] = {}
        if self.is_far:
            wanted = {mouth.path: mouth.offset for mouth in self.mouths}
            there, self.ended_there = ask.said(self.attempt, wanted, lines)
        for mouth in self.mouths:
            if mouth.path in there:
                content, mouth.offset = there[mouth.path]
                yield Said(mouth.path, content)
            else:
                yield from mouth.new(lines)

    def close(self) -> None:
        """Close the files that are read."""
        for mouth in self.mouths:
            if mouth.opened is not None:
                mouth.opened.close()

    def is_ended(self) -> bool:
        """Whether each job that was submitted has written down its end."""
        if self.is_far:
            return self.ended_there
        own = {job.name: job.exit_code for job in traces.jobs(self.attempt)}
        submitted = traces.job_ids(self.attempt, traces.scratch_copies(self.attempt))
        return bool(own) and all(own.get(name) is not None for name in {*own, *submitted})


def saying(
    jobs: Jobs, state: Workflow, stage: Stage, id_: str, *, err: bool, last: int | None = None
) -> Saying:
    """Return what the attempt ``id_`` of the stage says on stdout, or with ``err`` on stderr.

    ``last``: so many lines of each file at first, None for all.
    """
    attempt = jobs.attempt(state, stage, id_)
    # It may be kept under another name.
    kept = attempt.root.glob(f"{attempt.stage}.v*/{ATTEMPTS}/{attempt.name}")
    places = [] if attempt.folder.exists() else [place.parents[1] for place in kept]
    home = places[0] if places else attempt.stage_folder
    taken_over = any(one.taken_over for one in stage.attempts if one.id == id_)
    later = (home / ATTEMPTS / one.name for one in stage.attempts if one.id > id_)
    in_place = (
        attempt.launch_record.exists() or taken_over or home != attempt.stage_folder
    ) and not any((folder / LAUNCH_RECORD).exists() for folder in later)
    paths = _paths(attempt, err=err)
    kept_round = _round_folder(stage, id_, home)
    mouths = [
        Mouth(path, partial(_places, attempt, home, path, in_place, kept_round)) for path in paths
    ]
    is_open = stage.open_attempt is not None and stage.open_attempt.id == id_
    return Saying(attempt, mouths, machine.of(attempt).is_far and is_open, last)


def _round_folder(stage: Stage, id_: str, home: Path) -> Path | None:
    """Return the folder that holds what the last attempt of a round left, in a later round."""
    number = next((one.round for one in stage.attempts if one.id == id_), 0)
    last = [one.id for one in stage.attempts if one.round == number][-1:]
    return home / Path(folder_of(stage.id, number)).name if number and last == [id_] else None


def _paths(attempt: AttemptPaths, *, err: bool) -> list[str]:
    """Return what the tasks of the attempt print into, relative to the root."""
    own = genuine.submission_of(attempt) or {}
    name, usual = ("errlog", submission.ERROR_LOG) if err else ("outlog", submission.OUTPUT_LOG)
    given = [
        f"{own.get('work_base', '.')}/{task.get('task_work_path', '.')}/{task.get(name) or usual}"
        for task in own.get("task_list", [])
        if isinstance(task, dict)
    ]
    found = dict.fromkeys(map(os.path.normpath, given or [f"{attempt.stage}/{usual}"]))
    return [path for path in found if path.split("/")[0] not in ("", "..")]


def _places(
    attempt: AttemptPaths, home: Path, path: str, in_place: bool, kept_round: Path | None
) -> Iterator[Path]:
    """Yield where a file that a job prints into may lie on this machine, the newest first.

    ``kept_round`` is the folder of the attempt's round, if the attempt was the last of it.
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


def _start_of_last(stream: BinaryIO, lines: int) -> int:
    """Return where the last lines of a file begin; a newline at its end ends the last of them."""
    end = start = stream.seek(0, os.SEEK_END)
    found = b""
    # One newline more than lines: that before the first of them.
    while start and found.count(b"\n") <= lines:
        start = max(0, start - _BLOCK)
        stream.seek(start)
        found = stream.read(end - start)
    kept = found.splitlines(keepends=True)
    return end - sum(map(len, kept[len(kept) - min(lines, len(kept)) :]))


def followed(jobs: Jobs, stage: str, heard: Saying) -> Iterator[Said]:
    """Yield what is said until the job has ended, as it comes.

    A machine that gives no answer is asked again.
    """
    began = looked = time.monotonic()
    over = False
    while not over:
        over = heard.is_ended()
        if not over and time.monotonic() - looked > _LOOK:
            over, looked = not _goes_on(jobs, stage, heard, began), time.monotonic()
        try:
            yield from heard.new()
        except MachineUnreachable as error:
            jobs.say(error.message, level="warning", stage=stage)
            over = False
        if not over:
            time.sleep(_FAR_GLANCE if heard.is_far else _GLANCE)


def _goes_on(jobs: Jobs, id_: str, heard: Saying, began: float) -> bool:
    """Whether a job of the attempt is at work, or may be; or waits for its turn."""
    state = jobs.service.state()
    stage = state.stage(id_)
    if stage.open_attempt is None or stage.open_attempt.id != heard.attempt.id:
        return False
    found = look(jobs, state, stage).verdict
    if found.action is Action.LAUNCH:
        return time.monotonic() - began < _LAUNCHED_WITHIN
    return may_compute(found) and not found.is_elsewhere


#: Characters of a job's last line that are shown.
_WIDE = 80
#: Seconds for the queue's answer, and between two questions to it.
_PATIENCE, _AGAIN = 5.0, 15.0
#: The jobs that wait, the first to run first, as Slurm orders them.
_WAITING = "squeue --noheader --states=PENDING --format=%i --sort=-p,i"


class Progress:
    """Tells of attempts under way what this machine can say at once."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._asked_at: float | None = None
        self._waiting: list[str] = []

    def of(self, state: Workflow, stage: Stage, elapsed: str) -> str:
        """Return the line of a stage under way; ``elapsed`` is how long it has been."""
        place = self._place(state, stage)
        words = "" if place else last_words(self._jobs, state, stage)
        # One that is waited for in place is called preparing until it has ended.
        status = "running" if stage.attempts[-1].launched_at else stage.status.value
        told = [f"{stage.id} {status}, {elapsed}", waiting_told(stage.attempts[-1]), place, words]
        return ": ".join(filter(None, told))

    def _place(self, state: Workflow, stage: Stage) -> str:
        """Return where its jobs stand among those that wait for Slurm here; or nothing."""
        newest = stage.attempts[-1]
        ids, here = set(newest.job_ids), False
        with suppress(ReconcilerError, OSError):
            where = machine.of(self._jobs.attempt(state, stage, newest.id)) if ids else None
            here = where is not None and where.has_slurm and not where.is_far
        if not here:
            return ""
        if self._asked_at is None or time.monotonic() - self._asked_at > _AGAIN:
            self._waiting, self._asked_at = _queue(), time.monotonic()
        places = [number for number, id_ in enumerate(self._waiting, 1) if id_ in ids]
        return f"place {min(places)} of {len(self._waiting)} in the queue" if places else ""


def _queue() -> list[str]:
    """Return the ids of the jobs that wait, the first to run first; nothing without an answer."""
    with suppress(OSError, subprocess.SubprocessError):
        command = ["bash", "-c", f"{ask.UNFILTERED}; exec {_WAITING}"]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE, check=True
        ).stdout.split()
    return []


def last_words(jobs: Jobs, state: Workflow, stage: Stage) -> str:
    """Return the last line that its jobs printed; nothing if they run elsewhere or are mute."""

    with suppress(ReconcilerError, OSError):
        with closing(saying(jobs, state, stage, stage.attempts[-1].id, err=False, last=1)) as heard:
            if heard.is_far:
                return ""
            lines = b"".join(said.content for said in heard.new()).decode(errors="replace")
        return " ".join(lines.split())[-_WIDE:]
    return ""
