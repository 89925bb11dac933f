"""Ask remote machines for the state of jobs, and download files from them.

All attempts that run on the same machine share one request.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shlex
import subprocess
from base64 import b64decode, b64encode
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

from lifecycle.words.limits import MAX_COUNT
from reconciler.attempt import execution_host as machine
from reconciler.attempt import paths as genuine
from reconciler.attempt.execution_host import ExecutionHost
from reconciler.attempt.file_digests import compute_file_sha256, has_recorded_content
from reconciler.attempt.observations import ObservedAttempt, ObservedJob, RemoteAnswer
from reconciler.attempt.paths import ATTEMPT, ATTEMPTS, AttemptPaths
from reconciler.errors import MachineRefused, MachineUnreachable, ReconcilerError
from reconciler.far import incoming
from reconciler.host import processes, program, scheduler_jobs
from reconciler.host import small_files as plain
from reconciler.host.processes import FolderProcess, find_containing_folder
from reconciler.host.scheduler_jobs import ListedJob, Queue
from reconciler.records import backward_files, traces
from reconciler.records.remaining_processes import parse_remaining_processes
from reconciler.records.resource_use import combine_resource_use, parse_resource_use
from service.root.folder_entries import is_folder
from service.root.paths_within_root import OutsideRoot, is_inside, open_stable_path_within

_HERE = Path(__file__).parent
#: Seconds to wait for the answer of a remote machine, and for the helper process that asks the
#: machine.
_ANSWER_TIMEOUT, _HELPER_TIMEOUT = 40, 50
#: Additional seconds to wait for the list of files with their digests, and the assumed minimum
#: speed of a download in bytes per second.
_LISTING_TIMEOUT, _BYTES_A_SECOND = 600, 500_000
#: Seconds to wait until the processes and jobs of an attempt have ended. Slurm by default kills a
#: job only 30 s after the first signal.
_STOP_TIMEOUT = 60
#: Maximum number of bytes of an answer, and of an answer that contains the output of jobs.
_MAX_ANSWER_BYTES, _MAX_LOG_BYTES = 1 << 26, 1 << 30


def query_machine_settings(given: Mapping[str, Any], attempt: AttemptPaths) -> dict[str, Any]:
    """Return the batch type, the context type and the roots that a machine file defines.

    ``given`` refers to the file. Raises MachineUnreachable if the file cannot be read, or
    ProgramMissing if DPDispatcher is not installed.
    """
    source = machine.find_machine_file(given, attempt.stage_folder)
    return _run_helper({"machine": {**given, "$ref": str(source)}}, attempt.root)


def query_submission_settings(path: Path, given: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """Return the settings that DPDispatcher reads from a submission file in the root.

    The result has the fields of `query_machine_settings`. For jobs on this machine it also has
    their ``folder`` and the names of the ``jobs``. Raises MachineUnreachable if the machine file
    cannot be read, or ProgramMissing if DPDispatcher is not installed.
    """
    source = machine.find_machine_file(given, path.parent)
    named = {**given, "$ref": str(source)} if source is not None else dict(given)
    return _run_helper({"machine": named, "submission": str(path)}, root)


def render_job_script(
    own: Mapping[str, Any],
    submitted: Mapping[str, Any],
    described: Mapping[str, Any],
    attempt: AttemptPaths,
) -> tuple[str, str]:
    """Return the header and the environment lines of a job script by DPDispatcher.

    The header is derived from the resources in ``submitted``, the environment from the resources in
    ``described``. Raises MachineUnreachable if DPDispatcher cannot create them.
    """
    request = {"machine": dict(own), "header": submitted, "environment": described}
    answer = _run_helper(request, attempt.root)
    return str(answer["header"]), str(answer["environment"])


#: Seconds that the test of a machine may take in addition to the time for an answer.
_TRIAL_TIMEOUT = 100


def find_machine_problems(
    own: Mapping[str, Any], where: ExecutionHost, attempt: AttemptPaths, words: Sequence[str]
) -> list[str]:
    """Test folder, scheduler and software on a machine, and return the problems found.

    ``words`` contains the program that submits jobs (may be empty), the header of the job script,
    its environment lines, and the words of the shell command. Raises MachineUnreachable.
    """
    program_, header, lines, *shell = words
    is_own = where.scratch == str(attempt.work)
    place = str(attempt.root if is_own else _remote_root_of(PurePosixPath(where.scratch), attempt))
    coded = [b64encode(text.encode()).decode() for text in (header, lines)]
    call = _build_script("try.sh", "wfctl_try", [place, program_, *coded, *shell])
    script = f"{_read_script('probe.sh')}\n{call}"
    far = where.is_far
    printed = _run_far(own, attempt.root, script, _TRIAL_TIMEOUT) if far else _run_bash(script)
    said = _group_by_kind(line.split("\t") for line in printed.splitlines() if line)
    return [_decode_text(one) for (one,) in said["problem"]]


def observe_far_attempts(
    attempts: Iterable[AttemptPaths], *, fresh: bool = False
) -> dict[str, ObservedAttempt]:
    """Observe attempts with jobs on other machines, and return the observations by tag.

    With ``fresh``, the last answers of their schedulers are not reused.

    If a machine gives no answer, ``far.error`` contains the reason, and the other fields of the
    observation are meaningless.
    """
    groups: dict[str, list[AttemptPaths]] = {}
    for attempt in attempts:
        given = {
            name: value
            for name, value in _get_machine_settings(attempt).items()
            if name != "remote_root"
        }
        groups.setdefault(json.dumps(given, sort_keys=True), []).append(attempt)
    answered: dict[str, ObservedAttempt] = {}
    for group in groups.values():
        try:
            printed = _run_script(group[0], _build_probe_script(group, fresh=fresh))
            with _convert_answer_errors(printed[:100]):
                found = parse_probe_output(printed)
            nothing = dict.fromkeys(
                (one.tag for one in group), RemoteAnswer(0, "the machine did not report this value")
            )
        except ReconcilerError as error:
            found, nothing = {}, {one.tag: _describe_missing_answer(one, error) for one in group}
        answered |= {
            tag: found.get(tag) or ObservedAttempt(far=far) for tag, far in nothing.items()
        }
    return answered


def _describe_missing_answer(attempt: AttemptPaths, error: ReconcilerError) -> RemoteAnswer:
    """Return a `RemoteAnswer` object for an attempt whose machine did not answer or refused to.

    If the attempt was already submitted, its host name was valid. An unknown host then means that
    the network is down, and not that the name is wrong.
    """
    refusal = error.reason if isinstance(error, MachineRefused) else None
    if isinstance(error, MachineRefused) and error.is_unknown_host:
        refusal = None if traces.may_be_submitted(attempt) else refusal
    return RemoteAnswer(0, error.message, refusal=refusal)


def _build_probe_script(group: Sequence[AttemptPaths], *, fresh: bool) -> str:
    places = [(one, machine.load_execution_host(one)) for one in group]
    queued = [where for _, where in places if where.has_slurm]
    interval = 0 if fresh else min((where.query_interval for where in queued), default=0)
    scratches = [where.scratch for where in queued]
    calls = [_build_call("queue", [str(interval), *scratches])] if queued else []
    calls.append(_build_call("processes", []))
    calls += [
        _build_call(
            "attempt", [one.tag, where.scratch, *backward_files.attempt_backward_patterns(one)]
        )
        for one, where in places
    ]
    return "\n".join([_read_script("tags.sh"), _read_script("probe.sh"), *calls])


def query_local_queue(places: Sequence[str], interval: int) -> Queue:
    """Return the jobs of the local scheduler that work in one of the folders or below it.

    An answer that any process of this user got in the last ``interval`` seconds is reused.
    """
    printed = _run_bash(_build_script("probe.sh", "queue", [str(interval), *places]))
    said = _group_by_kind(line.split("\t") for line in printed.splitlines() if line)
    return _parse_queue(said) or Queue(0, None, "squeue was not asked")


def list_pending_jobs(interval: int) -> list[str]:
    """Return the ids of all pending jobs of the local Slurm, in the order of their start.

    An answer that any process of this user got in the last ``interval`` seconds is reused. Returns
    an empty list if Slurm does not answer.
    """
    return _run_bash(_build_script("probe.sh", "pending", [str(interval)])).split()


def _remote_root_of(place: PurePosixPath, attempt: AttemptPaths) -> PurePosixPath:
    """Return the ``remote_root`` (base folder on the machine) of an attempt's folder."""
    return place.parents[len(PurePosixPath(attempt.tag).parts) - 1]


