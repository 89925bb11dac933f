"""What the probe found of attempts, read from the lines that it printed."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from reconciler.host import processes as plain
from reconciler.host.processes import Tenant, place_of
from reconciler.host.program import Listed, Queue

_DELETED = " (deleted)"
#: The place of an attempt whose folder is not there.
_NOWHERE = ""


@dataclass(slots=True)
class FarJob:
    """A job's own records and DPDispatcher's on the machine it ran on, times in ns."""

    name: str
    id: str | None = None
    started: bool = False
    exit_code: int | None = None
    ended_at: int | None = None
    lock_held: bool | None = False
    record: str = ""
    tag: bool = False
    failed_flag: bool | None = None
    state: int | None = None
    fail_count: int = 0
    command_code: int | None = None
    is_complete: bool = False


@dataclass(slots=True)
class RemoteAnswer:
    """What one look found of one attempt; ``place`` is None where its folder is not there.

    ``asked_at`` is in ns since the epoch, by the clock of the machine that was asked. ``error``
    says why there was no answer; then nothing else means anything.
    """

    error: str | None = None
    asked_at: int = 0
    host: str = ""
    boot_id: str = ""
    place: str | None = None
    queue: Queue | None = None
    jobs: dict[str, FarJob] = field(default_factory=dict)
    copies: list[str] = field(default_factory=list)
    has_recovery_file: bool = False
    absent: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    tenants: tuple[Tenant, ...] = ()

    def job(self, name: str) -> FarJob:
        """Return the job of this name, a new one where none is known yet."""
        return self.jobs.setdefault(name, FarJob(name))


@dataclass(slots=True)
class _Common:
    """What a look found that concerns every attempt on the machine."""

    queue: Queue | None = None
    here: tuple[str, str, int] = ("", "", 0)
    folders: dict[int, str] = field(default_factory=dict)
    ticks: dict[int, int] = field(default_factory=dict)


def read(printed: str) -> dict[str, RemoteAnswer]:
    """Return the answers by the attempt's tag."""
    lines = [line.split("\t") for line in printed.splitlines() if line]
    common = _common(lines)
    answers = {tag: _answer(found, common) for tag, found in _by_attempt(lines).items()}
    places = {answer.place for answer in answers.values() if answer.place is not None}
    queues = common.queue.split(places | {_NOWHERE}) if common.queue is not None else {}
    tenants = _tenants(common, places)
    for answer in answers.values():
        place = answer.place or _NOWHERE
        answer.queue, answer.tenants = queues.get(place), tuple(tenants.get(place, ()))
    return answers


def read_queue(printed: str) -> Queue:
    """Return what the scheduler said; silence where it said nothing."""
    found = _common(line.split("\t") for line in printed.splitlines() if line)
    return found.queue or Queue(0, None, "squeue was not asked")


def _by_attempt(lines: Iterable[list[str]]) -> dict[str, list[list[str]]]:
    found: dict[str, list[list[str]]] = {}
    current: list[list[str]] = []
    for line in lines:
        if line[0] == "attempt":
            current = found.setdefault(line[1], [])
        else:
            current.append(line)
    return found


def _common(lines: Iterable[list[str]]) -> _Common:
    common = _Common()
    listed: list[Listed] = []
    for kind, *values in lines:
        if kind == "here":
            common.here = (values[0], values[1], int(values[2]))
        elif kind == "queue":
            common.queue = _queue(values, listed)
        elif kind == "listed":
            listed.append(Listed(values[0], values[1], "\t".join(values[2:])))
        elif kind == "cwd":
            common.folders[int(values[0].split("/")[2])] = "\t".join(values[1:])
        elif kind == "stat" and values[1] not in "ZX":
            common.ticks[int(values[0])] = int(values[2])
    if common.queue is not None and common.queue.listed is not None:
        common.queue = Queue(common.queue.asked_at, tuple(listed))
    return common


def _queue(values: list[str], listed: list[Listed]) -> Queue:
    answered = values[1] == "0"
    said = _text(values[2]).strip() or f"squeue exited {values[1]}"
    return Queue(int(values[0]), tuple(listed) if answered else None, None if answered else said)


def _answer(lines: list[list[str]], common: _Common) -> RemoteAnswer:
    host, boot_id, asked_at = common.here
    answer = RemoteAnswer(asked_at=asked_at, host=host, boot_id=boot_id)
    current = None
    for kind, *values in lines:
        if kind in ("of", "job_state", "fail_count"):
            current = _recover(answer, kind, values[0], current)
        else:
            _take(answer, kind, values)
    return answer


def _take(answer: RemoteAnswer, kind: str, values: list[str]) -> None:
    match kind:
        case "place":
            answer.place = _text(values[0])
        case "copy":
            answer.copies.append(values[0])
        case "recovery":
            answer.has_recovery_file = True
        case "absent":
            answer.absent.append(_text(values[0]))
        case "err":
            answer.errors.append(_text(values[0]))
        case _:
            _take_of_job(answer, kind, values)


def _take_of_job(answer: RemoteAnswer, kind: str, values: list[str]) -> None:
    match kind:
        case "job":
            _take_job(answer.job(values[0]), values)
        case "job_id":
            answer.job(values[0]).id = values[1]
        case "command_code" if values[1].isascii() and values[1].isdigit():
            answer.job(values[0]).command_code = int(values[1])
        case "complete":
            answer.job(values[0]).is_complete = True
        case "job_tag_finished":
            answer.job(values[0]).tag = True
        case "flag_if_job_task_fail":
            answer.job(values[0]).failed_flag = values[1] == "1"


def _take_job(job: FarJob, values: list[str]) -> None:
    _, _, lock, code, ended, record = values
    job.started = True
    job.lock_held = {"held": True, "free": False}.get(lock)
    job.record = _text(record)
    known = plain.number(code)
    if known is not None:
        job.exit_code, job.ended_at = known, _nanoseconds(ended)


def _recover(answer: RemoteAnswer, kind: str, value: str, current: FarJob | None) -> FarJob | None:
    if kind == "of":
        # A job that DPDispatcher never came to submit is none yet.
        return answer.jobs.get(value)
    if current is not None:
        setattr(current, {"job_state": "state"}.get(kind, kind), int(value))
    return current


def _tenants(common: _Common, places: AbstractSet[str]) -> dict[str, list[Tenant]]:
    found: dict[str, list[Tenant]] = {}
    for pid, named in common.folders.items():
        folder = named.removesuffix(_DELETED)
        place = place_of(folder, places)
        if pid in common.ticks and place is not None:
            tenant = Tenant(pid, common.ticks[pid], folder, named.endswith(_DELETED))
            found.setdefault(place, []).append(tenant)
    return found


def _nanoseconds(seconds: str) -> int:
    whole, _, part = seconds.partition(".")
    return int(whole) * 10**9 + int(part.ljust(9, "0")[:9] or 0)


def _text(encoded: str) -> str:
    return b64decode(encoded).decode(errors="replace")
