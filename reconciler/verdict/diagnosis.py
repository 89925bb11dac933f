"""A diagnosis: what kind of failure the traces of an attempt show, and the line that shows it.

Level 1 of the published convention: it reads what lies on this machine already and costs nothing.
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
from lifecycle.words.values import cause_of, stated_in
from reconciler.attempt import execution_host
from reconciler.attempt.observed import ObservedJob
from reconciler.attempt.paths import SIGNALLED, AttemptPaths
from reconciler.evidence.evidence import Evidence
from reconciler.host.program import EXCEEDED, TAKEN
from reconciler.records import traces
from reconciler.submission.build import CODE_LINE
from reconciler.submission.fields import LACKS
from reconciler.verdict.table import (
    Name,
)

_WIDTH = 200
_NOTHING = "nothing that was left says why"


class Kind(NamedTuple):
    """A category, and what shows it, with the name of the place that says so."""

    category: p.Category
    said: str
    source: str | None = None

    @property
    def because(self) -> str:
        """What shows it, behind the name of its place."""
        return self.said if self.source is None else f"{self.source}: {self.said}"


Texts = Sequence[tuple[str, str]]
"""What was written somewhere, each with the name of the place."""


Clue = tuple[p.Category, re.Pattern[str]]
"""A category, and the words by which it is known."""


def _clue(category: p.Category, *words: str) -> Clue:
    return category, re.compile("|".join(words), re.IGNORECASE)


#: Of each tuple the first clue that any line holds decides. What ended a program …
_ENDING: tuple[Clue, ...] = (
    _clue(
        "resource",
        r"out of memory|oom[- _]kill|cannot allocate memory|\bMemoryError\b|std::bad_alloc",
        r"due to time limit|time limit exceeded|walltime .*exceeded|exceeded .*memory limit",
        r"^(wfctl: )?ended by its time limit of \d+ s",
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
#: … and what it says of itself.
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

#: Exit codes of a shell and of ended programs (128 + the signal's number) that tell by themselves.
_EXITS: dict[int, tuple[p.Category, str]] = {
    126: ("software", "a program that cannot be executed"),
    127: ("software", "a program that was not found"),
    132: ("software", "an illegal instruction"),
    134: ("software", "the program gave up (SIGABRT)"),
    135: ("software", "a bus error"),
    136: ("software", "an arithmetic error (SIGFPE)"),
    137: ("resource", "killed (SIGKILL), as where memory runs out"),
    139: ("software", "a segmentation fault"),
    152: ("resource", "the limit of processor time"),
    153: ("resource", "the limit of a file's size"),
}

#: What shows that a job had too little memory, and the advice then.
_OF_MEMORY = re.compile(r"memory|\boom[- _]kill|bad_alloc|SIGKILL", re.IGNORECASE)
_MORE_MEMORY = "ask for more memory by an amendment of resource_overrides, then retry"

_NEXT: dict[p.Category, str] = {
    "input": "correct the input script or file, then retry; parameters change by an amendment",
    "resource": "ask for more by an amendment of resource_overrides or time_limit, then retry",
    "scheduler": "see to the scheduler or the connection, then retry",
    "missing_output": "see why the program did not write it; correct it, then retry",
    "software": "see to the program or its environment, then retry",
    "unknown": "look at log and err; a diagnostic run brings them back",
}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is known of a failure; ``jobs`` holds a line for each job, ``remote`` where they ran."""

    category: p.Category
    because: str
    jobs: tuple[str, ...] = ()
    remote: str | None = None
    #: Whether what the job wrote is here to be read.
    has_output: bool = True
    #: What went wrong, without the name of the place that tells it; None if nothing does.
    cause: str | None = None
    #: What the job wrote last, whole as far as it is looked through: a traceback.
    output: str | None = None
    #: Of a sweep: the tasks that failed, each with why, and where its files are.
    tasks: tuple[str, ...] = ()

    @property
    def advice(self) -> str:
        """What leads on."""
        if self.category == "resource" and _OF_MEMORY.search(self.because):
            return _MORE_MEMORY
        return _NEXT[self.category]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        found = {**asdict(self), "advice": self.advice}
        return found | {"jobs": list(self.jobs), "tasks": list(self.tasks)}