def has_other_remote_root(attempt: AttemptPaths) -> bool:
    """Return whether the machine file has a new ``remote_root`` since the attempt started.

    Returns False if the machine file cannot be read.
    """
    named = dict(_get_machine_settings(attempt))
    source = machine.find_machine_file(named, attempt.stage_folder)
    if source is None or named.pop("remote_root", None) is None:
        return False
    try:
        root = str(query_machine_settings(named, attempt).get("remote_root"))
    except ReconcilerError:
        return False
    scratch = machine.load_execution_host(attempt).scratch
    return str(attempt.root / root / attempt.tag) != scratch and not is_inside(
        Path(scratch), attempt.root
    )


def make_scratch_folder(attempt: AttemptPaths) -> dict[str, str]:
    """Create the attempt's folder on the machine of its jobs.

    Returns the ``host`` and the ``boot_id`` of that machine. Raises MachineUnreachable.
    """
    place = PurePosixPath(machine.load_execution_host(attempt).scratch)
    base = _remote_root_of(place, attempt)
    # The parent of `remote_root` is not created, so that a mistyped path is reported as an error.
    above, own = shlex.quote(str(base)), shlex.quote(str(place))
    script = (
        f"cd / && {{ [ -d {above} ] || mkdir {above}; }} "
        f"&& mkdir -p {own} && uname -n && cat /proc/sys/kernel/random/boot_id"
    )
    printed = _run_script(attempt, script)
    with _convert_answer_errors(printed[:100]):
        host, boot_id = printed.split()
        return {"host": host, "boot_id": boot_id}


