"""Diagnose a failed attempt: find the category of the failure and the line that shows it.

This is level 1 of the published convention. It reads only files that are already on this machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from eventstore.disk_space import (
    NO_ROOM_REPORTED,
    describe_file_system,
    describe_full_disk,
    has_no_free_bytes,
)
from lifecycle.payload import models as p
from lifecycle.words.failure_cause import find_cause, find_stated_cause
from reconciler.attempt import execution_host
from reconciler.attempt.observations import ObservedJob
from reconciler.attempt.paths import SIGNALLED, AttemptPaths
from reconciler.evidence.evidence import Evidence
from reconciler.host.scheduler_jobs import EXCEEDED, TAKEN
from reconciler.records import traces
from reconciler.submission.build import CODE_LINE
from reconciler.submission.fields import LACKS
from reconciler.verdict.shortage import OUT_OF_MEMORY, OUT_OF_TIME, find_shortage
from reconciler.verdict.table import (
    Situation,
)

_WIDTH = 200
_NOTHING = "no file of the attempt shows the cause"


class FailureKind(NamedTuple):
    """The category of a failure, with the line of text that shows it.

    ``source`` names the text that contains the line, or is None.
    """

    category: p.Category
    said: str
    source: str | None = None

    @property
    def because(self) -> str:
        """The line that shows the category, with the name of its source in front."""
        return self.said if self.source is None else f"{self.source}: {self.said}"


Texts = Sequence[tuple[str, str]]
"""Texts, each with the name of its source."""


Clue = tuple[p.Category, re.Pattern[str]]
"""A category, and the pattern of text that indicates it."""


def _clue(category: p.Category, *words: str) -> Clue:
    return category, re.compile("|".join(words), re.IGNORECASE)


#: Patterns of messages that show what ended a program from outside. The first pattern that matches
#: any line decides the category.
_ENDING: tuple[Clue, ...] = (
    _clue(
        "resource",
        *OUT_OF_MEMORY,
        *OUT_OF_TIME,
        r"no room is left on the file system",
        rf"{NO_ROOM_REPORTED.pattern}|CUDA_ERROR_OUT_OF_MEMORY",
    ),
    _clue(
        "scheduler",
        r"\b(sbatch|squeue|qsub|bsub|srun|slurmstepd): error|slurm_(submit|load)",
        r"preempt|node failure",
        r"invalid (partition|account|qos)|unable to contact slurm|CANCELLED AT",
        r"authentication failed|connection (refused|reset|timed out)|no route to host",
        r"connection check failed|could not resolve hostname",
    ),
)
#: Patterns of messages that a program prints about its own failure. The first pattern that matches
#: decides.
_SAYING: tuple[Clue, ...] = (
    _clue(
        "software",
        r"command not found|\b(ModuleNotFound|Import)Error\b|error while loading shared libraries",
        r"segmentation fault|illegal instruction|symbol lookup error|permission denied",
        r"floating point exception|\b(Attribute|Name|Syntax|Indentation)Error\b|core dumped",
    ),
    _clue(
        "input",
        r"\bFileNotFoundError\b|no such file or directory|cannot open (input|file)|can't open file",
        r"\b(JSONDecode|Unicode|Key|Value)Error\b|parse error",
        r"invalid (input|argument|value|option)",
        r"ERROR: (unknown|illegal|invalid|incorrect|unexpected|did not find)|unrecognized",
        r"unknown (command|keyword|option)|not a valid",
    ),
    _clue("software", r"\bTraceback\b|\bERROR\b|\babort", r"\b\w+(Error|Exception)\b"),
)

#: Exit codes with only one possible meaning. Codes above 128 are 128 plus the number of the signal
#: that ended a program.
_EXITS: dict[int, tuple[p.Category, str]] = {
    126: ("software", "a program that cannot be executed"),
    127: ("software", "a program that was not found"),
    132: ("software", "an illegal instruction"),
    134: ("software", "the program gave up (SIGABRT)"),
    135: ("software", "a bus error"),
    136: ("software", "an arithmetic error (SIGFPE)"),
    137: ("resource", "killed (SIGKILL), often because memory ran out"),
    139: ("software", "a segmentation fault"),
    152: ("resource", "the limit of processor time"),
    153: ("resource", "the limit of a file's size"),
}

#: Advice for a job that had too little of a resource.
_MORE: dict[str, str] = {
    "memory": "propose more memory in resources.memory_gb by an amendment, then retry",
    "time": "propose a higher resources.time_limit or time_limit by an amendment, then retry",
}
#: Advice for a job that completed but whose results failed the check.
_FAILED_CHECK = (
    "a retry would give the same results. Propose other parameters in an amendment. If no "
    "parameters can meet the criterion, record this result with `wfctl note` and let a person "
    "decide"
)

_NEXT: dict[p.Category, str] = {
    "input": "correct the input script or file, then retry; change parameters by an amendment",
    "resource": (
        "propose a higher limit in resources or resource_overrides by an amendment, then retry"
    ),
    "scheduler": "check the scheduler and the connection, then retry",
    "missing_output": "find out why the program did not write the file, correct it, then retry",
    "software": "correct the program or its environment, then retry",
    "unknown": "read the files log and err of the stage; a diagnostic run downloads them",
}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The known facts about a failed attempt.

    ``jobs`` contains one line about the end of each job. ``remote`` is the folder in which the jobs
    worked.
    """

    category: p.Category
    because: str
    jobs: tuple[str, ...] = ()
    remote: str | None = None
    #: Whether output of the jobs is available on this machine.
    has_output: bool = True
    #: The line that shows the cause of the failure, or None if no other text contains more than the
    #: ends of the jobs.
    cause: str | None = None
    #: The last lines of the output of the job. A whole traceback is included if it is not too long.
    output: str | None = None
    #: For a sweep, one line for each failed task, with its cause and its folder.
    tasks: tuple[str, ...] = ()
    #: Whether the job completed but its results failed the check.
    failed_check: bool = False

    @property
    def short_of(self) -> p.Shortage | None:
        """The resource whose shortage ended the attempt, or None."""
        return find_shortage(self.because) if self.category == "resource" else None

    @property
    def advice(self) -> str:
        """The next step that is recommended to the user."""
        if self.failed_check:
            return _FAILED_CHECK
        return _MORE.get(self.short_of or "") or _NEXT[self.category]

    def to_dict(self) -> dict[str, Any]:
        """Return the diagnosis as plain JSON values, with the advice."""
        found = {**asdict(self), "advice": self.advice}
        return found | {"jobs": list(self.jobs), "tasks": list(self.tasks)}


