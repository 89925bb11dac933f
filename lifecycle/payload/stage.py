"""The data of events about stages and their attempts."""

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
from lifecycle.words.limits import MAX_COUNT, MAX_TASKS, find_task_range_problem

#: A set of numbers in compact form, such as 0-99,103.
Ranges = Annotated[str, string_constraints("ranges")]
Real = Annotated[float, Field(allow_inf_nan=False)]
Tasks = Annotated[int, Field(ge=0, le=MAX_TASKS)]
#: A resource that a plan requests for a stage.
Resource = Literal["memory_gb", "time_limit", "nodes", "cores"]
#: A shortage that can end an attempt.
Shortage = Literal["memory", "time"]


class StageReadied(StagePayload):
    """A stage may start. With ``reset``, its times and its ``retry_count`` are cleared."""

    reason: str = "dependencies met"
    reset: bool = False
    amendment: AmendmentId | None = None
    #: The resource of which the next attempt requests more, because the last attempt ended for want
    #: of resources.
    grown: Resource | None = None


class StagePrepared(StagePayload):
    """wfctl started to prepare the inputs of a stage."""

    detail: str | None = None


class FileDigest(PayloadPart):
    """A file when it was recorded: path relative to the root, size in bytes, SHA-256 in hex."""

    path: str
    size: Whole
    sha256: str


class JobEnvironment(PayloadPart):
    """The environment variables of an attempt's jobs, without secrets and user-specific values.

    ``sha256``, in hex, is the digest of all names and values. ``values`` contains the values that
    are not secret. ``python3`` is the path of the program with this name on the PATH.
    """

    names: list[str]
    sha256: str
    values: dict[str, str] = {}
    python3: str | None = None