def tag_finished_jobs(attempt: AttemptPaths) -> None:
    """Mark each job whose tasks all succeeded as finished, as DPDispatcher does.

    Raises MachineUnreachable if the machine of the jobs does not answer.
    """
    where = machine.load_execution_host(attempt)
    records = where.scratch if where.is_far else str(attempt.folder)
    alone = " ".join(traces.list_orphaned_jobs(attempt))
    words = [where.scratch, records, alone, *backward_files.attempt_backward_patterns(attempt)]
    _run_script(attempt, _build_script("tags.sh", "tag_jobs", words))


def kept_files_path(attempt: AttemptPaths) -> str:
    """Return the folder, on the machine of the jobs, in which files of the jobs are kept."""
    return f"{machine.load_execution_host(attempt).scratch}/left"


def keep_written_files(attempt: AttemptPaths) -> None:
    """Link or copy the files that the jobs wrote into a safe folder on the same machine.

    The clean-up of DPDispatcher would otherwise remove them. Raises MachineUnreachable.
    """
    words = [machine.load_execution_host(attempt).scratch, kept_files_path(attempt)]
    _run_script(attempt, _build_script("keep.sh", "keep_left", words))


def read_new_output(
    attempt: AttemptPaths, offsets: Mapping[str, int], last: int | None
) -> tuple[dict[str, tuple[bytes, int]], bool]:
    """Read the output that an attempt's jobs wrote since the last call.

    ``offsets`` contains the number of bytes already read of each file. ``last`` limits the number
    of lines per file. Returns the new content and the new offset of each existing file, by path,
    and whether every started job has ended. Raises MachineUnreachable.
    """
    words = [machine.load_execution_host(attempt).scratch, "" if last is None else str(last)]
    for path, offset in offsets.items():
        words += [path, str(offset)]
    lines = _run_script(
        attempt, _build_script("said.sh", "said", words), size=_MAX_LOG_BYTES
    ).splitlines()
    paths = list(offsets)
    with _convert_answer_errors(lines[-1:]):
        *files, jobs = (line.split("\t") for line in lines)
        found = {paths[int(n)]: (b64decode(text), int(end)) for n, end, text in files}
        return found, int(jobs[0]) > 0 and jobs[0] == jobs[1]