def diagnose(
    attempt: AttemptPaths, evidence: Evidence | None, verdict: str | None, *, by_hand: bool = False
) -> Diagnosis:
    """Return the diagnosis of an attempt by its evidence, the verdict on it, and its files.

    ``by_hand``: the attempt was launched by hand, and its files lie where DPDispatcher puts them.
    """
    jobs = evidence.jobs if evidence is not None else ()
    far = evidence.far if evidence is not None else None
    copies = evidence.copies if evidence is not None else ()
    written = traces.written_by_hand(attempt, copies, jobs) if by_hand else traces.written(attempt)
    outputs = [*(("err", text) for text in (far.errors if far else ())), *written]
    logged = traces.logged_by_hand(attempt) if by_hand else traces.logged(attempt)
    monitor = [("dpdispatcher.log", text) for text in logged]
    kind = _with_full_disk(_kind(jobs, outputs, monitor, verdict), attempt, jobs)
    # The exit code of wfctl's own check has no meaning beyond what the check printed.
    is_own = _by_own_check(outputs) == kind
    ends = tuple(line_of(job, explains_code=not is_own) for job in jobs)
    heard = [(name, text) for name, text in outputs if text.strip()]
    # Where the cause stands; else what says most.
    told = [one for one in heard if one[0] == kind.source] or heard or monitor
    return Diagnosis(
        kind.category,
        kind.because,
        ends,
        traces.facts(attempt).work_dir,
        bool(heard),
        None if kind.said == _NOTHING or any(kind.said in end for end in ends) else kind.said,
        told[0][1].strip() or None,
    )


def _with_full_disk(kind: Kind, attempt: AttemptPaths, jobs: Sequence[ObservedJob]) -> Kind:
    """Return the kind; if a full disk ended the job, with the name of the file system first."""
    is_vague = bool(jobs) and kind.category in ("missing_output", "unknown")
    said = with_full_disk(kind.said, attempt, is_vague=is_vague)
    return kind if said == kind.said else kind._replace(category="resource", said=said)


def with_full_disk(words: str, attempt: AttemptPaths, *, is_vague: bool) -> str:
    """Return the words on a failure; if a full disk is its cause, name the file system first.

    Words that are vague do not tell the cause: then the free bytes of the job's disk decide.
    """
    if NO_ROOM_REPORTED.search(words):
        return f"{_reported_full(words, attempt)}: {words}"
    where = execution_host.of(attempt)
    if is_vague and not where.is_far and has_no_free_bytes(Path(where.scratch)):
        return f"{describe_full_disk(Path(where.scratch))}: {words}"
    return words


#: An absolute path in a line that a program printed.
_PATH = re.compile(r"(?<![\w./])/[^\s:'\"]+")


def _reported_full(line: str, attempt: AttemptPaths) -> str:
    """Name the file system that a line reports as full: that of its path, or of the job's folder.

    Room may have been made since, and a job may write elsewhere.
    """
    where = execution_host.of(attempt)
    if where.is_far:
        return full_disk_of(attempt)
    named = _PATH.search(line)
    if named is not None:
        return describe_full_disk(Path(named[0]))
    if any(map(has_no_free_bytes, (Path(where.scratch), attempt.root))):
        return full_disk_of(attempt)
    system = describe_file_system(Path(where.scratch))
    return f"a disk was full; its folder is on {system}"


def full_disk_of(attempt: AttemptPaths) -> str:
    """Name the full file system that the attempt writes to."""
    where = execution_host.of(attempt)
    if where.is_far:
        return f"no room is left where its jobs run, on the file system of {where.scratch} there"
    return describe_full_disk(Path(where.scratch), attempt.root)


def of_texts(texts: Texts) -> Kind:
    """Return the kind of a failure of which nothing but words is known."""
    return _kind((), texts, (), None)


def of_checks(checks: Iterable[p.Check]) -> Kind:
    """Return the kind of a verification that failed, and the check that shows it."""
    broken = [check for check in checks if not check.passed]
    absent = (" exists", " is not empty", " is newer than the launch")
    for check in broken:
        if check.name.endswith(absent):
            return Kind("missing_output", check.detail, check.name)
    return Kind("unknown", "; ".join(map(in_words, broken)))


def in_words(check: p.Check) -> str:
    """Return what a check that failed says, on one line."""
    return f"{check.name}: {cause_of(check.detail) or check.detail}"


def line_of(job: ObservedJob, *, explains_code: bool = True) -> str:
    """Say of a job how it ended: its own word, and its scheduler's."""
    code = job.told_code
    signal = f", {_EXITS[code][1]}" if explains_code and code in _EXITS else ""
    told = "left no exit code" if code is None else f"exit code {code}{signal}"
    said = f", {job.queued} by its scheduler" if job.queued is not None else ""
    return f"{told} (job {job.id or 'of unknown id'}{said})"


