"""The errors of the job side.

ReconcilerError
├── of a submission     InvalidSubmission, UnusableSubmission, InlineSecret, RejectedSubmission,
│                       UnusableProfile, UnusablePath, LinkedStageFolder,
│                       MissingInput, EmptyInput
├── of an attempt       DamagedAttempt, UnusableName, LaunchFailed, AlreadyMonitored
├── of its machine      MachineFileMissing, MachineUnreachable (MachineRefused), ProgramMissing
├── of a loop, a runner AlreadyDriven, AlreadyAutonomous, NoRunner, RunnerFailed, AgentMissing,
│                       AgentNotStarted, EnvironmentNotReady
├── of a round          UnreadablePoints (control/rounds.py)
└── KeptFolderTaken     beside the code that raises it, as those that follow (files/clearing.py)

Refused, by the rules of the job side
├── NoStageCommand, TooMuchBeside (files/described.py), NothingToReuse (verification/reuse.py)
├── ChangedMap, UnfitMap (sweep/map_points.py), NoDiagnosticRun (control/dispatch.py)
└── ClaimDenied, NotStopped (control/stopping.py), StrangerAtWork (control/strangers.py)

NeedsConsent, of the rules
├── SubmissionDrift, SubmissionChanged (submission/agreed.py)
├── ScriptsChanged, VerdictChanged (files/described.py)
└── ChangedResult, InputsChanged, StaleStages (files/freshness.py)

Each carries a stable ``code``, its ``message``, and its values in ``data``.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import gettempdir

from eventstore.disk_space import reason_of
from wording import Worded


class ReconcilerError(Worded):
    """Base of what the job side raises: a stable ``code``, a ``message``, values in ``data``."""

    code = "reconciler_error"


def words_of(error: Exception, root: Path) -> str:
    """Return what an error says of a step in a workflow root."""
    if isinstance(error, OSError):
        return reason_of(error, root, Path(gettempdir()))
    return str(getattr(error, "message", error))


class InvalidSubmission(ReconcilerError):
    """A submission file that cannot be read as a JSON object."""

    code = "invalid_submission"
    text = (
        "{path}{_place}: expected a JSON object as DPDispatcher reads it, found: {why}. "
        "Correct the file, or remove it to have it built from the stage's parameters."
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
    """A submission that cannot be run as an attempt."""

    code = "unusable_submission"
    text = "submission: {field} must be {expected}, found {found!r}. {remedy}"
    untold = ("remedy",)
    field: str
    expected: str
    found: object
    remedy: str


class InlineSecret(ReconcilerError):
    """A secret that stands in a submission; its value is in no message."""

    code = "inline_secret"
    text = (
        "submission: {field} holds a secret, which would be copied with every attempt; "
        'expected none. Put the machine into a file of its own and name it: {{"$ref": path}}, '
        "or config_path in the backend profile."
    )
    field: str


class MachineFileMissing(ReconcilerError):
    """The file that describes a machine is not there."""

    code = "machine_file_missing"
    text = (
        "{stage}: the machine file {path} is missing; expected the file that config_path "
        "names. Put it there, or correct config_path in the backend profile."
    )
    stage: str
    path: Path


class DamagedAttempt(ReconcilerError):
    """A file of an attempt is not what it must be, and nothing is left to make it anew from."""

    code = "damaged_attempt"
    text = (
        "{path}: {why}. Put it back as it was; or record how the stage ended: `wfctl stage "
        "compute {stage}` where its results are in place, else `wfctl stage fail {stage} "
        "--error TEXT`."
    )
    untold = ("why",)
    stage: str
    path: Path
    why: str


class MachineUnreachable(ReconcilerError):
    """The machine of a job could not be asked; ``data["reason"]`` says why."""

    code = "machine_unreachable"
    text = (
        "the machine of the job could not be asked: {reason}. Nothing was changed; see that "
        "it answers and try again."
    )
    reason: str


class MachineRefused(MachineUnreachable):
    """The machine of a job refuses the connection; asked again it refuses it as before.

    ``is_unknown_host``: its name is not known, which may also be a network that is away.
    """

    code = "machine_refused"
    text = (
        "the machine of the job refuses the connection: {reason}. Nothing was changed; correct "
        "the connection settings or the key, then try again."
    )
    untold = ("is_unknown_host",)
    is_unknown_host: bool = False


class UnusableProfile(ReconcilerError):
    """A backend profile that no submission can be built from."""

    code = "unusable_profile"
    text = (
        "backend profile: {field} must be {expected}, found {found!r}. "
        "Correct the profile in the plan, or prepare the stage's submission.json by hand."
    )
    field: str
    expected: str
    found: object


class UnusablePath(ReconcilerError):
    """A path of a stage that is absolute, leaves the root, or lies where a job cannot write."""

    code = "unusable_path"
    text = "{stage}: {field} holds {path!r}; expected {expected}. Correct the stage's {field}."
    untold = ("expected",)
    stage: str
    field: str
    path: str
    expected: str


class LinkedStageFolder(ReconcilerError):
    """The folder of a stage is a symbolic link that leads out of the root."""

    code = "linked_stage_folder"
    text = (
        "{stage}: its folder is a symbolic link to {target}; expected a folder below the root. "
        "Replace the link by a folder; remote_root in the config of the stage's backend profile "
        "names the scratch space in which jobs work."
    )
    stage: str
    target: str


class RejectedSubmission(ReconcilerError):
    """DPDispatcher's own check refused the submission; ``data["output"]`` holds its words."""

    code = "rejected_submission"
    text = (
        "{path}: `dargs check` refused it: {output}. "
        "Correct stage parameters, resource_overrides or the prepared submission.json."
    )
    path: Path
    output: str