class CodeVersion(PayloadPart):
    """The git commit (in hex) of an attempt's files, and the files that differ from the commit.

    ``files`` are files that the attempt runs or reads and that differ from the commit or are not
    part of it. ``dirty`` is set if there are such files, or if another file of the repository
    differs that is not written by a stage.
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
    #: Scripts that the plan runs, when the attempt started: path → SHA-256 in hex.
    scripts: dict[str, str] = {}
    #: A person launched the attempt by hand, as the published protocol describes. wfctl has no
    #: records of its own about it.
    taken_over: bool = False
    #: Files of an earlier attempt from which the job continues, at the paths where the job finds
    #: them, and the id of that attempt.
    carried: list[FileDigest] = []
    carried_from: AttemptId | None = None
    #: The environment of the jobs. None if they run on another machine.
    environment: JobEnvironment | None = None
    #: Python files next to a script, which the script could import: path → SHA-256 in hex.
    beside: dict[str, str] | None = None
    #: For a sweep: the number of tasks that the attempt computes.
    tasks: Annotated[int, Field(ge=0, le=MAX_TASKS)] | None = None
    #: None if the root is not in a git repository, or if git failed.
    code: CodeVersion | None = None
    #: The environment variables of the jobs: name → keyed digest of the value.
    variables: dict[str, str] = {}
    #: Identifier of the key of these digests. Digests with different keys are not comparable.
    variables_key: str | None = None
    #: The program that the command starts first, by its absolute path. None if the PATH has no such
    #: file.
    program: FileDigest | None = None
    #: The other programs that the command and the verify commands start.
    programs: list[FileDigest] = []
    #: The requested resources: memory in GB and cores per node, time limit in seconds, and nodes.
    requested: dict[str, Real] = {}


class FilesOfAttempt(PayloadPart):
    """The files of an attempt that wfctl did not launch.

    The digest is empty if the attempt has no submission file.
    """

    submission_sha256: str
    inputs: list[FileDigest]
    scripts: dict[str, str]


class FilesRecorded(Payload):
    """wfctl recorded the digests of the scripts that a new workflow runs.

    ``attempts`` contains, by stage, the files of an attempt that was running during the import.
    """

    scripts: dict[str, str] = {}
    attempts: dict[StageId, FilesOfAttempt] = {}


class StageLaunched(AttemptPayload):
    """The processes of the attempt are running.

    In the mode ``sync`` the stage keeps the status preparing and is never shown as running.
    ``again`` means that an earlier event recorded the launch, and that the ids of the jobs became
    known or changed since then.
    """

    mode: Literal["sync", "tmux", "setsid"]
    session: str | None = None
    submission_hash: str | None = None
    job_ids: list[str] = []
    #: The temporary folder in which the jobs work, on the machine where they run.
    work_dir: str | None = None
    host: str | None = None
    boot_id: str | None = None
    #: The machine to which the jobs were submitted, if the monitor runs on another machine.
    job_host: str | None = None
    job_boot_id: str | None = None
    dpdispatcher_version: str | None = None
    again: bool = False  # decided


class StageComputed(AttemptPayload):
    """The computation ended with exit code 0."""

    exit_code: Whole
    detail: str | None = None
    facts: Document = {}
    #: Resources that the jobs used: cpu_seconds, peak_memory_bytes, written_bytes. Unknown values
    #: are missing.
    resources: dict[str, Real] = {}


class ClaimOverruled(AttemptPayload):
    """A person upheld a claim about an attempt against the evidence, with a proof of consent.

    ``claim`` is ``computed`` (the computation succeeded) or ``over`` (the attempt has ended).
    ``verdict`` is the conclusion from the evidence.
    """

    claim: Literal["computed", "over"]
    verdict: Text
    reason: Text
    approved_by: str = "user"
    proof: Document = {}


class Check(PayloadPart):
    """One check of the results of a stage, with its outcome."""

    name: str
    passed: bool
    detail: str = ""
    #: Observations that do not fail the check, such as warnings in a log file.
    findings: list[str] = []


class RestsOn(PayloadPart):
    """The grounds of a result: digests and events from which the result was obtained.

    ``attempt`` is the hash of the event that started the attempt. ``approvals`` has the hashes of
    the approvals of the plan and of each amendment that affects the stage. ``definition`` is the
    SHA-256 of the stage's definition, and ``tasks`` that of the task record of a sweep. ``round``
    is the number of the round if the stage is in a loop.
    """

    attempt: str | None = None
    definition: str
    approvals: dict[str, str] = {}
    tasks: str | None = None
    round: Whole | None = None


class MeasuredNumber(PayloadPart):
    """A metric of a stage, with the value that was read from one of its output files.

    ``path`` is relative to the root, ``pointer`` is the place of the value in the file, and
    ``error`` is the standard error. For a sweep, the value is that of the best task, and ``task``
    is its key.
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
    #: Files used by the verification that differ from the start of the attempt: path → SHA-256 in
    #: hex, or ``missing``.
    check_files: dict[str, str] = {}


#: The kind of failure, as far as the evidence shows it.
Category = Literal["input", "resource", "scheduler", "missing_output", "software", "unknown"]


class StageFailed(StagePayload):
    """The stage failed. The field ``error`` contains the cause, in one line.

    ``output`` is the recorded output that contains this line, such as a traceback. ``category`` and
    ``because`` are a diagnosis: the kind of failure, and the line that shows it. They are None if
    no diagnosis was made. ``stop`` requests that the attempt's processes and jobs are ended;
    `AttemptStopped` records when this is done. ``outputs`` are outputs that failed a check, and
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
    #: See `StageComputed`.
    resources: dict[str, Real] = {}
    output: str | None = None
    #: See `StageCompleted`.
    check_files: dict[str, str] = {}
    #: The resource whose shortage ended the attempt, as far as the evidence shows it.
    short_of: Shortage | None = None


class StageRetried(StagePayload):
    """A failed stage may run again after a fix."""

    fix: Text
    retry: Annotated[int, Field(ge=1, lt=MAX_COUNT)] | None = (
        None  # decided: the stage's count, this one included
    )
    regenerate: bool = False
    #: Finished tasks of a sweep stay valid although their input files have changed.
    failed_only: bool = False
    #: The person who decided to keep the finished tasks, and the proof of consent.
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

    ``waiting`` is the reason why the attempt does not continue. It is None if the attempt continues
    or the reason is unknown.
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

    ``ended`` lists the processes and jobs that were ended.
    """

    ended: list[str]
    reason: Text


