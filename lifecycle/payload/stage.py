"""The data of the events of stages and their attempts."""

from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator
from pydantic_core import PydanticCustomError

from lifecycle.payload.base import (
    AmendmentId,
    AttemptId,
    AttemptPayload,
    Document,
    Payload,
    PayloadPart,
    StageId,
    StagePayload,
    Text,
    Whole,
    string_constraints,
)
from lifecycle.words.values import MAX_COUNT, MAX_TASKS, find_misplaced_task

#: Numbers in few letters, such as 0-99,103.
Ranges = Annotated[str, string_constraints("ranges")]
Real = Annotated[float, Field(allow_inf_nan=False)]
Tasks = Annotated[int, Field(ge=0, le=MAX_TASKS)]


class StageReadied(StagePayload):
    """A stage may start. With ``reset``, its times and its ``retry_count`` are cleared."""

    reason: str = "dependencies met"
    reset: bool = False
    amendment: AmendmentId | None = None


class StagePrepared(StagePayload):
    """wfctl started to prepare the inputs of a stage."""

    detail: str | None = None


class FileDigest(PayloadPart):
    """A file as it was: path relative to the root, size in bytes, SHA-256 in hex."""

    path: str
    size: Whole
    sha256: str


class JobEnvironment(PayloadPart):
    """The environment of an attempt's jobs, without what may be secret or is of one login alone.

    ``sha256``, in hex, is of all names and values; ``values`` are those that hold no secret,
    ``python3`` is the program of that name on its PATH.
    """

    names: list[str]
    sha256: str
    values: dict[str, str] = {}
    python3: str | None = None


class CodeVersion(PayloadPart):
    """The commit of git, in hex, that an attempt's files are of, and whether they are as it says.

    ``files`` are those that it runs or reads and that are others, or are not in the commit;
    ``dirty``: there is one, or another file of the repository differs that no stage makes.
    """

    commit: str
    dirty: bool
    files: list[str] = []


class AttemptStarted(StagePayload):
    """An attempt of a stage starts. wfctl records this event before it starts any process."""

    attempt: AttemptId | None = None  # decided: the next number of the stage
    mode: Literal["sync", "tmux", "setsid"]
    root: str
    work_dir: str
    submission: str
    submission_sha256: str
    wrapper: str
    session: str | None = None
    host: str | None = None
    boot_id: str | None = None
    inputs: list[FileDigest] = []
    diagnostic: bool = False
    recovers: AttemptId | None = None
    #: Files that the definition runs, as they were then: path → SHA-256 in hex.
    scripts: dict[str, str] = {}
    #: Somebody launched it by hand, as the published protocol says; it has no records of ours.
    taken_over: bool = False
    #: Files that it goes on from, where the job finds them, and the attempt that left them.
    carried: list[FileDigest] = []
    carried_from: AttemptId | None = None
    #: What its jobs are given here; nothing if they run on another machine.
    environment: JobEnvironment | None = None
    #: Python files that a script would import by their place: path → SHA-256 in hex.
    beside: dict[str, str] | None = None
    #: Of a sweep: how many tasks it is to compute.
    tasks: Annotated[int, Field(ge=0, le=MAX_TASKS)] | None = None
    #: Nothing if the root is in no repository of git, or git did not say.
    code: CodeVersion | None = None
    #: The variables of its jobs: name → keyed digest of the value.
    variables: dict[str, str] = {}
    #: What identifies the key of these digests; digests of other keys are not comparable.
    variables_key: str | None = None
    #: The first program of the command, by its absolute path; None if PATH has no such file.
    program: FileDigest | None = None
    #: The other programs that the command and the verify commands start.
    programs: list[FileDigest] = []


class FilesOfAttempt(PayloadPart):
    """What an attempt of somebody else's launch rests on; no digest without a submission."""

    submission_sha256: str
    inputs: list[FileDigest]
    scripts: dict[str, str]


class FilesRecorded(Payload):
    """wfctl recorded the digests of the scripts that a new workflow runs.

    ``attempts``: by stage what the imported attempt under way rests on.
    """

    scripts: dict[str, str] = {}
    attempts: dict[StageId, FilesOfAttempt] = {}


class StageLaunched(AttemptPayload):
    """The processes of the attempt are running.

    A synchronous one leaves its stage preparing: such a stage never shows running. ``again``: it
    was recorded as launched before, and its jobs are others since, or known at last.
    """

    mode: Literal["sync", "tmux", "setsid"]
    session: str | None = None
    submission_hash: str | None = None
    job_ids: list[str] = []
    #: The scratch copy that the jobs work in, on the machine where they run.
    work_dir: str | None = None
    host: str | None = None
    boot_id: str | None = None
    #: Of the machine that the jobs were handed to, where that is another one than the monitor's.
    job_host: str | None = None
    job_boot_id: str | None = None
    dpdispatcher_version: str | None = None
    again: bool = False  # decided


