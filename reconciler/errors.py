"""The errors of the reconciler.

ReconcilerError
├── of a submission     InvalidSubmission, UnusableSubmission, InlineSecret, RejectedSubmission,
│                       UnusableProfile, UnusablePath, LinkedStageFolder,
│                       MissingInput, EmptyInput, UnusableLink
├── of an attempt       DamagedAttempt, UnusableName, LaunchFailed, AlreadyMonitored
├── of its machine      MachineFileMissing, MachineUnreachable (MachineRefused), ProgramMissing
├── of a loop, a runner AlreadyDriven, AlreadyAutonomous, NoRunner, RunnerFailed, AgentMissing,
│                       AgentNotStarted, EnvironmentNotReady
├── of a round          UnreadablePoints (control/rounds.py)
└── KeptFolderTaken     in the module that raises it, like those below (files/kept_folder.py)

Subclasses of Refused
├── NoStageCommand, TooMuchBeside (files/described_submission.py)
├── NothingToReuse (verification/reuse.py)
├── NotComputableAgain, CheckNotPrepared (verification/recompute.py)
├── ChangedMap, UnfitMap (sweep/map_points.py), NoDiagnosticRun (control/dispatch.py)
├── ClaimDenied (control/claims.py), NotStopped (control/stop_jobs.py)
└── UnloggedAttemptRunning (control/judge_attempts.py)

Subclasses of NeedsConsent
├── SubmissionDrift, SubmissionChanged (submission/compare_submission.py)
├── ScriptsChanged, ScriptsUnknown, VerdictChanged (files/script_consent.py)
└── ChangedResult, InputsChanged, StaleStages (files/freshness.py)

Each carries a stable ``code``, its ``message``, and its values in ``data``.
"""

from __future__ import annotations

from pathlib import Path

from eventstore.disk_space import describe_os_error
from wording import TemplatedError


class ReconcilerError(TemplatedError):
    """Base class of the errors about jobs.

    Each error has a stable ``code``, a ``message`` for the user and values in ``data``.
    """

    code = "reconciler_error"


def format_error_message(error: Exception, root: Path) -> str:
    """Return the message of an error for the user.

    For an `OSError`, the message names the cause, such as a full disk.
    """
    if isinstance(error, OSError):
        from tempfile import gettempdir  # few commands need it

        return describe_os_error(error, root, Path(gettempdir()))
    return str(getattr(error, "message", error))


class InvalidSubmission(ReconcilerError):
    """The submission file is not a JSON object."""

    code = "invalid_submission"
    text = (
        "{path}{_place}: not a JSON object that DPDispatcher can read: {why}. Correct the "
        "file, or remove it: wfctl then builds it from the stage's parameters."
    )
    untold = ("why",)
    path: Path
    why: str
    line: int | None = None
    column: int | None = None

    @property
    def _place(self) -> str:
        return f", line {self.line}, column {self.column}" if self.line is not None else ""


class UnusableSubmission(ReconcilerError):
    """DPDispatcher cannot run the submission."""

    code = "unusable_submission"
    text = "in the submission, {field} must be {expected}, but it is {found!r}. {remedy}"
    untold = ("remedy",)
    field: str
    expected: str
    found: object
    remedy: str


class InlineSecret(ReconcilerError):
    """A submission contains a secret. The message does not show its value."""

    code = "inline_secret"
    text = (
        "the field {field} of the submission contains a secret, and every attempt would "
        "store a copy of the secret. Move the machine settings into a separate file and refer to "
        'that file by {{"$ref": path}}, or by config_path in the backend profile.'
    )
    field: str


class MachineFileMissing(ReconcilerError):
    """The machine file does not exist."""

    code = "machine_file_missing"
    text = (
        "the machine file {path} of the stage {stage} is missing. Create the file, or correct "
        "config_path in the backend profile, which names the file."
    )
    stage: str
    path: Path