class MissingInput(ReconcilerError):
    """An input of the stage is not there."""

    code = "missing_input"
    text = (
        "input {path} is missing; expected a file or a folder below the workflow root. "
        "Produce it, or correct the stage's inputs."
    )
    path: str


class EmptyInput(ReconcilerError):
    """An input of the stage holds nothing."""

    code = "empty_input"
    text = "input {path} is empty; expected content. Produce it anew, or correct the inputs."
    path: str


class ProgramMissing(ReconcilerError):
    """A program that the job side runs is not installed."""

    code = "program_missing"
    text = "{program} was not found; looked at: {looked:, }. {remedy}"
    untold = ("remedy",)
    program: str
    looked: tuple[str, ...]
    remedy: str


class AlreadyMonitored(ReconcilerError):
    """Another monitor watches this stage; nothing was started."""

    code = "already_monitored"
    text = (
        "{stage} has a monitor already (it holds {lock}); nothing was started. "
        "`wfctl wait {stage}` waits for it."
    )
    stage: str
    lock: Path


class AlreadyDriven(ReconcilerError):
    """Another loop drives this workflow; this one did nothing."""

    code = "already_driven"
    text = (
        "another loop drives this workflow (it holds {lock}); expected none. "
        "Let it work, `wfctl events --follow` shows what it does; or end it and run again."
    )
    lock: Path


class AlreadyAutonomous(ReconcilerError):
    """Another runner serves this workflow; nothing was started."""

    code = "already_autonomous"
    text = (
        "another runner serves this workflow (it holds {lock}); expected none. "
        "`wfctl runner show` says how to watch it, `wfctl runner stop` ends it."
    )
    lock: Path


class NoRunner(ReconcilerError):
    """No runner serves this workflow."""

    code = "no_runner"
    text = "no runner is at work in {root}; `wfctl run --autonomous` starts one."
    root: Path


class RunnerFailed(ReconcilerError):
    """The runner did not take its lock, or did not end, in time."""

    code = "runner_failed"
    text = "waited {seconds:g} s for the runner in vain; look at {where}."
    where: str
    seconds: float


class AgentMissing(ReconcilerError):
    """There is no program to be the agent; nothing was started."""

    code = "agent_missing"
    text = (
        "expected --agent to name a program on the path or by its path, found {command!r}; "
        "nothing was started."
    )
    command: str


class AgentNotStarted(ReconcilerError):
    """The system cannot run the agent's program; the task was given to nobody."""

    code = "agent_not_started"
    text = (
        "the agent {program} could not be started: {why}; expected a program that the system "
        "can run, a script with its interpreter in the first line (#!/bin/sh). Correct it and "
        "run again."
    )
    program: str
    why: str


class EnvironmentNotReady(ReconcilerError):
    """``init.sh`` did not exit 0: nothing is begun in this environment."""

    code = "environment_not_ready"
    text = (
        "{script} exited {exit_code}, expected 0; nothing was started. Its output is kept in "
        "{kept}; it ends:\n{output}\nCorrect the environment and start again."
    )
    script: str
    exit_code: int
    output: str
    kept: str


class LaunchFailed(ReconcilerError):
    """The monitor ended before it took up its work; ``data["output"]`` says what it printed."""

    code = "launch_failed"
    text = (
        "{stage}: the monitor did not start{_ended}; {_said}\n"
        "Correct the cause; `wfctl rehydrate` says how to go on."
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
            "it printed nothing: something kills it (a limit of memory or processes, a person), "
            "or the machine is too busy for it."
        )


class UnusableName(ReconcilerError):
    """A stage or an attempt whose id no folder is named by; no command of ours records one."""

    code = "unusable_name"
    text = (
        "expected the ids of a stage and an attempt, found {name!r:.120}: no folder is named "
        "so. `wfctl fsck` looks at the log."
    )
    name: str