def stop_attempt_jobs(attempt: AttemptPaths) -> list[list[str]]:
    """Stop all jobs and processes of an attempt on the machine where they run.

    Returns a pair for each: ``ended`` or ``left``, and the name of the job or process. Raises
    MachineUnreachable if the result is unknown.
    """
    where = machine.load_execution_host(attempt)
    kind = where.batch_type.lower() if where.has_scheduler else "none"
    words = [where.scratch, kind, str(_STOP_TIMEOUT), f"{ATTEMPT}={attempt.tag}"]
    printed = _run_script(attempt, _build_script("stop.sh", "stop", words), _STOP_TIMEOUT)
    return [line.split("\t") for line in printed.splitlines()]


def _get_machine_settings(attempt: AttemptPaths) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (genuine.read_attempt_submission(attempt) or {}).get("machine", {})
    return found


def _run_script(
    attempt: AttemptPaths, script: str, longer: int = 0, size: int = _MAX_ANSWER_BYTES
) -> str:
    """Run a shell script on the machine of the attempt's jobs, and return its output.

    If this is another machine, ``longer`` adds seconds to the timeout, and ``size`` is the maximum
    number of bytes that the script may print.
    """
    if not machine.load_execution_host(attempt).is_far:
        return _run_bash(script)
    return _run_far(_get_machine_settings(attempt), attempt.root, script, longer, size)


def _run_far(
    given: Mapping[str, Any],
    root: Path,
    script: str,
    longer: int = 0,
    size: int = _MAX_ANSWER_BYTES,
) -> str:
    """Run a shell script on another machine, and return its output.

    Raises MachineUnreachable if the script fails or its output is incomplete.
    """
    # The random mark separates the output of the script from lines that the login shell may print
    # before and after it.
    mark, within = secrets.token_hex(16), _ANSWER_TIMEOUT + longer
    framed = f"echo {mark}\n{UNFILTERED}\n{script}\ncode=$?; echo {mark}; exit $code"
    request = {"machine": dict(given), "script": framed, "timeout": within, "most": size}
    answer = _run_helper(request, root, longer)
    if answer["code"] != 0:
        raise MachineUnreachable(
            f"bash ended with exit code {answer['code']}: {answer['err'].strip()[-500:]}"
        )
    parts = str(answer["out"]).split(f"{mark}\n")
    if len(parts) != 3:
        raise MachineUnreachable(f"expected a complete answer, found {parts[-1][-100:]!r}")
    return parts[1]


def _run_helper(request: Mapping[str, Any], root: Path, longer: int = 0) -> dict[str, Any]:
    python = program.read_interpreter(program.find_dpdisp(os.environ))
    try:
        done = subprocess.run(
            [*python, str(_HERE / "patched_dpdispatcher.py"), str(_HERE / "connection.py")],
            cwd=root,
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=_HELPER_TIMEOUT + longer,
            check=True,
        )
    except subprocess.TimeoutExpired as error:
        raise MachineUnreachable(f"no answer within {_HELPER_TIMEOUT + longer} s") from error
    except subprocess.CalledProcessError as error:
        # The stderr of the helper process is not part of the message, because it may contain a
        # secret.
        raise MachineUnreachable(
            f"the helper process of wfctl ended with exit code {error.returncode}"
        ) from error
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError as error:
        raise MachineUnreachable(
            f"the response of the helper process is not valid JSON: {done.stdout[:100]!r}"
        ) from error
    if "refused" in answer:
        raise MachineRefused(str(answer["refused"]), answer["is_unknown_host"])
    if "error" in answer:
        raise MachineUnreachable(str(answer["error"]))
    return answer


#: Removes the user's filter variables. With them, the commands of Slurm would omit some jobs.
UNFILTERED = 'unset "${!SQUEUE_@}" "${!SACCT_@}" "${!SCANCEL_@}"'