class StageComputed(AttemptPayload):
    """The computation ended with exit code 0."""

    exit_code: Whole
    detail: str | None = None
    facts: Document = {}
    #: What its jobs used: cpu_seconds, peak_memory_bytes, written_bytes, as far as they told.
    resources: dict[str, Real] = {}


class ClaimOverruled(AttemptPayload):
    """A person upheld a claim about an attempt against the evidence, with a proof of consent.

    ``claim``: that it is ``computed`` well, or that it is ``over``. ``verdict`` is what was found.
    """

    claim: Literal["computed", "over"]
    verdict: Text
    reason: Text
    approved_by: str = "user"
    proof: Document = {}


class Check(PayloadPart):
    """One check of a verification and what it found."""

    name: str
    passed: bool
    detail: str = ""
    #: What was seen on the way and is no reason to fail, such as warnings in a log.
    findings: list[str] = []


class RestsOn(PayloadPart):
    """What a result rests on, by SHA-256 in hex: so one event leads to all of it.

    ``attempt`` is the event that started it, ``approvals`` those of the plan and of each amendment
    that the stage has to do with; ``definition`` is the stage's, ``tasks`` the record of a sweep.
    ``round`` is the number of the round if the stage is in a loop.
    """

    attempt: str | None = None
    definition: str
    approvals: dict[str, str] = {}
    tasks: str | None = None
    round: Whole | None = None


class MeasuredNumber(PayloadPart):
    """A number that a stage was asked for, as it was read from a file of its outputs.

    ``path`` is relative to the root, ``pointer`` the place in it; ``error`` is its standard error.
    Of a sweep it is that of the best ``task``, by its key.
    """

    name: Text
    value: Real
    error: Real | None = None
    unit: str | None = None
    path: str
    pointer: str
    task: str | None = None


class StageCompleted(StagePayload):
    """The outputs were verified against the success criteria."""

    attempt: AttemptId | None = None
    detail: str | None = None
    checks: list[Check] = []
    evidence: Text | None = None
    judged_by: str | None = None
    outputs: list[FileDigest] = []
    metrics: list[MeasuredNumber] = []
    rests_on: RestsOn | None = None  # decided
    #: Files of the check that differ from those at the start of the attempt: path → SHA-256 in hex,
    #: or ``missing``.
    check_files: dict[str, str] = {}


#: What went wrong, as far as the evidence tells.
Category = Literal["input", "resource", "scheduler", "missing_output", "software", "unknown"]


class StageFailed(StagePayload):
    """The stage failed. The field ``error`` contains the cause, in one line.

    ``output`` is what the line was found in, whole as far as it was kept, such as a traceback.
    ``category`` and ``because`` are a diagnosis: what kind of failure the evidence shows, and the
    line that shows it. None if nobody looked. ``stop``: its attempt is to be ended where
    it runs; `AttemptStopped` says when it was. ``outputs`` are those that were checked and failed,
    ``metrics`` the numbers in them.
    """

    error: Text
    attempt: AttemptId | None = None
    exit_code: Whole | None = None
    checks: list[Check] = []
    superseded_by: AmendmentId | None = None
    category: Category | None = None
    because: str | None = None
    stop: bool = False
    outputs: list[FileDigest] = []
    metrics: list[MeasuredNumber] = []
    #: As in `StageComputed`.
    resources: dict[str, Real] = {}
    output: str | None = None
    #: As in `StageCompleted`.
    check_files: dict[str, str] = {}


class StageRetried(StagePayload):
    """A failed stage may run again after a fix."""

    fix: Text
    retry: Annotated[int, Field(ge=1, lt=MAX_COUNT)] | None = (
        None  # decided: the stage's count, this one included
    )
    regenerate: bool = False
    #: Finished tasks of a sweep still count although what they were computed from has changed.
    failed_only: bool = False
    #: The person who decided that, and the proof of the decision.
    approved_by: str | None = None
    proof: Document = {}


class StageInvalidated(StagePayload):
    """A completed stage became invalid because of an approved amendment."""

    amendment: AmendmentId
    reason: str | None = None


class StageSkipped(StagePayload):
    """A person decided that the stage is not needed."""

    amendment: AmendmentId
    reason: str | None = None


class StageBlocked(StagePayload):
    """A stage is blocked by a dependency that failed or was skipped."""

    dependency: StageId
    dependency_status: Literal["failed", "skipped"]


class AttemptObserved(AttemptPayload):
    """wfctl collected evidence about an attempt, and reached a verdict.

    ``waiting`` is why the attempt does not continue; None if it does, or if nothing tells.
    """

    row: Whole
    verdict: Text
    action: Text
    reason: str
    evidence: Document
    waiting: str | None = None


class AttemptRelaunched(AttemptPayload):
    """The monitor of an attempt was started again, but not the computation."""

    mode: Literal["sync", "tmux", "setsid"]
    session: str | None = None
    reason: str


