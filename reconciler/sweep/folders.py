"""The files of a sweep: the marks in the folders of its tasks, and the journals of its workers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from lifecycle.payload import models as p
from lifecycle.sweeps.definition import DONE
from reconciler.attempt.markers import file_digest
from reconciler.attempt.paths import AttemptPaths
from reconciler.host import processes as plain
from reconciler.records import traces

#: In the folder of a task that is done: the attempt, its number, when it ended, its origin.
MARK = ".wfctl-done"
#: Names to a worker the folder of a task that is judged again, and not computed.
JUDGE = "WFCTL_JUDGE"


@dataclass(frozen=True, slots=True)
class TaskMark:
    """What a mark says: the tag of the attempt, when it ended (µs since the epoch), and from what.

    ``origin`` is what its tasks rest on, as `tasks.origin_of` spells it; marks of earlier
    versions have none.
    """

    tag: str
    ended: int
    origin: str = ""


def in_place(root: Path, stage: str, folders: Collection[str]) -> dict[str, TaskMark]:
    """Return the marks in those of the stage's task folders that are there, by folder."""
    done = root / stage / DONE
    if not folders or not done.is_dir():
        return {}
    there = {folder.name for folder in done.iterdir()}.intersection(folders)
    found = {}
    for name, text in ((name, plain.text(done / name / MARK)) for name in there):
        match text.rstrip("\n").split("\t"):
            case [tag, _, at, *origin] if text.endswith("\n") and len(origin) <= 1:
                found[name] = TaskMark(tag, _micros(at), *origin)
    return found


def _micros(text: str) -> int:
    """Return the microseconds of bash's EPOCHREALTIME, whose mark is the locale's."""
    digits = "".join(letter for letter in text if letter.isdigit())
    return int(digits) if digits else 0


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of a task; times in microseconds since the epoch.

    ``state`` is done, failed, lost, or running where nothing was written of its end. ``job`` is the
    hash of the job whose worker began it.
    """

    state: str
    exit_code: int | None
    started: int
    ended: int | None = None
    why: str = ""
    job: str | None = None


def of(attempt: AttemptPaths) -> dict[int, Ran]:
    """Return the runs by the task's number; a line that was cut off says nothing."""
    found = dict[int, Ran]()
    for journal in _journals(attempt):
        job = None
        whole, _, _ = plain.text(journal).rpartition("\n")
        for line in whole.split("\n"):
            match line.split("\t"):
                case ["j", hash_, *_]:
                    job = hash_
                case ["s", number, at] if number.isdigit():
                    found[int(number)] = Ran("running", None, _micros(at), job=job)
                case ["e", number, state, code, at, why] if number.isdigit():
                    begun = found.get(int(number), Ran("running", None, _micros(at)))
                    ended = Ran(
                        state, plain.number(code), begun.started, _micros(at), why, begun.job
                    )
                    found[int(number)] = ended
    return found


def _journals(attempt: AttemptPaths) -> list[Path]:
    return sorted(attempt.tasks.glob("journal.*"))


def told(attempt: AttemptPaths) -> list[p.FileDigest]:
    """Return what the journals are now."""
    return [
        file_digest(attempt.root, path, plain.content(path) or b"") for path in _journals(attempt)
    ]


def edited(attempt: AttemptPaths, seen: Mapping[str, Any]) -> list[str]:
    """Return the journals that do not begin as an earlier look at the tasks saw them.

    A worker writes behind the end alone.
    """
    known = set(seen.get("edited", []))
    for one in seen.get("journals", []):
        text = plain.content(attempt.root / one["path"]) or b""
        if sha256(text[: one["size"]]).hexdigest() != one["sha256"]:
            known.add(one["path"])
    return sorted(known)


def listed(attempt: AttemptPaths) -> Iterator[tuple[str, str, str]]:
    """Yield number, folder and assignments of each task that the attempt was given."""
    for line in plain.text(attempt.task_list).splitlines():
        number, folder, assignments = line.split("\t", 2)
        yield number, folder, assignments


def rows_told(attempt: AttemptPaths) -> Iterator[dict[str, Any]]:
    """Yield what the journals say of each task that the attempt was given."""
    runs = of(attempt)
    keys = (traces.read_json(attempt.task_head) or {}).get("keys", {})
    for number, folder, assignments in listed(attempt):
        row: dict[str, Any] = {"key": keys.get(folder, folder), "folder": folder}
        row |= {"judged": True} if f" {JUDGE}=" in assignments else {}
        ran = runs.get(int(number))
        row |= {"state": "waiting"} if ran is None else asdict(ran)
        row.pop("job", None)
        yield row
