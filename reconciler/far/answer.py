"""What the probe found of attempts, read from the lines that it printed."""

from __future__ import annotations

from base64 import b64decode
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

from reconciler.attempt.markers import Far, ObservedAttempt, ObservedJob
from reconciler.host import processes as plain
from reconciler.host.processes import Tenant, place_of
from reconciler.host.program import Listed, Queue

_DELETED = " (deleted)"


@dataclass(slots=True)
class _Common:
    """What a look found that concerns every attempt on the machine."""

    queue: Queue | None = None
    here: tuple[str, str, int] = ("", "", 0)
    folders: dict[int, str] = field(default_factory=dict)
    ticks: dict[int, int] = field(default_factory=dict)


def read(printed: str) -> dict[str, ObservedAttempt]:
    """Return the answers by the attempt's tag."""
    lines = [line.split("\t") for line in printed.splitlines() if line]
    common, own = _common(lines), _by_attempt(lines)
    # The place of an attempt whose folder is not there is nowhere.
    places = {
        tag: next((_text(line[1]) for line in found if line[0] == "place"), "")
        for tag, found in own.items()
    }
    queues = common.queue.split(set(places.values())) if common.queue is not None else {}
    tenants = _tenants(common, set(places.values()))
    return {
        tag: replace(
            _answer(found, common),
            queue=queues.get(places[tag]),
            tenants=tuple(tenants.get(places[tag], ())),
        )
        for tag, found in own.items()
    }


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


def _answer(lines: Sequence[list[str]], common: _Common) -> ObservedAttempt:
    said = defaultdict[str, list[str]](list)
    for kind, *values in lines:
        said[kind] += values[:1]
    jobs = [ObservedJob(name, **{"fail_count": 0, **known}) for name, known in _jobs(lines).items()]
    host, boot_id, asked_at = common.here
    return ObservedAttempt(
        jobs=tuple(jobs),
        copies=tuple(said["copy"]),
        recovery_file=bool(said["recovery"]),
        backward_missing=tuple(map(_text, said["absent"])),
        far=Far(asked_at, None, host, boot_id, tuple(_text(one).strip() for one in said["err"])),
        complete=frozenset(said["complete"]),
    )


def _jobs(lines: Iterable[list[str]]) -> dict[str, dict[str, Any]]:
    """Return what is told of each job, by its name: the fields of an `ObservedJob`."""
    jobs = defaultdict[str, dict[str, Any]](dict)
    current: dict[str, Any] | None = None
    for kind, name, *values in (line for line in lines if len(line) > 1):
        if kind == "of":
            # A job that DPDispatcher never came to submit does not exist yet.
            current = jobs.get(name)
        elif kind in ("job_state", "fail_count") and current is not None:
            current[kind.removeprefix("job_")] = int(name)
        elif kind in _OF_JOB:
            jobs[name] |= _OF_JOB[kind](*values)
    return jobs


def _own(_started: str, lock: str, code: str, ended: str, _record: str) -> dict[str, Any]:
    found = {"started": True, "lock_held": {"held": True, "free": False}.get(lock)}
    known = plain.number(code)
    return found if known is None else {**found, "exit_code": known, "ended_at": _nanos(ended)}


#: Kind of a line → the fields of a job that its values make.
_OF_JOB: Mapping[str, Callable[..., dict[str, Any]]] = {
    "job": _own,
    "job_id": lambda id_: {"id": id_},
    "command_code": lambda code: {"command_code": plain.number(code)},
    "complete": dict,
    "job_tag_finished": lambda _: {"tag": True},
    "flag_if_job_task_fail": lambda flag: {"failed_flag": flag == "1"},
}


def _tenants(common: _Common, places: AbstractSet[str]) -> dict[str, list[Tenant]]:
    found: dict[str, list[Tenant]] = {}
    for pid, named in common.folders.items():
        folder = named.removesuffix(_DELETED)
        place = place_of(folder, places)
        if pid in common.ticks and place is not None:
            tenant = Tenant(pid, common.ticks[pid], folder, named.endswith(_DELETED))
            found.setdefault(place, []).append(tenant)
    return found


def _nanos(seconds: str) -> int:
    whole, _, part = seconds.partition(".")
    return int(whole) * 10**9 + int(part.ljust(9, "0")[:9] or 0)


def _text(encoded: str) -> str:
    return b64decode(encoded).decode(errors="replace")
