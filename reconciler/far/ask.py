"""Asking the machine of a job, in one round trip for all attempts that run there."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shlex
import subprocess
from base64 import b64decode, b64encode
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

from reconciler.attempt import execution_host as machine
from reconciler.attempt import paths as genuine
from reconciler.attempt.execution_host import ExecutionHost
from reconciler.attempt.markers import digest_of, is_as
from reconciler.attempt.observed import Far, ObservedAttempt, ObservedJob
from reconciler.attempt.paths import ATTEMPT, ATTEMPTS, AttemptPaths
from reconciler.errors import MachineRefused, MachineUnreachable, ReconcilerError
from reconciler.host import processes, program
from reconciler.host import small_files as plain
from reconciler.host.processes import Tenant, place_of
from reconciler.host.program import Listed, Queue
from reconciler.records import traces
from reconciler.records.used import together, used_in

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


def describe_submission(path: Path, given: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """Return what DPDispatcher makes of a submission file that it is given in the root.

    The machine as in `describe`; for jobs on this machine also their ``folder`` and the names of
    the ``jobs``. Raises MachineUnreachable where the file cannot be read, ProgramMissing.
    """
    source = machine.reference(given, path.parent)
    named = {**given, "$ref": str(source)} if source is not None else dict(given)
    return _helper({"machine": named, "submission": str(path)}, root)


def render_job_script(
    own: Mapping[str, Any],
    submitted: Mapping[str, Any],
    described: Mapping[str, Any],
    attempt: AttemptPaths,
) -> tuple[str, str]:
    """Return the header of a job as DPDispatcher writes it, and the lines of its environment.

    The header comes from the resources as ``submitted``, the environment from those that a stage
    ``described``. Raises MachineUnreachable.
    """
    request = {"machine": dict(own), "header": submitted, "environment": described}
    answer = _helper(request, attempt.root)
    return str(answer["header"]), str(answer["environment"])


#: Seconds for a trial, in addition to those of an answer.
_TRIAL_WITHIN = 100


def try_environment(
    own: Mapping[str, Any], where: ExecutionHost, attempt: AttemptPaths, words: Sequence[str]
) -> list[str]:
    """Try the folder, the scheduler and the environment of jobs on their machine; return problems.

    ``words``: the program that submits (or nothing), the header, the lines of the environment, and
    the words of the shell. Raises MachineUnreachable.
    """
    program_, header, lines, *shell = words
    is_own = where.scratch == str(attempt.work)
    place = str(attempt.root if is_own else _remote_root_of(PurePosixPath(where.scratch), attempt))
    coded = [b64encode(text.encode()).decode() for text in (header, lines)]
    call = _scripted("try.sh", "wfctl_try", [place, program_, *coded, *shell])
    script = f"{_script('probe.sh')}\n{call}"
    far = where.is_far
    printed = _run_far(own, attempt.root, script, _TRIAL_WITHIN) if far else _bash(script)
    said = _by_kind(line.split("\t") for line in printed.splitlines() if line)
    return [_text(one) for (one,) in said["problem"]]


def answers(attempts: Iterable[AttemptPaths]) -> dict[str, ObservedAttempt]:
    """Look at attempts whose jobs run on other machines; the answers are by tag.

    ``far.error`` says why it failed; then nothing else means anything.
    """
    groups: dict[str, list[AttemptPaths]] = {}
    for attempt in attempts:
        given = {name: value for name, value in _machine(attempt).items() if name != "remote_root"}
        groups.setdefault(json.dumps(given, sort_keys=True), []).append(attempt)
    answered: dict[str, ObservedAttempt] = {}
    for group in groups.values():
        try:
            found = read(_run(group[0], _look(group)))
            nothing = dict.fromkeys((one.tag for one in group), Far(0, "the far side left it out"))
        except ReconcilerError as error:
            found, nothing = {}, {one.tag: _unanswered(one, error) for one in group}
        answered |= {
            tag: found.get(tag) or ObservedAttempt(far=far) for tag, far in nothing.items()
        }
    return answered


def _unanswered(attempt: AttemptPaths, error: ReconcilerError) -> Far:
    """Return what an error says of an attempt: its machine is silent, or refuses the connection.

    The host of an attempt that may be submitted was known: the network is away.
    """
    refusal = error.reason if isinstance(error, MachineRefused) else None
    if isinstance(error, MachineRefused) and error.is_unknown_host:
        refusal = None if traces.may_be_submitted(attempt) else refusal
    return Far(0, error.message, refusal=refusal)


def _look(group: Sequence[AttemptPaths]) -> str:
    places = [(one, machine.of(one)) for one in group]
    queued = [where.scratch for _, where in places if where.has_slurm]
    calls = [_call("queue", queued)] if queued else []
    calls.append(_call("processes", []))
    calls += [
        _call("attempt", [one.tag, where.scratch, *traces.backward(one)]) for one, where in places
    ]
    return "\n".join([_script("tags.sh"), _script("probe.sh"), *calls])


def queue_here(places: Sequence[str]) -> Queue:
    """Ask the scheduler of this machine about the jobs that work below the folders."""
    printed = _bash(_scripted("probe.sh", "queue", places))
    said = _by_kind(line.split("\t") for line in printed.splitlines() if line)
    return _queue(said) or Queue(0, None, "squeue was not asked")


def _remote_root_of(place: PurePosixPath, attempt: AttemptPaths) -> PurePosixPath:
    """Return the ``remote_root`` in which an attempt has a folder of its own."""
    return place.parents[len(PurePosixPath(attempt.tag).parts) - 1]


def make_place(attempt: AttemptPaths) -> dict[str, str]:
    """Make the attempt's folder on the machine of its jobs; return that one's host and boot_id.

    Raises MachineUnreachable.
    """
    place = PurePosixPath(machine.of(attempt).scratch)
    base = _remote_root_of(place, attempt)
    # The folder that the machine's file names may be new, but not the one above it: that would
    # hide a mistyped path.
    above, own = shlex.quote(str(base)), shlex.quote(str(place))
    script = (
        f"cd / && {{ [ -d {above} ] || mkdir {above}; }} "
        f"&& mkdir -p {own} && uname -n && cat /proc/sys/kernel/random/boot_id"
    )
    host, boot_id = _run(attempt, script).split()
    return {"host": host, "boot_id": boot_id}


def tag_jobs(attempt: AttemptPaths) -> None:
    """Let DPDispatcher know of each job whose tasks all ended well; raises MachineUnreachable."""
    where = machine.of(attempt)
    records = where.scratch if where.is_far else str(attempt.folder)
    alone = " ".join(traces.alone(attempt))
    words = [where.scratch, records, alone, *traces.backward(attempt)]
    _run(attempt, _scripted("tags.sh", "tag_jobs", words))


def left_at(attempt: AttemptPaths) -> str:
    """Return where what the jobs of an attempt wrote is kept, on their machine."""
    return f"{machine.of(attempt).scratch}/left"


def keep(attempt: AttemptPaths) -> None:
    """Keep what the jobs of an attempt wrote, where they wrote it; raises MachineUnreachable."""
    words = [machine.of(attempt).scratch, left_at(attempt)]
    _run(attempt, _scripted("keep.sh", "keep_left", words))


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
    lines = _run(attempt, _scripted("said.sh", "said", words)).splitlines()
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
    printed = _run(attempt, _scripted("stop.sh", "stop", words), _END_WITHIN)
    return [line.split("\t") for line in printed.splitlines()]


def _machine(attempt: AttemptPaths) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (genuine.submission_of(attempt) or {}).get("machine", {})
    return found


def _run(attempt: AttemptPaths, script: str, longer: int = 0) -> str:
    """Run a script on the machine of the attempt's jobs; return what it printed.

    ``longer`` is how many seconds it may take beyond those of an answer, on another machine.
    """
    if not machine.of(attempt).is_far:
        return _bash(script)
    return _run_far(_machine(attempt), attempt.root, script, longer)


def _run_far(given: Mapping[str, Any], root: Path, script: str, longer: int = 0) -> str:
    """Run a script on another machine; return what it printed."""
    # The shell of the user's account may print lines of its own before and after.
    mark, within = secrets.token_hex(16), _ANSWER_WITHIN + longer
    framed = f"echo {mark}\n{UNFILTERED}\n{script}\ncode=$?; echo {mark}; exit $code"
    request = {"machine": dict(given), "script": framed, "timeout": within}
    answer = _helper(request, root, longer)
    if answer["code"] != 0:
        raise MachineUnreachable(f"bash exited {answer['code']}: {answer['err'].strip()[-500:]}")
    parts = str(answer["out"]).split(f"{mark}\n")
    if len(parts) != 3:
        raise MachineUnreachable(f"expected a whole answer, found {parts[-1][-100:]!r}")
    return parts[1]


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
    if "refused" in answer:
        raise MachineRefused(str(answer["refused"]), answer["is_unknown_host"])
    if "error" in answer:
        raise MachineUnreachable(str(answer["error"]))
    return answer


#: Lets the clients of Slurm print and cancel every job, whatever the user wants to see of them.
UNFILTERED = 'unset "${!SQUEUE_@}" "${!SACCT_@}" "${!SCANCEL_@}"'


def _bash(script: str) -> str:
    done = subprocess.run(
        ["bash", "-s"],
        input=f"{UNFILTERED}\n{script}",
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    return done.stdout


def _script(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _call(function: str, arguments: Iterable[str]) -> str:
    # The script itself comes on stdin, which nothing that it runs may read.
    return f"{function} {shlex.join(arguments)} < /dev/null"


def _scripted(name: str, function: str, arguments: Iterable[str]) -> str:
    return f"{_script(name)}\n{_call(function, arguments)}"


_Lines: TypeAlias = "list[list[str]]"
"""What the probe printed, a kind and its values a line."""
_ByKind: TypeAlias = "defaultdict[str, list[list[str]]]"


def read(printed: str) -> dict[str, ObservedAttempt]:
    """Return what the probe found of attempts, by tag, from the lines that it printed."""
    common: _Lines = []
    own: dict[str, _Lines] = {}
    current = common
    for line in (line.split("\t") for line in printed.splitlines() if line):
        if line[0] == "attempt":
            current = own.setdefault(line[1], [])
        else:
            current.append(line)
    said = _by_kind(common)
    places = {
        tag: next((_text(line[1]) for line in found if line[0] == "place"), "")
        for tag, found in own.items()
    }
    queue, names = _queue(said), set(places.values())
    queues = queue.split(names) if queue is not None else {}
    tenants = defaultdict[str, list[Tenant]](list)
    for place, tenant in _tenants(said, names):
        tenants[place].append(tenant)
    host, boot_id, asked_at = (said["here"] or [["", "", "0"]])[-1]
    far = Far(int(asked_at), None, host, boot_id)
    for tag, found in own.items():
        for pid, ticks in _found_by_environment(found, said):
            if pid not in [tenant.pid for tenant in tenants[places[tag]]]:
                tenants[places[tag]].append(Tenant(pid, ticks, places[tag], deleted=True))
    return {
        tag: replace(
            _answer(found, far), queue=queues.get(places[tag]), tenants=tuple(tenants[places[tag]])
        )
        for tag, found in own.items()
    }


def _by_kind(lines: Iterable[list[str]]) -> _ByKind:
    said = defaultdict[str, list[list[str]]](list)
    for kind, *values in lines:
        said[kind].append(values)
    return said


def _queue(said: _ByKind) -> Queue | None:
    """Return what the scheduler said, with silence where it said nothing; None if nobody asked."""
    for asked_at, code, words in said["queue"]:
        if code != "0":
            return Queue(int(asked_at), None, _text(words).strip() or f"squeue exited {code}")
        return Queue(int(asked_at), tuple(_entry(*line) for line in said["listed"]))
    return None


def _entry(id_: str, state: str, *at: str) -> Listed:
    state, _, reason = state.partition(" ")
    known = reason if state == "PENDING" and reason not in ("", "None", "(null)") else None
    return Listed(id_, state, "\t".join(at), known)


def _tenants(said: _ByKind, places: set[str]) -> Iterator[tuple[str, Tenant]]:
    ticks = {pid: int(since) for pid, state, since in said["stat"] if state not in "ZX"}
    for process, *words in said["cwd"]:
        pid, named = process.split("/")[2], "\t".join(words)
        folder = named.removesuffix(processes.DELETED)
        place = place_of(folder, places)
        if pid in ticks and place is not None:
            yield place, Tenant(int(pid), ticks[pid], folder, folder != named)


def _found_by_environment(lines: _Lines, said: _ByKind) -> Iterator[tuple[int, int]]:
    """Yield process id and start of the live processes of an attempt whose folder was removed."""
    ticks = {pid: int(since) for pid, state, since in said["stat"] if state not in "ZX"}
    yield from (
        (int(pid), ticks[pid]) for kind, pid, *_ in lines if kind == "process" and pid in ticks
    )


def _answer(lines: _Lines, far: Far) -> ObservedAttempt:
    said = {kind: [one[0] for one in found if one] for kind, found in _by_kind(lines).items()}
    jobs = (ObservedJob(name, **{"fail_count": 0, **known}) for name, known in _jobs(lines).items())
    errors = (_text(one).strip() for one in said.get("err", ()))
    refusals = (_text(one).strip() for one in said.get("refused", ()))
    return ObservedAttempt(
        jobs=tuple(jobs),
        copies=tuple(said.get("copy", ())),
        recovery_file=bool(said.get("recovery")),
        backward_missing=tuple(map(_text, said.get("absent", ()))),
        far=replace(
            far, errors=tuple(errors), has_folder="none" not in said, refusal=next(refusals, None)
        ),
        complete=frozenset(said.get("complete", ())),
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
    found: dict[str, Any] = {"started": True, "lock_held": {"held": True, "free": False}.get(lock)}
    known = plain.number(code)
    whole, _, part = ended.partition(".")
    if known is not None:
        found |= {"exit_code": known, "ended_at": int(whole) * 10**9 + int(f"{part:0<9.9}")}
    return found


#: Kind of a line → the fields of a job that its values make.
_OF_JOB: Mapping[str, Callable[..., dict[str, Any]]] = {
    "job": _own,
    "job_id": lambda id_: {"id": id_},
    "command_code": lambda code: {"command_code": plain.number(code)},
    "used": lambda told: {"used": together(map(used_in, _text(told).splitlines())) or None},
    "complete": dict,
    "job_tag_finished": lambda _: {"tag": True},
    "flag_if_job_task_fail": lambda flag: {"failed_flag": flag == "1"},
}


def _text(encoded: str) -> str:
    return b64decode(encoded).decode(errors="replace")


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
    listed = _listed(attempt, "list_left", [left_at(attempt)])
    # What is below the attempts is ours, and comes by itself.
    ours = f"{attempt.stage}/{ATTEMPTS}/"
    others = [of for of in listed if not of[1].path.startswith(ours)]
    known = [of for of in others if not _is_here(attempt, of[1])]
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


def bring(attempt: AttemptPaths, base: Path, listing: str = "list_results") -> None:
    """Bring the results of an attempt below ``base``, each whole or not at all.

    May be done again after it was cut off at any point. Raises MachineUnreachable, OSError.
    """
    words = [machine.of(attempt).scratch, *traces.backward(attempt)]
    found = _listed(attempt, listing, words)
    _fetch(attempt, base, [of for of in found if not (base / of[1].path).is_dir()])


def _rows(
    attempt: AttemptPaths, function: str, words: Sequence[str], size: int = 0
) -> list[list[str]]:
    longer = _LIST_WITHIN + size // _BYTES_A_SECOND
    printed = _run(attempt, _scripted("list.sh", function, words), longer)
    return [line.split("\t") for line in printed.splitlines()]


def _listed(
    attempt: AttemptPaths, function: str, words: Sequence[str]
) -> Iterator[tuple[str, BroughtFile]]:
    """Yield each file that is listed, behind where it lies below the attempt's folder there.

    A row is ``copy`` and the name of a folder that a job worked in, before the files in it;
    ``file``, path in base64, size in bytes, SHA-256; or ``link``, path, where it leads in base64.
    """
    folder = "left"
    for kind, name, *values in _rows(attempt, function, words):
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
    for there, content in _contents(attempt, found):
        with partial[there].open("ab") as stream:
            stream.write(content)
    for there, one in found:
        if one.link is None and digest_of(partial[there]) != one.sha256:
            partial[there].unlink()
            raise MachineUnreachable(f"{one.path} came otherwise than it lies there")
        if one.link is None:
            partial[there].replace(base / one.path)


def _contents(
    attempt: AttemptPaths, found: Sequence[tuple[str, BroughtFile]]
) -> Iterator[tuple[str, bytes]]:
    """Yield the files' parts in order, each behind where its file lies."""
    for batch in _batches(found):
        words = [machine.of(attempt).scratch]
        for path, start, size in batch:
            words += [b64encode(os.fsencode(path)).decode(), str(start), str(size)]
        rows = _rows(attempt, "send_parts", words, sum(size for _, _, size in batch))
        for (there, _, _), (content,) in zip(batch, rows, strict=True):
            yield there, b64decode(content)


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