def _run_bash(script: str) -> str:
    done = subprocess.run(
        ["bash", "-s"],
        input=f"{UNFILTERED}\n{script}",
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    return done.stdout


def _read_script(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _build_call(function: str, arguments: Iterable[str]) -> str:
    # The shell reads the script from stdin. A command in it that read stdin would consume the
    # script.
    return f"{function} {shlex.join(arguments)} < /dev/null"


def _build_script(name: str, function: str, arguments: Iterable[str]) -> str:
    return f"{_read_script(name)}\n{_build_call(function, arguments)}"


_Lines: TypeAlias = "list[list[str]]"
"""The lines of the probe. Each line has a kind and values."""
_ByKind: TypeAlias = "defaultdict[str, list[list[str]]]"


def parse_probe_output(printed: str) -> dict[str, ObservedAttempt]:
    """Return the observations by attempt tag, parsed from the output of the probe script."""
    common: _Lines = []
    own: dict[str, _Lines] = {}
    current = common
    for line in (line.split("\t") for line in printed.splitlines() if line):
        if line[0] == "attempt":
            current = own.setdefault(line[1], [])
        else:
            current.append(line)
    said = _group_by_kind(common)
    places = {
        tag: next((_decode_text(line[1]) for line in found if line[0] == "place"), "")
        for tag, found in own.items()
    }
    queue, names = _parse_queue(said), set(places.values())
    queues = queue.split(names) if queue is not None else {}
    tenants = defaultdict[str, list[FolderProcess]](list)
    for place, tenant in _find_tenants(said, names):
        tenants[place].append(tenant)
    host, boot_id, asked_at = (said["here"] or [["", "", "0"]])[-1]
    far = RemoteAnswer(int(asked_at), None, host, boot_id)
    for tag, found in own.items():
        for pid, ticks in _find_folderless_processes(found, said):
            if pid not in [tenant.pid for tenant in tenants[places[tag]]]:
                tenants[places[tag]].append(FolderProcess(pid, ticks, places[tag], deleted=True))
    return {
        tag: replace(
            _parse_attempt(found, far),
            queue=queues.get(places[tag]),
            tenants=tuple(tenants[places[tag]]),
        )
        for tag, found in own.items()
    }


def _group_by_kind(lines: Iterable[list[str]]) -> _ByKind:
    said = defaultdict[str, list[list[str]]](list)
    for kind, *values in lines:
        said[kind].append(values)
    return said


def _parse_queue(said: _ByKind) -> Queue | None:
    """Return the answer or the error of the scheduler, or None if it was not asked."""
    for asked_at, code, words, reused in said["queue"]:
        listed, error = None, None
        if code == "0":
            listed = tuple(_parse_queue_entry(*line) for line in said["listed"])
        else:
            error = _decode_text(words).strip() or f"squeue ended with exit code {code}"
        return Queue(int(asked_at), listed, error, is_reused=bool(reused))
    return None


def _parse_queue_entry(id_: str, state: str, *at: str) -> ListedJob:
    state, _, reason = state.partition(" ")
    known = reason if state == "PENDING" and reason not in ("", "None", "(null)") else None
    return ListedJob(id_, state, "\t".join(at), known)


def _find_tenants(said: _ByKind, places: set[str]) -> Iterator[tuple[str, FolderProcess]]:
    ticks = {pid: int(since) for pid, state, since in said["stat"] if state not in "ZX"}
    for process, *words in said["cwd"]:
        pid, named = process.split("/")[2], "\t".join(words)
        folder = named.removesuffix(processes.DELETED)
        place = find_containing_folder(folder, places)
        if pid in ticks and place is not None:
            yield place, FolderProcess(int(pid), ticks[pid], folder, folder != named)


def _find_folderless_processes(lines: _Lines, said: _ByKind) -> Iterator[tuple[int, int]]:
    """Yield id and start time of running processes whose attempt's folder was removed.

    Such processes are found by a variable in their environment.
    """
    ticks = {pid: int(since) for pid, state, since in said["stat"] if state not in "ZX"}
    yield from (
        (int(pid), ticks[pid]) for kind, pid, *_ in lines if kind == "process" and pid in ticks
    )


def _parse_attempt(lines: _Lines, far: RemoteAnswer) -> ObservedAttempt:
    said = {kind: [one[0] for one in found if one] for kind, found in _group_by_kind(lines).items()}
    jobs = (
        ObservedJob(name, **{"fail_count": 0, **known})
        for name, known in _parse_job_fields_by_name(lines).items()
    )
    errors = (_decode_text(one).strip() for one in said.get("err", ()))
    refusals = (_decode_text(one).strip() for one in said.get("refused", ()))
    return ObservedAttempt(
        jobs=tuple(jobs),
        copies=tuple(said.get("copy", ())),
        recovery_file=bool(said.get("recovery")),
        backward_missing=tuple(map(_decode_text, said.get("absent", ()))),
        far=replace(
            far, errors=tuple(errors), has_folder="none" not in said, refusal=next(refusals, None)
        ),
        complete=frozenset(said.get("complete", ())),
        ends=_parse_printed_ends(lines),
    )


def _parse_printed_ends(lines: _Lines) -> dict[str, str]:
    """Return the end state that Slurm printed into the output of each job, by job id."""
    printed = {
        one[1]: _decode_text(one[2]) for one in lines if one[0] == "printed" and len(one) > 2
    }
    ends = {id_: scheduler_jobs.find_printed_slurm_state(text) for id_, text in printed.items()}
    return {id_: state for id_, state in ends.items() if state is not None}


def _parse_job_fields_by_name(lines: Iterable[list[str]]) -> dict[str, dict[str, Any]]:
    """Return the field values for the `ObservedJob` of each job, by job name."""
    jobs = defaultdict[str, dict[str, Any]](dict)
    current: dict[str, Any] | None = None
    for kind, name, *values in (line for line in lines if len(line) > 1):
        if kind == "of":
            # DPDispatcher may list a job that it has not submitted yet. Ignore this job.
            current = jobs.get(name)
        elif kind in ("job_state", "fail_count") and current is not None:
            current[kind.removeprefix("job_")] = int(name)
        elif kind in _JOB_FIELD_PARSERS:
            jobs[name] |= _JOB_FIELD_PARSERS[kind](*values)
    return jobs


def _parse_job_record(
    _started: str, lock: str, code: str, ended: str, _record: str
) -> dict[str, Any]:
    found: dict[str, Any] = {"started": True, "lock_held": {"held": True, "free": False}.get(lock)}
    known = plain.parse_number(code)
    whole, _, part = ended.partition(".")
    if known is not None:
        found |= {"exit_code": known, "ended_at": int(whole) * 10**9 + int(f"{part:0<9.9}")}
    return found


#: For each kind of line, a function that converts the values of the line into fields of a job.
_JOB_FIELD_PARSERS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "job": _parse_job_record,
    "job_id": lambda id_: {"id": id_},
    "command_code": lambda code: {"command_code": plain.parse_number(code)},
    "used": lambda told: {
        "used": combine_resource_use(map(parse_resource_use, _decode_text(told).splitlines()))
        or None,
        "remaining": parse_remaining_processes(_decode_text(told)),
    },
    "complete": dict,
    "job_tag_finished": lambda _: {"tag": True},
    "flag_if_job_task_fail": lambda flag: {"failed_flag": flag == "1"},
}


def _decode_text(encoded: str) -> str:
    return b64decode(encoded).decode(errors="replace")


#: Maximum number of bytes of file content in one answer.
_MAX_BATCH_BYTES = 16 * 10**6
#: Maximum number of files that are listed or downloaded for one attempt.
_MAX_FILES = 100_000
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class JobFile:
    """A file that a job wrote: a leftover file or a result.

    ``path`` is the path, relative to the root, to which the job wrote the file. ``at`` is its
    current path if it differs: relative to the root, or absolute on another machine. ``link`` is
    the target if the file is a symbolic link.
    """

    path: str
    size: int
    sha256: str
    at: str | None = None
    link: str | None = None


def has_utf8_paths(file: JobFile) -> bool:
    """Return whether the paths of a file can be written to the log, which requires UTF-8."""
    try:
        "".join((file.path, file.at or "", file.link or "")).encode()
    except UnicodeEncodeError:
        return False
    return True


def download_leftovers(
    attempt: AttemptPaths, limit: int | None, wanted: Sequence[str] = ()
) -> list[JobFile]:
    """Download the leftover files of an attempt, logs first, then from small to large.

    Files that already exist here unchanged are not downloaded. Returns the files that stay on the
    other machine: files that `find_refused_leftovers` refuses, files whose names the log cannot
    contain, and files beyond the ``limit`` of bytes in total. The limit does not apply to files
    that match one of the ``wanted`` patterns (paths in the stage's folder). Raises
    MachineUnreachable.
    """
    keep_written_files(attempt)
    total, coming, stays = 0, list[tuple[str, JobFile]](), list[JobFile]()
    listed = _list_far_files(attempt, "list_left", [kept_files_path(attempt)])
    # These files are records of wfctl itself, which are not leftover files of the job.
    ours = f"{attempt.stage}/{ATTEMPTS}/"
    others = [of for of in listed if not of[1].path.startswith(ours)]
    # A file that already exists at its place with the same content needs no download.
    known = [of for of in others if not _is_already_downloaded(attempt, of[1])]
    links = {one.path: one.link for _, one in known if one.link is not None}
    refused = incoming.find_refused_leftovers([one.path for _, one in known], links, attempt.stage)
    refused |= {one.path for _, one in known if not has_utf8_paths(one)}
    for there, one in sorted(known, key=lambda of: (of[1].path not in attempt.logs, of[1].size)):
        total += one.size
        own = one.path.removeprefix(f"{attempt.stage}/")
        needed = one.path in attempt.logs or any(fnmatchcase(own, pattern) for pattern in wanted)
        if one.path in refused or not (limit is None or total <= limit or needed):
            stays.append(replace(one, at=f"{kept_files_path(attempt)}/{one.path}"))
        else:
            coming.append((there, one))
    _download_files(attempt, attempt.kept, coming)
    return stays


def _is_already_downloaded(attempt: AttemptPaths, left: JobFile) -> bool:
    place, recorded = attempt.root / left.path, {"size": left.size, "sha256": left.sha256}
    return left.link is None and not place.is_symlink() and has_recorded_content(place, recorded)


def download_results_without_monitor(
    attempt: AttemptPaths, base: Path, listing: str = "list_results"
) -> None:
    """Download the results of an attempt into the folder ``base``.

    Only files that the submission names as results are downloaded. Each file appears completely or
    not at all. Safe to repeat after an interruption. Raises MachineUnreachable or OSError.
    """
    patterns = backward_files.attempt_backward_patterns(attempt)
    found = _list_far_files(
        attempt, listing, [machine.load_execution_host(attempt).scratch, *patterns]
    )
    sent = tuple(traces.forward_patterns(genuine.read_attempt_submission(attempt) or {}))
    protected = incoming.read_protected_files(attempt.folder)
    _download_files(
        attempt,
        base,
        [
            (there, one)
            for there, one in found
            if one.link is None
            and incoming.is_result(base, one.path, patterns, sent, protected)
            and not is_folder(base / one.path)
        ],
    )


def _run_listing(
    attempt: AttemptPaths, function: str, words: Sequence[str], size: int = 0
) -> list[list[str]]:
    longer = _LISTING_TIMEOUT + size // _BYTES_A_SECOND
    printed = _run_script(attempt, _build_script("list.sh", function, words), longer)
    return [line.split("\t") for line in printed.splitlines()]


def _list_far_files(
    attempt: AttemptPaths, function: str, words: Sequence[str]
) -> list[tuple[str, JobFile]]:
    """Return the files that the machine of the attempt's jobs lists.

    Each file follows its path in the attempt's folder on that machine. The machine prints one row
    per file: ``file``, the path in base64, the size in bytes and the SHA-256, or ``link``, the path
    and the target in base64. A row with ``copy`` and the name of a folder precedes the files of
    that folder. Paths that lead out of the folder are omitted. Raises MachineUnreachable if a row
    cannot be read.
    """
    folder, found = "left", list[tuple[str, JobFile]]()
    rows = _run_listing(attempt, function, words)
    if len(rows) > _MAX_FILES:
        raise MachineUnreachable(f"expected at most {_MAX_FILES} files, found {len(rows)}")
    for row in rows:
        with _convert_answer_errors(row):
            kind, name, *values = row
            if kind == "copy":
                folder = name
                continue
            path = os.fsdecode(b64decode(name))
            if not incoming.is_safe_path(path):
                continue
            if kind == "link":
                target = b64decode(values[0])
                sha256, link = hashlib.sha256(target).hexdigest(), os.fsdecode(target)
                found.append(("", JobFile(path, 0, sha256, link=link)))
            else:
                size, sha256 = _size_and_digest(*values)
                found.append((f"{folder}/{path}", JobFile(path, size, sha256)))
    return found


def _size_and_digest(size: str, sha256: str) -> tuple[int, str]:
    """Return the size and the digest of a listed file.

    Raises ValueError if one of them is invalid.
    """
    number = plain.parse_number(size)
    if number is None or number > MAX_COUNT or not _SHA256.fullmatch(sha256):
        raise ValueError(
            f"each listed file must have a size and a SHA-256, but one file has {size!r} and "
            f"{sha256!r}"
        )
    return number, sha256


@contextmanager
def _convert_answer_errors(answer: object) -> Iterator[None]:
    """Convert errors in the block into `MachineUnreachable`.

    The block reads an answer of another machine, so such an error means that the answer is invalid.
    """
    try:
        yield
    except (ValueError, IndexError, KeyError, TypeError) as error:
        raise MachineUnreachable(
            f"the response of the machine cannot be read: {str(answer)[:100]!r}"
        ) from error


def _download_files(
    attempt: AttemptPaths, base: Path, found: Sequence[tuple[str, JobFile]]
) -> None:
    """Download files into the folder ``base``.

    Each file is first written to a partial file, which is renamed after its digest was checked. No
    link is followed out of ``base``, and links are created last. A file that is listed several
    times is downloaded once. Raises MachineUnreachable if a file was damaged.
    """
    found = [*{one.path: (there, one) for there, one in found}.values()]
    base.mkdir(parents=True, exist_ok=True)
    paths = {there: one.path for there, one in found if one.link is None}
    for path in paths.values():
        with _open_partial_path(attempt, base, path) as (partial, _):
            partial.unlink(missing_ok=True)
            partial.open("xb").close()
    for there, content in _download_parts(attempt, found):
        with (
            _open_partial_path(attempt, base, paths[there]) as (partial, _),
            partial.open("ab") as stream,
        ):
            stream.write(content)
    for _, one in found:
        with _open_partial_path(attempt, base, one.path) as (partial, place):
            if one.link is not None:
                continue
            if compute_file_sha256(partial) != one.sha256:
                partial.unlink()
                raise MachineUnreachable(
                    f"the file {one.path} was damaged during the transfer, because its SHA-256 "
                    "differs from the SHA-256 of the original file"
                )
            partial.replace(place)
    for _, one in found:
        with _open_path_below(base, one.path) as place:
            if one.link is not None and not os.path.lexists(place):
                place.symlink_to(one.link)


@contextmanager
def _open_partial_path(attempt: AttemptPaths, base: Path, path: str) -> Iterator[tuple[Path, Path]]:
    """Yield the path of a temporary file and the final path, and create missing folders."""
    with _open_path_below(base, path) as place:
        yield place.with_name(f".{place.name}.{attempt.id}.part"), place


@contextmanager
def _open_path_below(base: Path, path: str) -> Iterator[Path]:
    """Yield a path below ``base``, and create missing folders.

    Raises OSError if a link leads out of ``base``.
    """
    try:
        with open_stable_path_within(base, path, make=True) as place:
            yield place
    except OutsideRoot as error:
        raise OSError(error.message) from error


def _download_parts(
    attempt: AttemptPaths, found: Sequence[tuple[str, JobFile]]
) -> Iterator[tuple[str, bytes]]:
    """Download files in parts, and yield the path of the file with each part."""
    for batch in _split_into_batches(found):
        words = [machine.load_execution_host(attempt).scratch]
        for path, start, size in batch:
            words += [b64encode(os.fsencode(path)).decode(), str(start), str(size)]
        rows = _run_listing(attempt, "send_parts", words, sum(size for _, _, size in batch))
        with _convert_answer_errors(f"expected {len(batch)} parts of files, received {len(rows)}"):
            contents = [b64decode(content) for _, (content,) in zip(batch, rows, strict=True)]
        yield from (
            (there, content) for (there, _, _), content in zip(batch, contents, strict=True)
        )


def _split_into_batches(
    found: Sequence[tuple[str, JobFile]],
) -> Iterator[list[tuple[str, int, int]]]:
    """Divide files into parts, and yield the list of parts for each request.

    A part is the path of the file, the first byte and the number of bytes.
    """
    batch: list[tuple[str, int, int]] = []
    room = _MAX_BATCH_BYTES
    for there, one in found:
        for start in range(0, one.size, _MAX_BATCH_BYTES):
            size = min(_MAX_BATCH_BYTES, one.size - start)
            if size > room:
                yield batch
                batch, room = [], _MAX_BATCH_BYTES
            batch.append((there, start, size))
            room -= size
    if batch:
        yield batch