class DamagedAttempt(ReconcilerError):
    """A file of an attempt is damaged and has no copy."""

    code = "damaged_attempt"
    text = (
        "{path}: {why}. Restore the file. If that is impossible, record how the stage ended: "
        "`wfctl stage compute {stage}` if its results exist, else `wfctl stage fail {stage} "
        "--error TEXT`."
    )
    untold = ("why",)
    stage: str
    path: Path
    why: str


class MachineUnreachable(ReconcilerError):
    """The machine does not answer. ``data["reason"]`` contains the cause."""

    code = "machine_unreachable"
    text = (
        "the machine that runs the job does not answer: {reason}. Nothing was changed. Check "
        "the machine and the connection, then try again."
    )
    reason: str


class MachineRefused(MachineUnreachable):
    """The machine refuses the connection until a person corrects the settings.

    The cause is in the machine file or in the key. ``is_unknown_host`` is true if the host name
    cannot be resolved, which may also be caused by a network failure.
    """

    code = "machine_refused"
    text = (
        "the machine that runs the job refuses the connection: {reason}. Nothing was "
        "changed. Correct the connection settings or the key, then try again."
    )
    untold = ("is_unknown_host",)
    is_unknown_host: bool = False


class UnusableProfile(ReconcilerError):
    """The backend profile is not valid for a job."""

    code = "unusable_profile"
    text = (
        "in the backend profile, {field} must be {expected}, but it is {found!r}. "
        "Correct the profile in the plan, or prepare the stage's submission.json by hand."
    )
    field: str
    expected: str
    found: object


class UnusablePath(ReconcilerError):
    """A path of a stage cannot be used.

    It is absolute, leads out of the root, or a job cannot write to it.
    """

    code = "unusable_path"
    text = (
        "the field {field} of the stage {stage} contains {path!r}, but must contain {expected}. "
        "Correct {field} of the stage."
    )
    untold = ("expected",)
    stage: str
    field: str
    path: str
    expected: str


class LinkedStageFolder(ReconcilerError):
    """The stage's folder is a symbolic link to a place outside the root."""

    code = "linked_stage_folder"
    text = (
        "the folder of the stage {stage} is a symbolic link to {target}, but it must be a folder "
        "below the root. Replace the link by a folder. To run jobs in scratch space, set "
        "remote_root in the config of the stage's backend profile."
    )
    stage: str
    target: str


class RejectedSubmission(ReconcilerError):
    """DPDispatcher rejected the submission. ``data["output"]`` contains its message."""

    code = "rejected_submission"
    text = (
        "{path}: `dargs check` rejects the submission: {output}. Correct the stage's "
        "parameters, resource_overrides or the prepared submission.json."
    )
    path: Path
    output: str


def is_fault_of_plan(error: Exception) -> bool:
    """Return whether an error names a field of the plan or of a profile as its cause."""
    if isinstance(error, UnusableSubmission):
        return error.field.startswith("resources.")
    return isinstance(error, UnusableProfile | UnusablePath | RejectedSubmission)


class MissingInput(ReconcilerError):
    """An input of the stage does not exist."""

    code = "missing_input"
    text = (
        "the input {path} does not exist. An input must be a file or a folder below the workflow "
        "root. Create it, or correct the stage's inputs."
    )
    path: str


class EmptyInput(ReconcilerError):
    """An input of the stage is empty."""

    code = "empty_input"
    text = "the input {path} is empty. Create it again with content, or correct the stage's inputs."
    path: str


class UnusableLink(ReconcilerError):
    """wfctl cannot copy a symbolic link in a folder that the job needs."""

    code = "unusable_link"
    text = (
        "the link {link} {why}, so its folder cannot be copied for the job. Either remove the "
        "link, or name what the job needs of its target in the stage's inputs."
    )
    untold = ("why",)
    link: str
    why: str