def diagnose(
    attempt: AttemptPaths, evidence: Evidence | None, verdict: str | None, *, by_hand: bool = False
) -> Diagnosis:
    """Diagnose an attempt from its evidence, its verdict and its files.

    ``by_hand`` states that a person launched the attempt. Its output is then in the folders of
    DPDispatcher.
    """
    jobs = evidence.jobs if evidence is not None else ()
    far = evidence.far if evidence is not None else None
    copies = evidence.copies if evidence is not None else ()
    written = (
        traces.iterate_manual_output_ends(attempt, copies, jobs)
        if by_hand
        else traces.iterate_output_ends(attempt)
    )
    outputs = [*(("err", text) for text in (far.errors if far else ())), *written]
    logged = (
        traces.read_manual_job_errors(attempt) if by_hand else traces.read_logged_error(attempt)
    )
    monitor = [("dpdispatcher.log", text) for text in logged]
    kind = _add_full_disk_cause(_classify_failure(jobs, outputs, monitor, verdict), attempt, jobs)
    # If wfctl's own check found missing software, its message explains the failure better than the
    # exit code.
    is_own = _find_missing_software(outputs) == kind
    ends = tuple(describe_job_end(job, explains_code=not is_own) for job in jobs)
    heard = [(name, text) for name, text in outputs if text.strip()]
    # Prefer the output that shows the cause, then any output of the job, then the output of the
    # monitor.
    told = [one for one in heard if one[0] == kind.source] or heard or monitor
    return Diagnosis(
        kind.category,
        kind.because,
        ends,
        traces.read_submission_facts(attempt).work_dir,
        bool(heard),
        None if kind.said == _NOTHING or any(kind.said in end for end in ends) else kind.said,
        told[0][1].strip() or None,
    )


def _add_full_disk_cause(
    kind: FailureKind, attempt: AttemptPaths, jobs: Sequence[ObservedJob]
) -> FailureKind:
    """Return the category of a failure, changed if a full disk caused the failure.

    The message then starts with the name of the full file system.
    """
    is_vague = bool(jobs) and kind.category in ("missing_output", "unknown")
    said = add_full_disk_name(kind.said, attempt, is_vague=is_vague)
    return kind if said == kind.said else kind._replace(category="resource", said=said)