def _kind(jobs: Sequence[ObservedJob], written: Texts, monitor: Texts, verdict: str | None) -> Kind:
    """Return the kind of a failure: what ended the program comes before what it says."""
    if verdict == Name.OUTPUT_MISSING:
        return Kind("missing_output", "the job ended well without a file that it is to bring back")
    # A command that ended badly and said nothing is told by its exit code: DPDispatcher counts it.
    is_told = any(text.strip() for _, text in written) or any(job.told_code for job in jobs)
    said = written if is_told else monitor
    # A diagnostic run wrote down the exit codes, its own being 0.
    noted = [int(code) for _, text in written for code in CODE_LINE.findall(text)]
    codes = [*(job.told_code for job in jobs), *noted]
    found = (
        (_by_refusal(monitor) if verdict in _UNSUBMITTED else None)
        or _by_queue(jobs)
        or _by_words(_ENDING, [*written, *monitor])
        or _by_own_check(written)
        or _by_exit(code for code in codes if (code or 0) > SIGNALLED)
        or _by_statement(monitor if verdict in _UNSUBMITTED else said)
        or _by_words(_SAYING, monitor if verdict in _UNSUBMITTED else written)
        or _by_exit(codes)
    )
    if found is not None:
        return found
    if verdict == Name.REJECTED:
        words = cause_of(*(text for _, text in monitor))
        why = f": {words}" if words is not None else ""
        return Kind("input", f"DPDispatcher refused the submission{why}")
    return _last_line(said) or Kind("unknown", _NOTHING)


#: The verdicts on an attempt whose monitor alone has printed anything.
_UNSUBMITTED = (Name.REJECTED, Name.LAUNCHED_IN_VAIN)


#: How DPDispatcher repeats what a command printed on stderr, in the message of its exception.
_REPEATED = "\nerror message:"


def _by_refusal(monitor: Texts) -> Kind | None:
    """Return what the scheduler's own command printed when it refused the submission."""
    for source, text in monitor:
        said = text.partition(_REPEATED)[2].strip()
        if said:
            line = said.splitlines()[0]
            of_scheduler = Kind("scheduler", _around(line, len(line)), source)
            return _by_words(_ENDING, [(source, said)]) or of_scheduler
    return None


def _last_line(written: Texts) -> Kind | None:
    """Return the last that was written on stderr, or else on stdout: it is near the cause."""
    for source, text in written:
        lines = [line for line in text.splitlines() if line.strip()]
        if lines:
            return Kind("unknown", _around(lines[-1], len(lines[-1])), source)
    return None


def _by_queue(jobs: Iterable[ObservedJob]) -> Kind | None:
    for word in (job.queued for job in jobs if job.queued in EXCEEDED | TAKEN):
        cause = "out of memory: " if word == "OUT_OF_MEMORY" else ""
        category: p.Category = "resource" if word in EXCEEDED else "scheduler"
        return Kind(category, f"{cause}its scheduler says {word}")
    return None


#: What a job of wfctl prints if the environment that its stage names is not there.
_OWN_CHECK = re.compile(rf"^{re.escape(LACKS)}(.+)$", re.MULTILINE)


def _by_own_check(texts: Texts) -> Kind | None:
    """Return what wfctl itself found missing before it started the command."""
    found = ((source, _OWN_CHECK.search(text)) for source, text in texts)
    return next((Kind("software", hit[1], source) for source, hit in found if hit), None)


def _by_words(clues: Iterable[Clue], texts: Texts) -> Kind | None:
    for category, words in clues:
        for source, text in texts:
            for line in text.splitlines():
                if (hit := words.search(line)) is not None:
                    return Kind(category, _around(line, hit.end()), source)
    return None


def _by_statement(texts: Texts) -> Kind | None:
    """Return what a program says itself of what went wrong; the line tells of which kind it is."""
    line = stated_in(*(text for _, text in texts))
    if line is None:
        return None
    source = next(name for name, text in texts if stated_in(text) == line)
    kinds = (category for category, words in _SAYING if words.search(line))
    return Kind(next(kinds, "software"), line, source)


def _around(line: str, end: int) -> str:
    """Return a line, of a long one what lies before and after the words."""
    text = line.strip()
    return text if len(text) <= _WIDTH else f"… {line[max(0, end - _WIDTH) : end + 80].strip()}"


def _by_exit(codes: Iterable[int | None]) -> Kind | None:
    return next((Kind(*_EXITS[code]) for code in codes if code in _EXITS), None)