class ProgramMissing(ReconcilerError):
    """A program that jobs need is not installed."""

    code = "program_missing"
    text = "the program {program} was not found in these places: {looked:, }. {remedy}"
    untold = ("remedy",)
    program: str
    looked: tuple[str, ...]
    remedy: str


class AlreadyMonitored(ReconcilerError):
    """Another monitor already watches the job of this stage. wfctl started nothing."""

    code = "already_monitored"
    text = (
        "a monitor is already watching the stage {stage} (the monitor holds the lock {lock}). "
        "Nothing was started. Run "
        "`wfctl wait {stage}` to wait for the stage."
    )
    stage: str
    lock: Path


class AlreadyDriven(ReconcilerError):
    """Another `wfctl run` already runs this workflow. Nothing was done."""

    code = "already_driven"
    text = (
        "another run of this workflow is active (it holds the lock {lock}). Wait until "
        "that run ends (`wfctl events --follow` shows its progress), or stop it and try again."
    )
    lock: Path


class AlreadyAutonomous(ReconcilerError):
    """Another background runner already runs this workflow. Nothing was started."""

    code = "already_autonomous"
    text = (
        "another autonomous runner is already running this workflow (it holds {lock}). "
        "To see how to watch the runner, run `wfctl runner show`. To end the runner, run `wfctl "
        "runner stop`."
    )
    lock: Path


class NoRunner(ReconcilerError):
    """No background runner runs this workflow."""

    code = "no_runner"
    text = "no autonomous runner is running in {root}. Start one with `wfctl run --autonomous`."
    root: Path


class RunnerFailed(ReconcilerError):
    """The background runner did not start or stop within the time limit."""

    code = "runner_failed"
    text = (
        "the autonomous runner did not react within {seconds:g} s. To find the cause, check "
        "{where}."
    )
    where: str
    seconds: float


class AgentMissing(ReconcilerError):
    """The program of the agent is not installed, so wfctl started nothing."""

    code = "agent_missing"
    text = (
        "the option --agent must name a program by its path or a program on PATH, but it names "
        "{command!r}. Nothing was started."
    )
    command: str


class AgentNotStarted(ReconcilerError):
    """The system cannot execute the program of the agent. No agent was started."""

    code = "agent_not_started"
    text = (
        "the agent {program} could not be started: {why}. Check that the file is an "
        "executable program, or a script whose first line names its interpreter (such as "
        "#!/bin/sh), and try again."
    )
    program: str
    why: str


class EnvironmentNotReady(ReconcilerError):
    """The script ``init.sh`` of the root exited with an error. Nothing was started."""

    code = "environment_not_ready"
    text = (
        "the script {script} ended with exit code {exit_code} instead of 0. Nothing was started. "
        "The full output is in {kept}, and the last lines are:\n{output}\nCorrect the environment "
        "and try again."
    )
    script: str
    exit_code: int
    output: str
    kept: str


class LaunchFailed(ReconcilerError):
    """The monitor of a job exited before it started its work.

    ``data["output"]`` contains its output.
    """

    code = "launch_failed"
    text = (
        "{stage}: the monitor did not start{_ended}; {_said}\nCorrect the cause, then run "
        "`wfctl rehydrate` to see the next step."
    )
    stage: str
    exit_code: int | None
    output: str

    @property
    def _ended(self) -> str:
        return "" if self.exit_code is None else f" (exit code {self.exit_code})"

    @property
    def _said(self) -> str:
        if self.output:
            return f"it printed:\n{self.output}"
        return (
            "it printed nothing: the system or a person killed it (for example by a limit of "
            "memory or processes), or the machine is overloaded."
        )


class UnusableName(ReconcilerError):
    """The id of a stage or an attempt cannot be used as the name of a folder."""

    code = "unusable_name"
    text = (
        "the ids of the stage and the attempt are {name!r:.120}, which cannot be the name of a "
        "folder. Run `wfctl fsck` to check the log."
    )
    name: str
