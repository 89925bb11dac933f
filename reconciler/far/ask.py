"""Asking the machine of a job, in one round trip for all attempts that run there."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

from reconciler.attempt import execution_host as machine
from reconciler.attempt import paths as genuine
from reconciler.attempt.execution_host import ExecutionHost
from reconciler.attempt.markers import Far, ObservedAttempt, digest_of, is_as
from reconciler.attempt.paths import ATTEMPT, AttemptPaths
from reconciler.errors import MachineUnreachable, ReconcilerError
from reconciler.far.answer import read, read_queue
from reconciler.host import program
from reconciler.host.program import Queue
from reconciler.records import traces

_HERE = Path(__file__).parent
#: Seconds for the far side to answer, and for the helper to say so.
_ANSWER_WITHIN, _HELPER_WITHIN = 40, 50
#: Seconds for what was left to be digested, and how fast it comes at least.
_LIST_WITHIN, _BYTES_A_SECOND = 600, 500_000
#: Seconds for the processes and jobs of an attempt to end; Slurm itself waits 30 by default
#: before it kills what a signal did not end.
_END_WITHIN = 60


def describe(given: Mapping[str, Any], attempt: AttemptPaths) -> dict[str, Any]:
    """Return batch type, context type and roots of a machine that is taken from a file.

    Raises MachineUnreachable where the file cannot be read, ProgramMissing.
    """
    source = machine.reference(given, attempt.stage_folder)
    return _helper({"machine": {**given, "$ref": str(source)}}, attempt.root)


def answers(attempts: Iterable[AttemptPaths]) -> dict[str, ObservedAttempt]:
    """Look at attempts whose jobs run on other machines; the answers are by tag.

    ``far.error`` says why it failed; then nothing else means anything.
    """
    groups: dict[str, list[AttemptPaths]] = {}
    for attempt in attempts:
        given = {name: value for name, value in _machine(attempt).items() if name != "remote_root"}
        groups.setdefault(json.dumps(given, sort_keys=True), []).append(attempt)
    return {tag: found for group in groups.values() for tag, found in _looked_at(group).items()}


def queue_here(places: Sequence[str]) -> Queue:
    """Ask the scheduler of this machine about the jobs that work below the folders."""
    done = _bash(f"{_script('probe.sh')}\n{_call('queue', places)}")
    return read_queue(done)


def make_place(attempt: AttemptPaths) -> dict[str, str]:
    """Make the attempt's folder on the machine of its jobs; return that one's host and boot_id.

    Raises MachineUnreachable.
    """
    place = PurePosixPath(machine.of(attempt).scratch)
    base = place.parents[len(PurePosixPath(attempt.tag).parts) - 1]
    # The folder that the machine's file names may be new, but not the one above it: that would
    # hide a mistyped path.
    script = (
        f"cd / && {{ [ -d {_quoted(base)} ] || mkdir {_quoted(base)}; }} "
        f"&& mkdir -p {_quoted(place)} && uname -n && cat /proc/sys/kernel/random/boot_id"
    )
    host, boot_id = _run(attempt, script).split()
    return {"host": host, "boot_id": boot_id}


def tag_jobs(attempt: AttemptPaths) -> None:
    """Let DPDispatcher know of each job whose tasks all ended well; raises MachineUnreachable."""
    where = machine.of(attempt)
    records = where.scratch if where.is_far else str(attempt.folder)
    alone = " ".join(traces.alone(attempt))
    words = [where.scratch, records, alone, *traces.backward(attempt)]
    script = f"{_script('tags.sh')}\n{_call('tag_jobs', words)}"
    _run(attempt, script) if where.is_far else _bash(script)


def left_at(attempt: AttemptPaths) -> str:
    """Return where what the jobs of an attempt wrote is kept, on their machine."""
    return f"{machine.of(attempt).scratch}/left"


def keep(attempt: AttemptPaths) -> None:
    """Keep what the jobs of an attempt wrote, where they wrote it; raises MachineUnreachable."""
    words = [machine.of(attempt).scratch, left_at(attempt)]
    _run(attempt, f"{_script('keep.sh')}\n{_call('keep_left', words)}")


def left(attempt: AttemptPaths) -> list[list[str]]:
    """Return what is kept of what the jobs of an attempt wrote; raises MachineUnreachable.

    ``file``, path in base64, size in bytes, SHA-256; or ``link``, path, where it leads in base64.
    """
    return _list(attempt, "list_left", [left_at(attempt)])


def results(attempt: AttemptPaths) -> list[list[str]]:
    """Return what the jobs of an attempt were to bring back; raises MachineUnreachable.

    ``copy`` and the name of a folder that a job worked in, before the files in it, as `left`.
    """
    words = [machine.of(attempt).scratch, *traces.backward(attempt)]
    return _list(attempt, "list_results", words)


def _list(
    attempt: AttemptPaths, function: str, words: Sequence[str], size: int = 0
) -> list[list[str]]:
    longer = _LIST_WITHIN + size // _BYTES_A_SECOND
    printed = _run(attempt, f"{_script('list.sh')}\n{_call(function, words)}", longer)
    return [line.split("\t") for line in printed.splitlines()]


def parts(attempt: AttemptPaths, asked: Sequence[tuple[str, int, int]]) -> list[bytes]:
    """Return parts of files below the attempt's folder, in order; raises MachineUnreachable.

    ``asked``: path, first byte and number of bytes of each.
    """
    words = [machine.of(attempt).scratch]
    for path, start, size in asked:
        words += [b64encode(os.fsencode(path)).decode(), str(start), str(size)]
    lines = _list(attempt, "send_parts", words, sum(size for _, _, size in asked))
    return [b64decode(line[0]) for line in lines]


def said(
    attempt: AttemptPaths, offsets: Mapping[str, int], last: int | None
) -> tuple[dict[str, tuple[bytes, int]], bool]:
    """Read on in what the jobs of an attempt print; ``offsets``: bytes that were read, by path.

    ``last``: no more than so many lines. Returns what is new of each file that is there, with the
    bytes that are read now, and whether each job that began has ended. Raises MachineUnreachable.
    """
    words = [machine.of(attempt).scratch, "" if last is None else str(last)]
    for path, offset in offsets.items():
        words += [path, str(offset)]
    lines = _run(attempt, f"{_script('said.sh')}\n{_call('said', words)}").splitlines()
    *files, jobs = (line.split("\t") for line in lines)
    paths = list(offsets)
    found = {paths[int(n)]: (b64decode(text), int(end)) for n, end, text in files}
    return found, int(jobs[0]) > 0 and jobs[0] == jobs[1]


def stop(attempt: AttemptPaths) -> list[list[str]]:
    """End every job and process of an attempt where they run.

    Returns pairs: ``ended`` or ``left``, and what. Raises MachineUnreachable where that cannot be
    known.
    """
    where = machine.of(attempt)
    kind = where.batch_type.lower() if where.has_scheduler else "none"
    words = [where.scratch, kind, str(_END_WITHIN), f"{ATTEMPT}={attempt.tag}"]
    script = f"{_script('stop.sh')}\n{_call('stop', words)}"
    printed = _run(attempt, script, _END_WITHIN) if where.is_far else _bash(script)
    return [line.split("\t") for line in printed.splitlines()]


def _looked_at(group: Sequence[AttemptPaths]) -> dict[str, ObservedAttempt]:
    try:
        found, why = read(_run(group[0], _look(group))), "the far side left it out"
    except ReconcilerError as error:
        found, why = {}, error.message
    return {one.tag: found.get(one.tag) or ObservedAttempt(far=Far(0, why)) for one in group}


def _look(group: Sequence[AttemptPaths]) -> str:
    places: list[tuple[AttemptPaths, ExecutionHost]] = [(one, machine.of(one)) for one in group]
    queued = [where.scratch for _, where in places if where.has_slurm]
    calls = [_call("queue", queued)] if queued else []
    calls.append(_call("processes", []))
    calls += [
        _call("attempt", [one.tag, where.scratch, *traces.backward(one)]) for one, where in places
    ]
    return "\n".join([_script("tags.sh"), _script("probe.sh"), *calls])


def _machine(attempt: AttemptPaths) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (genuine.submission_of(attempt) or {}).get("machine", {})
    return found


def _run(attempt: AttemptPaths, script: str, longer: int = 0) -> str:
    """Run a script on the machine of the attempt's jobs; return what it printed.

    ``longer`` is how many seconds it may take beyond those of an answer.
    """
    within = _ANSWER_WITHIN + longer
    request = {"machine": _machine(attempt), "script": script, "timeout": within}
    answer = _helper(request, attempt.root, longer)
    if answer["code"] != 0:
        raise MachineUnreachable(f"bash exited {answer['code']}: {answer['err'].strip()[-500:]}")
    return str(answer["out"])


def _helper(request: Mapping[str, Any], root: Path, longer: int = 0) -> dict[str, Any]:
    python = program.interpreter(program.find(os.environ))
    try:
        done = subprocess.run(
            [*python, str(_HERE / "start.py"), str(_HERE / "connection.py")],
            cwd=root,
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=_HELPER_WITHIN + longer,
            check=True,
        )
    except subprocess.TimeoutExpired as error:
        raise MachineUnreachable(f"no answer within {_HELPER_WITHIN + longer} s") from error
    except subprocess.CalledProcessError as error:
        # What it printed on stderr may hold what must not be told.
        raise MachineUnreachable(f"the helper exited {error.returncode}") from error
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError as error:
        raise MachineUnreachable(
            f"expected an answer of the helper in JSON, found {done.stdout[:100]!r}"
        ) from error
    if "error" in answer:
        raise MachineUnreachable(str(answer["error"]))
    return answer


def _bash(script: str) -> str:
    done = subprocess.run(
        ["bash", "-s"], input=script, capture_output=True, text=True, errors="replace", check=False
    )
    return done.stdout


def _script(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _call(function: str, arguments: Iterable[str]) -> str:
    words = " ".join(shlex.quote(word) for word in arguments)
    # The script itself comes on stdin, which nothing that it runs may read.
    return f"{function} {words} < /dev/null"


def _quoted(path: PurePosixPath) -> str:
    return shlex.quote(str(path))


#: Bytes that come in one answer.
_AT_ONCE = 16 * 10**6


@dataclass(frozen=True, slots=True)
class BroughtFile:
    """A file that was left.

    ``path`` is where the job wrote it, ``at`` where it lies if that is elsewhere; both relative to
    the root, ``at`` absolute on another machine. ``link`` is what a symbolic link points to.
    """

    path: str
    size: int
    sha256: str
    at: str | None = None
    link: str | None = None


def brought(
    attempt: AttemptPaths, limit: int | None, wanted: Sequence[str] = ()
) -> list[BroughtFile]:
    """Bring what an attempt left into its folder here, its logs and the smallest first.

    Returns what is not brought, since it would pass ``limit`` bytes in all and fits none of the
    ``wanted`` patterns (of paths in the stage's folder), and stays there. What is
    in place already is left alone. Raises MachineUnreachable.
    """
    keep(attempt)
    total, coming, stays = 0, list[tuple[str, BroughtFile]](), list[BroughtFile]()
    known = ((there, one) for there, one in _listed(left(attempt)) if not _is_here(attempt, one))
    for there, one in sorted(known, key=lambda of: (of[1].path not in attempt.logs, of[1].size)):
        total += one.size
        own = one.path.removeprefix(f"{attempt.stage}/")
        needed = one.path in attempt.logs or any(fnmatchcase(own, pattern) for pattern in wanted)
        if limit is None or total <= limit or needed:
            coming.append((there, one))
        else:
            stays.append(replace(one, at=f"{left_at(attempt)}/{one.path}"))
    _fetch(attempt, attempt.kept, coming)
    return stays


def _is_here(attempt: AttemptPaths, left: BroughtFile) -> bool:
    place, recorded = attempt.root / left.path, {"size": left.size, "sha256": left.sha256}
    return left.link is None and not place.is_symlink() and is_as(place, recorded)


def bring(attempt: AttemptPaths, base: Path) -> None:
    """Bring the results of an attempt below ``base``, each whole or not at all.

    May be done again after it was cut off at any point. Raises MachineUnreachable, OSError.
    """
    found = [of for of in _listed(results(attempt)) if not (base / of[1].path).is_dir()]
    _fetch(attempt, base, found)


def _listed(rows: Sequence[list[str]]) -> Iterator[tuple[str, BroughtFile]]:
    """Yield each file, behind where it lies below the attempt's folder there."""
    folder = "left"
    for kind, name, *values in rows:
        if kind == "copy":
            folder = name
            continue
        path = os.fsdecode(b64decode(name))
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
            continue  # a name that leads elsewhere
        if kind == "link":
            target = b64decode(values[0])
            sha256, link = hashlib.sha256(target).hexdigest(), os.fsdecode(target)
            yield "", BroughtFile(path, 0, sha256, link=link)
        else:
            yield f"{folder}/{path}", BroughtFile(path, int(values[0]), values[1])


def _fetch(attempt: AttemptPaths, base: Path, found: Sequence[tuple[str, BroughtFile]]) -> None:
    """Bring files below ``base``; each grows beside its place until it is whole."""
    partial = dict[str, Path]()
    for there, one in found:
        place = base / one.path
        place.parent.mkdir(parents=True, exist_ok=True)
        if one.link is None:
            partial[there] = place.with_name(f".{place.name}.{attempt.id}.part")
            partial[there].write_bytes(b"")
        elif not os.path.lexists(place):
            place.symlink_to(one.link)
    for batch in _batches(found):
        for (there, _, _), content in zip(batch, parts(attempt, batch), strict=True):
            with partial[there].open("ab") as stream:
                stream.write(content)
    for there, one in found:
        if one.link is None:
            _put(partial[there], base / one.path, one)


def _put(partial: Path, target: Path, known: BroughtFile) -> None:
    if digest_of(partial) != known.sha256:
        partial.unlink()
        raise MachineUnreachable(f"{known.path} came otherwise than it lies there")
    partial.replace(target)


def _batches(found: Sequence[tuple[str, BroughtFile]]) -> Iterator[list[tuple[str, int, int]]]:
    """Yield what to ask for at once: where it lies, the first byte and the number of bytes."""
    batch: list[tuple[str, int, int]] = []
    room = _AT_ONCE
    for there, one in found:
        for start in range(0, one.size, _AT_ONCE):
            size = min(_AT_ONCE, one.size - start)
            if size > room:
                yield batch
                batch, room = [], _AT_ONCE
            batch.append((there, start, size))
            room -= size
    if batch:
        yield batch