def add_full_disk_name(words: str, attempt: AttemptPaths, *, is_vague: bool) -> str:
    """Return the message of a failure, extended if a full disk caused the failure.

    The name of the full file system then precedes the message. A disk is full if the message states
    this. If the message is vague, the cause is assumed if the disk of the job's folder has no free
    bytes.
    """
    if NO_ROOM_REPORTED.search(words):
        return f"{_describe_reported_full_disk(words, attempt)}: {words}"
    where = execution_host.load_execution_host(attempt)
    if is_vague and not where.is_far and has_no_free_bytes(Path(where.scratch)):
        return f"{describe_full_disk(Path(where.scratch))}: {words}"
    return words


#: Matches an absolute path in a message of a program.
_PATH = re.compile(r"(?<![\w./])/[^\s:'\"]+")


def _describe_reported_full_disk(line: str, attempt: AttemptPaths) -> str:
    """Return a message about the file system that was full when a message was printed.

    The file system is that of the path in the message, otherwise that of the job's folder. By now
    it may have free space again, and the job may have written to another file system. The text then
    states this.
    """
    where = execution_host.load_execution_host(attempt)
    if where.is_far:
        return describe_attempt_disk_full(attempt)
    named = _PATH.search(line)
    if named is not None:
        return describe_full_disk(Path(named[0]))
    if any(map(has_no_free_bytes, (Path(where.scratch), attempt.root))):
        return describe_attempt_disk_full(attempt)
    system = describe_file_system(Path(where.scratch))
    return f"a disk was full; the attempt's folder is on {system}"


def describe_attempt_disk_full(attempt: AttemptPaths) -> str:
    """Return a message that names the full file system to which the attempt writes."""
    where = execution_host.load_execution_host(attempt)
    if where.is_far:
        return (
            f"no room is left on the file system of {where.scratch}, on the machine where the "
            "jobs run"
        )
    return describe_full_disk(Path(where.scratch), attempt.root)


def classify_output_texts(texts: Texts) -> FailureKind:
    """Return the category of a failure for which only output texts are known."""
    return _classify_failure((), texts, (), None)


def classify_failed_checks(checks: Iterable[p.Check]) -> FailureKind:
    """Return the category of a failed verification, with the message of a failed check."""
    broken = [check for check in checks if not check.passed]
    absent = (" exists", " is not empty", " is newer than the launch")
    for check in broken:
        if check.name.endswith(absent):
            return FailureKind("missing_output", check.detail, check.name)
    return FailureKind("unknown", "; ".join(map(format_failed_check, broken)))


def format_failed_check(check: p.Check) -> str:
    """Return the name and the message of a failed check in one line."""
    return f"{check.name}: {find_cause(check.detail) or check.detail}"


def describe_job_end(job: ObservedJob, *, explains_code: bool = True) -> str:
    """Return one line about the end of a job.

    It contains the exit code from the job's own record and the state from its scheduler.
    """
    code = job.shown_exit_code
    signal = f", {_EXITS[code][1]}" if explains_code and code in _EXITS else ""
    told = "left no exit code" if code is None else f"exit code {code}{signal}"
    said = f", {job.queued} by its scheduler" if job.queued is not None else ""
    return f"{told} (job {job.id or 'with unknown id'}{said})"


def _classify_failure(
    jobs: Sequence[ObservedJob], written: Texts, monitor: Texts, verdict: str | None
) -> FailureKind:
    """Return the category of a failure.

    Messages that show what ended the program have priority over messages of the program itself.
    """
    if verdict == Situation.OUTPUT_MISSING:
        return FailureKind(
            "missing_output",
            "the job ended with exit code 0, but it did not write a file that wfctl must download",
        )
    # If neither an output nor an exit code of the job is known, only the monitor can show the
    # cause.
    is_told = any(text.strip() for _, text in written) or any(job.shown_exit_code for job in jobs)
    said = written if is_told else monitor
    # The job of a diagnostic run always exits with 0 and writes the exit codes of its commands to
    # its output.
    noted = [int(code) for _, text in written for code in CODE_LINE.findall(text)]
    codes = [*(job.shown_exit_code for job in jobs), *noted]
    found = (
        (_find_scheduler_refusal(monitor) if verdict in _UNSUBMITTED else None)
        or _classify_queue_state(jobs)
        or _classify_by_clues(_ENDING, [*written, *monitor])
        or _find_missing_software(written)
        or _classify_exit_code(code for code in codes if (code or 0) > SIGNALLED)
        or _find_stated_failure(monitor if verdict in _UNSUBMITTED else said)
        or _classify_by_clues(_SAYING, monitor if verdict in _UNSUBMITTED else written)
        or _classify_exit_code(codes)
    )
    if found is not None:
        return found
    if verdict == Situation.REJECTED:
        words = find_cause(*(text for _, text in monitor))
        why = f": {words}" if words is not None else ""
        return FailureKind("input", f"DPDispatcher refused the submission{why}")
    return _find_last_line_cause(said) or FailureKind("unknown", _NOTHING)