class AttemptStopped(AttemptPayload):
    """An attempt ended, and none of its processes or jobs remains on the machine.

    ``ended`` names what was ended, ``reason`` says why.
    """

    ended: list[str]
    reason: Text


class FailedTask(PayloadPart):
    """A task of a sweep that failed: its key, its command's exit code, and why in a line."""

    key: str
    exit_code: Whole | None = None
    because: str = ""


class LateFile(PayloadPart):
    """An output of a task that was written so many seconds after its task had ended."""

    path: str
    seconds: Whole


class TasksObserved(AttemptPayload):
    """The states of a sweep's tasks at one moment. The first task has the number 0.

    What earlier attempts have done of the same definition counts. ``points`` is the digest of the
    keys that the places are of. ``ended`` tasks came to an end in this attempt, well or not.
    ``failures`` are the first of those that failed in it.
    ``record`` is the file that tells of every task of the attempt, once it is over. ``journals``
    are the files in which its tasks tell their ends, ``edited`` those that no longer begin as they
    were seen before.
    """

    total: Tasks
    points: str
    done: Ranges = ""
    failed: Ranges = ""
    lost: Ranges = ""
    running: Ranges = ""
    ended: Tasks = 0
    failures: list[FailedTask] = []
    record: FileDigest | None = None
    journals: list[FileDigest] = []
    edited: list[str] = []
    late: list[LateFile] = []

    @model_validator(mode="after")
    def _of_its_tasks(self) -> Self:
        why = find_misplaced_task(self.__dict__)
        if why is not None:
            raise PydanticCustomError("places", "{why}", {"why": why})
        return self


class LeftFile(PayloadPart):
    """A file that an attempt left: as `FileDigest`, at the ``path`` where its job wrote it.

    ``at`` is where it lies if that is elsewhere, ``link`` what it points to where it is a symbolic
    link, which has a size of 0 and the digest of that text.
    """

    path: str
    size: Whole
    sha256: str
    at: str | None = None
    link: str | None = None


class AttemptLeft(AttemptPayload):
    """A list of the files that an attempt wrote in addition to the outputs of its stage.

    ``exchanged`` are scripts and modules that the job may have run in place of those that were
    sent: their copies were replaced, removed or hidden by new files when the job ended.
    ``more`` files are not named here; ``record`` is the file that names all. ``host`` is where
    files lie that were not brought to this machine, each ``at`` an absolute path there.
    """

    files: list[LeftFile]
    more: Whole = 0
    record: FileDigest | None = None
    host: str | None = None
    exchanged: list[str] = []


class LeftoversFreed(AttemptPayload):
    """Leftover files of an earlier attempt will be deleted. wfctl records this event first.

    ``paths`` are removed, folders whole, ``more`` is how many are not named; ``files`` are what the
    job wrote, where it wrote them; ``size`` is in bytes.
    """

    paths: list[str]
    more: Whole = 0
    files: list[str] = []
    size: Whole


class OutputsRecorded(StagePayload):
    """The stage's list of output paths, relative to the root.

    ``found``: nobody declared them, and an attempt left them.
    """

    outputs: list[str]
    found: bool = False


class ChangedFile(PayloadPart):
    """A result that is no more as it was recorded; size and digest are of what lies there."""

    path: str
    kind: Literal["changed", "missing"]
    size: Whole | None = None
    sha256: str | None = None


class ResultsChanged(StagePayload):
    """Results of a completed stage differ from the digests in the log.

    ``files`` are all of them; none where all are as recorded again.
    """

    files: list[ChangedFile]


class ResultsAdopted(StagePayload):
    """A person accepted changed results of a completed stage.

    ``deleted`` are results that somebody deleted: their recorded digests stay valid.
    """

    outputs: list[FileDigest]
    deleted: list[FileDigest] = []
    #: All numbers of the stage, as they are now.
    metrics: list[MeasuredNumber] = []
    reason: Text
    #: Who agreed, and the proof of it; nothing in the events of a time that asked nobody.
    approved_by: str | None = None
    proof: Document = {}
    rests_on: RestsOn | None = None  # decided


class OutputsReused(AttemptPayload):
    """wfctl restored the outputs of an earlier attempt instead of computing them again.

    ``outputs`` are its results as they were verified then, and lie in place again. ``inputs`` is
    what a computation would start from now; it is what the attempt computed from.
    """

    outputs: list[FileDigest]
    inputs: list[FileDigest] = []


class OutputsArchived(StagePayload):
    """wfctl renamed the stage's folder to keep its files before the stage runs again."""

    kept_as: Annotated[str, string_constraints("kept")]
    amendment: AmendmentId | None = None


class CheckpointRecorded(StagePayload):
    """The point from which a long computation can continue."""

    checkpoint: JsonValue