class FailedTask(PayloadPart):
    """A failed task of a sweep: its key, its exit code, and the cause in one line."""

    key: str
    exit_code: Whole | None = None
    because: str = ""


class LateFile(PayloadPart):
    """An output file that was written after its task had ended. ``seconds`` is the delay."""

    path: str
    seconds: Whole


class TasksObserved(AttemptPayload):
    """The states of a sweep's tasks at one moment. The first task has the number 0.

    Tasks that earlier attempts finished with the same definition are included in ``done``.
    ``points`` is the digest of the keys of all tasks, in order. ``ended`` is the number of tasks
    that ended in this attempt, successfully or not. ``failures`` lists the first failed tasks of
    this attempt.

    ``record`` is the file that lists every task of an ended attempt. ``journals`` are the files in
    which tasks record their ends. ``edited`` names the journals whose earlier contents changed.
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
        why = find_task_range_problem(self.__dict__)
        if why is not None:
            raise PydanticCustomError("places", "{why}", {"why": why})
        return self


class LeftFile(PayloadPart):
    """A file that an attempt wrote. ``path`` is the place where its job wrote it.

    ``at`` is the place of the file now, if it was moved. For a symbolic link, ``link`` is its
    target, the size is 0, and the digest is that of the target's path.
    """

    path: str
    size: Whole
    sha256: str
    at: str | None = None
    link: str | None = None


class AttemptLeft(AttemptPayload):
    """A list of the files that an attempt wrote in addition to the outputs of its stage.

    ``exchanged`` are scripts and modules that were replaced, removed or hidden by new files when
    the job ended; the job may have run these new files. ``more`` is the number of files that are
    not listed here, and the file ``record`` lists all. ``host`` is the machine with the files that
    were not downloaded; their ``at`` is an absolute path on that machine.
    """

    files: list[LeftFile]
    more: Whole = 0
    record: FileDigest | None = None
    host: str | None = None
    exchanged: list[str] = []


class LeftoversFreed(AttemptPayload):
    """Leftover files of an earlier attempt will be deleted. wfctl records this event first.

    ``paths`` are the deleted files and folders, and ``more`` is the number of those not listed.
    ``files`` are files that the job wrote, at their original paths. ``size`` is in bytes.
    """

    paths: list[str]
    more: Whole = 0
    files: list[str] = []
    size: Whole


class OutputsRecorded(StagePayload):
    """The stage's list of output paths, relative to the root.

    ``found`` means that the plan declares no outputs, and wfctl detected the files that an attempt
    wrote.
    """

    outputs: list[str]
    found: bool = False


class ChangedFile(PayloadPart):
    """A result file that no longer matches its record.

    Size and digest are those of the current file.
    """

    path: str
    kind: Literal["changed", "missing"]
    size: Whole | None = None
    sha256: str | None = None


class ResultsChanged(StagePayload):
    """Results of a completed stage differ from the digests in the log.

    ``files`` lists all such files. It is empty if every file matches its digest again.
    """

    files: list[ChangedFile]


class ResultsAdopted(StagePayload):
    """A person accepted changed results of a completed stage.

    ``deleted`` lists results that were deleted. Their recorded digests stay valid.
    """

    outputs: list[FileDigest]
    deleted: list[FileDigest] = []
    #: All metrics of the stage with their present values.
    metrics: list[MeasuredNumber] = []
    reason: Text
    #: The person who agreed, and the proof of consent. Events of early versions have neither.
    approved_by: str | None = None
    proof: Document = {}
    rests_on: RestsOn | None = None  # decided


class OutputsReused(AttemptPayload):
    """wfctl restored the outputs of an earlier attempt instead of computing them again.

    ``outputs`` are the verified results of that attempt. ``inputs`` are the current input files,
    which equal those that the attempt used.
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