#: Verdicts on attempts of which no job was submitted. Only the monitor has printed messages.
_UNSUBMITTED = (Situation.REJECTED, Situation.LAUNCHED_IN_VAIN)


#: Text after which DPDispatcher repeats the stderr of a command in its own error message.
_REPEATED = "\nerror message:"


def _find_scheduler_refusal(monitor: Texts) -> FailureKind | None:
    """Return the failure that the scheduler printed when it refused a submission, or None."""
    for source, text in monitor:
        said = text.partition(_REPEATED)[2].strip()
        if said:
            line = said.splitlines()[0]
            of_scheduler = FailureKind(
                "scheduler", _extract_surrounding_line(line, len(line)), source
            )
            return _classify_by_clues(_ENDING, [(source, said)]) or of_scheduler
    return None


def _find_last_line_cause(written: Texts) -> FailureKind | None:
    """Return the last line of stderr, or of stdout if stderr is empty, as likely cause.

    Returns None if neither has a line.
    """
    for source, text in written:
        lines = [line for line in text.splitlines() if line.strip()]
        if lines:
            return FailureKind(
                "unknown", _extract_surrounding_line(lines[-1], len(lines[-1])), source
            )
    return None


def _classify_queue_state(jobs: Iterable[ObservedJob]) -> FailureKind | None:
    for word in (job.queued for job in jobs if job.queued in EXCEEDED | TAKEN):
        cause = "out of memory: " if word == "OUT_OF_MEMORY" else ""
        category: p.Category = "resource" if word in EXCEEDED else "scheduler"
        return FailureKind(category, f"{cause}its scheduler says {word}")
    return None


#: Matches the message that a job prints if a part of the software environment of its stage is
#: missing.
_OWN_CHECK = re.compile(rf"^{re.escape(LACKS)}(.+)$", re.MULTILINE)


def _find_missing_software(texts: Texts) -> FailureKind | None:
    """Return the failure if a job found software missing before its command started.

    Returns None otherwise.
    """
    found = ((source, _OWN_CHECK.search(text)) for source, text in texts)
    return next((FailureKind("software", hit[1], source) for source, hit in found if hit), None)


def _classify_by_clues(clues: Iterable[Clue], texts: Texts) -> FailureKind | None:
    for category, words in clues:
        for source, text in texts:
            for line in text.splitlines():
                if (hit := words.search(line)) is not None:
                    return FailureKind(category, _extract_surrounding_line(line, hit.end()), source)
    return None


def _find_stated_failure(texts: Texts) -> FailureKind | None:
    """Return the failure that a program itself states in its output, or None.

    The words of the line decide its category.
    """
    line = find_stated_cause(*(text for _, text in texts))
    if line is None:
        return None
    source = next(name for name, text in texts if find_stated_cause(text) == line)
    kinds = (category for category, words in _SAYING if words.search(line))
    return FailureKind(next(kinds, "software"), line, source)


#: Matches the prefix of a shell's error message that names the line in DPDispatcher's job script.
#: The user does not know that script, so the prefix is removed.
_PLACE = re.compile(r"^.*/(\.[0-9a-f]{40}\.sub(\.run)?|slurm_script): line \d+: ")


def _extract_surrounding_line(line: str, end: int) -> str:
    """Return the line around position ``end``, shortened if it is long.

    The prefix that names a job script of DPDispatcher is removed.
    """
    text = _PLACE.sub("", line).strip()
    end -= len(line) - len(text)
    return text if len(text) <= _WIDTH else f"… {text[max(0, end - _WIDTH) : end + 80].strip()}"


def _classify_exit_code(codes: Iterable[int | None]) -> FailureKind | None:
    return next((FailureKind(*_EXITS[code]) for code in codes if code in _EXITS), None)
